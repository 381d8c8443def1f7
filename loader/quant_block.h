/* The block codecs behind quant.h: one row of a matrix at a time, last block padded. Inside
 * loader/ only. */
#ifndef DGL_LOADER_QUANT_BLOCK_H
#define DGL_LOADER_QUANT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define Q8_0_VALUES 32 /* per block: f16 d, 32 int8; w = d * q */
#define Q8_0_BYTES  34

#define Q4_K_VALUES                                                                                \
    256 /* per block: f16 d, f16 dmin, 12 bytes of 6-bit codes, 128 bytes of 4-bit codes */
#define Q4_K_BYTES 144
#define Q4_K_SUBS  8 /* sub-blocks of 32 values: w = d * sc * q - dmin * m */
#define Q4_K_SUB   32

/* A block before packing. `d` and `dmin` are f16 bits of values >= 0. */
struct q4_k_codes {
    uint16_t d, dmin;
    uint8_t sc[Q4_K_SUBS], m[Q4_K_SUBS]; /* 0..63 */
    uint8_t q[Q4_K_VALUES];              /* 0..15 */
};
void q4_k_pack(const struct q4_k_codes *codes, uint8_t dst[Q4_K_BYTES]);
void q4_k_unpack(const uint8_t src[Q4_K_BYTES], struct q4_k_codes *codes);

/* Finds codes with a small squared error for the first `count` of 256 finite values; those
 * beyond are 0. */
void q4_k_search(const float x[Q4_K_VALUES], size_t count, struct q4_k_codes *codes);

void q4_k_row_decode(const uint8_t *src, uint64_t cols, float *dst);
void q4_k_row_encode(const float *src, uint64_t cols, uint8_t *dst);
void q8_0_row_decode(const uint8_t *src, uint64_t cols, float *dst);
void q8_0_row_encode(const float *src, uint64_t cols, uint8_t *dst);

static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline void store_u16(uint8_t *p, uint16_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

#endif
