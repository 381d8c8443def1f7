/* Random weights made on the device, for models that exist only as a shape
 * (loader/model/synthetic_model.h). */
#ifndef DGL_CORE_SYNTHETIC_FILL_H
#define DGL_CORE_SYNTHETIC_FILL_H

#include "core/exec/programs.h"
#include "core/memory/weights.h"

struct synthetic_filler {
    struct programs programs;
    const struct weight_layouts *layouts;
    struct gl_buffer *params; /* parameter block of the dispatch in hand */
    uint32_t seed;            /* another one for every band */
};

enum dgl_status synthetic_filler_init(struct synthetic_filler *f, struct dgl_device *dev,
                                      struct kernel_set *set, const struct weight_layouts *layouts);
void synthetic_filler_finish(struct synthetic_filler *f);
/* weights_params.fill; `ctx` is a struct synthetic_filler. */
enum dgl_status synthetic_fill(void *ctx, const struct weight *weight,
                               const struct weight_band *band);

#endif
