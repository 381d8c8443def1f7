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

/* Converts floats to halves; a value that does not fit is an error. */
static enum dgl_status halves_make(const struct dgl_log *log, const struct tensor_info *t,
                                   const float *from, size_t count, size_t step, uint16_t *to)
{
    for (size_t i = 0; i < count; i++) {
        if (fabs((double)from[i]) > dgl_row_limit(DGL_F16))
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "tensor %s has the value %g, which f16 cannot hold; blocks of this "
                            "layout are read as f16",
                            DGL_PRINTABLE(t->name), (double)from[i]);
        to[i * step] = dgl_f32_to_f16(from[i]);
    }
    return DGL_OK;
}

/* ---- flat: blocks that cross rows ------------------------------------------------------------ */

/* Reads blocks [first, first + count) as halves. */
static enum dgl_status flat_piece(const struct dgl_log *log, const struct view *view, size_t index,
                                  uint64_t first, uint64_t count, struct tensor_window *w)
{
    const struct tensor_info *t = tensor_source_at(view->below, index);
    const struct dgl_dtype_traits *type = dgl_dtype_get(t->dtype);
    size_t bytes = (size_t)(count * type->block_bytes), values = (size_t)(count * type->block);
    uint8_t *blocks = dgl_calloc(1, bytes);
    float *wide = dgl_new_array(float, values);
    uint16_t *made = dgl_new_array(uint16_t, values);
    enum dgl_status status;
    TRY(blocks && wide && made ? DGL_OK : dgl_fail_memory(log, t->name, bytes));
    TRY(tensor_source_read(log, view->below, index, first * type->block_bytes, blocks, bytes));
    if (!dgl_row_decode(t->dtype, blocks, values, wide))
        TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED, "tensor %s: %s has no decoder",
                     DGL_PRINTABLE(t->name), type->name));
    TRY(halves_make(log, t, wide, values, 1, made));
    tensor_window_copy(w, made, first * type->block * sizeof(*made), values * sizeof(*made));
done:
    free(blocks);
    free(wide);
    free(made);
    return status;
}

static enum dgl_status flat_read(const struct dgl_log *log, const struct view *view, size_t index,
                                 struct tensor_window *w)
{
    const struct tensor_info *t = tensor_source_at(view->below, index);
    uint64_t block = dgl_dtype_get(t->dtype)->block * sizeof(uint16_t); /* bytes as shown */
    uint64_t most = PIECE_BYTES / block, end = dgl_div_up_u64(w->offset + w->size, block);
    enum dgl_status status = DGL_OK;
    for (uint64_t at = w->offset / block; at < end; at += most)
        TRY(flat_piece(log, view, index, at, most < end - at ? most : end - at, w));
done:
    return status;
}

/* ---- columns: blocks of rows ----------------------------------------------------------------- */

/* Rows [first * block, (first + count) * block) of the matrix: in each column, `count` blocks. */
struct stripe {
    uint64_t first, count;
    uint8_t *blocks; /* [count] */
    float *wide;     /* [count * block] */
    uint16_t *made;  /* [count * block, cols] */
};

static enum dgl_status stripe_fill(const struct dgl_log *log, const struct view *view, size_t index,
                                   const struct stripe *s)
{
    const struct tensor_info *t = tensor_source_at(view->below, index);
    const struct dgl_dtype_traits *type = dgl_dtype_get(t->dtype);
    uint64_t cols = t->shape[1], per_column = dgl_div_up_u64(t->shape[0], type->block);
    size_t bytes = (size_t)(s->count * type->block_bytes);
    size_t values = (size_t)(s->count * type->block);
    enum dgl_status status = DGL_OK;
    for (uint64_t c = 0; c < cols; c++) {
        uint64_t at = (c * per_column + s->first) * type->block_bytes;
        TRY(tensor_source_read(log, view->below, index, at, s->blocks, bytes));
        if (!dgl_row_decode(t->dtype, s->blocks, values, s->wide))
            TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED, "tensor %s: %s has no decoder",
                         DGL_PRINTABLE(t->name), type->name));
        TRY(halves_make(log, t, s->wide, values, (size_t)cols, s->made + c));
    }
done:
    return status;
}

