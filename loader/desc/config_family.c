/* The table of model families. The values are the defaults of Hugging Face transformers'
 * configuration classes. */
#include "loader/desc/config_family.h"

#include <string.h>

static const struct config_family families[] = {
    {.model_type = "llama",
     .classes = {"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"},
     .bit = FAMILY_LLAMA,
     .parts = PART_PRE_NORM,
     .kv_heads = KV_AS_HEADS,
     .norm_eps = 1e-6,
     .theta = 1e4},
    {.model_type = "mistral",
     .classes = {"MistralForCausalLM", "MistralModel"},
     .bit = FAMILY_MISTRAL,
     .parts = PART_PRE_NORM,
     .kv_heads = 8,
     .norm_eps = 1e-6,
     .theta = 1e4,
     .window_rule = WINDOW_EVERY,
     .window = 4096},
    {.model_type = "qwen2",
     .classes = {"Qwen2ForCausalLM", "Qwen2Model"},
     .bit = FAMILY_QWEN2,
     .parts = PART_PRE_NORM | PART_QKV_BIAS,
     .kv_heads = 32,
     .norm_eps = 1e-6,
     .theta = 1e4,
     .window_rule = WINDOW_FROM,
     .window_switch = true,
     .window = 4096},
    {.model_type = "qwen3",
     .classes = {"Qwen3ForCausalLM", "Qwen3Model"},
     .bit = FAMILY_QWEN3,
     .parts = PART_PRE_NORM | PART_HEAD_NORM,
     .kv_heads = 32,
     .head_dim = 128,
     .norm_eps = 1e-6,
     .theta = 1e4,
     .window_rule = WINDOW_FROM,
     .window_switch = true,
     .window = 4096},
    {.model_type = "gemma2",
     .classes = {"Gemma2ForCausalLM", "Gemma2Model"},
     .bit = FAMILY_GEMMA2,
     .parts = PART_PRE_NORM | PART_POST_NORM,
     .kv_heads = 4,
     .head_dim = 256,
     .norm_eps = 1e-6,
     .norm_plus_one = true,
     .tied_head = true,
     .act = MODEL_ACT_GELU_TANH,
     .theta = 1e4,
     .query_scalar = 256,
     .attn_softcap = 50,
     .logit_softcap = 30,
     .embed_sqrt = true,
     .window_rule = WINDOW_PATTERN,
     .window = 4096,
     .window_pattern = 2},
    /* Published image-and-text checkpoints store only the fields that differ from the defaults of
     * the class. */
    {.model_type = "gemma3_text",
     .classes = {"Gemma3ForCausalLM", "Gemma3TextModel"},
     .bit = FAMILY_GEMMA3,
     .parts = PART_PRE_NORM | PART_POST_NORM | PART_HEAD_NORM,
     .hidden = 2304,
     .layers = 26,
     .intermediate = 9216,
     .vocab = 262208,
     .context = 131072,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .norm_eps = 1e-6,
     .norm_plus_one = true,
     .tied_head = true,
     .act = MODEL_ACT_GELU_TANH,
     .theta = 1e6,
     .local_theta = 1e4,
     .query_scalar = 256,
     .embed_sqrt = true,
     .window_rule = WINDOW_PATTERN,
     .window = 4096,
     .window_pattern = 6},
    {.model_type = "phi3",
     .classes = {"Phi3ForCausalLM", "Phi3Model"},
     .bit = FAMILY_PHI3,
     .parts = PART_PRE_NORM,
     .kv_heads = KV_AS_HEADS,
     .norm_eps = 1e-5,
     .theta = 1e4,
     .window_rule = WINDOW_EVERY},
    {.model_type = "mixtral",
     .classes = {"MixtralForCausalLM", "MixtralModel"},
     .bit = FAMILY_MIXTRAL,
     .parts = PART_PRE_NORM | PART_EXPERTS_MIXTRAL,
     .kv_heads = 8,
     .norm_eps = 1e-5,
     .theta = 1e6,
     .window_rule = WINDOW_EVERY,
     .experts = 8,
     .top_k = 2,
     .scoring = MOE_TOPK_SOFTMAX},
    {.model_type = "qwen3_moe",
     .classes = {"Qwen3MoeForCausalLM", "Qwen3MoeModel"},
     .bit = FAMILY_QWEN3_MOE,
     .parts = PART_PRE_NORM | PART_HEAD_NORM | PART_EXPERTS_QWEN,
     .kv_heads = 4,
     .norm_eps = 1e-6,
     .theta = 1e4,
     .window_rule = WINDOW_EVERY,
     .window_switch = true,
     .window = 4096,
     .experts = 128,
     .top_k = 8,
     .moe_intermediate = 768,
     .scoring = MOE_SOFTMAX_TOPK},
    {.model_type = "gpt_oss",
     .classes = {"GptOssForCausalLM", "GptOssModel"},
     .bit = FAMILY_GPT_OSS,
     .parts = PART_PRE_NORM | PART_SINKS | PART_EXPERTS_GPT_OSS,
     .kv_heads = 8,
     .head_dim = 64,
     .norm_eps = 1e-5,
     .act = MODEL_ACT_SWIGLU_CLAMP,
     .attn_bias = true,
     .theta = 150000,
     .window_rule = WINDOW_PATTERN,
     .window = 128,
     .window_pattern = 2,
     .experts = 128,
     .top_k = 4,
     .scoring = MOE_TOPK_SOFTMAX},
    {.model_type = "olmo2",
     .classes = {"Olmo2ForCausalLM", "Olmo2Model"},
     .bit = FAMILY_OLMO2,
     .parts = PART_POST_NORM | PART_WIDE_NORM,
     .kv_heads = KV_AS_HEADS,
     .norm_eps = 1e-5,
     .theta = 1e4},
    {.model_type = "smollm3",
     .classes = {"SmolLM3ForCausalLM", "SmolLM3Model"},
     .bit = FAMILY_SMOLLM3,
     .parts = PART_PRE_NORM,
     .kv_heads = 4,
     .norm_eps = 1e-6,
     .tied_head = true,
     .theta = 2e6,
     .window_rule = WINDOW_NO_ROPE,
     .window_switch = true},
    {.model_type = "granite",
     .classes = {"GraniteForCausalLM", "GraniteModel"},
     .bit = FAMILY_GRANITE,
     .parts = PART_PRE_NORM,
     .kv_heads = KV_AS_HEADS,
     .norm_eps = 1e-6,
     .theta = 1e4},
};
enum { NUM_FAMILIES = sizeof(families) / sizeof(families[0]) };

