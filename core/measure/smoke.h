/* Smoke test: compares a session with the host model and with stored answers. */
#ifndef DGL_CORE_SMOKE_H
#define DGL_CORE_SMOKE_H

#include "core/seq/session.h"

/* dgl_verify_smoke(); the device is entered. */
enum dgl_status session_smoke(struct dgl_session *s, const struct dgl_smoke_params *params,
                              struct dgl_smoke_result *out);

#endif
