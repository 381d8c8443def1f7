/* Q4_K: packing of the codes of a block, rows of blocks. The search for good codes is in
 * q4_k_search.c. */
#include "loader/quant_block.h"

#include <string.h>

#include "loader/quant.h"

/* Bytes 4..15 hold the 6-bit codes: sub-blocks 0..3 in the low six bits of bytes 0..3 (sc) and
 * 4..7 (m); sub-blocks 4..7 with their low four bits in bytes 8..11 (sc low nibble, m high) and
 * the top two above those of 0..3. */
void q4_k_pack(const struct q4_k_codes *codes, uint8_t dst[Q4_K_BYTES])
{
    uint8_t *packed = dst + 4, *nibbles = dst + 16;
    store_u16(dst, codes->d);
    store_u16(dst + 2, codes->dmin);
    for (int j = 0; j < 4; j++) {
        const uint8_t *sc = codes->sc, *m = codes->m;
        packed[j] = (uint8_t)(sc[j] | (sc[j + 4] >> 4) << 6);
        packed[j + 4] = (uint8_t)(m[j] | (m[j + 4] >> 4) << 6);
        packed[j + 8] = (uint8_t)((sc[j + 4] & 15) | (m[j + 4] & 15) << 4);
    }
    for (int c = 0; c < 4; c++) {
        const uint8_t *q = codes->q + 64 * c;
        for (int i = 0; i < 32; i++)
            nibbles[32 * c + i] = (uint8_t)(q[i] | q[i + 32] << 4);
    }
}

void q4_k_unpack(const uint8_t src[Q4_K_BYTES], struct q4_k_codes *codes)
{
    const uint8_t *packed = src + 4, *nibbles = src + 16;
    codes->d = load_u16(src);
    codes->dmin = load_u16(src + 2);
    for (int j = 0; j < 4; j++) {
        codes->sc[j] = packed[j] & 63;
        codes->m[j] = packed[j + 4] & 63;
        codes->sc[j + 4] = (uint8_t)((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
        codes->m[j + 4] = (uint8_t)(packed[j + 8] >> 4 | (packed[j + 4] >> 6) << 4);
    }
    for (int c = 0; c < 4; c++) {
        for (int i = 0; i < 32; i++) {
            codes->q[64 * c + i] = nibbles[32 * c + i] & 15;
            codes->q[64 * c + 32 + i] = nibbles[32 * c + i] >> 4;
        }
    }
}

void q4_k_row_decode(const uint8_t *src, uint64_t cols, float *dst)
{
    for (uint64_t i = 0; i < cols; i += Q4_K_VALUES, src += Q4_K_BYTES) {
        struct q4_k_codes codes;
        q4_k_unpack(src, &codes);
        float d = dgl_f16_to_f32(codes.d), dmin = dgl_f16_to_f32(codes.dmin);
        uint64_t count = cols - i < Q4_K_VALUES ? cols - i : Q4_K_VALUES;
        for (uint64_t v = 0; v < count; v++) {
            float scale = d * codes.sc[v / Q4_K_SUB], min = dmin * codes.m[v / Q4_K_SUB];
            dst[i + v] = scale * codes.q[v] - min;
        }
    }
}

void q4_k_row_encode(const float *src, uint64_t cols, uint8_t *dst)
{
    for (uint64_t i = 0; i < cols; i += Q4_K_VALUES, dst += Q4_K_BYTES) {
        size_t count = cols - i < Q4_K_VALUES ? (size_t)(cols - i) : Q4_K_VALUES;
        struct q4_k_codes codes;
        float x[Q4_K_VALUES] = {0};
        memcpy(x, src + i, count * sizeof(*x));
        q4_k_search(x, count, &codes);
        q4_k_pack(&codes, dst);
    }
}
