/* Matchers: forced bytes, completions, marks; DFAs and their products. */
#include "tests/support/grammar_case.h"

#include <stdlib.h>

static void advance(struct grammar_case *c, const char *text)
{
    bool ok;
    if (matcher_advance(c->m, text, strlen(text), &ok) != DGL_OK)
        fail_msg("%s", c->t.text);
    if (!ok)
        fail_msg("\"%s\" is rejected", text);
}

/* --- forced bytes and completions --- */

struct row {
    const char *name, *grammar, *text, *forced, *completion;
};
static const struct row rows[] = {
    {"literal", "root ::= \"abc\"", "", "abc", "abc"},
    {"a common start", "root ::= \"abc\" | \"abd\" | \"abce\"", "", "ab", "abc"},
    {"the end of a shorter text", "root ::= \"ab\" | \"abc\"", "", "ab", "ab"},
    {"complete", "root ::= \"ab\" | \"abc\"", "ab", "", ""},
    {"through rules", "root ::= a b\na ::= \"x\" b\nb ::= \"yz\"", "", "xyzyz", "xyzyz"},
    {"a part of a character", "root ::= \"\xC3\xA9\" | \"\xC3\xA8\"", "", "\xC3", "\xC3\xA8"},
    {"members", "root ::= \"{\\\"name\\\":\" [0-9]+ \",\\\"size\\\":\" [0-9]+ \"}\"", "",
     "{\"name\":", "{\"name\":0,\"size\":0}"},
    {"the shorter alternative", "root ::= \"aaaa\" | \"b\" \"c\"", "", "", "bc"},
    {"closing brackets", "root ::= \"(\" root? \")\"", "(((", "", ")))"},
    {"forced by the stack", "root ::= \"(\" x \")\"\nx ::= \"[\" x \"]\" | \"1\"", "([[1", "]])",
     "]])"},
    {"counter", "root ::= \"<\" [a-z]{3,20} \">\"", "<b", "", "aa>"},
    {"counter of characters", "root ::= ([^\"\\\\] | \"\\\\\" [nt]){4,20} \"!\"", "a\\", "",
     "n  !"},
    {"full counter", "root ::= [a-z]{2,18} \">\"", "abcdefghijklmnopqr", ">", ">"},
    {"no recursion", "root ::= x\nx ::= \"a\" x x | \"b\"", "aa", "", "bbb"},
    {"rules that may be empty", "root ::= a{7,} \"b\"\na ::= \"\" | \"a\" a? a?", "a", "", "b"},
    {"json", grammar_json, "{\"a\":[1,{\"b\"", ":", ":0}]}"},
};

static void test_follows(void **state)
{
    const struct row *row = *state;
    struct grammar_case c;
    struct dgl_buf forced = {0}, completion = {0};
    grammar_case_gbnf(&c, row->grammar);
    advance(&c, row->text);
    dgl_buf_puts(&forced, "");
    dgl_buf_puts(&completion, "");
    assert_int_equal(matcher_forced(c.m, 100, &forced), DGL_OK);
    assert_string_equal(forced.p, row->forced);
    assert_true(matcher_completion(c.m, 100, &completion));
    assert_string_equal(completion.p, row->completion);
    assert_int_equal(matcher_offset(c.m), strlen(row->text));
    advance(&c, completion.p);
    assert_true(matcher_may_end(c.m));
    dgl_buf_finish(&forced);
    dgl_buf_finish(&completion);
    grammar_case_finish(&c);
}

static void test_completion_limits(void **state)
{
    struct grammar_case c;
    struct dgl_buf text = {0};
    (void)state;
    grammar_case_gbnf(&c, "root ::= [a-z]{1000} <[7]>");
    assert_false(matcher_completion(c.m, 5000, &text));
    grammar_case_finish(&c);
    grammar_case_gbnf(&c, "root ::= [a-z]{1000}");
    text.len = 0;
    assert_false(matcher_completion(c.m, 999, &text));
    text.len = 0;
    assert_true(matcher_completion(c.m, 1000, &text));
    assert_int_equal(text.len, 1000);
    text.len = 0;
    assert_int_equal(matcher_forced(c.m, 10, &text), DGL_OK);
    assert_int_equal(text.len, 0);
    dgl_buf_finish(&text);
    grammar_case_finish(&c);
}

/* --- marks --- */

