/* Layouts: the orders in which kernels read rows of weights (docs/operations.md). Planning, packing
 * and uploading share this table. */
#ifndef DGL_CORE_WEIGHT_LAYOUT_H
#define DGL_CORE_WEIGHT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/quant/dtype.h"

/* Rows of a split layout are whole groups of 16 bytes, so that kernels read four words at a
 * time. */
enum { WEIGHT_SPLIT_BYTES = 16, WEIGHT_MAX_PLANES = 4 };

/* A field of all blocks of a row, one block's after the other. */
struct weight_plane {
    uint8_t at, bytes; /* in a block; 0 bytes: no plane */
};

struct weight_layout {
    enum dgl_dtype dtype;
    const char *name; /* the word of a kernel's LAYOUT */
    /* The planes of a row, in their order. None if rows keep the order of the file. Some formats'
     * blocks are rearranged first: core/memory/repack.c. */
    struct weight_plane planes[WEIGHT_MAX_PLANES];
};

/* Returns NULL if the layout does not support weights of that type. The result is static. */
const struct weight_layout *weight_layout_find(enum dgl_dtype dtype, const char *name);
/* Computes the length in 32-bit words of a packed row of `cols` values. Returns false on
 * overflow. */
bool weight_layout_stride(const struct weight_layout *layout, uint64_t cols, uint64_t *words);

#endif
