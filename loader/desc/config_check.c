/* The table of known config fields and the check against it. */
#include "loader/desc/config_check.h"

#include <string.h>

#include "core/base/log.h"

enum field_rule {
    RULE_READ, /* model_config.c or stop_ids.c reads it */
    RULE_NULL, /* families that do not read it support one value only (or null) */
    RULE_FALSE,
    RULE_ONE,
    RULE_OBJECT, /* its fields are looked up as "object.field" */
};

struct known_field {
    const char *field;
    enum field_rule rule;
    uint32_t readers; /* enum family_bit: families that read it, regardless of the rule */
};

#define SWITCHED_WINDOW (FAMILY_QWEN2 | FAMILY_QWEN3 | FAMILY_QWEN3_MOE | FAMILY_SMOLLM3)
#define GEMMA           (FAMILY_GEMMA2 | FAMILY_GEMMA3)

static const struct known_field known_fields[] = {
    {"model_type", RULE_READ, 0},
    {"hidden_size", RULE_READ, 0},
    {"num_hidden_layers", RULE_READ, 0},
    {"num_attention_heads", RULE_READ, 0},
    {"num_key_value_heads", RULE_READ, 0},
    {"head_dim", RULE_READ, 0},
    {"intermediate_size", RULE_READ, 0},
    {"vocab_size", RULE_READ, 0},
    {"max_position_embeddings", RULE_READ, 0},
    {"rms_norm_eps", RULE_READ, 0},
    {"hidden_act", RULE_READ, 0},
    {"rope_theta", RULE_READ, 0},
    {"rope_type", RULE_READ, 0},
    {"tie_word_embeddings", RULE_READ, 0},
    {"layer_types", RULE_READ, 0},
    {"bos_token_id", RULE_READ, 0},
    {"eos_token_id", RULE_READ, 0},
    {"quantization_config", RULE_READ, 0},
    {"compression_config", RULE_READ, 0},
    {"rope_factor", RULE_READ, 0},
    {"rope_original_context", RULE_READ, 0},
    {"rope_low_freq", RULE_READ, 0},
    {"rope_high_freq", RULE_READ, 0},
    {"rope_beta_fast", RULE_READ, 0},
    {"rope_beta_slow", RULE_READ, 0},
    {"rope_attention_factor", RULE_READ, 0},
    {"rope_mscale", RULE_READ, 0},
    {"rope_mscale_all_dim", RULE_READ, 0},
    {"rope_truncate", RULE_READ, 0},
    {"rope_short_factor", RULE_READ, 0},
    {"rope_long_factor", RULE_READ, 0},
    {"rope_parameters", RULE_OBJECT, 0},
    {"rope_scaling", RULE_OBJECT, 0},
    {"rope_parameters.full_attention", RULE_OBJECT, 0},
    {"rope_parameters.sliding_attention", RULE_OBJECT, 0},

    {"attention_bias", RULE_FALSE,
     FAMILY_LLAMA | FAMILY_QWEN3 | FAMILY_QWEN3_MOE | FAMILY_GEMMA2 | FAMILY_GEMMA3 |
         FAMILY_GPT_OSS | FAMILY_OLMO2 | FAMILY_SMOLLM3 | FAMILY_GRANITE},
    {"mlp_bias", RULE_FALSE, FAMILY_LLAMA | FAMILY_SMOLLM3 | FAMILY_GRANITE},
    {"use_sliding_window", RULE_FALSE, SWITCHED_WINDOW},
    {"sliding_window", RULE_NULL,
     SWITCHED_WINDOW | FAMILY_MISTRAL | FAMILY_GEMMA2 | FAMILY_GEMMA3 | FAMILY_PHI3 |
         FAMILY_MIXTRAL | FAMILY_GPT_OSS},
    {"sliding_window_pattern", RULE_NULL, FAMILY_GEMMA3},
    {"rope_local_theta", RULE_NULL, FAMILY_GEMMA3},
    {"rope_local_type", RULE_NULL, FAMILY_GEMMA3},
    {"rope_local_factor", RULE_NULL, FAMILY_GEMMA3},
    {"no_rope_layers", RULE_NULL, FAMILY_SMOLLM3},
    {"no_rope_layer_interval", RULE_NULL, FAMILY_SMOLLM3},
    {"attn_logit_softcapping", RULE_NULL, FAMILY_GEMMA2},
    {"final_logit_softcapping", RULE_NULL, GEMMA},
    {"query_pre_attn_scalar", RULE_NULL, GEMMA},
    {"attention_multiplier", RULE_NULL, FAMILY_GRANITE},
    {"embedding_multiplier", RULE_ONE, FAMILY_GRANITE},
    {"residual_multiplier", RULE_ONE, FAMILY_GRANITE},
    {"logits_scaling", RULE_ONE, FAMILY_GRANITE},
    {"partial_rotary_factor", RULE_ONE, FAMILY_PHI3},
    {"swiglu_limit", RULE_NULL, FAMILY_GPT_OSS},
    {"swiglu_alpha", RULE_NULL, FAMILY_GPT_OSS},
    {"num_experts", RULE_NULL, FAMILY_MIXTRAL | FAMILY_QWEN3_MOE | FAMILY_GPT_OSS},
    {"num_experts_per_tok", RULE_NULL, FAMILY_MIXTRAL | FAMILY_QWEN3_MOE | FAMILY_GPT_OSS},
    {"moe_intermediate_size", RULE_NULL, FAMILY_QWEN3_MOE},
    {"decoder_sparse_step", RULE_NULL, FAMILY_QWEN3_MOE},
    {"mlp_only_layers", RULE_NULL, FAMILY_QWEN3_MOE},
    {"norm_topk_prob", RULE_FALSE, FAMILY_QWEN3_MOE},
    {"text_config", RULE_NULL, FAMILY_OUTER},
    {"vision_config", RULE_NULL, FAMILY_OUTER},

    {"attention_in_bias", RULE_FALSE, 0},
    {"attention_out_bias", RULE_FALSE, 0},
    {"qkv_bias", RULE_FALSE, 0},
    {"use_bias", RULE_FALSE, 0},
    {"bias", RULE_FALSE, 0},
    {"lm_head_bias", RULE_FALSE, 0},
    {"alibi", RULE_FALSE, 0},
    {"parallel_attn", RULE_FALSE, 0},
    {"use_parallel_residual", RULE_FALSE, 0},
    {"qk_norm", RULE_FALSE, 0},
    {"use_qk_norm", RULE_FALSE, 0},
    {"qk_layernorm", RULE_FALSE, 0},
    {"rope_interleaved", RULE_FALSE, 0},
    {"use_mrope", RULE_FALSE, 0},
    {"scale_embeddings", RULE_FALSE, 0},
    {"rms_norm_weight_offset", RULE_FALSE, 0},
    {"use_bidirectional_attention", RULE_FALSE, 0},
    {"is_encoder_decoder", RULE_FALSE, 0},
    {"add_cross_attention", RULE_FALSE, 0},
    {"cross_attention_hidden_size", RULE_NULL, 0},
    {"attention_chunk_size", RULE_NULL, 0},
    {"clip_qkv", RULE_NULL, 0},
    {"rope_scaling.mrope_section", RULE_NULL, 0},
    {"rope_parameters.mrope_section", RULE_NULL, 0},
    {"shared_expert_intermediate_size", RULE_NULL, 0},
    {"n_shared_experts", RULE_NULL, 0},
    {"first_k_dense_replace", RULE_NULL, 0},
    {"kv_lora_rank", RULE_NULL, 0},
    {"q_lora_rank", RULE_NULL, 0},
    {"audio_config", RULE_NULL, 0},
    {"logit_scale", RULE_ONE, 0},
};

