/* Tests of the nearest spelling: which typing errors are recognised, and which words have no
 * suggestion. */
#include "tests/support/test.h"

#include "core/base/nearest.h"

struct row {
    const char *word, *want; /* NULL if no word is near */
};

static const char *const known[] = {"generate",  "chat",      "tokenize", "temp", "top-k",
                                    "n-predict", "q4kMatmul", "bench",    "m"};

static const struct row rows[] = {
    {"generat", "generate"},
    {"gneerate", "generate"},
    {"gemerate", "generate"},
    {"generrate", "generate"},
    {"Generate", "generate"},
    {"gnreate", "generate"},
    {"chta", "chat"},
    {"tem", "temp"},
    {"tempp", "temp"},
    {"top_k", "top-k"},
    {"topk", "top-k"},
    {"n-perdict", "n-predict"},
    {"q4kmatmul", "q4kMatmul"},
    {"tok", "tokenize"},
    {"benhc", "bench"},
    {"frobnicate", NULL},
    {"xy", NULL},
    {"m", "m"},
    {"k", NULL},
    {"", NULL},
    {"gnrtae", NULL},
};

static void nearest_case(void **state)
{
    const struct row *row = *state;
    struct dgl_nearest nearest = {.word = dgl_str_of(row->word)};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        dgl_nearest_try(&nearest, known[i]);
    assert_string_equal(nearest.best ? nearest.best : "(none)", row->want ? row->want : "(none)");
}

/* Words from users and files may have any length. */
static void long_words_are_left_alone(void **state)
{
    char word[4096];
    (void)state;
    memset(word, 'a', sizeof(word));
    struct dgl_nearest nearest = {.word = {word, sizeof(word)}};
    dgl_nearest_try(&nearest, "aaaa");
    assert_null(nearest.best);
    nearest.word.len = 64;
    dgl_nearest_try(&nearest, "aaaa");
    assert_null(nearest.best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_words_are_left_alone)};
    int failures = test_run_table("nearest", nearest_case, rows);
    return failures + cmocka_run_group_tests_name("nearest, long words", tests, NULL, NULL);
}
