/* Compiles patterns, as grammars and as DFAs, which must agree. Input: a byte (odd: the pattern may
 * match anywhere), a pattern, a NUL byte, and a text. */
#include "tests/fuzz/fuzz.h"

#include "loader/grammar/matcher.h"
#include "tests/fuzz/fuzz_grammar.h"

/* Compares a DFA with a grammar of the same expression. */
static void compare(struct grammar_builder *b, struct gr_rule root, struct gr_expr expr,
                    struct dgl_str text)
{
    struct grammar *grammar = NULL;
    struct matcher *m = NULL;
    bool ok;
    struct gr_dfa dfa = gr_dfa_of(b, expr);
    if (grammar_builder_budget(b)->status != DGL_OK)
        return;
    FUZZ_CHECK(gr_dfa_equal(b, dfa, gr_dfa_and(b, dfa, dfa)) ||
               grammar_builder_budget(b)->status != DGL_OK);
    if (gr_dfa_is_empty(b, dfa) || grammar_compile(b, root, &grammar) != DGL_OK)
        return;
    if (matcher_create(NULL, grammar, &m) == DGL_OK &&
        matcher_advance(m, text.p, text.len, &ok) == DGL_OK)
        FUZZ_CHECK((ok && matcher_may_end(m)) == gr_dfa_accepts(b, dfa, text));
    matcher_destroy(&m);
    grammar_unref(&grammar);
}

void fuzz_one(struct dgl_str input)
{
    bool search = fuzz_byte(&input) & 1;
    struct dgl_str pattern = fuzz_section(&input);
    struct fuzz_log log;
    struct grammar_builder *b = NULL;
    struct gr_rule root = {0};
    struct gr_expr expr = {0};
    fuzz_log_init(&log);
    struct dgl_budget budget = grammar_budget(&log.log, "P", 0);
    budget.max_steps = 500000; /* so that inputs are quick */
    dgl_budget_start(&budget);
    enum dgl_status status = grammar_builder_create(&budget, &b);
    if (status == DGL_OK)
        status = regex_parse(b, pattern, search, &expr);
    if (status == DGL_OK) {
        root = gr_rule_new(b, DGL_STR("root"));
        gr_rule_set(b, root, expr);
        status = budget.status;
    }
    fuzz_grammar(&log, b, status, root, input);
    if (status == DGL_OK && budget.status == DGL_OK) {
        compare(b, root, expr, input);
        fuzz_check_status(&log, budget.status);
    }
    grammar_builder_destroy(&b);
}
