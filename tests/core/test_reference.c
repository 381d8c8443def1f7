/* The trained checkpoints compared with their float64 references: logits and greedy tokens of
 * unquantised weights, per weight format and KV type. Needs the test data. */
#include "tests/support/test.h"

#include "tests/support/checkpoint.h"

struct row {
    const char *name;
    const struct checkpoint *checkpoint;
    const char *quantize; /* NULL = as stored */
    enum dgl_kv_type kv;
};

/* Only the rounding of the cache may cause a difference. */
static void agrees_with_float64(void **state)
{
    const struct row *row = *state;
    struct checkpoint_run run = {
        .checkpoint = row->checkpoint, .quantize = row->quantize, .kv_type = row->kv};
    double margin = row->kv == DGL_KV_F32 ? 0.001 : 0.02;
    checkpoint_open(&run);
    assert_at_most(reference_logits_nmse(&run.engine, &run.ref),
                   row->kv == DGL_KV_F32 ? 1e-9 : 2e-7);
    reference_check_greedy(&run.engine, &run.ref, margin);
    reference_check_forced(&run.engine, &run.ref, margin);
    checkpoint_close(&run);
}

static const struct row stored_rows[] = {
    {"draft stored, f32 KV", &checkpoint_story_draft, NULL, DGL_KV_F32},
    {"draft stored, f16 KV", &checkpoint_story_draft, NULL, DGL_KV_F16},
};

static const struct row rows[] = {
    {"llama stored, f32 KV", &checkpoint_story_llama, NULL, DGL_KV_F32},
    {"llama stored, f16 KV", &checkpoint_story_llama, NULL, DGL_KV_F16},
    {"llama f32, f32 KV", &checkpoint_story_llama, "f32", DGL_KV_F32},
    {"llama f32, f16 KV", &checkpoint_story_llama, "f32", DGL_KV_F16},
    {"llama bf16, f32 KV", &checkpoint_story_llama, "bf16", DGL_KV_F32},
    {"llama f16, f16 KV", &checkpoint_story_llama, "f16", DGL_KV_F16},
    {"draft f16, f32 KV", &checkpoint_story_draft, "f16", DGL_KV_F32},
};

int main(void)
{
    int failures = test_run_table("stored", agrees_with_float64, stored_rows);
    return failures + test_run_table_sample("reference", agrees_with_float64, rows, 7);
}
