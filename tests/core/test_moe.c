/* Models with experts. Small random checkpoints are compared with float64 references, token by
 * token and in chunks (in one pass: test_fixtures.c), with experts split into bands (needs the test
 * data). Models with equal experts must answer like the dense model with that MLP, for any choice
 * of experts: always the same one, or every one. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/family.h"
#include "tests/support/gl_fail.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_moe.h"

/* ---- families -------------------------------------------------------------------------------- */

struct family_row {
    struct family_case family;
    uint64_t binding; /* bytes that the device binds, 0 = the truth: cuts experts into bands */
};

static const struct family_row families[] = {
    {{"mixtral, token by token", "mixtral", DGL_KV_F32, NULL, 1}, 0},
    {{"mixtral, chunks of 7", "mixtral", DGL_KV_F32, NULL, 7}, 0},
    {{"mixtral, chunks of 64", "mixtral", DGL_KV_F32, NULL, 64}, 0},
    {{"qwen3-moe, token by token", "qwen3-moe", DGL_KV_F32, NULL, 1}, 0},
    {{"qwen3-moe, chunks of 7", "qwen3-moe", DGL_KV_F32, NULL, 7}, 0},
    {{"qwen3-moe, chunks of 512", "qwen3-moe", DGL_KV_F32, NULL, 512}, 0},
    {{"gpt-oss, token by token", "gpt-oss-mxfp4", DGL_KV_F32, NULL, 1}, 0},
    {{"gpt-oss, chunks of 7", "gpt-oss-mxfp4", DGL_KV_F32, NULL, 7}, 0},
    {{"gpt-oss, chunks of 64", "gpt-oss-mxfp4", DGL_KV_F32, NULL, 64}, 0},
    {{"mixtral in bands", "mixtral", DGL_KV_F32, NULL, 0}, 65536},
    {{"gpt-oss in bands", "gpt-oss-mxfp4", DGL_KV_F32, NULL, 0}, 65520},
    {{"gpt-oss in bands, token by token", "gpt-oss-mxfp4", DGL_KV_F32, NULL, 1}, 65520},
};

static void family_in_bands_matches(void **state)
{
    const struct family_row *row = *state;
    gl_fail.max_ssbo_bytes = row->binding;
    family_check(&row->family);
    gl_fail_reset();
}

/* Fused kernels. Software renderers use them only if a hint requests them. */
static const struct family_case fused[] = {
    {"mixtral", "mixtral", DGL_KV_F32, NULL, 1},
    {"qwen3-moe", "qwen3-moe", DGL_KV_F32, NULL, 1},
    {"gpt-oss", "gpt-oss-mxfp4", DGL_KV_F32, NULL, 1},
};

static void fused_family_matches(void **state)
{
    family_check_hinted(*state, "{\"variants\":{\"moe_router\":\"moe_router\"}}");
}

/* ---- experts that are all the same ----------------------------------------------------------- */

enum { PROMPT = 45, STEPS = 12 };

struct same_row {
    const char *name;
    int32_t experts, top_k, hidden, intermediate;
    bool zero_router, limits_min;
};

static const struct same_row same[] = {
    {"one expert", 1, 1, 64, 96, false, false},
    {"two of eight", 8, 2, 64, 96, false, false},
    {"not a power of two", 13, 3, 64, 112, false, false},
    {"every expert is chosen", 6, 6, 96, 80, false, false},
    {"all tokens to one expert", 7, 1, 64, 96, true, false},
    {"all tokens to the same three", 8, 3, 96, 64, true, false},
    {"many experts, few tokens", 96, 2, 64, 48, false, false},
    {"two of five on the minimal device", 5, 2, 64, 96, false, true},
};

/* Logits after PROMPT tokens, those of the last greedy step behind them, and its tokens. */
struct answer {
    float *prompt, *last;
    int32_t tokens[STEPS];
};