static void test_marks(void **state)
{
    struct grammar_case c;
    uint32_t first, second, mark;
    bool ok;
    (void)state;
    grammar_case_gbnf(&c, grammar_json);
    advance(&c, "{\"a\":");
    assert_int_equal(matcher_mark(c.m, &first), DGL_OK);
    advance(&c, "[1,");
    assert_int_equal(matcher_mark(c.m, &second), DGL_OK);
    advance(&c, "2]");
    assert_int_equal(matcher_advance(c.m, "]", 1, &ok), DGL_OK);
    assert_false(ok);
    assert_int_equal(matcher_offset(c.m), 10);
    matcher_rewind(c.m, second);
    assert_int_equal(matcher_offset(c.m), 8);
    advance(&c, "\"x\"]");
    matcher_rewind(c.m, first);
    advance(&c, "{}}");
    assert_true(matcher_may_end(c.m));
    matcher_reset(c.m);
    assert_int_equal(matcher_offset(c.m), 0);
    /* One mark is the start of the text. */
    for (uint32_t i = 1; i < MATCHER_MAX_MARKS; i++)
        assert_int_equal(matcher_mark(c.m, &mark), DGL_OK);
    static const char *const parts[] = {"255 marks", "at most 255"};
    assert_refusal(&c.t, matcher_mark(c.m, &mark), DGL_ERR_INVALID_ARG, parts);
    matcher_drop_marks(c.m);
    assert_int_equal(matcher_mark(c.m, &mark), DGL_OK);
    grammar_case_finish(&c);
}

/* Long texts make more configurations than a matcher keeps. Marks survive. */
static void test_collection(void **state)
{
    struct grammar_case c;
    uint32_t mark;
    (void)state;
    grammar_case_gbnf(
        &c,
        "root ::= \"[\" (item \",\")* \"]\" \nitem ::= \"(\" item \")\" | [a-z]{0,900000} \"!\"");
    advance(&c, "[((");
    assert_int_equal(matcher_mark(c.m, &mark), DGL_OK);
    for (int round = 0; round < 3; round++) {
        char part[1001];
        memset(part, 'a' + round, 1000);
        part[1000] = '\0';
        for (int i = 0; i < 120; i++)
            advance(&c, part);
        advance(&c, "!)),((!))");
        matcher_rewind(c.m, mark);
    }
    advance(&c, "x!)),]");
    assert_true(matcher_must_end(c.m));
    grammar_case_finish(&c);
}

/* A grammar outlives its builder and its first owner. */
static void test_sharing(void **state)
{
    struct grammar_case c;
    struct matcher *other;
    bool ok;
    (void)state;
    grammar_case_gbnf(&c, "root ::= \"ab\"");
    assert_int_equal(matcher_create(NULL, c.grammar, &other), DGL_OK);
    assert_true(grammar_bytes(c.grammar) > 0);
    struct grammar *same = grammar_ref(c.grammar);
    grammar_case_finish(&c);
    grammar_unref(&same);
    assert_null(same);
    assert_int_equal(matcher_advance(other, "ab", 2, &ok), DGL_OK);
    assert_true(ok && matcher_must_end(other));
    matcher_destroy(&other);
}

/* --- DFAs --- */

static struct gr_dfa dfa_of(struct grammar_case *c, const char *pattern)
{
    struct gr_expr expr;
    if (regex_parse(c->b, dgl_str_of(pattern), false, &expr) != DGL_OK)
        fail_msg("%s", c->t.text);
    return gr_dfa_of(c->b, expr);
}

static void test_products(void **state)
{
    struct grammar_case c;
    (void)state;
    grammar_case_begin(&c);
    struct gr_dfa ab = dfa_of(&c, "[ab]*"), bc = dfa_of(&c, "[bc]{2,3}"), b = dfa_of(&c, "b{2,3}");
    struct gr_dfa e = dfa_of(&c, "\xC3\xA9|\xE2\x82\xAC");
    assert_true(gr_dfa_equal(c.b, gr_dfa_and(c.b, ab, bc), b));
    assert_true(gr_dfa_equal(c.b, gr_dfa_or(c.b, b, bc), bc));
    assert_true(gr_dfa_equal(c.b, gr_dfa_minus(c.b, ab, gr_dfa_not(c.b, b)), b));
    assert_true(gr_dfa_equal(c.b, gr_dfa_not(c.b, gr_dfa_not(c.b, e)), e));
    assert_true(gr_dfa_is_empty(c.b, gr_dfa_minus(c.b, b, bc)));
    assert_true(gr_dfa_is_empty(c.b, gr_dfa_and(c.b, e, ab)));
    assert_false(gr_dfa_is_empty(c.b, dfa_of(&c, "")));
    assert_false(gr_dfa_equal(c.b, ab, bc));
    struct gr_dfa other = gr_dfa_not(c.b, e);
    assert_false(gr_dfa_accepts(c.b, other, DGL_STR("\xC3\xA9")));
    assert_true(gr_dfa_accepts(c.b, other, DGL_STR("\xC3\xA8")));
    assert_true(gr_dfa_accepts(c.b, other, DGL_STR("")));
    assert_true(gr_dfa_accepts(c.b, other, DGL_STR("\xC3\xA9\xC3\xA9")));
    assert_false(gr_dfa_accepts(c.b, other, DGL_STR("\xC3"))); /* no valid UTF-8 */
    assert_int_equal(c.budget.status, DGL_OK);
    grammar_case_finish(&c);
}

