/*
 * token_slice.h: nodes of tries, and slices of a vocabulary. Private to loader/grammar.
 *
 * A slice belongs to a loop over characters, such as the inside of a string. It has the tokens that
 * stay in the loop as a ready mask, and all others as a small trie. So a mask inside of a string
 * need not walk the whole vocabulary.
 */
#ifndef DGL_LOADER_TOKEN_SLICE_H
#define DGL_LOADER_TOKEN_SLICE_H

#include <stdbool.h>

#include "loader/grammar/token_trie.h"

#define SLICE_NONE   UINT32_MAX /* no state of a loop, or no node */
#define SLICE_COUNTS 16         /* masks by number of items */

/* Children of a node are contiguous, and sorted by byte. Tokens are numbered in the order of their
 * bytes ("ranks"): those below a node are [rank, rank_end), its own come first. */
struct trie_node {
    uint32_t first_child, rank, rank_end;
    uint16_t num_children;
    uint8_t byte;
};
struct trie_nodes {
    struct trie_node *nodes;
    int32_t *ids; /* by rank */
    uint32_t num_nodes, num_ranks;
    uint32_t max_depth;
};
/* Returns the end of a node's own ranks. */
static inline uint32_t trie_own_end(const struct trie_nodes *t, const struct trie_node *node)
{
    return node->num_children ? t->nodes[node->first_child].rank : node->rank_end;
}
/* Returns the child of a node for a byte, or SLICE_NONE. */
uint32_t trie_child(const struct trie_nodes *t, uint32_t node, uint8_t byte);

const struct trie_nodes *token_trie_nodes(const struct token_trie *trie);
bool token_trie_is_end(const struct token_trie *trie, int32_t id);
const int32_t *token_trie_ends(const struct token_trie *trie, size_t *count);

/* The automaton of a loop. State 0 is between two items. An edge to it completes an item. */
struct slice_loop {
    uint32_t num_states;
    const uint16_t *next; /* [num_states][256]; UINT16_MAX leaves the loop */
};

struct token_slice {
    uint64_t hash, used; /* hash of its loop; time of the last use, on the clock of the trie */
    size_t refs;
    uint16_t *next; /* of its loop */
    uint32_t num_states;
    uint32_t *inside;                    /* mask of the tokens that stay in the loop */
    uint32_t *inside_most[SLICE_COUNTS]; /* those with at most i + 1 items */
    uint8_t *items;                      /* by id: items that a token begins, or 0 if it leaves */
    int32_t *long_ids;                   /* tokens with more than SLICE_COUNTS items, ascending */
    uint32_t num_long, max_items;
    struct trie_nodes leaving; /* all other tokens */
};

/* Returns a reference to the slice of a loop. If the trie has no such slice, makes it and
 * decrements *may_make. Sets *slice to NULL if *may_make is 0, or if the trie has its maximum of
 * slices and all are referenced. Release the reference with token_trie_release(). Both are
 * thread-safe. */
enum dgl_status token_trie_slice(const struct dgl_log *log, struct token_trie *trie,
                                 struct slice_loop loop, uint32_t *may_make,
                                 struct token_slice **slice);
void token_trie_release(struct token_trie *trie, struct token_slice *slice);

#endif