static void answer_of(struct dgl_session *s, int32_t vocab, size_t first, struct answer *out)
{
    int32_t ids[PROMPT];
    tiny_ids(ids, PROMPT, vocab, 5);
    if (first)
        tiny_sync(s, ids, first);
    tiny_sync(s, ids, PROMPT);
    out->prompt = tiny_logits(s);
    tiny_greedy(s, ids, PROMPT, out->tokens, STEPS);
    out->last = tiny_logits(s);
}

static void answer_finish(struct answer *a)
{
    free(a->prompt);
    free(a->last);
}

static void check_same(const struct answer *a, const struct answer *b, int32_t vocab, double limit)
{
    assert_at_most(tiny_nmse(a->prompt, b->prompt, (size_t)vocab), limit);
    assert_memory_equal(a->tokens, b->tokens, sizeof(a->tokens));
    assert_at_most(tiny_nmse(a->last, b->last, (size_t)vocab), limit);
}

static void equal_experts_make_a_dense_model(void **state)
{
    const struct same_row *row = *state;
    struct tiny_moe m = {tiny_llama_default(), row->experts, row->top_k, row->zero_router};
    struct tiny_engine dense, sparse;
    struct answer want, got;
    m.dense.hidden = row->hidden;
    m.dense.intermediate = row->intermediate;
    m.dense.dtype = DGL_F32;
    char *dir = test_tmpdir();
    tiny_moe_write(dir, &m);
    tiny_engine_open(&dense,
                     &(struct tiny_engine_params){.sizes = &m.dense, .kv_type = DGL_KV_F32});
    answer_of(dense.session, m.dense.vocab, 0, &want);
    tiny_engine_open(
        &sparse, &(struct tiny_engine_params){
                     .path = dir, .kv_type = DGL_KV_F32, .limits = row->limits_min ? "min" : NULL});
    answer_of(sparse.session, m.dense.vocab, 0, &got);
    check_same(&got, &want, m.dense.vocab, 1e-9);
    answer_finish(&got);
    answer_finish(&want);
    tiny_engine_close(&sparse);
    tiny_engine_close(&dense);
    test_tmpdir_remove(dir);
}

/* ---- parts of a prompt ----------------------------------------------------------------------- */

struct part_row {
    const char *name;
    int32_t chunk;
    size_t first; /* tokens evaluated in a separate call; 0 = no such call */
    double limit;
};

static const struct part_row parts[] = {
    {"two parts", 0, 20, 0}, /* not a bit changes as long as both are prefill */
    {"chunks of 7, in parts", 7, 17, 0},
    {"chunks of 44", 44, 0, 1e-9}, /* the last token by itself, as decode */
    {"chunks of 1", 1, 0, 1e-9},
    {"chunks of 64", 64, 0, 0},
    {"the same again", 0, 0, 0},
};

static void parts_of_a_prompt_agree(void **state)
{
    const struct part_row *row = *state;
    struct tiny_moe m = {tiny_llama_default(), 11, 3, false};
    struct tiny_engine e;
    struct answer whole, apart;
    char *dir = test_tmpdir();
    tiny_moe_write(dir, &m);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .kv_type = DGL_KV_F32});
    answer_of(e.session, m.dense.vocab, 0, &whole);
    struct dgl_session *s = tiny_session(&e, row->chunk);
    answer_of(s, m.dense.vocab, row->first, &apart);
    check_same(&apart, &whole, m.dense.vocab, row->limit);
    answer_finish(&whole);
    answer_finish(&apart);
    dgl_session_destroy(&s);
    tiny_engine_close(&e);
    test_tmpdir_remove(dir);
}

int main(void)
{
    int failures = test_run_table_sample("families", family_in_bands_matches, families, 3);
    failures += test_run_table("fused", fused_family_matches, fused);
    failures += test_run_table("same", equal_experts_make_a_dense_model, same);
    return failures + test_run_table_sample("parts", parts_of_a_prompt_agree, parts, 3);
}
