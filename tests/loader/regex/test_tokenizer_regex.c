/* Regular expressions of tokenizer.json: the pieces of the `tokenizers` package 0.23.3 (Oniguruma),
 * recorded 2026-11-21 and 22, and refused patterns. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "loader/regex/tok_regex.h"

static struct tok_regex *must_create(const char *pattern)
{
    struct test_log t;
    struct tok_regex *regex = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    if (tok_regex_create(&t.log, "test", dgl_str_of(pattern), &regex) != DGL_OK)
        fail_msg("%s", t.text);
    return regex;
}

/* ---- meaning -------------------------------------------------------------------------------- */

struct row {
    const char *pattern; /* names the case */
    const char *text;
    const char *pieces; /* matches and the text between them, without empty ones; '|' between */
};
static const struct row rows[] = {
    {"(?i:[a-k]+)", "xAkK\u212a\u017fz", "x|AkK\u212a|\u017fz"},
    {"(?i:s)\\p{L}", "sa Sb \u017fc", "sa| |Sb| |\u017fc"},
    {"(?i:k)", "Kk\u212ax", "K|k|\u212a|x"},
    {"(?i)abc|d", "ABCD", "ABC|D"},
    {"x(?i:b)", "xB Xb", "xB| Xb"},
    {"(?i:[^a-c]+)", "xBkA", "x|B|k|A"},
    {"a{2}?", "aaaaa", "aa|aa|a"},
    {"a{2}+", "aaaaax", "aaaa|ax"},
    {"a{,2}", "aaaaa", "aa|aa|a"},
    {"a{2,}", "aaaab", "aaaa|b"},
    {"a{1,2}?", "aaab", "a|a|a|b"},
    {"a**", "baab", "b|aa|b"},
    {"x{1", "x{1x", "x{1|x"},
    {"a{,}", "a{,}", "a{,}"},
    {"b{", "ab{", "a|b{"},
    {"a++a", "aaa", "aaa"},
    {"a?+a", "aab", "aa|b"},
    {"(?>a+)b", "aab", "aab"},
    {"(?:ab|a)c", "abcac", "abc|ac"},
    {"^a", "aa\012a", "a|a\012|a"},
    {"^", "a\012", "a\012"},
    {"a$", "aa\012ab", "a|a|\012ab"},
    {"a\\Z", "aa\012", "a|a|\012"},
    {"a\\z", "aa\012", "aa\012"},
    {"\\Aa", "aaa", "a|aa"},
    {".", "a\012b", "a|\012|b"},
    {".+", "ab\012cd", "ab|\012|cd"},
    {"(?m:.+)", "ab\012cd", "ab\012cd"},
    {"\\bfoo\\b", "foo foobar", "foo| foobar"},
    {"\\B.", "fix", "f|i|x"},
    {"\\b.", "a\u00b2b c", "a|\u00b2b| |c"},
    {"\\w+", "a\u00b2_-\u00e9\u200d\u00bd b", "a\u00b2_|-|\u00e9|\u200d|\u00bd| |b"},
    {"[\\w]+", "a\u00b2_\u00e9\u00bd b", "a|\u00b2|_\u00e9|\u00bd |b"},
    {"\\W+", "a - \u00b2b", "a| - |\u00b2b"},
    {"\\d+", "1\u0662\u00b2a", "1\u0662|\u00b2a"},
    {"\\h+", "abG1", "ab|G|1"},
    {"\\s+", "a\302\205\u00a0\u200b\ufeff \011b", "a|\302\205\u00a0|\u200b\ufeff| \011|b"},
    {"\\S+", "a\302\205b", "a|\302\205|b"},
    {"\\p{L}+", "a\u00e9\u6f221", "a\u00e9\u6f22|1"},
    {"\\P{L}+", "a1\u00e9", "a|1|\u00e9"},
    {"\\p{^L}+", "a12", "a|12"},
    {"\\p{Letter}+", "a1", "a|1"},
    {"\\p{Lu}|\\p{Lt}", "aA\u01c5b", "a|A|\u01c5|b"},
    {"\\p{nd}+", "1\u0662\u00bd", "1\u0662|\u00bd"},
    {"\\p{P}+|\\p{S}+", "a.!$+b", "a|.!|$+|b"},
    {"\\p{Han}+", "a\u6f22\u5b57\u304b", "a|\u6f22\u5b57|\u304b"},
    {"\\p{Hiragana}+|\\p{Katakana}+", "\u304b\u306a\u30ab\u30ca", "\u304b\u306a|\u30ab\u30ca"},
    {"\\p{Cyrillic}+", "a\u0416\u0436b", "a|\u0416\u0436|b"},
    {"[[:alpha:]]+", "a\u00e91\u2177", "a\u00e9|1|\u2177"},
    {"[[:digit:][:space:]]+", "a1 2b", "a|1 2|b"},
    {"[[:^digit:]]+", "a1b", "a|1|b"},
    {"[[:punct:]]+", "a.$,b", "a|.$,|b"},
    {"[[:upper:]]+", "aABc", "a|AB|c"},
    {"[[:lower:]]+", "Ab\u00baC", "A|b\u00ba|C"},
    {"[[:word:]]+", "a\u00b2b", "a|\u00b2|b"},
    {"[[:xdigit:]]+", "xfF9g", "x|fF9|g"},
    {"[a-z&&[^b]]+", "abcz", "a|b|cz"},
    {"[^a-c&&[b-d]]+", "abcd", "a|bc|d"},
    {"[a-c[x-z]]+", "abxq", "abx|q"},
    {"[^(\\s.,!)]+", "a(b.,c d", "a|(|b|.,|c| |d"},
    {"[]a]+", "a]b", "a]|b"},
    {"[^]a]+", "a]b", "a]|b"},
    {"[a-]+", "a-b", "a-|b"},
    {"[-a]+", "a-b", "a-|b"},
    {"[\\w\\-]+", "a-b c", "a-b| |c"},
    {"[\\n\\t]+", "a\012\011b", "a|\012\011|b"},
    {"[\\b]", "a\010b", "a|\010|b"},
    {"[\\]\\[]+", "a[]b", "a|[]|b"},
    {"[:a]+", "a:b", "a:|b"},
    {"\\x41\\x{42}\\u0043", "ABC", "ABC"},
    {"\\07", "a\007", "a|\007"},
    {"\\t\\n\\r\\f\\v\\a\\e", "\011\012\015\014\013\007\033", "\011\012\015\014\013\007\033"},
    {"\\\u00e9\\_\\/\\-", "\u00e9_/-", "\u00e9_/-"},
    {"(?<=[a-z])[A-Z]", "aB CD", "a|B| CD"},
    {"(?<![a-z])[A-Z]", "aB CD", "aB |C|D"},
    {"a(?=b)", "abac", "a|bac"},
    {"a(?!b)", "abac", "ab|a|c"},
    {"(?<name>a)b", "ab", "ab"},
    {"(a)(b)", "ab", "ab"},
    {"(?#c)a", "ab", "a|b"},
    {"(?x) a b # c", "abab", "ab|ab"},
    {"(?x-i:a\\ b)", "a b", "a b"},
    {"", "abc", "a|b|c"},
    {"b*", "abc", "a|b|c"},
    {"(?=a)", "baa", "b|a|a"},
    {"a|", "ba", "b|a"},
    {"(?:)", "ab", "a|b"},
    {"\\s+(?!\\S)|\\s+", "a   b", "a|  | |b"},
    {"'(?i:[sdmt]|ll|ve|re)", "it's we'LL I'M", "it|'s| we|'LL| I|'M"},
    {"[a-z&&[^b]&&[^y]]+", "abcxyz", "a|b|cx|y|z"},
    {"[^\\S\\r\\n]+", "a \011\012 b", "a| \011|\012| |b"},
    {"[\\W\\d]+", "a1 -b2c", "a|1 -|b|2|c"},
    {"[^\\W\\d]+", "a1 -b2c", "a|1 -|b|2|c"},
    {"[^a[\\d]]+", "a1bc2", "a1|bc|2"},
    {"[[^a-c]x]+", "abxcd", "ab|x|c|d"},
    {"[\\p{Lu}a]+", "b\u1c89aA\ua7dab", "b|\u1c89aA\ua7da|b"},
    {"\\p{Mn}+", "a\u0301\U0001171e\u0897b", "a|\u0301|\U0001171e|\u0897|b"},
    {"\\p{Mc}+", "a\u0903\U0001171eb", "a|\u0903\U0001171e|b"},
    {"\\p{Cn}+", "a\u0378\U0001fae8\uffffb", "a|\u0378|\U0001fae8|\uffff|b"},
    {"\\P{Cn}+", "a\u0378\U0001fae8\uffffb", "a|\u0378|\U0001fae8|\uffff|b"},
    {"\\p{C}+", "a\u0378\001\U0001fae8\uffffb", "a|\u0378\001|\U0001fae8|\uffff|b"},
    {"[^\\p{L}]+", "a1\U00031350-b", "a|1|\U00031350|-|b"},
    {"\\p{Han}+", "a\u6f22\U00031350\U0002ebf0\u3005b", "a|\u6f22\U00031350\U0002ebf0\u3005|b"},
    {"\\bx\\b", "x \U00031350x x\u200cx -x-", "x| \U00031350x |x|\u200c|x| -|x|-"},
    {"(?i:\\p{L}k)+", "aKb\u212a\U00031350k", "aKb\u212a\U00031350k"},
    {"(?<=[^\\S\\n])a", "\012a a", "\012a |a"},
    {"(a|b)++c", "ababc", "ababc"},
    {"(?:a|b){2}{2}", "ababab", "abab|ab"},
    {"(?x) [ a] + # [\\n b", "a ab", "a a|b"},
    {"a(?#x)*b", "aab", "aab"},
    {"\\s", "\u180ea\u3000b\034", "\u180ea|\u3000|b\034"},
    {"[a-c&&b-d&&c-e]+", "abcde", "ab|c|de"},
    {"(?i:[^k]+)", "aKb\u212ak\u00e9", "a|K|b|\u212ak|\u00e9"},
    {"^$|a", "a\012\012b", "a|\012|\012b"},
};

