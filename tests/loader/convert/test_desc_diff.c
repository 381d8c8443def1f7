/* Comparing two descriptions field by field: each kind of difference is found, with both values.
 * Rounding to f32, and another name for the same rotation, are no differences. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "loader/convert/desc_diff.h"
#include "tests/support/desc_text.h"

#define SIZES                                                                                      \
    "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"intermediate_size\": 96, \"vocab_size\": "   \
    "320, \"num_attention_heads\": 4, \"head_dim\": 16, \"max_position_embeddings\": 128"

#define LLAMA   "\"model_type\": \"llama\""
#define MISTRAL "\"model_type\": \"mistral\", \"num_key_value_heads\": 4"
#define GEMMA3  "\"model_type\": \"gemma3_text\", \"sliding_window\": 8"
#define GPT_OSS "\"model_type\": \"gpt_oss\", \"num_key_value_heads\": 4"
#define MOE     "\"model_type\": \"qwen3_moe\""
#define SMOLLM3 "\"model_type\": \"smollm3\""

#define ROPE(text)   LLAMA ", \"rope_scaling\": {" text "}"
#define YARN         "\"rope_type\": \"yarn\", \"factor\": 4.0"
#define FACTORS(end) "[1, 1, 1, 1, 1, 1, 1, " end "]"
#define LONG(s, l, more)                                                                           \
    ROPE("\"rope_type\": \"longrope\", " more                                                      \
         "\"short_factor\": " FACTORS(s) ", \"long_factor\": " FACTORS(l))
#define LOCAL(theta) GEMMA3 ", \"rope_local_base_freq\": " theta

struct diff_case {
    const char *name;
    const char *left, *right; /* fields beside the sizes */
    const char *field;        /* NULL = they are the same */
    const char *values[2];    /* parts */
};

static const struct diff_case cases[] = {
    {"nothing", LLAMA, LLAMA, NULL, {NULL}},
    {"a family of the same kind", MISTRAL ", \"sliding_window\": null", LLAMA, NULL, {NULL}},
    {"a size", LLAMA, LLAMA ", \"num_key_value_heads\": 2", "num_key_value_heads", {"4", "2"}},
    {"a number", LLAMA, LLAMA ", \"rms_norm_eps\": 1e-5", "rms_norm_eps", {"1e-06", "1e-05"}},
    {"a number as an f32",
     LLAMA ", \"rms_norm_eps\": 1e-5",
     LLAMA ", \"rms_norm_eps\": 0.000009999999747378752",
     NULL,
     {NULL}},
    {"a cap that is switched off",
     GEMMA3 ", \"final_logit_softcapping\": 30",
     GEMMA3,
     "final_logit_softcapping",
     {"30", "null"}},
    {"activation",
     LLAMA ", \"hidden_act\": \"gelu_pytorch_tanh\"",
     LLAMA,
     "hidden_act",
     {"gelu_pytorch_tanh", "silu"}},
    {"a limit", GPT_OSS, GPT_OSS ", \"swiglu_limit\": 3", "swiglu_limit", {"7", "3"}},
    {"a switch",
     LLAMA,
     LLAMA ", \"tie_word_embeddings\": true",
     "tie_word_embeddings",
     {"false", "true"}},
    {"weights of experts",
     MOE,
     MOE ", \"norm_topk_prob\": true",
     "the weights of experts",
     {"softmax of all", "normalised"}},
    {"biases of attention",
     LLAMA ", \"attention_bias\": true",
     LLAMA,
     "attention_bias",
     {"true", "false"}},
    {"biases of the MLP", LLAMA ", \"mlp_bias\": true", LLAMA, "mlp_bias", {"true", "false"}},
    {"a layer without experts",
     MOE,
     MOE ", \"mlp_only_layers\": [1]",
     "experts of layer 1",
     {"true", "false"}},
    {"a window",
     GEMMA3,
     GEMMA3 ", \"layer_types\": [\"sliding_attention\", \"full_attention\"]",
     "sliding_window of layer 1",
     {"8", "null"}},
    {"a layer without rotation",
     SMOLLM3,
     SMOLLM3 ", \"no_rope_layers\": [1, 0]",
     "the rotation of layer 1",
     {"that of full_attention", "none"}},
    {"theta", LLAMA, LLAMA ", \"rope_theta\": 5e3", "rope_parameters", {"theta 10000", "5000"}},
    {"theta of layers with a window",
     LOCAL("700.0"),
     LOCAL("1e4"),
     "rope_parameters of sliding_attention",
     {"default, theta 700", "theta 10000"}},
    {"theta that no layer uses", GEMMA3, GEMMA3 ", \"rope_theta\": 2e4", NULL, {NULL}},
    {"number of rotated values",
     "\"model_type\": \"phi3\"",
     "\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.5",
     "rope_parameters",
     {"16 values", "8 values"}},
    {"scaling",
     LLAMA,
     ROPE("\"rope_type\": \"linear\", \"factor\": 2"),
     "rope_parameters",
     {"default", "linear, theta 10000, factor 2"}},
    {"scaling by 1", LLAMA, ROPE("\"rope_type\": \"linear\", \"factor\": 1"), NULL, {NULL}},
    {"rounding",
     ROPE(YARN ", \"original_max_position_embeddings\": 64"),
     ROPE(YARN ", \"original_max_position_embeddings\": 64, \"truncate\": false"),
     "rope_parameters",
     {"yarn, theta 10000, factor 4, truncate true", "truncate false"}},
    {"scale of a rotation",
     ROPE(YARN),
     ROPE(YARN ", \"attention_factor\": 1.5"),
     "rope_parameters",
     {"scale 1.13", "scale 1.5"}},
    {"a factor of long texts only",
     LONG("1", "2", "\"original_max_position_embeddings\": 64, \"attention_factor\": 1, "),
     LONG("1", "3", "\"original_max_position_embeddings\": 64, \"attention_factor\": 1, "),
     "rope_parameters",
     {"longrope", "longrope"}},
    {"where long texts begin",
     LONG("1", "2", "\"original_max_position_embeddings\": 64, \"attention_factor\": 1, "),
     LONG("1", "2", "\"original_max_position_embeddings\": 32, \"attention_factor\": 1, "),
     "rope_parameters",
     {"longrope", "longrope"}},
    {"factors of 1 by another name",
     LONG("1", "1", "\"attention_factor\": 1, "),
     LLAMA,
     NULL,
     {NULL}},
};

static void make(const char *fields, struct model_desc *out)
{
    char config[1024];
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    snprintf(config, sizeof(config), "{" SIZES ", %s}", fields);
    if (desc_from_config(&log.log, "config", config, NULL, out) != DGL_OK)
        fail_msg("%s", log.text);
}

static void difference_is_found(void **state)
{
    const struct diff_case *row = *state;
    struct model_desc left, right;
    struct desc_diff diff;
    make(row->left, &left);
    make(row->right, &right);
    assert_int_equal(desc_diff_find(NULL, &left, &right, &diff), DGL_OK);
    if (diff.found != (row->field != NULL))
        fail_msg("%s: %s, %s", diff.field, diff.left, diff.right);
    if (row->field) {
        assert_string_equal(diff.field, row->field);
        assert_contains(diff.left, row->values[0]);
        assert_contains(diff.right, row->values[1]);
    }
    model_desc_finish(&left);
    model_desc_finish(&right);
}

int main(void)
{
    return test_run_table("differences", difference_is_found, cases);
}
