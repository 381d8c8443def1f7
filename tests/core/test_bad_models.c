/* Invalid model files: each case changes one thing in a valid folder and checks the error of
 * dgl_inspect(). */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/tiny_model.h"

/* A change to a good Hugging Face folder. */
struct bad_folder {
    const char *name;
    const char *file; /* file to change or to write, or NULL */
    const char *find; /* NULL: the file is (re)written with `text` */
    const char *text;
    const char *remove; /* another file to remove, or NULL */
    enum dgl_status status;
    const char *parts[3]; /* of the one message */
};

static const struct bad_folder bad_folders[] = {
    {"config.json is missing", NULL, NULL, NULL, "config.json", DGL_ERR_FORMAT, {"config.json"}},
    {"config.json is empty", "config.json", NULL, "", NULL, DGL_ERR_FORMAT, {"config.json"}},
    {"config.json is cut off",
     "config.json",
     NULL,
     "{\"model_type\": \"lla",
     NULL,
     DGL_ERR_FORMAT,
     {"config.json"}},
    {"config.json has a key twice",
     "config.json",
     "\"use_cache\": true",
     "\"hidden_size\": 64",
     NULL,
     DGL_ERR_FORMAT,
     {"config.json", "hidden_size"}},
    {"config.json has invalid UTF-8",
     "config.json",
     "\"silu\"",
     "\"si\xff\"",
     NULL,
     DGL_ERR_FORMAT,
     {"config.json"}},
    {"unknown architecture",
     "config.json",
     "\"llama\"",
     "\"rwkv\"",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"config.json: model_type is \"rwkv\"", "\"llama\""}},
    {"unknown activation",
     "config.json",
     "\"silu\"",
     "\"quick_gelu\"",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"config.json: hidden_act is \"quick_gelu\"", "\"silu\""}},
    {"unknown rope type",
     "config.json",
     "\"rope_scaling\": null",
     "\"rope_scaling\": {\"rope_type\": \"su\"}",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"config.json: rope_scaling.rope_type is \"su\"", "\"default\""}},
    {"vocabulary does not fit the embeddings",
     "config.json",
     "\"vocab_size\": 320",
     "\"vocab_size\": 319",
     NULL,
     DGL_ERR_FORMAT,
     {"model.embed_tokens.weight", "[320, 64]", "[319, 64]"}},
    {"layers do not fit the weights",
     "config.json",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 3",
     NULL,
     DGL_ERR_FORMAT,
     {"model.layers.2.input_layernorm.weight is missing"}},
    {"fewer layers than the weights",
     "config.json",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 1",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"model.layers.1.", "1 layers"}},
    {"heads do not fit the weights",
     "config.json",
     "\"num_key_value_heads\": 2",
     "\"num_key_value_heads\": 4",
     NULL,
     DGL_ERR_FORMAT,
     {"k_proj.weight", "[32, 64]", "[64, 64]"}},
    {"width does not fit the weights",
     "config.json",
     "\"intermediate_size\": 96",
     "\"intermediate_size\": 100",
     NULL,
     DGL_ERR_FORMAT,
     {"mlp.down_proj.weight", "[64, 96]", "[64, 100]"}},
    {"not tied, but no head",
     "config.json",
     "\"tie_word_embeddings\": true",
     "\"tie_word_embeddings\": false",
     NULL,
     DGL_ERR_FORMAT,
     {"lm_head.weight is missing"}},
    {"stop id that is a text",
     "generation_config.json",
     NULL,
     "{\"eos_token_id\": \"1\"}",
     NULL,
     DGL_ERR_FORMAT,
     {"generation_config.json: eos_token_id", "a string, wanted an id"}},
    {"generation_config.json is a list",
     "generation_config.json",
     NULL,
     "[1]",
     NULL,
     DGL_ERR_FORMAT,
     {"generation_config.json", "wanted an object"}},
    {"generation_config.json is broken",
     "generation_config.json",
     NULL,
     "{",
     NULL,
     DGL_ERR_FORMAT,
     {"generation_config.json"}},
    {"weights are missing",
     NULL,
     NULL,
     NULL,
     "model.safetensors",
     DGL_ERR_IO,
     {"no weights", "model.safetensors"}},
    {"weights are empty",
     "model.safetensors",
     NULL,
     "",
     NULL,
     DGL_ERR_FORMAT,
     {"model.safetensors", "0 bytes"}},
    {"weights only as .bin",
     "pytorch_model.bin",
     NULL,
     "x",
     "model.safetensors",
     DGL_ERR_UNSUPPORTED,
     {"pytorch_model.bin", "safe_serialization"}},
    {"weights only as .pth",
     "consolidated.00.pth",
     NULL,
     "x",
     "model.safetensors",
     DGL_ERR_UNSUPPORTED,
     {"consolidated.00.pth", "safe_serialization"}},
    {"index names a missing file",
     "model.safetensors.index.json",
     NULL,
     "{\"weight_map\": {\"model.norm.weight\": \"model-2.safetensors\"}}",
     "model.safetensors",
     DGL_ERR_IO,
     {"model-2.safetensors"}},
    {"tokenizer only as tokenizer.model",
     "tokenizer.model",
     NULL,
     "x",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"tokenizer.model", "tokenizer.json", "save_pretrained"}},
    {"tokenizer only as tekken.json",
     "tekken.json",
     NULL,
     "{}",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"tekken.json", "tokenizer.json"}},
    {"tokenizer.json is broken",
     "tokenizer.json",
     NULL,
     "{\"model\": ",
     NULL,
     DGL_ERR_FORMAT,
     {"/tokenizer.json"}},
    {"GPTQ checkpoint",
     "config.json",
     "\"use_cache\": true",
     "\"quantization_config\": {\"quant_method\": \"gptq\"}",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"config.json: quantization_config", "gptq", "original checkpoint"}},
    {"AWQ checkpoint",
     "config.json",
     "\"use_cache\": true",
     "\"quantization_config\": {\"quant_method\": \"awq\"}",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"config.json: quantization_config", "awq"}},
    {"bitsandbytes checkpoint",
     "config.json",
     "\"use_cache\": true",
     "\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "bitsandbytes"}},
    {"FP8 checkpoint",
     "config.json",
     "\"use_cache\": true",
     "\"quantization_config\": {\"quant_method\": \"fp8\"}",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "fp8"}},
    {"compressed-tensors checkpoint",
     "config.json",
     "\"use_cache\": true",
     "\"quantization_config\": {\"quant_method\": \"compressed-tensors\"}",
     NULL,
     DGL_ERR_UNSUPPORTED,
     {"quantization_config", "compressed-tensors"}},
};

