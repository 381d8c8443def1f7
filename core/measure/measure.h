/* Calls that measure or test a session: dgl_bench(), dgl_tune() and dgl_verify_smoke(). The caller
 * must have entered the device. */
#ifndef DGL_CORE_MEASURE_H
#define DGL_CORE_MEASURE_H

#include "core/seq/session.h"

enum dgl_status session_bench(struct dgl_session *s, const struct dgl_bench_params *params,
                              struct dgl_bench_result *out);
enum dgl_status session_tune(struct dgl_session *s, const struct dgl_tune_params *params,
                             struct dgl_tune_result *out);
/* Compares the session with the host model and with stored answers. */
enum dgl_status session_smoke(struct dgl_session *s, const struct dgl_smoke_params *params,
                              struct dgl_smoke_result *out);

#endif
