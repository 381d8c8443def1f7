/* tok_cache.h: cache of the ids of words. Words repeat, and a lookup costs less than the random
 * reads of the merges. A cache belongs to one call. */
#ifndef DGL_LOADER_TOK_CACHE_H
#define DGL_LOADER_TOK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOK_CACHE_SYMBOLS = 13, TOK_CACHE_IDS = 5 };

/* One word: its first symbols and its ids. */
struct tok_cache_entry {
    uint8_t num_symbols; /* 0 = empty */
    uint8_t num_ids;
    int32_t symbols[TOK_CACHE_SYMBOLS], ids[TOK_CACHE_IDS];
};

/* `{0}` is valid. The cache allocates memory after the first words of a text. */
struct tok_cache {
    struct tok_cache_entry *entries;
    size_t words; /* words seen before the allocation */
};
void tok_cache_finish(struct tok_cache *cache);

/* Returns the slot of a word. Returns NULL if the word is not cached or there is no memory for a
 * cache. */
struct tok_cache_entry *tok_cache_place(struct tok_cache *cache, const int32_t *symbols,
                                        size_t count);
bool tok_cache_has(const struct tok_cache_entry *entry, const int32_t *symbols, size_t count);
/* Replaces the word of a slot. The caller then sets its ids with tok_cache_set_ids(). */
void tok_cache_begin(struct tok_cache_entry *entry, const int32_t *symbols, size_t count);
void tok_cache_set_ids(struct tok_cache_entry *entry, const int32_t *ids, size_t count);

#endif
