/* Grammars of tests: built from GBNF or a pattern, with a matcher. */
#ifndef DGL_TESTS_GRAMMAR_CASE_H
#define DGL_TESTS_GRAMMAR_CASE_H

#include "loader/grammar/grammar.h"
#include "loader/grammar/matcher.h"
#include "tests/support/test.h"

struct grammar_case {
    struct test_log t;
    struct dgl_budget budget;
    struct grammar_builder *b;
    struct gr_rule root;
    struct grammar *grammar;
    struct matcher *m;
};
/* Fail the test, with the message, unless the text is right. */
void grammar_case_gbnf(struct grammar_case *c, const char *text);
void grammar_case_regex(struct grammar_case *c, const char *pattern, bool search);
/* Begins a case that the test builds itself, and ends building: sets the body of the root. */
void grammar_case_begin(struct grammar_case *c);
void grammar_case_build(struct grammar_case *c, struct gr_expr body);
void grammar_case_finish(struct grammar_case *c);

/* Feeds a whole text, from its start. */
enum grammar_verdict { GRAMMAR_REJECTS, GRAMMAR_CONTINUES, GRAMMAR_ENDS };
enum grammar_verdict grammar_case_feed(struct grammar_case *c, const void *text, size_t len);

/* llama.cpp's idea of a JSON grammar, in our words. */
extern const char grammar_json[];

#endif
