/* Reference operations in doubles. Formats are decoded here from their description, bit by bit. */
#include "tests/support/ref_ops.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/repack.h"

enum { Q8_BLOCK = 32, Q8_BYTES = 34, Q4_BLOCK = 256, Q4_BYTES = 144 };

void ref_fill(float *values, size_t count, uint64_t *seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = test_rand_float(seed);
}

static double half_value(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* A half between 2^(low - 15) and 2^(low - 11), or now and then a subnormal one. */
static uint16_t random_half(uint64_t *seed, uint32_t low, bool may_be_negative)
{
    uint64_t r = test_rand(seed);
    uint32_t exponent = r % 16 == 0 ? 0 : low + (uint32_t)(r >> 8 & 3);
    uint32_t sign = may_be_negative ? (uint32_t)(r >> 16 & 1) << 15 : 0;
    return (uint16_t)(sign | exponent << 10 | (uint32_t)(r >> 20 & 1023));
}

static void put16(uint8_t *dst, uint32_t value)
{
    dst[0] = (uint8_t)value;
    dst[1] = (uint8_t)(value >> 8);
}

static uint32_t get16(const uint8_t *src)
{
    return (uint32_t)src[0] | (uint32_t)src[1] << 8;
}

static void fill_bytes(uint8_t *dst, size_t count, uint64_t *seed)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = (uint8_t)(test_rand(seed) >> 32);
}

static void random_row(const struct ref_matrix *m, uint8_t *dst, uint64_t *seed)
{
    for (uint64_t i = 0; i < m->cols && (m->type == DGL_F32 || m->type == DGL_BF16); i++) {
        float value = test_rand_float(seed) * 0.1f;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        if (m->type == DGL_F32)
            memcpy(dst + 4 * i, &value, 4);
        else
            put16(dst + 2 * i, bits >> 16);
    }
    for (uint64_t i = 0; i < m->cols && m->type == DGL_F16; i++)
        put16(dst + 2 * i, random_half(seed, 9, true));
    if (m->type == DGL_Q8_0 || m->type == DGL_Q4_K)
        fill_bytes(dst, (size_t)m->row_bytes, seed);
    for (uint64_t b = 0; b < m->row_bytes && m->type == DGL_Q8_0; b += Q8_BYTES)
        put16(dst + b, random_half(seed, 3, true));
    for (uint64_t b = 0; b < m->row_bytes && m->type == DGL_Q4_K; b += Q4_BYTES) {
        put16(dst + b, random_half(seed, 1, false));
        put16(dst + b + 2, random_half(seed, 4, false));
    }
}

/* Codes sc and m of group j: six bits each, see docs/formats.md. */
static double q4_k_value(const uint8_t *block, unsigned i)
{
    unsigned j = i / 32, sc, min;
    const uint8_t *packed = block + 4;
    if (j < 4) {
        sc = packed[j] & 63u;
        min = packed[j + 4] & 63u;
    } else {
        sc = (packed[j + 4] & 15u) | (unsigned)packed[j - 4] >> 6 << 4;
        min = (unsigned)packed[j + 4] >> 4 | (unsigned)packed[j] >> 6 << 4;
    }
    unsigned byte = block[16 + j / 2 * 32 + i % 32], code = j % 2 ? byte >> 4 : byte & 15u;
    return half_value(get16(block)) * sc * code - half_value(get16(block + 2)) * min;
}

static double stored_value(const struct ref_matrix *m, const uint8_t *row, uint64_t k)
{
    float value;
    uint32_t bits;
    switch (m->type) {
    case DGL_F32:
        memcpy(&value, row + 4 * k, 4);
        return value;
    case DGL_F16:
        return half_value(get16(row + 2 * k));
    case DGL_BF16:
        bits = get16(row + 2 * k) << 16;
        memcpy(&value, &bits, 4);
        return value;
    case DGL_Q8_0:
        row += k / Q8_BLOCK * Q8_BYTES;
        return half_value(get16(row)) * (int8_t)row[2 + k % Q8_BLOCK];
    case DGL_Q4_K:
        return q4_k_value(row + k / Q4_BLOCK * Q4_BYTES, (unsigned)(k % Q4_BLOCK));
    default:
        return NAN;
    }
}

