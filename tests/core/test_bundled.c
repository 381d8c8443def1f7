/* The bundled model compared with the checked-in float64 evaluation of its dequantised weights
 * (tests/models/README.md). Needs no other data. */
#include "tests/support/test.h"

#include "tests/support/reference.h"
#include "tests/support/tiny_engine.h"

#define REFERENCE BUNDLED_MODEL ".reference"

struct setup {
    const char *name;
    enum dgl_kv_type kv_type;
    bool limits_min;
    int32_t chunk;
    double nmse;   /* of logits, at most */
    double margin; /* steps with a smaller margin are not compared */
};

static const struct setup setups[] = {
    {"f32 cache", DGL_KV_F32, false, 0, 1e-9, 0.001},
    {"f16 cache", DGL_KV_F16, false, 0, 2e-7, 0.02},
    {"f16 cache, limits min", DGL_KV_F16, true, 0, 2e-7, 0.02},
    {"f32 cache, chunks of 5", DGL_KV_F32, false, 5, 1e-9, 0.001},
};

static struct reference ref;

static void open_setup(struct test_engine *e, const struct setup *s)
{
    test_engine_open(e, &(struct test_engine_params){.path = BUNDLED_MODEL,
                                                     .kv_type = s->kv_type,
                                                     .limits = s->limits_min ? "min" : NULL,
                                                     .context = 512,
                                                     .chunk = s->chunk});
}

static void test_logits(void **state)
{
    struct test_engine e;
    const struct setup *s = *state;
    open_setup(&e, s);
    double nmse = reference_logits_nmse(&e, &ref);
    printf("# %s: NMSE of logits %.3g\n", s->name, nmse);
    assert_at_most(nmse, s->nmse);
    test_engine_close(&e);
}

static void test_greedy(void **state)
{
    struct test_engine e;
    const struct setup *s = *state;
    open_setup(&e, s);
    reference_check_greedy(&e, &ref, s->margin);
    test_engine_close(&e);
}

static void test_forced(void **state)
{
    struct test_engine e;
    const struct setup *s = *state;
    open_setup(&e, s);
    reference_check_forced(&e, &ref, s->margin);
    test_engine_close(&e);
}

static void test_perplexity(void **state)
{
    (void)state;
    struct test_engine e;
    open_setup(&e, &setups[1]);
    double ppl = reference_evaluate(&e, REFERENCE "/texts.json", 0, 1).ppl;
    printf("# perplexity %.6f, reference %.6f\n", ppl, ref.ppl);
    assert_near(ppl, ref.ppl, ref.ppl * 1e-4);
    test_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_perplexity)};
    reference_load(REFERENCE, &ref);
    int failures = test_run_table("logits", test_logits, setups);
    failures += test_run_table("greedy", test_greedy, setups);
    failures += test_run_table("forced", test_forced, setups);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    reference_finish(&ref);
    return failures;
}
