/* The test of f16 arithmetic (--compute-precision f16): the perplexity of the story models stays
 * within 0.1%, and their products of many tokens really use kernels of PRECISION f16. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/seq/session.h"
#include "tests/support/checkpoint.h"
#include "tests/support/tiny_engine.h"

#define BUNDLED_TEXTS "tests/models/story-llama-q4_k_m.reference/texts.json"

enum {
    TEXT_BYTES = 1000, /* some 300 tokens: a whole pass and a part of one */
    PASS = 256,        /* tokens of a pass; fewer have kernels of their own */
};
static const double limit_percent = 0.1; /* docs/kernels.md */

static const struct gate_row {
    const char *name;
    const struct checkpoint *checkpoint; /* NULL: the bundled model, q4_k and q6_k */
    const char *quantize;                /* NULL: as stored */
} rows[] = {
    {"bundled model, q4_k_m", NULL, NULL},
    {"llama q8_0", &checkpoint_story_llama, "q8_0"},
    {"llama q5_k_m", &checkpoint_story_llama, "q5_k_m"},
    {"draft f16", &checkpoint_story_draft, "f16"},
    {"gemma3 q4_k_m", &checkpoint_story_gemma3, "q4_k_m"},
    {"moe q4_k_m", &checkpoint_story_moe, "q4_k_m"},
};

/* Returns NULL and sets *why if the bundled model has no operation that can be computed in f16
 * here. */
static struct dgl_kernels *f16_kernels(struct test_log *why)
{
    static const char *const flag = "computePrecision=f16";
    struct dgl_kernels *kernels = NULL;
    struct dgl_device *device = NULL;
    struct dgl_model *model = NULL;
    test_log_init(why, DGL_LOG_ERROR);
    assert_int_equal(
        dgl_kernels_create(NULL, dgl_kernels_params(.flags = &flag, .num_flags = 1), &kernels),
        DGL_OK);
    assert_int_equal(dgl_device_create(&why->log, dgl_device_params(.select = "any"), &device),
                     DGL_OK);
    const enum dgl_status status =
        dgl_model_load(device, dgl_model_params(.path = BUNDLED_MODEL, .kernels = kernels), &model);
    if (status != DGL_OK) {
        assert_int_equal(status, DGL_ERR_UNSUPPORTED);
        assert_contains(why->text, flag);
        dgl_kernels_destroy(&kernels);
    }
    dgl_model_destroy(&model);
    dgl_device_destroy(&device);
    return kernels;
}

/* The first texts of a JSON array as one; free(). */
static char *join_texts(const char *path)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf out = {0};
    assert_int_equal(dgl_json_load(NULL, path, 1 << 24, &doc), DGL_OK);
    for (const struct dgl_json *v = dgl_json_first(dgl_json_root(doc)); v && out.len < TEXT_BYTES;
         v = dgl_json_next(v))
        dgl_buf_puts(&out, dgl_json_str(v).p);
    assert_true(out.len >= TEXT_BYTES && !out.failed);
    dgl_json_destroy(&doc);
    return out.p;
}

/* Counts the products of a whole pass, and those whose kernel is PRECISION f16 and compiled. Only
 * kernels that run are compiled. */
static void count_products(const struct test_engine *e, int *all, int *f16)
{
    const struct engine *engine = e->model->shard->engine;
    const struct body *body = plan_body(&engine->plan, PASS_PREFILL);
    *all = *f16 = 0;
    for (size_t i = 0; i < body->ops.count; i++) {
        const struct kernel_use *use = body->use[i];
        if (strcmp(use->request.op, "matmul") != 0)
            continue;
        ++*all;
        *f16 += use->choice.kernel->f16 && programs_has(&engine->programs, use);
    }
}

