/* Reads matrices row by row that are stored by columns, for views that show tensors in another
 * order than their files. */
#ifndef DGL_LOADER_TENSOR_TRANSPOSE_H
#define DGL_LOADER_TENSOR_TRANSPOSE_H

#include "loader/tensor/tensor_source.h"

/* Requested range of a tensor and its destination. */
struct tensor_window {
    uint64_t offset; /* of the read, in the tensor as shown */
    size_t size;
    uint8_t *dst;
};
/* Copies the part of `made` that lies in the window. `made` is bytes [at, at + len) of the tensor
 * as shown. */
void tensor_window_copy(const struct tensor_window *w, const void *made, uint64_t at, uint64_t len);

/* A tensor of whole values: stored [..., cols, rows], shown [..., rows, cols]. */
struct tensor_transpose {
    size_t index; /* in the source */
    uint64_t rows, cols;
    uint32_t value; /* bytes */
};
/* Reads the window of the tensor as shown, in bands of rows and in bounded memory. */
enum dgl_status tensor_transpose_read(const struct dgl_log *log, const struct tensor_source *src,
                                      const struct tensor_transpose *t,
                                      const struct tensor_window *w);

#endif
