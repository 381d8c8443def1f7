/* Every family with an f32 cache, on the device as it is and on the minimal one: logits to 1e-9,
 * greedy tokens. tests/drivers.sh runs it on every driver of the machine. */
#include "tests/support/test.h"

#include "tests/support/family.h"

#define EXACT(family)                                                                              \
    {                                                                                              \
        family, family, DGL_KV_F32, NULL, 0                                                        \
    }
#define MINIMAL(family)                                                                            \
    {                                                                                              \
        family " on the minimal device", family, DGL_KV_F32, "min", 0                              \
    }
#define BOTH(family) EXACT(family), MINIMAL(family)

static const struct family_case rows[] = {
    BOTH("llama3"),    BOTH("llama2-f16"),    BOTH("llama-linear-f32"),
    BOTH("mistral"),   BOTH("qwen2"),         BOTH("qwen2-yarn"),
    BOTH("qwen3"),     BOTH("gemma2"),        BOTH("gemma3"),
    BOTH("phi3"),      BOTH("phi3-longrope"), BOTH("olmo2"),
    BOTH("smollm3"),   BOTH("granite"),       BOTH("mixtral"),
    BOTH("qwen3-moe"), BOTH("gpt-oss-mxfp4"),
};

enum { FAMILIES = sizeof(rows) / sizeof(rows[0]) / 2 };

static void first_prompt_matches(void **state)
{
    family_check_first(*state);
}

/* For drivers that interpret shaders, where the time limit may end a run: first runs each family on
 * the device as it is or on the minimal one, in an order that changes from day to day. */
static int check_each_family(void)
{
    struct family_case each[FAMILIES];
    uint64_t seed = 0;
    if (reference_steps() == 0)
        return 0;
    test_is_sample(&seed);
    for (size_t i = 0; i < FAMILIES; i++)
        each[i] = rows[2 * i + (i + seed) % 2];
    return test_run_table("each family", first_prompt_matches, each);
}

/* Operations that join the residual stream in the next product, token by token. Software renderers
 * use this only if a hint requests it. */
static const struct family_case joining[] = {
    {"gemma2", "gemma2", DGL_KV_F32, NULL, 1},
    {"gemma3", "gemma3", DGL_KV_F32, NULL, 1},
    {"olmo2", "olmo2", DGL_KV_F32, NULL, 1},
};

static void joining_family_matches(void **state)
{
    family_check_hinted(*state, "{\"variants\":{\"matmul/join\":\"matmul_join\","
                                "\"matmul/join_norm\":\"matmul_join\"}}");
}

/* The hidden states equal the reference's, and a difference is found at the layer where it begins.
 */
static void differences_have_a_layer(void **state)
{
    struct reference ref;
    struct test_engine engine;
    (void)state;
    const char *dir = family_dir("gemma2");
    reference_load(dir, &ref);
    test_engine_open(&engine,
                     &(struct test_engine_params){.path = dir, .kv_type = DGL_KV_F32, .chunk = 7});
    struct reference_prompt *p = &ref.prompt[1];
    assert_int_equal(p->num_hidden, 4);
    assert_int_equal(reference_first_difference(&engine, &ref, 1e-9), -1);
    for (int i = 3; i >= 0; i--) {
        p->hidden[i][3] += 1.0f;
        assert_int_equal(reference_first_difference(&engine, &ref, 1e-9), i);
    }
    test_engine_close(&engine);
    reference_finish(&ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(differences_have_a_layer)};
    int failures = check_each_family();
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("joining", joining_family_matches, joining);
    return failures + test_run_table_sample("families", family_matches_its_reference, rows, 4);
}
