/* The trained mixture of experts against its float64 reference: greedy tokens with either type of
 * KV cache. Needs the test data. */
#include "tests/support/test.h"

#include "tests/support/checkpoint.h"

/* A rounded cache may turn a close choice, of a token or of an expert. */
static void check_greedy(enum dgl_kv_type kv)
{
    struct checkpoint_run run = {.checkpoint = &checkpoint_story_moe, .kv_type = kv};
    double margin = kv == DGL_KV_F32 ? 0.001 : 0.02;
    checkpoint_open(&run);
    if (kv == DGL_KV_F32)
        assert_at_most(reference_logits_nmse(&run.engine, &run.ref), 1e-9);
    reference_check_greedy(&run.engine, &run.ref, margin);
    checkpoint_close(&run);
}

static void greedy_with_f32_kv(void **state)
{
    (void)state;
    check_greedy(DGL_KV_F32);
}

static void greedy_with_f16_kv(void **state)
{
    (void)state;
    check_greedy(DGL_KV_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_with_f32_kv),
        cmocka_unit_test(greedy_with_f16_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
