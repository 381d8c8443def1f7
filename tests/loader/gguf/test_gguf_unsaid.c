/* Fields of a config that a GGUF file cannot store: refused with both values before the file is
 * written. Fields that follow from the tensors are restored from them. */
#include "tests/support/convert_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "loader/convert/convert.h"
#include "tests/support/desc_text.h"
#include "tests/support/family.h"

#define PACK "; keep the model as a pack: leave out --to gguf"

struct unsaid {
    const char *name, *fixture;
    const char *config[2][2]; /* text and its replacement */
    bool add_biases, drop_biases;
    const char *part; /* part of the refusal; NULL = the field is restored */
    const char *warning;
};

#define ACT  "\"hidden_act\": \"silu\""
#define GELU "\"hidden_act\": \"gelu_pytorch_tanh\""
#define SILU "\"hidden_activation\": \"silu\""
#define TANH "\"hidden_activation\": \"gelu_pytorch_tanh\""
#define BIASES                                                                                     \
    {                                                                                              \
        "\"attention_bias\": false", "\"attention_bias\": true"                                    \
    }

static const struct unsaid unsaids[] = {
    {"gelu in Llama",
     "llama3",
     {{ACT, GELU}},
     .part = "hidden_act is gelu_pytorch_tanh, but a GGUF file of architecture llama cannot say so "
             "and would be read as silu" PACK},
    {"gelu in Mistral", "mistral", {{ACT, GELU}}, .part = "architecture llama cannot say so"},
    {"gelu in OLMo 2", "olmo2", {{ACT, GELU}}, .part = "architecture olmo2 cannot say so"},
    {"silu in Gemma 2",
     "gemma2",
     {{TANH, SILU}},
     .part = "hidden_act is silu, but a GGUF file of architecture gemma2 cannot say so and would "
             "be read as gelu_pytorch_tanh" PACK},
    {"silu in Gemma 3", "gemma3", {{TANH, SILU}}, .part = "architecture gemma3 cannot say so"},
    {"no cap on Gemma 2's scores",
     "gemma2",
     {{"\"attn_logit_softcapping\": 5.0", "\"attn_logit_softcapping\": null"}},
     .part = "attn_logit_softcapping is null, but a GGUF file of architecture gemma2 cannot say so "
             "and would be read as 50" PACK},
    {"no cap on Gemma 2's logits",
     "gemma2",
     {{"\"final_logit_softcapping\": 6.0", "\"final_logit_softcapping\": null"}},
     .part = "final_logit_softcapping is null, but a GGUF file of architecture gemma2 cannot say "
             "so and would be read as 30" PACK},
    {"another limit in GPT-OSS",
     "gpt-oss-mxfp4",
     {{"\"swiglu_limit\": 7.0", "\"swiglu_limit\": 3.0"}},
     .part = "swiglu_limit is 3, but a GGUF file of architecture gpt-oss cannot say so and would "
             "be read as 7" PACK},
    {"layers with a window scaled in Gemma 3",
     "gemma3",
     {{"\"rope_theta\": 1000000.0,\n \"rope_local_base_freq\": 10000.0,\n \"rope_scaling\": {\n"
       "  \"factor\": 8.0,\n  \"rope_type\": \"linear\"\n },",
       "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": "
       "1e6}, \"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 2.0, "
       "\"rope_theta\": 1e4}},"}},
     .part = "rope_parameters of sliding_attention is linear, theta 10000, factor 2, 256 values by "
             "0.5 per position, scale 1, but a GGUF file of architecture gemma3 cannot say so and "
             "would be read as default, theta 10000, 256 values by 1 per position, scale 1" PACK},
    {"YaRN that does not round",
     "qwen2-yarn",
     {{"\"rope_type\": \"yarn\"", "\"rope_type\": \"yarn\", \"truncate\": false"}},
     .part = "rope_parameters is yarn, theta 10000, factor 4, truncate false"},
    {"YaRN that rounds in GPT-OSS",
     "gpt-oss-mxfp4",
     {{"\"truncate\": false", "\"truncate\": true"},
      {"\"original_max_position_embeddings\": 16", "\"original_max_position_embeddings\": 64"}},
     .part = "would be read as yarn, theta 150000, factor 32, truncate false"},
    {"a scale that readers refuse",
     "gemma2",
     {{"\"query_pre_attn_scalar\": 24", "\"query_pre_attn_scalar\": 1e-9"}},
     .part =
         "m.gguf: gemma2.attention.scale is 31622.8, wanted a number from 0.0001 to 10000)" PACK},
    {"GPT-OSS without scaling",
     "gpt-oss-mxfp4",
     {{"\"rope_type\": \"yarn\"", "\"rope_type\": \"default\""}},
     .part = NULL},
    {"biases in Qwen 3", "qwen3", {BIASES}, .add_biases = true, .warning = "architecture qwen3"},
    {"biases in Qwen 3 with experts",
     "qwen3-moe",
     {BIASES},
     .add_biases = true,
     .warning = "architecture qwen3moe"},
    {"biases in Gemma 2", "gemma2", {BIASES}, .add_biases = true, .warning = "architecture gemma2"},
    {"biases in Gemma 3",
     "gemma3",
     {BIASES},
     .add_biases = true,
     .warning = "it has biases, so llama.cpp will not load it as architecture gemma3"},
    {"biases in OLMo 2", "olmo2", {BIASES}, .add_biases = true, .warning = "architecture olmo2"},
    {"biases in Llama", "llama2-f16", {BIASES}, .add_biases = true},
    {"no biases in GPT-OSS",
     "gpt-oss-mxfp4",
     {{"\"attention_bias\": true", "\"attention_bias\": false"}},
     .drop_biases = true,
     .warning = "it has no biases of attention, so llama.cpp will not load it as architecture "
                "gpt-oss"},
};

