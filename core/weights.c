/* Where every weight goes on the device, and the streaming of its bytes there. Three passes over
 * the same list of items: place (host arithmetic), create buffers, upload. */
#include "core/weights.h"
#include "core/base/checked.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/repack.h"
#include "loader/quant.h"

#include <stdlib.h>

/* Largest device buffer for weights: several, so that no driver's limit on one allocation is met.
 */
#define CHUNK_BYTES (256ull << 20)
/* Host staging for one upload step. */
#define STAGE_BYTES (4ull << 20)
#define MAX_PARTS   3

/* How one weight comes out of the file: parts one after the other, or two parts row by row in turn.
 */
struct recipe {
    struct weight *weight;
    long part[MAX_PARTS];
    int num_parts;
    bool interleave;
};

struct vector_item {
    struct gl_range *range;
    long tensor;
    uint32_t chunk;
};

struct builder {
    const struct weights_params *p;
    struct model_weights *w;
    struct recipe *recipes;
    size_t num_recipes;
    struct vector_item *vectors;
    size_t num_vectors;
    uint64_t chunk_used[4096]; /* bytes placed in each buffer */
    uint32_t num_chunks;
    uint64_t done, total; /* progress in bytes read */
};

static const struct dgl_log *log_of(const struct builder *b)
{
    return b->p->dev->log;
}

static const struct tensor_info *info_of(const struct builder *b, long tensor)
{
    return tensor_source_at(b->p->tensors, (size_t)tensor);
}

enum dgl_dtype weights_device_dtype(const struct weight_layouts *layouts, enum dgl_dtype q4_k_as,
                                    enum dgl_dtype stored)
{
    enum dgl_dtype dtype = stored == DGL_Q4_K ? q4_k_as : stored;
    return layouts->name[dtype][0] ? dtype : DGL_F16;
}

/* The format that a tensor has on the device. */
static enum dgl_dtype device_dtype(const struct builder *b, long tensor)
{
    return weights_device_dtype(b->p->layouts, b->p->q4_k_as, info_of(b, tensor)->dtype);
}

/* ---- place ------------------------------------------------------------------------------------
 */

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
        if (b->num_chunks == sizeof(b->chunk_used) / sizeof(b->chunk_used[0]))
            return dgl_fail(log_of(b), DGL_ERR_UNSUPPORTED,
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
        return dgl_fail_memory(log_of(b), "weight bands", (w->num_bands + 1) * sizeof(*grown));
    w->bands = grown;
    w->bands[w->num_bands++] = *band;
    return DGL_OK;
}

