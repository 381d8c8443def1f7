/*
 * weights_builder.h: what the files of weights_*.c share while a model is loaded. Items first:
 * matrices as strips of tensors' rows, vectors as pieces of tensors; then each is given its place
 * (weights_place.c), and its bytes are streamed there (weights_upload.c).
 */
#ifndef DGL_CORE_WEIGHTS_BUILDER_H
#define DGL_CORE_WEIGHTS_BUILDER_H

#include "core/memory/weights.h"

#define WEIGHTS_MAX_BUFFERS 4096

/* Rows [from, from + count) of a tensor become rows to, to + step, to + 2 step ... of a weight. */
struct strip {
    long tensor;
    uint64_t from, count, to;
    uint32_t step; /* 1, or 2 where two strips alternate */
};

/* A weight and its strips; together they cover each of its rows once. */
struct matrix_item {
    struct weight *weight;
    size_t first_strip, num_strips;
    bool pairs; /* rows 2i and 2i + 1 belong together: one format, even bands */
    long bias;  /* values of the rows' biases, to lie behind them; TENSOR_NONE = no such */
};

/* A tensor's values v at floats at, at + step ... of a vector, as scale * (v + add). */
struct piece {
    long tensor;
    uint64_t count, at;
    uint32_t step;
    double add, scale;
};

/* f32 values of one binding; what no piece covers is 0. */
struct vector_item {
    struct gl_range *range;
    size_t first_piece, num_pieces;
    uint64_t count; /* floats */
    uint32_t chunk;
};

struct builder {
    const struct weights_params *p;
    struct model_weights *w;
    struct matrix_item *matrices;
    size_t num_matrices, cap_matrices;
    struct strip *strips;
    size_t num_strips, cap_strips;
    struct vector_item *vectors;
    size_t num_vectors, cap_vectors;
    struct piece *pieces;
    size_t num_pieces, cap_pieces;
    bool failed;                              /* out of memory while listing */
    uint64_t chunk_used[WEIGHTS_MAX_BUFFERS]; /* bytes placed in each buffer */
    uint32_t num_chunks;
    uint64_t done, total; /* progress in bytes read */
};

static inline const struct dgl_log *builder_log(const struct builder *b)
{
    return b->p->dev->log;
}

static inline const struct tensor_info *builder_tensor(const struct builder *b, long tensor)
{
    return tensor_source_at(b->p->tensors, (size_t)tensor);
}

/* The format that a tensor has on the device. */
enum dgl_dtype builder_dtype(const struct builder *b, long tensor);

/* Shapes, bands and ranges of every item, without a buffer yet; model_weights.bytes. */
enum dgl_status weights_place(struct builder *b);
/* Buffers, and the ranges' places in them. */
enum dgl_status weights_create_buffers(struct builder *b);
/* The bytes of every item. */
enum dgl_status weights_upload(struct builder *b);

#endif
