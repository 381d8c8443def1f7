/* Transposes matrices while they are read: a band of rows at a time, column by column. */
#include "loader/tensor/tensor_transpose.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

enum { BAND_BYTES = 4 << 20 }; /* per band; at least a row */

void tensor_window_copy(const struct tensor_window *w, const void *made, uint64_t at, uint64_t len)
{
    uint64_t from = at > w->offset ? at : w->offset;
    uint64_t end = w->offset + w->size < at + len ? w->offset + w->size : at + len;
    if (from < end)
        memcpy(w->dst + (from - w->offset), (const uint8_t *)made + (from - at),
               (size_t)(end - from));
}

enum dgl_status tensor_transpose_read(const struct dgl_log *log, const struct tensor_source *src,
                                      const struct tensor_transpose *t,
                                      const struct tensor_window *w)
{
    uint64_t row_bytes = t->cols * t->value; /* the source checked the tensor's size */
    uint64_t most = row_bytes < BAND_BYTES ? BAND_BYTES / row_bytes : 1;
    most = most < t->rows ? most : t->rows;
    uint64_t row = w->offset / row_bytes, end = (w->offset + w->size + row_bytes - 1) / row_bytes;
    uint8_t *made = dgl_calloc((size_t)most, (size_t)row_bytes);
    uint8_t *strip = dgl_calloc((size_t)most, t->value);
    enum dgl_status status;
    TRY(made && strip ? DGL_OK : dgl_fail_memory(log, "turned tensor", most * row_bytes));
    while (row < end) {
        /* A band of `rows` rows of one matrix. */
        uint64_t matrix = row / t->rows, first = row % t->rows, rows = most;
        if (rows > t->rows - first)
            rows = t->rows - first;
        if (rows > end - row)
            rows = end - row;
        for (uint64_t c = 0; c < t->cols; c++) {
            /* The band's part of a stored row, which is a column here. */
            uint64_t at = ((matrix * t->cols + c) * t->rows + first) * t->value;
            TRY(tensor_source_read(log, src, t->index, at, strip, (size_t)(rows * t->value)));
            for (uint64_t r = 0; r < rows; r++)
                memcpy(made + (r * t->cols + c) * t->value, strip + r * t->value, t->value);
        }
        tensor_window_copy(w, made, row * row_bytes, rows * row_bytes);
        row += rows;
    }
done:
    free(made);
    free(strip);
    return status;
}
