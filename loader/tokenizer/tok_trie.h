/* tok_trie.h: a set of byte strings with numbers, walked byte by byte. */
#ifndef DGL_LOADER_TOK_TRIE_H
#define DGL_LOADER_TOK_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/str.h"

#define TOK_TRIE_ROOT  0u
#define TOK_TRIE_NONE  UINT32_MAX
#define TOK_TRIE_STEPS 5 /* of a budget, for a look at an edge: mostly not in the cache */

struct tok_trie_edge {
    uint32_t from, to; /* nodes; `to` 0 = free slot */
    uint32_t byte;
};

/* `{0}` is empty. Thread-safe once filled. */
struct tok_trie {
    int32_t *values; /* by node; -1 = no string ends here */
    size_t num_nodes, cap_nodes;
    struct tok_trie_edge *edges; /* open addressing */
    size_t num_slots;            /* a power of two */
    uint64_t seed;               /* of the hash */
    bool starts[256];            /* bytes that begin a string */
};

/* A string that is there already gets the new value. False: out of memory. */
bool tok_trie_add(struct tok_trie *trie, struct dgl_str text, int32_t value);
/* The node behind `node` along `byte`, TOK_TRIE_NONE when no string goes on so. */
uint32_t tok_trie_next(const struct tok_trie *trie, uint32_t node, unsigned char byte);
/* The value of a string, -1 when it is not there. */
int32_t tok_trie_find(const struct tok_trie *trie, struct dgl_str text);
void tok_trie_finish(struct tok_trie *trie);

#endif
