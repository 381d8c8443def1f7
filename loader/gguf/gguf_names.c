/* GGUF names of tensors that the loader refers to by Hugging Face names. */
#include "loader/gguf/gguf_names.h"

#include <inttypes.h>
#include <string.h>

#include "loader/tensor/tensor_source.h"

/* Returns true if `name` matches the Hugging Face name of the rule. Sets *number to the number at
 * "%d", or -1. */
static bool rule_matches(const struct gguf_name_rule *rule, const char *name, int64_t *number)
{
    const char *mark = rule->hf ? strstr(rule->hf, "%d") : NULL;
    *number = -1;
    if (!mark)
        return rule->hf && strcmp(rule->hf, name) == 0;
    size_t before = (size_t)(mark - rule->hf);
    if (strncmp(rule->hf, name, before) != 0)
        return false;
    const char *digits = name + before, *end = strchr(digits, '.');
    return end && strcmp(end, mark + 2) == 0 &&
           dgl_parse_i64((struct dgl_str){digits, (size_t)(end - digits)}, 0, INT32_MAX, number);
}

static const struct gguf_name_rule *rule_of(const struct gguf_name_rule *rules, size_t count,
                                            const char *name, unsigned families, int64_t *number)
{
    for (size_t i = 0; i < count; i++) {
        if ((rules[i].families & families) && rule_matches(&rules[i], name, number))
            return &rules[i];
    }
    return NULL;
}

bool gguf_tensor_name(const struct gguf_arch *arch, const char *name, struct dgl_buf *out)
{
    int64_t expert;
    int32_t layer;
    const char *rest;
    const struct gguf_name_rule *rule =
        rule_of(gguf_model_names, gguf_num_model_names, name, ~0u, &expert);
    if (rule) {
        dgl_buf_puts(out, rule->gguf);
        return true;
    }
    if (!tensor_layer_split(name, "model.layers.", &layer, &rest))
        return false;
    rule = rule_of(gguf_layer_names, gguf_num_layer_names, rest, (unsigned)arch->family, &expert);
    if (!rule) /* only other architectures have a tensor of that name */
        return rule_of(gguf_layer_names, gguf_num_layer_names, rest, ~0u, &expert) != NULL;
    dgl_buf_printf(out, "blk.%" PRId32 ".%s", layer, rule->gguf);
    if (rule->other)
        dgl_buf_printf(out, " with blk.%" PRId32 ".%s", layer, rule->other);
    if (expert >= 0)
        dgl_buf_printf(out, " (expert %" PRId64 ")", expert);
    return true;
}
