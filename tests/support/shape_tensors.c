/* Lists of tensors from the loader's binding rules. */
#include "tests/support/shape_tensors.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/desc/bind_rules.h"

enum dgl_status shape_desc_read(const struct dgl_log *log, const char *path, struct model_desc *out)
{
    struct dgl_json_doc *doc = NULL;
    struct model_skipped skipped = {0};
    enum dgl_status status = dgl_json_load(log, path, 1 << 20, &doc);
    if (status == DGL_OK) {
        const struct fields fields = {.name = path, .base = dgl_json_root(doc)};
        status = model_desc_init(
            log, &(struct model_desc_input){.config = &fields, .config_only = true}, out, &skipped);
    }
    dgl_json_destroy(&doc);
    model_skipped_finish(&skipped);
    return status;
}

/* `layer` -1: of the whole model. */
static enum dgl_status add_tensor(const struct dgl_log *log, const struct model_desc *desc,
                                  const struct bind_rule *rule, int32_t layer, int32_t expert,
                                  struct shape_tensors *list)
{
    uint64_t dims[DIM_COUNT] = {0};
    const char *star = strchr(rule->name, '*');
    size_t len = 0, before = star ? (size_t)(star - rule->name) : strlen(rule->name);
    if (!dgl_grow((void **)&list->items, &list->cap, list->count + 1, sizeof(*list->items)))
        return dgl_fail_memory(log, "list of tensors", list->count * sizeof(*list->items));
    struct shape_tensor *t = &list->items[list->count++];
    *t = (struct shape_tensor){.rank = bind_rule_rank(rule), .count = 1};
    if (layer >= 0)
        len = (size_t)snprintf(t->name, sizeof(t->name), "model.layers.%d.", (int)layer);
    len += (size_t)snprintf(t->name + len, sizeof(t->name) - len, "%.*s", (int)before, rule->name);
    if (star)
        snprintf(t->name + len, sizeof(t->name) - len, "%d%s", (int)expert, star + 1);
    bind_dims_fill(desc, dims);
    for (uint32_t i = 0; i < t->rank; i++) {
        t->shape[i] = dims[rule->dims[i]];
        t->count *= t->shape[i];
    }
    return DGL_OK;
}

/* Returns true if an earlier rule fills this slot, or that of its alternative, in the layer. */
static bool is_filled(const struct bind_rule *rule, const struct model_desc *desc, int32_t layer)
{
    for (const struct bind_rule *r = bind_layer_rules; r < rule; r++)
        if (!r->optional && bind_rule_holds(r, desc, layer) &&
            (r->slot == rule->slot || (rule->kind == STACKED && r->slot == rule->instead)))
            return true;
    return false;
}

enum dgl_status shape_tensors_list(const struct dgl_log *log, const struct model_desc *desc,
                                   struct shape_tensors *out)
{
    enum dgl_status status = DGL_OK;
    *out = (struct shape_tensors){0};
    for (size_t i = 0; i < bind_num_model_rules && status == DGL_OK; i++)
        if (!desc->tied_head || bind_model_rules[i].slot != offsetof(struct model_desc, head))
            status = add_tensor(log, desc, &bind_model_rules[i], -1, 0, out);
    for (int32_t layer = 0; layer < desc->layers; layer++) {
        for (size_t i = 0; i < bind_num_layer_rules; i++) {
            const struct bind_rule *rule = &bind_layer_rules[i];
            int32_t each = rule->kind == EACH ? desc->moe.experts : 1;
            if (rule->optional || !bind_rule_holds(rule, desc, layer) ||
                is_filled(rule, desc, layer))
                continue;
            for (int32_t expert = 0; expert < each && status == DGL_OK; expert++)
                status = add_tensor(log, desc, rule, layer, expert, out);
        }
    }
    return status;
}
