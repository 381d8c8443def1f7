/* The tuner: kernels and values of their tunables, measured on a model's own operations. */
#ifndef DGL_CORE_TUNE_H
#define DGL_CORE_TUNE_H

#include "core/seq/score.h"
#include "core/exec/tune_store.h"

/* Behind dgl_tune(); the device is entered. */
enum dgl_status session_tune(struct dgl_session *s, const struct dgl_tune_params *params,
                             struct dgl_tune_result *out);

#endif