/* Fields of training, Python, bookkeeping, the image part of a model, and sampling defaults of old
 * configs. Some need a reason: dtype (tensors have their own types), pretraining_tp (how training
 * was split), max_window_layers (only used with a window), _sliding_window_pattern (layer_types was
 * derived from it), initial_context_length (another name for a field of the rotation). */
static const char harmless_fields[] =
    "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path "
    "_sliding_window_pattern architectures attention_dropout attn_implementation auto_map "
    "boi_token_index cache_implementation chunk_size_feed_forward dtype embd_pdrop "
    "eoi_token_index finetuning_task full_attn_mod hidden_dropout id2label image_token_id "
    "image_token_index initial_context_length initializer_range interpolate_factor is_decoder "
    "is_llama_config keys_to_ignore_at_inference label2id max_window_layers "
    "mm_tokens_per_image neftune_noise_alpha output_attentions output_hidden_states "
    "output_router_logits pad_token_id prefix pretraining_tp problem_type pruned_heads "
    "resid_pdrop return_dict router_aux_loss_coef router_jitter_noise sep_token_id "
    "task_specific_params tf_legacy_loss tie_encoder_decoder tokenizer_class torchscript "
    "transformers.js_config transformers_version unk_token_id unsloth_fixed unsloth_version "
    "use_bfloat16 use_cache bad_words_ids begin_suppress_tokens decoder_start_token_id "
    "diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size "
    "exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty "
    "max_length min_length no_repeat_ngram_size num_beam_groups num_beams "
    "num_return_sequences output_scores remove_invalid_values repetition_penalty "
    "return_dict_in_generate suppress_tokens temperature top_k top_p typical_p";