static void pattern_cuts_as_recorded(void **state)
{
    const struct row *row = *state;
    struct tok_regex *regex = must_create(row->pattern);
    struct tok_regex_scratch *scratch = tok_regex_scratch_create();
    struct tok_spans spans = {0};
    struct dgl_buf got = {0};
    assert_non_null(scratch);
    struct dgl_budget budget = test_budget(NULL, UINT64_MAX);
    assert_int_equal(tok_regex_find(&budget, regex, scratch, dgl_str_of(row->text), &spans),
                     DGL_OK);
    for (size_t i = 0; i < spans.count; i++) {
        struct tok_span span = spans.items[i];
        if (span.start == span.end)
            continue;
        if (got.len)
            dgl_buf_putc(&got, '|');
        dgl_buf_append(&got, row->text + span.start, span.end - span.start);
    }
    assert_string_equal(got.p, row->pieces);
    dgl_buf_finish(&got);
    free(spans.items);
    tok_regex_destroy(&regex);
    tok_regex_scratch_destroy(&scratch);
}

/* ---- refusals ------------------------------------------------------------------------------ */

struct bad_row {
    const char *pattern, *message;
};
static const struct bad_row bad_rows[] = {
    {"(a)\\1", "back reference"},
    {"\\k<n>", "this escape"},
    {"\\G", "this escape"},
    {"\\X", "this escape"},
    {"\\pL", "without braces"},
    {"\\p{Klingon}", "this character property"},
    {"\\p{word}}\\p{word\\}", "this character property"},
    {"\\xff", "this character number"},
    {"\\x{110000}", "this character number"},
    {"\\ud800", "this character number"},
    {"a\\", "a backslash at the end"},
    {"[a", "without its closing bracket"},
    {"[", "without its closing bracket"},
    {"[z-a]", "this range"},
    {"[\\d-a]", "a range that starts with a class"},
    {"[a-\\d]", "this range"},
    {"(a", "closing parenthesis"},
    {"a)", "closing parenthesis"},
    {"(?<n", "group name"},
    {"(?#", "comment"},
    {"(?~a)", "kind of group"},
    {"(?(1)a|b)", "kind of group"},
    {"a(?i)b", "flags in the middle"},
    {"*a", "nothing to repeat"},
    {"(+)", "nothing to repeat"},
    {"^*", "repeating what is not"},
    {"(?=a)+", "repeating what is not"},
    {"a{3,1}", "pattern is not implemented"},
    {"(?<=a+)b", "pattern is not implemented"},
    {"(?i:st)", "without regard to case"},
    {"(?i:\u00e9)", "without regard to case"},
    {"(?i:\\p{Lu})", "without regard to case"},
    {"(?i:[\u00e9])", "without regard to case"},
};

