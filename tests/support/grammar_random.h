/* Random grammars and vocabularies. */
#ifndef DGL_TESTS_GRAMMAR_RANDOM_H
#define DGL_TESTS_GRAMMAR_RANDOM_H

#include "loader/grammar/token_trie.h"
#include "tests/support/grammar_case.h"

/* Builds a random grammar. Returns false if the compiler refuses it, as it does left recursion. */
bool grammar_random(struct grammar_case *c, uint64_t *seed);

struct grammar_vocabulary {
    struct dgl_buf bytes;
    uint32_t *offsets;
    int32_t num_tokens;
    int32_t end_id;
    struct token_trie *trie;
};
/* All bytes, `others` random strings, and one token that ends the sequence. */
void grammar_vocabulary_random(struct grammar_vocabulary *v, int32_t others, uint64_t *seed);
/* From strings, which end with NULL. */
void grammar_vocabulary_of(struct grammar_vocabulary *v, const char *const *tokens);
void grammar_vocabulary_finish(struct grammar_vocabulary *v);
struct dgl_str grammar_vocabulary_spelling(const struct grammar_vocabulary *v, int32_t id);

#endif
