/* Recipes: which type each tensor of a pack gets. docs/formats.md has the figures behind them. */
#include "loader/convert_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/log.h"
#include "core/base/mem.h"

static const struct convert_recipe recipes[] = {
    {"stored", true, DGL_F32, DGL_F32},  {"f32", false, DGL_F32, DGL_F32},
    {"f16", false, DGL_F16, DGL_F16},    {"bf16", false, DGL_BF16, DGL_BF16},
    {"q8_0", false, DGL_Q8_0, DGL_Q8_0}, {"q4_k_m", false, DGL_Q4_K, DGL_Q8_0},
};

const struct convert_recipe *convert_recipe_find(const char *name)
{
    if (!name)
        return &recipes[0];
    for (size_t i = 1; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
        if (strcmp(recipes[i].name, name) == 0)
            return &recipes[i];
    }
    return NULL;
}

static bool role_is(const struct tensor_info *t, const char *role)
{
    return strcmp(t->role, role) == 0;
}

static bool type_is_block(enum dgl_dtype type)
{
    return dgl_dtype_get(type)->block > 1;
}

enum dgl_dtype convert_target(const struct convert_recipe *recipe, const struct tensor_info *tensor)
{
    if (recipe->as_stored || tensor->dtype == DGL_U8 || tensor->dtype == DGL_I64)
        return tensor->dtype;
    if (tensor->rank >= 2 && (role_is(tensor, "matmul") || role_is(tensor, "expert")))
        return recipe->matrix;
    if (tensor->rank >= 2 && (role_is(tensor, "embedding") || role_is(tensor, "lm_head")))
        return recipe->table;
    return DGL_F32;
}

static enum dgl_status item_init(const struct dgl_log *log, const struct convert_recipe *recipe,
                                 const struct tensor_info *from, struct convert_item *item)
{
    uint64_t bytes;
    item->from = from;
    item->type = convert_target(recipe, from);
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
                        from->name, (unsigned long long)from->bytes);
    return DGL_OK;
}

static void warn_requantised(const struct dgl_log *log, const struct dgl_model_file *model,
                             const struct convert_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct convert_item *item = &plan->items[i];
        if (item->type == item->from->dtype || !type_is_block(item->from->dtype) ||
            !type_is_block(item->type))
            continue;
        dgl_warn(log,
                 "%s: %s is %s already; quantising it again to %s adds error, the original weights "
                 "give a better pack",
                 model->path, item->from->name, dgl_dtype_get(item->from->dtype)->name,
                 dgl_dtype_get(item->type)->name);
        return;
    }
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
    for (size_t i = 0; i < count && status == DGL_OK; i++) {
        const struct tensor_info *t = tensor_source_at(model->tensors, i);
        if (model->skipped.of_tensor[i])
            continue;
        struct convert_item *item = &out->items[out->count++];
        item->index = i;
        status = item_init(log, recipe, t, item);
        if (status == DGL_OK && !dgl_add_u64(out->bytes_in, t->bytes, &out->bytes_in))
            status = dgl_fail(log, DGL_ERR_FORMAT, "%s: sizes of tensors overflow", model->path);
    }
    if (status == DGL_OK)
        warn_requantised(log, model, out);
    else
        convert_plan_finish(out);
    return status;
}

void convert_plan_finish(struct convert_plan *plan)
{
    free(plan->items);
    plan->items = NULL;
    plan->count = 0;
}

enum dgl_dtype convert_plan_headline(const struct convert_plan *plan)
{
    double values[2][DGL_DTYPE_COUNT] = {{0}}; /* of all tensors, of linear layers */
    for (size_t i = 0; i < plan->count; i++) {
        const struct convert_item *item = &plan->items[i];
        double size = (double)item->rows * (double)item->cols;
        values[0][item->type] += size;
        if (role_is(item->from, "matmul") || role_is(item->from, "expert"))
            values[1][item->type] += size;
    }
    for (int pass = 1; pass >= 0; pass--) {
        int best = 0;
        for (int type = 1; type < DGL_DTYPE_COUNT; type++)
            best = values[pass][type] > values[pass][best] ? type : best;
        if (values[pass][best] > 0)
            return (enum dgl_dtype)best;
    }
    return DGL_F32;
}
