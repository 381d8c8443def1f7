/* An engine: a plan for one set of kernels with its programs and the executor that runs it.
 * Replaced whole when kernels are swapped. */
#ifndef DGL_CORE_ENGINE_H
#define DGL_CORE_ENGINE_H

#include "core/exec/exec.h"

struct engine {
    struct plan plan;
    struct programs programs; /* of plan.kernels */
    struct exec *exec;        /* runs `plan` */
};

/* Compiles nothing yet. On failure *out is NULL. */
enum dgl_status engine_create(struct dgl_device *dev, const struct plan_params *params,
                              struct engine **out);
/* Accepts NULL in *engine. Runs of it may still be destroyed, but not submitted. */
void engine_destroy(struct engine **engine);

#endif