/* Checkpoints that contain a text model and other models. */
struct outer_type {
    const char *model_type, *text_type;
    const char *classes[FAMILY_CLASSES];
};
static const struct outer_type outer_types[] = {
    {"gemma3", "gemma3_text", {"Gemma3ForConditionalGeneration", "Gemma3Model"}},
};
enum { NUM_OUTER = sizeof(outer_types) / sizeof(outer_types[0]) };

const struct config_family *config_family_find(const char *model_type)
{
    for (size_t i = 0; i < NUM_FAMILIES; i++) {
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    }
    return NULL;
}

/* `architectures` is the class that computes the model, or that of its base model, which has no
 * head. Models with another head (for
 * classification, say) or a changed body often keep the model_type. The field may be missing if a
 * file was not written by a library. */
static enum dgl_status check_class(const struct config *c, const char *const *classes)
{
    struct field names;
    enum dgl_status status = config_opt_list(c, "architectures", &names);
    struct field first = field_first(&names);
    if (status != DGL_OK || first.kind == FIELD_ABSENT)
        return status;
    for (size_t i = 0; i < FAMILY_CLASSES && classes[i]; i++) {
        if (dgl_str_eq(first.s, classes[i]))
            return DGL_OK;
    }
    return config_refuse(c, "architectures[0]", &first, classes[0]);
}

enum dgl_status config_family_read(const struct config *c, struct config *inner,
                                   const struct config_family **out)
{
    struct config_hit hit;
    *inner = *c;
    enum dgl_status status = config_find(c, "model_type", &hit);
    if (status != DGL_OK)
        return status;
    const struct outer_type *outer = NULL;
    for (size_t i = 0; i < NUM_OUTER; i++)
        outer = dgl_str_eq(hit.value.s, outer_types[i].model_type) ? &outer_types[i] : outer;
    *out = hit.value.kind == FIELD_STR ? config_family_find(hit.value.s.p) : NULL;
    if (*out)
        return check_class(c, (*out)->classes);
    if (!outer) {
        struct dgl_buf names = {0};
        for (size_t i = 0; i < NUM_FAMILIES; i++)
            dgl_buf_printf(&names, "\"%s\", ", families[i].model_type);
        for (size_t i = 0; i < NUM_OUTER; i++)
            dgl_buf_printf(&names, "%s\"%s\"", i ? ", " : "", outer_types[i].model_type);
        status = config_refuse(c, hit.path, FIELD_IS_SET(hit.value) ? &hit.value : NULL,
                               names.p ? names.p : "?");
        dgl_buf_finish(&names);
        return status;
    }
    TRY(check_class(c, outer->classes));
    struct field text = config_get(c, "text_config");
    if (text.kind != FIELD_OBJECT)
        return config_fail_wanted(c, "text_config", &text, dgl_json_type_name(DGL_JSON_OBJECT));
    inner->prefix = "text_config.";
    TRY(config_find(inner, "model_type", &hit));
    if (FIELD_IS_SET(hit.value) && !dgl_str_eq(hit.value.s, outer->text_type))
        return config_refuse(inner, hit.path, &hit.value, outer->text_type);
    *out = config_family_find(outer->text_type);
done:
    return status;
}
