/* Random weights made on the device, for models that exist only as a shape
 * (loader/model/synthetic_model.h). */
#ifndef DGL_CORE_SYNTHETIC_FILL_H
#define DGL_CORE_SYNTHETIC_FILL_H

#include "core/exec/exec.h"

struct synthetic_filler {
    struct exec_single single;
    uint32_t seed; /* differs for each band */
};

/* Call synthetic_filler_finish() also on failure. */
enum dgl_status synthetic_filler_init(struct synthetic_filler *f, struct dgl_device *dev,
                                      struct kernel_set *set);
/* Accepts a zeroed struct. */
void synthetic_filler_finish(struct synthetic_filler *f);
/* weight_upload_params.fill; `ctx` is a struct synthetic_filler. */
enum dgl_status synthetic_fill(void *ctx, const struct weight *weight,
                               const struct weight_band *band, struct gl_range range);

#endif
