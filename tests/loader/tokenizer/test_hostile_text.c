/* Names, keys and values of megabytes, with escape sequences. A message contains the start of them,
 * in one readable line, without sequences that the terminal would act on. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "loader/model/model_file.h"
#include "loader/tokenizer/tokenizer.h"
#include "tests/support/gguf_build.h"
#include "tests/support/tiny_model.h"

#define MANY (1 << 20)
/* The start of the text, and the end of that start in messages. Values of JSON have its \u001b. */
#define EVIL   "\033]0;x\007\xc2\x9b\xe2\x80\xae"
#define SHOWN  "\\u{9b}\\u{202e}aaaa"
#define JSON   "\\u009b\\u{202e}aaaa" /* in a value that the message shows as JSON */
#define LONGER "aaaa..."

/* EVIL and then `len` letters; free(). */
static char *evil_text(size_t len)
{
    char *text = malloc(sizeof(EVIL) + len);
    memcpy(text, EVIL, sizeof(EVIL) - 1);
    memset(text + sizeof(EVIL) - 1, 'a', len);
    text[sizeof(EVIL) - 1 + len] = 0;
    return text;
}

/* The same as JSON has it: control characters are escaped there. */
static char *evil_json(void)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    char *text = evil_text(MANY);
    dgl_jw_cstr(&w, text);
    free(text);
    return dgl_buf_take(&out);
}

/* ---- places of the text ---- */

static void in_config(const char *dir, const char *find, const char *before, const char *after)
{
    struct dgl_buf value = {0};
    char *json = evil_json();
    dgl_buf_printf(&value, "%s%s%s", before, json, after);
    make_tiny_llama(dir, 7, NULL);
    tiny_file_replace(dir, "config.json", find, value.p);
    dgl_buf_finish(&value);
    free(json);
}

static void in_model_type(const char *dir)
{
    in_config(dir, "\"llama\"", "", "");
}

static void in_activation(const char *dir)
{
    in_config(dir, "\"silu\"", "", "");
}

static void in_a_size(const char *dir)
{
    in_config(dir, "\"hidden_size\": 64", "\"hidden_size\": ", "");
}

static void in_a_key_of_rope(const char *dir)
{
    in_config(dir, "\"hidden_act\"", "\"rope_parameters\": {\"rope_type\": {",
              ": 1}}, \"hidden_act\"");
}

static void in_quant_method(const char *dir)
{
    in_config(dir, "\"hidden_act\"",
              "\"quantization_config\": {\"quant_method\": ", "}, \"hidden_act\"");
}

static void write_tensors(const char *dir, const char *format)
{
    struct dgl_buf header = {0};
    char *json = evil_json();
    make_tiny_llama(dir, 7, NULL);
    const char *at = strchr(format, '@');
    dgl_buf_printf(&header, "%.*s%s%s", (int)(at - format), format, json, at + 1);
    tiny_safetensors_write(dir, "model.safetensors", header.p, NULL, 4);
    dgl_buf_finish(&header);
    free(json);
}