/* Cuts rows [row0, row0 + rows) of one format into bands that fit a binding. */
static enum dgl_status place_rows(struct builder *b, struct weight *w, enum dgl_dtype dtype,
                                  uint64_t row0, uint64_t rows, uint32_t step)
{
    const struct dgl_limits *lim = dgl_device_get_limits(b->p->dev);
    const char *layout = b->p->layouts->name[dtype];
    uint64_t words = 0;
    if (!layout[0] || !repack_stride(dtype, layout, w->cols, &words))
        return dgl_fail(log_of(b), DGL_ERR_UNSUPPORTED, "no kernel multiplies %s weights",
                        dgl_dtype_get(dtype)->name);
    uint64_t range =
        lim->max_ssbo_bytes < lim->max_buffer_bytes ? lim->max_ssbo_bytes : lim->max_buffer_bytes;
    uint64_t fit = range / (words * 4) / step * step;
    if (fit == 0)
        return dgl_fail(log_of(b), DGL_ERR_UNSUPPORTED,
                        "%u weight rows of %llu bytes exceed the device's binding of %llu bytes",
                        step, (unsigned long long)words * 4, (unsigned long long)range);
    while (rows > 0) {
        uint64_t take = rows < fit ? rows : fit;
        struct weight_band band = {.dtype = dtype,
                                   .row0 = (uint32_t)row0,
                                   .rows = (uint32_t)take,
                                   .row_words = (uint32_t)words};
        band.range.size = take * words * 4;
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

static enum dgl_status place_recipe(struct builder *b, const struct recipe *r)
{
    struct weight *w = r->weight;
    const struct tensor_info *first = info_of(b, r->part[0]);
    w->cols = first->shape[1];
    for (int i = 0; i < r->num_parts; i++)
        w->rows += info_of(b, r->part[i])->shape[0];
    if (r->interleave) {
        enum dgl_dtype dtype = device_dtype(b, r->part[0]);
        if (dtype != device_dtype(b, r->part[1])) {
            dtype = DGL_F16;
            dgl_info(log_of(b), "%s and %s have different formats: both are expanded to f16",
                     first->name, info_of(b, r->part[1])->name);
        }
        return place_rows(b, w, dtype, 0, w->rows, 2);
    }
    uint64_t row0 = 0;
    for (int i = 0; i < r->num_parts;) {
        enum dgl_dtype dtype = device_dtype(b, r->part[i]);
        uint64_t rows = 0;
        for (; i < r->num_parts && device_dtype(b, r->part[i]) == dtype; i++)
            rows += info_of(b, r->part[i])->shape[0];
        enum dgl_status st = place_rows(b, w, dtype, row0, rows, 1);
        if (st != DGL_OK)
            return st;
        row0 += rows;
    }
    return DGL_OK;
}

static enum dgl_status place_all(struct builder *b)
{
    enum dgl_status st = DGL_OK;
    for (size_t i = 0; i < b->num_recipes && st == DGL_OK; i++)
        st = place_recipe(b, &b->recipes[i]);
    for (size_t i = 0; i < b->num_vectors && st == DGL_OK; i++) {
        struct vector_item *v = &b->vectors[i];
        v->range->size = info_of(b, v->tensor)->shape[0] * 4;
        st = place(b, v->range->size, &v->chunk, &v->range->offset);
    }
    for (uint32_t i = 0; i < b->num_chunks; i++)
        b->w->bytes += b->chunk_used[i];
    return st;
}

/* ---- what there is to place ---------------------------------------------------------------------
 */

static void add_recipe(struct builder *b, struct recipe recipe)
{
    b->recipes[b->num_recipes++] = recipe;
}

static void add_vector(struct builder *b, struct gl_range *range, long tensor)
{
    b->vectors[b->num_vectors++] = (struct vector_item){range, tensor, 0};
}

/* Everything in the order of use, so that a token walks through memory forwards. */
static enum dgl_status list_items(struct builder *b)
{
    const struct model_desc *d = b->p->desc;
    struct model_weights *w = b->w;
    size_t layers = (size_t)d->layers;
    w->layer = dgl_new_array(struct layer_weights, layers);
    b->recipes = dgl_new_array(struct recipe, layers * 4 + 2);
    b->vectors = dgl_new_array(struct vector_item, layers * 2 + 1);
    if (!w->layer || !b->recipes || !b->vectors)
        return dgl_fail_memory(log_of(b), "weight table", layers * sizeof(*w->layer));
    w->num_layers = (uint32_t)layers;
    add_recipe(b, (struct recipe){&w->embed, {d->embed}, 1, false});
    for (size_t i = 0; i < layers; i++) {
        const struct layer_desc *l = &d->layer[i];
        struct layer_weights *lw = &w->layer[i];
        add_recipe(b, (struct recipe){&lw->qkv, {l->q, l->k, l->v}, 3, false});
        add_recipe(b, (struct recipe){&lw->o, {l->o}, 1, false});
        add_recipe(b, (struct recipe){&lw->gate_up, {l->gate, l->up}, 2, true});
        add_recipe(b, (struct recipe){&lw->down, {l->down}, 1, false});
        add_vector(b, &lw->attn_norm, l->attn_norm);
        add_vector(b, &lw->ffn_norm, l->ffn_norm);
    }
    if (!d->tied_head)
        add_recipe(b, (struct recipe){&w->head, {d->head}, 1, false});
    add_vector(b, &w->final_norm, d->final_norm);
    return DGL_OK;
}

/* ---- create ---------------------------------------------------------------------------------- */

static enum dgl_status create_buffers(struct builder *b)
{
    struct model_weights *w = b->w;
    w->buffers = dgl_new_array(struct gl_buffer *, b->num_chunks);
    if (!w->buffers)
        return dgl_fail_memory(log_of(b), "weight buffers", b->num_chunks * sizeof(*w->buffers));
    for (uint32_t i = 0; i < b->num_chunks; i++) {
        enum dgl_status st = gl_buffer_create(
            b->p->dev->gl, &(struct gl_buffer_params){.size = b->chunk_used[i], .label = "weights"},
            &w->buffers[i]);
        if (st != DGL_OK)
            return st;
        w->num_buffers = i + 1;
    }
    for (size_t i = 0; i < b->num_recipes; i++) {
        struct weight *weight = b->recipes[i].weight;
        for (uint32_t j = 0; j < weight->num_bands; j++)
            weight->bands[j].range.buffer = w->buffers[weight->bands[j].chunk];
    }
    for (size_t i = 0; i < b->num_vectors; i++)
        b->vectors[i].range->buffer = w->buffers[b->vectors[i].chunk];
    return DGL_OK;
}

/* ---- upload ---------------------------------------------------------------------------------- */

static enum dgl_status progress(struct builder *b, uint64_t bytes)
{
    b->done += bytes;
    if (b->p->progress_cb && !b->p->progress_cb(b->p->progress_priv, "bytes", b->done, b->total))
        return dgl_fail(log_of(b), DGL_ERR_CANCELLED, "loading was cancelled");
    return DGL_OK;
}

/* Host memory for one upload step of a band. */
struct stage {
    uint8_t *file;    /* rows as stored */
    uint32_t *packed; /* rows as the kernel wants them */
    float *row;       /* one row expanded, when the format changes */
    void *expanded;   /* the same in the device's format */
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
    if (stored == band->dtype)
        return repack_row(stored, layout, src, w->cols, dst);
    return dgl_row_decode(stored, src, w->cols, s->row) &&
           dgl_row_encode(band->dtype, s->row, w->cols, s->expanded) &&
           repack_row(band->dtype, layout, s->expanded, w->cols, dst);
}

/* Reads `count` rows of one tensor and packs them into the stage, every `step`-th row from `index`
 * on. */
static enum dgl_status pack_rows(struct builder *b, const struct weight *w,
                                 const struct weight_band *band, const struct stage *s,
                                 const struct row_run *run)
{
    const struct tensor_info *info = info_of(b, run->tensor);
    uint64_t row_bytes;
    if (!dgl_dtype_row_bytes(info->dtype, w->cols, &row_bytes))
        return dgl_fail(log_of(b), DGL_ERR_FORMAT, "%s: row size overflows", info->name);
    enum dgl_status st =
        tensor_source_read(log_of(b), b->p->tensors, (size_t)run->tensor, run->row * row_bytes,
                           s->file, (size_t)(run->count * row_bytes));
    for (uint64_t i = 0; i < run->count && st == DGL_OK; i++) {
        uint32_t *dst = s->packed + (run->index + i * run->step) * band->row_words;
        if (!pack_row(b, w, band, info->dtype, s, s->file + i * row_bytes, dst))
            st = dgl_fail(log_of(b), DGL_ERR_UNSUPPORTED, "%s: cannot pack %s rows", info->name,
                          dgl_dtype_get(info->dtype)->name);
    }
    return st == DGL_OK ? progress(b, run->count * row_bytes) : st;
}

/* Fills the stage with weight rows [row, row + count). */
static enum dgl_status stage_rows(struct builder *b, const struct recipe *r,
                                  const struct weight_band *band, const struct stage *s,
                                  uint64_t row, uint64_t count)
{
    enum dgl_status st = DGL_OK;
    if (r->interleave) {
        for (uint32_t i = 0; i < 2 && st == DGL_OK; i++)
            st = pack_rows(b, r->weight, band, s,
                           &(struct row_run){r->part[i], row / 2, count / 2, i, 2});
        return st;
    }
    int part = 0;
    for (; row >= info_of(b, r->part[part])->shape[0]; part++)
        row -= info_of(b, r->part[part])->shape[0];
    for (uint64_t index = 0; index < count && st == DGL_OK; part++, row = 0) {
        uint64_t left = info_of(b, r->part[part])->shape[0] - row;
        uint64_t take = left < count - index ? left : count - index;
        st =
            pack_rows(b, r->weight, band, s, &(struct row_run){r->part[part], row, take, index, 1});
        index += take;
    }
    return st;
}

static enum dgl_status upload_band(struct builder *b, const struct recipe *r,
                                   const struct weight_band *band)
{
    uint64_t cols = r->weight->cols, widest = 0;
    for (int i = 0; i < r->num_parts; i++) {
        uint64_t bytes;
        if (!dgl_dtype_row_bytes(info_of(b, r->part[i])->dtype, cols, &bytes))
            return dgl_fail(log_of(b), DGL_ERR_FORMAT, "row size overflows");
        widest = bytes > widest ? bytes : widest;
    }
    uint64_t step = STAGE_BYTES / (band->row_words * 4ull);
    step = step < 2 ? 2 : step & ~1ull;
    step = step < band->rows ? step : band->rows;
    struct stage s = {.file = dgl_calloc(step, widest),
                      .packed = dgl_calloc(step, band->row_words * sizeof(uint32_t)),
                      .row = dgl_new_array(float, cols),
                      .expanded = dgl_calloc(cols, sizeof(float))};
    enum dgl_status st = DGL_OK;
    if (!s.file || !s.packed || !s.row || !s.expanded)
        st = dgl_fail_memory(log_of(b), "weight staging", step * (widest + band->row_words * 4ull));
    for (uint64_t first = 0; first < band->rows && st == DGL_OK; first += step) {
        uint64_t count = step < band->rows - first ? step : band->rows - first;
        uint64_t bytes = count * band->row_words * 4ull;
        st = stage_rows(b, r, band, &s, band->row0 + first, count);
        if (st == DGL_OK)
            st = gl_buffer_write(b->p->dev->gl, band->range.buffer,
                                 band->range.offset + first * band->row_words * 4ull, s.packed,
                                 bytes);
    }
    free(s.file);
    free(s.packed);
    free(s.row);
    free(s.expanded);
    return st;
}

static enum dgl_status upload_vector(struct builder *b, const struct vector_item *v)
{
    const struct tensor_info *info = info_of(b, v->tensor);
    void *stored = dgl_calloc(1, info->bytes);
    float *values = dgl_new_array(float, info->shape[0]);
    enum dgl_status st = DGL_OK;
    if (!stored || !values)
        st = dgl_fail_memory(log_of(b), info->name, info->bytes);
    if (st == DGL_OK)
        st = tensor_source_read(log_of(b), b->p->tensors, (size_t)v->tensor, 0, stored,
                                (size_t)info->bytes);
    if (st == DGL_OK && !dgl_row_decode(info->dtype, stored, info->shape[0], values))
        st = dgl_fail(log_of(b), DGL_ERR_UNSUPPORTED, "%s: a %s vector cannot be read", info->name,
                      dgl_dtype_get(info->dtype)->name);
    if (st == DGL_OK)
        st = gl_buffer_write(b->p->dev->gl, v->range->buffer, v->range->offset, values,
                             v->range->size);
    if (st == DGL_OK)
        st = progress(b, info->bytes);
    free(stored);
    free(values);
    return st;
}

/* What progress counts; tensors that the model does not use are not read. */
static uint64_t bytes_to_read(const struct builder *b)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < b->num_recipes && !b->p->fill; i++)
        for (int j = 0; j < b->recipes[i].num_parts; j++)
            bytes += info_of(b, b->recipes[i].part[j])->bytes;
    for (size_t i = 0; i < b->num_vectors; i++)
        bytes += info_of(b, b->vectors[i].tensor)->bytes;
    return bytes;
}