static void pattern_is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct test_log t;
    struct tok_regex *regex = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(tok_regex_create(&t.log, "test", dgl_str_of(row->pattern), &regex),
                     DGL_ERR_UNSUPPORTED);
    assert_null(regex);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, row->message);
}

static void expect_refused(const struct dgl_buf *pattern, const char *message)
{
    struct test_log t;
    struct tok_regex *regex = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(
        tok_regex_create(&t.log, "test", (struct dgl_str){pattern->p, pattern->len}, &regex),
        DGL_ERR_UNSUPPORTED);
    assert_contains(t.text, message);
}

static void nesting_is_limited(void **state)
{
    (void)state;
    struct dgl_buf groups = {0}, classes = {0};
    for (int i = 0; i < 10000; i++)
        dgl_buf_puts(&groups, "(");
    for (int i = 0; i < 10000; i++)
        dgl_buf_puts(&classes, "[a");
    expect_refused(&groups, "nesting this deep");
    expect_refused(&classes, "nesting this deep");
    dgl_buf_finish(&groups);
    dgl_buf_finish(&classes);
}

/* Each property is some kilobytes for PCRE2. */
static void long_patterns_are_refused(void **state)
{
    (void)state;
    struct dgl_buf properties = {0}, class = {0};
    dgl_buf_puts(&class, "[");
    for (int i = 0; i < 100000; i++) {
        dgl_buf_puts(&properties, "\\p{Mn}");
        dgl_buf_puts(&class, "\\P{Mn}");
    }
    dgl_buf_puts(&class, "]");
    uint64_t start = dgl_now_ns();
    expect_refused(&properties, "a pattern this long");
    expect_refused(&class, "a pattern this long");
    assert_at_most((double)(dgl_now_ns() - start) * 1e-9, 5);
    dgl_buf_finish(&properties);
    dgl_buf_finish(&class);
}

