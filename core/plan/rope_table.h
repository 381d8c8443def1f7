/* The ROPE tables of docs/operations.md. */
#ifndef DGL_CORE_ROPE_TABLE_H
#define DGL_CORE_ROPE_TABLE_H

#include "loader/desc/model_desc.h"

/* Numbers of a head that kernels rotate, a multiple of 4: rope->dims, or 2 more. In that case the
 * last pair is not rotated (weight_list.c puts numbers without a partner there). */
int32_t rope_table_dims(const struct rope_desc *rope);
/* Bytes of a table for positions below `context`. */
uint64_t rope_table_bytes(const struct rope_desc *rope, int32_t context);
/* Fills `table`, of rope_table_bytes(), with cosine and sine of every position below `context`, for
 * a session of `tokens` tokens. Computes in double. Returns false if memory runs out. */
bool rope_table_fill(const struct rope_desc *rope, int32_t context, int32_t tokens, float *table);

#endif