static enum dgl_status blocks_transpose(const struct dgl_log *log, const struct view *view,
                                        size_t index, const struct tensor_window *w)
{
    const struct tensor_info *t = tensor_source_at(view->below, index);
    const struct dgl_dtype_traits *type = dgl_dtype_get(t->dtype);
    uint64_t row_bytes = t->shape[1] * sizeof(uint16_t), stripe_bytes = row_bytes * type->block;
    uint64_t most = stripe_bytes < PIECE_BYTES ? PIECE_BYTES / stripe_bytes : 1;
    uint64_t end = dgl_div_up_u64(w->offset + w->size, stripe_bytes);
    struct stripe s = {.first = w->offset / stripe_bytes};
    most = most < end - s.first ? most : end - s.first;
    s.blocks = dgl_calloc((size_t)most, type->block_bytes);
    s.wide = dgl_new_array(float, most * type->block);
    s.made = dgl_calloc((size_t)most, (size_t)stripe_bytes);
    enum dgl_status status;
    TRY(s.blocks && s.wide && s.made ? DGL_OK : dgl_fail_memory(log, t->name, most * stripe_bytes));
    for (; s.first < end; s.first += most) {
        s.count = most < end - s.first ? most : end - s.first;
        TRY(stripe_fill(log, view, index, &s));
        tensor_window_copy(w, s.made, s.first * stripe_bytes, s.count * stripe_bytes);
    }
done:
    free(s.blocks);
    free(s.wide);
    free(s.made);
    return status;
}

static enum dgl_status column_read(const struct dgl_log *log, const struct view *view, size_t index,
                                   const struct tensor_window *w)
{
    const struct tensor_info *t = tensor_source_at(view->below, index);
    const struct dgl_dtype_traits *type = dgl_dtype_get(t->dtype);
    const struct tensor_transpose turn = {
        .index = index, .rows = t->shape[0], .cols = t->shape[1], .value = type->block_bytes};
    return type->block > 1 ? blocks_transpose(log, view, index, w)
                           : tensor_transpose_read(log, view->below, &turn, w);
}

/* ---- the view -------------------------------------------------------------------------------- */

static enum dgl_status view_read(void *impl, const struct dgl_log *log, size_t index,
                                 uint64_t offset, void *dst, size_t size)
{
    const struct view *view = impl;
    struct tensor_window w = {offset, size, dst};
    if (view->layouts[index] == RDRR_FLAT)
        return flat_read(log, view, index, &w);
    if (view->layouts[index] == RDRR_COLUMN)
        return column_read(log, view, index, &w);
    return tensor_source_read(log, view->below, index, offset, dst, size);
}

static void view_destroy(void *impl)
{
    struct view *view = impl;
    tensor_source_destroy(&view->below);
    free(view->layouts);
    free(view);
}

/* Reports tensors that are widened on reading, because that costs memory. */
static void report_widened(const struct dgl_log *log, const struct tensor_source *src,
                           const enum rdrr_layout *layouts)
{
    size_t widened = 0, first = 0;
    for (size_t i = tensor_source_count(src); i-- > 0;) {
        enum dgl_dtype type = tensor_source_at(src, i)->dtype;
        if (rdrr_shown_type(layouts[i], type) != type) {
            first = i;
            widened++;
        }
    }
    if (widened > 0)
        dgl_notice(log,
                   "%s: tensors whose blocks are not those of their rows are used as f16: %s (%s, "
                   "layout %s)%s; %zu in all",
                   tensor_source_label(src), DGL_PRINTABLE(tensor_source_at(src, first)->name),
                   dgl_dtype_get(tensor_source_at(src, first)->dtype)->name,
                   rdrr_layout_name(layouts[first]), widened > 1 ? ", ..." : "", widened);
}

static enum dgl_status infos_make(const struct dgl_log *log, const struct tensor_source *src,
                                  const enum rdrr_layout *layouts, struct tensor_info *infos)
{
    for (size_t i = 0; i < tensor_source_count(src); i++) {
        struct tensor_info *t = &infos[i];
        *t = *tensor_source_at(src, i);
        t->dtype = rdrr_shown_type(layouts[i], t->dtype);
        if (!dgl_dtype_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes))
            return dgl_fail(log, DGL_ERR_FORMAT, "%s: the size of tensor %s overflows",
                            tensor_source_label(src), DGL_PRINTABLE(t->name));
    }
    return DGL_OK;
}

enum dgl_status rdrr_layout_wrap(const struct dgl_log *log, const enum rdrr_layout *layouts,
                                 struct tensor_source **src)
{
    static const struct tensor_source_ops ops = {.read = view_read, .destroy = view_destroy};
    size_t count = tensor_source_count(*src), others = 0;
    for (size_t i = 0; i < count; i++)
        others += layouts[i] != RDRR_ROW;
    if (others == 0)
        return DGL_OK;
    struct view *view = dgl_new(struct view);
    struct tensor_info *infos = dgl_new_array(struct tensor_info, count);
    if (view)
        view->layouts = dgl_new_array(enum rdrr_layout, count);
    enum dgl_status status = view && infos && view->layouts
                                 ? infos_make(log, *src, layouts, infos)
                                 : dgl_fail_memory(log, "tensor list", count * sizeof(*infos));
    if (status == DGL_OK) {
        memcpy(view->layouts, layouts, count * sizeof(*layouts));
        report_widened(log, *src, layouts);
        view->below = *src;
        status = tensor_source_create(log, tensor_source_label(view->below), &ops, view, infos,
                                      count, src);
        view = NULL;
    }
    if (view)
        view_destroy(view); /* it does not own a source yet */
    free(infos);
    return status;
}
