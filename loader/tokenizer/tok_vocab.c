/* The vocabulary: one block of text, a table by id and a hash table by token. */
#include "loader/tokenizer/tok_vocab.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/text/tok_hash.h"

#define HASH_MASK 0xFFFFFFFF00000000u

static int32_t slot_id(uint64_t slot)
{
    return (int32_t)(uint32_t)slot - 1;
}

/* Returns the slot of a token, or the free slot where it belongs. */
static size_t find_slot(const struct tok_vocab *vocab, const char *token, size_t len, uint64_t hash)
{
    size_t mask = vocab->num_slots - 1, at = hash & mask;
    for (;; at = (at + 1) & mask) {
        uint64_t slot = vocab->slots[at];
        if (!slot)
            return at;
        const struct tok_vocab_entry *e = &vocab->entries[slot_id(slot)];
        if (((slot ^ hash) & HASH_MASK) == 0 && e->len == len &&
            (len == 0 || memcmp(vocab->text.p + e->offset, token, len) == 0))
            return at;
    }
}

static void put_slot(struct tok_vocab *vocab, int32_t id)
{
    struct dgl_str token = {0};
    tok_vocab_token(vocab, id, &token);
    uint64_t hash = tok_hash_bytes(token.p, token.len, vocab->seed);
    vocab->slots[find_slot(vocab, token.p, token.len, hash)] =
        (hash & HASH_MASK) | (uint32_t)(id + 1);
}

bool tok_vocab_reserve(struct tok_vocab *vocab, size_t count)
{
    size_t want = 64;
    while (want < 2 * count)
        want *= 2;
    if (want <= vocab->num_slots)
        return true;
    uint64_t *slots = dgl_new_array(uint64_t, want);
    if (!slots)
        return false;
    free(vocab->slots);
    vocab->slots = slots;
    vocab->num_slots = want;
    vocab->seed = tok_hash_new_seed();
    for (size_t id = 0; id < vocab->num_entries; id++)
        if (vocab->entries[id].present)
            put_slot(vocab, (int32_t)id);
    return true;
}

bool tok_vocab_add(struct tok_vocab *vocab, struct dgl_str token, int32_t id)
{
    size_t need = (size_t)id + 1;
    if (!tok_vocab_reserve(vocab, vocab->count + 1) || token.len > UINT32_MAX)
        return false;
    if (need > vocab->num_entries) {
        if (!dgl_grow((void **)&vocab->entries, &vocab->cap_entries, need, sizeof(*vocab->entries)))
            return false;
        memset(vocab->entries + vocab->num_entries, 0,
               (need - vocab->num_entries) * sizeof(*vocab->entries));
        vocab->num_entries = need;
    }
    size_t offset = vocab->text.len;
    dgl_buf_append(&vocab->text, token.p, token.len);
    if (vocab->text.failed)
        return false;
    vocab->entries[id] = (struct tok_vocab_entry){offset, (uint32_t)token.len, true};
    put_slot(vocab, id);
    vocab->count++;
    return true;
}

int32_t tok_vocab_find(const struct tok_vocab *vocab, const char *token, size_t len)
{
    if (vocab->num_slots == 0)
        return -1;
    uint64_t hash = tok_hash_bytes(token, len, vocab->seed);
    uint64_t slot = vocab->slots[find_slot(vocab, token, len, hash)];
    return slot ? slot_id(slot) : -1;
}

bool tok_vocab_token(const struct tok_vocab *vocab, int32_t id, struct dgl_str *out)
{
    if (id < 0 || (size_t)id >= vocab->num_entries || !vocab->entries[id].present)
        return false;
    const struct tok_vocab_entry *e = &vocab->entries[id];
    *out = (struct dgl_str){e->len ? vocab->text.p + e->offset : "", e->len};
    return true;
}

void tok_vocab_finish(struct tok_vocab *vocab)
{
    dgl_buf_finish(&vocab->text);
    free(vocab->entries);
    free(vocab->slots);
    *vocab = (struct tok_vocab){0};
}
