/* Makes a model_desc from config.json and tensors, in the right order. */
#include "loader/desc/model_desc.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/desc/bind_rules.h"
#include "loader/desc/model_bind.h"
#include "loader/desc/model_config.h"

enum dgl_status model_layers_create(const struct dgl_log *log, struct model_desc *d)
{
    d->layer = dgl_new_array(struct layer_desc, (size_t)d->layers);
    if (!d->layer)
        return dgl_fail_memory(log, "layer list", (uint64_t)d->layers * sizeof(*d->layer));
    for (size_t i = 0; i < (size_t)d->layers * bind_num_layer_rules; i++) {
        const struct bind_rule *rule = &bind_layer_rules[i % bind_num_layer_rules];
        void *slot = (char *)&d->layer[i / bind_num_layer_rules] + rule->slot;
        long *place = rule->kind == TENSOR ? slot : &((struct expert_tensors *)slot)->stacked;
        *place = TENSOR_NONE;
    }
    return DGL_OK;
}

enum dgl_status model_desc_init(const struct dgl_log *log, const struct model_desc_input *in,
                                struct model_desc *out, struct model_skipped *skipped)
{
    const struct config config = {.log = log, .fields = in->config};
    enum dgl_status status;
    *out =
        (struct model_desc){.embed = TENSOR_NONE, .head = TENSOR_NONE, .final_norm = TENSOR_NONE};
    *skipped = (struct model_skipped){0};
    if (in->config->base && !dgl_json_is(in->config->base, DGL_JSON_OBJECT))
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: is %s, wanted an object", in->config->name,
                        dgl_json_type_name(dgl_json_type(in->config->base)));
    TRY(model_config_read(&config, out));
    TRY(stop_ids_read(&config, in->generation_config, out));
    if (!in->config_only)
        TRY(model_bind(log, in->tensors, in->config->name, out, skipped));
    return DGL_OK;
done:
    model_desc_finish(out);
    model_skipped_finish(skipped);
    return status;
}

void model_desc_finish(struct model_desc *desc)
{
    for (int32_t i = 0; desc->layer && i < desc->layers; i++) {
        free(desc->layer[i].expert_gate.each);
        free(desc->layer[i].expert_up.each);
        free(desc->layer[i].expert_down.each);
        free(desc->layer[i].expert_gate_up.each);
    }
    for (int i = 0; i < ROPE_SETS; i++) {
        free(desc->rope[i].short_factor);
        free(desc->rope[i].long_factor);
        desc->rope[i].short_factor = desc->rope[i].long_factor = NULL;
    }
    free(desc->layer);
    desc->layer = NULL;
}

enum dgl_status model_skipped_add(const struct dgl_log *log, struct model_skipped *skipped,
                                  struct dgl_buf *line)
{
    char *text = dgl_buf_take(line);
    char **lines = dgl_realloc(skipped->lines, (skipped->count + 1) * sizeof(*lines));
    if (lines)
        skipped->lines = lines;
    if (!text || !lines) {
        free(text);
        return dgl_fail_memory(log, "list of skipped tensors",
                               (skipped->count + 1) * sizeof(*lines));
    }
    lines[skipped->count++] = text;
    return DGL_OK;
}

void model_skipped_finish(struct model_skipped *skipped)
{
    for (size_t i = 0; i < skipped->count; i++)
        free(skipped->lines[i]);
    free(skipped->lines);
    free(skipped->of_tensor);
    *skipped = (struct model_skipped){0};
}
