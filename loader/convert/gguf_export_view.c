/* Inverse of gguf_view.c: Hugging Face tensors as GGUF stores them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/convert/gguf_export.h"
#include "loader/desc/bind_rules.h"
#include "loader/gguf/gguf_units.h"
#include "loader/quant/quant.h"

/* longer than every name of the tables */
enum { MAX_PREFIXED_NAME = 256 };

struct exporter {
    const struct dgl_log *log;
    const struct dgl_model_file *model;
    const struct gguf_arch *arch;
    struct gguf_units units;
    bool *used; /* by tensor of the model */
};

static bool is_skipped(const struct exporter *x, size_t index)
{
    return x->model->skipped.of_tensor && x->model->skipped.of_tensor[index];
}

/* Index of a tensor by its name in a multimodal or base checkpoint, or -1. */
static long find_prefixed(const struct exporter *x, const char *name)
{
    long index = -1;
    for (size_t i = 0; i < BIND_NUM_PREFIXES && index < 0; i++) {
        const struct bind_prefix *p = &bind_prefixes[i];
        size_t len = p->replacement ? strlen(p->replacement) : 0;
        char full[MAX_PREFIXED_NAME];
        if (len == 0 || (x->model->desc.parts & p->with) != p->with ||
            strncmp(name, p->replacement, len) != 0)
            continue;
        snprintf(full, sizeof(full), "%s%s", p->prefix, name + len);
        index = tensor_source_find(x->model->tensors, full);
    }
    return index;
}

/* Index of a tensor that the model uses, by its name in a text model, or -1. */
static long find(const struct exporter *x, const char *name)
{
    long index = tensor_source_find(x->model->tensors, name);
    if (index < 0)
        index = find_prefixed(x, name);
    return index >= 0 && is_skipped(x, (size_t)index) ? -1 : index;
}

static enum dgl_status misfit(const struct exporter *x, const struct tensor_info *info,
                              const char *want)
{
    char shape[TENSOR_SHAPE_TEXT];
    return dgl_fail(
        x->log, DGL_ERR_UNSUPPORTED, "%s: tensor %s of type %s has shape %s, GGUF needs %s",
        tensor_source_label(x->model->tensors), DGL_PRINTABLE(info->name),
        dgl_dtype_get(info->dtype)->name, tensor_shape_str(info->rank, info->shape, shape), want);
}

/* Joins all experts of `hf` to one tensor. Expert 0 exists. */
static enum dgl_status add_stack(struct exporter *x, const char *prefix, const char *hf,
                                 const char *name)
{
    size_t experts = (size_t)x->model->desc.moe.experts;
    const char *mark = strstr(hf, "%d");
    struct tensor_info info = {0};
    enum dgl_status status = DGL_OK;
    size_t *sources = dgl_new_array(size_t, experts);
    if (!sources)
        return dgl_fail_memory(x->log, name, experts * sizeof(*sources));
    for (size_t e = 0; e < experts; e++) {
        char *one = dgl_arena_printf(&x->units.names, "%s%.*s%zu%s", prefix, (int)(mark - hf), hf,
                                     e, mark + 2);
        long index = one ? find(x, one) : -1;
        if (index < 0)
            TRY(dgl_fail(x->log, DGL_ERR_FORMAT, "%s: tensor %s is missing",
                         tensor_source_label(x->model->tensors), one ? one : hf));
        const struct tensor_info *t = tensor_source_at(x->model->tensors, (size_t)index);
        if (e == 0)
            info = *t;
        else if (t->dtype != info.dtype || t->rank != info.rank || t->bytes != info.bytes)
            TRY(misfit(x, t, "experts of one type and shape"));
        sources[e] = (size_t)index;
        x->used[index] = true;
    }
    if (info.rank != 2)
        TRY(misfit(x, &info, "a matrix"));
    struct gguf_unit_tensor t = {.order = GGUF_ORDER_STACK,
                                 .sources = sources,
                                 .num_sources = experts,
                                 .source_bytes = info.bytes};
    info.rank = 3;
    info.shape[2] = info.shape[1];
    info.shape[1] = info.shape[0];
    info.shape[0] = experts;
    info.bytes *= experts; /* cannot overflow: all of them are parts of files */
    return gguf_units_add(&x->units, &info, name, &t);
done:
    free(sources);
    return status;
}

/* Splits [experts, 2 n, ...] into even and odd units. */
static enum dgl_status add_halves(struct exporter *x, size_t index, const char *even,
                                  const char *odd)
{
    struct tensor_info info = *tensor_source_at(x->model->tensors, index);
    bool bias = info.rank == 2;
    if ((info.rank != 2 && info.rank != 3) || info.shape[1] % 2 != 0 ||
        (bias && dgl_dtype_get(info.dtype)->block != 1))
        return misfit(x, &info, "[experts, an even number of rows, ...]");
    struct gguf_unit_tensor t = {.order = GGUF_ORDER_SECOND, .source = {index}};
    t.unit = bias ? dgl_dtype_get(info.dtype)->block_bytes : gguf_unit_bytes(&info);
    info.shape[1] /= 2;
    info.bytes /= 2;
    enum dgl_status status = gguf_units_add(&x->units, &info, even, &t);
    t.begin = 1;
    return status == DGL_OK ? gguf_units_add(&x->units, &info, odd, &t) : status;
}

/* Splits [2 n, ...] into the first n rows and the others. The source returns whole rows in any
 * layout. */
