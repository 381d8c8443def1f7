/*
 * The Hugging Face config of a pack. Packs of ours and of the first generation carry the model's
 * own; newer packs of others only have "architecture" and "inference", and get a config made of
 * these: model_config.c is the one place that reads hyperparameters, and what it makes of the
 * config is compared with the manifest afterwards (rdrr_inference.c), so that a config of the
 * wrong family is refused and not run.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/rdrr/rdrr_manifest.h"

/* The manifest's sections; NULL = absent. */
struct sections {
    struct dgl_json_reader r;
    const struct dgl_json *root, *architecture, *inference;
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

/* A number that is there and not 1. */
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
    enum dgl_status st = dgl_fail(
        s->r.log, DGL_ERR_UNSUPPORTED, "%s: %s%s%s.%s is %s; supported: %s",
        dgl_json_name(s->r.doc), group ? "inference" : "architecture", group ? "." : "",
        group ? group : "", key, DGL_SHOWN_STR(((struct dgl_str){text.p, text.len})), supported);
    dgl_buf_finish(&text);
    return st;
}

/* ---- what no model here computes ------------------------------------------------------------- */

/* Accepted when absent, null, false, 0, or the number `neutral`. */
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

/* ---- a config out of "architecture" and "inference" ------------------------------------------ */

/* Values that are copied as they are; the first place that has one. */
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

static void copy_field(struct dgl_json_writer *w, const struct sections *s, const char *name,
                       const char *group, const char *key)
{
    const struct dgl_json *value = find(s, group, key);
    if (!value)
        return;
    dgl_jw_key(w, name);
    dgl_jw_value(w, value);
}

/* By what the fields switch on: each family here differs from the others in at least one. */
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

static enum dgl_status write_activation(struct dgl_json_writer *w, const struct sections *s,
                                        bool gemma)
{
    static const char *const names[][2] = {{"silu", "silu"},
                                           {"swiglu", "silu"},
                                           {"gelu", "gelu_pytorch_tanh"},
                                           {"geglu", "gelu_pytorch_tanh"}};
    struct dgl_str name = dgl_json_str(find(s, "ffn", "activation"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (dgl_str_eq(name, names[i][0])) {
            dgl_jw_key(w, gemma ? "hidden_activation" : "hidden_act");
            dgl_jw_cstr(w, names[i][1]);
            return DGL_OK;
        }
    }
    return refuse(s, "ffn", "activation", "\"silu\", \"swiglu\", \"gelu\", \"geglu\"");
}

/* Whether a layer sees everything before it. */
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

static enum dgl_status write_layers(struct dgl_json_writer *w, const struct sections *s,
                                    int64_t layers)
{
    const struct dgl_json *types = find(s, "layerPattern", "layerTypes");
    enum dgl_status st = DGL_OK;
    dgl_jw_key(w, "layer_types");
    if (is_set(types)) {
        dgl_jw_value(w, types);
        return DGL_OK;
    }
    dgl_jw_array(w);
    for (int64_t i = 0; i < layers && st == DGL_OK; i++) {
        bool global = false;
        st = layer_is_global(s, i, &global);
        dgl_jw_cstr(w, global ? "full_attention" : "sliding_attention");
    }
    dgl_jw_end_array(w);
    return st;
}

static enum dgl_status write_rope_scaling(struct dgl_json_writer *w, const struct sections *s)
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
    dgl_jw_key(w, "rope_scaling");
    dgl_jw_object(w);
    copy_field(w, s, "rope_type", "rope", "ropeScalingType");
    copy_field(w, s, "factor", "rope", "ropeScalingFactor");
    if (yarn) {
        copy_field(w, s, "beta_fast", "rope", "yarnBetaFast");
        copy_field(w, s, "beta_slow", "rope", "yarnBetaSlow");
        copy_field(w, s, "original_max_position_embeddings", "rope", "yarnOriginalMaxPos");
    }
    dgl_jw_end_object(w);
    return DGL_OK;
}

/* Granite's multipliers; the config has the reciprocal of some. */
static void write_scales(struct dgl_json_writer *w, const struct sections *s)
{
    const struct dgl_json *logit = find(s, "output", "logitInputScale");
    const struct dgl_json *scalar = find(s, "attention", "queryPreAttnScalar");
    copy_field(w, s, "embedding_multiplier", "output", "embeddingScale");
    copy_field(w, s, "residual_multiplier", "layerPattern", "residualBranchScale");
    if (dgl_json_f64(logit) > 0) {
        dgl_jw_key(w, "logits_scaling");
        dgl_jw_f64(w, 1 / dgl_json_f64(logit));
    }
    if (dgl_json_f64(scalar) > 0) {
        dgl_jw_key(w, "attention_multiplier");
        dgl_jw_f64(w, 1 / sqrt(dgl_json_f64(scalar)));
    }
}

static void write_gemma(struct dgl_json_writer *w, const struct sections *s, bool third)
{
    copy_field(w, s, "query_pre_attn_scalar", "attention", "queryPreAttnScalar");
    copy_field(w, s, "attn_logit_softcapping", "attention", "attnLogitSoftcapping");
    copy_field(w, s, "final_logit_softcapping", "output", "finalLogitSoftcapping");
    if (third)
        copy_field(w, s, "rope_local_base_freq", "rope", "ropeLocalTheta");
}

