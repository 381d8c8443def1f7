/* Packing: a row keeps the order of the file, or has its blocks' fields in planes. */
#include "core/memory/repack.h"

#include <assert.h>
#include <string.h>

/* Rearranges a block of the file as the planes of its layout expect it (docs/operations.md). */
typedef void arrange_fn(const uint8_t *block, uint8_t *arranged);

#define MAX_BLOCK_BYTES 256

/* Bit 4 w + b of a word becomes bit 8 b + w. So the bits of columns 4 w to 4 w + 3 are in the four
 * bytes of the word. */
static uint32_t spread_fifths(const uint8_t *from)
{
    uint32_t bits = (uint32_t)(from[0] | from[1] << 8 | from[2] << 16) | (uint32_t)from[3] << 24;
    uint32_t spread = 0;
    for (uint32_t b = 0; b < 4; b++) {
        uint32_t each = bits >> b & 0x11111111u;
        each = (each | each >> 3) & 0x03030303u;
        each = (each | each >> 6) & 0x000F000Fu;
        spread |= (each | each >> 12) << 24 >> (24 - 8 * b);
    }
    return spread;
}

static void arrange_q5_0(const uint8_t *block, uint8_t *arranged)
{
    const uint32_t fifths = spread_fifths(block + 2);
    memcpy(arranged, block, 22);
    memcpy(arranged + 2, &fifths, 4);
}

/* Groups 2r and 2r + 1 of a block are the low and the high nibbles of bytes 32 r to 32 r + 31. A
 * group's values i and i + 16 become the nibbles of one byte. Works on 8 bytes at a time. */
static void q4_k_codes(const uint8_t *from, uint8_t *to)
{
    const uint64_t low = UINT64_C(0x0F0F0F0F0F0F0F0F);
    for (uint32_t r = 0; r < 4; r++, from += 32, to += 32) {
        uint64_t in[4], out[4];
        memcpy(in, from, 32);
        for (uint32_t i = 0; i < 2; i++) {
            out[i] = (in[i] & low) | (in[i + 2] & low) << 4;
            out[i + 2] = (in[i] >> 4 & low) | (in[i + 2] & ~low);
        }
        memcpy(to, out, 32);
    }
}

/* Converts to d, dmin, eight bytes of sc and the lower two bits of m, and nibbles of the upper four
 * bits of m. In the file the upper two bits of sc and m of groups 4 to 7 are in the bytes of groups
 * 0 to 3. */
static void q4_k_head(const uint8_t *from, uint8_t *to)
{
    const uint8_t *a = from + 4, *b = from + 8, *c = from + 12;
    memcpy(to, from, 4);
    for (uint32_t g = 0; g < 4; g++) {
        to[4 + g] = (uint8_t)((a[g] & 63) | b[g] << 6);
        to[8 + g] = (uint8_t)((c[g] & 15) | (a[g] >> 6) << 4 | (c[g] >> 4) << 6);
        to[12 + g] = (uint8_t)((b[g] >> 2 & 15) | (c[g] >> 6 | b[g] >> 6 << 2) << 4);
    }
}

static void arrange_q4_k(const uint8_t *block, uint8_t *arranged)
{
    q4_k_head(block, arranged);
    q4_k_codes(block + 16, arranged + 16);
}

static void arrange_q5_1(const uint8_t *block, uint8_t *arranged)
{
    const uint32_t fifths = spread_fifths(block + 4);
    memcpy(arranged, block, 24);
    memcpy(arranged + 4, &fifths, 4);
}

/* Low bits, third bits, scales, d and two bytes of zeros. */
static void arrange_q3_k(const uint8_t *block, uint8_t *arranged)
{
    memcpy(arranged, block + 32, 64);
    memcpy(arranged + 64, block, 32);
    memcpy(arranged + 96, block + 96, 14);
    memset(arranged + 110, 0, 2);
}

static arrange_fn *const arrange[DGL_DTYPE_COUNT] = {
    [DGL_Q5_0] = arrange_q5_0,
    [DGL_Q5_1] = arrange_q5_1,
    [DGL_Q3_K] = arrange_q3_k,
    [DGL_Q4_K] = arrange_q4_k,
};

void repack_row(const struct weight_layout *layout, const void *src, uint64_t cols, uint32_t *dst)
{
    const struct dgl_dtype_traits *t = dgl_dtype_get(layout->dtype);
    const uint64_t blocks = (cols + t->block - 1) / t->block, bytes = blocks * t->block_bytes;
    const struct weight_plane *planes = layout->planes;
    const uint8_t *block = src;
    uint8_t arranged[MAX_BLOCK_BYTES], *to[WEIGHT_MAX_PLANES];
    uint64_t words = 0;
    bool fits = weight_layout_stride(layout, cols, &words);
    assert(fits && words > 0);
    (void)fits;
    dst[words - 1] = 0;
    if (planes[0].bytes == 0) {
        /* The device reads words as little-endian, like the files. All supported hosts are
         * little-endian too. */
        memcpy(dst, src, (size_t)bytes);
        return;
    }
    memset(dst + (words - WEIGHT_SPLIT_BYTES / 4), 0, WEIGHT_SPLIT_BYTES);
    to[0] = (uint8_t *)dst;
    for (int p = 1; p < WEIGHT_MAX_PLANES; p++)
        to[p] = to[p - 1] + blocks * planes[p - 1].bytes;
    for (uint64_t b = 0; b < blocks; b++, block += t->block_bytes) {
        const uint8_t *from = block;
        if (arrange[layout->dtype]) {
            arrange[layout->dtype](block, arranged);
            from = arranged;
        }
        for (int p = 0; p < WEIGHT_MAX_PLANES; p++) {
            memcpy(to[p], from + planes[p].at, planes[p].bytes);
            to[p] += planes[p].bytes;
        }
    }
}