static void folder_is_refused(void **state)
{
    const struct bad_folder *row = *state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    struct dgl_model_file *file = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    tiny_llama_write(dir, &m);
    if (row->find)
        tiny_file_replace(dir, row->file, row->find, row->text);
    else if (row->file)
        test_write_file(dir, row->file, row->text, strlen(row->text));
    if (row->remove) {
        char *path = dgl_path_join(dir, row->remove);
        assert_int_equal(unlink(path), 0);
        free(path);
    }
    enum dgl_status status = dgl_inspect(&log.log, dgl_inspect_params(.path = dir), &file);
    assert_null(file);
    assert_refusal(&log, status, row->status, row->parts);
    test_tmpdir_remove(dir);
}

/* The weights file cut at many lengths: never accepted, never a crash. */
static void truncated_weights(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    size_t len;
    tiny_llama_write(dir, &m);
    char *bytes = tiny_file_read(dir, "model.safetensors", &len);
    for (size_t cut = 1; cut < len; cut = cut * 3 / 2 + 1) {
        struct dgl_model_file *file = NULL;
        struct test_log log;
        test_log_init(&log, DGL_LOG_ERROR);
        test_write_file(dir, "model.safetensors", bytes, len - cut);
        assert_int_equal(dgl_inspect(&log.log, dgl_inspect_params(.path = dir), &file),
                         DGL_ERR_FORMAT);
        assert_contains(log.text, "model.safetensors");
        assert_int_equal(log.errors, 1);
    }
    free(bytes);
    test_tmpdir_remove(dir);
}

/* Like a Hub cache without its blobs: the link exists, and the message must not claim that it does
 * not. */
static void weights_that_are_a_link_to_nothing(void **state)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *dir = test_tmpdir(), *path = dgl_path_join(dir, names[i]);
        struct tiny_llama m = tiny_llama_default();
        struct dgl_model_file *file = NULL;
        struct test_log log;
        const char *const parts[4] = {names[i],
                                      "it is a link to ../../blobs/gone, which is missing"};
        test_log_init(&log, DGL_LOG_ERROR);
        m.files = i == 0 ? 1 : 2;
        tiny_llama_write(dir, &m);
        unlink(path);
        assert_int_equal(symlink("../../blobs/gone", path), 0);
        enum dgl_status status = dgl_inspect(&log.log, dgl_inspect_params(.path = dir), &file);
        assert_null(file);
        assert_refusal(&log, status, DGL_ERR_IO, parts);
        free(path);
        test_tmpdir_remove(dir);
    }
}

/* A NULL log only drops the text. */
static void null_log_is_fine(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct dgl_model_file *file = NULL;
    assert_int_equal(dgl_inspect(NULL, dgl_inspect_params(.path = dir), &file), DGL_ERR_IO);
    assert_null(file);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(truncated_weights),
        cmocka_unit_test(weights_that_are_a_link_to_nothing),
        cmocka_unit_test(null_log_is_fine),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    failures += test_run_table("folders", folder_is_refused, bad_folders);
    return failures;
}