static enum dgl_status config_write(struct dgl_json_writer *w, const struct sections *s)
{
    const char *family = NULL;
    int64_t layers = 0;
    const struct dgl_json *eos = dgl_json_get(s->root, "eos_token_id");
    enum dgl_status st = dgl_json_need_i64(s->r, s->architecture, "numLayers", 1, 4096, &layers);
    if (st == DGL_OK)
        st = family_find(s, &family);
    if (st != DGL_OK)
        return st;
    bool gemma = strncmp(family, "gemma", 5) == 0;
    dgl_jw_object(w);
    dgl_jw_key(w, "model_type");
    dgl_jw_cstr(w, family);
    for (size_t i = 0; i < sizeof(copied_fields) / sizeof(copied_fields[0]); i++)
        copy_field(w, s, copied_fields[i].name, copied_fields[i].group, copied_fields[i].key);
    if (eos) {
        dgl_jw_key(w, "eos_token_id");
        dgl_jw_value(w, eos);
    }
    if (gemma || strcmp(family, "mistral") == 0)
        copy_field(w, s, "sliding_window", "attention", "slidingWindow");
    if (gemma)
        write_gemma(w, s, strcmp(family, "gemma3_text") == 0);
    else if (strcmp(family, "granite") == 0)
        write_scales(w, s);
    st = write_activation(w, s, gemma);
    if (st == DGL_OK)
        st = write_rope_scaling(w, s);
    if (st == DGL_OK && gemma)
        st = write_layers(w, s, layers);
    dgl_jw_end_object(w);
    return st;
}

/* ---- a config that is there ------------------------------------------------------------------ */

/* Ids of an id, a list or null. */
static void write_ids(struct dgl_json_writer *w, const struct dgl_json *ids)
{
    if (dgl_json_is(ids, DGL_JSON_NUMBER))
        dgl_jw_value(w, ids);
    else if (dgl_json_is(ids, DGL_JSON_ARRAY))
        for (const struct dgl_json *id = dgl_json_first(ids); id; id = dgl_json_next(id))
            dgl_jw_value(w, id);
}

/* Other converters put the stop ids of generation_config.json into the manifest: they count
 * beside the config's. */
static void config_with_stops(struct dgl_json_writer *w, const struct dgl_json *config,
                              const struct dgl_json *eos)
{
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(config); v; v = dgl_json_next(v)) {
        if (dgl_str_eq(dgl_json_key(v), "eos_token_id"))
            continue;
        dgl_jw_key_str(w, dgl_json_key(v));
        dgl_jw_value(w, v);
    }
    dgl_jw_key(w, "eos_token_id");
    dgl_jw_array(w);
    write_ids(w, dgl_json_get(config, "eos_token_id"));
    write_ids(w, eos);
    dgl_jw_end_array(w);
    dgl_jw_end_object(w);
}

/* Packs made of GGUF files carry its metadata as config, and tensors whose rows may be permuted. */
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
    enum dgl_status st = dgl_json_opt(r, root, "moeConfig", DGL_JSON_OBJECT, &moe);
    if (st != DGL_OK || !moe)
        return st;
    int64_t experts = 0, chosen = 0;
    st = dgl_json_need_i64(r, moe, "numExperts", 1, INT32_MAX, &experts);
    if (st == DGL_OK)
        st = dgl_json_need_i64(r, moe, "numExpertsPerToken", 1, experts, &chosen);
    if (st == DGL_OK)
        st = dgl_json_opt(r, moe, "expertFormat", DGL_JSON_STRING, &format);
    if (st != DGL_OK)
        return st;
    if (format && !dgl_str_eq(dgl_json_str(format), "mixtral") &&
        !dgl_str_eq(dgl_json_str(format), "gpt-oss"))
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: moeConfig.expertFormat is \"%s\"; supported: mixtral, gpt-oss",
                        dgl_json_name(r.doc), DGL_SHOWN(dgl_json_str(format).p));
    if (dgl_json_count(dgl_json_get(moe, "sharedExperts")) > 0)
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: moeConfig.sharedExperts is not empty; supported: []",
                        dgl_json_name(r.doc));
    return DGL_OK;
}

enum dgl_status rdrr_config_parse(struct dgl_json_reader r, const struct dgl_json *root,
                                  struct rdrr_manifest *out)
{
    const struct dgl_json *config, *eos = dgl_json_get(root, "eos_token_id");
    struct sections s = {.r = r,
                         .root = root,
                         .architecture = dgl_json_get(root, "architecture"),
                         .inference = dgl_json_get(root, "inference")};
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 2);
    bool described =
        dgl_json_is(s.architecture, DGL_JSON_OBJECT) && dgl_json_is(s.inference, DGL_JSON_OBJECT);
    enum dgl_status st = check_moe(r, root);
    if (st == DGL_OK)
        st = out->ours || !described ? dgl_json_need(r, root, "config", DGL_JSON_OBJECT, &config)
                                     : dgl_json_opt(r, root, "config", DGL_JSON_OBJECT, &config);
    if (st == DGL_OK && described && !out->ours)
        st = check_off(&s);
    if (st == DGL_OK && config)
        st = check_keys(r, config);
    if (st != DGL_OK)
        return st;
    if (!config)
        st = config_write(&w, &s);
    else if (!out->ours && is_set(eos))
        config_with_stops(&w, config, eos);
    else
        dgl_jw_value(&w, config);
    out->config = text.failed ? NULL : dgl_arena_strndup(&out->arena, text.p, text.len);
    dgl_buf_finish(&text);
    return st == DGL_OK && !out->config ? dgl_fail_memory(r.log, "config", 0) : st;
}
