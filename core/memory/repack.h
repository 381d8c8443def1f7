/* Rows of weights from the order of files to the order that kernels read: the layouts of
 * docs/operations.md. */
#ifndef DGL_CORE_REPACK_H
#define DGL_CORE_REPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/quant/dtype.h"

/* Length in 32-bit words of a packed row of `cols` values. False: no such layout for this type, or
 * overflow. */
bool repack_stride(enum dgl_dtype type, const char *layout, uint64_t cols, uint64_t *words);

/* Packs one row. `src` holds dgl_dtype_row_bytes(type, cols) bytes as in the file, `dst`
 * repack_stride() words, all of which are written; padding is zero. False: no such layout for this
 * type. */
bool repack_row(enum dgl_dtype type, const char *layout, const void *src, uint64_t cols,
                uint32_t *dst);

#endif
