/* GGUF files of every tensor type compute the logits of their dequantised weights, for dense models
 * and mixtures. */
#include "tests/support/gguf_build.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/oracle/ref_ops.h"
#include "core/plan/weight_layout.h"
#include "loader/convert/convert.h"
#include "loader/quant/dtype.h"
#include "loader/quant/quant.h"
#include "tests/support/tiny_engine.h"

enum { HIDDEN = 256, VOCAB = 96, KV = 128, EXPERTS = 3, PROMPT = 6 };

enum { SHARE = 4 }; /* of the rows in a sample */

struct row {
    const char *name;
    uint32_t id; /* ggml's */
    enum dgl_dtype dtype;
    int scale_at[2]; /* offsets of the f16 scale and minimum in a block; -1 = absent */
    float scale;     /* so that weights stay below about 0.15 */
};

/* Blocks of random bytes, except for the scales: every code and every sub-scale occurs. */
static const struct row rows[] = {
    {"Q4_0", 2, DGL_Q4_0, {0, -1}, 0.015f},         {"Q4_1", 3, DGL_Q4_1, {0, 2}, 0.008f},
    {"Q5_0", 6, DGL_Q5_0, {0, -1}, 0.008f},         {"Q5_1", 7, DGL_Q5_1, {0, 2}, 0.004f},
    {"Q8_0", 8, DGL_Q8_0, {0, -1}, 0.001f},         {"Q2_K", 10, DGL_Q2_K, {80, 82}, 0.003f},
    {"Q3_K", 11, DGL_Q3_K, {108, -1}, 0.001f},      {"Q4_K", 12, DGL_Q4_K, {0, 2}, 0.00015f},
    {"Q5_K", 13, DGL_Q5_K, {0, 2}, 0.0001f},        {"Q6_K", 14, DGL_Q6_K, {208, -1}, 0.00004f},
    {"MXFP4", 39, DGL_MXFP4, {-1, -1}, 0},          {"IQ4_NL", 20, DGL_IQ4_NL, {0, -1}, 0.001f},
    {"IQ4_XS", 23, DGL_IQ4_XS, {0, -1}, 0.00004f},  {"IQ1_S", 19, DGL_IQ1_S, {0, -1}, 0.009f},
    {"IQ1_M", 29, DGL_IQ1_M, {-1, -1}, 0.009f},     {"IQ2_XXS", 16, DGL_IQ2_XXS, {0, -1}, 0.0009f},
    {"IQ2_XS", 17, DGL_IQ2_XS, {0, -1}, 0.0009f},   {"IQ2_S", 22, DGL_IQ2_S, {0, -1}, 0.0009f},
    {"IQ3_XXS", 18, DGL_IQ3_XXS, {0, -1}, 0.0003f}, {"IQ3_S", 21, DGL_IQ3_S, {0, -1}, 0.0003f},
    {"TQ1_0", 34, DGL_TQ1_0, {52, -1}, 0.1f},       {"TQ2_0", 35, DGL_TQ2_0, {64, -1}, 0.07f},
    {"Q1_0", 41, DGL_Q1_0, {0, -1}, 0.1f},          {"Q2_0", 42, DGL_Q2_0, {0, -1}, 0.07f},
    {"BF16", 30, DGL_BF16, {-1, -1}, 0.1f},         {"F16", 1, DGL_F16, {-1, -1}, 0.1f},
};

static void fill_block(const struct row *row, uint64_t *seed, uint8_t *block, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        block[i] = (uint8_t)test_rand(seed);
    if (row->dtype == DGL_MXFP4)
        block[0] = (uint8_t)(121 + test_rand(seed) % 3); /* an exponent about 2^-5 */
    if (row->dtype == DGL_IQ1_M) { /* four bits in each of the last four halves */
        uint16_t half = dgl_f32_to_f16(row->scale);
        for (uint32_t i = 0; i < 4; i++)
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4);
    }
    for (int i = 0; i < 2 && row->scale_at[i] >= 0; i++) {
        uint16_t half = dgl_f32_to_f16(row->scale * (1.0f + 0.2f * test_rand_float(seed)));
        block[row->scale_at[i]] = (uint8_t)half;
        block[row->scale_at[i] + 1] = (uint8_t)(half >> 8);
    }
}

/* [count, cols], or that of each expert. */
static void add_weights(struct gguf_build *b, const struct row *row, const char *name,
                        uint64_t count, uint64_t experts, uint64_t *seed)
{
    const uint64_t cols = HIDDEN;
    const struct dgl_dtype_traits *t = dgl_dtype_get(row->dtype);
    uint64_t dims[3] = {cols, count, experts}, blocks = count * cols / t->block;
    blocks *= experts ? experts : 1;
    uint8_t *bytes = malloc((size_t)(blocks * t->block_bytes));
    assert_non_null(bytes);
    for (uint64_t i = 0; i < blocks; i++) {
        float value = row->scale * test_rand_float(seed);
        if (t->block > 1)
            fill_block(row, seed, bytes + i * t->block_bytes, t->block_bytes);
        else
            assert_true(dgl_row_encode(row->dtype, &value, 1, bytes + i * t->block_bytes));
    }
    gb_tensor(b, name, row->id, experts ? 3 : 2, dims, bytes, (size_t)(blocks * t->block_bytes));
    free(bytes);
}