/* ---- cost ----------------------------------------------------------------------------------- */

#define CL100K                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"                      \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* A text of one character, with another one at its end. */
static const struct cost {
    const char *name, *pattern;
    char fill, last;
    size_t len;
    const char *wanted; /* part of the error; NULL: at most 8 steps per byte */
} costs[] = {
    {"blanks for cl100k", CL100K, ' ', 'x', 1 << 20, NULL},
    {"newlines for cl100k", CL100K, '\n', 'x', 1 << 20, NULL},
    {"letters for cl100k", CL100K, 'a', ' ', 1 << 20, NULL},
    {"digits for cl100k", CL100K, '1', ' ', 1 << 20, NULL},
    {"symbols for cl100k", CL100K, '#', 'x', 1 << 20, NULL},
    {"apostrophes for cl100k", CL100K, '\'', 's', 1 << 20, NULL},
    {"capitals for two classes that overlap", "[A-Z_]*[a-z_]+|[A-Z_]+[a-z_]*", 'A', ' ', 1 << 20,
     NULL},
    {"a repeated group", "(?:\\p{L}|[ab]\\d)+|\\s", 'a', 'x', 1 << 20, NULL},
    {"what matches nowhere", "\\d{1,3}", 'a', 'x', 1 << 20, NULL},
    {"ways without end", "(?:a|aa)+(?:a|aa)+[bc]{2}", 'a', 'b', 4000, "steps"},
    {"ways without end and without repetition",
     "(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])"
     "(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])(?:a|[a-c])y",
     'a', 'x', 1 << 20, "steps"},
    {"options without end", "a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?[a-c]{20}y", 'a', 'x', 1 << 20,
     "steps"},
    {"a run at every place", "(?:a|b)\\w+[!?]", 'a', 'x', 1 << 20, "steps"},
    {"a lazy run at every place", "(?:a|b)\\w+?[!?]", 'a', 'x', 1 << 20, "steps"},
    {"a possessive run at every place", "(?:a|b)\\w++[!?]", 'a', 'x', 1 << 20, "steps"},
    {"three runs", "\\w*\\w*\\w*[!?]", 'a', 'x', 1 << 20, "steps"},
    {"looking ahead", "a(?=.*y)", 'a', 'x', 1 << 20, "steps"},
    {"looking ahead in vain", "a(?!.*x)", 'a', 'x', 1 << 20, "steps"},
    {"looking ahead in an alternative", "b|a(?:b|(?=.*y))c|d", 'a', 'x', 1 << 20, "steps"},
    {"looking ahead again and again", "(?:a(?:b|(?=.*y)c|))+[z?]", 'a', 'x', 1 << 20, "steps"},
    {"alternatives that scan", "(?:\\w+!|\\w+\\?|\\w+;)x", 'a', 'x', 1 << 20, "steps"},
};

