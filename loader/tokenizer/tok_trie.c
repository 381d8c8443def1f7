/* Tries as one hash table of edges: a step costs one probe, even if a node has many branches. */
#include "loader/tokenizer/tok_trie.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/text/tok_hash.h"

/* Returns the slot of an edge, or the free slot where it belongs. */
static size_t find_slot(const struct tok_trie *trie, uint32_t from, uint32_t byte)
{
    size_t mask = trie->num_slots - 1;
    size_t at = tok_hash_u64(((uint64_t)from << 8 | byte) ^ trie->seed) & mask;
    while (trie->edges[at].to && (trie->edges[at].from != from || trie->edges[at].byte != byte))
        at = (at + 1) & mask;
    return at;
}

static bool add_node(struct tok_trie *trie)
{
    if (trie->num_nodes >= TOK_TRIE_NONE - 1 ||
        !dgl_grow((void **)&trie->values, &trie->cap_nodes, trie->num_nodes + 1,
                  sizeof(*trie->values)))
        return false;
    trie->values[trie->num_nodes++] = -1;
    if (trie->num_slots > 2 * trie->num_nodes)
        return true;
    struct tok_trie_edge *old = trie->edges;
    size_t num_old = trie->num_slots, want = num_old ? 2 * num_old : 256;
    struct tok_trie_edge *edges = dgl_new_array(struct tok_trie_edge, want);
    if (!edges)
        return false;
    trie->edges = edges;
    trie->num_slots = want;
    trie->seed = tok_hash_new_seed();
    for (size_t i = 0; i < num_old; i++) {
        if (old[i].to)
            edges[find_slot(trie, old[i].from, old[i].byte)] = old[i];
    }
    free(old);
    return true;
}

bool tok_trie_add(struct tok_trie *trie, struct dgl_str text, int32_t value)
{
    if (trie->num_nodes == 0 && !add_node(trie))
        return false;
    uint32_t node = TOK_TRIE_ROOT;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.p[i];
        uint32_t next = tok_trie_next(trie, node, byte);
        if (next == TOK_TRIE_NONE) {
            if (!add_node(trie))
                return false;
            next = (uint32_t)(trie->num_nodes - 1);
            trie->edges[find_slot(trie, node, byte)] = (struct tok_trie_edge){node, next, byte};
        }
        node = next;
    }
    trie->values[node] = value;
    if (text.len > 0)
        trie->starts[(unsigned char)text.p[0]] = true;
    return true;
}

uint32_t tok_trie_next(const struct tok_trie *trie, uint32_t node, unsigned char byte)
{
    if (trie->num_slots == 0)
        return TOK_TRIE_NONE;
    const struct tok_trie_edge *e = &trie->edges[find_slot(trie, node, byte)];
    return e->to ? e->to : TOK_TRIE_NONE;
}

int32_t tok_trie_find(const struct tok_trie *trie, struct dgl_str text)
{
    uint32_t node = TOK_TRIE_ROOT;
    for (size_t i = 0; i < text.len && node != TOK_TRIE_NONE; i++)
        node = tok_trie_next(trie, node, (unsigned char)text.p[i]);
    return node == TOK_TRIE_NONE || trie->num_nodes == 0 ? -1 : trie->values[node];
}

void tok_trie_finish(struct tok_trie *trie)
{
    free(trie->values);
    free(trie->edges);
    *trie = (struct tok_trie){0};
}
