/*
 * Hugging Face config of a pack. Packs of this converter and of the first generation contain the
 * config of the model.
 *
 * Newer packs of others have only "architecture" and "inference". Their values are converted to
 * fields of a config, because only model_config.c reads hyperparameters. rdrr_inference.c then
 * compares the resulting description with the manifest, so a config of the wrong family is refused.
 */
#include "loader/model/rdrr_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sections of the manifest, or NULL. */
struct sections {
    struct dgl_json_reader r;
    const struct dgl_json *root, *architecture, *inference;
    struct fields *out;
};

static const struct dgl_json *find(const struct sections *s, const char *group, const char *key)
{
    return dgl_json_get(group ? dgl_json_get(s->inference, group) : s->architecture, key);
}

static bool is_set(const struct dgl_json *value)
{
    return value && !dgl_json_is(value, DGL_JSON_NULL);
}

static bool is_true(const struct sections *s, const char *group, const char *key)
{
    const struct dgl_json *value = find(s, group, key);
    return dgl_json_is(value, DGL_JSON_BOOL) && dgl_json_bool(value);
}

/* Returns true for a number other than 1. */
static bool is_scale(const struct sections *s, const char *group, const char *key)
{
    const struct dgl_json *value = find(s, group, key);
    return dgl_json_is(value, DGL_JSON_NUMBER) && dgl_json_f64(value) != 1;
}

static enum dgl_status refuse(const struct sections *s, const char *group, const char *key,
                              const char *supported)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_value(&w, find(s, group, key));
    enum dgl_status status =
        dgl_fail(s->r.log, DGL_ERR_UNSUPPORTED, "%s: %s%s%s.%s is %s; supported: %s",
                 dgl_json_name(s->r.doc), group ? "inference" : "architecture", group ? "." : "",
                 group ? group : "", key, DGL_PRINTABLE_STR(((struct dgl_str){text.p, text.len})),
                 supported);
    dgl_buf_finish(&text);
    return status;
}

/* ---- features without support ---------------------------------------------------------------- */

/* Features that are accepted if the value is absent, null, false, 0, or `neutral`. */
static const struct switched_off {
    const char *group, *key; /* group NULL: of "architecture" */
    double neutral;
} switched_off[] = {
    {NULL, "globalHeadDim", 0},
    {NULL, "numGlobalKeyValueHeads", 0},
    {NULL, "numKvSharedLayers", 0},
    {NULL, "hiddenSizePerLayerInput", 0},
    {NULL, "vocabSizePerLayerInput", 0},
    {NULL, "linearNumKeyHeads", 0},
    {NULL, "linearNumValueHeads", 0},
    {NULL, "linearConvKernelDim", 0},
    {"attention", "queryKeyNormLayers", 0},
    {"attention", "queryKeyNormWeightLayers", 0},
    {"normalization", "finalNormBiasTensor", 0},
    {"rope", "ropeInterleaved", 0},
    {"rope", "mropeInterleaved", 0},
    {"rope", "mropeSection", 0},
    {"rope", "ropeLocalPartialRotaryFactor", 1},
    {"rope", "ropeFrequencyBaseDim", 0},
    {"rope", "ropeLocalFrequencyBaseDim", 0},
    {"rope", "ropeLocalScalingType", 0},
    {"rope", "ropeLocalScalingFactor", 1},
    {"output", "embeddingTranspose", 0},
    {"output", "embeddingPostprocessor", 0},
    {"output", "lmHeadBiasTensor", 0},
};

static bool is_off(const struct dgl_json *value, double neutral)
{
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
        return true;
    case DGL_JSON_BOOL:
        return !dgl_json_bool(value);
    case DGL_JSON_NUMBER:
        return dgl_json_f64(value) == 0 || dgl_json_f64(value) == neutral;
    case DGL_JSON_STRING:
    case DGL_JSON_ARRAY:
    case DGL_JSON_OBJECT:
        break;
    }
    return false;
}

static enum dgl_status check_off(const struct sections *s)
{
    for (size_t i = 0; i < sizeof(switched_off) / sizeof(switched_off[0]); i++) {
        const struct switched_off *row = &switched_off[i];
        if (!is_off(find(s, row->group, row->key), row->neutral))
            return refuse(s, row->group, row->key, row->neutral == 1 ? "null, 1" : "null, false");
    }
    if (is_set(dgl_json_get(s->inference, "pipeline")))
        return dgl_fail(s->r.log, DGL_ERR_UNSUPPORTED,
                        "%s: inference.pipeline is given; supported: null, the layers that the "
                        "other fields describe",
                        dgl_json_name(s->r.doc));
    const struct dgl_json *rows = find(s, "output", "embeddingVocabSize");
    if (is_set(rows) && dgl_json_f64(rows) != dgl_json_f64(find(s, NULL, "vocabSize")))
        return refuse(s, "output", "embeddingVocabSize", "null, architecture.vocabSize");
    return DGL_OK;
}

