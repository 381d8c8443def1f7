/* The k-quants: decoding, and packing of the codes that the search finds. */
#include <string.h>

#include "loader/quant/quant.h"
#include "loader/quant/quant_block.h"

/* ---- q4_k, q5_k: f16 d, f16 dmin, 12 bytes of 6-bit codes, [32 bytes of fifth bits,] 128 bytes of
 * nibbles ---- */

/* Sub-blocks 0..3 are in the low six bits of bytes 0..3 (sc) and 4..7 (m). Sub-blocks 4..7 have
 * their low four bits in bytes 8..11 (sc low nibble, m high) and the top two above those of
 * 0..3. */
static void head_pack(const struct k_codes *codes, uint8_t *dst)
{
    uint8_t *packed = dst + 4;
    store_u16(dst, codes->d);
    store_u16(dst + 2, codes->dmin);
    for (int j = 0; j < 4; j++) {
        const int8_t *sc = codes->sc, *m = codes->m;
        packed[j] = (uint8_t)(sc[j] | (sc[j + 4] >> 4) << 6);
        packed[j + 4] = (uint8_t)(m[j] | (m[j + 4] >> 4) << 6);
        packed[j + 8] = (uint8_t)((sc[j + 4] & 15) | (m[j + 4] & 15) << 4);
    }
}

static void head_unpack(const uint8_t *src, struct k_codes *codes)
{
    const uint8_t *packed = src + 4;
    codes->d = load_u16(src);
    codes->dmin = load_u16(src + 2);
    for (int j = 0; j < 4; j++) {
        codes->sc[j] = packed[j] & 63;
        codes->m[j] = packed[j + 4] & 63;
        codes->sc[j + 4] = (int8_t)((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
        codes->m[j + 4] = (int8_t)(packed[j + 8] >> 4 | (packed[j + 4] >> 6) << 4);
    }
}

/* Bytes 32 c .. 32 c + 31 have the low four bits of sub-blocks 2 c and 2 c + 1. */
static void nibbles_pack(const int8_t *q, uint8_t *dst)
{
    for (int i = 0; i < K_VALUES / 2; i++) {
        const int8_t *pair = q + i / K_SUB * 2 * K_SUB + i % K_SUB;
        dst[i] = (uint8_t)((pair[0] & 15) | (pair[K_SUB] & 15) << 4);
    }
}

static void nibbles_unpack(const uint8_t *src, int8_t *q)
{
    for (int i = 0; i < K_VALUES / 2; i++) {
        int8_t *pair = q + i / K_SUB * 2 * K_SUB + i % K_SUB;
        pair[0] = src[i] & 15;
        pair[K_SUB] = src[i] >> 4;
    }
}

void q4_k_pack(const struct k_codes *codes, uint8_t *dst)
{
    head_pack(codes, dst);
    nibbles_pack(codes->q, dst + 16);
}

void q4_k_unpack(const uint8_t *src, struct k_codes *codes)
{
    head_unpack(src, codes);
    nibbles_unpack(src + 16, codes->q);
}

/* Bit s of the i-th byte of fifth bits belongs to value i of sub-block s. */
void q5_k_pack(const struct k_codes *codes, uint8_t *dst)
{
    head_pack(codes, dst);
    nibbles_pack(codes->q, dst + 16 + K_SUB);
    for (int i = 0; i < K_SUB; i++) {
        unsigned bits = 0;
        for (int s = 0; s < K_SUBS; s++)
            bits |= (unsigned)codes->q[K_SUB * s + i] >> 4 << s;
        dst[16 + i] = (uint8_t)bits;
    }
}

void q5_k_unpack(const uint8_t *src, struct k_codes *codes)
{
    head_unpack(src, codes);
    nibbles_unpack(src + 16 + K_SUB, codes->q);
    for (int i = 0; i < K_VALUES; i++)
        codes->q[i] |= (int8_t)((src[16 + i % K_SUB] >> i / K_SUB & 1) << 4);
}

static void codes_decode(const struct k_codes *codes, float *dst)
{
    float d = dgl_f16_to_f32(codes->d), dmin = dgl_f16_to_f32(codes->dmin);
    for (int i = 0; i < K_VALUES; i++) {
        float scale = d * codes->sc[i / K_SUB], min = dmin * codes->m[i / K_SUB];
        dst[i] = scale * codes->q[i] - min;
    }
}

void q4_k_decode(const uint8_t *src, float *dst)
{
    struct k_codes codes;
    q4_k_unpack(src, &codes);
    codes_decode(&codes, dst);
}

void q4_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    struct k_codes codes;
    quant_k_search(K_Q4, x, count, effort, &codes);
    q4_k_pack(&codes, dst);
}

void q5_k_decode(const uint8_t *src, float *dst)
{
    struct k_codes codes;
    q5_k_unpack(src, &codes);
    codes_decode(&codes, dst);
}

void q5_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    struct k_codes codes;
    quant_k_search(K_Q5, x, count, effort, &codes);
    q5_k_pack(&codes, dst);
}

