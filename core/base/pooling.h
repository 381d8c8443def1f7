/* Pooling: one embedding from the hidden states of the tokens of a text, added pass by pass. The
 * ways are those of sentence-transformers, with its names. */
#ifndef DGL_BASE_POOLING_H
#define DGL_BASE_POOLING_H

#include "core/base/str.h"
#include "core/dopplergl.h"

/* All names, separated by '|'. */
#define DGL_POOLING_NAMES "mean|cls|lasttoken|last|max|mean_sqrt_len_tokens|weightedmean"

/* Finds a way by name, or by the alias "last" for lasttoken. Returns false if it is unknown. */
bool dgl_pooling_parse(struct dgl_str name, enum dgl_pooling *out);

struct dgl_pool {
    enum dgl_pooling pooling; /* not DGL_POOLING_MODEL or DGL_POOLING_NONE */
    size_t width;             /* values of a row */
    size_t count;             /* rows so far */
    double *values;           /* [width] */
};
/* Returns false if memory is exhausted. Call dgl_pool_finish() in either case. */
bool dgl_pool_init(struct dgl_pool *pool, enum dgl_pooling pooling, size_t width);
void dgl_pool_finish(struct dgl_pool *pool);
/* Returns true if the pooling uses only the last row of a text. */
bool dgl_pool_needs_last(const struct dgl_pool *pool);
/* Adds the next rows, [num, width]. With dgl_pool_needs_last(), the other rows may be left out. */
void dgl_pool_add(struct dgl_pool *pool, const float *rows, size_t num);
/* Begins the next text. */
void dgl_pool_reset(struct dgl_pool *pool);
/* Writes the first `num` values of the embedding, and begins the next text. */
void dgl_pool_take(struct dgl_pool *pool, float *row, size_t num);

/* Scales a row as llama.cpp's embd_normalize does. 0: the largest magnitude becomes 32760. p > 0:
 * the p-norm becomes 1. Negative: unchanged. A row of zeros stays as it is. */
enum { DGL_NORMALIZE_NONE = -1, DGL_NORMALIZE_EUCLIDEAN = 2, DGL_NORMALIZE_MAX = 1000 };
void dgl_normalize(float *row, size_t num, int norm);

#endif
