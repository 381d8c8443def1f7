/*
 * ref_ops.h: results of operations (docs/operations.md) in plain C and doubles, and matrices to try
 * them on. Shares no code with the kernels or with the library's decoders of formats.
 */
#ifndef DGL_CORE_REF_OPS_H
#define DGL_CORE_REF_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/quant/dtype.h"

/* Every format that weights may have on the device: their number, and the i-th. */
#define REF_MOST_TYPES 32
size_t ref_types(void);
enum dgl_dtype ref_type(size_t i);

/* A random matrix [rows, cols]: its exact values, and its rows as the file stores them and as
 * kernels read them. */
struct ref_matrix {
    enum dgl_dtype type;
    uint64_t rows, cols, row_bytes, row_words;
    uint8_t *stored;  /* rows * row_bytes */
    uint32_t *packed; /* rows * row_words */
    double *values;   /* rows * cols */
};
/* The layout that a format usually has on the device. */
const char *ref_layout(enum dgl_dtype type);
/* Fills a matrix with random bits, so that every field of a block has many values. The padding of
 * the last block in a row is not zero. If `layout` is NULL, the format's usual one is used. Returns
 * false if memory runs out or the format has no such layout. */
bool ref_matrix_init(struct ref_matrix *m, enum dgl_dtype type, const char *layout, uint64_t rows,
                     uint64_t cols, uint64_t seed);
/* Sets `values` from `packed`, which the caller filled in the usual layout. The format must be one
 * of operation synth. */
void ref_matrix_decode_packed(struct ref_matrix *m);
void ref_matrix_finish(struct ref_matrix *m);

/* y[i] = x[i] / sqrt(mean(x^2) + eps) * gain[i]; y may be x */
void ref_norm(const double *x, const float *gain, size_t count, double eps, double *y);
void ref_norm_floats(const float *x, const float *gain, size_t count, double eps, double *y);
/* out[head, dim] from `splits` partial results: p as attn_decode leaves it; `sinks` [heads] or
 * NULL.
 */
void ref_merge(const float *p, size_t heads, size_t splits, size_t head_dim, const float *sinks,
               double *out);

/* LIST of moe_group from ids[tokens][top_k]: experts + 1 + tokens * top_k words. */
void ref_moe_group(const uint32_t *ids, uint32_t tokens, uint32_t top_k, uint32_t experts,
                   uint32_t *list);

/* Repeatable random numbers (splitmix64). Floats have mean 0 and variance 1, and stay within
 * 3.5. */
uint64_t ref_rand(uint64_t *seed);
float ref_rand_float(uint64_t *seed);

#endif