/* ---- q2_k, q3_k, q6_k: 16 sub-blocks of 16 values ---- */

/* Two bits of value i: 32 bytes for each half of the block, values 32 apart in one byte. */
static unsigned two_bits_at(const uint8_t *bytes, unsigned i)
{
    return (unsigned)bytes[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3u;
}

static void two_bits_put(uint8_t *bytes, unsigned i, unsigned bits)
{
    bytes[i / 128 * 32 + i % 32] |= (uint8_t)(bits << i / 32 % 4 * 2);
}

/* 16 bytes of 4-bit scale and minimum, 64 bytes of codes, f16 d, f16 dmin. */
void q2_k_decode(const uint8_t *src, float *dst)
{
    float d = dgl_f16_to_f32(load_u16(src + 80)), dmin = dgl_f16_to_f32(load_u16(src + 82));
    for (unsigned i = 0; i < K_VALUES; i++) {
        float scale = d * (float)(src[i / 16] & 15), min = dmin * (float)(src[i / 16] >> 4);
        dst[i] = scale * (float)two_bits_at(src + 16, i) - min;
    }
}

void q2_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    struct k_codes codes;
    quant_k_search(K_Q2, x, count, effort, &codes);
    memset(dst, 0, 80);
    for (unsigned s = 0; s < K_MAX_SUBS; s++)
        dst[s] = (uint8_t)(codes.sc[s] | codes.m[s] << 4);
    for (unsigned i = 0; i < K_VALUES; i++)
        two_bits_put(dst + 16, i, (unsigned)codes.q[i]);
    store_u16(dst + 80, codes.d);
    store_u16(dst + 82, codes.dmin);
}

/* 32 bytes of third bits (clear: 4 less), 64 bytes of codes, 12 bytes of 6-bit scales less 32, f16
 * d. */
void q3_k_decode(const uint8_t *src, float *dst)
{
    const uint8_t *scales = src + 96;
    float d = dgl_f16_to_f32(load_u16(src + 108));
    for (unsigned i = 0; i < K_VALUES; i++) {
        unsigned s = i / 16, low = (unsigned)scales[s % 8] >> s / 8 * 4 & 15u;
        unsigned high = (unsigned)scales[8 + s % 4] >> s / 4 * 2 & 3u;
        unsigned code = two_bits_at(src + 32, i) | ((unsigned)src[i % 32] >> i / 32 & 1u) << 2;
        float scale = d * (float)((int)(low | high << 4) - 32);
        dst[i] = scale * (float)((int)code - 4);
    }
}

void q3_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    struct k_codes codes;
    uint8_t *scales = dst + 96;
    quant_k_search(K_Q3, x, count, effort, &codes);
    memset(dst, 0, 108);
    for (unsigned s = 0; s < K_MAX_SUBS; s++) {
        const unsigned sc = (unsigned)(codes.sc[s] + 32);
        scales[s % 8] |= (uint8_t)((sc & 15u) << s / 8 * 4);
        scales[8 + s % 4] |= (uint8_t)(sc >> 4 << s / 4 * 2);
    }
    for (unsigned i = 0; i < K_VALUES; i++) {
        const unsigned q = (unsigned)(codes.q[i] + 4);
        two_bits_put(dst + 32, i, q & 3u);
        dst[i % 32] |= (uint8_t)(q >> 2 << i / 32);
    }
    store_u16(dst + 108, codes.d);
}

/* 128 bytes of nibbles, 64 bytes of the upper two bits, 16 int8 scales, f16 d. */
void q6_k_decode(const uint8_t *src, float *dst)
{
    float d = dgl_f16_to_f32(load_u16(src + 208));
    for (unsigned i = 0; i < K_VALUES; i++) {
        unsigned low = (unsigned)src[i / 128 * 64 + i % 64] >> i / 64 % 2 * 4 & 15u;
        float scale = d * (float)(int8_t)src[192 + i / 16];
        dst[i] = scale * (float)((int)(low | two_bits_at(src + 128, i) << 4) - 32);
    }
}

void q6_k_pack(const struct k_codes *codes, uint8_t *dst)
{
    memset(dst, 0, 192);
    for (unsigned i = 0; i < K_VALUES; i++) {
        unsigned q = (unsigned)(codes->q[i] + 32);
        dst[i / 128 * 64 + i % 64] |= (uint8_t)((q & 15u) << i / 64 % 2 * 4);
        dst[128 + i / 128 * 32 + i % 32] |= (uint8_t)(q >> 4 << i / 32 % 4 * 2);
    }
    memcpy(dst + 192, codes->sc, sizeof(codes->sc));
    store_u16(dst + 208, codes->d);
}

void q6_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    struct k_codes codes;
    quant_k_search(K_Q6, x, count, effort, &codes);
    q6_k_pack(&codes, dst);
}
