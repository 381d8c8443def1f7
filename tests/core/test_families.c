/* Every family's miniature checkpoint: its description line by line, and the same after a
 * conversion. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/convert/convert.h"
#include "loader/model/model_file.h"
#include "tests/support/desc_text.h"
#include "tests/support/family.h"
#include "tests/support/tiny_model.h"

struct fixture {
    const char *name; /* folder */
    const char *text; /* desc_text() */
};

static const struct fixture fixtures[] = {
    {"gemma2",
     "gemma2 3 layers 72 wide 144 inner, 4/2 heads of 32, vocab 320, context 512\n"
     "eps 1e-06 attn 0.204124 act gelu norm+1 caps 5 6 embed 8.48528 residual 1 logits 1 tied\n"
     "rope default theta 10000 dims 32\n"
     "windows 20 0 ...\n"
     "layer 0: attn_norm q k v o attn_post_norm ffn_norm gate up down ffn_post_norm\n"},
    {"gemma3", "gemma3_text 3 layers 96 wide 160 inner, 2/1 heads of 256, vocab 320, context 512\n"
               "eps 1e-06 attn 0.0625 act gelu norm+1 embed 9.79796 residual 1 logits 1 tied\n"
               "rope linear theta 1e+06 dims 256 factor 8\n"
               "local default theta 10000 dims 256\n"
               "windows 24 24 0\n"
               "ropes local local global\n"
               "layer 0: attn_norm q k v q_norm k_norm o attn_post_norm ffn_norm gate up down "
               "ffn_post_norm\n"},
    {"gpt-oss-mxfp4",
     "gpt_oss 3 layers 96 wide 64 inner, 4/2 heads of 16, vocab 320, context 512\n"
     "eps 1e-05 attn 0.25 act swiglu alpha 1.702 limit 7\n"
     "rope yarn theta 150000 dims 16 scale 1.34657 factor 32 original 16 beta 32 1 truncate 0\n"
     "moe 4 of 8, 64 inner, topk-softmax; dense:\n"
     "windows 24 0 ...\n"
     "layer 0: attn_norm q k v q_bias k_bias v_bias o_bias sinks o ffn_norm router router_bias "
     "expert_down expert_gate_up expert_gate_up_bias expert_down_bias\n"},
    {"granite", "granite 3 layers 64 wide 112 inner, 4/2 heads of 16, vocab 320, context 512\n"
                "eps 1e-06 attn 0.3 act silu embed 3 residual 0.8 logits 0.25 tied\n"
                "rope default theta 10000 dims 16\n"
                "layer 0: attn_norm q k v o ffn_norm gate up down\n"},
    {"llama-linear-f32",
     "llama 3 layers 80 wide 112 inner, 5/5 heads of 16, vocab 320, context 512\n"
     "eps 1e-06 attn 0.25 act silu tied\n"
     "rope linear theta 10000 dims 16 factor 4\n"
     "layer 0: attn_norm q k v q_bias k_bias v_bias o_bias o ffn_norm gate up down gate_bias "
     "up_bias down_bias\n"},
    {"llama2-f16", "llama 3 layers 128 wide 344 inner, 4/4 heads of 32, vocab 320, context 512\n"
                   "eps 1e-06 attn 0.176777 act silu\n"
                   "rope default theta 10000 dims 32\n"
                   "layer 0: attn_norm q k v o ffn_norm gate up down\n"},
    {"llama3", "llama 3 layers 64 wide 176 inner, 4/2 heads of 16, vocab 320, context 512\n"
               "eps 1e-05 attn 0.25 act silu\n"
               "rope llama3 theta 500000 dims 16 factor 8 original 64 low 1 high 4\n"
               "layer 0: attn_norm q k v o ffn_norm gate up down\n"},
    {"mistral", "mistral 3 layers 96 wide 224 inner, 6/2 heads of 32, vocab 320, context 512\n"
                "eps 1e-05 attn 0.176777 act silu\n"
                "rope default theta 10000 dims 32\n"
                "windows 24 ...\n"
                "layer 0: attn_norm q k v o ffn_norm gate up down\n"},
    {"mixtral",
     "mixtral 3 layers 64 wide 112 inner, 4/2 heads of 16, vocab 320, context 512\n"
     "eps 1e-05 attn 0.25 act silu\n"
     "rope default theta 1e+06 dims 16\n"
     "moe 2 of 8, 112 inner, topk-softmax; dense:\n"
     "layer 0: attn_norm q k v o ffn_norm router expert_down[] expert_gate[] expert_up[]\n"},
    {"olmo2", "olmo2 3 layers 64 wide 112 inner, 4/4 heads of 16, vocab 320, context 512\n"
              "eps 1e-05 attn 0.25 act silu\n"
              "rope default theta 500000 dims 16\n"
              "layer 0: q k v q_norm k_norm o attn_post_norm gate up down ffn_post_norm\n"},
    {"phi3", "phi3 3 layers 64 wide 96 inner, 4/4 heads of 16, vocab 320, context 512\n"
             "eps 1e-05 attn 0.25 act silu\n"
             "rope default theta 10000 dims 16\n"
             "windows 29 ...\n"
             "layer 0: attn_norm qkv o ffn_norm down gate_up\n"},
    {"phi3-longrope", "phi3 3 layers 192 wide 136 inner, 2/2 heads of 96, vocab 320, context 256\n"
                      "eps 1e-05 attn 0.102062 act silu\n"
                      "rope longrope theta 10000 dims 96 scale 1.1547 factor 4 original 64 short "
                      "1..1.47 long 1..10.4\n"
                      "windows 200 ...\n"
                      "layer 0: attn_norm qkv o ffn_norm down gate_up\n"},
    {"qwen2", "qwen2 3 layers 112 wide 192 inner, 7/1 heads of 16, vocab 320, context 512\n"
              "eps 1e-06 attn 0.25 act silu tied\n"
              "rope default theta 1e+06 dims 16\n"
              "layer 0: attn_norm q k v q_bias k_bias v_bias o ffn_norm gate up down\n"},
    {"qwen2-yarn",
     "qwen2 3 layers 64 wide 96 inner, 2/2 heads of 32, vocab 320, context 512\n"
     "eps 1e-06 attn 0.176777 act silu\n"
     "rope yarn theta 10000 dims 32 scale 1.13863 factor 4 original 64 beta 32 1 truncate 1\n"
     "layer 0: attn_norm q k v q_bias k_bias v_bias o ffn_norm gate up down\n"},
    {"qwen3", "qwen3 3 layers 64 wide 160 inner, 4/2 heads of 32, vocab 320, context 512\n"
              "eps 1e-06 attn 0.176777 act silu tied\n"
              "rope default theta 1e+06 dims 32\n"
              "layer 0: attn_norm q k v q_norm k_norm o ffn_norm gate up down\n"},
    {"qwen3-moe", "qwen3_moe 3 layers 64 wide 96 inner, 4/2 heads of 32, vocab 320, context 512\n"
                  "eps 1e-06 attn 0.176777 act silu\n"
                  "rope default theta 1e+06 dims 32\n"
                  "moe 4 of 16, 48 inner, softmax-topk-norm; dense:\n"
                  "layer 0: attn_norm q k v q_norm k_norm o ffn_norm router expert_down[] "
                  "expert_gate[] expert_up[]\n"},
    {"smollm3", "smollm3 3 layers 64 wide 112 inner, 4/2 heads of 16, vocab 320, context 512\n"
                "eps 1e-06 attn 0.25 act silu tied\n"
                "rope default theta 2e+06 dims 16\n"
                "ropes global global none\n"
                "layer 0: attn_norm q k v o ffn_norm gate up down\n"},
};

