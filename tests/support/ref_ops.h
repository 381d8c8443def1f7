/*
 * ref_ops.h: what operations should give (docs/operations.md), in plain C and doubles, and matrices
 * to try them on. Nothing here shares code with the kernels or with the library's decoders.
 */
#ifndef DGL_TESTS_REF_OPS_H
#define DGL_TESTS_REF_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "loader/quant/dtype.h"

/* Every format that weights may have on the device. */
#define REF_TYPES 10
extern const enum dgl_dtype ref_types[REF_TYPES];

/* A random matrix [rows, cols]: its exact values, and its rows as the file stores them and as
 * kernels read them. */
struct ref_matrix {
    enum dgl_dtype type;
    uint64_t rows, cols, row_bytes, row_words;
    uint8_t *stored;  /* rows * row_bytes */
    uint32_t *packed; /* rows * row_words, in the format's usual layout */
    double *values;   /* rows * cols */
};
/* The layout that a format usually has on the device. */
const char *ref_layout(enum dgl_dtype type);
/* Bits at random, so that every field of a block takes many values; what pads the last block of a
 * row is not zero. Fails the running test when out of memory. */
void ref_matrix_init(struct ref_matrix *m, enum dgl_dtype type, uint64_t rows, uint64_t cols,
                     uint64_t seed);
/* Sets `values` from `packed`, which something else has filled; fails when codes beyond the row's
 * end are not zero. */
void ref_matrix_decode_packed(struct ref_matrix *m);
void ref_matrix_finish(struct ref_matrix *m);

/* y[t, n] = sum_k w[n, k] x[t, k]; x and y without padding. */
void ref_matmul(const struct ref_matrix *w, const double *x, size_t tokens, double *y);
/* y[i] = x[i] / sqrt(mean(x^2) + eps) * gain[i] */
void ref_norm(const double *x, const double *gain, size_t count, double eps, double *y);
/* out[head, dim] from `splits` partial results: p as attn_decode leaves it; `sinks` [heads] or
 * NULL.
 */
void ref_merge(const float *p, size_t heads, size_t splits, size_t head_dim, const float *sinks,
               double *out);

/* Random numbers, normal-ish. */
void ref_fill(float *values, size_t count, uint64_t *seed);

#endif
