/* BLAKE3 in its plain hash mode, 32 bytes of output. Internal to core/base; use hash.h. */
#ifndef DGL_BASE_BLAKE3_H
#define DGL_BASE_BLAKE3_H

#include <stddef.h>
#include <stdint.h>

enum { blake3_block_bytes = 64, blake3_chunk_bytes = 1024, blake3_max_depth = 54 };

struct blake3 {
    /* Current chunk: chaining value, number, buffered bytes, and number of compressed blocks. */
    uint32_t cv[8];
    uint64_t chunk;
    uint8_t block[blake3_block_bytes];
    size_t block_len, blocks_done;
    /* Chaining values of complete left subtrees, largest first. 2^64 bytes of input are 2^54
     * chunks. */
    uint32_t stack[blake3_max_depth][8];
    size_t stack_len;
};

void blake3_init(struct blake3 *hash);
void blake3_update(struct blake3 *hash, const void *bytes, size_t len);
void blake3_final(struct blake3 *hash, uint8_t out[32]);

#endif
