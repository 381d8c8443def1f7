/*
 * Merges the symbols of one piece: the pair with the lowest rank first, and the leftmost of equal
 * ranks.
 *
 * Short pieces scan the current pairs. Long pieces use a queue that may contain outdated entries.
 * Both give the same result: a merge always makes a longer token, so a position is merged into the
 * same token at most once.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/text/tok_hash.h"
#include "loader/tokenizer/tok_bpe.h"

#define SMALL 24 /* up to this many symbols, a scan for the lowest rank is faster than a heap */
#define NONE  UINT32_MAX

/* ---- tables ---------------------------------------------------------------------------------- */

size_t tok_merges_slot(const struct tok_merges *merges, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t mask = merges->num_slots - 1, at = tok_hash_u64(key ^ merges->seed) & mask;
    while (merges->slots[at].left >= 0 &&
           (merges->slots[at].left != left || merges->slots[at].right != right))
        at = (at + 1) & mask;
    return at;
}

size_t tok_bridges_slot(const struct tok_bridges *bridges, uint64_t key)
{
    size_t mask = bridges->num_slots - 1, at = tok_hash_u64(key ^ bridges->seed) & mask;
    while (bridges->slots[at] && bridges->slots[at] != key)
        at = (at + 1) & mask;
    return at;
}

/* ---- a few symbols: scan --------------------------------------------------------------------- */

struct pair {
    uint32_t rank; /* NONE if the pair has no merge */
    int32_t id;
};

static struct pair pair_of(const struct tok_merges *merges, int32_t left, int32_t right)
{
    const struct tok_merge *m = &merges->slots[tok_merges_slot(merges, left, right)];
    return m->left >= 0 ? (struct pair){m->rank, m->id} : (struct pair){NONE, -1};
}

