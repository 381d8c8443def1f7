/* The trained checkpoints against their float64 references: logits and greedy tokens of unquantised
 * weights, per weight format and KV type. Needs the test data. */
#include "tests/support/test.h"

#include "tests/support/checkpoint.h"

/* What rounding the cache costs is all that may differ. */
static void check_exact(const struct checkpoint *c, const char *quantize, enum dgl_kv_type kv)
{
    struct checkpoint_run run = {.checkpoint = c, .quantize = quantize, .kv_type = kv};
    double margin = kv == DGL_KV_F32 ? 0.001 : 0.02;
    checkpoint_open(&run);
    assert_at_most(reference_logits_nmse(&run.engine, &run.ref), kv == DGL_KV_F32 ? 1e-9 : 2e-7);
    reference_check_greedy(&run.engine, &run.ref, margin);
    reference_check_forced(&run.engine, &run.ref, margin);
    checkpoint_close(&run);
}

#define CASE(name, checkpoint, quantize, kv)                                                       \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_exact(&(checkpoint), quantize, kv);                                                  \
    }

CASE(llama_stored_f32_kv, checkpoint_story_llama, NULL, DGL_KV_F32)
CASE(llama_stored_f16_kv, checkpoint_story_llama, NULL, DGL_KV_F16)
CASE(llama_f32_f32_kv, checkpoint_story_llama, "f32", DGL_KV_F32)
CASE(llama_f32_f16_kv, checkpoint_story_llama, "f32", DGL_KV_F16)
CASE(llama_bf16_f32_kv, checkpoint_story_llama, "bf16", DGL_KV_F32)
CASE(llama_f16_f16_kv, checkpoint_story_llama, "f16", DGL_KV_F16)
CASE(draft_stored_f32_kv, checkpoint_story_draft, NULL, DGL_KV_F32)
CASE(draft_stored_f16_kv, checkpoint_story_draft, NULL, DGL_KV_F16)
CASE(draft_f16_f32_kv, checkpoint_story_draft, "f16", DGL_KV_F32)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_stored_f32_kv), cmocka_unit_test(llama_stored_f16_kv),
        cmocka_unit_test(llama_f32_f32_kv),    cmocka_unit_test(llama_f32_f16_kv),
        cmocka_unit_test(llama_bf16_f32_kv),   cmocka_unit_test(llama_f16_f16_kv),
        cmocka_unit_test(draft_stored_f32_kv), cmocka_unit_test(draft_stored_f16_kv),
        cmocka_unit_test(draft_f16_f32_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