static void test_dfa_terminal(void **state)
{
    struct grammar_case c;
    (void)state;
    grammar_case_begin(&c);
    struct gr_dfa key = gr_dfa_not(c.b, dfa_of(&c, "name|size"));
    key = gr_dfa_and(c.b, key, dfa_of(&c, "[a-z]{1,5}"));
    struct gr_expr parts[] = {gr_literal(c.b, DGL_STR("<")), gr_dfa_expr(c.b, key),
                              gr_literal(c.b, DGL_STR(">"))};
    grammar_case_build(&c, gr_repeat(c.b, gr_seq(c.b, parts, 3), 1, 3));
    assert_int_equal(grammar_case_feed(&c, "<nam><sizes>", 12), GRAMMAR_ENDS);
    assert_int_equal(grammar_case_feed(&c, "<name>", 6), GRAMMAR_REJECTS);
    assert_int_equal(grammar_case_feed(&c, "<name", 5), GRAMMAR_CONTINUES);
    assert_int_equal(grammar_case_feed(&c, "<>", 2), GRAMMAR_REJECTS);
    grammar_case_finish(&c);
}

static void test_json_escaped(void **state)
{
    static const struct {
        const char *pattern, *accepted[6], *rejected[6];
    } cases[] = {
        {"a\"b\\\\c/", {"a\\\"b\\\\c/", "a\\\"b\\\\c\\/"}, {"a\"b\\\\c/", "a\\u0022b\\\\c/"}},
        {"[\\n\\x01]",
         {"\\n", "\\u000a", "\\u000A", "\\u0001"},
         {"\n", "\\u000b", "\\u0011", "\\t"}},
        {".", {"\xC3\xA9", "x", "\x7F", "\\t", "\\u001f"}, {"\\n", "\\r", "\\", "\"", "\\u00e9"}},
    };
    struct grammar_case c;
    (void)state;
    grammar_case_begin(&c);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct gr_dfa dfa = gr_dfa_json_escaped(c.b, dfa_of(&c, cases[i].pattern));
        for (size_t k = 0; k < 6; k++) {
            if (cases[i].accepted[k] && !gr_dfa_accepts(c.b, dfa, dgl_str_of(cases[i].accepted[k])))
                fail_msg("%s: rejects %s", cases[i].pattern, cases[i].accepted[k]);
            if (cases[i].rejected[k] && gr_dfa_accepts(c.b, dfa, dgl_str_of(cases[i].rejected[k])))
                fail_msg("%s: accepts %s", cases[i].pattern, cases[i].rejected[k]);
        }
    }
    assert_int_equal(c.budget.status, DGL_OK);
    grammar_case_finish(&c);
}

struct wrong_row {
    const char *name, *grammar;
    const char *parts[2];
};
static const struct wrong_row wrong_rows[] = {
    {"recursive", "root ::= \"a\" root | \"b\"", {"rule \"root\"", "recursive"}},
    {"token", "root ::= <[1]>", {"cannot contain a token"}},
    {"too large", "root ::= [ab]* \"a\" [ab]{20}", {"more than 20000 states"}},
    {"copies", "root ::= [ab]{20001}", {"20001 copies", "at most 20000"}},
};

static void test_wrong_dfa(void **state)
{
    const struct wrong_row *row = *state;
    struct grammar_case c;
    grammar_case_begin(&c);
    assert_int_equal(gbnf_parse(c.b, dgl_str_of(row->grammar), "root", NULL, &c.root), DGL_OK);
    struct gr_dfa dfa = gr_dfa_of(c.b, gr_call(c.b, c.root));
    assert_refusal(&c.t, c.budget.status, DGL_ERR_INVALID_ARG, row->parts);
    /* All that follows does nothing. */
    assert_false(gr_dfa_accepts(c.b, gr_dfa_not(c.b, dfa), DGL_STR("")));
    assert_false(gr_dfa_is_empty(c.b, dfa));
    gr_rule_set(c.b, c.root, gr_dfa_expr(c.b, dfa));
    assert_int_equal(grammar_compile(c.b, c.root, &c.grammar), DGL_ERR_INVALID_ARG);
    grammar_case_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completion_limits), cmocka_unit_test(test_marks),
        cmocka_unit_test(test_collection),        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_products),          cmocka_unit_test(test_dfa_terminal),
        cmocka_unit_test(test_json_escaped)};
    return test_run_table("what follows", test_follows, rows) +
           test_run_table("refused DFAs", test_wrong_dfa, wrong_rows) +
           cmocka_run_group_tests_name("matcher", tests, NULL, NULL);
}
