/* config.json -> model_desc: accepted configs, refused configs, and their messages. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/desc/model_desc.h"
#include "tests/support/desc_text.h"
#include "tests/support/tiny_model.h"

static enum dgl_status describe(const struct dgl_log *log, const char *config,
                                const char *generation, struct model_desc *out)
{
    return desc_from_config(log, "config.json", config, generation, out);
}

/* The default config with one piece of text replaced; `find` NULL appends a field instead. */
static char *config_with(const char *find, const char *replace)
{
    struct tiny_llama m = tiny_llama_default();
    char *text = tiny_llama_config(&m, false);
    const char *target = find ? find : "{\n";
    char *at = strstr(text, target);
    if (!at)
        fail_msg("the config has no \"%s\"", target);
    struct dgl_buf b = {0};
    dgl_buf_append(&b, text, (size_t)(at - text));
    dgl_buf_printf(&b, find ? "%s" : "{\n%s,\n", replace);
    dgl_buf_puts(&b, at + strlen(target));
    free(text);
    return dgl_buf_take(&b);
}

struct config_case {
    const char *name;
    const char *find, *replace;
    enum dgl_status status;
    const char *parts[3]; /* of the message; every one also has "config.json" */
};

static const struct config_case bad_configs[] = {
    {"model_type is unknown",
     "\"llama\"",
     "\"mamba\"",
     DGL_ERR_UNSUPPORTED,
     {"model_type", "mamba", "\"llama\""}},
    {"model_type is missing",
     "\"model_type\": \"llama\",",
     "",
     DGL_ERR_UNSUPPORTED,
     {"model_type", "missing"}},
    {"model_type is a number", "\"llama\"", "3", DGL_ERR_UNSUPPORTED, {"model_type", "3"}},
    {"another class on the same body",
     NULL,
     "\"architectures\": [\"LlamaForSequenceClassification\"]",
     DGL_ERR_UNSUPPORTED,
     {"architectures[0] is \"LlamaForSequenceClassification\"", "LlamaForCausalLM"}},
    {"attention to later tokens",
     NULL,
     "\"is_causal\": false",
     DGL_ERR_UNSUPPORTED,
     {"is_causal is false; supported: true"}},
    {"architectures is no list",
     NULL,
     "\"architectures\": \"LlamaForCausalLM\"",
     DGL_ERR_FORMAT,
     {"architectures"}},
    {"hidden_act is unknown",
     "\"silu\"",
     "\"relu2\"",
     DGL_ERR_UNSUPPORTED,
     {"hidden_act", "relu2", "\"silu\""}},
    {"hidden_act under its other name",
     "\"hidden_act\": \"silu\"",
     "\"hidden_activation\": \"gelu\"",
     DGL_ERR_UNSUPPORTED,
     {"hidden_activation", "gelu"}},
    {"two activations that disagree",
     "\"hidden_act\": \"silu\"",
     "\"hidden_act\": \"silu\", \"hidden_activation\": \"gelu\"",
     DGL_ERR_FORMAT,
     {"hidden_act is \"silu\"", "hidden_activation is \"gelu\""}},
    {"rope type is unknown",
     "\"rope_scaling\": null",
     "\"rope_scaling\": {\"rope_type\": \"spiral\", \"factor\": 2}",
     DGL_ERR_UNSUPPORTED,
     {"rope_scaling.rope_type", "spiral", "\"default\""}},
    {"rope scaling is a list",
     "\"rope_scaling\": null",
     "\"rope_scaling\": [2]",
     DGL_ERR_FORMAT,
     {"rope_scaling"}},
    {"rope per layer type",
     "\"rope_scaling\": null",
     "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}",
     DGL_ERR_UNSUPPORTED,
     {"rope_parameters.full_attention"}},
    {"two rope thetas that disagree",
     "\"rope_scaling\": null",
     "\"rope_parameters\": {\"rope_theta\": 500000.0}",
     DGL_ERR_FORMAT,
     {"rope_theta is 10000", "rope_parameters.rope_theta is 500000"}},
    {"two types that disagree",
     NULL,
     "\"dtype\": \"float32\"",
     DGL_ERR_FORMAT,
     {"dtype is \"float32\" and torch_dtype is \"bfloat16\""}},
    {"rope_theta is 0", "10000.0", "0", DGL_ERR_FORMAT, {"rope_theta", "0"}},
    {"rope_theta is text", "10000.0", "\"1e4\"", DGL_ERR_FORMAT, {"rope_theta", "1e4"}},
    {"partial rotary",
     NULL,
     "\"partial_rotary_factor\": 0.5",
     DGL_ERR_UNSUPPORTED,
     {"partial_rotary_factor", "0.5", "1"}},
    {"layer_types with a window",
     NULL,
     "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
     DGL_ERR_UNSUPPORTED,
     {"layer_types[1]", "sliding_attention", "full_attention"}},
    {"layer_types too short",
     NULL,
     "\"layer_types\": [\"full_attention\"]",
     DGL_ERR_FORMAT,
     {"layer_types", "1", "2"}},
    {"sliding_window is set",
     NULL,
     "\"sliding_window\": 24",
     DGL_ERR_UNSUPPORTED,
     {"sliding_window", "24", "null"}},
    {"final logit softcapping",
     NULL,
     "\"final_logit_softcapping\": 30.0",
     DGL_ERR_UNSUPPORTED,
     {"final_logit_softcapping", "30"}},
    {"attention logit softcapping",
     NULL,
     "\"attn_logit_softcapping\": 50",
     DGL_ERR_UNSUPPORTED,
     {"attn_logit_softcapping", "50"}},
    {"experts", NULL, "\"num_local_experts\": 8", DGL_ERR_UNSUPPORTED, {"num_local_experts", "8"}},
    {"embedding multiplier",
     NULL,
     "\"embedding_multiplier\": 12.0",
     DGL_ERR_UNSUPPORTED,
     {"embedding_multiplier", "12"}},
    {"logits scaling",
     NULL,
     "\"logits_scaling\": 8.0",
     DGL_ERR_UNSUPPORTED,
     {"logits_scaling", "8"}},
    {"attention multiplier",
     NULL,
     "\"attention_multiplier\": 0.3",
     DGL_ERR_UNSUPPORTED,
     {"attention_multiplier", "0.3"}},
    {"vision model", NULL, "\"vision_config\": {}", DGL_ERR_UNSUPPORTED, {"vision_config"}},
    {"quantised: GPTQ",
     NULL,
     "\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}",
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "gptq", "dopplergl convert"}},
    {"quantised: AWQ",
     NULL,
     "\"quantization_config\": {\"quant_method\": \"awq\"}",
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "awq", "original checkpoint"}},
    {"quantised: bitsandbytes",
     NULL,
     "\"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}",
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "bitsandbytes"}},
    {"quantised: FP8",
     NULL,
     "\"quantization_config\": {\"quant_method\": \"fp8\"}",
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "fp8"}},
    {"quantised: compressed-tensors",
     NULL,
     "\"quantization_config\": {\"quant_method\": \"compressed-tensors\"}",
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "compressed-tensors"}},
    {"quantised: compression_config",
     NULL,
     "\"compression_config\": {\"quant_method\": \"compressed-tensors\"}",
     DGL_ERR_UNSUPPORTED,
     {"compression_config", "compressed-tensors"}},
    {"quantised: mxfp4",
     NULL,
     "\"quantization_config\": {\"quant_method\": \"mxfp4\"}",
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "mxfp4"}},
    {"heads not divisible by kv heads",
     "\"num_key_value_heads\": 2",
     "\"num_key_value_heads\": 3",
     DGL_ERR_FORMAT,
     {"num_attention_heads is 4", "num_key_value_heads 3"}},
    {"hidden_size not divisible by heads",
     "\"head_dim\": 16,\n  \"hidden_act\": \"silu\",\n  \"hidden_size\": 64",
     "\"hidden_size\": 66",
     DGL_ERR_FORMAT,
     {"hidden_size is 66", "num_attention_heads 4"}},
    {"hidden_size not a multiple of 4",
     "\"hidden_size\": 64",
     "\"hidden_size\": 66",
     DGL_ERR_UNSUPPORTED,
     {"hidden_size is 66", "multiples of 4"}},
    {"intermediate_size not a multiple of 4",
     "\"intermediate_size\": 96",
     "\"intermediate_size\": 97",
     DGL_ERR_UNSUPPORTED,
     {"intermediate_size is 97", "multiples of 4"}},
    {"head_dim is odd",
     "\"head_dim\": 16",
     "\"head_dim\": 15",
     DGL_ERR_UNSUPPORTED,
     {"head_dim is 15", "multiples of 2"}},
    {"no layers",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 0",
     DGL_ERR_FORMAT,
     {"num_hidden_layers is 0"}},
    {"layers are negative",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": -1",
     DGL_ERR_FORMAT,
     {"num_hidden_layers is -1"}},
    {"layers are 2^63",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 9223372036854775808",
     DGL_ERR_FORMAT,
     {"num_hidden_layers"}},
    {"layers are text",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": \"2\"",
     DGL_ERR_FORMAT,
     {"num_hidden_layers is \"2\""}},
    {"hidden_size is fractional",
     "\"hidden_size\": 64",
     "\"hidden_size\": 64.5",
     DGL_ERR_FORMAT,
     {"hidden_size is 64.5"}},
    {"hidden_size is missing",
     "\"hidden_size\": 64,",
     "",
     DGL_ERR_FORMAT,
     {"hidden_size is missing"}},
    {"vocab_size above 2^21",
     "\"vocab_size\": 320",
     "\"vocab_size\": 2097153",
     DGL_ERR_FORMAT,
     {"vocab_size is 2097153", "2097152"}},
    {"context is 0",
     "\"max_position_embeddings\": 128",
     "\"max_position_embeddings\": 0",
     DGL_ERR_FORMAT,
     {"max_position_embeddings is 0"}},
    {"eps is 0", "1e-05", "0", DGL_ERR_FORMAT, {"rms_norm_eps is 0"}},
    {"eps is negative", "1e-05", "-1e-5", DGL_ERR_FORMAT, {"rms_norm_eps is -1e-"}},
    {"tie_word_embeddings is a number",
     "\"tie_word_embeddings\": true",
     "\"tie_word_embeddings\": 1",
     DGL_ERR_FORMAT,
     {"tie_word_embeddings is 1"}},
    {"eos id is text",
     "\"eos_token_id\": 1",
     "\"eos_token_id\": \"</s>\"",
     DGL_ERR_FORMAT,
     {"eos_token_id"}},
};

