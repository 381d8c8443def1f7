/* Uploads weights to the device, a few rows or one vector at a time through host memory. */
#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/repack.h"
#include "core/memory/weight_buffers.h"
#include "loader/quant/quant.h"

/* Host staging for one upload step. */
#define STAGE_BYTES (4ull << 20)

struct upload {
    const struct weight_buffers *wb;
    struct dgl_device *dev;
    const struct weight_upload_params *p;
    uint64_t done, total; /* progress in bytes read */
};

static const struct tensor_info *tensor_at(const struct upload *u, long tensor)
{
    return tensor_source_at(u->p->tensors, (size_t)tensor);
}

static enum dgl_status advance(struct upload *u, uint64_t bytes)
{
    u->done += bytes;
    if (u->p->progress_cb && !u->p->progress_cb(u->p->progress_priv, "bytes", u->done, u->total))
        return dgl_fail(u->dev->log, DGL_ERR_CANCELLED, "loading was cancelled");
    return DGL_OK;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Host memory for one upload step of a band. */
struct stage {
    uint8_t *file;    /* rows as stored */
    uint32_t *packed; /* rows as the kernel wants them */
    float *row;       /* values of one row, for changes of type */
    void *changed;    /* one row in the device's type, as in a file */
};

static bool pack_row(const struct weight *w, const struct weight_band *band, enum dgl_dtype stored,
                     const struct stage *stage, const uint8_t *src, uint32_t *dst)
{
    enum dgl_dtype promoted;
    if (stored != band->dtype) {
        bool exact = dgl_dtype_promoted(stored, &promoted) && promoted == band->dtype;
        bool ok = exact ? dgl_row_promote(stored, src, w->cols, stage->changed)
                        : dgl_row_decode(stored, src, w->cols, stage->row) &&
                              dgl_row_encode(band->dtype, stage->row, w->cols, stage->changed);
        if (!ok)
            return false;
        src = stage->changed;
    }
    repack_row(band->layout, src, w->cols, dst);
    return true;
}

/* The i-th row of a slice at or after weight row `row`: rows to, to + step ... */
static uint64_t slice_index(const struct weight_slice *s, uint64_t row)
{
    uint64_t i = row <= s->to ? 0 : (row - s->to + s->step - 1) / s->step;
    return i < s->count ? i : s->count;
}

/* Reads and packs weight rows [row, row + count) into the stage: from each slice its rows in that
 * range, every step-th row of the stage. */
static enum dgl_status stage_rows(struct upload *u, const struct weight *w,
                                  const struct weight_band *band, const struct stage *stage,
                                  uint64_t row, uint64_t count)
{
    const struct dgl_log *log = u->dev->log;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < w->num_slices; i++) {
        const struct weight_slice *s = &u->wb->weights->slices[w->first_slice + i];
        const struct tensor_info *info = tensor_at(u, s->tensor);
        uint64_t begin = slice_index(s, row), end = slice_index(s, row + count), row_bytes;
        if (begin >= end)
            continue;
        if (!dgl_dtype_row_bytes(info->dtype, w->cols, &row_bytes))
            return dgl_fail(log, DGL_ERR_FORMAT, "%s: row size overflows",
                            DGL_PRINTABLE(info->name));
        TRY(tensor_source_read(log, u->p->tensors, (size_t)s->tensor, (s->from + begin) * row_bytes,
                               stage->file, (size_t)((end - begin) * row_bytes)));
        uint32_t *dst = stage->packed + (s->to + begin * s->step - row) * band->row_words;
        for (uint64_t j = 0; j < end - begin; j++)
            if (!pack_row(w, band, info->dtype, stage, stage->file + j * row_bytes,
                          dst + j * s->step * band->row_words))
                TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: cannot pack %s rows",
                             DGL_PRINTABLE(info->name), dgl_dtype_get(info->dtype)->name));
        TRY(advance(u, (end - begin) * row_bytes));
    }
done:
    return status;
}

static enum dgl_status upload_band(struct upload *u, const struct weight *w,
                                   const struct weight_band *band, struct gl_range range)
{
    uint64_t widest = 0, changed, bytes, row_bytes = band->row_words * 4ull;
    bool fits = dgl_dtype_row_bytes(band->dtype, w->cols, &changed);
    for (size_t i = 0; i < w->num_slices && fits; i++) {
        long tensor = u->wb->weights->slices[w->first_slice + i].tensor;
        fits = dgl_dtype_row_bytes(tensor_at(u, tensor)->dtype, w->cols, &bytes);
        widest = fits && bytes > widest ? bytes : widest;
    }
    if (!fits)
        return dgl_fail(u->dev->log, DGL_ERR_FORMAT, "row size overflows");
    uint64_t step = STAGE_BYTES / row_bytes;
    step = step < 2 ? 2 : step & ~1ull;
    step = step < band->rows ? step : band->rows;
    struct stage stage = {.file = dgl_calloc(step, widest),
                          .packed = dgl_calloc(step, row_bytes),
                          .row = dgl_new_array(float, w->cols),
                          .changed = dgl_calloc(1, changed)};
    enum dgl_status status = DGL_OK;
    if (!stage.file || !stage.packed || !stage.row || !stage.changed)
        TRY(dgl_fail_memory(u->dev->log, "weight staging", step * (widest + row_bytes)));
    for (uint64_t first = 0; first < band->rows; first += step) {
        uint64_t count = step < band->rows - first ? step : band->rows - first;
        TRY(stage_rows(u, w, band, &stage, band->row0 + first, count));
        TRY(gl_buffer_write(u->dev->gl, range.buffer, range.offset + first * row_bytes,
                            stage.packed, count * row_bytes));
    }
done:
    free(stage.file);
    free(stage.packed);
    free(stage.row);
    free(stage.changed);
    return status;
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* Reads `count` values of a tensor, which are `bytes` bytes at `at`. */
static enum dgl_status read_values(struct upload *u, long tensor, uint64_t at, uint64_t bytes,
                                   uint64_t count, float *values)
{
    const struct dgl_log *log = u->dev->log;
    const struct tensor_info *info = tensor_at(u, tensor);
    void *stored = dgl_calloc(1, bytes);
    enum dgl_status status = DGL_OK;
    if (!stored)
        TRY(dgl_fail_memory(log, info->name, bytes));
    TRY(tensor_source_read(log, u->p->tensors, (size_t)tensor, at, stored, (size_t)bytes));
    if (!dgl_row_decode(info->dtype, stored, count, values))
        TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: a %s vector cannot be read",
                     DGL_PRINTABLE(info->name), dgl_dtype_get(info->dtype)->name));
    status = advance(u, bytes);