/* ---- config by "architecture" and "inference"
 * ------------------------------------------------- */

/* Values that are copied unchanged, from the first place that has one. */
static const struct copied_field {
    const char *name, *group, *key;
} copied_fields[] = {
    {"num_hidden_layers", NULL, "numLayers"},
    {"hidden_size", NULL, "hiddenSize"},
    {"intermediate_size", NULL, "intermediateSize"},
    {"num_attention_heads", NULL, "numAttentionHeads"},
    {"num_key_value_heads", NULL, "numKeyValueHeads"},
    {"head_dim", NULL, "headDim"},
    {"vocab_size", NULL, "vocabSize"},
    {"max_position_embeddings", NULL, "maxSeqLen"},
    {"rms_norm_eps", "normalization", "rmsNormEps"},
    {"rope_theta", "rope", "ropeTheta"},
    {"tie_word_embeddings", "output", "tieWordEmbeddings"},
};

/* Sets a field that the manifest has under another name. */
static void put_field(const struct sections *s, const char *path, struct field value,
                      const char *group, const char *key)
{
    char where[96];
    snprintf(where, sizeof(where), "%s%s.%s", group ? "inference." : "architecture",
             group ? group : "", key);
    fields_set(s->out, path, value, where);
}

static void copy_field(const struct sections *s, const char *path, const char *group,
                       const char *key)
{
    const struct dgl_json *value = find(s, group, key);
    if (value)
        put_field(s, path, field_of_json(value), group, key);
}

/* Finds the family by the features that the fields enable: each family differs from the others in
 * at least one. */
static enum dgl_status family_find(const struct sections *s, const char **out)
{
    bool plus_one = is_true(s, "normalization", "rmsNormWeightOffset");
    bool post = is_true(s, "normalization", "postFeedforwardNorm");
    bool pre = is_true(s, "normalization", "preFeedforwardNorm");
    bool qk_norm = is_true(s, "attention", "queryKeyNorm");
    bool scaled = is_scale(s, "layerPattern", "residualBranchScale") ||
                  is_scale(s, "output", "logitInputScale") ||
                  (is_scale(s, "output", "embeddingScale") && !plus_one);
    if (is_set(dgl_json_get(s->root, "moeConfig")))
        return dgl_json_fail(s->r, dgl_json_get(s->root, "moeConfig"),
                             "has experts, but the pack has no config that describes them; "
                             "supported: packs with both");
    if (plus_one && !(post && pre))
        return refuse(
            s, "normalization", "rmsNormWeightOffset",
            "true with preFeedforwardNorm and postFeedforwardNorm, or a pack with config");
    *out = plus_one                                        ? (qk_norm ? "gemma3_text" : "gemma2")
           : post                                          ? "olmo2"
           : qk_norm                                       ? "qwen3"
           : scaled                                        ? "granite"
           : is_true(s, "attention", "attentionBias")      ? "qwen2"
           : is_set(find(s, "attention", "slidingWindow")) ? "mistral"
                                                           : "llama";
    return DGL_OK;
}

