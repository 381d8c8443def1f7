/* Functions on single values and rows, in doubles, as docs/operations.md defines them. Blocks
 * consist of them. */
#ifndef DGL_CORE_ORACLE_OPS_H
#define DGL_CORE_ORACLE_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "loader/desc/model_desc.h"

double oracle_silu(double x);
/* The tanh form. */
double oracle_gelu(double x);
double oracle_softcap(double x, double cap);
/* Gate and up of one feature to its activation. `alpha` and `limit` are of
 * MODEL_ACT_SWIGLU_CLAMP. */
double oracle_glu(enum model_act act, double gate, double up, double alpha, double limit);

/* Finds the top_k largest of logits[experts] in descending order, and their weights. Ties go to the
 * lower id, and NaN is the largest. The names of the scorings list the steps in order. */
void oracle_route(const double *logits, uint32_t experts, uint32_t top_k, enum moe_scoring scoring,
                  uint32_t *ids, double *weights);

#endif
