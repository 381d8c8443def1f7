/* Which edited files depend on one another, by their texts: those are tried and answered as one. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tools/watch/watch_text.h"

#define KERNEL(name, more)                                                                         \
    "// A kernel.\n//! NAME " name "\n//! OP norm\n" more "\nvoid body() {}\n"

struct side {
    const char *path;
    const char *good, *now; /* texts; NULL: not there */
};

static const struct related_row {
    const char *name;
    struct side a, b;
    bool related;
} rows[] = {
    {"two kernels", {"a.comp", NULL, KERNEL("a", "")}, {"b.comp", NULL, KERNEL("b", "")}, false},
    {"one NAME", {"a.comp", NULL, KERNEL("a", "")}, {"b.comp", NULL, KERNEL("a", "")}, true},
    {"the NAME that it had",
     {"a.comp", KERNEL("a", ""), NULL},
     {"b.comp", NULL, KERNEL("a", "")},
     true},
    {"a kernel and its lib",
     {"a.comp", NULL, KERNEL("a", "//! LIB tail")},
     {"d/tail.glsl", NULL, "// t\n"},
     true},
    {"a lib of a word",
     {"a.comp", NULL, KERNEL("a", "//! LIB weight_{weight}")},
     {"weight_q4_k.glsl", NULL, "// t\n"},
     true},
    {"another lib",
     {"a.comp", NULL, KERNEL("a", "//! LIB weight_{weight}\n//! LIB tail")},
     {"tails.glsl", NULL, "// t\n"},
     false},
    {"a lib of no word",
     {"a.comp", NULL, KERNEL("a", "//! LIB weight_{weight}")},
     {"weight_.glsl", NULL, "// t\n"},
     false},
    {"a kernel and a lib of one name",
     {"a.comp", NULL, KERNEL("a", "")},
     {"a.glsl", NULL, "// t\n"},
     false},
    {"hints that name the kernel",
     {"kernels.json", NULL, "{\"variants\": {\"norm\": \"a\"}}"},
     {"x.comp", NULL, KERNEL("a", "")},
     true},
    {"hints with a tunable of the kernel",
     {"kernels.json", NULL, "{\"tunes\": {\"my_norm.WG\": 32}}"},
     {"x.comp", NULL, KERNEL("my_norm", "")},
     true},
    {"hints with the letters of the name",
     {"kernels.json", NULL, "{\"variants\": {\"norm\": \"my_norm2\"}, \"attentionDecode\": 1}"},
     {"x.comp", NULL, KERNEL("my_norm", "")},
     false},
    {"hints and a lib",
     {"kernels.json", NULL, "{\"variants\": {\"norm\": \"a\"}}"},
     {"a.glsl", NULL, "// t\n"},
     false},
    {"two files of hints", {"kernels.json", NULL, "{}"}, {"b.json", NULL, "{}"}, false},
    {"junk",
     {"a.comp", NULL,
      "\x7f"
      "ELF"},
     {"b.comp", NULL, "//! NAME"},
     false},
};

static struct watch_file file_of(const struct side *side)
{
    struct watch_file f = {.path = (char *)side->path,
                           .is_hints = strstr(side->path, ".json") != NULL};
    if (side->good)
        assert_true(watch_text_set(&f.good, side->good, strlen(side->good)));
    if (side->now)
        assert_true(watch_text_set(&f.now, side->now, strlen(side->now)));
    return f;
}

static void relation(void **state)
{
    const struct related_row *row = *state;
    struct watch_file a = file_of(&row->a), b = file_of(&row->b);
    assert_int_equal(watch_are_related(&a, &b), row->related);
    assert_int_equal(watch_are_related(&b, &a), row->related);
    watch_text_finish(&a.good);
    watch_text_finish(&a.now);
    watch_text_finish(&b.good);
    watch_text_finish(&b.now);
}

int main(void)
{
    return test_run_table("related", relation, rows);
}
