/* Tries of vocabularies, and slices for loops over characters. */
#include "loader/grammar/token_trie.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/grammar/token_slice.h"

enum {
    KEPT_SLICES = 8, /* from here on a new slice replaces an old one without references */
    MAX_SLICES = 32,
    MAX_SLICE_BYTES = 128 << 20 /* from here on the trie has at most KEPT_SLICES */
};

struct token_trie {
    struct token_spellings own; /* copies */
    uint8_t *bytes;
    uint32_t *offsets;
    int32_t *end_ids;
    struct trie_nodes nodes;
    pthread_mutex_t lock; /* of the slices */
    struct token_slice *slices[MAX_SLICES];
    size_t num_slices;
    uint64_t clock; /* counts uses of slices */
};

/* --- nodes --- */

/* A token with the first bytes of its spelling as a number, which order most tokens. */
struct sort_key {
    uint64_t start;
    int32_t id;
};

static int compare_spellings(const void *a, const void *b, void *trie)
{
    const struct token_trie *t = trie;
    const struct sort_key *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    uint32_t left_len = t->offsets[left->id + 1] - t->offsets[left->id];
    uint32_t right_len = t->offsets[right->id + 1] - t->offsets[right->id];
    int order = memcmp(t->bytes + t->offsets[left->id], t->bytes + t->offsets[right->id],
                       left_len < right_len ? left_len : right_len);
    if (order)
        return order;
    if (left_len != right_len)
        return left_len < right_len ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static void nodes_finish(struct trie_nodes *nodes)
{
    free(nodes->nodes);
    free(nodes->ids);
    *nodes = (struct trie_nodes){0};
}

static uint32_t spelling_len(const struct token_trie *t, int32_t id)
{
    return t->offsets[id + 1] - t->offsets[id];
}

/* Builds the nodes of sorted tokens, level by level. Takes `ids`, also on failure. */
static bool nodes_build(const struct token_trie *t, int32_t *ids, uint32_t count,
                        struct trie_nodes *out)
{
    size_t cap = 0;
    *out = (struct trie_nodes){.ids = ids, .num_ranks = count, .num_nodes = 1};
    if (!dgl_grow((void **)&out->nodes, &cap, 1, sizeof(*out->nodes)))
        return false;
    out->nodes[0] = (struct trie_node){.rank_end = count};
    /* Nodes of one depth are contiguous: `level_end` is the end of the depth in work. */
    for (uint32_t node = 0, level_end = 1, depth = 0; node < out->num_nodes; node++) {
        if (node == level_end) {
            depth++;
            level_end = out->num_nodes;
        }
        uint32_t rank = out->nodes[node].rank, end = out->nodes[node].rank_end;
        while (rank < end && spelling_len(t, ids[rank]) == depth)
            rank++;
        out->nodes[node].first_child = out->num_nodes;
        while (rank < end) {
            uint8_t byte = t->bytes[t->offsets[ids[rank]] + depth];
            uint32_t last = rank;
            while (last < end && t->bytes[t->offsets[ids[last]] + depth] == byte)
                last++;
            if (!dgl_grow((void **)&out->nodes, &cap, (size_t)out->num_nodes + 1,
                          sizeof(*out->nodes)))
                return false;
            out->nodes[out->num_nodes++] =
                (struct trie_node){.rank = rank, .rank_end = last, .byte = byte};
            out->nodes[node].num_children++;
            out->max_depth = depth + 1;
            rank = last;
        }
    }
    return true;
}

uint32_t trie_child(const struct trie_nodes *t, uint32_t node, uint8_t byte)
{
    uint32_t low = t->nodes[node].first_child, high = low + t->nodes[node].num_children;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->nodes[middle].byte == byte)
            return middle;
        if (t->nodes[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return SLICE_NONE;
}

/* --- trie --- */

/* Checks and copies the spellings. */
static enum dgl_status copy_spellings(const struct dgl_log *log, struct token_trie *t,
                                      const struct token_spellings *from)
{
    if (from->num_tokens < 1)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "a vocabulary has %d tokens, wanted at least 1",
                        from->num_tokens);
    size_t n = (size_t)from->num_tokens;
    for (size_t i = 0; i < n; i++)
        if (from->offsets[i] > from->offsets[i + 1])
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "the spelling of token %zu begins at %u and ends at %u", i,
                            from->offsets[i], from->offsets[i + 1]);
    t->own = *from;
    t->bytes = dgl_new_array(uint8_t, from->offsets[n]);
    t->offsets = dgl_new_array(uint32_t, n + 1);
    t->end_ids = dgl_new_array(int32_t, from->num_end_ids);
    if (!t->bytes || !t->offsets || !t->end_ids)
        return dgl_fail_memory(log, "the trie of a vocabulary", from->offsets[n] + n * 4);
    if (from->offsets[n])
        memcpy(t->bytes, from->bytes, from->offsets[n]);
    memcpy(t->offsets, from->offsets, (n + 1) * sizeof(*t->offsets));
    if (from->num_end_ids)
        memcpy(t->end_ids, from->end_ids, from->num_end_ids * sizeof(*t->end_ids));
    return DGL_OK;
}

