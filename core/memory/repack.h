/* Converts rows of weights from the order of files to a layout (core/plan/weight_layout.h). */
#ifndef DGL_CORE_REPACK_H
#define DGL_CORE_REPACK_H

#include "core/plan/weight_layout.h"

/* Packs one row. `src` is dgl_dtype_row_bytes(layout->dtype, cols) bytes of the file. `dst` is
 * weight_layout_stride() words, all of which are written; padding is zero. */
void repack_row(const struct weight_layout *layout, const void *src, uint64_t cols, uint32_t *dst);

#endif
