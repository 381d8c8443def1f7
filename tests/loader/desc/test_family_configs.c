/* Meaning of the fields in each family: variants of one small config, accepted or refused. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/str.h"
#include "tests/support/desc_text.h"

#define SIZES                                                                                      \
    "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"intermediate_size\": 96, \"vocab_size\": "   \
    "320, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, "              \
    "\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5"

struct variant {
    const char *name;
    const char *family;
    const char *fields; /* after the sizes */
    enum dgl_status status;
    const char *parts[3]; /* of the description, or of the message */
};

#define LONG8  "[1, 2, 3, 4, 5, 6, 7, 8]"
#define SHORT8 "[1, 1, 1, 1, 1, 1, 1, 1.5]"

static const struct variant understood[] = {
    {"mistral: a window on every layer",
     "mistral",
     "\"sliding_window\": 24",
     DGL_OK,
     {"windows 24 ...\n"}},
    {"mistral: a window longer than the context",
     "mistral",
     "\"sliding_window\": 128",
     DGL_OK,
     {"layers"}},
    {"mistral: layer_types go first",
     "mistral",
     "\"sliding_window\": 24, \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
     DGL_OK,
     {"windows 0 24\n"}},
    {"qwen2: windows from a layer on",
     "qwen2",
     "\"use_sliding_window\": true, \"sliding_window\": 24, \"max_window_layers\": 1",
     DGL_OK,
     {"windows 0 24\n"}},
    {"qwen2: windows switched on, but from layer 28 on",
     "qwen2",
     "\"use_sliding_window\": true, \"sliding_window\": 24, \"layer_types\": null",
     DGL_OK,
     {"qwen2 2 layers"}},
    {"qwen3: layer_types go first",
     "qwen3",
     "\"use_sliding_window\": true, \"sliding_window\": 24, \"max_window_layers\": 0, "
     "\"layer_types\": [\"sliding_attention\", \"full_attention\"]",
     DGL_OK,
     {"windows 24 0\n"}},
    {"gemma2: defaults",
     "gemma2",
     "\"sliding_window\": 24",
     DGL_OK,
     {"attn 0.0625 act gelu norm+1 caps 50 30 embed 8 ", "tied\n", "windows 24 0\n"}},
    {"gemma2: caps switched off",
     "gemma2",
     "\"attn_logit_softcapping\": null, \"final_logit_softcapping\": 7.5, "
     "\"query_pre_attn_scalar\": 4, \"tie_word_embeddings\": false",
     DGL_OK,
     {"attn 0.5 act gelu norm+1 caps 0 7.5 embed"}},
    {"gemma3: old names",
     "gemma3_text",
     "\"sliding_window\": 24, \"sliding_window_pattern\": 2, \"rope_local_base_freq\": 5000, "
     "\"rope_theta\": 70000",
     DGL_OK,
     {"rope default theta 70000 ", "local default theta 5000 ", "ropes local global\n"}},
    {"gemma3: parameters by layer type",
     "gemma3_text",
     "\"sliding_window\": 24, \"layer_types\": [\"full_attention\", \"sliding_attention\"], "
     "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, "
     "\"rope_theta\": 7000}, \"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 2.0, "
     "\"rope_theta\": 50}}",
     DGL_OK,
     {"rope linear theta 7000 dims 16 factor 8\n", "local linear theta 50 dims 16 factor 2\n",
      "ropes global local\n"}},
    {"gemma3: defaults of theta",
     "gemma3_text",
     "\"sliding_window\": 24, \"sliding_window_pattern\": 2",
     DGL_OK,
     {"rope default theta 1e+06 ", "local default theta 10000 "}},
    /* Transformers 4.50 to 5.23: if the field is absent, every sixth layer has full attention. The
     * saved _sliding_window_pattern is the source of layer_types and is not read back. */
    {"gemma3: one window in two layers of six",
     "gemma3_text",
     "\"sliding_window\": 24",
     DGL_OK,
     {"windows 24 ...\n", "ropes local ...\n"}},
    {"gemma3: the pattern as it is saved",
     "gemma3_text",
     "\"sliding_window\": 24, \"_sliding_window_pattern\": 2",
     DGL_OK,
     {"windows 24 ...\n", "ropes local ...\n"}},
    {"gemma3: layer_types goes before the pattern",
     "gemma3_text",
     "\"sliding_window\": 24, \"sliding_window_pattern\": 1, \"_sliding_window_pattern\": 1, "
     "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
     DGL_OK,
     {"windows 0 24\n", "ropes global local\n"}},
    {"smollm3: every other layer rotates",
     "smollm3",
     "\"no_rope_layer_interval\": 2",
     DGL_OK,
     {"ropes global none\n", "theta 2e+06", "tied\n"}},
    {"smollm3: windows where nothing rotates",
     "smollm3",
     "\"no_rope_layers\": [0, 1], \"use_sliding_window\": true, \"sliding_window\": 24",
     DGL_OK,
     {"windows 24 0\n", "ropes none global\n"}},
    {"granite: its own multipliers",
     "granite",
     "\"embedding_multiplier\": 12, \"residual_multiplier\": 0.22, \"logits_scaling\": 8, "
     "\"attention_multiplier\": 0.015625",
     DGL_OK,
     {"attn 0.015625 ", "embed 12 residual 0.22 logits 0.125"}},
    {"granite: attention is not scaled by default", "granite", "", DGL_OK, {"attn 1 act"}},
    {"mixtral: defaults",
     "mixtral",
     "",
     DGL_OK,
     {"moe 2 of 8, 96 inner, topk-softmax; dense:\n", "theta 1e+06"}},
    {"qwen3_moe: sparse every second layer",
     "qwen3_moe",
     "\"num_experts\": 6, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 32, "
     "\"decoder_sparse_step\": 2",
     DGL_OK,
     {"moe 3 of 6, 32 inner, softmax-topk; dense: 0\n"}},
    {"qwen3_moe: listed dense layers",
     "qwen3_moe",
     "\"mlp_only_layers\": [1], \"norm_topk_prob\": true",
     DGL_OK,
     {"moe 8 of 128, 768 inner, softmax-topk-norm; dense: 1\n"}},
    {"gpt_oss: what it implies",
     "gpt_oss",
     "\"sliding_window\": 24",
     DGL_OK,
     {"act swiglu alpha 1.702 limit 7\n",
      "rope yarn theta 150000 dims 16 scale 1.34657 factor 32 original 4096 beta 32 1 truncate 0\n",
      "windows 24 0\n"}},
    {"gpt_oss: quantised by mxfp4",
     "gpt_oss",
     "\"quantization_config\": {\"quant_method\": \"mxfp4\"}, \"rope_parameters\": "
     "{\"rope_type\": \"default\", \"rope_theta\": 5000}, \"experts_per_token\": 2, "
     "\"num_experts_per_tok\": 2",
     DGL_OK,
     {"rope default theta 5000 dims 16\n", "moe 2 of 128, 96 inner"}},
    {"phi3: a part of each head",
     "phi3",
     "\"partial_rotary_factor\": 0.75",
     DGL_OK,
     {"rope default theta 10000 dims 12\n"}},
    {"phi3: longrope by the ratio of contexts",
     "phi3",
     "\"original_max_position_embeddings\": 32, \"rope_scaling\": {\"type\": \"longrope\", "
     "\"short_factor\": " SHORT8 ", \"long_factor\": " LONG8 "}",
     DGL_OK,
     {"rope longrope theta 10000 dims 16 scale 1.18322 factor 4 original 32 short 1..1.5 long "
      "1..8\n"}},
    {"llama: dynamic goes beyond the context",
     "llama",
     "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4.0}",
     DGL_OK,
     {"context 512\n", "rope dynamic theta 10000 dims 16 factor 4 original 128\n"}},
    {"qwen2: yarn goes beyond the context",
     "qwen2",
     "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
     "\"original_max_position_embeddings\": 128}",
     DGL_OK,
     {"context 512\n", "original 128 beta 32 1 truncate 1\n"}},
    {"llama: two spellings of one type",
     "llama",
     "\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"linear\", \"factor\": 2.0}",
     DGL_OK,
     {"rope linear theta 10000 dims 16 factor 2\n"}},
    {"llama: biases", "llama", "\"attention_bias\": true, \"mlp_bias\": true", DGL_OK, {"llama"}},
    {"llama: gelu", "llama", "\"hidden_act\": \"gelu_pytorch_tanh\"", DGL_OK, {"act gelu\n"}},
};

