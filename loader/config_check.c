/* The table of known config fields and the check against it. */
#include "loader/config_check.h"

#include <string.h>

#include "core/base/log.h"

enum field_rule {
    FIELD_READ, /* model_config.c or stop_ids.c reads it */
    FIELD_NULL, /* these are supported at one value only; null is always fine */
    FIELD_FALSE,
    FIELD_ONE,
    FIELD_OBJECT, /* its fields are looked up as "object.field" */
};

struct known_field {
    const char *field;
    enum field_rule rule;
};

static const struct known_field known_fields[] = {
    {"model_type", FIELD_READ},
    {"hidden_size", FIELD_READ},
    {"num_hidden_layers", FIELD_READ},
    {"num_attention_heads", FIELD_READ},
    {"num_key_value_heads", FIELD_READ},
    {"head_dim", FIELD_READ},
    {"intermediate_size", FIELD_READ},
    {"vocab_size", FIELD_READ},
    {"max_position_embeddings", FIELD_READ},
    {"rms_norm_eps", FIELD_READ},
    {"hidden_act", FIELD_READ},
    {"rope_theta", FIELD_READ},
    {"rope_type", FIELD_READ},
    {"tie_word_embeddings", FIELD_READ},
    {"layer_types", FIELD_READ},
    {"bos_token_id", FIELD_READ},
    {"eos_token_id", FIELD_READ},
    {"quantization_config", FIELD_READ},
    {"compression_config", FIELD_READ},
    {"rope_parameters", FIELD_OBJECT},
    {"rope_scaling", FIELD_OBJECT},

    {"attention_bias", FIELD_FALSE},
    {"attention_in_bias", FIELD_FALSE},
    {"attention_out_bias", FIELD_FALSE},
    {"qkv_bias", FIELD_FALSE},
    {"use_bias", FIELD_FALSE},
    {"bias", FIELD_FALSE},
    {"mlp_bias", FIELD_FALSE},
    {"lm_head_bias", FIELD_FALSE},
    {"alibi", FIELD_FALSE},
    {"parallel_attn", FIELD_FALSE},
    {"use_parallel_residual", FIELD_FALSE},
    {"qk_norm", FIELD_FALSE},
    {"use_qk_norm", FIELD_FALSE},
    {"qk_layernorm", FIELD_FALSE},
    {"rope_interleaved", FIELD_FALSE},
    {"scale_embeddings", FIELD_FALSE},
    {"rms_norm_weight_offset", FIELD_FALSE},
    {"use_sliding_window", FIELD_FALSE},
    {"use_bidirectional_attention", FIELD_FALSE},
    {"is_encoder_decoder", FIELD_FALSE},
    {"add_cross_attention", FIELD_FALSE},
    {"cross_attention_hidden_size", FIELD_NULL},
    {"sliding_window", FIELD_NULL},
    {"sliding_window_pattern", FIELD_NULL},
    {"attention_chunk_size", FIELD_NULL},
    {"attn_logit_softcapping", FIELD_NULL},
    {"final_logit_softcapping", FIELD_NULL},
    {"query_pre_attn_scalar", FIELD_NULL},
    {"attention_multiplier", FIELD_NULL},
    {"rope_local_base_freq", FIELD_NULL},
    {"no_rope_layers", FIELD_NULL},
    {"no_rope_layer_interval", FIELD_NULL},
    {"clip_qkv", FIELD_NULL},
    {"swiglu_limit", FIELD_NULL},
    {"swiglu_alpha", FIELD_NULL},
    {"num_experts", FIELD_NULL},
    {"num_experts_per_tok", FIELD_NULL},
    {"moe_intermediate_size", FIELD_NULL},
    {"kv_lora_rank", FIELD_NULL},
    {"q_lora_rank", FIELD_NULL},
    {"text_config", FIELD_NULL},
    {"vision_config", FIELD_NULL},
    {"audio_config", FIELD_NULL},
    {"partial_rotary_factor", FIELD_ONE},
    {"embedding_multiplier", FIELD_ONE},
    {"residual_multiplier", FIELD_ONE},
    {"logits_scaling", FIELD_ONE},
    {"logit_scale", FIELD_ONE},
};

