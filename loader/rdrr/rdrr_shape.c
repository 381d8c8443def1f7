/* Shape, size and layout of an entry of "tensors". A pack has the layout in the entry, for the
 * whole pack, or not at all. A stated layout has priority; otherwise the size decides. A size that
 * does not match is refused. */
#include <inttypes.h>
#include <string.h>

#include "loader/rdrr/rdrr_manifest.h"

/* Dimensions of an entry, logical or stored. */
struct shape {
    uint32_t rank;
    uint64_t dim[4];
};

static enum dgl_status shape_read(struct dgl_json_reader r, const struct dgl_json *array,
                                  struct shape *out)
{
    size_t rank = dgl_json_count(array);
    *out = (struct shape){0};
    if (rank < 1 || rank > 4)
        return dgl_json_fail(r, array, "%zu dimensions, wanted 1 to 4", rank);
    for (const struct dgl_json *d = dgl_json_first(array); d; d = dgl_json_next(d)) {
        int64_t dim;
        if (!dgl_json_i64(d, &dim) || dim < 1)
            return dgl_json_fail_wanted(r, d, "an integer from 1");
        out->dim[out->rank++] = (uint64_t)dim;
    }
    return DGL_OK;
}

/* Reads "shape" and "originalShape" into the logical shape. If a writer transposed the matrix,
 * "shape" is the transposed shape and "originalShape" the model's. Other writers put the model's
 * shape in "shape". */
static enum dgl_status logical_shape(struct dgl_json_reader r, const struct dgl_json *object,
                                     struct rdrr_tensor *t)
{
    const struct dgl_json *shape, *original;
    struct shape stored = {0}, logical;
    enum dgl_status status;
    TRY(dgl_json_need(r, object, "shape", DGL_JSON_ARRAY, &shape));
    TRY(dgl_json_opt(r, object, "originalShape", DGL_JSON_ARRAY, &original));
    TRY(shape_read(r, shape, &stored));
    logical = stored; /* unless the entry says more */
    if (original)
        TRY(shape_read(r, original, &logical));
    bool transposed = t->layout == RDRR_COLUMN && logical.rank == 2 && stored.rank == 2 &&
                      logical.dim[0] == stored.dim[1] && logical.dim[1] == stored.dim[0];
    /* The last dimension may be padded to whole blocks. */
    uint32_t last = stored.rank - 1;
    uint64_t block = dgl_dtype_get(t->info.dtype)->block;
    /* wraps to a large number if stored is smaller, so `padded` is false */
    uint64_t pad = stored.dim[last] - logical.dim[last];
    bool padded = t->layout != RDRR_COLUMN && stored.rank == logical.rank &&
                  stored.dim[last] % block == 0 && pad < block &&
                  memcmp(stored.dim, logical.dim, last * sizeof(stored.dim[0])) == 0;
    bool equal = stored.rank == logical.rank &&
                 memcmp(stored.dim, logical.dim, stored.rank * sizeof(stored.dim[0])) == 0;
    char a[TENSOR_SHAPE_TEXT], b[TENSOR_SHAPE_TEXT];
    if (!transposed && !padded && !equal)
        return dgl_fail(r.log, DGL_ERR_FORMAT,
                        "%s: tensors.%s.originalShape is %s, but shape is %s with layout \"%s\"; "
                        "wanted the same, the reverse in columns, or whole blocks of it",
                        dgl_json_name(r.doc), DGL_PRINTABLE(t->info.name),
                        tensor_shape_str(logical.rank, logical.dim, a),
                        tensor_shape_str(stored.rank, stored.dim, b), rdrr_layout_name(t->layout));
    t->info.rank = logical.rank;
    memcpy(t->info.shape, logical.dim, sizeof(logical.dim));
done:
    return status;
}

static bool fits(const struct tensor_info *info, enum rdrr_layout layout, uint64_t size)
{
    uint64_t bytes;
    return rdrr_layout_bytes(layout, info->dtype, info->rank, info->shape, &bytes) && bytes == size;
}

static enum dgl_status fail_size(struct dgl_json_reader r, const struct dgl_json *object,
                                 const struct tensor_info *info, enum rdrr_layout layout,
                                 uint64_t size)
{
    char text[TENSOR_SHAPE_TEXT];
    uint64_t bytes;
    tensor_shape_str(info->rank, info->shape, text);
    if (!rdrr_layout_bytes(RDRR_ROW, info->dtype, info->rank, info->shape, &bytes))
        return dgl_json_fail(r, object, "size of shape %s overflows 64 bits", text);
    if (!rdrr_layout_bytes(layout, info->dtype, info->rank, info->shape, &bytes))
        return dgl_json_fail(r, object, "layout \"%s\" is for matrices, but shape is %s",
                             rdrr_layout_name(layout), text);
    return dgl_json_fail(
        r, object, "size is %" PRIu64 ", but shape %s of %s needs %" PRIu64 " in layout \"%s\"",
        size, text, dgl_dtype_get(info->dtype)->rdrr, bytes, rdrr_layout_name(layout));
}

enum dgl_status rdrr_shape_parse(struct dgl_json_reader r, const struct dgl_json *object,
                                 const struct rdrr_manifest *m, struct rdrr_tensor *t)
{
    struct tensor_info *info = &t->info;
    const struct dgl_json *layout;
    int64_t size = 0;
    bool transposed = false;
    enum dgl_status status;
    TRY(dgl_json_opt(r, object, "layout", DGL_JSON_STRING, &layout));
    TRY(dgl_json_opt_bool(r, object, "weightsTransposed", &transposed));
    t->layout = transposed ? RDRR_COLUMN : RDRR_ROW;
    if (layout && !rdrr_layout_parse(dgl_json_str(layout), &t->layout))
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: tensors.%s.layout is \"%s\"; supported: \"row\", \"column\", \"flat\"",
                        dgl_json_name(r.doc), DGL_PRINTABLE(info->name),
                        DGL_PRINTABLE(dgl_json_str(layout).p));
    TRY(logical_shape(r, object, t));
    TRY(dgl_json_need_i64(r, object, "size", 1, INT64_MAX, &size));
    info->bytes = (uint64_t)size;
    uint64_t block = dgl_dtype_get(info->dtype)->block;
    if (!layout && !transposed) {
        /* An entry without a layout uses that of the pack if the size matches. Otherwise the size
         * decides: vectors and imported tensors are flat in every pack. Flat and column layouts are
         * often equally large, but columns were always stated, so flat has priority. */
        bool said = block > 1 ? m->says_block_layout : strcmp(info->role, "matmul") == 0;
        enum rdrr_layout pack = !said ? RDRR_ROW : block > 1 ? m->block_layout : m->float_layout;
        const enum rdrr_layout tried[] = {pack, RDRR_ROW, RDRR_FLAT, said ? pack : RDRR_COLUMN};
        size_t i = 0;
        while (i < 4 && !fits(info, tried[i], info->bytes))
            i++;
        if (i == 4)
            return fail_size(r, object, info, pack, info->bytes);
        t->layout = tried[i];
    } else if (!fits(info, t->layout, info->bytes)) {
        return fail_size(r, object, info, t->layout, info->bytes);
    }
    /* If rows are whole blocks, or the tensor is a vector, flat and row layouts are equal. */
    if (t->layout == RDRR_FLAT && (info->rank == 1 || info->shape[info->rank - 1] % block == 0))
        t->layout = RDRR_ROW;
done:
    return status;
}
