/*
 * ref_attn.h: rotary embedding, KV cache and attention as in docs/operations.md. Values that must
 * have the same bits on every device (rotated keys, cached numbers) are computed in the same f32
 * steps as on the device. All others are computed in doubles.
 */
#ifndef DGL_CORE_REF_ATTN_H
#define DGL_CORE_REF_ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ref_attn {
    uint32_t heads, kv_heads, head_dim, rope_dims, context;
    bool kv_f16;
    float scale, rope_scale;
    uint32_t window;       /* 0 if absent */
    float softcap;         /* 0 if absent */
    const float *sinks;    /* [heads], or NULL */
    const uint16_t *pages; /* [context / DGL_KV_PAGE, rounded up] of the cache; all different */
    uint32_t num_pages;    /* of the cache: more than any of them */
    float *rope;           /* the ROPE table [ref_attn_rope_words()] */
};
size_t ref_attn_rope_words(const struct ref_attn *a);
/* Fills the table for base 10000. */
void ref_attn_fill_rope(const struct ref_attn *a);

/* Numbers in a row of QKV without padding. */
uint32_t ref_attn_row(const struct ref_attn *a);
/* Words of one layer's cache. */
size_t ref_attn_kv_words(const struct ref_attn *a);

/* Turns q and k of one row in place. */
void ref_attn_rotate(const struct ref_attn *a, float *row, uint32_t pos);
/* Writes k and v of a turned row to the cache. */
void ref_attn_store(const struct ref_attn *a, const float *row, uint32_t pos, uint32_t *kv);
/* Attention of a rotated row over keys 0 .. pos, or the last `window` of them. out is
 * [heads][head_dim]. Returns false if memory runs out. */
bool ref_attention(const struct ref_attn *a, const float *row, uint32_t pos, const uint32_t *kv,
                   double *out);

/* f16 nearest to x, ties to even. */
uint16_t ref_half(float x);
double ref_half_value(uint16_t bits);

#endif