void ref_matrix_init(struct ref_matrix *m, enum dgl_dtype type, uint64_t rows, uint64_t cols,
                     uint64_t seed)
{
    const char *layout = type == DGL_Q8_0 ? "split" : "native";
    *m = (struct ref_matrix){.type = type, .rows = rows, .cols = cols};
    assert_true(dgl_dtype_row_bytes(type, cols, &m->row_bytes));
    assert_true(repack_stride(type, layout, cols, &m->row_words));
    m->stored = calloc(rows, m->row_bytes);
    m->packed = calloc(rows, m->row_words * 4);
    m->values = calloc(rows, cols * sizeof(double));
    assert_true(m->stored && m->packed && m->values);
    for (uint64_t r = 0; r < rows; r++) {
        uint8_t *row = m->stored + r * m->row_bytes;
        random_row(m, row, &seed);
        assert_true(repack_row(type, layout, row, cols, m->packed + r * m->row_words));
        for (uint64_t k = 0; k < cols; k++)
            m->values[r * cols + k] = stored_value(m, row, k);
    }
}

/* `split` back to blocks of 34 bytes. */
static void join_q8_0(const struct ref_matrix *m, const uint8_t *packed, uint8_t *row)
{
    size_t padded = (size_t)(m->cols + 63) / 64 * 64;
    for (size_t k = 0; k < padded; k++) {
        if (k < m->row_bytes / Q8_BYTES * Q8_BLOCK)
            row[k / Q8_BLOCK * Q8_BYTES + 2 + k % Q8_BLOCK] = packed[k];
        if (k >= m->cols)
            assert_int_equal(packed[k], 0);
    }
    for (size_t b = 0; b < m->row_bytes / Q8_BYTES; b++)
        memcpy(row + b * Q8_BYTES, packed + padded + 2 * b, 2);
}

void ref_matrix_decode_packed(struct ref_matrix *m)
{
    for (uint64_t r = 0; r < m->rows; r++) {
        const uint8_t *packed = (const uint8_t *)(m->packed + r * m->row_words);
        uint8_t *row = m->stored + r * m->row_bytes;
        if (m->type == DGL_Q8_0)
            join_q8_0(m, packed, row);
        else
            memcpy(row, packed, (size_t)m->row_bytes);
        for (uint64_t k = 0; k < m->cols; k++)
            m->values[r * m->cols + k] = stored_value(m, row, k);
    }
}

void ref_matrix_finish(struct ref_matrix *m)
{
    free(m->stored);
    free(m->packed);
    free(m->values);
    *m = (struct ref_matrix){.rows = 0};
}

void ref_matmul(const struct ref_matrix *w, const double *x, size_t tokens, double *y)
{
    for (size_t t = 0; t < tokens; t++) {
        for (size_t n = 0; n < w->rows; n++) {
            const double *row = w->values + n * w->cols;
            double sum = 0.0;
            for (size_t k = 0; k < w->cols; k++)
                sum += row[k] * x[t * w->cols + k];
            y[t * w->rows + n] = sum;
        }
    }
}

void ref_norm(const double *x, const double *gain, size_t count, double eps, double *y)
{
    double squares = 0.0;
    for (size_t i = 0; i < count; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] / sqrt(squares / (double)count + eps) * gain[i];
}

double ref_silu(double x)
{
    return x / (1.0 + exp(-x));
}

void ref_merge(const float *p, size_t heads, size_t splits, size_t head_dim, double *out)
{
    const float *ml = p + heads * splits * head_dim;
    for (size_t h = 0; h < heads; h++) {
        double top = -INFINITY, weight = 0.0;
        for (size_t s = 0; s < splits; s++)
            top = fmax(top, ml[2 * (h * splits + s)]);
        for (size_t s = 0; s < splits; s++)
            weight += ml[2 * (h * splits + s) + 1] * exp(ml[2 * (h * splits + s)] - top);
        for (size_t d = 0; d < head_dim; d++) {
            double sum = 0.0;
            for (size_t s = 0; s < splits; s++)
                sum += p[(h * splits + s) * head_dim + d] * exp(ml[2 * (h * splits + s)] - top);
            out[h * head_dim + d] = sum / weight;
        }
    }
}
