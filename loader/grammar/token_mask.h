/*
 * token_mask.h: the tokens that may follow a configuration of a matcher, as bits. A bit is set
 * exactly if the matcher accepts the token. Bits of tokens that end the sequence are set exactly if
 * the text is complete.
 */
#ifndef DGL_LOADER_TOKEN_MASK_H
#define DGL_LOADER_TOKEN_MASK_H

#include "loader/grammar/matcher.h"
#include "loader/grammar/token_trie.h"

/* A grammar prepared for a vocabulary: its loops with their slices. Immutable; may be shared
 * between threads. */
struct token_masks;

/* Takes a reference to the grammar, and borrows the trie. Makes up to 8 slices that the trie does
 * not have yet, which takes milliseconds each. The trie keeps slices while masks use them. */
enum dgl_status token_masks_create(const struct dgl_log *log, struct grammar *grammar,
                                   struct token_trie *trie, struct token_masks **out);
void token_masks_destroy(struct token_masks **masks);

/* Writes token_trie_mask_words() words: token i is bit i % 32 of word i / 32. The matcher must
 * belong to the same grammar. Fails with DGL_ERR_INVALID_ARG if a limit of matcher.h is exceeded,
 * or if no token may follow although the text is not complete. */
enum dgl_status token_mask(const struct token_masks *masks, struct matcher *m, uint32_t *bits);

#endif