/* Returns the ids of the tokens that have bytes, in the order of these, or NULL. */
static int32_t *sort_ids(struct token_trie *t, uint32_t *count)
{
    struct sort_key *keys = dgl_new_array(struct sort_key, (size_t)t->own.num_tokens);
    int32_t *ids = dgl_new_array(int32_t, (size_t)t->own.num_tokens);
    *count = 0;
    for (int32_t id = 0; keys && id < t->own.num_tokens; id++) {
        uint32_t len = spelling_len(t, id);
        uint64_t start = 0;
        if (!len || token_trie_is_end(t, id))
            continue;
        for (uint32_t i = 0; i < 8; i++)
            start = start << 8 | (i < len ? t->bytes[t->offsets[id] + i] : 0);
        keys[(*count)++] = (struct sort_key){start, id};
    }
    if (keys && ids) {
        qsort_r(keys, *count, sizeof(*keys), compare_spellings, t);
        for (uint32_t i = 0; i < *count; i++)
            ids[i] = keys[i].id;
    } else {
        free(ids);
        ids = NULL;
    }
    free(keys);
    return ids;
}

enum dgl_status token_trie_create(const struct dgl_log *log,
                                  const struct token_spellings *spellings, struct token_trie **out)
{
    enum dgl_status status = DGL_OK;
    struct token_trie *t = dgl_new(struct token_trie);
    uint32_t count;
    *out = NULL;
    if (!t)
        return dgl_fail_memory(log, "the trie of a vocabulary", sizeof(*t));
    pthread_mutex_init(&t->lock, NULL);
    TRY(copy_spellings(log, t, spellings));
    int32_t *ids = sort_ids(t, &count);
    if (!ids || !nodes_build(t, ids, count, &t->nodes))
        status = dgl_fail_memory(log, "the trie of a vocabulary",
                                 (size_t)t->own.num_tokens * sizeof(struct trie_node));
done:
    if (status != DGL_OK)
        token_trie_destroy(&t);
    *out = t;
    return status;
}

static void slice_destroy(struct token_slice *slice)
{
    if (!slice)
        return;
    for (size_t i = 0; i < SLICE_COUNTS; i++)
        free(slice->inside_most[i]);
    free(slice->next);
    free(slice->inside);
    free(slice->items);
    free(slice->long_ids);
    nodes_finish(&slice->leaving);
    free(slice);
}

void token_trie_destroy(struct token_trie **trie)
{
    struct token_trie *t = *trie;
    if (!t)
        return;
    for (size_t i = 0; i < t->num_slices; i++)
        slice_destroy(t->slices[i]);
    pthread_mutex_destroy(&t->lock);
    nodes_finish(&t->nodes);
    free(t->bytes);
    free(t->offsets);
    free(t->end_ids);
    free(t);
    *trie = NULL;
}

int32_t token_trie_num_tokens(const struct token_trie *trie)
{
    return trie->own.num_tokens;
}

