/* Arranges the tensors of a plan: fused gate and up, layouts, names of the text model. */
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/log.h"
#include "loader/convert/convert_plan.h"
#include "loader/desc/bind_rules.h"
#include "loader/quant/quant.h"

#define GATE     "gate_proj"
#define FUSED    "gate_up_proj"
#define OF_MODEL "model." /* of names of models with a head */

const char *convert_item_name(const struct convert_item *item)
{
    return item->name ? item->name : item->from->name;
}

static struct convert_item *item_of(const struct convert_plan *plan, long index)
{
    for (size_t i = 0; i < plan->count && index != TENSOR_NONE; i++) {
        if (plan->items[i].index == (size_t)index)
            return &plan->items[i];
    }
    return NULL;
}

/* ---- fused gate and up ----------------------------------------------------------------------- */

/* Makes gate and up of each layer one tensor, with the rows of up after those of gate. */
static enum dgl_status fuse_all(const struct dgl_log *log, const struct dgl_model_file *model,
                                struct convert_plan *plan)
{
    const struct model_desc *d = &model->desc;
    size_t joined = 0;
    for (int32_t i = 0; i < d->layers; i++) {
        struct convert_item *gate = item_of(plan, d->layer[i].gate);
        struct convert_item *up = item_of(plan, d->layer[i].up);
        if (!gate || !up)
            continue;
        if (gate->from->dtype != up->from->dtype || gate->type != up->type ||
            gate->rows != up->rows || gate->cols != up->cols)
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "convert: %s and %s have different types or shapes and cannot be one "
                            "tensor; leave out --fuse-gate-up, or name a type with --quantize",
                            DGL_PRINTABLE(gate->from->name), DGL_PRINTABLE(up->from->name));
        const char *name = gate->from->name, *at = strstr(name, GATE);
        gate->name = at ? dgl_arena_printf(&plan->names, "%.*s" FUSED "%s", (int)(at - name), name,
                                           at + strlen(GATE))
                        : NULL;
        if (!gate->name)
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "convert: %s is no \"" GATE "\", so that the joined tensor has no "
                            "name; leave out --fuse-gate-up",
                            DGL_PRINTABLE(name));
        gate->fused = true;
        gate->second = up->index;
        gate->part_rows = gate->rows;
        if (!dgl_mul_u64(gate->rows, 2, &gate->rows) || !dgl_mul_u64(gate->size, 2, &gate->size))
            return dgl_fail(log, DGL_ERR_FORMAT, "tensor %s: its size overflows",
                            DGL_PRINTABLE(gate->name));
        plan->count--;
        memmove(up, up + 1, (size_t)(plan->items + plan->count - up) * sizeof(*up));
        joined++;
    }
    if (joined > 0)
        return DGL_OK;
    return dgl_fail(log, DGL_ERR_INVALID_ARG,
                    "convert: fuse-gate-up was given, but no layer of %s has gate and up apart",
                    model->path);
}

/* ---- layouts --------------------------------------------------------------------------------- */

static enum dgl_status lay_out(const struct dgl_log *log, const struct dgl_convert_params *params,
                               struct convert_plan *plan)
{
    size_t blocks = 0, transposed = 0;
    for (size_t i = 0; i < plan->count; i++) {
        struct convert_item *item = &plan->items[i];
        bool matrix = item->from->rank == 2 && dgl_row_decodable(item->from->dtype);
        bool block = matrix && item->type == DGL_Q4_K;
        bool column = matrix && params->transpose_weights &&
                      dgl_dtype_get(item->type)->block == 1 &&
                      strcmp(item->from->role, "matmul") == 0;
        item->layout = block ? plan->block_layout : column ? RDRR_COLUMN : RDRR_ROW;
        blocks += block;
        transposed += column;
        if (item->layout != RDRR_ROW &&
            !rdrr_layout_bytes(item->layout, item->type, 2, (uint64_t[]){item->rows, item->cols},
                               &item->size))
            return dgl_fail(log, DGL_ERR_FORMAT, "tensor %s: its size overflows",
                            DGL_PRINTABLE(convert_item_name(item)));
    }
    if (params->q4k_layout && blocks == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "convert: q4k-layout is \"%s\", but no matrix becomes q4_k",
                        params->q4k_layout);
    if (params->transpose_weights && transposed == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "convert: transpose-weights was given, but no linear layer's weights are "
                        "floats in the pack");
    return DGL_OK;
}

enum dgl_status convert_plan_arrange(const struct dgl_log *log, const struct dgl_model_file *model,
                                     const struct dgl_convert_params *params,
                                     struct convert_plan *plan)
{
    enum dgl_status status = DGL_OK;
    plan->text_only = params->text_only;
    if (params->q4k_layout &&
        !rdrr_layout_parse((struct dgl_str){params->q4k_layout, strlen(params->q4k_layout)},
                           &plan->block_layout))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "convert: q4k-layout is \"%s\", wanted row, column or flat",
                        params->q4k_layout);
    if (params->fuse_gate_up)
        TRY(fuse_all(log, model, plan));
    TRY(lay_out(log, params, plan));
    for (size_t i = 0; i < plan->count && plan->text_only; i++) {
        struct convert_item *item = &plan->items[i];
        const char *name = convert_item_name(item);
        const struct bind_prefix *p = bind_prefix_find(model->desc.parts, name);
        if (!p || !p->replacement)
            continue;
        /* Only names without "model." may lack the head. */
        const char *start = p->replacement;
        if (model->desc.no_head && strncmp(start, OF_MODEL, strlen(OF_MODEL)) == 0)
            start += strlen(OF_MODEL);
        item->name = dgl_arena_printf(&plan->names, "%s%s", start, name + strlen(p->prefix));
        if (!item->name)
            return dgl_fail_memory(log, "tensor names", strlen(name));
    }
    for (size_t i = 0; i < plan->count; i++) {
        const struct convert_item *item = &plan->items[i];
        if (item->type != item->from->dtype || item->type != DGL_Q4_K || !convert_is_relaid(item))
            continue;
        /* Another layout cuts blocks at other values, so they are encoded again. */
        dgl_warn(log, "%s is %s already; cutting its blocks anew for the layout \"%s\" adds error",
                 DGL_PRINTABLE(convert_item_name(item)), dgl_dtype_get(item->type)->name,
                 rdrr_layout_name(item->layout));
        break;
    }
done:
    return status;
}
