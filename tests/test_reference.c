/* The trained checkpoints against their float64 references: logits, greedy tokens, perplexity, per weight format and
 * KV type. Needs the test data. */
#include <stdlib.h>

#include "tests/support/reference.h"
#include "tests/support/test.h"

struct checkpoint {
    const char *archive, *folder;
};
static const struct checkpoint story_llama = {"models/story-llama.tar.xz", "story-llama"};
static const struct checkpoint story_draft = {"models/story-draft.tar.xz", "story-draft"};

/* The folder of a checkpoint, or a skipped case. */
static const char *need(const struct checkpoint *c)
{
    const char *dir = test_unpacked(c->archive, c->folder);
    if (!dir)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", c->archive);
    return dir;
}

/* A run of the checkpoint, converted to `quantize` first unless that is NULL. */
struct setup {
    const struct checkpoint *checkpoint;
    const char *quantize;
    enum dgl_kv_type kv_type;
    struct reference ref;
    struct test_engine engine;
    char *tmp;
};

static void open_setup(struct setup *s)
{
    char dir[512], pack[600];
    snprintf(dir, sizeof(dir), "%s", need(s->checkpoint));
    snprintf(pack, sizeof(pack), "%s", dir);
    reference_load(dir, &s->ref);
    if (s->quantize) {
        struct dgl_convert_result converted;
        s->tmp = test_tmpdir();
        snprintf(pack, sizeof(pack), "%s/pack", s->tmp);
        assert_int_equal(
            dgl_convert(NULL, dgl_convert_params(.in = dir, .out = pack, .quantize = s->quantize),
                        &converted),
            DGL_OK);
    }
    test_engine_open(&s->engine, &(struct test_engine_params){.path = pack, .kv_type = s->kv_type});
}

static void close_setup(struct setup *s)
{
    test_engine_close(&s->engine);
    reference_finish(&s->ref);
    if (s->tmp)
        test_tmpdir_remove(s->tmp);
}

/* Logits and greedy tokens of unquantised weights: what rounding the cache costs is all that may differ. */
static void check_exact(const struct checkpoint *c, const char *quantize, enum dgl_kv_type kv)
{
    struct setup s = {.checkpoint = c, .quantize = quantize, .kv_type = kv};
    double margin = kv == DGL_KV_F32 ? 0.001 : 0.02;
    open_setup(&s);
    assert_at_most(reference_logits_nmse(&s.engine, &s.ref), kv == DGL_KV_F32 ? 1e-9 : 2e-7);
    reference_check_greedy(&s.engine, &s.ref, margin);
    reference_check_forced(&s.engine, &s.ref, margin);
    close_setup(&s);
}

static void check_perplexity(const struct checkpoint *c, const char *quantize, double percent)
{
    struct setup s = {.checkpoint = c, .quantize = quantize};
    char texts[512];
    need(c);
    snprintf(texts, sizeof(texts), "%s", test_data("models/eval.json"));
    open_setup(&s);
    double ppl = reference_perplexity(&s.engine, texts);
    printf("# %s %s: perplexity %.6f, reference %.6f\n", c->folder,
           quantize ? quantize : "as stored", ppl, s.ref.ppl);
    assert_near(ppl, s.ref.ppl, s.ref.ppl * percent / 100);
    close_setup(&s);
}

/* clang-format off */
static void llama_stored_f32_kv(void **u) { (void)u; check_exact(&story_llama, NULL, DGL_KV_F32); }
static void llama_stored_f16_kv(void **u) { (void)u; check_exact(&story_llama, NULL, DGL_KV_F16); }
static void llama_f32_f32_kv(void **u) { (void)u; check_exact(&story_llama, "f32", DGL_KV_F32); }
static void llama_f32_f16_kv(void **u) { (void)u; check_exact(&story_llama, "f32", DGL_KV_F16); }
static void llama_bf16_f32_kv(void **u) { (void)u; check_exact(&story_llama, "bf16", DGL_KV_F32); }
static void draft_stored_f32_kv(void **u) { (void)u; check_exact(&story_draft, NULL, DGL_KV_F32); }
static void draft_stored_f16_kv(void **u) { (void)u; check_exact(&story_draft, NULL, DGL_KV_F16); }
static void draft_f16_f32_kv(void **u) { (void)u; check_exact(&story_draft, "f16", DGL_KV_F32); }
static void draft_ppl_stored(void **u) { (void)u; check_perplexity(&story_draft, NULL, 0.1); }
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_stored_f32_kv), cmocka_unit_test(llama_stored_f16_kv),
        cmocka_unit_test(llama_f32_f32_kv),    cmocka_unit_test(llama_f32_f16_kv),
        cmocka_unit_test(llama_bf16_f32_kv),   cmocka_unit_test(draft_stored_f32_kv),
        cmocka_unit_test(draft_stored_f16_kv), cmocka_unit_test(draft_f16_f32_kv),
        cmocka_unit_test(draft_ppl_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