static void config_is_refused(void **state)
{
    const struct config_case *row = *state;
    struct test_log log;
    struct model_desc desc;
    test_log_init(&log, DGL_LOG_ERROR);
    char *config = config_with(row->find, row->replace);
    enum dgl_status status = describe(&log.log, config, NULL, &desc);
    assert_refusal(&log, status, row->status, row->parts);
    assert_contains(log.text, "config.json");
    free(config);
}

/* Changes that must not be refused. */
static const struct config_case good_configs[] = {
    {"unchanged", "\"llama\"", "\"llama\"", DGL_OK, {0}},
    {"layer_types all full",
     NULL,
     "\"layer_types\": [\"full_attention\", \"full_attention\"]",
     DGL_OK,
     {0}},
    {"class of a base model", NULL, "\"architectures\": [\"LlamaModel\"]", DGL_OK, {0}},
    {"causal attention", NULL, "\"is_causal\": true", DGL_OK, {0}},
    {"sliding_window null", NULL, "\"sliding_window\": null", DGL_OK, {0}},
    {"quantization_config null", NULL, "\"quantization_config\": null", DGL_OK, {0}},
    {"head_dim null", "\"head_dim\": 16", "\"head_dim\": null", DGL_OK, {0}},
    {"two types that agree", NULL, "\"dtype\": \"bfloat16\"", DGL_OK, {0}},
    {"partial rotary of 1", NULL, "\"partial_rotary_factor\": 1.0", DGL_OK, {0}},
    {"rope scaling of type default",
     "\"rope_scaling\": null",
     "\"rope_scaling\": {\"rope_type\": \"default\"}",
     DGL_OK,
     {0}},
    {"empty rope scaling", "\"rope_scaling\": null", "\"rope_scaling\": {}", DGL_OK, {0}},
    {"no rope_theta at all", "\"rope_theta\": 10000.0,", "", DGL_OK, {0}},
    {"two rope thetas that agree",
     "\"rope_scaling\": null",
     "\"rope_parameters\": {\"rope_theta\": 1e4}",
     DGL_OK,
     {0}},
    {"mistral without a window",
     "\"llama\",",
     "\"mistral\", \"sliding_window\": null,",
     DGL_OK,
     {0}},
    {"sampling defaults of old configs",
     NULL,
     "\"top_k\": 50, \"temperature\": 1.0, \"max_length\": 20",
     DGL_OK,
     {0}},
    {"swish is silu", "\"silu\"", "\"swish\"", DGL_OK, {0}},
};

