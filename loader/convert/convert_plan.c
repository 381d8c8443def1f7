/* Recipes: the element type of each tensor of a pack. docs/formats.md has the measurements. */
#include "loader/convert/convert_plan.h"

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
    {"q4_k_m", DGL_Q4_K, DGL_Q4_K, DGL_Q4_K, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
    {"mxfp4", DGL_MXFP4, DGL_MXFP4, DGL_MXFP4, DGL_Q8_0, DGL_Q8_0, DGL_F32, false},
};

/* `name` NULL: no override. */
static enum dgl_status override_role(const struct dgl_log *log, const char *option,
                                     const char *name, enum dgl_dtype *type)
{
    enum dgl_dtype wanted;
    if (!name)
        return DGL_OK;
    if (!dgl_dtype_parse(name, strlen(name), &wanted) || !dgl_row_encodable(wanted))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "convert: %s is \"%s\", wanted f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, "
                        "q4_0 or mxfp4",
                        option, name);
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
    static const char *const aliases[][2] = {{"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}};
    const char *name = params->quantize ? params->quantize : STORED;
    size_t recipe = params->quantize ? 1 : 0;
    for (size_t i = 0; i < COUNT(aliases); i++)
        if (strcasecmp(name, aliases[i][0]) == 0)
            name = aliases[i][1];
    while (recipe < COUNT(recipes) && strcasecmp(recipes[recipe].name, name) != 0)
        recipe++;
    if (recipe == COUNT(recipes))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "convert: quantize is \"%s\", wanted f32, f16, bf16, q8_0, q6_k, q5_k_m, "
                        "q4_k_m or mxfp4",
                        params->quantize);
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