size_t token_trie_mask_words(const struct token_trie *trie)
{
    return ((size_t)trie->own.num_tokens + 31) / 32;
}

const struct trie_nodes *token_trie_nodes(const struct token_trie *trie)
{
    return &trie->nodes;
}

bool token_trie_is_end(const struct token_trie *trie, int32_t id)
{
    for (size_t i = 0; i < trie->own.num_end_ids; i++)
        if (trie->end_ids[i] == id)
            return true;
    return false;
}

const int32_t *token_trie_ends(const struct token_trie *trie, size_t *count)
{
    *count = trie->own.num_end_ids;
    return trie->end_ids;
}

static size_t nodes_bytes(const struct trie_nodes *nodes)
{
    return nodes->num_nodes * sizeof(*nodes->nodes) + nodes->num_ranks * sizeof(*nodes->ids);
}

/* Returns the bytes of all slices. The caller has locked the trie. */
static size_t slices_bytes(const struct token_trie *trie)
{
    size_t bytes = 0;
    for (size_t i = 0; i < trie->num_slices; i++) {
        const struct token_slice *slice = trie->slices[i];
        bytes += sizeof(*slice) + nodes_bytes(&slice->leaving) + (size_t)trie->own.num_tokens +
                 (SLICE_COUNTS + 1) * token_trie_mask_words(trie) * 4 + slice->num_long * 4 +
                 (size_t)slice->num_states * 512;
    }
    return bytes;
}

size_t token_trie_bytes(struct token_trie *trie)
{
    size_t n = (size_t)trie->own.num_tokens;
    size_t bytes = sizeof(*trie) + nodes_bytes(&trie->nodes) + trie->offsets[n] + n * 4;
    pthread_mutex_lock(&trie->lock);
    bytes += slices_bytes(trie);
    pthread_mutex_unlock(&trie->lock);
    return bytes;
}

/* --- slices --- */

/* Runs a loop over the bytes of a token. Returns the number of items that the token begins, or 0 if
 * it leaves the loop. */
static uint32_t count_items(const struct token_slice *slice, const uint8_t *bytes, uint32_t len)
{
    uint32_t state = 0, items = 0;
    for (uint32_t i = 0; i < len; i++) {
        uint16_t next = slice->next[state * 256 + bytes[i]];
        if (next == UINT16_MAX)
            return 0;
        items += state == 0;
        state = next;
    }
    return items;
}

/* Makes the masks by number of items, and the list of long tokens. */
static bool count_masks(const struct token_trie *t, struct token_slice *slice)
{
    size_t words = token_trie_mask_words(t);
    uint32_t first[UINT8_MAX + 2] = {0}; /* place in the list by number of items */
    for (int32_t id = 0; id < t->own.num_tokens; id++) {
        uint32_t items = slice->items[id];
        if (!items)
            continue;
        slice->inside[id / 32] |= 1u << id % 32;
        slice->max_items = items > slice->max_items ? items : slice->max_items;
        if (items <= SLICE_COUNTS)
            slice->inside_most[items - 1][id / 32] |= 1u << id % 32;
        else
            first[items + 1]++;
    }
    for (size_t i = 1; i < SLICE_COUNTS; i++)
        for (size_t k = 0; k < words; k++)
            slice->inside_most[i][k] |= slice->inside_most[i - 1][k];
    for (size_t i = 1; i <= UINT8_MAX + 1; i++)
        first[i] += first[i - 1];
    slice->num_long = first[UINT8_MAX + 1];
    slice->long_ids = dgl_new_array(int32_t, slice->num_long);
    for (int32_t id = 0; slice->long_ids && id < t->own.num_tokens; id++)
        if (slice->items[id] > SLICE_COUNTS)
            slice->long_ids[first[slice->items[id]]++] = id;
    return slice->long_ids;
}

