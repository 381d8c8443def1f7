/* The table of known config fields and the check against it. */
#include "loader/desc/config_check.h"

#include <string.h>

#include "core/base/log.h"

enum field_rule {
    RULE_READ, /* model_config.c or stop_ids.c reads it, or its value does not matter */
    RULE_NULL, /* families that do not read it support one value only (or null) */
    RULE_FALSE,
    RULE_TRUE,
    RULE_ONE,
    RULE_OBJECT, /* its fields are looked up as "object.field" */
    RULE_UNKNOWN,
};

struct known_field {
    const char *field;
    enum field_rule rule;
    uint32_t readers; /* enum family_bit: families that read it, regardless of the rule */
};

#define SWITCHED_WINDOW (FAMILY_QWEN2 | FAMILY_QWEN3 | FAMILY_QWEN3_MOE | FAMILY_SMOLLM3)
#define GEMMA           (FAMILY_GEMMA2 | FAMILY_GEMMA3)

static const struct known_field known_fields[] = {
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
};

/* Fields with the same rule in all families. */
static const struct {
    enum field_rule rule;
    const char *fields;
} common_fields[] = {
    {RULE_READ,
     "model_type hidden_size num_hidden_layers num_attention_heads num_key_value_heads "
     "head_dim intermediate_size vocab_size max_position_embeddings rms_norm_eps hidden_act "
     "rope_theta rope_type tie_word_embeddings layer_types bos_token_id eos_token_id "
     "quantization_config compression_config rope_factor rope_original_context "
     "rope_low_freq rope_high_freq rope_beta_fast rope_beta_slow rope_attention_factor "
     "rope_mscale rope_mscale_all_dim rope_truncate rope_short_factor rope_long_factor"},
    {RULE_OBJECT, "rope_parameters rope_scaling rope_parameters.full_attention "
                  "rope_parameters.sliding_attention"},
    {RULE_FALSE,
     "attention_in_bias attention_out_bias qkv_bias use_bias bias lm_head_bias alibi "
     "parallel_attn use_parallel_residual qk_norm use_qk_norm qk_layernorm rope_interleaved "
     "use_mrope scale_embeddings rms_norm_weight_offset use_bidirectional_attention "
     "is_encoder_decoder add_cross_attention"},
    {RULE_NULL,
     "cross_attention_hidden_size attention_chunk_size clip_qkv rope_scaling.mrope_section "
     "rope_parameters.mrope_section shared_expert_intermediate_size n_shared_experts "
     "first_k_dense_replace kv_lora_rank q_lora_rank audio_config"},
    {RULE_TRUE, "is_causal"},
    {RULE_ONE, "logit_scale"},
    /* Fields of training, Python, bookkeeping, the image part of a model, and sampling defaults of
     * old configs. Some need a reason: dtype (tensors have their own types), pretraining_tp (how
     * training was split), max_window_layers (only used with a window), _sliding_window_pattern
     * (layer_types was derived from it), initial_context_length (another name for a field of the
     * rotation). */
    {RULE_READ,
     "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path "
     "_sliding_window_pattern architectures attention_dropout attn_implementation auto_map "
     "boi_token_index cache_implementation chunk_size_feed_forward dtype embd_pdrop "
     "eoi_token_index finetuning_task full_attn_mod hidden_dropout id2label image_token_id "
     "image_token_index initial_context_length initializer_range interpolate_factor "
     "is_decoder is_llama_config keys_to_ignore_at_inference label2id max_window_layers "
     "mm_tokens_per_image neftune_noise_alpha output_attentions output_hidden_states "
     "output_router_logits pad_token_id prefix pretraining_tp problem_type pruned_heads "
     "resid_pdrop return_dict router_aux_loss_coef router_jitter_noise sep_token_id "
     "task_specific_params tf_legacy_loss tie_encoder_decoder tokenizer_class torchscript "
     "transformers.js_config transformers_version unk_token_id unsloth_fixed "
     "unsloth_version use_bfloat16 use_cache bad_words_ids begin_suppress_tokens "
     "decoder_start_token_id diversity_penalty do_sample early_stopping "
     "encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id "
     "forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size "
     "num_beam_groups num_beams num_return_sequences output_scores remove_invalid_values "
     "repetition_penalty return_dict_in_generate suppress_tokens temperature top_k top_p "
     "typical_p"},
};

/* Returns the rule of a field for a family. */
static enum field_rule rule_of(const char *field, uint32_t family)
{
    for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++) {
        if (strcmp(known_fields[i].field, field) == 0)
            return known_fields[i].readers & family ? RULE_READ : known_fields[i].rule;
    }
    for (size_t i = 0; i < sizeof(common_fields) / sizeof(common_fields[0]); i++) {
        struct dgl_str rest = dgl_str_of(common_fields[i].fields), name;
        while (dgl_str_split(&rest, ' ', &name)) {
            if (dgl_str_eq(name, field))
                return common_fields[i].rule;
        }
    }
    return RULE_UNKNOWN;
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
    const char *wanted = NULL;
    if (!FIELD_IS_SET(*value))
        return DGL_OK;
    switch (rule_of(config_field_of(path), w->family)) {
    case RULE_READ:
        break;
    case RULE_NULL:
        wanted = "null";
        break;
    case RULE_FALSE:
        wanted = value->kind == FIELD_BOOL && !value->b ? NULL : "false";
        break;
    case RULE_TRUE:
        wanted = value->kind == FIELD_BOOL && value->b ? NULL : "true";
        break;
    case RULE_ONE:
        wanted = value->f == 1.0 ? NULL : "1";
        break;
    case RULE_OBJECT:
        return check_object(w, value->json, path);
    case RULE_UNKNOWN:
        if (strchr(path, '.') && value->kind == FIELD_OBJECT)
            wanted = "numbers and strings"; /* an unknown layer type */
        else
            dgl_buf_printf(w->unknown, "%s%s", w->unknown->len ? ", " : "", DGL_PRINTABLE(path));
        break;
    }
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
