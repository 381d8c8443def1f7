/* Adversaries: grammars and texts that would take exponential work. Steps are counted, so the
 * limits hold on every machine. */
#include "tests/support/grammar_random.h"

#include <stdlib.h>

#include "loader/grammar/token_mask.h"

static void put_many(struct dgl_buf *text, const char *part, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dgl_buf_puts(text, part);
}

/* --- texts --- */

struct text_row {
    const char *name, *grammar;
    const char *start, *part, *end; /* the text: `part` is repeated */
    size_t count;
    enum grammar_verdict verdict;
};
static const struct text_row text_rows[] = {
    {"(a|a)*b", "root ::= (\"a\" | \"a\")* \"b\"", "", "a", "b", 100000, GRAMMAR_ENDS},
    {"(a+)+b", "root ::= ((\"a\")+)+ \"b\"", "", "a", "b", 100000, GRAMMAR_ENDS},
    {"ambiguous rules", "root ::= e \"b\"\ne ::= x | x e | x x e\nx ::= \"a\"", "", "a", "b",
     100000, GRAMMAR_ENDS},
    {"stacks of two callers",
     "root ::= x\nx ::= \"a\" y | \"a\" z | \"b\"\ny ::= x \"1\"\nz ::= x \"2\"", "", "a", "b", 400,
     GRAMMAR_CONTINUES},
    {"stacks of two callers, to the end",
     "root ::= x\nx ::= \"a\" y | \"a\" z | \"b\"\ny ::= x \"1\"\nz ::= x \"2\"", "aaaaaaab", "12",
     "1", 3, GRAMMAR_ENDS},
    {"binary trees without brackets", "root ::= t \"b\"\nt ::= \"a\" t t | \"a\"", "", "a", "b",
     301, GRAMMAR_ENDS},
    {"right recursion", "root ::= \"a\" root | \"b\"", "", "a", "b", 100000, GRAMMAR_ENDS},
    {"right recursion through rules", "root ::= x | \"b\"\nx ::= \"a\" y\ny ::= root", "", "a", "b",
     100000, GRAMMAR_ENDS},
    {"exponential DFA", "root ::= [ab]* \"a\" [ab]{15} \"c\"", "", "ab", "bc", 1000,
     GRAMMAR_REJECTS},
    {"exponential DFA, accepted", "root ::= [ab]* \"a\" [ab]{15} \"c\"", "", "ab", "c", 1000,
     GRAMMAR_ENDS},
    {"nested bounds", "root ::= ((\"ab\"{1,12}){1,12}){1,12} \"c\"", "", "ab", "c", 1728,
     GRAMMAR_ENDS},
    {"nested bounds, one too many", "root ::= ((\"ab\"{1,12}){1,12}){1,12} \"c\"", "", "ab", "c",
     1729, GRAMMAR_REJECTS},
    {"deep calls", "root ::= \"(\" root \")\" | \"1\"", "", "(", "1", 999, GRAMMAR_CONTINUES},
    {"too deep calls", "root ::= \"(\" root \")\" | \"1\"", "", "(", "1", 10000, GRAMMAR_REJECTS},
    {"long counted text", "root ::= [a-z]{1,1000000}", "", "abcdefgh", "", 100000, GRAMMAR_ENDS},
};

static void test_texts(void **state)
{
    const struct text_row *row = *state;
    struct grammar_case c;
    struct dgl_buf text = {0};
    grammar_case_gbnf(&c, row->grammar);
    dgl_buf_puts(&text, row->start);
    put_many(&text, row->part, row->count);
    dgl_buf_puts(&text, row->end);
    assert_int_equal(grammar_case_feed(&c, text.p, text.len), row->verdict);
    dgl_buf_finish(&text);
    grammar_case_finish(&c);
}

/* --- ambiguity beyond the limits --- */

struct ambiguous_row {
    const char *name, *grammar, *part;
    const char *parts[2];
};
static const struct ambiguous_row ambiguous_rows[] = {
    {"two counters of the same characters",
     "root ::= [a-z]{1,9000} [a-z]{1,9000} \"1\"",
     "a",
     {"too ambiguous at output byte 40", "4096"}},
    {"three counters of the same characters",
     "root ::= [a-z]{1,90} [a-z]{1,90} [a-z]{1,90} [a-z]{1,9000} [a-z]{1,9000} \"1\"",
     "a",
     {"too ambiguous at output byte", "4096"}},
};

static void test_ambiguous(void **state)
{
    const struct ambiguous_row *row = *state;
    struct grammar_case c;
    enum dgl_status status = DGL_OK;
    bool ok = true;
    grammar_case_gbnf(&c, row->grammar);
    for (int i = 0; i < 6000 && status == DGL_OK && ok; i++)
        status = matcher_advance(c.m, row->part, 1, &ok);
    assert_refusal(&c.t, status, DGL_ERR_INVALID_ARG, row->parts);
    /* The matcher is still usable. */
    matcher_reset(c.m);
    assert_int_equal(matcher_advance(c.m, "ab1", 3, &ok), DGL_OK);
    grammar_case_finish(&c);
}

