/* Runs every family and the story models under each limits profile on this machine's device. The
 * kernels of the small GPU must compute the reference's greedy tokens, and the same tokens as
 * without a profile. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/family.h"
#include "tests/support/tiny_engine.h"

enum { STEPS = 12 };
/* Two correct kernels may select different tokens below this margin (tests/support/family.c). */
#define MARGIN 0.001

struct limited {
    const char *name;
    const char *family;           /* NULL for a model that `archive` names */
    const char *archive, *inside; /* in the test data; NULL for the bundled model */
    const char *limits;
};

static const char *const families[] = {
    "llama3",  "llama2-f16", "llama-linear-f32", "mistral",   "qwen2",         "qwen2-yarn",
    "qwen3",   "gemma2",     "gemma3",           "phi3",      "olmo2",         "phi3-longrope",
    "granite", "smollm3",    "mixtral",          "qwen3-moe", "gpt-oss-mxfp4",
};
static const char *const stories[][2] = {{NULL, NULL},
                                         {"models/story-llama.tar.xz", "story-llama"},
                                         {"models/story-moe.tar.xz", "story-moe"},
                                         {"models/story-gemma3.tar.xz", "story-gemma3"}};
static const char *const profiles[] = {"v3d", "mali-g52", "adreno-630", "intel-skl", "min"};
enum {
    NUM_FAMILIES = sizeof(families) / sizeof(families[0]),
    NUM_MODELS = NUM_FAMILIES + sizeof(stories) / sizeof(stories[0]),
    NUM_PROFILES = sizeof(profiles) / sizeof(profiles[0]),
    PARTS = NUM_MODELS, /* one day runs as many cases as profiles */
};

static struct limited rows[NUM_MODELS * NUM_PROFILES];
static char names[NUM_MODELS * NUM_PROFILES][64];

static void check_family(const struct limited *row)
{
    struct reference whole, ref;
    struct test_engine engine;
    const char *dir = family_dir(row->family);
    reference_load(dir, &whole);
    ref = reference_short(&whole);
    test_engine_open(&engine, &(struct test_engine_params){
                                  .path = dir, .kv_type = DGL_KV_F32, .limits = row->limits});
    reference_check_greedy(&engine, &ref, MARGIN);
    test_engine_close(&engine);
    reference_finish(&whole);
}

static void answer(const char *path, const char *limits, int32_t tokens[STEPS])
{
    struct tiny_engine e;
    tiny_engine_open(&e,
                     &(struct tiny_engine_params){.path = path, .context = 64, .limits = limits});
    struct dgl_generate_result r =
        tiny_generate(e.session, dgl_generate_params(.prompt = "Once upon a time, in a land far "
                                                               "away, there was a small village",
                                                     .max_tokens = STEPS, .ignore_eos = true));
    assert_int_equal(r.num_tokens, STEPS);
    memcpy(tokens, r.tokens, STEPS * sizeof(*tokens));
    dgl_generate_result_finish(&r);
    tiny_engine_close(&e);
}

static void limits_give_the_same_tokens(void **state)
{
    const struct limited *row = *state;
    int32_t want[STEPS], got[STEPS];
    if (row->family) {
        check_family(row);
        return;
    }
    const char *dir = row->archive ? test_unpacked(row->archive, row->inside) : BUNDLED_MODEL;
    if (!dir)
        SKIP("%s is not in the test data", row->inside);
    char *path = checked(strdup(dir));
    answer(path, NULL, want);
    answer(path, row->limits, got);
    for (int i = 0; i < STEPS; i++)
        if (got[i] != want[i])
            fail_msg("%s, step %d: token %d, by the device's own limits %d", row->name, i, got[i],
                     want[i]);
    free(path);
}

/* Kernels are chosen for the chip, but timeouts and pacing depend on the device that computes. */
static void test_chip_is_not_the_device(void **state)
{
    struct tiny_engine e;
    (void)state;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .limits = "v3d"});
    const struct plan_device *device = e.model->shard->engine->plan.device;
    assert_false(device->software);
    assert_int_equal(device->on_host, e.device->info.software);
    assert_int_equal(device->compute_units, 2);
    assert_int_equal(device->dispatch_bytes, 48ull << 20);
    for (size_t i = 0; i < e.model->shard->engine->plan.kernels.count; i++) {
        const struct kernel *kernel = e.model->shard->engine->plan.kernels.uses[i]->choice.kernel;
        if (kernel && strstr(kernel->name, "llvmpipe"))
            fail_msg("%s is chosen for a Pi", kernel->name);
    }
    tiny_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chip_is_not_the_device)};
    for (size_t i = 0; i < NUM_MODELS * NUM_PROFILES; i++) {
        struct limited *row = &rows[i];
        const size_t model = i % NUM_MODELS;
        if (model < NUM_FAMILIES) {
            row->family = families[model];
        } else {
            row->archive = stories[model - NUM_FAMILIES][0];
            row->inside = stories[model - NUM_FAMILIES][1];
        }
        row->limits = profiles[i / NUM_MODELS];
        row->name = names[i];
        snprintf(names[i], sizeof(names[i]), "%s under %s",
                 row->family   ? row->family
                 : row->inside ? row->inside
                               : "the bundled model",
                 row->limits);
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    return failures + test_run_table_sample("limits", limits_give_the_same_tokens, rows, PARTS);
}
