/* One family's checkpoint through the engine. */
#include "tests/support/family.h"
#include "tests/support/test.h"

#define ARCHIVE "fixtures/visible.tar.xz"
#define MARGIN  0.001

/* Rounding the cache may turn a close choice; what that costs the logits is known. */
void family_matches_its_reference(void **state)
{
    const struct family_case *row = *state;
    struct reference ref;
    struct test_engine engine;
    char inside[64];
    snprintf(inside, sizeof(inside), "visible/%s", row->family);
    const char *dir = test_unpacked(ARCHIVE, inside);
    if (!dir)
        SKIP("%s: no %s", row->name, ARCHIVE);
    reference_load(dir, &ref);
    test_engine_open(&engine, &(struct test_engine_params){.path = dir,
                                                           .kv_type = row->kv_type,
                                                           .limits_min = row->limits_min});
    bool exact = row->kv_type == DGL_KV_F32;
    double nmse = reference_logits_nmse(&engine, &ref);
    printf("# %s: NMSE of the logits %.3g\n", row->name, nmse);
    assert_at_most(nmse, exact ? 1e-9 : 5e-6);
    if (exact) {
        reference_check_greedy(&engine, &ref, MARGIN);
        reference_check_forced(&engine, &ref, MARGIN);
    }
    test_engine_close(&engine);
    reference_finish(&ref);
}