/* A rule that must nest deeper than the limit: the mask is empty, and says why. */
static void test_deep_mask(void **state)
{
    static const char *const tokens[] = {"a", "b", NULL}, *const parts[] = {"deeper than 1000",
                                                                            "byte 1000"};
    struct grammar_case c;
    struct grammar_vocabulary v;
    struct token_masks *masks = NULL;
    struct dgl_buf text = {0};
    uint32_t bits[1];
    bool ok;
    (void)state;
    for (int i = 0; i < 1100; i++)
        dgl_buf_printf(&text, "%s%d ::= \"a\" r%d \"b\"\n", i ? "r" : "root ::= r0\nr", i, i + 1);
    dgl_buf_puts(&text, "r1100 ::= \"a\"\n");
    grammar_case_gbnf(&c, text.p);
    grammar_vocabulary_of(&v, tokens);
    assert_int_equal(token_masks_create(&c.t.log, c.grammar, v.trie, &masks), DGL_OK);
    enum dgl_status status = DGL_OK;
    for (int i = 0; i < 3000 && status == DGL_OK; i++) {
        status = token_mask(masks, c.m, bits);
        if (status == DGL_OK)
            assert_int_equal(matcher_advance(c.m, "a", 1, &ok), DGL_OK);
    }
    assert_refusal(&c.t, status, DGL_ERR_INVALID_ARG, parts);
    token_masks_destroy(&masks);
    grammar_vocabulary_finish(&v);
    dgl_buf_finish(&text);
    grammar_case_finish(&c);
}

/* Edges that do not match are work, too. */
static void test_edges(void **state)
{
    static const char *const patterns[] = {"[a-z]", "[acegikmoqsuwyACEGIKMOQSUWY02468]"};
    uint32_t work[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct grammar_case c;
        bool ok;
        grammar_case_regex(&c, patterns[i], false);
        assert_int_equal(matcher_advance(c.m, "y", 1, &ok), DGL_OK);
        assert_true(ok);
        work[i] = matcher_work(c.m);
        grammar_case_finish(&c);
    }
    if (work[1] < work[0] + 3)
        fail_msg("31 edges take %u steps, 1 edge takes %u", work[1], work[0]);
}

/* --- compiling --- */

struct compile_row {
    const char *name;
    const char *start, *part, *end;
    size_t count;
    enum dgl_status status;
    const char *parts[2];
};
static const struct compile_row compile_rows[] = {
    {"a text of 1 MB", "root ::= \"x\"", " | \"a\"", "\n", 170000, DGL_OK, {NULL}},
    {"a text above 1 MB",
     "root ::= \"x\"",
     " | \"abcdefg\"",
     "\n",
     100000,
     DGL_ERR_INVALID_ARG,
     {"at most 1048576"}},
    {"a class of 1 MB", "root ::= [", "\\U0001F600", "]\n", 104000, DGL_OK, {NULL}},
    {"too many states",
     "root ::= \"x\"",
     " (\"ab\" | \"cdefghijklmnopqrstuvwxyz\" root)",
     "\n",
     10000,
     DGL_ERR_INVALID_ARG,
     {"200000 states"}},
    {"a chain of rules",
     "root ::= r\nr ::= \"x\"",
     "\nr",
     " ::= \"y\"\n",
     1,
     DGL_ERR_INVALID_ARG,
     {"::="}},
    {"nested bounds",
     "root ::= ((((\"ab\" | \"a\"){1000}){1000}){1000}){1000}",
     " ",
     "\n",
     1,
     DGL_OK,
     {NULL}},
    {"nested bounds of a recursive rule",
     "root ::= (((\"a\" root? \"b\" \"c\" \"d\" \"e\"){1000}){1000}){1000}",
     " ",
     "\n",
     1,
     DGL_OK,
     {NULL}},
    {"optional parts", "root ::= \"x\"", " (\"a\" | \"ab\" | \"abc\")?", "\n", 300, DGL_OK, {NULL}},
    {"too many optional parts",
     "root ::= \"x\"",
     " (\"a\" | \"ab\" | \"abc\")?",
     "\n",
     3000,
     DGL_ERR_INVALID_ARG,
     {"steps"}},
    {"exponential DFA of groups",
     "root ::= (\"a\" | \"b\" | \"ab\")* \"a\"",
     " (\"a\" | \"b\" | \"ba\")",
     "\n",
     300,
     DGL_OK,
     {NULL}},
    {"calls of large rules",
     "r ::= \"abcdefghijklmnopqrstuvwxyz\" [a-z]* | \"1\"\nroot ::= \"x\"",
     " r",
     "\n",
     50000,
     DGL_OK,
     {NULL}},
};

