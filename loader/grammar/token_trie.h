/*
 * token_trie.h: the spellings of a vocabulary as a trie. Shared by all grammars and threads.
 */
#ifndef DGL_LOADER_TOKEN_TRIE_H
#define DGL_LOADER_TOKEN_TRIE_H

#include "core/base/status.h"

/* The bytes that each token adds to the output. Tokens without bytes (special tokens) are allowed
 * only where a grammar names them. */
struct token_spellings {
    int32_t num_tokens;   /* ids are 0 to num_tokens - 1 */
    const uint8_t *bytes; /* of all tokens */
    const uint32_t
        *offsets;           /* [num_tokens + 1], ascending: token i is [offsets[i], offsets[i+1]) */
    const int32_t *end_ids; /* tokens that end the sequence; their bytes are ignored */
    size_t num_end_ids;
};

struct token_trie;

/* Copies the spellings. */
enum dgl_status token_trie_create(const struct dgl_log *log,
                                  const struct token_spellings *spellings, struct token_trie **out);
/* Destroy the masks (token_mask.h) made from the trie first. */
void token_trie_destroy(struct token_trie **trie);
int32_t token_trie_num_tokens(const struct token_trie *trie);
/* Length of a mask in words of 32 bits. */
size_t token_trie_mask_words(const struct token_trie *trie);
size_t token_trie_bytes(struct token_trie *trie); /* memory in use, with slices */

#endif
