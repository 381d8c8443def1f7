/* Builds the view of a GGUF file: the rule of each tensor and its units. */
#include "loader/gguf/gguf_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "loader/gguf/gguf_units.h"
#include "loader/quant/quant.h"

struct builder {
    const struct dgl_log *log;
    const struct gguf_model *m;
    struct gguf_units units;
    size_t *left_out; /* [NUM_OTHER_MODES]: number of tensors */
};

/* Names of tensors that are not part of the text model begin so. */
static const char *const other_modes[] = {"v.", "a.", "mm."};
enum { NUM_OTHER_MODES = sizeof(other_modes) / sizeof(other_modes[0]) };

static enum dgl_status add(struct builder *b, const struct tensor_info *info, const char *name,
                           const struct gguf_unit_tensor *t)
{
    struct tensor_info named = *info;
    named.role = tensor_role_from_name(name ? name : "");
    return gguf_units_add(&b->units, &named, name, t);
}

static enum dgl_status wrong_shape(struct builder *b, const struct tensor_info *info,
                                   const char *want)
{
    char shape[TENSOR_SHAPE_TEXT];
    return dgl_fail(b->log, DGL_ERR_FORMAT, "%s: tensor %s has shape %s, wanted %s",
                    b->m->file->name, DGL_PRINTABLE(info->name),
                    tensor_shape_str(info->rank, info->shape, shape), want);
}

static enum dgl_status add_permuted(struct builder *b, size_t index, const char *name,
                                    int32_t heads)
{
    const struct tensor_info *info = tensor_source_at(b->m->raw, index);
    uint64_t rows = (uint64_t)heads * (uint64_t)b->m->head_dim; /* both at most 2^20 */
    struct gguf_unit_tensor t = {.order = GGUF_ORDER_PERMUTE,
                                 .source = {index},
                                 .unit = gguf_unit_bytes(info),
                                 .head = (uint64_t)b->m->head_dim};
    char want[64];
    snprintf(want, sizeof(want), "%" PRIu64 " rows: %" PRId32 " heads * key_length %" PRId32, rows,
             heads, b->m->head_dim);
    if (info->rank > 2 || info->shape[0] != rows)
        return wrong_shape(b, info, want);
    if (info->rank == 1 && dgl_dtype_get(info->dtype)->block != 1)
        return wrong_shape(b, info, "plain numbers in a vector");
    return add(b, info, name, &t);
}

static enum dgl_status add_experts(struct builder *b, size_t index, const char *prefix,
                                   const char *hf)
{
    struct tensor_info info = *tensor_source_at(b->m->raw, index);
    char want[64];
    snprintf(want, sizeof(want), "[expert_count, rows, cols] with expert_count %" PRId32,
             b->m->experts);
    if (info.rank != 3 || info.shape[0] != (uint64_t)b->m->experts)
        return wrong_shape(b, &info, want);
    const char *mark = strstr(hf, "%d");
    uint64_t bytes = info.bytes / info.shape[0]; /* exact: rows are whole */
    struct tensor_info one = info;
    one.rank = 2;
    one.shape[0] = info.shape[1];
    one.shape[1] = info.shape[2];
    one.bytes = bytes;
    enum dgl_status status = DGL_OK;
    for (int32_t e = 0; e < b->m->experts; e++) {
        struct gguf_unit_tensor t = {
            .order = GGUF_ORDER_SAME, .source = {index}, .begin = (uint64_t)e * bytes};
        char *name = dgl_arena_printf(&b->units.names, "%s%.*s%" PRId32 "%s", prefix,
                                      (int)(mark - hf), hf, e, mark + 2);
        TRY(add(b, &one, name, &t));
    }
done:
    return status;
}

static enum dgl_status add_interleaved(struct builder *b, size_t index, const char *other,
                                       const char *name)
{
    struct tensor_info info = *tensor_source_at(b->m->raw, index);
    long second = tensor_source_find(b->m->raw, other);
    char shape[TENSOR_SHAPE_TEXT];
    if (second < 0)
        return dgl_fail(
            b->log, DGL_ERR_FORMAT,
            "%s: tensor %s is missing, but %s is there and wants it with its own shape %s",
            b->m->file->name, DGL_PRINTABLE(other), DGL_PRINTABLE(info.name),
            tensor_shape_str(info.rank, info.shape, shape));
    const struct tensor_info *up = tensor_source_at(b->m->raw, (size_t)second);
    bool bias = info.rank == 2;
    if ((info.rank != 2 && info.rank != 3) || up->rank != info.rank || up->dtype != info.dtype ||
        memcmp(up->shape, info.shape, sizeof(info.shape[0]) * info.rank) != 0)
        return wrong_shape(b, &info, "the shape and type of its counterpart ffn_up_exps");
    if (bias && dgl_dtype_get(info.dtype)->block != 1)
        return wrong_shape(b, &info, "plain numbers in a bias");
    /* Rows of a matrix, single values of a bias: [experts, n] either way. */
    struct gguf_unit_tensor t = {.order = GGUF_ORDER_ALTERNATE,
                                 .source = {index, (size_t)second},
                                 .unit = bias ? dgl_dtype_get(info.dtype)->block_bytes
                                              : gguf_unit_bytes(&info)};
    if (!dgl_mul_u64(info.shape[1], 2, &info.shape[1]) || !dgl_mul_u64(info.bytes, 2, &info.bytes))
        return wrong_shape(b, &info, "less than 2^63 bytes");
    return add(b, &info, name, &t);
}

