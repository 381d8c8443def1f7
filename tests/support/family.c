/* One family's checkpoint through the engine. */
#include "tests/support/family.h"

#include "tests/support/test.h"

#define MARGIN 0.001

const char *family_dir(const char *family)
{
    char inside[64];
    snprintf(inside, sizeof(inside), "visible/%s", family);
    const char *dir = test_unpacked("fixtures/visible.tar.xz", inside);
    if (!dir)
        SKIP("%s is not in the test data", inside);
    return dir;
}

/* Rounding in the cache may change a close choice. The resulting error of the logits is known. */
static void check(const struct family_case *c, const char *hints, size_t prompts)
{
    struct reference whole, ref;
    struct test_engine engine;
    const char *dir = family_dir(c->family);
    struct dgl_kernels *kernels = NULL;
    if (hints)
        assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = hints), &kernels),
                         DGL_OK);
    reference_load(dir, &whole);
    ref = reference_short(&whole);
    ref.count = ref.count < prompts ? ref.count : prompts;
    test_engine_open(&engine, &(struct test_engine_params){.path = dir,
                                                           .kv_type = c->kv_type,
                                                           .chunk = c->chunk,
                                                           .limits = c->limits,
                                                           .kernels = kernels});
    bool exact = c->kv_type == DGL_KV_F32;
    reference_check_logits(&engine, &ref, c->name, exact ? 1e-9 : 5e-6);
    if (exact && prompts > 1) { /* the first prompt has no hidden states */
        double nmse = reference_hidden_nmse(&engine, &ref);
        printf("# %s: NMSE of the hidden states %.3g\n", c->name, nmse);
        assert_at_most(nmse, 1e-9);
    }
    if (exact) {
        reference_check_greedy(&engine, &ref, MARGIN);
        reference_check_forced(&engine, &ref, MARGIN);
    }
    struct dgl_smoke_result smoke = {.size = sizeof(smoke)};
    assert_int_equal(dgl_verify_smoke(engine.session, NULL, &smoke), DGL_OK);
    if (!smoke.passed)
        fail_msg("%s: the smoke test fails: %s", c->name, smoke.fault);
    printf("# %s: smoke test, NMSE of a block %.3g\n", c->name, smoke.error);
    test_engine_close(&engine);
    dgl_kernels_destroy(&kernels);
    reference_finish(&whole);
}

void family_check(const struct family_case *c)
{
    check(c, NULL, SIZE_MAX);
}

void family_check_hinted(const struct family_case *c, const char *hints)
{
    check(c, hints, SIZE_MAX);
}

void family_check_first(const struct family_case *c)
{
    check(c, NULL, 1);
}

void family_matches_its_reference(void **state)
{
    family_check(*state);
}