static enum dgl_status upload_all(struct builder *b)
{
    enum dgl_status st = DGL_OK;
    b->total = bytes_to_read(b);
    for (size_t i = 0; i < b->num_recipes && st == DGL_OK; i++) {
        const struct recipe *r = &b->recipes[i];
        for (uint32_t j = 0; j < r->weight->num_bands && st == DGL_OK; j++) {
            const struct weight_band *band = &r->weight->bands[j];
            st = b->p->fill ? b->p->fill(b->p->fill_ctx, r->weight, band) : upload_band(b, r, band);
        }
    }
    for (size_t i = 0; i < b->num_vectors && st == DGL_OK; i++)
        st = upload_vector(b, &b->vectors[i]);
    return st;
}

/* ---- the three passes ------------------------------------------------------------------------ */

static void builder_finish(struct builder *b)
{
    free(b->recipes);
    free(b->vectors);
    free(b);
}

static struct builder *builder_create(const struct weights_params *params,
                                      struct model_weights *out)
{
    struct builder *b = dgl_new(struct builder);
    *out = (struct model_weights){0};
    if (b) {
        b->p = params;
        b->w = out;
    }
    return b;
}

static void weight_finish(struct weight *w)
{
    free(w->bands);
    *w = (struct weight){0};
}

static void release_host(struct model_weights *w)
{
    if (w->head.bands != w->embed.bands)
        weight_finish(&w->head);
    weight_finish(&w->embed);
    for (uint32_t i = 0; w->layer && i < w->num_layers; i++) {
        weight_finish(&w->layer[i].qkv);
        weight_finish(&w->layer[i].o);
        weight_finish(&w->layer[i].gate_up);
        weight_finish(&w->layer[i].down);
    }
    free(w->layer);
}