static void test_compile(void **state)
{
    const struct compile_row *row = *state;
    struct grammar_case c;
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, row->start);
    put_many(&text, row->part, row->count);
    dgl_buf_puts(&text, row->end);
    grammar_case_begin(&c);
    c.budget = grammar_budget(&c.t.log, "G", text.len);
    enum dgl_status status =
        gbnf_parse(c.b, (struct dgl_str){text.p, text.len}, "root", NULL, &c.root);
    if (status == DGL_OK)
        status = grammar_compile(c.b, c.root, &c.grammar);
    if (row->status == DGL_OK) {
        if (status != DGL_OK)
            fail_msg("%s", c.t.text);
    } else {
        assert_refusal(&c.t, status, row->status, row->parts);
    }
    dgl_buf_finish(&text);
    grammar_case_finish(&c);
}

/* Chains of rules, in either order: one call and one optional call per rule. */
static void test_chains(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct grammar_case c;
        struct dgl_buf text = {0};
        dgl_buf_puts(&text, "root ::= r0\n");
        for (int i = 0; i < 20000; i++) {
            int k = order ? 19999 - i : i;
            if (k == 19999)
                dgl_buf_printf(&text, "r%d ::= \"x\" root? \"y\"\n", k);
            else
                dgl_buf_printf(&text, "r%d ::= r%d\n", k, k + 1);
        }
        grammar_case_begin(&c);
        c.budget = grammar_budget(&c.t.log, "G", text.len);
        if (gbnf_parse(c.b, dgl_str_of(text.p), "root", NULL, &c.root) != DGL_OK ||
            grammar_compile(c.b, c.root, &c.grammar) != DGL_OK ||
            matcher_create(&c.t.log, c.grammar, &c.m) != DGL_OK)
            fail_msg("%s", c.t.text);
        assert_int_equal(grammar_case_feed(&c, "xxyy", 4), GRAMMAR_ENDS);
        dgl_buf_finish(&text);
        grammar_case_finish(&c);
    }
}

/* Many long alternatives are one automaton, not one state each. */
static void test_many_words(void **state)
{
    struct grammar_case c;
    struct dgl_buf text = {0}, word = {0};
    (void)state;
    dgl_buf_puts(&text, "root ::= \"-\"");
    for (int i = 0; i < 6000; i++)
        dgl_buf_printf(&text, " | \"w%04d-abcdefghijk-%04d\"", i, 9999 - i);
    grammar_case_begin(&c);
    c.budget = grammar_budget(&c.t.log, "G", text.len);
    if (gbnf_parse(c.b, dgl_str_of(text.p), "root", NULL, &c.root) != DGL_OK ||
        grammar_compile(c.b, c.root, &c.grammar) != DGL_OK ||
        matcher_create(&c.t.log, c.grammar, &c.m) != DGL_OK)
        fail_msg("%s", c.t.text);
    dgl_buf_puts(&word, "w5999-abcdefghijk-4000");
    assert_int_equal(grammar_case_feed(&c, word.p, word.len), GRAMMAR_ENDS);
    word.p[word.len - 1] = '1';
    assert_int_equal(grammar_case_feed(&c, word.p, word.len), GRAMMAR_REJECTS);
    dgl_buf_finish(&word);
    dgl_buf_finish(&text);
    grammar_case_finish(&c);
}

/* Expressions that share parts double in size with each level. */
static void test_doubling(void **state)
{
    static const char *const parts[] = {"200000 states"};
    struct grammar_case c;
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        grammar_case_begin(&c);
        struct gr_expr e = kind == 2 ? gr_empty(c.b) : gr_literal(c.b, DGL_STR("a"));
        for (int i = 0; i < 200; i++)
            e = kind ? gr_alt2(c.b, e, e) : gr_seq2(c.b, e, e);
        assert_refusal(&c.t, c.budget.status, DGL_ERR_INVALID_ARG, parts);
        grammar_case_finish(&c);
    }
}

static void test_depth(void **state)
{
    static const char *const parts[] = {"deeper than 500 levels"};
    struct grammar_case c;
    (void)state;
    grammar_case_begin(&c);
    struct gr_expr e = gr_literal(c.b, DGL_STR("a"));
    for (int i = 0; i < 501; i++)
        e = gr_optional(c.b, e);
    assert_refusal(&c.t, c.budget.status, DGL_ERR_INVALID_ARG, parts);
    grammar_case_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deep_mask),  cmocka_unit_test(test_chains),
        cmocka_unit_test(test_many_words), cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_depth),      cmocka_unit_test(test_edges)};
    return test_run_table("texts", test_texts, text_rows) +
           test_run_table("ambiguous", test_ambiguous, ambiguous_rows) +
           test_run_table("compiling", test_compile, compile_rows) +
           cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