static struct dgl_model_file *open_quietly(const char *path)
{
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    if (model_file_open(&log.log, &(struct model_open_params){.path = path}, &file) != DGL_OK)
        fail_msg("%s", log.text);
    return file;
}

/* A safetensors file under change: its header's text without the last brace, and its data. */
struct weights {
    struct dgl_buf header, data;
};

static void weights_read(const char *dir, struct weights *w)
{
    size_t len;
    char *bytes = tiny_file_read(dir, "model.safetensors", &len);
    uint64_t header_len = 0;
    for (int i = 7; i >= 0; i--)
        header_len = header_len << 8 | (unsigned char)bytes[i];
    *w = (struct weights){0};
    dgl_buf_append(&w->data, bytes + 8 + header_len, len - 8 - header_len);
    bytes[8 + header_len] = 0; /* the data are copied */
    dgl_buf_append(&w->header, bytes + 8, (size_t)(strrchr(bytes + 8, '}') - (bytes + 8)));
    free(bytes);
}

static void weights_write(const char *dir, struct weights *w)
{
    dgl_buf_putc(&w->header, '}');
    tiny_safetensors_write(dir, "model.safetensors", w->header.p, w->data.p, w->data.len);
    dgl_buf_finish(&w->header);
    dgl_buf_finish(&w->data);
}

static void bias_add(struct weights *w, int32_t layer, const char *name, int32_t count)
{
    static const char zeros[4096];
    size_t bytes = (size_t)count * 2;
    assert_true(bytes <= sizeof(zeros));
    dgl_buf_printf(&w->header,
                   ", \"model.layers.%d.self_attn.%s.bias\": {\"dtype\": \"BF16\", \"shape\": "
                   "[%d], \"data_offsets\": [%zu, %zu]}",
                   (int)layer, name, (int)count, w->data.len, w->data.len + bytes);
    dgl_buf_append(&w->data, zeros, bytes);
}

static void biases_add(struct weights *w, const struct model_desc *d)
{
    for (int32_t i = 0; i < d->layers; i++) {
        bias_add(w, i, "q_proj", d->heads * d->head_dim);
        bias_add(w, i, "k_proj", d->kv_heads * d->head_dim);
        bias_add(w, i, "v_proj", d->kv_heads * d->head_dim);
        bias_add(w, i, "o_proj", d->hidden);
    }
}

/* Gives each a name that is left out of every model. */
static void biases_drop(struct weights *w)
{
    static const char from[] = "_proj.bias\"", to[] = "_proj.rotary_emb.inv_freq\"";
    struct dgl_buf out = {0};
    const char *at = w->header.p, *hit;
    for (; (hit = strstr(at, from)) != NULL; at = hit + strlen(from)) {
        dgl_buf_append(&out, at, (size_t)(hit - at));
        dgl_buf_puts(&out, to);
    }
    assert_true(out.len > 0);
    dgl_buf_puts(&out, at);
    dgl_buf_finish(&w->header);
    w->header = out;
}

/* The fixture with the row's changes, in `dir`. */
static void checkpoint_write(const struct unsaid *row, const char *source, const char *dir)
{
    size_t len;
    struct weights w;
    struct dgl_model_file *file = open_quietly(source);
    char *config = tiny_file_read(source, "config.json", &len);
    test_write_file(dir, "config.json", config, len);
    for (int i = 0; i < 2 && row->config[i][0]; i++)
        tiny_file_replace(dir, "config.json", row->config[i][0], row->config[i][1]);
    weights_read(source, &w);
    if (row->add_biases)
        biases_add(&w, &file->desc);
    if (row->drop_biases)
        biases_drop(&w);
    weights_write(dir, &w);
    free(config);
    model_file_close(&file);
}

static void check_same(const char *dir, const char *gguf)
{
    struct dgl_model_file *a = open_quietly(dir), *b = open_quietly(gguf);
    struct dgl_buf x = {0}, y = {0};
    desc_text(&a->desc, &x);
    desc_text(&b->desc, &y);
    assert_string_equal(x.p, y.p);
    dgl_buf_finish(&x);
    dgl_buf_finish(&y);
    model_file_close(&a);
    model_file_close(&b);
}

static void is_refused_or_comes_back(void **state)
{
    const struct unsaid *row = *state;
    const char *source = family_dir(row->fixture);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    struct test_log log;
    struct dgl_convert_result result = {.size = sizeof(result)};
    struct dgl_convert_params params = {.in = dir, .out = path, .to = "gguf", .threads = 1};
    checkpoint_write(row, source, dir);
    test_log_init(&log, DGL_LOG_WARN);
    assert_int_equal(convert_model(&log.log, &params, &result),
                     row->part ? DGL_ERR_UNSUPPORTED : DGL_OK);
    assert_int_equal(log.errors, row->part ? 1 : 0);
    if (row->part)
        assert_contains(log.text, row->part);
    if (row->warning)
        assert_contains(log.text, row->warning);
    else if (!row->part)
        assert_string_equal(log.text, "");
    assert_int_equal(dgl_path_exists(path), !row->part);
    if (!row->part)
        check_same(dir, path);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    return test_run_table("unsaid", is_refused_or_comes_back, unsaids);
}
