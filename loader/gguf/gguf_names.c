/* What a GGUF file calls what the rest of the loader knows by Hugging Face's names: for messages.
 */
#include "loader/gguf/gguf_names.h"

#include <inttypes.h>
#include <string.h>

/* ---- tensors --------------------------------------------------------------------------------- */

/* Whether `name` is the rule's name in Hugging Face, with a number for its "%d"; -1 = without. */
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

/* Splits "model.layers.12.rest". */
static bool layer_split(const char *name, int64_t *layer, const char **rest)
{
    static const char prefix[] = "model.layers.";
    size_t skip = sizeof(prefix) - 1;
    const char *dot = strncmp(name, prefix, skip) == 0 ? strchr(name + skip, '.') : NULL;
    if (!dot || !dgl_parse_i64((struct dgl_str){name + skip, (size_t)(dot - name) - skip}, 0,
                               INT32_MAX, layer))
        return false;
    *rest = dot + 1;
    return true;
}

bool gguf_tensor_name(const struct gguf_arch *arch, const char *name, struct dgl_buf *out)
{
    int64_t layer, expert;
    const char *rest;
    const struct gguf_name_rule *rule =
        rule_of(gguf_model_names, gguf_num_model_names, name, ~0u, &expert);
    if (rule) {
        dgl_buf_puts(out, rule->gguf);
        return true;
    }
    if (!layer_split(name, &layer, &rest))
        return false;
    rule = rule_of(gguf_layer_names, gguf_num_layer_names, rest, (unsigned)arch->family, &expert);
    if (!rule) /* other architectures have it, this one keeps it in another tensor */
        return rule_of(gguf_layer_names, gguf_num_layer_names, rest, ~0u, &expert) != NULL;
    dgl_buf_printf(out, "blk.%" PRId64 ".%s", layer, rule->gguf);
    if (rule->other)
        dgl_buf_printf(out, " with blk.%" PRId64 ".%s", layer, rule->other);
    if (expert >= 0)
        dgl_buf_printf(out, " (expert %" PRId64 ")", expert);
    return true;
}

/* ---- fields of config.json ------------------------------------------------------------------- */

static const struct field_name {
    const char *path;   /* in the config.json that gguf_config.c and gguf_rope.c compose */
    const char *suffix; /* below the architecture's name; NULL: `whole` */
    const char *whole;
} field_names[] = {
    {"num_hidden_layers", "block_count", NULL},
    {"num_attention_heads", "attention.head_count", NULL},
    {"num_key_value_heads", "attention.head_count_kv", NULL},
    {"head_dim", "attention.key_length", NULL},
    {"hidden_size", "embedding_length", NULL},
    {"intermediate_size", "feed_forward_length", NULL},
    {"moe_intermediate_size", "expert_feed_forward_length", NULL},
    {"max_position_embeddings", "context_length", NULL},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", NULL},
    {"sliding_window", "attention.sliding_window", NULL},
    {"layer_types", "attention.sliding_window_pattern", NULL},
    {"query_pre_attn_scalar", "attention.scale", NULL},
    {"attn_logit_softcapping", "attn_logit_softcapping", NULL},
    {"final_logit_softcapping", "final_logit_softcapping", NULL},
    {"num_experts", "expert_count", NULL},
    {"num_local_experts", "expert_count", NULL},
    {"num_experts_per_tok", "expert_used_count", NULL},
    {"norm_topk_prob", "expert_weights_norm", NULL},
    {"embedding_multiplier", "embedding_scale", NULL},
    {"attention_multiplier", "attention.scale", NULL},
    {"residual_multiplier", "residual_scale", NULL},
    {"logits_scaling", "logit_scale", NULL},
    {"rope_theta", "rope.freq_base", NULL},
    {"rope_local_base_freq", "rope.freq_base_swa", NULL},
    {"partial_rotary_factor", "rope.dimension_count", NULL},
    {"original_max_position_embeddings", "rope.scaling.original_context_length", NULL},
    {"rope_scaling.original_max_position_embeddings", "rope.scaling.original_context_length", NULL},
    {"rope_scaling.rope_type", "rope.scaling.type", NULL},
    {"rope_scaling.factor", "rope.scaling.factor", NULL},
    {"rope_scaling.beta_fast", "rope.scaling.yarn_beta_fast", NULL},
    {"rope_scaling.beta_slow", "rope.scaling.yarn_beta_slow", NULL},
    {"rope_scaling.attention_factor", "rope.scaling.attn_factor", NULL},
    {"rope_scaling.short_factor", NULL, "tensor rope_factors_short.weight"},
    {"rope_scaling.long_factor", NULL, "tensor rope_factors_long.weight"},
    {"vocab_size", NULL, "rows of token_embd.weight"},
    {"model_type", NULL, "general.architecture"},
    {"bos_token_id", NULL, "tokenizer.ggml.bos_token_id"},
    {"eos_token_id", NULL, "tokenizer.ggml.eos_token_id"},
};

/* GPT-OSS has no MLP beside its experts, whose width Hugging Face calls by the plain name. */
static const char *suffix_of(const struct gguf_arch *arch, const struct field_name *field)
{
    bool experts = arch->family == GGUF_GPT_OSS && strcmp(field->path, "intermediate_size") == 0;
    return experts ? "expert_feed_forward_length" : field->suffix;
}

bool gguf_field_name(const void *arch, const char *path, struct dgl_buf *out)
{
    const struct gguf_arch *a = arch;
    size_t len = strcspn(path, "["); /* what follows counts elements */
    for (size_t i = 0; i < sizeof(field_names) / sizeof(field_names[0]); i++) {
        const struct field_name *field = &field_names[i];
        if (strncmp(field->path, path, len) != 0 || field->path[len] != 0)
            continue;
        if (field->whole)
            dgl_buf_printf(out, "%s%s", field->whole, path + len);
        else
            dgl_buf_printf(out, "%s.%s%s", a->name, suffix_of(a, field), path + len);
        return true;
    }
    return false;
}
