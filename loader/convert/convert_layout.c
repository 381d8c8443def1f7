/* Writes matrices that are stored in columns, or with blocks that cross rows. Bands of lines are
 * gathered as floats and encoded like rows. */
#include <stdlib.h>

#include "core/base/checked.h"
#include "loader/convert/convert_plan.h"
#include "loader/quant/quant.h"

#define BAND_VALUES (UINT64_C(16) << 20) /* gathered at a time; at least a column */
#define FLAT_LINE   UINT64_C(4096)       /* encoded at a time: whole blocks of every type */
#define READ_BYTES  (UINT64_C(16) << 20) /* of the source; at least a row */

bool convert_is_relaid(const struct convert_item *item)
{
    uint64_t block = dgl_dtype_get(item->type)->block;
    return item->layout == RDRR_COLUMN ||
           (item->layout == RDRR_FLAT && item->rows > 1 && item->cols % block != 0);
}

/* A band of a matrix. Columns: columns [first, first + count) of every row. Flat: these values of
 * the stream. */
struct band {
    const struct convert_work *work;
    const struct convert_item *item;
    uint64_t first, count;
    float *out; /* columns one after the other, or the values */
};

/* Fills the band from all rows that contain a part of it. */
static enum dgl_status band_gather(const struct band *b)
{
    const struct convert_item *item = b->item;
    bool flat = item->layout == RDRR_FLAT;
    uint64_t row = flat ? b->first / item->cols : 0;
    uint64_t end = flat ? dgl_div_up_u64(b->first + b->count, item->cols) : item->rows;
    uint64_t step = item->from_row < READ_BYTES ? READ_BYTES / item->from_row : 1;
    step = step < end - row ? step : end - row;
    uint8_t *src = dgl_calloc((size_t)step, (size_t)item->from_row);
    float *values = dgl_new_array(float, item->cols);
    enum dgl_status status;
    TRY(src && values ? DGL_OK
                      : dgl_fail_memory(b->work->log, item->from->name, step * item->from_row));
    for (; row < end; row += step) {
        uint64_t rows = end - row < step ? end - row : step;
        TRY(convert_rows_read(b->work, item, row, rows, src));
        for (uint64_t r = 0; r < rows; r++) {
            dgl_row_decode(item->from->dtype, src + r * item->from_row, item->cols, values);
            for (uint64_t i = 0; i < b->count && !flat; i++)
                b->out[i * item->rows + row + r] = values[b->first + i];
            for (uint64_t c = 0; c < item->cols && flat; c++) {
                uint64_t at = (row + r) * item->cols + c;
                if (at >= b->first && at < b->first + b->count)
                    b->out[at - b->first] = values[c];
            }
        }
    }
done:
    free(src);
    free(values);
    return status;
}

/* Encodes and writes lines of `len` floats; `first` is for messages. */
static enum dgl_status lines_put(const struct band *b, const float *lines, uint64_t len,
                                 uint64_t count, uint64_t first)
{
    const struct tensor_info wide = {.name = b->item->from->name, .dtype = DGL_F32};
    struct convert_item line = {.from = &wide, .type = b->item->type, .cols = len};
    line.from_row = len * sizeof(float);
    if (count == 0 || len == 0)
        return DGL_OK;
    bool fits = dgl_dtype_row_bytes(line.type, len, &line.row_bytes);
    uint8_t *dst = fits ? dgl_calloc((size_t)count, (size_t)line.row_bytes) : NULL;
    enum dgl_status status = DGL_OK;
    if (!dst)
        return dgl_fail_memory(b->work->log, b->item->from->name, count * len);
    status = convert_rows(b->work, &(struct convert_rows){.item = &line,
                                                          .src = (const uint8_t *)lines,
                                                          .dst = dst,
                                                          .first_row = first,
                                                          .rows = count});
    if (status == DGL_OK)
        status = b->work->sink.write(b->work->sink.priv, dst, (size_t)(count * line.row_bytes));
    free(dst);
    return status;
}

enum dgl_status convert_relaid(const struct convert_work *work, const struct convert_item *item,
                               struct convert_progress *progress)
{
    bool column = item->layout == RDRR_COLUMN;
    uint64_t units = column ? item->cols : item->rows * item->cols; /* the plan checked it */
    uint64_t values = column ? item->rows : 1, bytes = item->rows * item->from_row, told = 0;
    uint64_t step = values < BAND_VALUES ? BAND_VALUES / values : 1; /* flat: whole lines */
    step = step < units ? step : units;
    struct band b = {.work = work, .item = item};
    b.out = dgl_calloc((size_t)step, (size_t)values * sizeof(float));
    enum dgl_status status;
    TRY(b.out ? DGL_OK : dgl_fail_memory(work->log, item->from->name, step * values));
    for (; b.first < units; b.first += step) {
        b.count = units - b.first < step ? units - b.first : step;
        TRY(band_gather(&b));
        if (column) {
            TRY(lines_put(&b, b.out, item->rows, b.count, b.first));
        } else {
            uint64_t whole = b.count / FLAT_LINE, rest = b.count % FLAT_LINE;
            uint64_t line = b.first / FLAT_LINE;
            TRY(lines_put(&b, b.out, FLAT_LINE, whole, line));
            TRY(lines_put(&b, b.out + whole * FLAT_LINE, rest, 1, line + whole));
        }
        uint64_t done = (uint64_t)((double)bytes * (double)(b.first + b.count) / (double)units);
        TRY(convert_advance(progress, done - told));
        told = done;
    }
done:
    free(b.out);
    return status;
}