static enum dgl_status add_changed(struct builder *b, size_t index, const char *prefix,
                                   const struct gguf_name_rule *rule, const char *gguf_prefix)
{
    const struct tensor_info *info = tensor_source_at(b->m->raw, index);
    enum gguf_change change = rule->change;
    if (((change == GGUF_PERMUTE_Q || change == GGUF_PERMUTE_K) && !b->m->arch->permuted) ||
        (change == GGUF_NORM && !b->m->arch->norm_plus_one))
        change = GGUF_AS_IS;
    char *name = rule->hf ? dgl_arena_printf(&b->units.names, "%s%s", prefix, rule->hf) : NULL;
    struct gguf_unit_tensor same = {.order = GGUF_ORDER_SAME, .source = {index}};
    switch (change) {
    case GGUF_AS_IS:
        return add(b, info, name, &same);
    case GGUF_PERMUTE_Q:
        return add_permuted(b, index, name, b->m->heads);
    case GGUF_PERMUTE_K:
        return add_permuted(b, index, name, b->m->kv_heads);
    case GGUF_NORM: { /* GGUF files of Gemma store 1 + w. Hugging Face, and the config, use w. */
        struct tensor_info named = *info;
        named.role = tensor_role_from_name(name ? name : "");
        if (info->rank != 1 || dgl_dtype_get(info->dtype)->block != 1)
            return wrong_shape(b, info, "a vector of plain numbers");
        return dgl_row_decodable(info->dtype)
                   ? gguf_units_add_shifted(&b->units, index, &named, name, -1.0f)
                   : wrong_shape(b, info, "floats");
    }
    case GGUF_EXPERTS:
        return add_experts(b, index, prefix, rule->hf);
    case GGUF_INTERLEAVE: {
        char *other = dgl_arena_printf(&b->units.names, "%s%s", gguf_prefix, rule->other);
        return other ? add_interleaved(b, index, other, name)
                     : dgl_fail_memory(b->log, "tensor names", strlen(rule->other));
    }
    case GGUF_JOINED: /* GGUF names belong to the rules of the two tensors */
    case GGUF_DROP:
        break;
    }
    return DGL_OK;
}

static const struct gguf_name_rule *rule_find(const struct gguf_name_rule *rules, size_t count,
                                              const char *name, unsigned family)
{
    for (size_t i = 0; i < count; i++) {
        if ((rules[i].families & family) && strcmp(rules[i].gguf, name) == 0)
            return &rules[i];
    }
    return NULL;
}

static enum dgl_status add_tensor(struct builder *b, size_t index)
{
    const char *name = tensor_source_at(b->m->raw, index)->name, *rest;
    unsigned family = b->m->arch->family;
    int32_t layer;
    const struct gguf_name_rule *rule =
        rule_find(gguf_model_names, gguf_num_model_names, name, family);
    if (rule)
        return add_changed(b, index, "", rule, "");
    for (size_t i = 0; i < NUM_OTHER_MODES; i++) {
        if (strncmp(name, other_modes[i], strlen(other_modes[i])) == 0) {
            b->left_out[i]++;
            return DGL_OK;
        }
    }
    if (tensor_layer_split(name, "blk.", &layer, &rest) && layer < b->m->layers) {
        char *prefix = dgl_arena_printf(&b->units.names, "model.layers.%" PRId32 ".", layer);
        char *gguf_prefix = dgl_arena_printf(&b->units.names, "blk.%" PRId32 ".", layer);
        if (!prefix || !gguf_prefix)
            return dgl_fail_memory(b->log, "tensor names", strlen(name));
        rule = rule_find(gguf_layer_names, gguf_num_layer_names, rest, family);
        if (rule)
            return add_changed(b, index, prefix, rule, gguf_prefix);
        for (size_t i = 0; i < gguf_num_layer_names; i++) {
            rule = &gguf_layer_names[i];
            if ((rule->families & family) && rule->other && strcmp(rule->other, rest) == 0)
                return DGL_OK; /* the second of two joined tensors is read with the first */
        }
    }
    return dgl_fail(b->log, DGL_ERR_UNSUPPORTED,
                    "%s: tensor %s is not part of a %s model with %" PRId32
                    " layers; refusing to leave it out",
                    b->m->file->name, DGL_PRINTABLE(name), b->m->arch->name, b->m->layers);
}

enum dgl_status gguf_view_create(const struct dgl_log *log, const struct gguf_model *model,
                                 struct tensor_source *raw, struct model_skipped *skipped,
                                 struct tensor_source **out)
{
    size_t left_out[NUM_OTHER_MODES] = {0};
    struct builder b = {.log = log,
                        .m = model,
                        .left_out = left_out,
                        .units = {.log = log, .raw = raw, .owns_raw = true, .arch = model->arch}};
    enum dgl_status status = DGL_OK;
    *out = NULL;
    for (size_t i = 0; i < tensor_source_count(raw); i++)
        TRY(add_tensor(&b, i));
    for (size_t i = 0; i < NUM_OTHER_MODES; i++) {
        struct dgl_buf line = {0};
        if (left_out[i] == 0)
            continue;
        dgl_buf_printf(&line, "%s*: not part of the text model (tensors: %zu)", other_modes[i],
                       left_out[i]);
        TRY(model_skipped_add(log, skipped, &line));
    }
    return gguf_units_source(&b.units, out);
done:
    gguf_units_finish(&b.units);
    return status;
}