static void work_is_counted(void **state)
{
    const struct cost *row = *state;
    struct tok_regex *regex = must_create(row->pattern);
    struct tok_regex_scratch *scratch = tok_regex_scratch_create();
    struct tok_spans spans = {0};
    struct test_log t;
    struct dgl_str text = {malloc(row->len), row->len};
    assert_non_null(scratch);
    assert_non_null(text.p);
    test_log_init(&t, DGL_LOG_ERROR);
    memset((char *)text.p, row->fill, row->len);
    ((char *)text.p)[row->len - 1] = row->last;
    struct dgl_budget budget = test_budget(&t.log, 8 << 20);
    clock_t start = clock();
    enum dgl_status status = tok_regex_find(&budget, regex, scratch, text, &spans);
    /* A step should need about 10 ns. Sanitizers and slow machines need many times that. */
    assert_at_most((double)(clock() - start) / CLOCKS_PER_SEC, 10);
    if (row->wanted) {
        const char *const parts[] = {row->wanted};
        assert_refusal(&t, status, DGL_ERR_UNSUPPORTED, parts);
    } else {
        assert_int_equal(status, DGL_OK);
        assert_int_equal(spans.items[spans.count - 1].end, row->len);
    }
    free(spans.items);
    free((char *)text.p);
    tok_regex_scratch_destroy(&scratch);
    tok_regex_destroy(&regex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(long_patterns_are_refused),
    };
    int failed = test_run_table("patterns", pattern_cuts_as_recorded, rows);
    failed += test_run_table("refused patterns", pattern_is_refused, bad_rows);
    failed += test_run_table("work", work_is_counted, costs);
    return failed + cmocka_run_group_tests_name("expressions", tests, NULL, NULL);
}