static void in_a_tensor_name(const char *dir)
{
    write_tensors(dir, "{@:{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
}

static void in_a_damaged_tensor_name(const char *dir)
{
    write_tensors(dir, "{@:{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}");
}

static void in_a_dtype(const char *dir)
{
    write_tensors(dir, "{\"a\":{\"dtype\":@,\"shape\":[1],\"data_offsets\":[0,4]}}");
}

static void in_an_index(const char *dir)
{
    struct tiny_llama m = tiny_llama_default();
    struct dgl_buf value = {0};
    char *json = evil_json();
    m.files = 2;
    tiny_llama_write(dir, &m);
    dgl_buf_printf(&value, "\"weight_map\": {\"x\": %s, ", json);
    tiny_file_replace(dir, "model.safetensors.index.json", "\"weight_map\": {", value.p);
    dgl_buf_finish(&value);
    free(json);
}

static void in_manifest(const char *dir, const char *find, const char *before, const char *after)
{
    struct tiny_pack pack = tiny_pack_default();
    struct dgl_buf value = {0};
    char *json = evil_json();
    tiny_pack_write(dir, &pack);
    dgl_buf_printf(&value, "%s%s%s", before, json, after);
    tiny_file_replace(dir, "manifest.json", find, value.p);
    dgl_buf_finish(&value);
    free(json);
}

static void in_a_tensor_of_a_pack(const char *dir)
{
    in_manifest(dir, "\"model.norm.weight\"", "", "");
}

static void in_a_hash_name(const char *dir)
{
    in_manifest(dir, "\"hashAlgorithm\": \"sha256\"", "\"hashAlgorithm\": ", "");
}

static void in_a_hash(const char *dir)
{
    in_manifest(dir, "\"hash\": ", "\"hash\": ", ", \"was\": ");
}

static void in_a_shard_name(const char *dir)
{
    in_manifest(dir, "\"shard_00000.bin\"", "", "");
}

static void gguf_write(const char *dir, struct gguf_build *b)
{
    struct dgl_buf bytes;
    gb_finish(b, &bytes);
    test_write_file(dir, "m.gguf", bytes.p, bytes.len);
    dgl_buf_finish(&bytes);
}

static void in_architecture(const char *dir)
{
    struct gguf_build b = {0};
    char *text = evil_text(MANY);
    gb_str(&b, "general.architecture", text);
    gguf_write(dir, &b);
    free(text);
}

static void in_a_key(const char *dir)
{
    struct gguf_build b = {0};
    char *text = evil_text(60000);
    gb_u32(&b, text, 1);
    gb_u32(&b, text, 1);
    gguf_write(dir, &b);
    free(text);
}

static void in_a_key_of_the_architecture(const char *dir)
{
    struct gguf_build b = {0};
    struct dgl_buf key = {0};
    char *text = evil_text(60000);
    dgl_buf_printf(&key, "llama.%s", text);
    gb_str(&b, "general.architecture", "llama");
    gb_u32(&b, key.p, 1);
    gguf_write(dir, &b);
    dgl_buf_finish(&key);
    free(text);
}

static void in_a_tensor_of_gguf(const char *dir)
{
    static const uint64_t dims[1] = {0};
    struct gguf_build b = {0};
    char *text = evil_text(40);
    gb_tensor_info(&b, text, GB_F32, 1, dims, 0);
    gguf_write(dir, &b);
    free(text);
}

static void in_pre(const char *dir)
{
    static const char *const tokens[] = {"a"};
    struct gguf_build b = {0};
    char *text = evil_text(MANY);
    gb_str(&b, "general.architecture", "llama");
    gb_u32(&b, "llama.block_count", 1);
    gb_u32(&b, "llama.embedding_length", 8);
    gb_u32(&b, "llama.attention.head_count", 2);
    gb_str(&b, "tokenizer.ggml.model", "gpt2");
    gb_str(&b, "tokenizer.ggml.pre", text);
    gb_strs(&b, "tokenizer.ggml.tokens", tokens, 1);
    gguf_write(dir, &b);
    free(text);
}

static void in_a_token(const char *dir)
{
    struct dgl_buf text = {0};
    char *json = evil_json();
    make_tiny_llama(dir, 7, NULL);
    dgl_buf_printf(&text,
                   "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"b\": 0, %s: 0}, "
                   "\"merges\": []}}",
                   json);
    test_write_file(dir, "tokenizer.json", text.p, text.len);
    dgl_buf_finish(&text);
    free(json);
}

struct place {
    const char *name;
    void (*write)(const char *dir);
    bool gguf, whole; /* short enough not to be cut */
};

static const struct place places[] = {
    {"config.json: model_type", in_model_type, false, false},
    {"config.json: activation", in_activation, false, false},
    {"config.json: a size", in_a_size, false, false},
    {"config.json: a key", in_a_key_of_rope, false, false},
    {"config.json: quant_method", in_quant_method, false, false},
    {"safetensors: unused tensor", in_a_tensor_name, false, false},
    {"safetensors: damaged tensor", in_a_damaged_tensor_name, false, false},
    {"safetensors: dtype", in_a_dtype, false, false},
    {"index: file name", in_an_index, false, false},
    {"manifest: tensor", in_a_tensor_of_a_pack, false, false},
    {"manifest: hashAlgorithm", in_a_hash_name, false, false},
    {"manifest: hash", in_a_hash, false, false},
    {"manifest: shard", in_a_shard_name, false, false},
    {"GGUF: architecture", in_architecture, true, false},
    {"GGUF: key that occurs twice", in_a_key, true, false},
    {"GGUF: unknown key", in_a_key_of_the_architecture, true, false},
    {"GGUF: tensor", in_a_tensor_of_gguf, true, true},
    {"GGUF: pre-tokenizer", in_pre, true, false},
    {"tokenizer.json: token", in_a_token, false, false},
};

static void message_is_readable(void **state)
{
    const struct place *row = *state;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_WARN);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, row->gguf ? "m.gguf" : ".");
    row->write(dir);
    assert_int_not_equal(dgl_inspect(&log.log, dgl_inspect_params(.path = path), &file), DGL_OK);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, strstr(log.text, JSON) ? JSON : SHOWN);
    if (!row->whole)
        assert_contains(log.text, LONGER);
    assert_true(log.len < 1000);
    for (size_t i = 0; i + 1 < log.len; i++)
        assert_true((unsigned char)log.text[i] >= 0x20 && (unsigned char)log.text[i] < 0x7f);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    return test_run_table("hostile text", message_is_readable, places);
}
