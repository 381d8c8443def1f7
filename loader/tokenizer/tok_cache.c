/* Cache of merged words: one word per slot, by hash. */
#include "loader/tokenizer/tok_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/text/tok_hash.h"

enum { num_places = 4096, words_before = 256, shortest = 3 };

void tok_cache_finish(struct tok_cache *cache)
{
    free(cache->entries);
    *cache = (struct tok_cache){0};
}

struct tok_cache_entry *tok_cache_place(struct tok_cache *cache, const int32_t *symbols,
                                        size_t count)
{
    if (count < shortest || count > TOK_CACHE_SYMBOLS)
        return NULL;
    if (!cache->entries) {
        if (cache->words++ != words_before)
            return NULL;
        cache->entries = dgl_new_array(struct tok_cache_entry, num_places);
        if (!cache->entries)
            return NULL;
    }
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint32_t)symbols[i]) * 0xFF51AFD7ED558CCDu;
    return &cache->entries[tok_hash_u64(hash) & (num_places - 1)];
}

bool tok_cache_has(const struct tok_cache_entry *entry, const int32_t *symbols, size_t count)
{
    return entry->num_symbols == count &&
           memcmp(entry->symbols, symbols, count * sizeof(*symbols)) == 0;
}

void tok_cache_begin(struct tok_cache_entry *entry, const int32_t *symbols, size_t count)
{
    memcpy(entry->symbols, symbols, count * sizeof(*symbols));
    entry->num_symbols = (uint8_t)count;
    entry->num_ids = 0;
}

void tok_cache_set_ids(struct tok_cache_entry *entry, const int32_t *ids, size_t count)
{
    if (count > TOK_CACHE_IDS) {
        entry->num_symbols = 0;
        return;
    }
    memcpy(entry->ids, ids, count * sizeof(*ids));
    entry->num_ids = (uint8_t)count;
}