static void write_model(const struct row *row, const char *dir, uint32_t experts)
{
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    uint64_t seed = 7;
    gb_str(&b, "general.architecture", "llama");
    gb_u32(&b, "llama.block_count", 1);
    gb_u32(&b, "llama.context_length", 64);
    gb_u32(&b, "llama.embedding_length", HIDDEN);
    gb_u32(&b, "llama.feed_forward_length", HIDDEN);
    gb_u32(&b, "llama.attention.head_count", 4);
    gb_u32(&b, "llama.attention.head_count_kv", 2);
    gb_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (experts) {
        gb_u32(&b, "llama.expert_count", experts);
        gb_u32(&b, "llama.expert_used_count", 2);
        gb_matrix(&b, "blk.0.ffn_gate_inp.weight", experts, HIDDEN, -1, 0.003f);
    }
    add_weights(&b, row, "token_embd.weight", VOCAB, 0, &seed);
    add_weights(&b, row, "blk.0.attn_q.weight", HIDDEN, 0, &seed);
    add_weights(&b, row, "blk.0.attn_k.weight", KV, 0, &seed);
    add_weights(&b, row, "blk.0.attn_v.weight", KV, 0, &seed);
    add_weights(&b, row, "blk.0.attn_output.weight", HIDDEN, 0, &seed);
    const char *names[2][3] = {
        {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"},
        {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"}};
    for (int i = 0; i < 3; i++)
        add_weights(&b, row, names[experts > 0][i], HIDDEN, experts, &seed);
    gb_matrix(&b, "output_norm.weight", 0, HIDDEN, 1, 0);
    gb_matrix(&b, "blk.0.attn_norm.weight", 0, HIDDEN, 1, 0);
    gb_matrix(&b, "blk.0.ffn_norm.weight", 0, HIDDEN, 1, 0);
    gb_finish(&b, &bytes);
    test_write_file(dir, "typed.gguf", bytes.p, bytes.len);
    dgl_buf_finish(&bytes);
}

/* The weights are on the device as they are in the file, and no line reports another type. */
static void check_held(const struct tiny_engine *e, const struct row *row, uint32_t experts)
{
    const struct weight_layout *layout = weight_layout_find(row->dtype, ref_layout(row->dtype));
    uint64_t words;
    double values = (double)HIDDEN * (VOCAB + 2 * HIDDEN + 2 * KV);
    values += 3.0 * HIDDEN * HIDDEN * (experts ? experts : 1);
    assert_true(weight_layout_stride(layout, HIDDEN, &words));
    double want = values / HIDDEN * (double)words * 4;
    double got = (double)dgl_model_get_info(e->model)->weight_bytes;
    assert_near(got, want, 0.06 * want); /* norms */
    assert_null(strstr(e->log.text, "weights"));
}

/* All logits of a fixed prompt; dgl_free(). */
static float *logits_of(struct tiny_engine *e, const char *path)
{
    static const int32_t ids[PROMPT] = {1, 17, 95, 4, 60, 33};
    float *logits = NULL;
    size_t count = 0;
    tiny_engine_open(e, &(struct tiny_engine_params){.path = path, .kv_type = DGL_KV_F32});
    assert_int_equal(dgl_logits(e->session,
                                dgl_logits_params(.ids = ids, .num_ids = PROMPT, .all = true),
                                &logits, &count),
                     DGL_OK);
    assert_int_equal(count, PROMPT);
    return logits;
}

static void check_model(const struct row *row, uint32_t experts)
{
    char *dir = test_tmpdir(), *typed = dgl_path_join(dir, "typed.gguf"),
         *plain = dgl_path_join(dir, "plain.gguf");
    struct dgl_convert_result result = {.size = sizeof(result)};
    struct tiny_engine e, f;
    write_model(row, dir, experts);
    struct dgl_convert_params params = {
        .in = typed, .out = plain, .to = "gguf", .quantize = "f32", .threads = 1};
    assert_int_equal(convert_model(NULL, &params, &result), DGL_OK);
    float *got = logits_of(&e, typed), *want = logits_of(&f, plain);
    double wide[PROMPT * VOCAB], power = 0;
    for (size_t i = 0; i < PROMPT * VOCAB; i++) {
        wide[i] = (double)want[i];
        power += wide[i] * wide[i];
    }
    assert_true(isfinite(power) && power > 1e-3); /* there is something to compare */
    assert_at_most(test_nmse(got, wide, PROMPT * VOCAB), 1e-11);
    check_held(&e, row, experts);
    dgl_free(got);
    dgl_free(want);
    tiny_engine_close(&e);
    tiny_engine_close(&f);
    free(typed);
    free(plain);
    test_tmpdir_remove(dir);
}

static void gives_the_logits_of_its_dequantised_weights(void **state)
{
    check_model(*state, 0);
}

static void mixtures_do_so_too(void **state)
{
    check_model(*state, EXPERTS);
}

int main(void)
{
    int failed =
        test_run_table_sample("types", gives_the_logits_of_its_dequantised_weights, rows, SHARE);
    return failed + test_run_table_sample("experts", mixtures_do_so_too, rows, SHARE);
}
