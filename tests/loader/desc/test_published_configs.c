/* The configs of published models are understood, without a warning and to the last number. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/desc_text.h"
#include "tests/support/tiny_model.h"

#define CONFIGS "tests/models/configs"

struct published {
    const char *name; /* of the file */
    const char *text; /* desc_text() */
};

static const struct published published[] = {
    {"llama-3.2-1b",
     "llama 16 layers 2048 wide 8192 inner, 32/8 heads of 64, vocab 128256, context 131072\n"
     "eps 1e-05 attn 0.125 act silu tied\n"
     "rope llama3 theta 500000 dims 64 factor 32 original 8192 low 1 high 4\n"},
    {"llama-3.2-3b",
     "llama 28 layers 3072 wide 8192 inner, 24/8 heads of 128, vocab 128256, context 131072\n"
     "eps 1e-05 attn 0.0883883 act silu tied\n"
     "rope llama3 theta 500000 dims 128 factor 32 original 8192 low 1 high 4\n"},
    {"llama-3.1-8b",
     "llama 32 layers 4096 wide 14336 inner, 32/8 heads of 128, vocab 128256, context 131072\n"
     "eps 1e-05 attn 0.0883883 act silu\n"
     "rope llama3 theta 500000 dims 128 factor 8 original 8192 low 1 high 4\n"},
    {"mistral-7b-v0.1",
     "mistral 32 layers 4096 wide 14336 inner, 32/8 heads of 128, vocab 32000, context 32768\n"
     "eps 1e-05 attn 0.0883883 act silu\n"
     "rope default theta 10000 dims 128\n"
     "windows 4096 ...\n"},
    {"mistral-7b-v0.3",
     "mistral 32 layers 4096 wide 14336 inner, 32/8 heads of 128, vocab 32768, context 32768\n"
     "eps 1e-05 attn 0.0883883 act silu\n"
     "rope default theta 1e+06 dims 128\n"},
    {"qwen2.5-1.5b",
     "qwen2 28 layers 1536 wide 8960 inner, 12/2 heads of 128, vocab 151936, context 131072\n"
     "eps 1e-06 attn 0.0883883 act silu tied\n"
     "rope default theta 1e+06 dims 128\n"},
    {"qwen3-0.6b",
     "qwen3 28 layers 1024 wide 3072 inner, 16/8 heads of 128, vocab 151936, context 40960\n"
     "eps 1e-06 attn 0.0883883 act silu tied\n"
     "rope default theta 1e+06 dims 128\n"},
    {"gemma-2-2b",
     "gemma2 26 layers 2304 wide 9216 inner, 8/4 heads of 256, vocab 256000, context 8192\n"
     "eps 1e-06 attn 0.0625 act gelu norm+1 caps 50 30 embed 48 residual 1 logits 1 tied\n"
     "rope default theta 10000 dims 256\n"
     "windows 4096 0 ...\n"},
    {"gemma-2-9b",
     "gemma2 42 layers 3584 wide 14336 inner, 16/8 heads of 256, vocab 256000, context 8192\n"
     "eps 1e-06 attn 0.0625 act gelu norm+1 caps 50 30 embed 59.8665 residual 1 logits 1 tied\n"
     "rope default theta 10000 dims 256\n"
     "windows 4096 0 ...\n"},
    {"gemma-3-1b",
     "gemma3_text 26 layers 1152 wide 6912 inner, 4/1 heads of 256, vocab 262144, context 32768\n"
     "eps 1e-06 attn 0.0625 act gelu norm+1 embed 33.9411 residual 1 logits 1 tied\n"
     "rope default theta 1e+06 dims 256\n"
     "local default theta 10000 dims 256\n"
     "windows 512 512 512 512 512 0 ...\n"
     "ropes local local local local local global ...\n"},
    {"gemma-3-4b",
     "gemma3_text 34 layers 2560 wide 10240 inner, 8/4 heads of 256, vocab 262208, context 131072\n"
     "eps 1e-06 attn 0.0625 act gelu norm+1 embed 50.5964 residual 1 logits 1 tied\n"
     "rope linear theta 1e+06 dims 256 factor 8\n"
     "local default theta 10000 dims 256\n"
     "windows 1024 1024 1024 1024 1024 0 ...\n"
     "ropes local local local local local global ...\n"},
    {"phi-3.5-mini",
     "phi3 32 layers 3072 wide 8192 inner, 32/32 heads of 96, vocab 32064, context 131072\n"
     "eps 1e-05 attn 0.102062 act silu\n"
     "rope longrope theta 10000 dims 96 scale 1.19024 factor 32 original 4096 short 1..2.84 long "
     "1.08..64.84\n"},
    {"qwen3-30b-a3b",
     "qwen3_moe 48 layers 2048 wide 6144 inner, 32/4 heads of 128, vocab 151936, context 40960\n"
     "eps 1e-06 attn 0.0883883 act silu\n"
     "rope default theta 1e+06 dims 128\n"
     "moe 8 of 128, 768 inner, softmax-topk-norm; dense:\n"},
    {"mixtral-8x7b",
     "mixtral 32 layers 4096 wide 14336 inner, 32/8 heads of 128, vocab 32000, context 32768\n"
     "eps 1e-05 attn 0.0883883 act silu\n"
     "rope default theta 1e+06 dims 128\n"
     "moe 2 of 8, 14336 inner, topk-softmax; dense:\n"},
    {"gpt-oss-20b",
     "gpt_oss 24 layers 2880 wide 2880 inner, 64/8 heads of 64, vocab 201088, context 131072\n"
     "eps 1e-05 attn 0.125 act swiglu alpha 1.702 limit 7\n"
     "rope yarn theta 150000 dims 64 scale 1.34657 factor 32 original 4096 beta 32 1 truncate 0\n"
     "moe 4 of 32, 2880 inner, topk-softmax; dense:\n"
     "windows 128 0 ...\n"},
};

static void config_is_understood(void **state)
{
    const struct published *row = *state;
    struct test_log log;
    struct model_desc d;
    struct dgl_buf text = {0};
    char name[64];
    size_t len;
    test_log_init(&log, DGL_LOG_WARN);
    snprintf(name, sizeof(name), "%s.json", row->name);
    char *config = tiny_file_read(CONFIGS, name, &len);
    enum dgl_status status = desc_from_config(&log.log, name, config, NULL, &d);
    assert_string_equal(log.text, "");
    assert_int_equal(status, DGL_OK);
    desc_text(&d, &text);
    assert_string_equal(text.p, row->text);
    model_desc_finish(&d);
    dgl_buf_finish(&text);
    free(config);
}

int main(void)
{
    return test_run_table("published", config_is_understood, published);
}
