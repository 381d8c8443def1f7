/* Regular expressions: prefixes and whole texts against PCRE2's matcher on random texts, and the
 * messages for patterns that are refused. */
#include "tests/support/grammar_case.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "core/base/utf8.h"

/* The alphabet is what random texts are made of. */
struct row {
    const char *pattern; /* names the case */
    const char *alphabet;
    const char *theirs; /* PCRE2's pattern, if it differs */
};
static const struct row rows[] = {
    {"abc|d", "abcd", NULL},
    {"^abc$|^d$", "abcd", NULL},
    {"^a|b$|c", "abcd", NULL},
    {"^(foo|bar)$|^(foobar)?$", "fobar", NULL},
    {"(^$)|(^[a-z]+$)", "az1", NULL},
    {"a*b+c?", "abc", NULL},
    {"^a{2}b{1,3}c{2,}$", "abc", NULL},
    {"^a*?b+?c??d{1,2}?$", "abcd", NULL},
    {"^(?:ab|a)(?:bc|c)$", "abc", NULL},
    {"^(a|a)*b$", "ab", NULL},
    {"^(a+)+$", "ab", NULL},
    {"^(a*)*b$", "ab", NULL},
    {"^(?<year>\\d{4})-(\\d\\d)$", "0129-", NULL},
    {"^\\d+(\\.\\d+)?$", "019.a", NULL},
    {"^\\w+@\\w+\\.\\w{2,3}$", "aZ9_@.", NULL},
    {"^\\s*\\S+\\s*$", "a \t\n\xC2\xA0\xE2\x80\xA8\xEF\xBB\xBF",
     "^[\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
     "\\x{3000}\\x{feff}]*"
     "[^\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
     "\\x{3000}\\x{feff}]+"
     "[\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
     "\\x{3000}\\x{feff}]*$"},
    {"^\\D\\W$", "a1_-\xC3\xA9", NULL},
    {"^[^a-c]+$", "abd\xC3\xA9\n", NULL},
    {"^[a\\-z]$", "a-mz", NULL},
    {"^[a-]$", "a-b", NULL},
    {"^[-a]$", "a-b", NULL},
    {"^[\\w.-]+$", "a9_.-+", NULL},
    {"^[^\\d\\s]$", "a1 \n", NULL},
    {"^[\\]\\\\^]$", "]\\^a", NULL},
    {"^[\\b]$", "\bb", NULL},
    {"^.$", "a\n\r\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80", "^[^\\n\\r\\x{2028}\\x{2029}]$"},
    {"^[\xC3\xA9-\xE2\x82\xAC]$", "\xC3\xA8\xC3\xA9\xE2\x82\xAC\xE2\x82\xADz", NULL},
    {"^\\u00e9\\x41\\u{1F600}$",
     "\xC3\xA9"
     "A\xF0\x9F\x98\x80",
     "^\\x{e9}\\x41\\x{1F600}$"},
    {"^\\ud83d\\ude00$", "\xF0\x9F\x98\x80\xF0\x9F\x98\x81", "^\\x{1F600}$"},
    {"^\\p{L}+$", "aZ1\xC3\xA9\xE2\x82\xAC\xE6\xBC\xA2", NULL},
    {"^\\p{Lu}\\P{Lu}$", "aZ1\xC3\x89\xC3\xA9", NULL},
    {"^[\\p{Nd}\\p{Zs}]+$", "1a \xD9\xA0\xE3\x80\x80", NULL},
    {"^\\p{Script=Greek}$", "a\xCE\xB1\xCE\xA9\xD0\xB0", NULL},
    {"^\\p{Letter}\\p{General_Category=Punctuation}$", "a!1\xE2\x80\x94", "^\\p{L}\\p{P}$"},
    {"^a\\.b\\/c\\*\\$\\{\\}$", "ab.c/*${}", NULL},
    {"^x{1$", "x{1", NULL},
    {"^x{,2}$", "x{,2}", "^x\\{,2}$"},
    {"^}]$", "}]x", "^\\}\\]$"},
    {"", "ab", NULL},
    {"|a", "ab", NULL},
    {"()a", "ab", NULL},
    {"[^]", "a\n", "[\\s\\S]"},
    {"^(([a-z0-9])|([a-z0-9][a-z0-9\\-]*[a-z0-9]))$", "az9-", NULL},
    {"^([0-9]{1,3}\\.){3}[0-9]{1,3}$", "0129.", NULL},
    {"^#([a-fA-F0-9]{6}|[a-fA-F0-9]{3})$", "#aF0g", NULL},
    {"^(\\([0-9]{3}\\))?[0-9]{3}-[0-9]{4}$", "()0123-", NULL},
    {"^[A-Z]{2}[0-9]{2}[A-Z0-9]{1,30}$", "AZ09a", NULL},
    {"^(\\/[^\\/~]*(~0|~1)?)*$", "/~01ab", NULL},
    {"^[a-zA-Z_][a-zA-Z0-9_]{0,62}$", "aZ_9-", NULL},
    {"[a-z]{25,40}", "az", NULL},
    {"^.{3,30}x$", "axb\xC3\xA9", NULL},
};
/* Anchors inside. Some of these match no text. */
static const struct row anchor_rows[] = {
    {"(^a|b)c(d|e$)", "abcde", NULL},
    {"a?^b", "ab", NULL},
    {"a$b?", "ab", NULL},
    {"^^a$$", "ab", NULL},
};

