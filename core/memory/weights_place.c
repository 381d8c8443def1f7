/* Where every weight goes on the device: host arithmetic, then the buffers. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/repack.h"
#include "core/memory/weights_builder.h"

#include <stdlib.h>

/* Largest device buffer for weights: several, so that no driver's limit on one allocation is met.
 */
#define CHUNK_BYTES (256ull << 20)

enum dgl_dtype builder_dtype(const struct builder *b, long tensor)
{
    return weights_device_dtype(b->p->layouts, b->p->q4_k_as, builder_tensor(b, tensor)->dtype);
}

/* Reserves `bytes` and says where; a range never crosses a buffer. */
static enum dgl_status place(struct builder *b, uint64_t bytes, uint32_t *chunk, uint64_t *offset)
{
    const struct dgl_limits *lim = dgl_device_get_limits(b->p->dev);
    uint64_t limit = lim->max_buffer_bytes < CHUNK_BYTES ? lim->max_buffer_bytes : CHUNK_BYTES;
    uint64_t start = 0;
    if (b->num_chunks > 0) {
        uint64_t align = lim->ssbo_align > 256 ? lim->ssbo_align : 256;
        start = (b->chunk_used[b->num_chunks - 1] + align - 1) / align * align;
    }
    if (b->num_chunks == 0 || start + bytes > limit) {
        if (b->num_chunks == WEIGHTS_MAX_BUFFERS)
            return dgl_fail(builder_log(b), DGL_ERR_UNSUPPORTED,
                            "weights need more than %u device buffers", b->num_chunks);
        b->num_chunks++;
        start = 0;
    }
    *chunk = b->num_chunks - 1;
    *offset = start;
    b->chunk_used[*chunk] = start + bytes;
    return DGL_OK;
}

static enum dgl_status add_band(struct builder *b, struct weight *w, const struct weight_band *band)
{
    struct weight_band *grown =
        realloc(w->bands, (w->num_bands + 1) * sizeof(*grown)); /* a handful per weight */
    if (!grown)
        return dgl_fail_memory(builder_log(b), "weight bands", (w->num_bands + 1) * sizeof(*grown));
    w->bands = grown;
    w->bands[w->num_bands++] = *band;
    return DGL_OK;
}

/* Bytes of a band. */
static uint64_t band_bytes(const struct weight *w, uint64_t rows, uint64_t row_words)
{
    uint64_t words = rows * row_words;
    return 4 * (w->bias_behind ? (words + rows + 3) / 4 * 4 : words);
}

/* Cuts rows [row0, row0 + rows) of one format into bands that fit a binding. */
static enum dgl_status place_rows(struct builder *b, struct weight *w, enum dgl_dtype dtype,
                                  uint64_t row0, uint64_t rows, uint32_t step)
{
    const struct dgl_limits *lim = dgl_device_get_limits(b->p->dev);
    const char *layout = b->p->layouts->name[dtype];
    uint64_t words = 0;
    if (!layout[0] || !repack_stride(dtype, layout, w->cols, &words))
        return dgl_fail(builder_log(b), DGL_ERR_UNSUPPORTED, "no kernel multiplies %s weights",
                        dgl_dtype_get(dtype)->name);
    uint64_t range =
        lim->max_ssbo_bytes < lim->max_buffer_bytes ? lim->max_ssbo_bytes : lim->max_buffer_bytes;
    uint64_t fit = range / 16 * 16 / band_bytes(w, 1, words) / step * step;
    if (fit == 0)
        return dgl_fail(builder_log(b), DGL_ERR_UNSUPPORTED,
                        "%u weight rows of %llu bytes exceed the device's binding of %llu bytes",
                        step, (unsigned long long)band_bytes(w, 1, words),
                        (unsigned long long)range);
    while (rows > 0) {
        uint64_t take = rows < fit ? rows : fit;
        struct weight_band band = {.dtype = dtype,
                                   .row0 = (uint32_t)row0,
                                   .rows = (uint32_t)take,
                                   .row_words = (uint32_t)words};
        band.range.size = band_bytes(w, take, words);
        enum dgl_status st = place(b, band.range.size, &band.chunk, &band.range.offset);
        if (st == DGL_OK)
            st = add_band(b, w, &band);
        if (st != DGL_OK)
            return st;
        row0 += take;
        rows -= take;
    }
    return DGL_OK;
}

