/* Every family in every file type of llama-quantize: the logits of a file with random blocks are
 * those of its dequantised weights. docs/models.md has the table of these cases. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/convert/convert.h"
#include "tests/support/process.h"
#include "tests/support/tiny_engine.h"

/* Rounding of f32 sums. */
#define MAX_NMSE 1e-9

struct family {
    const char *name;  /* of the row in docs/models.md */
    const char *shape; /* of tools/dev/random_gguf.py */
    const char *more;  /* changes to the shape, as Python arguments */
};

static const struct family families[] = {
    {"llama", "llama-3.2-1b", ""},
    {"llama, rows of 288", "llama-3.2-1b", "hidden=288, ffn=288"},
    {"mistral", "mistral-7b", "window=4"},
    {"qwen2", "qwen2.5-0.5b", ""},
    {"qwen3", "qwen3-0.6b", ""},
    {"gemma2", "gemma-2-9b", "window=4"},
    {"gemma3", "gemma-3-1b", "window=4"},
    {"phi3", "phi-3.5-mini", ""},
    {"olmo2", "olmo-2-1b", ""},
    {"smollm3", "smollm3-3b", ""},
    {"granite", "granite-3.1-2b", ""},
    {"mixtral", "mixtral-8x7b", ""},
    {"qwen3_moe", "qwen3-30b-a3b", "experts=4, used=2, expert_ffn=256"},
    {"gpt_oss", "gpt-oss-20b", "experts=4, used=2, expert_ffn=256, window=4"},
};
#define NUM_FAMILIES (sizeof(families) / sizeof(families[0]))

/* The common ones first. */
static const char *const types[] = {"Q4_K_M",  "Q8_0",   "Q4_0",  "Q5_K_M", "F16",
                                    "IQ4_XS",  "Q3_K_M", "Q2_K",  "Q5_0",   "IQ3_S",
                                    "IQ3_XXS", "TQ1_0",  "TQ2_0", "Q2_0"};
#define NUM_TYPES (sizeof(types) / sizeof(types[0]))

struct row {
    const char *name; /* FAMILY: TYPE, as tools/dev/types_table.py reads it */
    const struct family *family;
    const char *type;
};

static struct row rows[NUM_FAMILIES * NUM_TYPES];
static char names[NUM_FAMILIES * NUM_TYPES][64];

static float *logits_of(const char *path, size_t *count)
{
    static const int32_t ids[] = {1, 17, 42, 300, 7, 99, 5, 200};
    struct tiny_engine e;
    float *logits = NULL;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = path, .kv_type = DGL_KV_F32});
    assert_int_equal(dgl_logits(e.session, dgl_logits_params(.ids = ids, .num_ids = 8, .all = true),
                                &logits, count),
                     DGL_OK);
    tiny_engine_close(&e);
    return logits;
}

static void logits_are_those_of_the_dequantised_weights(void **state)
{
    const struct row *row = *state;
    struct process_result r;
    struct dgl_convert_result converted = {.size = sizeof(converted)};
    char code[512], *dir = test_tmpdir();
    char *typed = dgl_path_join(dir, "typed.gguf"), *plain = dgl_path_join(dir, "plain");
    size_t count = 0, other = 0;
    snprintf(code, sizeof(code),
             "import sys; sys.path.insert(0, 'tools/dev'); import random_gguf as g; "
             "g.write(sys.argv[1], {**g.SHAPES['%s'], **dict(layers=2, vocab=320, hidden=256, "
             "ffn=256, heads=4, kv=2, dim=64), **dict(%s)}, '%s')",
             row->family->shape, row->family->more, row->type);
    process_run(
        &(struct process_params){.program = "/usr/bin/env",
                                 .args = (const char *const[]){"python3", "-c", code, typed, NULL}},
        &r);
    assert_code(&r, 0);
    process_finish(&r);
    struct dgl_convert_params params = {
        .in = typed, .out = plain, .to = "rdrr", .quantize = "f32", .threads = 1};
    assert_int_equal(convert_model(NULL, &params, &converted), DGL_OK);
    float *got = logits_of(typed, &count), *want = logits_of(plain, &other);
    assert_int_equal(count, other);
    assert_at_most(tiny_nmse(got, want, count * 320), MAX_NMSE);
    dgl_free(got);
    dgl_free(want);
    free(typed);
    free(plain);
    test_tmpdir_remove(dir);
}

/* The table is made from the output of this program, so it must list these cases and no others. */
static void the_documentation_lists_these_cases(void **state)
{
    char *page = NULL, line[512];
    size_t len;
    (void)state;
    assert_int_equal(dgl_file_slurp(NULL, "docs/models.md", 1 << 20, &page, &len), DGL_OK);
    char *begin = strstr(page, "<!-- types: made by tools/dev/types_table.py, not by hand -->\n");
    char *end = strstr(page, "<!-- /types -->");
    assert_non_null(begin);
    assert_non_null(end);
    *end = 0;
    size_t at = (size_t)snprintf(line, sizeof(line), "| family |");
    for (size_t t = 0; t < NUM_TYPES; t++)
        at += (size_t)snprintf(line + at, sizeof(line) - at, " %s |", types[t]);
    assert_contains(begin, line);
    for (size_t f = 0; f < NUM_FAMILIES; f++) {
        at = (size_t)snprintf(line, sizeof(line), "\n| %s |", families[f].name);
        for (size_t t = 0; t < NUM_TYPES; t++)
            at += (size_t)snprintf(line + at, sizeof(line) - at, " yes |");
        assert_contains(begin, line);
    }
    assert_int_equal(test_occurrences(begin, " yes |"), NUM_FAMILIES * NUM_TYPES);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_documentation_lists_these_cases)};
    struct process_result r;
    process_run(&(struct process_params){.program = "/usr/bin/env",
                                         .args = (const char *const[]){"python3", "-c", "", NULL}},
                &r);
    const bool has_python = r.code == 0;
    process_finish(&r);
    if (!has_python) {
        printf("1..0 # SKIP no python3 here\n");
        return 0;
    }
    for (size_t i = 0; i < NUM_FAMILIES * NUM_TYPES; i++) {
        rows[i] = (struct row){names[i], &families[i % NUM_FAMILIES], types[i / NUM_FAMILIES]};
        snprintf(names[i], sizeof(names[i]), "%s: %s", rows[i].family->name, rows[i].type);
    }
    int failures =
        test_run_table_sample("types", logits_are_those_of_the_dequantised_weights, rows, 14);
    return failures + cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
