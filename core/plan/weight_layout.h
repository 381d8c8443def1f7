/* Layouts: the orders in which kernels read rows of weights (docs/operations.md). Planning, packing
 * and uploading share this table. */
#ifndef DGL_CORE_WEIGHT_LAYOUT_H
#define DGL_CORE_WEIGHT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/quant/dtype.h"

/* Rows of a split layout are whole groups of 256 columns and of 16 bytes, so that kernels read four
 * words at a time. */
enum { WEIGHT_SPLIT_COLS = 256, WEIGHT_SPLIT_BYTES = 16 };

struct weight_layout {
    enum dgl_dtype dtype;
    const char *name; /* the word of a kernel's LAYOUT */
    /* Layout "split": values and bytes of a block in the file, and the offsets of codes and scale
     * in it. q4_k blocks are packed anew (docs/operations.md). If `values` is 0, rows keep the
     * order of the file. */
    uint32_t values, bytes, codes_at, code_bytes, scale_at, scale_bytes;
};

/* Returns NULL if the layout does not support weights of that type. The result is static. */
const struct weight_layout *weight_layout_find(enum dgl_dtype dtype, const char *name);
/* Computes the length in 32-bit words of a packed row of `cols` values. Returns false on
 * overflow. */
bool weight_layout_stride(const struct weight_layout *layout, uint64_t cols, uint64_t *words);

#endif