static enum dgl_status add_parts(struct exporter *x, size_t index, const char *first,
                                 const char *second)
{
    struct tensor_info info = *tensor_source_at(x->model->tensors, index);
    if (info.rank != 2 || info.shape[0] % 2 != 0)
        return misfit(x, &info, "[an even number of rows, ...]");
    struct gguf_unit_tensor t = {.order = GGUF_ORDER_SAME, .source = {index}};
    info.shape[0] /= 2;
    info.bytes /= 2;
    enum dgl_status status = gguf_units_add(&x->units, &info, first, &t);
    t.begin = info.bytes;
    return status == DGL_OK ? gguf_units_add(&x->units, &info, second, &t) : status;
}

static enum dgl_status add_rule(struct exporter *x, const struct gguf_name_rule *rule,
                                const char *prefix, const char *gguf_prefix)
{
    if (!(rule->families & (unsigned)x->arch->family) || !rule->hf)
        return DGL_OK;
    char *name = dgl_arena_printf(&x->units.names, "%s%s", gguf_prefix, rule->gguf);
    char *hf = rule->change == GGUF_EXPERTS
                   ? dgl_arena_printf(&x->units.names, "%s%.*s0%s", prefix,
                                      (int)(strstr(rule->hf, "%d") - rule->hf), rule->hf,
                                      strstr(rule->hf, "%d") + 2)
                   : dgl_arena_printf(&x->units.names, "%s%s", prefix, rule->hf);
    if (!name || !hf)
        return dgl_fail_memory(x->log, "tensor names", strlen(rule->hf));
    long found = find(x, hf);
    if (found < 0)
        return DGL_OK; /* opening the model checked the required tensors */
    size_t index = (size_t)found;
    const struct tensor_info *info = tensor_source_at(x->model->tensors, index);
    enum gguf_change change = rule->change;
    if (change == GGUF_EXPERTS)
        return add_stack(x, prefix, rule->hf, name);
    x->used[index] = true;
    if ((change == GGUF_PERMUTE_Q || change == GGUF_PERMUTE_K) && x->arch->permuted) {
        if (info->rank == 1 && dgl_dtype_get(info->dtype)->block != 1)
            return misfit(x, info, "plain numbers in a vector");
        struct gguf_unit_tensor t = {.order = GGUF_ORDER_UNPERMUTE,
                                     .source = {index},
                                     .unit = gguf_unit_bytes(info),
                                     .head = (uint64_t)x->model->desc.head_dim};
        return gguf_units_add(&x->units, info, name, &t);
    }
    if (change == GGUF_NORM && x->arch->norm_plus_one) {
        if (info->rank != 1 || dgl_dtype_get(info->dtype)->block != 1)
            return misfit(x, info, "a vector of plain numbers");
        return dgl_row_decodable(info->dtype)
                   ? gguf_units_add_shifted(&x->units, index, info, name, 1.0f)
                   : misfit(x, info, "floats");
    }
    if (change == GGUF_INTERLEAVE || change == GGUF_JOINED) {
        char *other = dgl_arena_printf(&x->units.names, "%s%s", gguf_prefix, rule->other);
        return (change == GGUF_JOINED ? add_parts : add_halves)(x, index, name, other);
    }
    struct gguf_unit_tensor same = {.order = GGUF_ORDER_SAME, .source = {index}};
    return gguf_units_add(&x->units, info, name, &same);
}

enum dgl_status gguf_export_view(const struct dgl_log *log, const struct dgl_model_file *model,
                                 const struct gguf_arch *arch, struct tensor_source **out)
{
    struct exporter x = {.log = log,
                         .model = model,
                         .arch = arch,
                         .units = {.log = log, .raw = model->tensors},
                         .used = dgl_new_array(bool, tensor_source_count(model->tensors))};
    *out = NULL;
    if (!x.used)
        return dgl_fail_memory(log, "tensor list", tensor_source_count(model->tensors));
    struct gguf_rope_factors factors[GGUF_MAX_ROPE_FACTORS];
    size_t count = 0;
    enum dgl_status status =
        gguf_export_factors(log, &model->desc.rope[ROPE_GLOBAL], factors, &count);
    for (size_t i = 0; i < count; i++) {
        struct tensor_info info = {.dtype = DGL_F32,
                                   .role = "other",
                                   .rank = 1,
                                   .shape = {factors[i].count},
                                   .bytes = factors[i].count * sizeof(float)};
        struct gguf_unit_tensor t = {.order = GGUF_ORDER_VALUES, .values = factors[i].values};
        if (status == DGL_OK)
            status = gguf_units_add(&x.units, &info, factors[i].name, &t);
        else
            free(factors[i].values);
    }
    if (status != DGL_OK)
        goto done;
    for (size_t i = 0; i < gguf_num_model_names; i++)
        TRY(add_rule(&x, &gguf_model_names[i], "", ""));
    for (int32_t layer = 0; layer < model->desc.layers; layer++) {
        char *prefix = dgl_arena_printf(&x.units.names, "model.layers.%" PRId32 ".", layer);
        char *gguf_prefix = dgl_arena_printf(&x.units.names, "blk.%" PRId32 ".", layer);
        if (!prefix || !gguf_prefix)
            TRY(dgl_fail_memory(log, "tensor names", 32));
        for (size_t i = 0; i < gguf_num_layer_names; i++)
            TRY(add_rule(&x, &gguf_layer_names[i], prefix, gguf_prefix));
    }
    for (size_t i = 0; i < tensor_source_count(model->tensors); i++) {
        const char *name = tensor_source_at(model->tensors, i)->name;
        if (!x.used[i] && !is_skipped(&x, i))
            TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED,
                         "%s: tensor %s has no place in a GGUF file of architecture %s",
                         tensor_source_label(model->tensors), DGL_PRINTABLE(name), arch->name));
    }
done:
    if (status == DGL_OK)
        status = gguf_units_source(&x.units, out);
    else
        gguf_units_finish(&x.units);
    free(x.used);
    return status;
}