static enum dgl_status put_activation(const struct sections *s, bool gemma)
{
    static const char *const names[][2] = {{"silu", "silu"},
                                           {"swiglu", "silu"},
                                           {"gelu", "gelu_pytorch_tanh"},
                                           {"geglu", "gelu_pytorch_tanh"}};
    struct dgl_str name = dgl_json_str(find(s, "ffn", "activation"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (dgl_str_eq(name, names[i][0])) {
            put_field(s, gemma ? "hidden_activation" : "hidden_act", field_str(names[i][1]), "ffn",
                      "activation");
            return DGL_OK;
        }
    }
    return refuse(s, "ffn", "activation", "\"silu\", \"swiglu\", \"gelu\", \"geglu\"");
}

/* Sets *out to true if the attention of a layer has no window. */
static enum dgl_status layer_is_global(const struct sections *s, int64_t layer, bool *out)
{
    struct dgl_str type = dgl_json_str(find(s, "layerPattern", "type"));
    int64_t period = 0, offset = 0;
    if (dgl_str_eq(type, "every_n") && dgl_json_i64(find(s, "layerPattern", "period"), &period) &&
        period > 0) {
        if (!dgl_json_i64(find(s, "layerPattern", "offset"), &offset) || offset < 0)
            offset = 0;
        *out = layer % period == offset % period;
        return DGL_OK;
    }
    if (dgl_str_eq(type, "alternating")) {
        bool odd = dgl_str_eq(dgl_json_str(find(s, "layerPattern", "globalPattern")), "odd");
        *out = layer % 2 == odd;
        return DGL_OK;
    }
    if (dgl_str_eq(type, "uniform")) {
        *out = !is_set(find(s, "attention", "slidingWindow"));
        return DGL_OK;
    }
    return refuse(s, "layerPattern", "type",
                  "\"uniform\", \"alternating\", \"every_n\" with a period, \"custom\" with "
                  "layerTypes");
}

static enum dgl_status put_layers(const struct sections *s, int64_t layers)
{
    const struct dgl_json *types = find(s, "layerPattern", "layerTypes");
    enum dgl_status status = DGL_OK;
    if (is_set(types)) {
        copy_field(s, "layer_types", "layerPattern", "layerTypes");
        return DGL_OK;
    }
    struct field *items =
        fields_set_list(s->out, "layer_types", (size_t)layers, "inference.layerPattern");
    for (int64_t i = 0; i < layers && items; i++) {
        bool global = false;
        TRY(layer_is_global(s, i, &global));
        items[i] = field_str(global ? "full_attention" : "sliding_attention");
    }
done:
    return status;
}

static enum dgl_status put_rope_scaling(const struct sections *s)
{
    const struct dgl_json *type = find(s, "rope", "ropeScalingType");
    if (!is_off(find(s, "rope", "partialRotaryFactor"), 1))
        return refuse(s, "rope", "partialRotaryFactor", "null, 1, or a pack with config");
    if (!is_set(type))
        return DGL_OK;
    bool yarn = dgl_str_eq(dgl_json_str(type), "yarn");
    if (!yarn && !dgl_str_eq(dgl_json_str(type), "linear"))
        return refuse(s, "rope", "ropeScalingType",
                      "null, \"linear\", \"yarn\", or a pack with "
                      "config");
    copy_field(s, "rope_scaling.rope_type", "rope", "ropeScalingType");
    copy_field(s, "rope_scaling.factor", "rope", "ropeScalingFactor");
    if (yarn) {
        copy_field(s, "rope_scaling.beta_fast", "rope", "yarnBetaFast");
        copy_field(s, "rope_scaling.beta_slow", "rope", "yarnBetaSlow");
        copy_field(s, "rope_scaling.original_max_position_embeddings", "rope",
                   "yarnOriginalMaxPos");
    }
    return DGL_OK;
}

static enum dgl_status config_compose(const struct sections *s)
{
    const char *family = NULL;
    int64_t layers = 0;
    const struct dgl_json *eos = dgl_json_get(s->root, "eos_token_id");
    enum dgl_status status;
    TRY(dgl_json_need_i64(s->r, s->architecture, "numLayers", 1, 4096, &layers));
    TRY(family_find(s, &family));
    bool gemma = strncmp(family, "gemma", 5) == 0;
    fields_set(s->out, "model_type", field_str(family), NULL);
    for (size_t i = 0; i < sizeof(copied_fields) / sizeof(copied_fields[0]); i++)
        copy_field(s, copied_fields[i].name, copied_fields[i].group, copied_fields[i].key);
    if (eos)
        fields_set(s->out, "eos_token_id", field_of_json(eos), NULL);
    if (gemma || strcmp(family, "mistral") == 0)
        copy_field(s, "sliding_window", "attention", "slidingWindow");
    if (gemma) {
        copy_field(s, "query_pre_attn_scalar", "attention", "queryPreAttnScalar");
        copy_field(s, "attn_logit_softcapping", "attention", "attnLogitSoftcapping");
        copy_field(s, "final_logit_softcapping", "output", "finalLogitSoftcapping");
    } else if (strcmp(family, "granite") == 0) {
        /* Multipliers of Granite; the config has the reciprocal of two of them. */
        double logit = dgl_json_f64(find(s, "output", "logitInputScale"));
        double scalar = dgl_json_f64(find(s, "attention", "queryPreAttnScalar"));
        copy_field(s, "embedding_multiplier", "output", "embeddingScale");
        copy_field(s, "residual_multiplier", "layerPattern", "residualBranchScale");
        if (logit > 0)
            put_field(s, "logits_scaling", field_f64(1 / logit), "output", "logitInputScale");
        if (scalar > 0)
            put_field(s, "attention_multiplier", field_f64(1 / sqrt(scalar)), "attention",
                      "queryPreAttnScalar");
    }
    if (strcmp(family, "gemma3_text") == 0)
        copy_field(s, "rope_local_base_freq", "rope", "ropeLocalTheta");
    TRY(put_activation(s, gemma));
    TRY(put_rope_scaling(s));
    if (gemma)
        TRY(put_layers(s, layers));
done:
    return status;
}

/* ---- config in the manifest
 * ------------------------------------------------------------------- */

/* Other converters put the stop ids of generation_config.json into the manifest: they count
 * beside the config's. Each of the two is an id, a list or null. */
static void add_stops(struct fields *out, const struct dgl_json *eos)
{
    const struct dgl_json *both[] = {dgl_json_get(out->base, "eos_token_id"), eos};
    size_t count = 0, most = 2 + dgl_json_count(both[0]) + dgl_json_count(both[1]);
    struct field *ids = fields_set_list(out, "eos_token_id", most, NULL);
    if (out->failed)
        return;
    for (int i = 0; i < 2; i++) {
        for (const struct dgl_json *id = dgl_json_first(both[i]); id; id = dgl_json_next(id))
            ids[count++] = field_of_json(id);
        if (dgl_json_is(both[i], DGL_JSON_NUMBER))
            ids[count++] = field_of_json(both[i]);
    }
    out->entries[out->count - 1].value.count = count;
}

/* Packs that were made from GGUF files have its metadata as config, and the rows of their tensors
 * may be permuted. */
static enum dgl_status check_keys(struct dgl_json_reader r, const struct dgl_json *config)
{
    static const char *const gguf[] = {"blockCount", "embeddingLength", "attentionHeadCount"};
    for (size_t i = 0; i < sizeof(gguf) / sizeof(gguf[0]); i++) {
        if (dgl_json_get(config, gguf[i]))
            return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                            "%s: config.%s is a key of GGUF; supported: Hugging Face configs. Use "
                            "the GGUF file that the pack was made of",
                            dgl_json_name(r.doc), gguf[i]);
    }
    return DGL_OK;
}