static const struct variant refused[] = {
    {"attention_bias where it is not known",
     "mistral",
     "\"attention_bias\": true",
     DGL_ERR_UNSUPPORTED,
     {"attention_bias is true", "supported: false"}},
    {"layer type that is not known",
     "mistral",
     "\"layer_types\": [\"full_attention\", \"chunked_attention\"]",
     DGL_ERR_UNSUPPORTED,
     {"layer_types[1] is \"chunked_attention\"", "\"sliding_attention\""}},
    {"sliding layer without a window",
     "mistral",
     "\"sliding_window\": null, \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
     DGL_ERR_FORMAT,
     {"layer 1 is a sliding_attention layer", "sliding_window"}},
    {"sliding layer with windows switched off",
     "qwen2",
     "\"sliding_window\": 24, \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
     DGL_ERR_FORMAT,
     {"layer 1", "switched off"}},
    {"gemma2 with its window taken away",
     "gemma2",
     "\"sliding_window\": null",
     DGL_ERR_FORMAT,
     {"layer 0 is a sliding_attention layer"}},
    {"window of 0", "mistral", "\"sliding_window\": 0", DGL_ERR_FORMAT, {"sliding_window is 0"}},
    {"window in a family without",
     "olmo2",
     "\"sliding_window\": 24",
     DGL_ERR_UNSUPPORTED,
     {"sliding_window is 24", "null"}},
    {"two window sizes",
     "gemma2",
     "\"sliding_window\": 24, \"sliding_window_size\": 25",
     DGL_ERR_FORMAT,
     {"sliding_window is 24 and sliding_window_size is 25"}},
    {"bidirectional attention",
     "gemma3_text",
     "\"use_bidirectional_attention\": true",
     DGL_ERR_UNSUPPORTED,
     {"use_bidirectional_attention is true"}},
    {"soft cap below 0",
     "gemma2",
     "\"final_logit_softcapping\": -30",
     DGL_ERR_FORMAT,
     {"final_logit_softcapping is -30"}},
    {"rope by layer type where layers do not differ",
     "qwen3",
     "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}",
     DGL_ERR_UNSUPPORTED,
     {"rope_parameters.full_attention", "one set of parameters"}},
    {"rope of a layer type that is not known",
     "gemma3_text",
     "\"rope_parameters\": {\"chunked_attention\": {\"rope_theta\": 5}}",
     DGL_ERR_UNSUPPORTED,
     {"rope_parameters.chunked_attention"}},
    {"local rope of a type that is not known",
     "gemma3_text",
     "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"yarn\"}}",
     DGL_ERR_UNSUPPORTED,
     {"rope_parameters.sliding_attention.rope_type is \"yarn\"", "\"linear\""}},
    {"rope type that is not known",
     "llama",
     "\"rope_scaling\": {\"rope_type\": \"mrope\"}",
     DGL_ERR_UNSUPPORTED,
     {"rope_scaling.rope_type is \"mrope\"", "\"longrope\""}},
    {"rope_scaling without a type",
     "llama",
     "\"rope_scaling\": {\"factor\": 2}",
     DGL_ERR_UNSUPPORTED,
     {"rope_scaling is {\"factor\": 2}", "an object with a rope_type"}},
    {"linear without its factor",
     "llama",
     "\"rope_scaling\": {\"rope_type\": \"linear\"}",
     DGL_ERR_FORMAT,
     {"rope_scaling.factor is missing"}},
    {"dynamic that shrinks",
     "llama",
     "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 0.5}",
     DGL_ERR_FORMAT,
     {"rope_scaling.factor is 0.5"}},
    {"llama3 without a frequency",
     "llama",
     "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1}",
     DGL_ERR_FORMAT,
     {"rope_scaling.high_freq_factor is missing"}},
    {"llama3 with frequencies swapped",
     "llama",
     "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
     "\"high_freq_factor\": 1}",
     DGL_ERR_FORMAT,
     {"high_freq_factor is 1, not above low_freq_factor 4"}},
    {"yarn over base 1",
     "qwen2",
     "\"rope_theta\": 1, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}",
     DGL_ERR_FORMAT,
     {"rope_theta is 1", "yarn"}},
    {"longrope without factors",
     "phi3",
     "\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": " SHORT8 "}",
     DGL_ERR_UNSUPPORTED,
     {"rope_scaling.long_factor is missing", "a list"}},
    {"longrope with too few factors",
     "phi3",
     "\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2], "
     "\"long_factor\": " LONG8 "}",
     DGL_ERR_FORMAT,
     {"rope_scaling.short_factor: 2 entries", "8"}},
    {"longrope with a factor of 0",
     "phi3",
     "\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": " SHORT8
     ", \"long_factor\": [1, 2, 3, 0, 5, 6, 7, 8]}",
     DGL_ERR_FORMAT,
     {"rope_scaling.long_factor[3]"}},
    {"odd part of a head",
     "phi3",
     "\"partial_rotary_factor\": 0.7",
     DGL_ERR_UNSUPPORTED,
     {"partial_rotary_factor 0.7", "11 values"}},
    {"a part of a head where all of it turns",
     "qwen3",
     "\"partial_rotary_factor\": 0.5",
     DGL_ERR_UNSUPPORTED,
     {"partial_rotary_factor is 0.5"}},
    {"no_rope_layers too short",
     "smollm3",
     "\"no_rope_layers\": [1]",
     DGL_ERR_FORMAT,
     {"no_rope_layers: 1 entries", "2"}},
    {"no_rope_layers of words",
     "smollm3",
     "\"no_rope_layers\": [1, true]",
     DGL_ERR_FORMAT,
     {"no_rope_layers[1]", "neither 0 nor 1"}},
    {"more experts chosen than there are",
     "mixtral",
     "\"num_local_experts\": 4, \"num_experts_per_tok\": 5",
     DGL_ERR_FORMAT,
     {"num_experts_per_tok is 5", "num_local_experts is 4"}},
    {"two numbers of experts",
     "mixtral",
     "\"num_local_experts\": 4, \"num_experts\": 8",
     DGL_ERR_FORMAT,
     {"num_experts is 8 and num_local_experts is 4"}},
    {"no experts",
     "gpt_oss",
     "\"num_local_experts\": 0",
     DGL_ERR_FORMAT,
     {"num_local_experts is 0"}},
    {"odd width of an expert",
     "qwen3_moe",
     "\"moe_intermediate_size\": 46",
     DGL_ERR_UNSUPPORTED,
     {"moe_intermediate_size is 46", "multiples of 4"}},
    {"dense layer beyond the last",
     "qwen3_moe",
     "\"mlp_only_layers\": [0, 2]",
     DGL_ERR_FORMAT,
     {"mlp_only_layers[1]", "2"}},
    {"sparse step of 0",
     "qwen3_moe",
     "\"decoder_sparse_step\": 0",
     DGL_ERR_FORMAT,
     {"decoder_sparse_step is 0"}},
    {"shared expert",
     "qwen3_moe",
     "\"shared_expert_intermediate_size\": 64",
     DGL_ERR_UNSUPPORTED,
     {"shared_expert_intermediate_size is 64"}},
    {"another activation in gpt_oss",
     "gpt_oss",
     "\"hidden_act\": \"gelu_pytorch_tanh\"",
     DGL_ERR_UNSUPPORTED,
     {"hidden_act is \"gelu_pytorch_tanh\"", "\"silu\""}},
    {"mxfp4 elsewhere",
     "qwen3_moe",
     "\"quantization_config\": {\"quant_method\": \"mxfp4\"}",
     DGL_ERR_UNSUPPORTED,
     {"quant_method is \"mxfp4\""}},
    {"fp8 in gpt_oss",
     "gpt_oss",
     "\"quantization_config\": {\"quant_method\": \"fp8\"}",
     DGL_ERR_UNSUPPORTED,
     {"quant_method is \"fp8\"", "mxfp4"}},
    {"images without a text model", "gemma3", "", DGL_ERR_FORMAT, {"text_config is missing"}},
    {"images of a class that is not read",
     "gemma3",
     "\"architectures\": [\"ShieldGemma2ForImageClassification\"]",
     DGL_ERR_UNSUPPORTED,
     {"architectures[0] is \"ShieldGemma2ForImageClassification\"",
      "Gemma3ForConditionalGeneration"}},
    {"images with another text model",
     "gemma3",
     "\"text_config\": {\"model_type\": \"llama\"}",
     DGL_ERR_UNSUPPORTED,
     {"text_config.model_type is \"llama\"", "gemma3_text"}},
    {"images whose text model is not understood",
     "gemma3",
     "\"text_config\": {\"hidden_size\": 64, \"hidden_activation\": \"relu\"}",
     DGL_ERR_UNSUPPORTED,
     {"text_config.hidden_activation is \"relu\""}},
    {"attention's soft cap in gemma3, which nobody applies",
     "gemma3_text",
     "\"attn_logit_softcapping\": 50",
     DGL_ERR_UNSUPPORTED,
     {"attn_logit_softcapping is 50", "null"}},
    {"images and a soft cap that nobody applies",
     "gemma3",
     "\"text_config\": {\"hidden_size\": 64, \"final_logit_softcapping\": 30}",
     DGL_ERR_UNSUPPORTED,
     {"text_config.final_logit_softcapping is 30", "null"}},
    {"images and sound",
     "gemma3",
     "\"text_config\": {}, \"audio_config\": {}",
     DGL_ERR_UNSUPPORTED,
     {"audio_config is {}"}},
};