static void config_is_understood(void **state)
{
    const struct config_case *row = *state;
    struct test_log log;
    struct model_desc d;
    test_log_init(&log, DGL_LOG_WARN);
    char *config = config_with(row->find, row->replace);
    assert_int_equal(describe(&log.log, config, NULL, &d), DGL_OK);
    assert_string_equal(log.text, "");
    assert_int_equal(d.layers, 2);
    assert_int_equal(d.hidden, 64);
    assert_int_equal(d.intermediate, 96);
    assert_int_equal(d.vocab, 320);
    assert_int_equal(d.heads, 4);
    assert_int_equal(d.kv_heads, 2);
    assert_int_equal(d.head_dim, 16);
    assert_int_equal(d.context_max, 128);
    assert_near(d.norm_eps, 1e-5, 0);
    assert_near(d.attn_scale, 0.25, 0);
    assert_near(d.rope[ROPE_GLOBAL].theta, 10000, 0);
    assert_int_equal(d.rope[ROPE_GLOBAL].dims, 16);
    assert_near(d.rope[ROPE_GLOBAL].scale, 1, 0);
    assert_true(d.tied_head);
    assert_int_equal(d.bos_id, 0);
    assert_int_equal(d.num_stop_ids, 1);
    assert_int_equal(d.stop_ids[0].id, 1);
    assert_int_equal(d.embed, TENSOR_NONE);
    assert_int_equal(d.layer[1].q_bias, TENSOR_NONE);
    model_desc_finish(&d);
    free(config);
}

