/* The streaming of weights to the device: a few rows or one vector at a time through host memory.
 */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/repack.h"
#include "core/memory/weights_builder.h"
#include "loader/quant/quant.h"

#include <stdlib.h>

/* Host staging for one upload step. */
#define STAGE_BYTES (4ull << 20)

static enum dgl_status progress(struct builder *b, uint64_t bytes)
{
    b->done += bytes;
    if (b->p->progress_cb && !b->p->progress_cb(b->p->progress_priv, "bytes", b->done, b->total))
        return dgl_fail(builder_log(b), DGL_ERR_CANCELLED, "loading was cancelled");
    return DGL_OK;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Host memory for one upload step of a band. */
struct stage {
    uint8_t *file;    /* rows as stored */
    uint32_t *packed; /* rows as the kernel wants them */
    float *row;       /* one row's values, when the format changes */
    void *changed;    /* one row in the device's format, as in a file */
};

/* Consecutive rows of one tensor and where they go in the stage. */
struct row_run {
    long tensor;
    uint64_t row, count;
    uint64_t index, step;
};

static bool pack_row(const struct builder *b, const struct weight *w,
                     const struct weight_band *band, enum dgl_dtype stored, const struct stage *s,
                     const uint8_t *src, uint32_t *dst)
{
    const char *layout = b->p->layouts->name[band->dtype];
    enum dgl_dtype wider;
    if (stored == band->dtype)
        return repack_row(stored, layout, src, w->cols, dst);
    bool ok = dgl_dtype_wider(stored, &wider) && wider == band->dtype
                  ? dgl_row_widen(stored, src, w->cols, s->changed)
                  : dgl_row_decode(stored, src, w->cols, s->row) &&
                        dgl_row_encode(band->dtype, s->row, w->cols, s->changed);
    return ok && repack_row(band->dtype, layout, s->changed, w->cols, dst);
}

/* Reads `count` rows of one tensor and packs them into the stage, every `step`-th row from `index`
 * on. */
static enum dgl_status pack_rows(struct builder *b, const struct weight *w,
                                 const struct weight_band *band, const struct stage *s,
                                 const struct row_run *run)
{
    const struct tensor_info *info = builder_tensor(b, run->tensor);
    uint64_t row_bytes;
    if (!dgl_dtype_row_bytes(info->dtype, w->cols, &row_bytes))
        return dgl_fail(builder_log(b), DGL_ERR_FORMAT, "%s: row size overflows",
                        DGL_SHOWN(info->name));
    enum dgl_status st =
        tensor_source_read(builder_log(b), b->p->tensors, (size_t)run->tensor, run->row * row_bytes,
                           s->file, (size_t)(run->count * row_bytes));
    for (uint64_t i = 0; i < run->count && st == DGL_OK; i++) {
        uint32_t *dst = s->packed + (run->index + i * run->step) * band->row_words;
        if (!pack_row(b, w, band, info->dtype, s, s->file + i * row_bytes, dst))
            st = dgl_fail(builder_log(b), DGL_ERR_UNSUPPORTED, "%s: cannot pack %s rows",
                          DGL_SHOWN(info->name), dgl_dtype_get(info->dtype)->name);
    }
    return st == DGL_OK ? progress(b, run->count * row_bytes) : st;
}

/* The i-th row of a strip at or behind weight row `row`: rows to, to + step ... */
static uint64_t strip_index(const struct strip *s, uint64_t row)
{
    uint64_t i = row <= s->to ? 0 : (row - s->to + s->step - 1) / s->step;
    return i < s->count ? i : s->count;
}

/* Fills the stage with weight rows [row, row + count). */
static enum dgl_status stage_rows(struct builder *b, const struct matrix_item *m,
                                  const struct weight_band *band, const struct stage *stage,
                                  uint64_t row, uint64_t count)
{
    enum dgl_status st = DGL_OK;
    for (size_t i = 0; i < m->num_strips && st == DGL_OK; i++) {
        const struct strip *s = &b->strips[m->first_strip + i];
        uint64_t begin = strip_index(s, row), end = strip_index(s, row + count);
        if (begin < end)
            st = pack_rows(b, m->weight, band, stage,
                           &(struct row_run){.tensor = s->tensor,
                                             .row = s->from + begin,
                                             .count = end - begin,
                                             .index = s->to + begin * (uint64_t)s->step - row,
                                             .step = s->step});
    }
    return st;
}

/* Bytes of the longest stored row among a matrix's strips; false on overflow. */
static bool widest_row(const struct builder *b, const struct matrix_item *m, uint64_t *widest)
{
    *widest = 0;
    for (size_t i = 0; i < m->num_strips; i++) {
        uint64_t bytes;
        long tensor = b->strips[m->first_strip + i].tensor;
        if (!dgl_dtype_row_bytes(builder_tensor(b, tensor)->dtype, m->weight->cols, &bytes))
            return false;
        *widest = bytes > *widest ? bytes : *widest;
    }
    return true;
}

static enum dgl_status upload_band(struct builder *b, const struct matrix_item *m,
                                   const struct weight_band *band)
{
    uint64_t cols = m->weight->cols, widest, changed, row_bytes = band->row_words * 4ull;
    if (!widest_row(b, m, &widest) || !dgl_dtype_row_bytes(band->dtype, cols, &changed))
        return dgl_fail(builder_log(b), DGL_ERR_FORMAT, "row size overflows");
    uint64_t step = STAGE_BYTES / row_bytes;
    step = step < 2 ? 2 : step & ~1ull;
    step = step < band->rows ? step : band->rows;
    struct stage s = {.file = dgl_calloc(step, widest),
                      .packed = dgl_calloc(step, row_bytes),
                      .row = dgl_new_array(float, cols),
                      .changed = dgl_calloc(1, changed)};
    enum dgl_status st = DGL_OK;
    if (!s.file || !s.packed || !s.row || !s.changed)
        st = dgl_fail_memory(builder_log(b), "weight staging", step * (widest + row_bytes));
    for (uint64_t first = 0; first < band->rows && st == DGL_OK; first += step) {
        uint64_t count = step < band->rows - first ? step : band->rows - first;
        st = stage_rows(b, m, band, &s, band->row0 + first, count);
        if (st == DGL_OK)
            st = gl_buffer_write(b->p->dev->gl, band->range.buffer,
                                 band->range.offset + first * row_bytes, s.packed,
                                 count * row_bytes);
    }
    free(s.file);
    free(s.packed);
    free(s.row);
    free(s.changed);
    return st;
}

/* The biases of a band's rows, to their place behind them. */
static enum dgl_status upload_bias(struct builder *b, const struct matrix_item *m,
                                   const struct weight_band *band)
{
    const struct tensor_info *info = builder_tensor(b, m->bias);
    uint64_t each, rows_bytes = 4ull * band->rows * band->row_words;
    if (!dgl_dtype_row_bytes(info->dtype, 1, &each))
        return dgl_fail(builder_log(b), DGL_ERR_FORMAT, "%s: value size overflows",
                        DGL_SHOWN(info->name));
    uint64_t room = band->range.size - rows_bytes, bytes = each * band->rows;
    void *stored = dgl_calloc(1, bytes);
    float *values = dgl_calloc(1, room);
    enum dgl_status st = DGL_OK;
    if (!stored || !values)
        st = dgl_fail_memory(builder_log(b), info->name, bytes + room);
    if (st == DGL_OK)
        st = tensor_source_read(builder_log(b), b->p->tensors, (size_t)m->bias, each * band->row0,
                                stored, (size_t)bytes);
    if (st == DGL_OK && !dgl_row_decode(info->dtype, stored, band->rows, values))
        st = dgl_fail(builder_log(b), DGL_ERR_UNSUPPORTED, "%s: %s biases cannot be read",
                      DGL_SHOWN(info->name), dgl_dtype_get(info->dtype)->name);
    if (st == DGL_OK)
        st = gl_buffer_write(b->p->dev->gl, band->range.buffer, band->range.offset + rows_bytes,
                             values, room);
    free(stored);
    free(values);
    return st == DGL_OK ? progress(b, bytes) : st;
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* Reads a piece's tensor and puts its values into the vector. */
static enum dgl_status stage_piece(struct builder *b, const struct piece *p, float *vector)
{
    const struct tensor_info *info = builder_tensor(b, p->tensor);
    void *stored = dgl_calloc(1, info->bytes);
    float *values = dgl_new_array(float, p->count);
    enum dgl_status st = DGL_OK;
    if (!stored || !values)
        st = dgl_fail_memory(builder_log(b), info->name, info->bytes);
    if (st == DGL_OK)
        st = tensor_source_read(builder_log(b), b->p->tensors, (size_t)p->tensor, 0, stored,
                                (size_t)info->bytes);
    if (st == DGL_OK && !dgl_row_decode(info->dtype, stored, p->count, values))
        st = dgl_fail(builder_log(b), DGL_ERR_UNSUPPORTED, "%s: a %s vector cannot be read",
                      DGL_SHOWN(info->name), dgl_dtype_get(info->dtype)->name);
    for (uint64_t i = 0; i < p->count && st == DGL_OK; i++)
        vector[p->at + i * p->step] = (float)(p->scale * (values[i] + p->add));
    free(stored);
    free(values);
    return st == DGL_OK ? progress(b, info->bytes) : st;
}

static enum dgl_status upload_vector(struct builder *b, const struct vector_item *v)
{
    float *values = dgl_new_array(float, v->count);
    enum dgl_status st = DGL_OK;
    if (!values)
        st = dgl_fail_memory(builder_log(b), "vector", v->count * sizeof(*values));
    for (size_t i = 0; i < v->num_pieces && st == DGL_OK; i++)
        st = stage_piece(b, &b->pieces[v->first_piece + i], values);
    if (st == DGL_OK)
        st = gl_buffer_write(b->p->dev->gl, v->range->buffer, v->range->offset, values,
                             v->range->size);
    free(values);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* What progress counts; tensors that the model does not use are not read. */
static uint64_t bytes_to_read(const struct builder *b)
{
    uint64_t bytes = 0, row;
    for (size_t i = 0; i < b->num_strips && !b->p->fill; i++) {
        const struct tensor_info *info = builder_tensor(b, b->strips[i].tensor);
        if (dgl_dtype_row_bytes(info->dtype, info->shape[info->rank - 1], &row))
            bytes += row * b->strips[i].count;
    }
    for (size_t i = 0; i < b->num_matrices; i++)
        if (b->matrices[i].bias != TENSOR_NONE)
            bytes += builder_tensor(b, b->matrices[i].bias)->bytes;
    for (size_t i = 0; i < b->num_pieces; i++)
        bytes += builder_tensor(b, b->pieces[i].tensor)->bytes;
    return bytes;
}

enum dgl_status weights_upload(struct builder *b)
{
    enum dgl_status st = DGL_OK;
    b->total = bytes_to_read(b);
    for (size_t i = 0; i < b->num_matrices && st == DGL_OK; i++) {
        const struct matrix_item *m = &b->matrices[i];
        for (uint32_t j = 0; j < m->weight->num_bands && st == DGL_OK; j++) {
            const struct weight_band *band = &m->weight->bands[j];
            st = b->p->fill ? b->p->fill(b->p->fill_ctx, m->weight, band) : upload_band(b, m, band);
            if (st == DGL_OK && m->bias != TENSOR_NONE)
                st = upload_bias(b, m, band);
        }
    }
    for (size_t i = 0; i < b->num_vectors && st == DGL_OK; i++)
        st = upload_vector(b, &b->vectors[i]);
    return st;
}
