/* Tensor views that permute, interleave or stack rows when they are read. */
#include "loader/gguf/gguf_units.h"

#include <stdlib.h>
#include <string.h>

#include "loader/gguf/gguf_file.h"
#include "loader/gguf/gguf_names.h"
#include "loader/quant/quant.h"

static void tensors_free(struct gguf_unit_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(tensors[i].values);
        free(tensors[i].sources);
    }
    free(tensors);
}

/* State of the finished source. */
struct rearranged {
    struct tensor_source *raw;
    bool owns_raw;
    const struct gguf_arch *arch;
    struct gguf_unit_tensor *tensors;
    size_t count;
};

static void rearranged_destroy(void *impl)
{
    struct rearranged *r = impl;
    tensors_free(r->tensors, r->count);
    if (r->owns_raw)
        tensor_source_destroy(&r->raw);
    free(r);
}

static bool rearranged_file_name(const void *impl, const char *name, struct dgl_buf *out)
{
    const struct rearranged *r = impl;
    return r->arch && gguf_tensor_name(r->arch, name, out);
}

static enum dgl_status rearranged_read(void *impl, const struct dgl_log *log, size_t index,
                                       uint64_t offset, void *dst, size_t size)
{
    const struct rearranged *r = impl;
    const struct gguf_unit_tensor *t = &r->tensors[index];
    enum dgl_status status = DGL_OK;
    if (t->order == GGUF_ORDER_SAME)
        return tensor_source_read(log, r->raw, t->source[0], t->begin + offset, dst, size);
    if (t->order == GGUF_ORDER_VALUES) {
        memcpy(dst, (const uint8_t *)t->values + offset, size);
        return DGL_OK;
    }
    for (uint8_t *to = dst; size > 0;) {
        /* Unit `number` of the tensor is unit `at` of `source`. The units of a stack are its
         * sources. */
        uint64_t unit = t->order == GGUF_ORDER_STACK ? t->source_bytes : t->unit;
        uint64_t number = offset / unit, skip = offset % unit, left = unit - skip, at;
        size_t n = size < left ? size : (size_t)left, source = t->source[0];
        if (t->order == GGUF_ORDER_PERMUTE) {
            at = gguf_permuted_row(number, t->head);
        } else if (t->order == GGUF_ORDER_UNPERMUTE) {
            at = gguf_permuted_inverse(number, t->head);
        } else if (t->order == GGUF_ORDER_SECOND) {
            at = 2 * number + t->begin;
        } else if (t->order == GGUF_ORDER_ALTERNATE) {
            at = number / 2;
            source = t->source[number % 2];
        } else { /* GGUF_ORDER_STACK */
            at = 0;
            source = t->sources[number];
        }
        TRY(tensor_source_read(log, r->raw, source, at * unit + skip, to, n));
        offset += n;
        to += n;
        size -= n;
    }
done:
    return status;
}

/* ---- the list ---- */

enum dgl_status gguf_units_add(struct gguf_units *u, const struct tensor_info *info,
                               const char *name, const struct gguf_unit_tensor *t)
{
    enum dgl_status status = DGL_OK;
    if (u->count == GGUF_MAX_TENSORS)
        status = dgl_fail(u->log, DGL_ERR_FORMAT, "%s: more than %d tensors with the experts apart",
                          tensor_source_label(u->raw), GGUF_MAX_TENSORS);
    else if (!name ||
             !dgl_grow((void **)&u->infos, &u->cap_infos, u->count + 1, sizeof(*u->infos)) ||
             !dgl_grow((void **)&u->tensors, &u->cap_tensors, u->count + 1, sizeof(*u->tensors)))
        status = dgl_fail_memory(u->log, "tensor list", u->count * sizeof(*u->infos));
    if (status != DGL_OK) {
        free(t->values);
        free(t->sources);
        return status;
    }
    u->infos[u->count] = *info;
    u->infos[u->count].name = name;
    u->tensors[u->count++] = *t;
    return DGL_OK;
}

enum dgl_status gguf_units_add_shifted(struct gguf_units *u, size_t index,
                                       const struct tensor_info *info, const char *name,
                                       float delta)
{
    struct tensor_info shifted = *info;
    uint8_t *stored = dgl_calloc(1, (size_t)info->bytes);
    float *values = dgl_new_array(float, (size_t)info->shape[0]);
    enum dgl_status status;
    TRY(stored && values ? tensor_source_read(u->log, u->raw, index, 0, stored, (size_t)info->bytes)
                         : dgl_fail_memory(u->log, info->name, info->bytes));
    dgl_row_decode(info->dtype, stored, info->shape[0], values);
    for (uint64_t i = 0; i < info->shape[0]; i++)
        values[i] += delta;
    shifted.dtype = DGL_F32;
    shifted.bytes = info->shape[0] * sizeof(float); /* fits: it was allocated */
    struct gguf_unit_tensor t = {.order = GGUF_ORDER_VALUES, .values = values};
    values = NULL;
    status = gguf_units_add(u, &shifted, name, &t);
done:
    free(stored);
    free(values);
    return status;
}

uint64_t gguf_unit_bytes(const struct tensor_info *info)
{
    uint64_t rows = 1;
    if (info->rank == 1)
        return info->bytes / info->shape[0];
    for (uint32_t i = 0; i + 1 < info->rank; i++)
        rows *= info->shape[i]; /* the product is at most info->bytes, which was checked */
    return info->bytes / rows;
}

enum dgl_status gguf_units_source(struct gguf_units *u, struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {
        .read = rearranged_read, .destroy = rearranged_destroy, .file_name = rearranged_file_name};
    struct rearranged *r = dgl_new(struct rearranged);
    *out = NULL;
    if (!r) {
        gguf_units_finish(u);
        return dgl_fail_memory(u->log, "tensor list", sizeof(*r));
    }
    *r = (struct rearranged){u->raw, u->owns_raw, u->arch, u->tensors, u->count};
    u->tensors = NULL;
    u->raw = NULL;
    enum dgl_status status =
        tensor_source_create(u->log, tensor_source_label(r->raw), &ops, r, u->infos, u->count, out);
    gguf_units_finish(u);
    return status;
}

void gguf_units_finish(struct gguf_units *u)
{
    if (u->tensors)
        tensors_free(u->tensors, u->count);
    free(u->infos);
    if (u->owns_raw)
        tensor_source_destroy(&u->raw);
    dgl_arena_finish(&u->names);
    *u = (struct gguf_units){.log = u->log};
}
