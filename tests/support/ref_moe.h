/* ref_moe.h: what the operations of a mixture of experts should give (docs/operations.md), in plain
 * C and doubles. Nothing here shares code with the kernels. */
#ifndef DGL_TESTS_REF_MOE_H
#define DGL_TESTS_REF_MOE_H

#include <stddef.h>
#include <stdint.h>

/* The top_k largest of logits[experts], largest first, ties to the lower id, NaN the largest; and
 * their weights by `scoring`, a word of moe_route's attribute. Every step is taken as the names of
 * the scorings say. */
void ref_moe_route(const float *logits, uint32_t experts, uint32_t top_k, const char *scoring,
                   uint32_t *ids, double *weights);

/* LIST of moe_group from ids[tokens][top_k]: experts + 1 + tokens * top_k words. */
void ref_moe_group(const uint32_t *ids, uint32_t tokens, uint32_t top_k, uint32_t experts,
                   uint32_t *list);

/* Gate and up of one feature to its activation; `act` is a word of moe_matmul's attribute. */
double ref_moe_act(const char *act, double gate, double up, double alpha, double limit);

#endif