static void both_dialects_agree(void **state)
{
    (void)state;
    struct tiny_llama m = tiny_llama_default();
    struct model_desc a, b;
    char *old_text = tiny_llama_config(&m, false), *new_text = tiny_llama_config(&m, true);
    assert_int_equal(describe(NULL, old_text, NULL, &a), DGL_OK);
    assert_int_equal(describe(NULL, new_text, NULL, &b), DGL_OK);
    assert_near(a.rope[ROPE_GLOBAL].theta, b.rope[ROPE_GLOBAL].theta, 0);
    assert_int_equal(a.rope[ROPE_GLOBAL].kind, b.rope[ROPE_GLOBAL].kind);
    assert_int_equal(a.rope[ROPE_GLOBAL].dims, b.rope[ROPE_GLOBAL].dims);
    model_desc_finish(&a);
    model_desc_finish(&b);
    free(old_text);
    free(new_text);
}

static void defaults_of_llama(void **state)
{
    (void)state;
    struct model_desc d;
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 4, \"intermediate_size\": 96, \"vocab_size\": 32, "
        "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6}";
    assert_int_equal(describe(NULL, config, NULL, &d), DGL_OK);
    assert_int_equal(d.kv_heads, 4);
    assert_int_equal(d.head_dim, 16);
    assert_near(d.rope[ROPE_GLOBAL].theta, 10000, 0);
    assert_false(d.tied_head);
    assert_int_equal(d.bos_id, -1);
    assert_int_equal(d.num_stop_ids, 0);
    model_desc_finish(&d);
}

static void unknown_fields_are_reported_once(void **state)
{
    (void)state;
    struct test_log log;
    struct model_desc d;
    test_log_init(&log, DGL_LOG_WARN);
    char *config = config_with(NULL, "\"frobnicate\": 3, \"quux\": \"x\", \"nothing\": null");
    assert_int_equal(describe(&log.log, config, NULL, &d), DGL_OK);
    assert_int_equal(log.errors, 0);
    assert_contains(log.text, "config.json: ignoring fields that this version does not know: "
                              "frobnicate, quux\n");
    assert_null(strstr(log.text, "nothing"));
    model_desc_finish(&d);
    free(config);
}

