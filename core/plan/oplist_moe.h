/* oplist_moe.h: the MLP of a layer of experts as operations. */
#ifndef DGL_CORE_OPLIST_MOE_H
#define DGL_CORE_OPLIST_MOE_H

#include "core/plan/oplist.h"

/* Most experts of a layer that the kernels of moe_route support. */
#define MOE_MAX_EXPERTS 512

/* Adds the weighted results of the chosen experts for the norm of x to x, in `stream`. The layer
 * must have a router. */
void oplist_moe(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                int32_t layer, enum plan_buffer stream);
/* Floats between two rows of router logits. */
int32_t moe_logits_stride(const struct moe_desc *moe);

#endif
