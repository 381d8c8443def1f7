/* ref_moe.h: the list of rows by expert (docs/operations.md) in plain C. The other operations of a
 * mixture of experts have core/oracle. Shares no code with the kernels. */
#ifndef DGL_TESTS_REF_MOE_H
#define DGL_TESTS_REF_MOE_H

#include <stdint.h>

/* LIST of moe_group from ids[tokens][top_k]: experts + 1 + tokens * top_k words. */
void ref_moe_group(const uint32_t *ids, uint32_t tokens, uint32_t top_k, uint32_t experts,
                   uint32_t *list);

#endif
