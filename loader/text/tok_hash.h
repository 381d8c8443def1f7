/*
 * tok_hash.h: the hash functions of the tokenizer's tables. Each table has its own seed, so that a
 * file cannot contain keys that collide.
 */
#ifndef DGL_LOADER_TOK_HASH_H
#define DGL_LOADER_TOK_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/clock.h"

/* Spreads a key over all bits (the finaliser of splitmix64). */
static inline uint64_t tok_hash_u64(uint64_t key)
{
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9u;
    key = (key ^ key >> 27) * 0x94D049BB133111EBu;
    return key ^ key >> 31;
}

/* Returns a seed that the author of a file cannot predict. */
static inline uint64_t tok_hash_new_seed(void)
{
    return tok_hash_u64(dgl_now_ns());
}

/* Hashes eight bytes at a time. The value depends on the byte order of the machine and is never
 * stored. */
static inline uint64_t tok_hash_bytes(const char *bytes, size_t len, uint64_t seed)
{
    uint64_t hash = seed ^ len, part;
    for (; len >= 8; bytes += 8, len -= 8) {
        memcpy(&part, bytes, 8);
        hash = tok_hash_u64(hash ^ part);
    }
    part = 0;
    for (size_t i = 0; i < len; i++)
        part = part << 8 | (unsigned char)bytes[i];
    return tok_hash_u64(hash ^ part);
}

#endif
