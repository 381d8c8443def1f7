/*
 * BLAKE3 (https://github.com/BLAKE3-team/BLAKE3-specs): a binary tree over chunks of 1024 bytes,
 * each compressed with seven rounds of the BLAKE2s mixing function.
 */
#include "core/base/blake3.h"

#include <stdbool.h>
#include <string.h>

enum { flag_chunk_start = 1, flag_chunk_end = 2, flag_parent = 4, flag_root = 8, rounds = 7 };

static const uint32_t iv[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                               0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

/* Word order of each round: round i applies the specification's permutation i times. */
static const uint8_t schedule[rounds][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

/* Four independent compressions at a time: a vector type that gcc and clang map to SSE2 or NEON. */
enum { num_lanes = 4 };
typedef uint32_t lanes __attribute__((vector_size(4 * num_lanes)));

static inline lanes spread(uint32_t x)
{
    return (lanes){x, x, x, x};
}

static inline lanes rotate_right(lanes x, int n)
{
    return x >> n | x << (32 - n);
}

static inline void mix(lanes s[16], int a, int b, int c, int d, lanes x, lanes y)
{
    s[a] += s[b] + x;
    s[d] = rotate_right(s[d] ^ s[a], 16);
    s[c] += s[d];
    s[b] = rotate_right(s[b] ^ s[c], 12);
    s[a] += s[b] + y;
    s[d] = rotate_right(s[d] ^ s[a], 8);
    s[c] += s[d];
    s[b] = rotate_right(s[b] ^ s[c], 7);
}

static inline void mix_round(lanes s[16], const lanes m[16], const uint8_t order[16])
{
    mix(s, 0, 4, 8, 12, m[order[0]], m[order[1]]);
    mix(s, 1, 5, 9, 13, m[order[2]], m[order[3]]);
    mix(s, 2, 6, 10, 14, m[order[4]], m[order[5]]);
    mix(s, 3, 7, 11, 15, m[order[6]], m[order[7]]);
    mix(s, 0, 5, 10, 15, m[order[8]], m[order[9]]);
    mix(s, 1, 6, 11, 12, m[order[10]], m[order[11]]);
    mix(s, 2, 7, 8, 13, m[order[12]], m[order[13]]);
    mix(s, 3, 4, 9, 14, m[order[14]], m[order[15]]);
}

/* The compression function up to the eight words that a chaining value or a 32-byte digest needs.
 * Lane i belongs to the chunk with the number `counter` + i; `cv` is replaced by the result. */
static void compress_lanes(lanes cv[8], const lanes m[16], uint64_t counter, uint32_t block_len,
                           uint32_t flags)
{
    lanes s[16];
    for (int i = 0; i < 8; i++)
        s[i] = cv[i];
    for (int i = 0; i < 4; i++)
        s[8 + i] = spread(iv[i]);
    s[12] = (lanes){(uint32_t)counter, (uint32_t)(counter + 1), (uint32_t)(counter + 2),
                    (uint32_t)(counter + 3)};
    s[13] = (lanes){(uint32_t)(counter >> 32), (uint32_t)((counter + 1) >> 32),
                    (uint32_t)((counter + 2) >> 32), (uint32_t)((counter + 3) >> 32)};
    s[14] = spread(block_len);
    s[15] = spread(flags);
#pragma GCC unroll 7
    for (int i = 0; i < rounds; i++)
        mix_round(s, m, schedule[i]);
    for (int i = 0; i < 8; i++)
        cv[i] = s[i] ^ s[i + 8];
}

/* Runs one compression, in the first lane. Used for parent nodes and for the end of the input. */
static void compress(const uint32_t cv[8], const uint32_t m[16], uint64_t counter,
                     uint32_t block_len, uint32_t flags, uint32_t out[8])
{
    lanes state[8], words[16];
    for (int i = 0; i < 8; i++)
        state[i] = spread(cv[i]);
    for (int i = 0; i < 16; i++)
        words[i] = spread(m[i]);
    compress_lanes(state, words, counter, block_len, flags);
    for (int i = 0; i < 8; i++)
        out[i] = state[i][0];
}

static inline uint32_t load_word(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/* Computes the chaining values of num_lanes complete chunks. The last chunk must not be among
 * them. */
static void hash_chunks(const uint8_t *bytes, uint64_t first, uint32_t out[num_lanes][8])
{
    lanes cv[8], m[16];
    for (int i = 0; i < 8; i++)
        cv[i] = spread(iv[i]);
    for (size_t at = 0; at < blake3_chunk_bytes; at += blake3_block_bytes) {
        uint32_t flags = at == 0 ? flag_chunk_start : 0;
        if (at == blake3_chunk_bytes - blake3_block_bytes)
            flags |= flag_chunk_end;
        for (size_t i = 0; i < 16; i++) {
            const uint8_t *word = bytes + at + 4 * i;
            m[i] = (lanes){load_word(word), load_word(word + blake3_chunk_bytes),
                           load_word(word + 2 * blake3_chunk_bytes),
                           load_word(word + 3 * blake3_chunk_bytes)};
        }
        compress_lanes(cv, m, first, blake3_block_bytes, flags);
    }
    for (int lane = 0; lane < num_lanes; lane++) {
        for (int i = 0; i < 8; i++)
            out[lane][i] = cv[i][lane];
    }
}

static void start_chunk(struct blake3 *hash, uint64_t number)
{
    memcpy(hash->cv, iv, sizeof(hash->cv));
    memset(hash->block, 0, sizeof(hash->block));
    hash->chunk = number;
    hash->block_len = 0;
    hash->blocks_done = 0;
}

void blake3_init(struct blake3 *hash)
{
    hash->stack_len = 0;
    start_chunk(hash, 0);
}

static void compress_block(struct blake3 *hash, const uint8_t *block, uint32_t flags,
                           uint32_t out[8])
{
    uint32_t m[16];
    for (int i = 0; i < 16; i++)
        m[i] = load_word(block + 4 * i);
    if (hash->blocks_done == 0)
        flags |= flag_chunk_start;
    compress(hash->cv, m, hash->chunk, (uint32_t)hash->block_len, flags, out);
}

static void merge(const uint32_t left[8], const uint32_t right[8], uint32_t flags, uint32_t out[8])
{
    uint32_t m[16];
    memcpy(m, left, 8 * sizeof(*m));
    memcpy(m + 8, right, 8 * sizeof(*m));
    compress(iv, m, 0, blake3_block_bytes, flag_parent | flags, out);
}

/* Merges a complete chunk into the tree. Each trailing zero bit of the chunk count completes one
 * subtree. */
static void add_chunk(struct blake3 *hash, uint32_t cv[8])
{
    uint64_t total = hash->chunk + 1;
    for (uint64_t left = total; (left & 1) == 0; left >>= 1)
        merge(hash->stack[--hash->stack_len], cv, 0, cv);
    memcpy(hash->stack[hash->stack_len++], cv, sizeof(hash->stack[0]));
    start_chunk(hash, total);
}

/* A full block is compressed only when more input follows: the last block of the input needs other
 * flags. */
static void make_room(struct blake3 *hash)
{
    uint32_t cv[8];
    if (hash->block_len < blake3_block_bytes)
        return;
    if (hash->blocks_done < blake3_chunk_bytes / blake3_block_bytes - 1) {
        compress_block(hash, hash->block, 0, hash->cv);
        hash->blocks_done++;
        hash->block_len = 0;
    } else {
        compress_block(hash, hash->block, flag_chunk_end, cv);
        add_chunk(hash, cv);
    }
}

void blake3_update(struct blake3 *hash, const void *bytes, size_t len)
{
    enum { stride = num_lanes * blake3_chunk_bytes };
    const uint8_t *p = bytes;
    while (len) {
        make_room(hash);
        bool at_chunk_start = hash->block_len == 0 && hash->blocks_done == 0;
        if (at_chunk_start && len > stride) {
            uint32_t cvs[num_lanes][8];
            hash_chunks(p, hash->chunk, cvs);
            for (int i = 0; i < num_lanes; i++)
                add_chunk(hash, cvs[i]);
            p += stride;
            len -= stride;
            continue;
        }
        size_t take = blake3_block_bytes - hash->block_len;
        if (take > len)
            take = len;
        memcpy(hash->block + hash->block_len, p, take);
        hash->block_len += take;
        p += take;
        len -= take;
    }
}

void blake3_final(struct blake3 *hash, uint8_t out[32])
{
    uint32_t cv[8];
    size_t depth = hash->stack_len;
    memset(hash->block + hash->block_len, 0, blake3_block_bytes - hash->block_len);
    compress_block(hash, hash->block, flag_chunk_end | (depth ? 0 : flag_root), cv);
    while (depth--)
        merge(hash->stack[depth], cv, depth ? 0 : flag_root, cv);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(cv[i / 4] >> 8 * (i % 4));
}