/* Training, Python, bookkeeping (dtype: tensors say theirs themselves; pretraining_tp: how
 * training was split; max_window_layers: only counts with a window), and the sampling defaults
 * that old configs carry. */
static const char *const harmless_fields[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "embd_pdrop",
    "finetuning_task",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "max_window_layers",
    "neftune_noise_alpha",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "resid_pdrop",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "bad_words_ids",
    "begin_suppress_tokens",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
};

static bool is_harmless(const char *field)
{
    for (size_t i = 0; i < sizeof(harmless_fields) / sizeof(harmless_fields[0]); i++) {
        if (strcmp(harmless_fields[i], field) == 0)
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

/* NULL when `value` is fine under the rule, else the value that would be. */
static const char *rule_violation(enum field_rule rule, const struct dgl_json *value)
{
    switch (rule) {
    case FIELD_NULL:
        return "null";
    case FIELD_FALSE:
        return dgl_json_is(value, DGL_JSON_BOOL) && !dgl_json_bool(value) ? NULL : "false";
    case FIELD_ONE:
        return dgl_json_is(value, DGL_JSON_NUMBER) && dgl_json_f64(value) == 1.0 ? NULL : "1";
    case FIELD_READ:
    case FIELD_OBJECT:
        break;
    }
    return NULL;
}

static enum dgl_status check_object(const struct config *c, const struct dgl_json *object,
                                    const char *prefix, struct dgl_buf *unknown);

static enum dgl_status check_field(const struct config *c, const char *path,
                                   const struct dgl_json *value, struct dgl_buf *unknown)
{
    const char *field = config_field_of(path);
    const struct known_field *known = known_find(field);
    if (!known && is_harmless(field))
        return DGL_OK;
    if (!known && strchr(path, '.') && dgl_json_is(value, DGL_JSON_OBJECT))
        return config_refuse(c, path, value, "numbers and strings"); /* rope by layer type */
    if (!known) {
        dgl_buf_printf(unknown, "%s%s", unknown->len ? ", " : "", path);
        return DGL_OK;
    }
    if (known->rule == FIELD_OBJECT)
        return check_object(c, value, path, unknown);
    const char *wanted = rule_violation(known->rule, value);
    return wanted ? config_refuse(c, path, value, wanted) : DGL_OK;
}

/* `prefix` is "" or the object's path; names that the tables lack are appended to `unknown`. */
static enum dgl_status check_object(const struct config *c, const struct dgl_json *object,
                                    const char *prefix, struct dgl_buf *unknown)
{
    enum dgl_status st = DGL_OK;
    for (const struct dgl_json *v = dgl_json_first(object); v && st == DGL_OK;
         v = dgl_json_next(v)) {
        if (dgl_json_is(v, DGL_JSON_NULL))
            continue;
        struct dgl_buf path = {0};
        dgl_buf_printf(&path, "%s%s%s", prefix, prefix[0] ? "." : "", dgl_json_key(v).p);
        st = path.failed ? dgl_fail_memory(c->r.log, "field name", dgl_json_key(v).len)
                         : check_field(c, path.p, v, unknown);
        dgl_buf_finish(&path);
    }
    return st;
}

enum dgl_status config_check_fields(const struct config *c)
{
    struct dgl_buf unknown = {0};
    enum dgl_status st = check_object(c, c->root, "", &unknown);
    if (st == DGL_OK && unknown.len > 0 && !unknown.failed)
        dgl_warn(c->r.log, "%s: ignoring fields that this version does not know: %s",
                 dgl_json_name(c->r.doc), unknown.p);
    dgl_buf_finish(&unknown);
    return st;
}
