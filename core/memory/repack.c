/* Packing: a row keeps the order of the file, or has its codes first and then its scales. Codes and
 * scales of q4_k are converted to groups of 32 values (docs/operations.md, layout split). */
#include "core/memory/repack.h"

#include <assert.h>
#include <string.h>

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

void repack_row(const struct weight_layout *layout, const void *src, uint64_t cols, uint32_t *dst)
{
    uint64_t words = 0, bytes = 0;
    bool fits = weight_layout_stride(layout, cols, &words);
    assert(fits);
    (void)fits;
    if (layout->values == 0) {
        /* The device reads words as little-endian, like the files. All supported hosts are
         * little-endian too. */
        dgl_dtype_row_bytes(layout->dtype, cols, &bytes);
        if (bytes % 4 != 0)
            dst[bytes / 4] = 0;
        memcpy(dst, src, (size_t)bytes);
        return;
    }
    uint64_t padded = (cols + WEIGHT_SPLIT_COLS - 1) / WEIGHT_SPLIT_COLS * WEIGHT_SPLIT_COLS;
    const uint8_t *block = src;
    uint8_t *codes = (uint8_t *)dst;
    uint8_t *scales = codes + padded / layout->values * layout->code_bytes;
    memset(dst, 0, (size_t)words * 4);
    for (uint64_t first = 0; first < cols; first += layout->values, block += layout->bytes) {
        uint64_t left = cols - first, size = layout->code_bytes;
        /* One-byte codes end with the row. Padding of the last block in the file is not copied. */
        if (size == layout->values && left < size)
            size = left;
        if (layout->dtype == DGL_Q4_K) {
            q4_k_codes(block + layout->codes_at, codes);
            q4_k_head(block + layout->scale_at, scales);
        } else {
            memcpy(codes, block + layout->codes_at, (size_t)size);
            memcpy(scales, block + layout->scale_at, layout->scale_bytes);
        }
        codes += layout->code_bytes;
        scales += layout->scale_bytes;
    }
}
