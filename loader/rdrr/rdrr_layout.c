/* Layouts of matrices in packs, and a view that reads each of them by rows. */
#include "loader/rdrr/rdrr_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/quant/quant.h"
#include "loader/tensor/tensor_transpose.h"

enum { PIECE_BYTES = 4 << 20 }; /* of a tensor as shown, per step; at least a row, or a block */

static const struct spelling {
    const char *text;
    enum rdrr_layout layout;
} spellings[] = {
    /* our own first, in the order of the enumeration */
    {"row", RDRR_ROW},      {"column", RDRR_COLUMN}, {"flat", RDRR_FLAT},
    {"row_wise", RDRR_ROW}, {"col", RDRR_COLUMN},    {"column_wise", RDRR_COLUMN},
    {"packed", RDRR_FLAT},
};

const char *rdrr_layout_name(enum rdrr_layout layout)
{
    return spellings[layout].text;
}

bool rdrr_layout_parse(struct dgl_str text, enum rdrr_layout *out)
{
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        if (dgl_str_eq(text, spellings[i].text)) {
            *out = spellings[i].layout;
            return true;
        }
    }
    return false;
}

bool rdrr_layout_bytes(enum rdrr_layout layout, enum dgl_dtype type, uint32_t rank,
                       const uint64_t *shape, uint64_t *out)
{
    uint64_t values = 1;
    switch (layout) {
    case RDRR_ROW:
        return dgl_dtype_tensor_bytes(type, rank, shape, out);
    case RDRR_COLUMN:
        return rank == 2 && dgl_dtype_tensor_bytes(type, 2, (uint64_t[]){shape[1], shape[0]}, out);
    case RDRR_FLAT:
        for (uint32_t i = 0; i < rank; i++) {
            if (!dgl_mul_u64(values, shape[i], &values))
                return false;
        }
        return dgl_dtype_row_bytes(type, values, out);
    case RDRR_LAYOUTS:
        break;
    }
    return false;
}

enum dgl_dtype rdrr_shown_type(enum rdrr_layout layout, enum dgl_dtype type)
{
    return layout != RDRR_ROW && dgl_dtype_get(type)->block > 1 ? DGL_F16 : type;
}

struct view {
    struct tensor_source *below;
    enum rdrr_layout *layouts; /* [tensors] */
};

/* Decodes blocks of `count` values to halves, `step` apart; a value that does not fit is an error.
 * `wide` is working memory for the values. */
static enum dgl_status halves_make(const struct dgl_log *log, const struct tensor_info *t,
                                   const uint8_t *blocks, size_t count, float *wide, size_t step,
                                   uint16_t *to)
{
    if (!dgl_row_decode(t->dtype, blocks, count, wide))
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "tensor %s: %s has no decoder",
                        DGL_PRINTABLE(t->name), dgl_dtype_get(t->dtype)->name);
    for (size_t i = 0; i < count; i++) {
        if (fabs((double)wide[i]) > dgl_row_limit(DGL_F16))
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "tensor %s has the value %g, which f16 cannot hold; blocks of this "
                            "layout are read as f16",
                            DGL_PRINTABLE(t->name), (double)wide[i]);
        to[i * step] = dgl_f32_to_f16(wide[i]);
    }
    return DGL_OK;
}

/* Reads a flat tensor, whose blocks cross rows, as halves. */
static enum dgl_status flat_read(const struct dgl_log *log, const struct view *view, size_t index,
                                 struct tensor_window *w)
{
    const struct tensor_info *t = tensor_source_at(view->below, index);
    const struct dgl_dtype_traits *type = dgl_dtype_get(t->dtype);
    uint64_t shown = type->block * sizeof(uint16_t); /* bytes of a block as shown */
    uint64_t at = w->offset / shown, end = dgl_div_up_u64(w->offset + w->size, shown);
    uint64_t most = PIECE_BYTES / shown < end - at ? PIECE_BYTES / shown : end - at;
    uint8_t *blocks = dgl_calloc((size_t)most, type->block_bytes);
    float *wide = dgl_new_array(float, most * type->block);
    uint16_t *made = dgl_calloc((size_t)most, (size_t)shown);
    enum dgl_status status;
    TRY(blocks && wide && made ? DGL_OK : dgl_fail_memory(log, t->name, most * type->block_bytes));
    for (; at < end; at += most) {
        uint64_t count = most < end - at ? most : end - at;
        TRY(tensor_source_read(log, view->below, index, at * type->block_bytes, blocks,
                               (size_t)(count * type->block_bytes)));
        TRY(halves_make(log, t, blocks, (size_t)(count * type->block), wide, 1, made));
        tensor_window_copy(w, made, at * shown, count * shown);
    }
done:
    free(blocks);
    free(wide);
    free(made);
    return status;
}

/* Reads a matrix whose blocks are parts of columns. A stripe is the rows that a block per column
 * covers; some stripes are read at a time. */