static enum dgl_status describe(const struct variant *row, const struct dgl_log *log,
                                struct model_desc *out)
{
    struct dgl_buf config = {0};
    dgl_buf_printf(&config, "{\"model_type\": \"%s\", %s%s%s}", row->family, SIZES,
                   row->fields[0] ? ", " : "", row->fields);
    enum dgl_status status = desc_from_config(log, "config.json", config.p, NULL, out);
    dgl_buf_finish(&config);
    return status;
}

static void variant_is_understood(void **state)
{
    const struct variant *row = *state;
    struct test_log log;
    struct model_desc d;
    struct dgl_buf text = {0};
    test_log_init(&log, DGL_LOG_WARN);
    enum dgl_status status = describe(row, &log.log, &d);
    assert_string_equal(log.text, "");
    assert_int_equal(status, DGL_OK);
    desc_text(&d, &text);
    for (size_t i = 0; i < 3 && row->parts[i]; i++)
        assert_contains(text.p, row->parts[i]);
    if (!strstr(row->fields, "sliding_window\": 24"))
        assert_null(strstr(text.p, "windows 24"));
    model_desc_finish(&d);
    dgl_buf_finish(&text);
}

static void variant_is_refused(void **state)
{
    const struct variant *row = *state;
    struct test_log log;
    struct model_desc d;
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status = describe(row, &log.log, &d);
    assert_refusal(&log, status, row->status, row->parts);
    assert_contains(log.text, "config.json");
}

int main(void)
{
    int failures = test_run_table("understood", variant_is_understood, understood);
    return failures + test_run_table("refused", variant_is_refused, refused);
}