/* PCRE2's pattern: the row's, if the languages differ. If `around`, any text may be around it. */
static pcre2_code *compile_theirs(const struct row *row, bool around)
{
    struct dgl_buf text = {0};
    int error;
    PCRE2_SIZE at;
    dgl_buf_printf(&text, around ? "\\A(?s:.*)(?:%s)(?s:.*)\\z" : "\\A(?:%s)\\z",
                   row->theirs ? row->theirs : row->pattern);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text.p, text.len, PCRE2_UTF | PCRE2_DOLLAR_ENDONLY,
                                     &error, &at, NULL);
    if (!code)
        fail_msg("PCRE2 refuses %s at %zu", text.p, (size_t)at);
    dgl_buf_finish(&text);
    return code;
}

/* Whether PCRE2 matches the whole text, or finds that more text could make it match. */
static bool theirs_matches(const pcre2_code *code, const struct dgl_buf *text, uint32_t options)
{
    static int workspace[100000];
    pcre2_match_data *data = checked(pcre2_match_data_create(4, NULL));
    int rc = pcre2_dfa_match(code, (PCRE2_SPTR)text->p, text->len, 0, options, data, NULL,
                             workspace, sizeof(workspace) / sizeof(*workspace));
    pcre2_match_data_free(data);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH && rc != PCRE2_ERROR_PARTIAL)
        fail_msg("PCRE2 fails with %d on \"%s\"", rc, text->p);
    return rc != PCRE2_ERROR_NOMATCH;
}

/* Appends a random character of the alphabet. */
static void put_random(struct dgl_buf *text, const char *alphabet, uint64_t *seed)
{
    size_t len = strlen(alphabet), at = test_rand(seed) % len;
    while (((unsigned char)alphabet[at] & 0xC0) == 0x80)
        at--;
    uint32_t cp;
    dgl_buf_append(text, alphabet + at, dgl_utf8_decode(alphabet + at, len - at, &cp));
}

static void compare(const struct row *row, bool search, bool inner_anchors)
{
    struct grammar_case c;
    uint64_t seed = 1;
    size_t whole = 0, parts = 0;
    size_t len_pattern = strlen(row->pattern);
    /* All alternatives of these patterns have both anchors. */
    bool anchored = len_pattern && row->pattern[0] == '^' && row->pattern[len_pattern - 1] == '$';
    pcre2_code *code = compile_theirs(row, search && !anchored);
    /* After `.*` PCRE2 always waits for more text, and after an inner `$` at the end. */
    bool loose = inner_anchors || (search && !anchored);
    grammar_case_regex(&c, row->pattern, search);
    for (int round = 0; round < 400; round++) {
        struct dgl_buf text = {0};
        size_t most = test_rand(&seed) % (round % 8 ? 12 : 50);
        dgl_buf_puts(&text, "");
        /* Mostly texts that our matcher accepts, so that long ones are met too. */
        for (size_t i = 0; i <= most; i++) {
            enum grammar_verdict got = grammar_case_feed(&c, text.p, text.len);
            bool ends = theirs_matches(code, &text, 0);
            /* PCRE2 finds no partial match in no text. */
            bool goes = ends || !text.len || theirs_matches(code, &text, PCRE2_PARTIAL_HARD);
            if ((got == GRAMMAR_ENDS) != ends ||
                (got == GRAMMAR_REJECTS && goes && text.len && !loose) ||
                (got != GRAMMAR_REJECTS && !goes))
                fail_msg("%s on \"%s\": ours %d, theirs ends %d, continues %d",
                         search ? "search" : "match", text.p, got, ends, goes);
            whole += ends;
            parts += got != GRAMMAR_REJECTS;
            if (got == GRAMMAR_REJECTS)
                break;
            size_t len = text.len;
            for (int tries = 0; tries < 16; tries++) {
                text.len = len;
                put_random(&text, row->alphabet, &seed);
                if (grammar_case_feed(&c, text.p, text.len) != GRAMMAR_REJECTS)
                    break;
            }
        }
        dgl_buf_finish(&text);
    }
    if (!parts || (!whole && !inner_anchors))
        fail_msg("%zu texts were parts, %zu whole", parts, whole);
    pcre2_code_free(code);
    grammar_case_finish(&c);
}

