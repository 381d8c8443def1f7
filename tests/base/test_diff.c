/* Tests of unified diffs: exact output for small texts; for large ones, applying the diff to one
 * text yields the other. */
#include "core/base/diff.h"
#include "tests/support/test.h"

struct diff_case {
    const char *name;
    const char *before, *after;
    const char *diff; /* without the two lines of names */
};

static const struct diff_case cases[] = {
    {"equal", "a\nb\n", "a\nb\n", ""},
    {"both empty", "", "", ""},
    {"a line changed", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
    {"from nothing", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
    {"to nothing", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
    {"a line in front", "b\n", "a\nb\n", "@@ -1 +1,2 @@\n+a\n b\n"},
    {"a line at the end", "a\n", "a\nb\n", "@@ -1 +1,2 @@\n a\n+b\n"},
    {"without a last newline", "a\nb", "a\nb\n",
     "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
    {"three lines of context", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
     "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
    {"six equal lines join", "a\n1\n2\n3\n4\n5\n6\nb\n", "x\n1\n2\n3\n4\n5\n6\ny\n",
     "@@ -1,8 +1,8 @@\n-a\n+x\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+y\n"},
    {"seven part", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "x\n1\n2\n3\n4\n5\n6\n7\ny\n",
     "@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+y\n"},
    {"moved", "a\nb\nc\n", "b\nc\na\n", "@@ -1,3 +1,3 @@\n-a\n b\n c\n+a\n"},
};

static void diff_case(void **state)
{
    const struct diff_case *c = *state;
    struct dgl_buf out = {0}, want = {0};
    dgl_diff_unified(&out, "old", dgl_str_of(c->before), "new", dgl_str_of(c->after));
    if (c->diff[0])
        dgl_buf_printf(&want, "--- old\n+++ new\n%s", c->diff);
    assert_false(out.failed);
    assert_string_equal(out.p ? out.p : "", want.p ? want.p : "");
    dgl_buf_finish(&out);
    dgl_buf_finish(&want);
}

/* Applies the diff as `patch` does. Its old lines must match `before` at their positions, and the
 * result must equal `after`. */
static void check_leads(struct dgl_str before, struct dgl_str after, struct dgl_str diff,
                        size_t most)
{
    struct dgl_str line, rest = before, part;
    struct dgl_buf result = {0};
    size_t at = 1, edits = 0;
    dgl_str_split(&diff, '\n', &line);
    dgl_str_split(&diff, '\n', &line);
    while (diff.len && dgl_str_split(&diff, '\n', &line)) {
        if (dgl_str_starts(line, "@@")) {
            unsigned first = 0, count = 1;
            assert_true(sscanf(line.p, "@@ -%u,%u", &first, &count) >= 1);
            for (first += count == 0; at < first; at++) {
                assert_true(dgl_str_split(&rest, '\n', &part));
                dgl_buf_printf(&result, "%.*s\n", (int)part.len, part.p);
            }
            continue;
        }
        if (line.p[0] != '+') {
            assert_true(dgl_str_split(&rest, '\n', &part));
            assert_int_equal(part.len, line.len - 1);
            assert_memory_equal(part.p, line.p + 1, part.len);
            at++;
        }
        edits += line.p[0] != ' ';
        if (line.p[0] != '-')
            dgl_buf_printf(&result, "%.*s\n", (int)line.len - 1, line.p + 1);
    }
    dgl_buf_append(&result, rest.p, rest.len);
    assert_int_equal(result.len, after.len);
    assert_memory_equal(result.p ? result.p : "", after.p, after.len);
    if (edits > most)
        fail_msg("%zu lines are told, %zu would do", edits, most);
    dgl_buf_finish(&result);
}

/* Diffs random texts with few distinct lines against random edits of them. */
static void diffs_lead_from_one_text_to_the_other(void **state)
{
    uint32_t seed = 1;
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct dgl_buf before = {0}, after = {0}, out = {0};
        size_t edits = 0;
        for (int i = 0; i < round / 3; i++) {
            seed = seed * 1664525u + 1013904223u;
            const uint32_t word = seed >> 28, edit = seed >> 20 & 15u;
            dgl_buf_printf(&before, "line %u\n", word);
            if (edit > 2)
                dgl_buf_printf(&after, "line %u\n", word);
            if (edit == 1 || edit == 3)
                dgl_buf_printf(&after, "new %u\n", word);
            edits += edit == 0 || edit == 2 || edit == 3 ? 1 : edit == 1 ? 2 : 0;
        }
        const struct dgl_str a = {before.p ? before.p : "", before.len},
                             b = {after.p ? after.p : "", after.len};
        dgl_diff_unified(&out, "a", a, "b", b);
        assert_false(out.failed);
        if (out.len)
            check_leads(a, b, (struct dgl_str){out.p, out.len}, edits);
        else
            assert_true(a.len == b.len && memcmp(a.p, b.p, a.len) == 0);
        dgl_buf_finish(&before);
        dgl_buf_finish(&after);
        dgl_buf_finish(&out);
    }
}

/* The texts share no line and exceed the search limit. The diff must still be correct. */
static void different_texts_are_replaced(void **state)
{
    struct dgl_buf before = {0}, after = {0}, out = {0};
    (void)state;
    for (int i = 0; i < 3000; i++) {
        dgl_buf_printf(&before, "old %d\n", i);
        dgl_buf_printf(&after, "new %d\n", i);
    }
    const struct dgl_str a = {before.p, before.len}, b = {after.p, after.len};
    dgl_diff_unified(&out, "a", a, "b", b);
    check_leads(a, b, (struct dgl_str){out.p, out.len}, 6000);
    dgl_buf_finish(&before);
    dgl_buf_finish(&after);
    dgl_buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diffs_lead_from_one_text_to_the_other),
        cmocka_unit_test(different_texts_are_replaced),
    };
    int failures = test_run_table("diff", diff_case, cases);
    return failures + cmocka_run_group_tests_name("diffs", tests, NULL, NULL);
}