static double perplexity(const struct gate_row *row, const struct dgl_kernels *kernels,
                         const char *text, uint64_t *tokens, int *all, int *f16)
{
    struct checkpoint_run run = {.checkpoint = row->checkpoint,
                                 .quantize = row->quantize,
                                 .chunk = PASS,
                                 .kernels = kernels};
    struct dgl_perplexity_result result = {.size = sizeof(result)};
    if (row->checkpoint)
        checkpoint_open(&run);
    else
        test_engine_open(
            &run.engine,
            &(struct test_engine_params){.path = BUNDLED_MODEL, .chunk = PASS, .kernels = kernels});
    assert_int_equal(
        dgl_perplexity(run.engine.session,
                       dgl_perplexity_params(.texts = &text, .num_texts = 1, .windows = true),
                       &result),
        DGL_OK);
    count_products(&run.engine, all, f16);
    *tokens = result.tokens;
    if (row->checkpoint)
        checkpoint_close(&run);
    else
        test_engine_close(&run.engine);
    return result.ppl;
}

static void keeps_its_perplexity(void **state)
{
    const struct gate_row *row = *state;
    struct test_log why;
    uint64_t tokens, again;
    int all, f16;
    const char *path = row->checkpoint ? test_data(row->checkpoint->texts) : BUNDLED_TEXTS;
    if (!path)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", row->checkpoint->texts);
    char *text = join_texts(path);
    struct dgl_kernels *kernels = f16_kernels(&why);
    if (!kernels) {
        free(text);
        SKIP("no arithmetic in f16 here: %s", why.text);
    }
    const double plain = perplexity(row, NULL, text, &tokens, &all, &f16);
    assert_int_equal(f16, 0);
    const double half = perplexity(row, kernels, text, &again, &all, &f16);
    const double percent = 100 * (half - plain) / plain;
    printf("# %s: perplexity of %llu tokens %.6f in f32, %.6f with f16 in %d of %d products "
           "(%+.4f%%)\n",
           row->name, (unsigned long long)tokens, plain, half, f16, all, percent);
    assert_int_equal(tokens, again);
    assert_true(tokens > PASS);
    assert_true(f16 > 0);
    if (!(fabs(percent) <= limit_percent))
        fail_msg("the perplexity changes by %+.4f%%, allowed are %g%%", percent, limit_percent);
    dgl_kernels_destroy(&kernels);
    free(text);
}

/* Sessions evaluated in f16 are not continued in f32, and vice versa. */
static void test_session_files(void **state)
{
    int32_t ids[PASS];
    struct test_log why;
    struct tiny_engine e[2];
    struct dgl_kernels *kernels[2] = {NULL, f16_kernels(&why)};
    char *dir, *path[2];
    (void)state;
    if (!kernels[1])
        SKIP("no arithmetic in f16 here: %s", why.text);
    dir = test_tmpdir();
    tiny_ids(ids, PASS, 4096, 1);
    for (int f16 = 0; f16 <= 1; f16++) {
        tiny_engine_open(&e[f16], &(struct tiny_engine_params){.path = BUNDLED_MODEL,
                                                               .chunk = PASS,
                                                               .kernels = kernels[f16]});
        path[f16] = dgl_path_join(dir, f16 ? "f16" : "f32");
        tiny_sync(e[f16].session, ids, PASS);
        assert_int_equal(
            dgl_session_save(e[f16].session, dgl_session_save_params(.path = path[f16])), DGL_OK);
    }
    for (int i = 0; i < 4; i++) {
        const int f16 = i / 2, of = i % 2;
        const enum dgl_status status =
            dgl_session_load(e[f16].session, dgl_session_load_params(.path = path[of]), NULL, NULL);
        assert_int_equal(status, f16 == of ? DGL_OK : DGL_ERR_INVALID_ARG);
        if (f16 != of)
            assert_contains(e[f16].log.text, of ? "was computed with arithmetic in f16"
                                                : "was computed with arithmetic in f32");
    }
    for (int f16 = 0; f16 <= 1; f16++) {
        tiny_engine_close(&e[f16]);
        free(path[f16]);
        dgl_kernels_destroy(&kernels[f16]);
    }
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest sessions[] = {cmocka_unit_test(test_session_files)};

    int failures = test_run_table_sample("precision", keeps_its_perplexity, rows, 3);
    failures += cmocka_run_group_tests_name("session files", sessions, NULL, NULL);
    return failures;
}