static void test_match(void **state)
{
    const struct row *row = *state;
    compare(row, true, false);
    compare(row, false, false);
}

static void test_anchors(void **state)
{
    const struct row *row = *state;
    compare(row, true, true);
    compare(row, false, true);
}

struct wrong_row {
    const char *pattern; /* names the case */
    enum dgl_status status;
    const char *parts[3];
};
static const struct wrong_row wrong_rows[] = {
    {"a(?=b)", DGL_ERR_UNSUPPORTED, {"column 2", "look-around"}},
    {"a(?!b)", DGL_ERR_UNSUPPORTED, {"column 2", "look-around"}},
    {"a(?<=b)", DGL_ERR_UNSUPPORTED, {"column 2", "look-around"}},
    {"\xC3\xA9(?<!b)", DGL_ERR_UNSUPPORTED, {"column 2", "look-around"}},
    {"(?i)a", DGL_ERR_UNSUPPORTED, {"column 1", "group"}},
    {"(a)\\1", DGL_ERR_UNSUPPORTED, {"column 4", "references"}},
    {"(?<n>a)\\k<n>", DGL_ERR_UNSUPPORTED, {"column 8", "references"}},
    {"\\bword", DGL_ERR_UNSUPPORTED, {"column 1", "word boundaries"}},
    {"a\\B", DGL_ERR_UNSUPPORTED, {"column 2", "word boundaries"}},
    {"\\p{Emoji}", DGL_ERR_UNSUPPORTED, {"column 1", "property"}},
    {"(^a)*", DGL_ERR_UNSUPPORTED, {"column 5", "anchors cannot be repeated"}},
    {"^*", DGL_ERR_INVALID_ARG, {"column 2", "anchor"}},
    {"(a", DGL_ERR_INVALID_ARG, {"column 1", "wanted ')'"}},
    {"a)", DGL_ERR_INVALID_ARG, {"column 2", "')' has no '('"}},
    {"[a", DGL_ERR_INVALID_ARG, {"column 1", "wanted ']'"}},
    {"[z-a]", DGL_ERR_INVALID_ARG, {"column 2", "does not ascend"}},
    {"*a", DGL_ERR_INVALID_ARG, {"column 1", "before the quantifier"}},
    {"a|+", DGL_ERR_INVALID_ARG, {"column 3", "before the quantifier"}},
    {"a{3,2}", DGL_ERR_INVALID_ARG, {"column 2", "ascend"}},
    {"a{1000001}", DGL_ERR_INVALID_ARG, {"column 2", "1000000"}},
    {"a{99999999999999999999}", DGL_ERR_INVALID_ARG, {"column 2", "1000000"}},
    {"a\\", DGL_ERR_INVALID_ARG, {"column 3", "after '\\'"}},
    {"\\q", DGL_ERR_INVALID_ARG, {"column 1", "unknown escape"}},
    {"\\xg0", DGL_ERR_INVALID_ARG, {"column 3", "2 hex digits"}},
    {"\\u{110000}", DGL_ERR_INVALID_ARG, {"10FFFF"}},
    {"\\ud800", DGL_ERR_INVALID_ARG, {"column 1", "surrogate"}},
    {"\\pL", DGL_ERR_INVALID_ARG, {"column 3", "wanted '{'"}},
    {"[a-z]{999999}[0-9]{0,999999}(ab|a){3000}", DGL_ERR_INVALID_ARG, {"3000 copies", "2000"}},
    {"a^b", DGL_ERR_INVALID_ARG, {"matches no text"}},
};

static void check_wrong(const struct wrong_row *row)
{
    struct grammar_case c;
    struct gr_expr expr;
    grammar_case_begin(&c);
    enum dgl_status status = regex_parse(c.b, dgl_str_of(row->pattern), true, &expr);
    if (status == DGL_OK) {
        c.root = gr_rule_new(c.b, DGL_STR("root"));
        gr_rule_set(c.b, c.root, expr);
        status = grammar_compile(c.b, c.root, &c.grammar);
    }
    assert_refusal(&c.t, status, row->status, row->parts);
    grammar_case_finish(&c);
}

static void test_wrong(void **state)
{
    check_wrong(*state);
}

static void test_bytes(void **state)
{
    (void)state;
    check_wrong(
        &(const struct wrong_row){"a\xFF", DGL_ERR_INVALID_ARG, {"column 2", "not valid UTF-8"}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes)};
    return test_run_table("texts", test_match, rows) +
           test_run_table("anchors", test_anchors, anchor_rows) +
           test_run_table("messages", test_wrong, wrong_rows) +
           cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
