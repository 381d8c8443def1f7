/* Reference operations in doubles. Formats are decoded here from their description, bit by bit. */
#include "core/oracle/ref_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/mem.h"
#include "core/memory/repack.h"
#include "core/oracle/ref_attn.h"
#include "loader/quant/quant.h"

uint64_t ref_rand(uint64_t *seed)
{
    uint64_t z = *seed += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

float ref_rand_float(uint64_t *seed)
{
    double sum = 0; /* of four uniforms, scaled to variance 1 */
    for (int i = 0; i < 4; i++)
        sum += (double)(ref_rand(seed) >> 11) * 0x1p-53 - 0.5;
    return (float)(sum * 1.7320508075688772);
}

/* A half between 2^(low - 15) and 2^(low - 11), or now and then a subnormal one. */
static uint16_t random_half(uint64_t *seed, uint32_t low, bool may_be_negative)
{
    uint64_t r = ref_rand(seed);
    uint32_t exponent = r % 16 == 0 ? 0 : low + (uint32_t)(r >> 8 & 3);
    uint32_t sign = may_be_negative ? (uint32_t)(r >> 16 & 1) << 15 : 0;
    return (uint16_t)(sign | exponent << 10 | (uint32_t)(r >> 20 & 1023));
}

static void put16(uint8_t *dst, uint32_t value)
{
    dst[0] = (uint8_t)value;
    dst[1] = (uint8_t)(value >> 8);
}

static uint16_t get16(const uint8_t *src)
{
    return (uint16_t)(src[0] | src[1] << 8);
}

/* Code i of a block of 32: byte j holds j in its low nibble, j + 16 in its high one. */
static unsigned nibble_of_32(const uint8_t *bytes, unsigned i)
{
    return i < 16 ? bytes[i] & 15u : (unsigned)bytes[i - 16] >> 4;
}

/* q4_k and q5_k. Codes sc and m of group j: six bits each, see docs/formats.md. */
static double k_value(const uint8_t *block, bool five, unsigned i)
{
    unsigned j = i / 32, sc, min;
    const uint8_t *packed = block + 4, *nibbles = block + (five ? 48 : 16);
    if (j < 4) {
        sc = packed[j] & 63u;
        min = packed[j + 4] & 63u;
    } else {
        sc = (packed[j + 4] & 15u) | (unsigned)packed[j - 4] >> 6 << 4;
        min = (unsigned)packed[j + 4] >> 4 | (unsigned)packed[j] >> 6 << 4;
    }
    unsigned byte = nibbles[j / 2 * 32 + i % 32], code = j % 2 ? byte >> 4 : byte & 15u;
    if (five)
        code |= ((unsigned)block[16 + i % 32] >> j & 1u) << 4;
    return ref_half_value(get16(block)) * sc * code - ref_half_value(get16(block + 2)) * min;
}

static double q6_k_value(const uint8_t *block, unsigned i)
{
    unsigned half = i / 128, r = i % 128, low = block[64 * half + r % 64];
    unsigned high = (unsigned)block[128 + 32 * half + r % 32] >> (2 * (r / 32)) & 3u;
    unsigned code = (r < 64 ? low & 15u : low >> 4) | high << 4;
    return ref_half_value(get16(block + 208)) * (int8_t)block[192 + i / 16] * ((int)code - 32);
}

static double mxfp4_value(const uint8_t *block, unsigned i)
{
    static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    unsigned code = nibble_of_32(block + 1, i);
    double value = ldexp(magnitudes[code & 7], block[0] - 127);
    return code & 8 ? -value : value;
}

static double f32_value(const uint8_t *block, unsigned i)
{
    float value;
    (void)i;
    memcpy(&value, block, 4);
    return (double)value;
}

static double f16_value(const uint8_t *block, unsigned i)
{
    (void)i;
    return ref_half_value(get16(block));
}

static double bf16_value(const uint8_t *block, unsigned i)
{
    const uint32_t bits = (uint32_t)get16(block) << 16;
    float value;
    (void)i;
    memcpy(&value, &bits, 4);
    return (double)value;
}

static double q8_0_value(const uint8_t *block, unsigned i)
{
    return ref_half_value(get16(block)) * (int8_t)block[2 + i];
}

static double q4_0_value(const uint8_t *block, unsigned i)
{
    return ref_half_value(get16(block)) * ((int)nibble_of_32(block + 2, i) - 8);
}

/* Code i of 32: four bytes of fifth bits, then nibbles. */
static unsigned five_of_32(const uint8_t *bytes, unsigned i)
{
    return nibble_of_32(bytes + 4, i) | ((unsigned)bytes[i / 8] >> i % 8 & 1u) << 4;
}

static double q5_0_value(const uint8_t *block, unsigned i)
{
    return ref_half_value(get16(block)) * ((int)five_of_32(block + 2, i) - 16);
}

static double q4_1_value(const uint8_t *block, unsigned i)
{
    return ref_half_value(get16(block)) * nibble_of_32(block + 4, i) +
           ref_half_value(get16(block + 2));
}

static double q5_1_value(const uint8_t *block, unsigned i)
{
    return ref_half_value(get16(block)) * five_of_32(block + 4, i) +
           ref_half_value(get16(block + 2));
}

static double q2_k_value(const uint8_t *block, unsigned i)
{
    const unsigned code = (unsigned)block[16 + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3u;
    const unsigned scales = block[i / 16];
    return ref_half_value(get16(block + 80)) * (scales & 15u) * code -
           ref_half_value(get16(block + 82)) * (scales >> 4);
}

static double q3_k_value(const uint8_t *block, unsigned i)
{
    const unsigned j = i / 16, low = (unsigned)block[32 + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2;
    const unsigned code = (low & 3u) | ((unsigned)block[i % 32] >> i / 32 & 1u) << 2;
    const unsigned sc = ((unsigned)block[96 + j % 8] >> j / 8 * 4 & 15u) |
                        ((unsigned)block[104 + j % 4] >> j / 4 * 2 & 3u) << 4;
    return ref_half_value(get16(block + 108)) * ((int)sc - 32) * ((int)code - 4);
}

static const double iq4_entries[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

static double iq4_nl_value(const uint8_t *block, unsigned i)
{
    return ref_half_value(get16(block)) * iq4_entries[nibble_of_32(block + 2, i)];
}

static double iq4_xs_value(const uint8_t *block, unsigned i)
{
    const unsigned g = i / 32, low = (unsigned)block[4 + g / 2] >> g % 2 * 4 & 15u;
    const unsigned high = (unsigned)get16(block + 2) >> 2 * g & 3u;
    return ref_half_value(get16(block)) * ((int)(low | high << 4) - 32) *
           iq4_entries[nibble_of_32(block + 8 + 16 * g, i % 32)];
}

static double q4_k_value(const uint8_t *block, unsigned i)
{
    return k_value(block, false, i);
}

static double q5_k_value(const uint8_t *block, unsigned i)
{
    return k_value(block, true, i);
}

/* A f16 field of a block, and the range of its random values: 2^(low - 15) and up. If `low` is 0
 * there is no such field. */
struct half_field {
    uint8_t at, low;
    bool negative; /* may be negative */
};

/* One row per format. */
static const struct format {
    enum dgl_dtype type;
    double (*value)(const uint8_t *block, unsigned i); /* value i of a block of the file, or NULL */
    struct half_field scale, min;
} formats[] = {
    {DGL_F32, f32_value, {0}, {0}},
    {DGL_F16, f16_value, {0, 9, true}, {0}},
    {DGL_BF16, bf16_value, {0}, {0}},
    {DGL_Q8_0, q8_0_value, {0, 3, true}, {0}},
    {DGL_Q4_K, q4_k_value, {0, 1, false}, {2, 4, false}},
    {DGL_Q4_0, q4_0_value, {0, 7, true}, {0}},
    {DGL_Q4_1, q4_1_value, {0, 7, true}, {2, 10, true}},
    {DGL_Q5_0, q5_0_value, {0, 6, true}, {0}},
    {DGL_Q5_1, q5_1_value, {0, 6, true}, {2, 10, true}},
    {DGL_Q2_K, q2_k_value, {80, 5, true}, {82, 6, true}},
    {DGL_Q3_K, q3_k_value, {108, 3, true}, {0}},
    {DGL_Q5_K, q5_k_value, {0, 1, false}, {2, 5, false}},
    {DGL_Q6_K, q6_k_value, {208, 1, true}, {0}},
    {DGL_MXFP4, mxfp4_value, {0}, {0}},
    {DGL_IQ4_NL, iq4_nl_value, {0, 3, true}, {0}},
    {DGL_IQ4_XS, iq4_xs_value, {0, 1, true}, {0}},
    {DGL_IQ1_S, NULL, {0, 6, true}, {0}},
    {DGL_IQ1_M, NULL, {0}, {0}},
    {DGL_IQ2_XXS, NULL, {0, 3, true}, {0}},
    {DGL_IQ2_XS, NULL, {0, 3, true}, {0}},
    {DGL_IQ2_S, NULL, {0, 3, true}, {0}},
    {DGL_IQ3_XXS, NULL, {0, 1, true}, {0}},
    {DGL_IQ3_S, NULL, {0, 1, true}, {0}},
    {DGL_TQ1_0, NULL, {52, 9, true}, {0}},
    {DGL_TQ2_0, NULL, {64, 9, true}, {0}},
    {DGL_Q1_0, NULL, {0, 9, true}, {0}},
    {DGL_Q2_0, NULL, {0, 9, true}, {0}},
};

size_t ref_types(void)
{
    return sizeof(formats) / sizeof(formats[0]);
}

enum dgl_dtype ref_type(size_t i)
{
    return formats[i].type;
}

static const struct format *find_format(enum dgl_dtype type)
{
    size_t i = 0;
    while (i < ref_types() && formats[i].type != type)
        i++;
    return i < ref_types() ? &formats[i] : NULL;
}

static void random_row(const struct ref_matrix *m, const struct format *f, uint8_t *dst,
                       uint64_t *seed)
{
    const uint32_t bytes = dgl_dtype_get(m->type)->block_bytes;
    for (size_t i = 0; i < (size_t)m->row_bytes; i++)
        dst[i] = (uint8_t)(ref_rand(seed) >> 32);
    for (uint8_t *block = dst; block < dst + m->row_bytes; block += bytes) {
        const float value = ref_rand_float(seed) * 0.1f;
        if (m->type == DGL_F32)
            memcpy(block, &value, 4);
        else if (m->type == DGL_BF16)
            put16(block, dgl_f32_bits(value) >> 16);
        else if (m->type == DGL_MXFP4)
            block[0] = (uint8_t)(118 + block[0] % 8); /* an exponent byte */
        /* Four bits of an f16 in each of four halves. */
        const uint32_t half = m->type == DGL_IQ1_M ? random_half(seed, 6, true) : 0;
        for (unsigned i = 0; i < 4 && m->type == DGL_IQ1_M; i++) {
            uint8_t *upper = block + 49 + 2 * i;
            *upper = (uint8_t)((*upper & 15u) | (half >> 4 * i & 15u) << 4);
        }
        if (f->scale.low > 0)
            put16(block + f->scale.at, random_half(seed, f->scale.low, f->scale.negative));
        if (f->min.low > 0)
            put16(block + f->min.at, random_half(seed, f->min.low, f->min.negative));
    }
}

static void set_values(struct ref_matrix *m, const struct format *f, uint64_t r)
{
    const struct dgl_dtype_traits *t = dgl_dtype_get(m->type);
    const uint8_t *row = m->stored + r * m->row_bytes;
    float block[256]; /* formats without value(): the loader's decoder, which its tests compare */
    for (uint64_t k = 0; k < m->cols; k++) {
        const uint8_t *at = row + k / t->block * t->block_bytes;
        const unsigned i = (unsigned)(k % t->block);
        if (!f->value && i == 0)
            dgl_row_decode(m->type, at, t->block, block);
        m->values[r * m->cols + k] = f->value ? f->value(at, i) : (double)block[i];
    }
}

const char *ref_layout(enum dgl_dtype type)
{
    return weight_layout_find(type, "split") ? "split" : "native";
}

bool ref_matrix_init(struct ref_matrix *m, enum dgl_dtype type, const char *layout_name,
                     uint64_t rows, uint64_t cols, uint64_t seed)
{
    const struct weight_layout *layout =
        weight_layout_find(type, layout_name ? layout_name : ref_layout(type));
    const struct format *format = find_format(type);
    *m = (struct ref_matrix){.type = type, .rows = rows, .cols = cols};
    if (!layout || !format || !dgl_dtype_row_bytes(type, cols, &m->row_bytes) ||
        !weight_layout_stride(layout, cols, &m->row_words))
        return false;
    m->stored = dgl_calloc(rows, m->row_bytes);
    m->packed = dgl_calloc(rows, m->row_words * 4);
    m->values = dgl_calloc(rows, cols * sizeof(double));
    const bool ok = m->stored && m->packed && m->values;
    if (!ok)
        ref_matrix_finish(m);
    for (uint64_t r = 0; r < rows && ok; r++) {
        uint8_t *row = m->stored + r * m->row_bytes;
        random_row(m, format, row, &seed);
        repack_row(layout, row, cols, m->packed + r * m->row_words);
        set_values(m, format, r);
    }
    return ok;
}

/* A block of q4_k from the bytes of its codes and of its head in the layout `split`. */
static void join_q4_k(const uint8_t *codes, const uint8_t *head, uint8_t *block)
{
    memcpy(block, head, 4);
    for (unsigned j = 0; j < 8; j++) {
        unsigned sc = head[4 + j] & 63u;
        unsigned m = head[4 + j] >> 6 | ((unsigned)head[12 + j % 4] >> (j < 4 ? 0 : 4) & 15u) << 2;
        if (j < 4) {
            block[4 + j] = (uint8_t)sc;
            block[8 + j] = (uint8_t)m;
        } else {
            block[j] |= (uint8_t)(sc >> 4 << 6);
            block[4 + j] |= (uint8_t)(m >> 4 << 6);
            block[8 + j] = (uint8_t)((sc & 15u) | (m & 15u) << 4);
        }
        for (unsigned i = 0; i < 32; i++) {
            uint8_t *to = &block[16 + j / 2 * 32 + i],
                    code = (uint8_t)nibble_of_32(codes + 16 * j, i);
            *to = (uint8_t)(j % 2 ? *to | code << 4 : code);
        }
    }
}

/* Converts a row of planes back to blocks. */
static void join_planes(const struct ref_matrix *m, const struct weight_plane *planes,
                        const uint8_t *packed, uint8_t *row)
{
    const uint32_t bytes = dgl_dtype_get(m->type)->block_bytes;
    const uint64_t blocks = m->row_bytes / bytes;
    const uint8_t *second = packed + blocks * planes[0].bytes;
    for (uint64_t b = 0; b < blocks && m->type == DGL_Q4_K; b++)
        join_q4_k(packed + b * 128, second + b * 16, row + b * bytes);
    for (int p = 0; p < WEIGHT_MAX_PLANES && m->type != DGL_Q4_K; p++)
        for (uint64_t b = 0; b < blocks; b++, packed += planes[p].bytes)
            memcpy(row + b * bytes + planes[p].at, packed, planes[p].bytes);
}

void ref_matrix_decode_packed(struct ref_matrix *m)
{
    const struct weight_layout *layout = weight_layout_find(m->type, ref_layout(m->type));
    for (uint64_t r = 0; r < m->rows; r++) {
        const uint8_t *packed = (const uint8_t *)(m->packed + r * m->row_words);
        uint8_t *row = m->stored + r * m->row_bytes;
        if (layout->planes[0].bytes > 0)
            join_planes(m, layout->planes, packed, row);
        else
            memcpy(row, packed, (size_t)m->row_bytes);
        set_values(m, find_format(m->type), r);
    }
}

void ref_matrix_finish(struct ref_matrix *m)
{
    free(m->stored);
    free(m->packed);
    free(m->values);
    *m = (struct ref_matrix){.rows = 0};
}

void ref_norm(const double *x, const float *gain, size_t count, double eps, double *y)
{
    double squares = 0.0;
    for (size_t i = 0; i < count; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] / sqrt(squares / (double)count + eps) * (double)gain[i];
}

void ref_norm_floats(const float *x, const float *gain, size_t count, double eps, double *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (double)x[i];
    ref_norm(y, gain, count, eps, y);
}

void ref_merge(const float *p, size_t heads, size_t splits, size_t head_dim, const float *sinks,
               double *out)
{
    const float *ml = p + heads * splits * head_dim;
    for (size_t h = 0; h < heads; h++) {
        double top = sinks ? sinks[h] : -INFINITY, weight = 0.0;
        for (size_t s = 0; s < splits; s++)
            top = fmax(top, ml[2 * (h * splits + s)]);
        for (size_t s = 0; s < splits; s++)
            weight += ml[2 * (h * splits + s) + 1] * exp(ml[2 * (h * splits + s)] - top);
        if (sinks)
            weight += exp(sinks[h] - top);
        for (size_t d = 0; d < head_dim; d++) {
            double sum = 0.0;
            for (size_t s = 0; s < splits; s++)
                sum += p[(h * splits + s) * head_dim + d] * exp(ml[2 * (h * splits + s)] - top);
            out[h * head_dim + d] = sum / weight;
        }
    }
}

void ref_moe_group(const uint32_t *ids, uint32_t tokens, uint32_t top_k, uint32_t experts,
                   uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < experts; e++) {
        list[e] = count;
        for (uint32_t pair = 0; pair < tokens * top_k; pair++)
            if (ids[pair] == e)
                list[experts + 1 + count++] = pair;
    }
    list[experts] = count;
}
