/* Recipes: the element type of each tensor of a pack. docs/formats.md has the measurements. */
#include "loader/convert/convert_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/checked.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/quant/quant.h"

#define ALL(type) type, type, type, type, type
#define STORED    "stored"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct convert_recipe recipes[] = {
    {STORED, ALL(CONVERT_KEEP), .other = CONVERT_KEEP},
    {"f32", ALL(DGL_F32), .other = DGL_F32},
    {"f16", ALL(DGL_F16), .other = DGL_F32},
    {"bf16", ALL(DGL_BF16), .other = DGL_F32},
    {"q8_0", ALL(DGL_Q8_0), .other = DGL_F32},
    {"q6_k", ALL(DGL_Q6_K), .other = DGL_F32},
    {"q5_k_m", DGL_Q5_K, DGL_Q6_K, DGL_Q5_K, DGL_Q6_K, DGL_Q6_K, DGL_F32, false},
    {"q5_1", ALL(DGL_Q5_1), .other = DGL_F32},
    {"q5_0", ALL(DGL_Q5_0), .other = DGL_F32},
    {"q4_k_m", DGL_Q4_K, DGL_Q4_K, DGL_Q4_K, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
    {"q4_1", DGL_Q4_1, DGL_Q4_1, DGL_Q4_1, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
    {"q4_0", DGL_Q4_0, DGL_Q4_0, DGL_Q4_0, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
    {"iq4_nl", DGL_IQ4_NL, DGL_IQ4_NL, DGL_IQ4_NL, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
    {"iq4_xs", DGL_IQ4_XS, DGL_IQ4_XS, DGL_IQ4_XS, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
    {"q3_k_m", DGL_Q3_K, DGL_Q4_K, DGL_Q3_K, DGL_Q6_K, DGL_Q6_K, DGL_F32, false},
    {"q2_k", DGL_Q2_K, DGL_Q3_K, DGL_Q2_K, DGL_Q6_K, DGL_Q6_K, DGL_F32, false},
    {"mxfp4", DGL_MXFP4, DGL_MXFP4, DGL_MXFP4, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
};

/* Types that are read, but have no encoder: each needs an importance matrix to be of use, or is for
 * models that were trained for it. Names of mixes begin with those of types. */
static bool is_read_only(const char *name)
{
    static const char *const prefixes[] = {"iq1_", "iq2_", "iq3_", "tq1_", "tq2_", "q1_0", "q2_0"};
    for (size_t i = 0; i < COUNT(prefixes); i++)
        if (strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Fails because no type, or with `mixes` no recipe, is called `name`. */
static enum dgl_status fail_type(const struct dgl_log *log, const char *option, const char *name,
                                 bool mixes)
{
    struct dgl_buf known = {0};
    enum dgl_status status;
    for (size_t i = 1; i < COUNT(recipes) && mixes; i++)
        dgl_buf_printf(&known, "%s%s", i > 1 ? ", " : "", recipes[i].name);
    for (int i = 0; i < DGL_DTYPE_COUNT && !mixes; i++)
        if (dgl_row_encodable((enum dgl_dtype)i))
            dgl_buf_printf(&known, "%s%s", i ? ", " : "", dgl_dtype_get((enum dgl_dtype)i)->name);
    if (is_read_only(name))
        status =
            dgl_fail(log, DGL_ERR_INVALID_ARG,
                     "convert: %s is \"%s\": files of this type are read, but not written; the "
                     "smallest types that are written are %s, iq4_xs and q2_k",
                     option, DGL_PRINTABLE(name), mixes ? "q3_k_m" : "q3_k");
    else
        status = dgl_fail(log, DGL_ERR_INVALID_ARG, "convert: %s is \"%s\", wanted one of %s",
                          option, DGL_PRINTABLE(name), known.p ? known.p : "?");
    dgl_buf_finish(&known);
    return status;
}

/* `name` NULL: no override. */
static enum dgl_status override_role(const struct dgl_log *log, const char *option,
                                     const char *name, enum dgl_dtype *type)
{
    enum dgl_dtype wanted;
    if (!name)
        return DGL_OK;
    if (!dgl_dtype_parse(name, strlen(name), &wanted) || !dgl_row_encodable(wanted))
        return fail_type(log, option, name, false);
    *type = wanted;
    return DGL_OK;
}

/* Encoders of block formats search for the best codes; those of floats round. */
static bool searches(enum dgl_dtype type)
{
    return type != CONVERT_KEEP && dgl_dtype_get(type)->block > 1 && dgl_row_encodable(type);
}

enum dgl_status convert_recipe_init(const struct dgl_log *log,
                                    const struct dgl_convert_params *params,
                                    struct convert_recipe *out)
{
    /* names that the quantizer of llama.cpp accepts too */
    static const char *const aliases[][2] = {
        {"q3_k", "q3_k_m"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}};
    const char *name = params->quantize ? params->quantize : STORED;
    size_t recipe = params->quantize ? 1 : 0;
    for (size_t i = 0; i < COUNT(aliases); i++)
        if (strcasecmp(name, aliases[i][0]) == 0)
            name = aliases[i][1];
    while (recipe < COUNT(recipes) && strcasecmp(recipes[recipe].name, name) != 0)
        recipe++;
    if (recipe == COUNT(recipes))
        return fail_type(log, "quantize", params->quantize, true);
    *out = recipes[recipe];
    enum dgl_status status;
    TRY(override_role(log, "embed", params->embed, &out->embed));
    TRY(override_role(log, "head", params->head, &out->head));
    TRY(override_role(log, "experts", params->experts, &out->experts));
    out->fast = params->fast;
    bool any = searches(out->matrix) || searches(out->precise) || searches(out->experts) ||
               searches(out->embed) || searches(out->head) || searches(out->other);
    if (out->fast && !any)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "convert: fast was given, but there is no search to leave out: quantize "
                        "%s%s, and no role gets a block format",
                        params->quantize ? "is " : "was not given",
                        params->quantize ? params->quantize : "");
done:
    return status;
}

static bool role_is(const struct tensor_info *t, const char *role)
{
    return strcmp(t->role, role) == 0;
}

/* Returns the new type of a tensor. Tensors of types without a decoder keep their type. */
static enum dgl_dtype target(const struct convert_recipe *recipe, const struct tensor_info *tensor,
                             bool precise)
{
    enum dgl_dtype type = recipe->other;
    if (tensor->rank >= 2 && role_is(tensor, "matmul"))
        type = precise ? recipe->precise : recipe->matrix;
    else if (tensor->rank >= 2 && role_is(tensor, "expert"))
        type = recipe->experts;
    else if (tensor->rank >= 2 && role_is(tensor, "embedding"))
        type = recipe->embed;
    else if (tensor->rank >= 2 && role_is(tensor, "lm_head"))
        type = recipe->head;
    return type == CONVERT_KEEP || !dgl_row_decodable(tensor->dtype) ? tensor->dtype : type;
}

/* Follows llama.cpp: the first and the last eighth of the layers, and every third layer between. */
static bool is_precise(const struct model_desc *desc, size_t index)
{
    int eighth = desc->layers / 8;
    for (int i = 0; i < desc->layers; i++) {
        bool precise = i < eighth || i >= 7 * desc->layers / 8 || (i - eighth) % 3 == 2;
        if (precise && (desc->layer[i].v == (long)index || desc->layer[i].down == (long)index))
            return true;
    }
    return false;
}

/* item->from and item->type are set. */
enum dgl_status convert_item_size(const struct dgl_log *log, struct convert_item *item)
{
    const struct tensor_info *from = item->from;
    uint64_t bytes;
    item->rows = 1;
    item->cols = from->rank ? from->shape[from->rank - 1] : 1;
    bool ok = true;
    for (uint32_t i = 0; i + 1 < from->rank; i++)
        ok = ok && dgl_mul_u64(item->rows, from->shape[i], &item->rows);
    ok = ok && dgl_dtype_row_bytes(from->dtype, item->cols, &item->from_row) &&
         dgl_dtype_row_bytes(item->type, item->cols, &item->row_bytes) &&
         dgl_mul_u64(item->rows, item->from_row, &bytes) &&
         dgl_mul_u64(item->rows, item->row_bytes, &item->size);
    if (!ok || bytes != from->bytes || from->bytes == 0)
        return dgl_fail(log, DGL_ERR_FORMAT, "tensor %s: %llu bytes do not fit its shape and type",
                        DGL_PRINTABLE(from->name), (unsigned long long)from->bytes);
    return DGL_OK;
}

enum dgl_status convert_plan_init(const struct dgl_log *log, const struct dgl_model_file *model,
                                  const struct convert_recipe *recipe, struct convert_plan *out)
{
    size_t count = tensor_source_count(model->tensors);
    enum dgl_status status = DGL_OK;
    *out = (struct convert_plan){.recipe = recipe};
    out->items = dgl_new_array(struct convert_item, count);
    if (!out->items)
        return dgl_fail_memory(log, "conversion plan", count * sizeof(*out->items));
    for (size_t i = 0; i < count; i++) {
        const struct tensor_info *t = tensor_source_at(model->tensors, i);
        if (model->skipped.of_tensor[i])
            continue;
        struct convert_item *item = &out->items[out->count++];
        item->index = i;
        item->from = t;
        item->type = target(recipe, t, is_precise(&model->desc, i));
        TRY(convert_item_size(log, item));
        if (!dgl_add_u64(out->bytes_in, t->bytes, &out->bytes_in))
            TRY(dgl_fail(log, DGL_ERR_FORMAT, "%s: sizes of tensors overflow", model->path));
    }
    for (size_t i = 0; i < out->count; i++) {
        const struct dgl_dtype_traits *from = dgl_dtype_get(out->items[i].from->dtype);
        const struct dgl_dtype_traits *to = dgl_dtype_get(out->items[i].type);
        if (from == to || from->block == 1 || to->block == 1)
            continue;
        dgl_warn(log,
                 "%s: %s is %s already; quantising it again to %s adds error, the original weights "
                 "give a better pack",
                 model->path, DGL_PRINTABLE(out->items[i].from->name), from->name, to->name);
        break;
    }
done:
    if (status != DGL_OK)
        convert_plan_finish(out);
    return status;
}

enum dgl_status convert_plan_check(const struct dgl_log *log, const struct convert_plan *plan,
                                   const struct dgl_convert_params *params)
{
    /* If the head is tied, the embedding is the head. */
    const struct {
        const char *option, *given, *role;
    } overrides[] = {{"embed", params->embed, "embedding"},
                     {"head", params->head, "lm_head"},
                     {"experts", params->experts, "expert"}};
    for (size_t o = 0; o < COUNT(overrides); o++) {
        size_t i = 0;
        while (i < plan->count && !role_is(plan->items[i].from, overrides[o].role))
            i++;
        if (overrides[o].given && i == plan->count)
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "convert: %s is \"%s\", but the model has no %s", overrides[o].option,
                            overrides[o].given, overrides[o].role);
    }
    return DGL_OK;
}

enum dgl_status convert_plan_check_fast(const struct dgl_log *log, const struct convert_plan *plan,
                                        const struct dgl_convert_params *params)
{
    if (!params->fast)
        return DGL_OK;
    for (size_t i = 0; i < plan->count; i++) {
        const struct convert_item *item = &plan->items[i];
        if (searches(item->type) && (item->type != item->from->dtype || convert_is_relaid(item)))
            return DGL_OK;
    }
    return dgl_fail(log, DGL_ERR_INVALID_ARG,
                    "convert: fast was given, but there is no search to leave out: no tensor of "
                    "this model becomes a block format that it is not already");
}

void convert_plan_warn_padded(const struct dgl_log *log, const struct convert_plan *plan,
                              const char *path)
{
    const struct dgl_dtype_traits *q8_0 = dgl_dtype_get(DGL_Q8_0);
    const struct convert_item *first = NULL;
    uint64_t bytes = 0, as_q8_0 = 0, before = 0, row;
    for (size_t i = 0; i < plan->count; i++) {
        const struct convert_item *item = &plan->items[i];
        const struct dgl_dtype_traits *t = dgl_dtype_get(item->type);
        /* Sizes of types that are larger than q8_0 for whole blocks are no surprise. */
        if (item->cols % t->block == 0 || item->type == item->from->dtype ||
            (uint64_t)t->block_bytes * q8_0->block >= (uint64_t)q8_0->block_bytes * t->block ||
            !dgl_dtype_row_bytes(DGL_Q8_0, item->cols, &row) || item->row_bytes <= row)
            continue;
        first = first ? first : item;
        bytes += item->size;
        as_q8_0 += item->rows * row; /* below item->size, which does not overflow */
        before += item->from->bytes;
    }
    if (!first)
        return;
    const struct dgl_dtype_traits *t = dgl_dtype_get(first->type);
    const uint32_t part = (uint32_t)(first->cols % t->block);
    dgl_warn(log,
             "%s: rows of %" PRIu64 " values, such as those of %s, are padded by %" PRIu32
             " values to whole blocks of %s; such tensors become %s: %" PRIu64 " bytes, %" PRIu64
             " now, %" PRIu64 " as q8_0, which is also more precise",
             path, first->cols, DGL_PRINTABLE(convert_item_name(first)), t->block - part, t->name,
             bytes > before ? "larger than they are" : "larger than as q8_0", bytes, before,
             as_q8_0);
}

void convert_plan_finish(struct convert_plan *plan)
{
    free(plan->items);
    dgl_arena_finish(&plan->names);
    plan->items = NULL;
    plan->count = 0;
}

enum dgl_dtype convert_plan_headline(const struct convert_plan *plan)
{
    struct dtype_tally tally = {0};
    for (size_t i = 0; i < plan->count; i++) {
        const struct convert_item *item = &plan->items[i];
        dtype_tally_add(&tally, item->from->role, item->type,
                        (double)item->rows * (double)item->cols);
    }
    return dtype_tally_headline(&tally);
}