static bool is_harmless(const char *field)
{
    struct dgl_str rest = dgl_str_of(harmless_fields), name;
    while (dgl_str_split(&rest, ' ', &name)) {
        if (dgl_str_eq(name, field))
            return true;
    }
    return false;
}

static const struct known_field *known_find(const char *field)
{
    for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++) {
        if (strcmp(known_fields[i].field, field) == 0)
            return &known_fields[i];
    }
    return NULL;
}

/* Returns NULL if the rule allows `value`, else the allowed value. */
static const char *rule_violation(enum field_rule rule, const struct field *value)
{
    switch (rule) {
    case RULE_NULL:
        return "null";
    case RULE_FALSE:
        return value->kind == FIELD_BOOL && !value->b ? NULL : "false";
    case RULE_ONE:
        return value->f == 1.0 ? NULL : "1";
    case RULE_READ:
    case RULE_OBJECT:
        break;
    }
    return NULL;
}

/* State of a walk over the fields. */
struct field_walk {
    const struct config *c;
    uint32_t family;
    struct dgl_buf *unknown; /* names that the tables lack */
};

static enum dgl_status check_object(const struct field_walk *w, const struct dgl_json *object,
                                    const char *prefix);

static enum dgl_status check_field(const struct field_walk *w, const char *path,
                                   const struct field *value)
{
    const char *field = config_field_of(path);
    const struct known_field *known = known_find(field);
    if (!FIELD_IS_SET(*value) || (!known && is_harmless(field)))
        return DGL_OK;
    if (!known && strchr(path, '.') && value->kind == FIELD_OBJECT)
        return config_refuse(w->c, path, value, "numbers and strings"); /* an unknown layer type */
    if (!known) {
        dgl_buf_printf(w->unknown, "%s%s", w->unknown->len ? ", " : "", DGL_PRINTABLE(path));
        return DGL_OK;
    }
    if (known->readers & w->family)
        return DGL_OK;
    if (known->rule == RULE_OBJECT)
        return check_object(w, value->json, path);
    const char *wanted = rule_violation(known->rule, value);
    return wanted ? config_refuse(w->c, path, value, wanted) : DGL_OK;
}

/* `prefix` is "" or the path of the object. */
static enum dgl_status check_object(const struct field_walk *w, const struct dgl_json *object,
                                    const char *prefix)
{
    enum dgl_status status = DGL_OK;
    struct dgl_buf path = {0};
    for (const struct dgl_json *v = dgl_json_first(object); v; v = dgl_json_next(v)) {
        struct field value = field_of_json(v);
        path.len = 0;
        dgl_buf_printf(&path, "%s%s%s", prefix, prefix[0] ? "." : "", dgl_json_key(v).p);
        TRY(path.failed ? dgl_fail_memory(w->c->log, "field name", dgl_json_key(v).len)
                        : check_field(w, path.p, &value));
    }
done:
    dgl_buf_finish(&path);
    return status;
}

enum dgl_status config_check_fields(const struct config *c, uint32_t family)
{
    const struct fields *fields = c->fields;
    struct dgl_buf unknown = {0};
    const struct field_walk walk = {.c = c, .family = family, .unknown = &unknown};
    const struct dgl_json *text = dgl_json_get(fields->base, "text_config");
    enum dgl_status status;
    TRY(check_object(&walk, c->prefix ? text : fields->base, ""));
    for (size_t i = 0; i < fields->count && !c->prefix; i++)
        TRY(check_field(&walk, fields->entries[i].path, &fields->entries[i].value));
    if (unknown.len > 0 && !unknown.failed)
        dgl_warn(c->log, "%s: ignoring fields that this version does not know: %s", fields->name,
                 unknown.p);
done:
    dgl_buf_finish(&unknown);
    return status;
}