static bool slice_fill(const struct token_trie *t, struct token_slice *slice,
                       struct slice_loop loop)
{
    size_t words = token_trie_mask_words(t), next_bytes = (size_t)loop.num_states * 512;
    int32_t *ids = dgl_new_array(int32_t, t->nodes.num_ranks);
    uint32_t count = 0;
    slice->num_states = loop.num_states;
    slice->next = dgl_malloc(next_bytes);
    slice->inside = dgl_new_array(uint32_t, words);
    slice->items = dgl_new_array(uint8_t, (size_t)t->own.num_tokens);
    bool ok = ids && slice->next && slice->inside && slice->items;
    for (size_t i = 0; i < SLICE_COUNTS; i++) {
        slice->inside_most[i] = dgl_new_array(uint32_t, words);
        ok = ok && slice->inside_most[i];
    }
    if (!ok) {
        free(ids);
        return false;
    }
    memcpy(slice->next, loop.next, next_bytes);
    for (uint32_t rank = 0; rank < t->nodes.num_ranks; rank++) {
        int32_t id = t->nodes.ids[rank];
        uint32_t items = count_items(slice, t->bytes + t->offsets[id], spelling_len(t, id));
        /* A token with more items than the counter has is left to the walk. */
        slice->items[id] = items <= UINT8_MAX ? (uint8_t)items : 0;
        if (!slice->items[id])
            ids[count++] = id;
    }
    /* nodes_build() takes the ids. */
    return nodes_build(t, ids, count, &slice->leaving) && count_masks(t, slice);
}

/* A hash that saves most comparisons of loops. */
static uint64_t loop_hash(struct slice_loop loop)
{
    uint64_t hash = loop.num_states, word;
    for (size_t i = 0; i < (size_t)loop.num_states * 256; i += sizeof(word) / sizeof(*loop.next)) {
        memcpy(&word, loop.next + i, sizeof(word));
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Returns the place of a new slice: a free one, or that of the slice without references that was
 * used least recently. Returns NULL if there is none. */
static struct token_slice **find_place(struct token_trie *trie)
{
    struct token_slice **place = NULL;
    for (size_t i = 0; i < trie->num_slices && trie->num_slices >= KEPT_SLICES; i++)
        if (!trie->slices[i]->refs && (!place || trie->slices[i]->used < (*place)->used))
            place = &trie->slices[i];
    if (!place && (trie->num_slices < KEPT_SLICES ||
                   (trie->num_slices < MAX_SLICES && slices_bytes(trie) < MAX_SLICE_BYTES)))
        place = &trie->slices[trie->num_slices];
    return place;
}

enum dgl_status token_trie_slice(const struct dgl_log *log, struct token_trie *trie,
                                 struct slice_loop loop, uint32_t *may_make,
                                 struct token_slice **out)
{
    enum dgl_status status = DGL_OK;
    const uint64_t hash = loop_hash(loop);
    struct token_slice *slice = NULL, **place;
    *out = NULL;
    pthread_mutex_lock(&trie->lock);
    for (size_t i = 0; i < trie->num_slices && !*out; i++) {
        slice = trie->slices[i];
        if (slice->hash == hash && slice->num_states == loop.num_states &&
            !memcmp(slice->next, loop.next, (size_t)loop.num_states * 512))
            *out = slice;
    }
    if (!*out && *may_make && (place = find_place(trie))) {
        slice = dgl_new(struct token_slice);
        if (slice && slice_fill(trie, slice, loop)) {
            slice->hash = hash;
            slice_destroy(*place);
            trie->num_slices += !*place;
            *out = *place = slice;
            --*may_make;
        } else {
            status = dgl_fail_memory(log, "a slice of a vocabulary",
                                     (SLICE_COUNTS + 1) * token_trie_mask_words(trie) * 4);
            slice_destroy(slice);
        }
    }
    if (*out) {
        (*out)->refs++;
        (*out)->used = ++trie->clock;
    }
    pthread_mutex_unlock(&trie->lock);
    return status;
}

void token_trie_release(struct token_trie *trie, struct token_slice *slice)
{
    pthread_mutex_lock(&trie->lock);
    slice->refs--;
    slice->used = ++trie->clock;
    pthread_mutex_unlock(&trie->lock);
}
