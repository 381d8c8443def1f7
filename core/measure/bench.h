/* Speed of prefill and decode of a session. */
#ifndef DGL_CORE_BENCH_H
#define DGL_CORE_BENCH_H

#include "core/seq/session.h"

/* dgl_bench(); the device is entered. */
enum dgl_status session_bench(struct dgl_session *s, const struct dgl_bench_params *params,
                              struct dgl_bench_result *out);

#endif
