/* Tests of file text inside messages: it is shortened, and contains no character that a terminal
 * acts upon. */
#include "tests/support/test.h"

#include "core/base/printable.h"

struct shown_case {
    const char *name, *text;
    size_t len; /* 0 means strlen */
    const char *want;
};

#define TEN    "0123456789"
#define EIGHTY TEN TEN TEN TEN TEN TEN TEN TEN

static const struct shown_case cases[] = {
    {"empty", "", 0, ""},
    {"plain", "model.layers.0.q", 0, "model.layers.0.q"},
    {"other letters", "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80", 0,
     "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80"},
    {"as long as may be", EIGHTY, 0, EIGHTY},
    {"one more", EIGHTY "x", 0, EIGHTY "..."},
    {"a letter across the end", &(EIGHTY "\xc3\xa4")[1], 0, &(EIGHTY "...")[1]},
    {"an escape sequence", "\033]0;title\007\033[31m", 0, "\\x1b]0;title\\x07\\x1b[31m"},
    {"ends of lines", "a\nb\rc", 0, "a\\x0ab\\x0dc"},
    {"a tab", "a\tb", 0, "a\tb"},
    {"delete", "\x7f", 0, "\\x7f"},
    {"U+0000", "a\0b", 3, "a\\x00b"},
    {"C1 control: CSI",
     "\xc2\x9b"
     "31m",
     0, "\\u{9b}31m"},
    {"a byte that is CSI elsewhere",
     "\x9b"
     "31m",
     0, "\\x9b31m"},
    {"cut letter", "a\xe4\xb8", 0, "a\\xe4\\xb8"},
    {"letter and a stray byte", "\xc3\xa4\xa4", 0, "\xc3\xa4\\xa4"},
    {"overlong", "\xc0\xaf", 0, "\\xc0\\xaf"},
    {"right to left",
     "a\xe2\x80\xae"
     "b",
     0, "a\\u{202e}b"},
    {"isolate", "\xe2\x81\xa6", 0, "\\u{2066}"},
    {"zero width", "\xe2\x80\x8b", 0, "\\u{200b}"},
    {"byte order mark", "\xef\xbb\xbf", 0, "\\u{feff}"},
    {"tag", "\xf3\xa0\x81\x81", 0, "\\u{e0041}"},
};

static void text_is_shown(void **state)
{
    const struct shown_case *row = *state;
    size_t len = row->len ? row->len : strlen(row->text);
    assert_string_equal(DGL_PRINTABLE_STR(((struct dgl_str){row->text, len})), row->want);
}

static void megabytes_are_cut(void **state)
{
    (void)state;
    static char text[1 << 20];
    memset(text, '\033', sizeof(text));
    struct dgl_printable shown = dgl_printable((struct dgl_str){text, sizeof(text)});
    assert_int_equal(strlen(shown.text), DGL_PRINTABLE_BYTES + 3);
    assert_string_equal(shown.text + DGL_PRINTABLE_BYTES - 4, "\\x1b...");
}

static void nothing_is_empty(void **state)
{
    (void)state;
    assert_string_equal(DGL_PRINTABLE(NULL), "");
}

static void all_of_a_text_is_made_visible(void **state)
{
    (void)state;
    struct dgl_buf out = {0};
    dgl_buf_visible(&out, DGL_STR(EIGHTY EIGHTY "\033"));
    assert_string_equal(out.p, EIGHTY EIGHTY "\\x1b");
    dgl_buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest singles[] = {
        cmocka_unit_test(megabytes_are_cut),
        cmocka_unit_test(nothing_is_empty),
        cmocka_unit_test(all_of_a_text_is_made_visible),
    };
    int failures = cmocka_run_group_tests(singles, NULL, NULL);
    return failures + test_run_table("shown", text_is_shown, cases);
}
