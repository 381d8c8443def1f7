/* With every --kernel-profile the story models give the same greedy answer as without one, although
 * kernels and unpacked types of weights differ. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/tiny_engine.h"

enum { STEPS = 16 };

struct profiled {
    const char *name;
    const char *archive, *inside; /* of the test data; NULL: the bundled model */
    const char *profile;
};

static const char *const profiles[] = {"fast", "safe", "debug", "fused", "apple"};
static const char *const models[][2] = {{NULL, NULL},
                                        {"models/story-llama.tar.xz", "story-llama"},
                                        {"models/story-moe.tar.xz", "story-moe"},
                                        {"models/story-gemma3.tar.xz", "story-gemma3"}};
#define NUM_PROFILES 5
#define NUM_MODELS   4

static struct profiled rows[NUM_PROFILES * NUM_MODELS];
static char names[NUM_PROFILES * NUM_MODELS][64];

static void answer(const char *path, const char *profile, int32_t tokens[STEPS])
{
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.profile = profile), &kernels),
                     DGL_OK);
    tiny_engine_open(&e,
                     &(struct tiny_engine_params){.path = path, .context = 64, .kernels = kernels});
    struct dgl_generate_result r =
        tiny_generate(e.session, dgl_generate_params(.prompt = "Once upon a time",
                                                     .max_tokens = STEPS, .ignore_eos = true));
    assert_int_equal(r.num_tokens, STEPS);
    memcpy(tokens, r.tokens, STEPS * sizeof(*tokens));
    dgl_generate_result_finish(&r);
    tiny_engine_close(&e);
    dgl_kernels_destroy(&kernels);
}

static void profile_gives_the_same_tokens(void **state)
{
    const struct profiled *row = *state;
    int32_t want[STEPS], got[STEPS];
    const char *dir = row->archive ? test_unpacked(row->archive, row->inside) : BUNDLED_MODEL;
    if (!dir)
        SKIP("%s is not in the test data", row->inside);
    char *path = checked(strdup(dir));
    answer(path, NULL, want);
    answer(path, row->profile, got);
    for (int i = 0; i < STEPS; i++)
        if (got[i] != want[i])
            fail_msg("%s, step %d: token %d, without a profile %d", row->name, i, got[i], want[i]);
    free(path);
}

int main(void)
{
    for (size_t i = 0; i < NUM_PROFILES * NUM_MODELS; i++) {
        struct profiled *row = &rows[i];
        row->archive = models[i / NUM_PROFILES][0];
        row->inside = models[i / NUM_PROFILES][1];
        row->profile = profiles[i % NUM_PROFILES];
        row->name = names[i];
        snprintf(names[i], sizeof(names[i]), "%s of %s", row->profile,
                 row->inside ? row->inside : "the bundled model");
    }
    return test_run_table_sample("profiles", profile_gives_the_same_tokens, rows, 5);
}