/* The one format of rows that belong together. */
static enum dgl_dtype common_dtype(const struct builder *b, const struct matrix_item *m)
{
    const struct strip *s = &b->strips[m->first_strip];
    enum dgl_dtype dtype = builder_dtype(b, s[0].tensor);
    for (size_t i = 1; i < m->num_strips; i++) {
        if (builder_dtype(b, s[i].tensor) == dtype)
            continue;
        dgl_info(builder_log(b), "%s and %s have different formats: both are expanded to f16",
                 DGL_SHOWN(builder_tensor(b, s[0].tensor)->name),
                 DGL_SHOWN(builder_tensor(b, s[i].tensor)->name));
        return DGL_F16;
    }
    return dtype;
}

static enum dgl_status place_matrix(struct builder *b, const struct matrix_item *m)
{
    struct weight *w = m->weight;
    const struct strip *s = &b->strips[m->first_strip];
    const struct tensor_info *first = builder_tensor(b, s[0].tensor);
    w->cols = first->shape[first->rank - 1];
    w->bias_behind = m->bias != TENSOR_NONE;
    for (size_t i = 0; i < m->num_strips; i++)
        w->rows += s[i].count;
    if (w->rows > UINT32_MAX)
        return dgl_fail(builder_log(b), DGL_ERR_UNSUPPORTED, "%s: %llu rows are more than 2^32",
                        DGL_SHOWN(first->name), (unsigned long long)w->rows);
    if (m->pairs)
        return place_rows(b, w, common_dtype(b, m), 0, w->rows, 2);
    for (size_t i = 0; i < m->num_strips;) {
        enum dgl_dtype dtype = builder_dtype(b, s[i].tensor);
        uint64_t row0 = s[i].to, rows = 0;
        for (; i < m->num_strips && builder_dtype(b, s[i].tensor) == dtype; i++)
            rows += s[i].count;
        enum dgl_status st = place_rows(b, w, dtype, row0, rows, 1);
        if (st != DGL_OK)
            return st;
    }
    return DGL_OK;
}

enum dgl_status weights_place(struct builder *b)
{
    enum dgl_status st = DGL_OK;
    for (size_t i = 0; i < b->num_matrices && st == DGL_OK; i++)
        st = place_matrix(b, &b->matrices[i]);
    for (size_t i = 0; i < b->num_vectors && st == DGL_OK; i++) {
        struct vector_item *v = &b->vectors[i];
        v->range->size = v->count * 4;
        st = place(b, v->range->size, &v->chunk, &v->range->offset);
    }
    for (uint32_t i = 0; i < b->num_chunks; i++)
        b->w->bytes += b->chunk_used[i];
    return st;
}

enum dgl_status weights_create_buffers(struct builder *b)
{
    struct model_weights *w = b->w;
    w->buffers = dgl_new_array(struct gl_buffer *, b->num_chunks);
    if (!w->buffers)
        return dgl_fail_memory(builder_log(b), "weight buffers",
                               b->num_chunks * sizeof(*w->buffers));
    for (uint32_t i = 0; i < b->num_chunks; i++) {
        enum dgl_status st = gl_buffer_create(
            b->p->dev->gl, &(struct gl_buffer_params){.size = b->chunk_used[i], .label = "weights"},
            &w->buffers[i]);
        if (st != DGL_OK)
            return st;
        w->num_buffers = i + 1;
    }
    for (size_t i = 0; i < b->num_matrices; i++) {
        struct weight *weight = b->matrices[i].weight;
        for (uint32_t j = 0; j < weight->num_bands; j++)
            weight->bands[j].range.buffer = w->buffers[weight->bands[j].chunk];
    }
    for (size_t i = 0; i < b->num_vectors; i++)
        b->vectors[i].range->buffer = w->buffers[b->vectors[i].chunk];
    return DGL_OK;
}
