/* Which of the models that can be read can be computed. */
#include "tests/support/test.h"

#include "core/plan/model_support.h"

struct head {
    const char *name;
    int32_t head_dim, rotated, rotated_local;
    const char *parts[3]; /* parts of the message; empty: the model is computed */
};

static const struct head heads[] = {
    {"smallest", 4, 4, 0, {NULL}},
    {"no multiple of 8", 20, 20, 0, {NULL}},
    {"partly rotated", 80, 20, 0, {NULL}},
    {"largest", 512, 512, 512, {NULL}},
    {"2 mod 4", 22, 22, 0, {"head_dim is 22", "multiples of 4 up to 512"}},
    {"too large", 516, 516, 0, {"head_dim is 516", "multiples of 4 up to 512"}},
    {"rotated 2 mod 4", 24, 18, 0, {NULL}},
    {"rotated 2 mod 4 in both sets", 24, 18, 18, {NULL}},
    {"an odd number", 24, 17, 0, {"rotates 17 (local: 0) of the 24", "an odd number"}},
    {"rotated 2 mod 4 in the local set alone", 24, 24, 18, {"rotates 24 (local: 18)", "differ"}},
};

static void head_is_computed_or_refused(void **state)
{
    const struct head *row = *state;
    struct test_log log;
    struct model_desc desc = {.family = "phi3", .head_dim = row->head_dim};
    desc.rope[ROPE_GLOBAL].scale = 1.0;
    desc.rope[ROPE_GLOBAL].dims = row->rotated;
    desc.rope[ROPE_LOCAL].dims = row->rotated_local;
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status = model_check_supported(&log.log, "some/model", &desc);
    assert_int_equal(status, row->parts[0] ? DGL_ERR_UNSUPPORTED : DGL_OK);
    for (size_t i = 0; i < 3 && row->parts[i]; i++)
        assert_contains(log.text, row->parts[i]);
    if (row->parts[0])
        assert_contains(log.text, "some/model");
}

/* Permuted rows require permuted vectors, which are not supported. */
static void two_mod_four_with_vectors_is_refused(void **state)
{
    struct layer_desc layer = {
        .q_norm = TENSOR_NONE, .q_bias = TENSOR_NONE, .k_bias = TENSOR_NONE, .router = TENSOR_NONE};
    struct model_desc desc = {.family = "phi3", .head_dim = 24, .layers = 1, .layer = &layer};
    struct test_log log;
    (void)state;
    desc.rope[ROPE_GLOBAL] = (struct rope_desc){.dims = 18, .scale = 1.0};
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(model_check_supported(&log.log, "some/model", &desc), DGL_OK);
    layer.k_bias = 0;
    assert_int_equal(model_check_supported(&log.log, "some/model", &desc), DGL_ERR_UNSUPPORTED);
    assert_contains(log.text, "q and k have norms or biases");
    layer.k_bias = TENSOR_NONE;
    desc.rope[ROPE_GLOBAL].scale = 0.0;
    test_log_clear(&log);
    assert_int_equal(model_check_supported(&log.log, "some/model", &desc), DGL_ERR_UNSUPPORTED);
    assert_contains(log.text, "the attention factor is 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_mod_four_with_vectors_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL) +
           test_run_table("heads", head_is_computed_or_refused, heads);
}