/* Merges in place and returns the number of symbols left. `count` is at most SMALL. */
static size_t merge_small(const struct tok_merges *merges, int32_t *symbols, size_t count)
{
    struct pair pairs[SMALL];
    for (size_t i = 0; i + 1 < count; i++)
        pairs[i] = pair_of(merges, symbols[i], symbols[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (pairs[i].rank < pairs[best].rank)
                best = i;
        if (pairs[best].rank == NONE)
            break;
        symbols[best] = pairs[best].id;
        memmove(&symbols[best + 1], &symbols[best + 2], (count - best - 2) * sizeof(*symbols));
        memmove(&pairs[best], &pairs[best + 1], (count - best - 2) * sizeof(*pairs));
        count--;
        if (best > 0)
            pairs[best - 1] = pair_of(merges, symbols[best - 1], symbols[best]);
        if (best + 1 < count)
            pairs[best] = pair_of(merges, symbols[best], symbols[best + 1]);
    }
    return count;
}

/* ---- many symbols: linked list and heap ------------------------------------------------------ */

struct node {
    int32_t symbol; /* -1 = merged into the previous one */
    int32_t merged; /* token of this and the next symbol, or -1 */
    uint32_t prev, next;
};
/* Outdated if the node no longer makes `id`. */
struct candidate {
    uint32_t rank, node;
    int32_t id;
};
struct heap {
    struct candidate *items;
    size_t count;
};

static bool comes_before(struct candidate a, struct candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.node < b.node;
}

static void sift_down(struct heap *heap, size_t at)
{
    struct candidate moving = heap->items[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && comes_before(heap->items[child + 1], heap->items[child]))
            child++;
        if (!comes_before(heap->items[child], moving))
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = moving;
}

static void push(struct heap *heap, struct candidate item)
{
    size_t at = heap->count++;
    while (at > 0 && comes_before(item, heap->items[(at - 1) / 2])) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = item;
}

/* Sets node->merged. Returns true if there is a candidate to queue. */
static bool look_ahead(const struct tok_merges *merges, struct node *nodes, uint32_t at,
                       struct candidate *out)
{
    struct node *node = &nodes[at];
    node->merged = -1;
    if (node->next == NONE)
        return false;
    struct pair pair = pair_of(merges, node->symbol, nodes[node->next].symbol);
    node->merged = pair.id;
    *out = (struct candidate){pair.rank, at, pair.id};
    return pair.id >= 0;
}

/* Merges in place and sets *count to the number of symbols left. */
static enum dgl_status merge_large(struct dgl_budget *budget, const struct tok_merges *merges,
                                   struct tok_model_scratch *scratch, int32_t *symbols,
                                   size_t *count)
{
    size_t n = *count;
    /* Each of at most n - 1 merges queues at most two candidates, so 3 * n candidates suffice. */
    if (n >= NONE / 4 ||
        !dgl_budget_grow(budget, &scratch->nodes, &scratch->cap_nodes, n, sizeof(struct node)) ||
        !dgl_budget_grow(budget, &scratch->heap, &scratch->cap_heap, 3 * n,
                         sizeof(struct candidate))) {
        dgl_budget_fail_memory(budget, n * sizeof(struct node));
        return budget->status;
    }
    struct node *nodes = scratch->nodes;
    struct heap heap = {.items = scratch->heap};
    for (size_t i = 0; i < n; i++)
        nodes[i] = (struct node){symbols[i], -1, i ? (uint32_t)i - 1 : NONE,
                                 i + 1 < n ? (uint32_t)i + 1 : NONE};
    for (size_t i = 0; i < n; i++)
        heap.count += look_ahead(merges, nodes, (uint32_t)i, &heap.items[heap.count]);
    for (size_t i = heap.count / 2; i-- > 0;)
        sift_down(&heap, i);
    while (heap.count > 0) {
        /* A pop and two pushes read memory about twenty times in a long piece. */
        if (!dgl_budget_steps(budget, 20))
            return budget->status;
        struct candidate top = heap.items[0], next;
        heap.items[0] = heap.items[--heap.count];
        if (heap.count > 0)
            sift_down(&heap, 0);
        struct node *node = &nodes[top.node];
        if (node->symbol < 0 || node->merged != top.id)
            continue;
        struct node *gone = &nodes[node->next];
        node->symbol = top.id;
        gone->symbol = -1;
        node->next = gone->next;
        if (node->next != NONE)
            nodes[node->next].prev = top.node;
        if (look_ahead(merges, nodes, top.node, &next))
            push(&heap, next);
        if (node->prev != NONE && look_ahead(merges, nodes, node->prev, &next))
            push(&heap, next);
    }
    *count = 0;
    for (uint32_t i = 0; i != NONE; i = nodes[i].next)
        symbols[(*count)++] = nodes[i].symbol;
    return DGL_OK;
}

/* ---- one piece ------------------------------------------------------------------------------- */

static enum dgl_status merge_part(struct dgl_budget *budget, const struct tok_merges *merges,
                                  struct tok_model_scratch *scratch, int32_t *symbols, size_t count,
                                  struct token_ids *out)
{
    if (count > SMALL) {
        enum dgl_status status = merge_large(budget, merges, scratch, symbols, &count);
        return status == DGL_OK ? token_ids_append(budget->log, out, symbols, count) : status;
    }
    struct tok_cache_entry *known = tok_cache_place(&scratch->cache, symbols, count);
    if (known && tok_cache_has(known, symbols, count))
        return token_ids_append(budget->log, out, known->ids, known->num_ids);
    if (known)
        tok_cache_begin(known, symbols, count);
    count = merge_small(merges, symbols, count);
    if (known)
        tok_cache_set_ids(known, symbols, count);
    return token_ids_append(budget->log, out, symbols, count);
}

enum dgl_status tok_bpe_merge(struct dgl_budget *budget, const struct tok_merges *merges,
                              const struct tok_bridges *bridges, struct tok_model_scratch *scratch,
                              int32_t *symbols, size_t count, struct token_ids *out)
{
    if (count <= SMALL)
        return merge_part(budget, merges, scratch, symbols, count, out);
    enum dgl_status status = DGL_OK;
    for (size_t start = 0, end; start < count; start = end) {
        end = start + 1;
        while (end < count && bridges->num_slots > 0 &&
               bridges->slots[tok_bridges_slot(bridges,
                                               tok_bridge_key(symbols[end - 1], symbols[end]))])
            end++;
        TRY(merge_part(budget, merges, scratch, symbols + start, end - start, out));
    }
done:
    return status;
}