done:
    free(stored);
    return status;
}

/* Uploads the biases of a band's rows to their place after the rows. */
static enum dgl_status upload_bias(struct upload *u, const struct weight *w,
                                   const struct weight_band *band, struct gl_range range)
{
    const struct tensor_info *info = tensor_at(u, w->band_bias);
    const uint64_t rows_bytes = 4ull * band->rows * band->row_words, room = range.size - rows_bytes;
    float *values = dgl_calloc(1, room);
    uint64_t each;
    enum dgl_status status = DGL_OK;
    if (!values)
        TRY(dgl_fail_memory(u->dev->log, info->name, room));
    if (!dgl_dtype_row_bytes(info->dtype, 1, &each))
        TRY(dgl_fail(u->dev->log, DGL_ERR_FORMAT, "%s: value size overflows",
                     DGL_PRINTABLE(info->name)));
    TRY(read_values(u, w->band_bias, each * band->row0, each * band->rows, band->rows, values));
    status = gl_buffer_write(u->dev->gl, range.buffer, range.offset + rows_bytes, values, room);
done:
    free(values);
    return status;
}

static enum dgl_status upload_vector(struct upload *u, uint32_t id)
{
    const struct model_weights *weights = u->wb->weights;
    const struct weight_vector *v = &weights->vectors[id];
    struct gl_range range = weight_buffers_vector(u->wb, id);
    float *all = dgl_new_array(float, v->count), *values = dgl_new_array(float, v->count);
    enum dgl_status status = DGL_OK;
    if (!all || !values)
        TRY(dgl_fail_memory(u->dev->log, "vector", v->count * sizeof(*values)));
    for (size_t i = 0; i < v->num_slices; i++) {
        const struct weight_vector_slice *s = &weights->vector_slices[v->first_slice + i];
        TRY(read_values(u, s->tensor, 0, tensor_at(u, s->tensor)->bytes, s->count, values));
        for (uint64_t k = 0; k < s->count; k++)
            all[s->at + k * s->step] = (float)(s->scale * (values[k] + s->add));
    }
    status = gl_buffer_write(u->dev->gl, range.buffer, range.offset, all, range.size);
done:
    free(all);
    free(values);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool is_wanted(const struct upload *u, const struct weight_place *place)
{
    return !u->p->only || u->p->only[place->buffer];
}

/* Total for the progress report. Excludes tensors that the model does not use: they are not
 * read. */
static uint64_t bytes_to_read(const struct upload *u)
{
    const struct model_weights *w = u->wb->weights;
    uint64_t bytes = 0, row;
    for (size_t i = 0; i < w->num_slices && !u->p->fill; i++) {
        const struct tensor_info *info = tensor_at(u, w->slices[i].tensor);
        if (dgl_dtype_row_bytes(info->dtype, info->shape[info->rank - 1], &row))
            bytes += row * w->slices[i].count;
    }
    for (size_t i = 0; i < w->num_matrices; i++)
        if (w->matrices[i]->band_bias != TENSOR_NONE)
            bytes += tensor_at(u, w->matrices[i]->band_bias)->bytes;
    for (size_t i = 0; i < w->num_vector_slices; i++)
        bytes += tensor_at(u, w->vector_slices[i].tensor)->bytes;
    return bytes;
}

enum dgl_status weight_buffers_upload(const struct weight_buffers *wb, struct dgl_device *dev,
                                      const struct weight_upload_params *params)
{
    const struct model_weights *weights = wb->weights;
    struct upload u = {.wb = wb, .dev = dev, .p = params};
    enum dgl_status status = DGL_OK;
    u.total = bytes_to_read(&u);
    for (uint32_t i = 0; i < weights->num_matrices && status == DGL_OK; i++) {
        const struct weight *w = weights->matrices[i];
        for (uint32_t j = 0; j < w->num_bands && status == DGL_OK; j++) {
            struct gl_range range = weight_buffers_band(wb, i, j);
            if (!is_wanted(&u, &w->bands[j].place))
                continue;
            status = params->fill ? params->fill(params->fill_ctx, w, &w->bands[j], range)
                                  : upload_band(&u, w, &w->bands[j], range);
            if (status == DGL_OK && w->band_bias != TENSOR_NONE)
                status = upload_bias(&u, w, &w->bands[j], range);
        }
    }
    for (uint32_t i = VECTOR_NONE + 1; i < weights->num_vectors && status == DGL_OK; i++)
        if (is_wanted(&u, &weights->vectors[i].place))
            status = upload_vector(&u, i);
    return status;
}
