/* Compiles grammars and follows texts through them. Input: a grammar, a NUL byte, and a text. */
#include "tests/fuzz/fuzz.h"

#include "loader/grammar/matcher.h"
#include "tests/fuzz/fuzz_grammar.h"

void fuzz_one(struct dgl_str input)
{
    struct dgl_str text = fuzz_section(&input);
    struct fuzz_log log;
    struct grammar_builder *b = NULL;
    struct gr_rule root = {0};
    fuzz_log_init(&log);
    struct dgl_budget budget = grammar_budget(&log.log, "G", 0);
    budget.max_steps = 500000; /* so that inputs are quick */
    dgl_budget_start(&budget);
    enum dgl_status status = grammar_builder_create(&budget, &b);
    if (status == DGL_OK)
        status = gbnf_parse(b, text, "root", NULL, &root);
    fuzz_grammar(&log, b, status, root, input);
    grammar_builder_destroy(&b);
}
