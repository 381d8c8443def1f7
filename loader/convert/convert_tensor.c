/* Converts one tensor: rows are read in chunks, converted on several threads and written in
 * order. */
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/thread.h"
#include "loader/convert/convert_plan.h"
#include "loader/quant/quant.h"

#define CHUNK_BYTES  (UINT64_C(16) << 20) /* of floats; at least one row */
#define GROUP_VALUES 32768                /* per piece of work for a thread; at least one row */

/* A chunk of rows to convert. */
struct chunk {
    const struct convert_item *item;
    const uint8_t *src;
    uint8_t *dst;
    uint64_t rows, group; /* in the chunk, per piece of work */
    bool fast;
    double limit;  /* largest magnitude of the new type */
    uint64_t *bad; /* per piece: 1 + index of its first value that does not fit, or 0 */
    float *bad_value;
};

/* Logs no error: several threads may find a fault, and one line is enough. Infinities and NaN fit
 * the new type if it has them. */
static enum dgl_status convert_group(void *ctx, size_t index)
{
    struct chunk *c = ctx;
    const struct convert_item *item = c->item;
    uint64_t first = index * c->group;
    uint64_t last = first + c->group < c->rows ? first + c->group : c->rows;
    bool block = dgl_dtype_get(item->type)->block > 1;
    enum dgl_status status = DGL_OK;
    float *row = dgl_new_array(float, item->cols);
    if (!row)
        return DGL_ERR_NO_MEMORY;
    for (uint64_t r = first; r < last; r++) {
        dgl_row_decode(item->from->dtype, c->src + r * item->from_row, item->cols, row);
        uint64_t at = 0;
        while (at < item->cols && (isfinite(row[at]) ? fabs((double)row[at]) <= c->limit : !block))
            at++;
        if (at < item->cols) {
            c->bad[index] = 1 + r * item->cols + at;
            c->bad_value[index] = row[at];
            status = DGL_ERR_INVALID_ARG;
            break;
        }
        (c->fast ? dgl_row_encode_fast : dgl_row_encode)(item->type, row, item->cols,
                                                         c->dst + r * item->row_bytes);
    }
    free(row);
    return status;
}

enum dgl_status convert_advance(struct convert_progress *progress, uint64_t bytes)
{
    progress->done += bytes;
    if (progress->cb && !progress->cb(progress->priv, "bytes", progress->done, progress->total))
        return DGL_ERR_CANCELLED;
    return DGL_OK;
}

enum dgl_status convert_rows(const struct convert_work *work, const struct convert_rows *rows)
{
    uint64_t cols = rows->item->cols;
    struct chunk chunk = {.item = rows->item,
                          .src = rows->src,
                          .dst = rows->dst,
                          .rows = rows->rows,
                          .group = cols < GROUP_VALUES ? GROUP_VALUES / cols : 1,
                          .fast = work->fast,
                          .limit = dgl_row_limit(rows->item->type)};
    size_t groups = (size_t)((chunk.rows + chunk.group - 1) / chunk.group);
    enum dgl_status status;
    chunk.bad = dgl_new_array(uint64_t, groups);
    chunk.bad_value = dgl_new_array(float, groups);
    if (!chunk.bad || !chunk.bad_value)
        TRY(dgl_fail_memory(work->log, "conversion", groups * sizeof(*chunk.bad)));
    status = dgl_parallel_for(work->threads, groups, convert_group, &chunk);
    if (status == DGL_OK)
        goto done;
    for (size_t i = 0; i < groups && status == DGL_ERR_INVALID_ARG; i++) {
        if (chunk.bad[i] == 0)
            continue;
        uint64_t at = chunk.bad[i] - 1;
        TRY(dgl_fail(
            work->log, status,
            "%s: tensor %s: value [%llu, %llu] is %g, which %s cannot hold; convert to f32 "
            "or bf16",
            work->model->path,
            tensor_source_printable(work->model->tensors, rows->item->from->name).text,
            (unsigned long long)(rows->first_row + at / cols), (unsigned long long)(at % cols),
            (double)chunk.bad_value[i], dgl_dtype_get(rows->item->type)->name));
    }
    status = dgl_fail_memory(work->log, rows->item->from->name, cols * sizeof(float));
done:
    free(chunk.bad);
    free(chunk.bad_value);
    return status;
}

enum dgl_status convert_rows_read(const struct convert_work *work, const struct convert_item *item,
                                  uint64_t row, uint64_t rows, void *dst)
{
    uint64_t parts = item->fused ? item->part_rows : item->rows; /* of the first tensor */
    uint64_t here = row >= parts ? 0 : rows < parts - row ? rows : parts - row;
    uint64_t from = row > parts ? row - parts : 0;
    uint8_t *to = dst;
    enum dgl_status status = DGL_OK;
    if (here > 0)
        status = tensor_source_read(work->log, work->model->tensors, item->index,
                                    row * item->from_row, to, (size_t)(here * item->from_row));
    if (status == DGL_OK && here < rows)
        status = tensor_source_read(work->log, work->model->tensors, item->second,
                                    from * item->from_row, to + here * item->from_row,
                                    (size_t)((rows - here) * item->from_row));
    return status;
}

enum dgl_status convert_tensor(const struct convert_work *work, struct convert_item *item,
                               struct convert_progress *progress)
{
    enum dgl_status status = work->sink.begin(work->sink.priv, &item->offset);
    if (status != DGL_OK)
        return status;
    if (convert_is_relaid(item))
        return convert_relaid(work, item, progress);
    bool same = item->type == item->from->dtype;
    uint64_t wide = item->cols * sizeof(float); /* the plan's sizes are checked: no overflow */
    uint64_t step = wide < CHUNK_BYTES ? CHUNK_BYTES / wide : 1;
    step = step < item->rows ? step : item->rows;
    uint8_t *src = dgl_calloc((size_t)step, (size_t)item->from_row);
    uint8_t *dst = same ? src : dgl_calloc((size_t)step, (size_t)item->row_bytes);
    TRY(src && dst ? DGL_OK : dgl_fail_memory(work->log, item->from->name, step * wide));
    for (uint64_t row = 0; row < item->rows; row += step) {
        uint64_t rows = item->rows - row < step ? item->rows - row : step;
        TRY(convert_rows_read(work, item, row, rows, src));
        if (!same)
            TRY(convert_rows(work, &(struct convert_rows){item, src, dst, row, rows}));
        TRY(work->sink.write(work->sink.priv, dst, (size_t)(rows * item->row_bytes)));
        TRY(convert_advance(progress, rows * item->from_row));
    }
done:
    if (!same)
        free(dst);
    free(src);
    return status;
}