static enum dgl_status check_moe(struct dgl_json_reader r, const struct dgl_json *root)
{
    const struct dgl_json *moe, *format;
    int64_t experts = 0, chosen = 0;
    enum dgl_status status;
    TRY(dgl_json_opt(r, root, "moeConfig", DGL_JSON_OBJECT, &moe));
    if (!moe)
        return DGL_OK;
    TRY(dgl_json_need_i64(r, moe, "numExperts", 1, INT32_MAX, &experts));
    TRY(dgl_json_need_i64(r, moe, "numExpertsPerToken", 1, experts, &chosen));
    TRY(dgl_json_opt(r, moe, "expertFormat", DGL_JSON_STRING, &format));
    if (format && !dgl_str_eq(dgl_json_str(format), "mixtral") &&
        !dgl_str_eq(dgl_json_str(format), "gpt-oss"))
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: moeConfig.expertFormat is \"%s\"; supported: mixtral, gpt-oss",
                        dgl_json_name(r.doc), DGL_PRINTABLE(dgl_json_str(format).p));
    if (dgl_json_count(dgl_json_get(moe, "sharedExperts")) > 0)
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: moeConfig.sharedExperts is not empty; supported: []",
                        dgl_json_name(r.doc));
done:
    return status;
}

enum dgl_status rdrr_config_read(struct dgl_json_reader r, const struct dgl_json *root, bool ours,
                                 struct fields *out)
{
    const struct dgl_json *config, *eos = dgl_json_get(root, "eos_token_id");
    struct sections s = {.r = r,
                         .root = root,
                         .architecture = dgl_json_get(root, "architecture"),
                         .inference = dgl_json_get(root, "inference"),
                         .out = out};
    bool described =
        dgl_json_is(s.architecture, DGL_JSON_OBJECT) && dgl_json_is(s.inference, DGL_JSON_OBJECT);
    enum dgl_status status;
    TRY(check_moe(r, root));
    TRY(ours || !described ? dgl_json_need(r, root, "config", DGL_JSON_OBJECT, &config)
                           : dgl_json_opt(r, root, "config", DGL_JSON_OBJECT, &config));
    if (described && !ours)
        TRY(check_off(&s));
    if (config)
        TRY(check_keys(r, config));
    out->base = config;
    if (!config)
        TRY(config_compose(&s));
    else if (!ours && is_set(eos))
        add_stops(out, eos);
    if (out->failed)
        status = dgl_fail_memory(r.log, "config", 0);
done:
    return status;
}