static void config_is_not_an_object(void **state)
{
    (void)state;
    struct test_log log;
    struct model_desc d;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(describe(&log.log, "[1]", NULL, &d), DGL_ERR_FORMAT);
    assert_contains(log.text, "config.json");
    assert_contains(log.text, "array");
}

/* ---- stop ids ---- */

struct stop_case {
    const char *name;
    const char *eos, *generation;
    const char *want; /* "id origin; ..." */
};

static const struct stop_case stop_cases[] = {
    {"only in config", "\"eos_token_id\": 5", NULL, "5 config.json; "},
    {"only in generation_config", "\"eos_token_id\": null", "{\"eos_token_id\": 7}",
     "7 generation_config.json; "},
    {"union, ascending", "\"eos_token_id\": [9, 2]", "{\"eos_token_id\": [4, 2]}",
     "2 config.json, generation_config.json; 4 generation_config.json; 9 config.json; "},
    {"repeated in one file", "\"eos_token_id\": [3, 3]", NULL, "3 config.json; "},
    {"nowhere", "\"eos_token_id\": null", "{}", ""},
    {"empty list", "\"eos_token_id\": []", "{\"eos_token_id\": null}", ""},
};

static void stop_ids_have_origins(void **state)
{
    const struct stop_case *row = *state;
    struct model_desc d;
    struct dgl_buf text = {0};
    char *config = config_with("\"eos_token_id\": 1", row->eos);
    assert_int_equal(describe(NULL, config, row->generation, &d), DGL_OK);
    dgl_buf_puts(&text, "");
    for (size_t i = 0; i < d.num_stop_ids; i++)
        dgl_buf_printf(&text, "%d %s; ", (int)d.stop_ids[i].id, d.stop_ids[i].origin);
    assert_string_equal(text.p ? text.p : "", row->want);
    model_desc_finish(&d);
    dgl_buf_finish(&text);
    free(config);
}

/* Such ids are left out with a warning each: no answer contains them. */
static void ids_beyond_the_vocabulary(void **state)
{
    (void)state;
    struct test_log log;
    struct model_desc d;
    test_log_init(&log, DGL_LOG_WARN);
    char *config = config_with("\"bos_token_id\": 0", "\"bos_token_id\": 999");
    assert_int_equal(describe(&log.log, config, "{\"eos_token_id\": [2, 320, -1]}", &d), DGL_OK);
    assert_contains(log.text, "bos_token_id: is 999, but vocab_size is 320: the id is left out");
    assert_contains(log.text, "generation_config.json: eos_token_id[1]: is 320, but vocab_size is");
    assert_contains(log.text, "generation_config.json: eos_token_id[2]: is -1, but vocab_size is");
    assert_int_equal(d.bos_id, -1);
    assert_int_equal(d.num_stop_ids, 2);
    assert_int_equal(d.stop_ids[1].id, 2);
    model_desc_finish(&d);
    free(config);
}

static void too_many_stop_ids(void **state)
{
    (void)state;
    struct dgl_buf eos = {0};
    struct test_log log;
    struct model_desc d;
    test_log_init(&log, DGL_LOG_ERROR);
    dgl_buf_puts(&eos, "\"eos_token_id\": [0");
    for (int i = 1; i <= MODEL_MAX_STOP_IDS; i++)
        dgl_buf_printf(&eos, ", %d", i);
    dgl_buf_putc(&eos, ']');
    char *config = config_with("\"eos_token_id\": 1", eos.p);
    assert_int_equal(describe(&log.log, config, NULL, &d), DGL_ERR_FORMAT);
    assert_contains(log.text, "more than 32 stop ids");
    free(config);
    dgl_buf_finish(&eos);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(both_dialects_agree),
        cmocka_unit_test(defaults_of_llama),
        cmocka_unit_test(unknown_fields_are_reported_once),
        cmocka_unit_test(config_is_not_an_object),
        cmocka_unit_test(ids_beyond_the_vocabulary),
        cmocka_unit_test(too_many_stop_ids),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    failures += test_run_table("configs refused", config_is_refused, bad_configs);
    failures += test_run_table("configs understood", config_is_understood, good_configs);
    failures += test_run_table("stop ids", stop_ids_have_origins, stop_cases);
    return failures;
}