enum dgl_status weights_estimate(const struct weights_params *params, uint64_t *bytes)
{
    struct model_weights w;
    struct builder *b = builder_create(params, &w);
    if (!b)
        return dgl_fail_memory(params->dev->log, "weight table", sizeof(*b));
    enum dgl_status st = list_items(b);
    if (st == DGL_OK)
        st = place_all(b);
    *bytes = w.bytes;
    builder_finish(b);
    release_host(&w);
    return st;
}

enum dgl_status weights_create(const struct weights_params *params, struct model_weights *out)
{
    struct builder *b = builder_create(params, out);
    if (!b)
        return dgl_fail_memory(params->dev->log, "weight table", sizeof(*b));
    enum dgl_status st = list_items(b);
    if (st == DGL_OK)
        st = place_all(b);
    if (st == DGL_OK)
        st = create_buffers(b);
    if (st == DGL_OK)
        st = upload_all(b);
    builder_finish(b);
    if (st != DGL_OK)
        weights_finish(params->dev, out);
    else if (params->desc->tied_head)
        out->head = out->embed;
    return st;
}

void weights_finish(struct dgl_device *dev, struct model_weights *weights)
{
    release_host(weights);
    for (uint32_t i = 0; i < weights->num_buffers; i++)
        gl_buffer_destroy(dev->gl, &weights->buffers[i]);
    free(weights->buffers);
    *weights = (struct model_weights){0};
}
