/* The block codecs of quant.c: one whole block at a time. Encoders use the first `count`
 * values; the others are 0. Inside loader/ only. */
#ifndef DGL_LOADER_QUANT_BLOCK_H
#define DGL_LOADER_QUANT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_BLOCK_VALUES 256

/* Effort of an encoder. */
enum quant_effort { QUANT_SEARCH, QUANT_FAST };

/* ---- quant_legacy.c: 32 values share an f16 scale d, and an f16 minimum m in _1 ---- */

#define LEGACY_VALUES 32

void q4_0_decode(const uint8_t *src, float *dst);
void q4_0_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q4_1_decode(const uint8_t *src, float *dst);
void q4_1_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q5_0_decode(const uint8_t *src, float *dst);
void q5_0_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q5_1_decode(const uint8_t *src, float *dst);
void q5_1_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q8_0_decode(const uint8_t *src, float *dst);
void q8_0_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);

/* ---- quant_k.c: 256 values in sub-blocks whose small scales share an f16 scale ---- */

#define K_VALUES   256
#define K_SUBS     8 /* sub-blocks of 32 values in q4_k and q5_k: w = d * sc * q - dmin * m */
#define K_SUB      32
#define K_MAX_SUBS 16 /* sub-blocks of 16 values in q3_k and q6_k: w = d * sc * q; and in q2_k */

/* A block before packing. */
struct k_codes {
    uint16_t d, dmin;      /* f16 bits; not negative in q4_k and q5_k */
    int8_t sc[K_MAX_SUBS]; /* 0..63; 0..15 in q2_k, -32..31 in q3_k, any in q6_k */
    int8_t m[K_MAX_SUBS];  /* 0..63; 0..15 in q2_k, 0 in q3_k and q6_k */
    int8_t q[K_VALUES];    /* 0..3 in q2_k, -4..3 in q3_k, 0..15, 0..31, -32..31 in q6_k */
};
void q4_k_pack(const struct k_codes *codes, uint8_t *dst);
void q4_k_unpack(const uint8_t *src, struct k_codes *codes);
void q5_k_pack(const struct k_codes *codes, uint8_t *dst);
void q5_k_unpack(const uint8_t *src, struct k_codes *codes);

void q2_k_decode(const uint8_t *src, float *dst);
void q2_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q3_k_decode(const uint8_t *src, float *dst);
void q3_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q4_k_decode(const uint8_t *src, float *dst);
void q4_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q5_k_decode(const uint8_t *src, float *dst);
void q5_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void q6_k_decode(const uint8_t *src, float *dst);
void q6_k_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);

void q6_k_pack(const struct k_codes *codes, uint8_t *dst);

/* quant_k_search.c. Finds codes with a small squared error for the first `count` of 256 finite
 * values; the others are 0. */
enum k_type { K_Q2, K_Q3, K_Q4, K_Q5, K_Q6 };
void quant_k_search(enum k_type type, const float x[K_VALUES], size_t count,
                    enum quant_effort effort, struct k_codes *codes);

/* ---- quant_codebook.c: 4-bit codes that name the entries of a fixed table ---- */

void mxfp4_decode(const uint8_t *src, float *dst);
void mxfp4_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void iq4_nl_decode(const uint8_t *src, float *dst);
void iq4_nl_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);
void iq4_xs_decode(const uint8_t *src, float *dst);
void iq4_xs_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst);

/* ---- quant_grid.c: one to three bits a value ---- */

void iq1_s_decode(const uint8_t *src, float *dst);
void iq1_m_decode(const uint8_t *src, float *dst);
void iq2_xxs_decode(const uint8_t *src, float *dst);
void iq2_xs_decode(const uint8_t *src, float *dst);
void iq2_s_decode(const uint8_t *src, float *dst);
void iq3_xxs_decode(const uint8_t *src, float *dst);
void iq3_s_decode(const uint8_t *src, float *dst);
void tq1_0_decode(const uint8_t *src, float *dst);
void tq2_0_decode(const uint8_t *src, float *dst);
void q1_0_decode(const uint8_t *src, float *dst);
void q2_0_decode(const uint8_t *src, float *dst);

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
