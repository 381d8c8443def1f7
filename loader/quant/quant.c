/* Converts rows of any element type to floats and back: selects the codec and pads the last
 * block. */
#include "loader/quant/quant.h"

#include <math.h>
#include <string.h>

#include "loader/quant/quant_block.h"

#define F16_MAX 65504.0

/* A pointer is NULL if the conversion does not exist. Types of one value per block use the row
 * functions, other types the block functions. */
struct codec {
    void (*row_decode)(const uint8_t *src, uint64_t count, float *dst);
    void (*row_encode)(const float *src, uint64_t count, uint8_t *dst);
    void (*decode)(const uint8_t *block, float *dst);
    void (*encode)(const float *x, size_t count, enum quant_effort effort, uint8_t *block);
    double limit; /* largest magnitude that can be encoded */
};

static void f32_decode(const uint8_t *src, uint64_t count, float *dst)
{
    memcpy(dst, src, (size_t)count * sizeof(*dst));
}

static void f32_encode(const float *src, uint64_t count, uint8_t *dst)
{
    memcpy(dst, src, (size_t)count * sizeof(*src));
}

static void f16_decode(const uint8_t *src, uint64_t count, float *dst)
{
    for (uint64_t i = 0; i < count; i++)
        dst[i] = dgl_f16_to_f32(load_u16(src + 2 * i));
}

static void f16_encode(const float *src, uint64_t count, uint8_t *dst)
{
    for (uint64_t i = 0; i < count; i++)
        store_u16(dst + 2 * i, dgl_f32_to_f16(src[i]));
}

static void bf16_decode(const uint8_t *src, uint64_t count, float *dst)
{
    for (uint64_t i = 0; i < count; i++)
        dst[i] = dgl_bf16_to_f32(load_u16(src + 2 * i));
}

static void bf16_encode(const float *src, uint64_t count, uint8_t *dst)
{
    for (uint64_t i = 0; i < count; i++)
        store_u16(dst + 2 * i, dgl_f32_to_bf16(src[i]));
}

/* f16: 65520 and above round to infinity. bf16: the float after its limit does. q4_1, q5_1: the
 * minimum is an f16. q2_k, q4_k, q5_k: values below zero are made of the minimum alone, which is
 * dmin times its largest code. */
static const struct codec codecs[DGL_DTYPE_COUNT] = {
    [DGL_F32] = {.row_decode = f32_decode, .row_encode = f32_encode, .limit = INFINITY},
    [DGL_F16] = {.row_decode = f16_decode, .row_encode = f16_encode, .limit = 65519},
    [DGL_BF16] = {.row_decode = bf16_decode, .row_encode = bf16_encode, .limit = 0x1.fefffep127},
    [DGL_Q8_0] = {.decode = q8_0_decode, .encode = q8_0_encode, .limit = F16_MAX * 127},
    [DGL_Q4_K] = {.decode = q4_k_decode, .encode = q4_k_encode, .limit = F16_MAX * 63},
    [DGL_Q4_0] = {.decode = q4_0_decode, .encode = q4_0_encode, .limit = F16_MAX * 7},
    [DGL_Q4_1] = {.decode = q4_1_decode, .encode = q4_1_encode, .limit = F16_MAX},
    [DGL_Q5_0] = {.decode = q5_0_decode, .encode = q5_0_encode, .limit = F16_MAX * 15},
    [DGL_Q5_1] = {.decode = q5_1_decode, .encode = q5_1_encode, .limit = F16_MAX},
    [DGL_Q2_K] = {.decode = q2_k_decode, .encode = q2_k_encode, .limit = F16_MAX * 15},
    [DGL_Q3_K] = {.decode = q3_k_decode, .encode = q3_k_encode, .limit = F16_MAX * 31 * 3},
    [DGL_Q5_K] = {.decode = q5_k_decode, .encode = q5_k_encode, .limit = F16_MAX * 63},
    [DGL_Q6_K] = {.decode = q6_k_decode, .encode = q6_k_encode, .limit = F16_MAX * 127 * 31},
    [DGL_MXFP4] = {.decode = mxfp4_decode, .encode = mxfp4_encode, .limit = 0x1.8p127},
    [DGL_IQ4_NL] = {.decode = iq4_nl_decode, .encode = iq4_nl_encode, .limit = F16_MAX * 113},
    [DGL_IQ4_XS] = {.decode = iq4_xs_decode, .encode = iq4_xs_encode, .limit = F16_MAX * 31 * 113},
    [DGL_IQ1_S] = {.decode = iq1_s_decode},
    [DGL_IQ1_M] = {.decode = iq1_m_decode},
    [DGL_IQ2_XXS] = {.decode = iq2_xxs_decode},
    [DGL_IQ2_XS] = {.decode = iq2_xs_decode},
    [DGL_IQ2_S] = {.decode = iq2_s_decode},
    [DGL_IQ3_XXS] = {.decode = iq3_xxs_decode},
    [DGL_IQ3_S] = {.decode = iq3_s_decode},
    [DGL_TQ1_0] = {.decode = tq1_0_decode},
    [DGL_TQ2_0] = {.decode = tq2_0_decode},
    [DGL_Q1_0] = {.decode = q1_0_decode},
    [DGL_Q2_0] = {.decode = q2_0_decode},
};

bool dgl_row_decodable(enum dgl_dtype type)
{
    return codecs[type].row_decode || codecs[type].decode;
}

bool dgl_row_encodable(enum dgl_dtype type)
{
    return codecs[type].row_encode || codecs[type].encode;
}

double dgl_row_limit(enum dgl_dtype type)
{
    return codecs[type].limit;
}

bool dgl_row_decode(enum dgl_dtype type, const void *src, uint64_t cols, float *dst)
{
    const struct dgl_dtype_traits *t = dgl_dtype_get(type);
    const struct codec *codec = &codecs[type];
    const uint8_t *bytes = src;
    if (codec->row_decode)
        codec->row_decode(bytes, cols, dst);
    if (!codec->decode)
        return codec->row_decode;
    for (; cols >= t->block; cols -= t->block, dst += t->block, bytes += t->block_bytes)
        codec->decode(bytes, dst);
    if (cols > 0) {
        float last[MAX_BLOCK_VALUES];
        codec->decode(bytes, last);
        memcpy(dst, last, (size_t)cols * sizeof(*dst));
    }
    return true;
}

static bool encode_row(enum dgl_dtype type, enum quant_effort effort, const float *src,
                       uint64_t cols, void *dst)
{
    const struct dgl_dtype_traits *t = dgl_dtype_get(type);
    const struct codec *codec = &codecs[type];
    uint8_t *bytes = dst;
    if (codec->row_encode)
        codec->row_encode(src, cols, bytes);
    if (!codec->encode)
        return codec->row_encode;
    for (; cols >= t->block; cols -= t->block, src += t->block, bytes += t->block_bytes)
        codec->encode(src, t->block, effort, bytes);
    if (cols > 0) {
        float last[MAX_BLOCK_VALUES] = {0};
        memcpy(last, src, (size_t)cols * sizeof(*src));
        codec->encode(last, (size_t)cols, effort, bytes);
    }
    return true;
}

bool dgl_row_encode(enum dgl_dtype type, const float *src, uint64_t cols, void *dst)
{
    return encode_row(type, QUANT_SEARCH, src, cols, dst);
}

bool dgl_row_encode_fast(enum dgl_dtype type, const float *src, uint64_t cols, void *dst)
{
    return encode_row(type, QUANT_FAST, src, cols, dst);
}
