/* tok_trie.h: a set of byte strings with numbers, read byte by byte. */
#ifndef DGL_LOADER_TOK_TRIE_H
#define DGL_LOADER_TOK_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/str.h"

#define TOK_TRIE_ROOT  0u
#define TOK_TRIE_NONE  UINT32_MAX
#define TOK_TRIE_STEPS 5 /* budget steps of one probe, which usually misses the CPU cache */

struct tok_trie_edge {
    uint32_t from, to; /* nodes; `to` is 0 in a free slot */
    uint32_t byte;
};

/* `{0}` is empty. Thread-safe after it is filled. */
struct tok_trie {
    int32_t *values; /* by node; -1 = no string ends here */
    size_t num_nodes, cap_nodes;
    struct tok_trie_edge *edges; /* open addressing table */
    size_t num_slots;            /* a power of two */
    uint64_t seed;               /* seed of the hash */
    bool starts[256];            /* bytes that begin a string */
};

/* Replaces the value of an existing string. Returns false if memory is exhausted. */
bool tok_trie_add(struct tok_trie *trie, struct dgl_str text, int32_t value);
/* Returns the node after `node` along `byte`, or TOK_TRIE_NONE if no string continues with this
 * byte. */
uint32_t tok_trie_next(const struct tok_trie *trie, uint32_t node, unsigned char byte);
/* Returns the value of a string, or -1. */
int32_t tok_trie_find(const struct tok_trie *trie, struct dgl_str text);
void tok_trie_finish(struct tok_trie *trie);

#endif