static enum dgl_status blocks_transpose(const struct dgl_log *log, const struct view *view,
                                        size_t index, const struct tensor_window *w)
{
    const struct tensor_info *t = tensor_source_at(view->below, index);
    const struct dgl_dtype_traits *type = dgl_dtype_get(t->dtype);
    uint64_t row_bytes = t->shape[1] * sizeof(uint16_t), stripe_bytes = row_bytes * type->block;
    uint64_t most = stripe_bytes < PIECE_BYTES ? PIECE_BYTES / stripe_bytes : 1;
    uint64_t first = w->offset / stripe_bytes;
    uint64_t end = dgl_div_up_u64(w->offset + w->size, stripe_bytes);
    uint64_t cols = t->shape[1], per_column = dgl_div_up_u64(t->shape[0], type->block);
    most = most < end - first ? most : end - first;
    uint8_t *blocks = dgl_calloc((size_t)most, type->block_bytes);
    float *wide = dgl_new_array(float, most * type->block);
    uint16_t *made = dgl_calloc((size_t)most, (size_t)stripe_bytes);
    enum dgl_status status;
    TRY(blocks && wide && made ? DGL_OK : dgl_fail_memory(log, t->name, most * stripe_bytes));
    for (; first < end; first += most) {
        uint64_t count = most < end - first ? most : end - first;
        for (uint64_t c = 0; c < cols; c++) {
            TRY(tensor_source_read(log, view->below, index,
                                   (c * per_column + first) * type->block_bytes, blocks,
                                   (size_t)(count * type->block_bytes)));
            TRY(halves_make(log, t, blocks, (size_t)(count * type->block), wide, (size_t)cols,
                            made + c));
        }
        tensor_window_copy(w, made, first * stripe_bytes, count * stripe_bytes);
    }
done:
    free(blocks);
    free(wide);
    free(made);
    return status;
}

/* ---- the view -------------------------------------------------------------------------------- */

static enum dgl_status view_read(void *impl, const struct dgl_log *log, size_t index,
                                 uint64_t offset, void *dst, size_t size)
{
    const struct view *view = impl;
    const struct tensor_info *t = tensor_source_at(view->below, index);
    const struct dgl_dtype_traits *type = dgl_dtype_get(t->dtype);
    struct tensor_window w = {offset, size, dst};
    if (view->layouts[index] == RDRR_FLAT)
        return flat_read(log, view, index, &w);
    if (view->layouts[index] != RDRR_COLUMN)
        return tensor_source_read(log, view->below, index, offset, dst, size);
    const struct tensor_transpose turn = {
        .index = index, .rows = t->shape[0], .cols = t->shape[1], .value = type->block_bytes};
    return type->block > 1 ? blocks_transpose(log, view, index, &w)
                           : tensor_transpose_read(log, view->below, &turn, &w);
}

static void view_destroy(void *impl)
{
    struct view *view = impl;
    tensor_source_destroy(&view->below);
    free(view->layouts);
    free(view);
}

enum dgl_status rdrr_layout_wrap(const struct dgl_log *log, const enum rdrr_layout *layouts,
                                 struct tensor_source **src)
{
    static const struct tensor_source_ops ops = {.read = view_read, .destroy = view_destroy};
    size_t count = tensor_source_count(*src), others = 0, widened = 0, first = 0;
    for (size_t i = 0; i < count; i++)
        others += layouts[i] != RDRR_ROW;
    if (others == 0)
        return DGL_OK;
    struct view *view = dgl_new(struct view);
    struct tensor_info *infos = dgl_new_array(struct tensor_info, count);
    if (view)
        view->layouts = dgl_new_array(enum rdrr_layout, count);
    enum dgl_status status;
    if (!view || !infos || !view->layouts)
        TRY(dgl_fail_memory(log, "tensor list", count * sizeof(*infos)));
    memcpy(view->layouts, layouts, count * sizeof(*layouts));
    for (size_t i = count; i-- > 0;) {
        struct tensor_info *t = &infos[i];
        *t = *tensor_source_at(*src, i);
        enum dgl_dtype shown = rdrr_shown_type(layouts[i], t->dtype);
        if (shown != t->dtype) {
            first = i;
            widened++;
        }
        t->dtype = shown;
        if (!dgl_dtype_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes))
            TRY(dgl_fail(log, DGL_ERR_FORMAT, "%s: the size of tensor %s overflows",
                         tensor_source_label(*src), DGL_PRINTABLE(t->name)));
    }
    if (widened > 0) /* that costs memory */
        dgl_notice(log,
                   "%s: tensors whose blocks are not those of their rows are used as f16: %s (%s, "
                   "layout %s)%s; %zu in all",
                   tensor_source_label(*src), DGL_PRINTABLE(infos[first].name),
                   dgl_dtype_get(tensor_source_at(*src, first)->dtype)->name,
                   rdrr_layout_name(layouts[first]), widened > 1 ? ", ..." : "", widened);
    view->below = *src;
    status =
        tensor_source_create(log, tensor_source_label(view->below), &ops, view, infos, count, src);
    view = NULL;
done:
    if (view)
        view_destroy(view); /* it does not own a source yet */
    free(infos);
    return status;
}
