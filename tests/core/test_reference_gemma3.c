/* The trained Gemma 3 checkpoint (local and global layers, sandwich norms, q/k norms, 1 + w gains)
 * against its float64 reference: logits and greedy tokens. Needs the test data. */
#include "tests/support/test.h"

#include "tests/support/checkpoint.h"

static void check_exact(enum dgl_kv_type kv)
{
    struct checkpoint_run run = {.checkpoint = &checkpoint_story_gemma3, .kv_type = kv};
    double margin = kv == DGL_KV_F32 ? 0.001 : 0.02;
    checkpoint_open(&run);
    double nmse = reference_logits_nmse(&run.engine, &run.ref);
    printf("# NMSE of the logits %.3g\n", nmse);
    assert_at_most(nmse, kv == DGL_KV_F32 ? 1e-9 : 5e-7);
    reference_check_greedy(&run.engine, &run.ref, margin);
    reference_check_forced(&run.engine, &run.ref, margin);
    checkpoint_close(&run);
}

struct row {
    const char *name;
    enum dgl_kv_type kv;
};

static const struct row rows[] = {{"stored, f32 KV", DGL_KV_F32}, {"stored, f16 KV", DGL_KV_F16}};

static void matches_its_reference(void **state)
{
    const struct row *row = *state;
    check_exact(row->kv);
}

int main(void)
{
    return test_run_table_sample("reference", matches_its_reference, rows, 2);
}