/* Opens a model that must open without a warning. */
static struct dgl_model_file *model_open(const char *path)
{
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_WARN);
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = path, .verify = true}, &file);
    assert_string_equal(log.text, "");
    assert_int_equal(status, DGL_OK);
    return file;
}

static void fixture_is_understood(void **state)
{
    const struct fixture *row = *state;
    struct dgl_buf text = {0};
    struct dgl_model_file *file = model_open(family_dir(row->name));
    desc_text(&file->desc, &text);
    assert_string_equal(text.p, row->text);
    assert_int_equal(file->skipped.count, 0);
    dgl_buf_finish(&text);
    model_file_close(&file);
}

/* Converts into `dir`/pack and opens that. */
static struct dgl_model_file *pack_open(const char *source, const char *dir, const char *quantize)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    char *path = dgl_path_join(dir, "pack");
    struct dgl_convert_params params = {
        .in = source, .out = path, .quantize = quantize, .force = true, .threads = 1};
    assert_int_equal(convert_model(NULL, &params, &result), DGL_OK);
    struct dgl_model_file *file = model_open(path);
    free(path);
    return file;
}

static void check_same_bytes(const struct dgl_model_file *a, const struct dgl_model_file *b)
{
    assert_int_equal(tensor_source_count(a->tensors), tensor_source_count(b->tensors));
    for (size_t i = 0; i < tensor_source_count(a->tensors); i++) {
        const struct tensor_info *t = tensor_source_at(a->tensors, i);
        long j = tensor_source_find(b->tensors, t->name);
        if (j < 0)
            fail_msg("the pack has no %s", t->name);
        assert_int_equal(tensor_source_at(b->tensors, (size_t)j)->dtype, t->dtype);
        assert_int_equal(tensor_source_at(b->tensors, (size_t)j)->bytes, t->bytes);
        uint8_t *x = dgl_calloc(t->bytes, 1), *y = dgl_calloc(t->bytes, 1);
        assert_int_equal(tensor_source_read(NULL, a->tensors, i, 0, x, t->bytes), DGL_OK);
        assert_int_equal(tensor_source_read(NULL, b->tensors, (size_t)j, 0, y, t->bytes), DGL_OK);
        assert_memory_equal(x, y, t->bytes);
        free(x);
        free(y);
    }
}

