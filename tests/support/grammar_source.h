/* A matcher that shares no code with the product: it backtracks over the source form of a grammar.
 * It is slow and simple. */
#ifndef DGL_TESTS_GRAMMAR_SOURCE_H
#define DGL_TESTS_GRAMMAR_SOURCE_H

#include "loader/grammar/grammar_ir.h"

struct grammar_source {
    const struct grammar_builder *b;
    uint32_t root;
    bool *productive; /* by rule */
    uint64_t steps;   /* of the last call; stops at most_steps */
    uint64_t most_steps;
    bool gave_up;
};
void grammar_source_init(struct grammar_source *s, const struct grammar_builder *b,
                         struct gr_rule root);
void grammar_source_finish(struct grammar_source *s);
/* Whether the text is a text of the grammar, or, if `as_prefix`, the start of one. */
bool grammar_source_matches(struct grammar_source *s, const void *text, size_t len, bool as_prefix);

#endif