static void fixture_survives_conversion(void **state)
{
    const struct fixture *row = *state;
    const char *source = family_dir(row->name);
    struct dgl_buf text = {0};
    char *dir = test_tmpdir();
    struct dgl_model_file *file = model_open(source), *pack = pack_open(source, dir, NULL);
    desc_text(&pack->desc, &text);
    assert_string_equal(text.p, row->text);
    assert_int_equal(pack->desc.parameters, file->desc.parameters);
    check_same_bytes(file, pack);
    dgl_buf_finish(&text);
    model_file_close(&pack);
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

/* Routers, norms, biases and sinks stay numbers. */
static void only_matrices_are_quantised(void **state)
{
    static const char *const quantised[] = {"matmul", "expert", "embedding", "lm_head"};
    const struct fixture *row = *state;
    char *dir = test_tmpdir();
    struct dgl_model_file *pack = pack_open(family_dir(row->name), dir, "q8_0");
    for (size_t i = 0; i < tensor_source_count(pack->tensors); i++) {
        const struct tensor_info *t = tensor_source_at(pack->tensors, i);
        bool may = false;
        for (size_t r = 0; r < sizeof(quantised) / sizeof(quantised[0]); r++)
            may |= strcmp(t->role, quantised[r]) == 0;
        may = may && t->rank >= 2 && !strstr(t->name, "bias");
        if (may != (dgl_dtype_get(t->dtype)->block > 1))
            fail_msg("%s with role %s is %s", t->name, t->role, dgl_dtype_get(t->dtype)->name);
    }
    model_file_close(&pack);
    test_tmpdir_remove(dir);
}

/* A pack whose manifest contradicts its config. */
struct contradiction {
    const char *name, *fixture;
    const char *find, *replace; /* in manifest.json */
    const char *part;           /* of the message */
};

static const struct contradiction contradictions[] = {
    {"window", "gemma3", "\"slidingWindow\": 24", "\"slidingWindow\": 25",
     "inference.attention.slidingWindow is 25, but config makes it 24"},
    {"layers with a window", "gemma3", "\"layerTypes\": [\n        \"sliding_attention\"",
     "\"layerTypes\": [\n        \"full_attention\"", "inference.layerPattern.layerTypes is "},
    {"local theta", "gemma3", "\"ropeLocalTheta\": 10000", "\"ropeLocalTheta\": 10001",
     "inference.rope.ropeLocalTheta is 10001, but config makes it 10000"},
    {"norms", "gemma2", "\"rmsNormWeightOffset\": true", "\"rmsNormWeightOffset\": false",
     "inference.normalization.rmsNormWeightOffset is false, but config makes it true"},
    {"soft cap", "gemma2", "\"attnLogitSoftcapping\": 5", "\"attnLogitSoftcapping\": null",
     "inference.attention.attnLogitSoftcapping is null, but config makes it 5"},
    {"longrope", "phi3-longrope", "1.47\n", "1.48\n", "inference.rope.longropeShortFactor is "},
    {"residuals", "granite", "\"residualBranchScale\": 0.8", "\"residualBranchScale\": 0.9",
     "inference.layerPattern.residualBranchScale is 0.9, but config makes it 0.8"},
    {"yarn", "gpt-oss-mxfp4", "\"yarnOriginalMaxPos\": 16", "\"yarnOriginalMaxPos\": 17",
     "inference.rope.yarnOriginalMaxPos is 17, but config makes it 16"},
    {"clamp", "gpt-oss-mxfp4", "\"swigluLimit\": 7", "\"swigluLimit\": 8",
     "inference.ffn.swigluLimit is 8, but config makes it 7"},
    {"norms of queries", "olmo2", "\"queryKeyNormAxis\": \"projection\"",
     "\"queryKeyNormAxis\": \"head\"",
     "inference.attention.queryKeyNormAxis is \"head\", but config makes it \"projection\""},
};

static void contradiction_is_refused(void **state)
{
    const struct contradiction *row = *state;
    struct test_log log;
    struct dgl_model_file *pack;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "pack");
    pack = pack_open(family_dir(row->fixture), dir, NULL);
    model_file_close(&pack);
    tiny_file_replace(path, "manifest.json", row->find, row->replace);
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(model_file_open(&log.log, &(struct model_open_params){.path = path}, &pack),
                     DGL_ERR_FORMAT);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, row->part);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    int failures = test_run_table("fixtures", fixture_is_understood, fixtures);
    failures += test_run_table("fixtures as packs", fixture_survives_conversion, fixtures);
    failures +=
        test_run_table("manifests against configs", contradiction_is_refused, contradictions);
    return failures + test_run_table("fixtures as q8_0", only_matrices_are_quantised, fixtures);
}
