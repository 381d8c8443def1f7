/* The reference for rope_kv and attention. Shares no code with the kernels. */
#include "core/oracle/ref_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/step.h"

static size_t rope_rows(const struct ref_attn *a)
{
    return 256 + (a->context + 255) / 256;
}

size_t ref_attn_rope_words(const struct ref_attn *a)
{
    return a->rope_dims ? rope_rows(a) * a->rope_dims : 4;
}

void ref_attn_fill_rope(const struct ref_attn *a)
{
    size_t pairs = a->rope_dims / 2;
    for (size_t row = 0; row < rope_rows(a); row++) {
        double pos = row < 256 ? (double)row : 256.0 * (double)(row - 256);
        for (size_t i = 0; i < pairs; i++) {
            double angle = pos * pow(10000.0, -2.0 * (double)i / a->rope_dims);
            a->rope[2 * (row * pairs + i)] = (float)cos(angle);
            a->rope[2 * (row * pairs + i) + 1] = (float)sin(angle);
        }
    }
}

uint32_t ref_attn_row(const struct ref_attn *a)
{
    return (a->heads + 2 * a->kv_heads) * a->head_dim;
}

size_t ref_attn_kv_words(const struct ref_attn *a)
{
    size_t numbers = (size_t)2 * a->kv_heads * a->num_pages * DGL_KV_PAGE * a->head_dim;
    return a->kv_f16 ? numbers / 2 : numbers;
}

/* Each product and each sum is rounded once, as the kernels guarantee. */
void ref_attn_rotate(const struct ref_attn *a, float *row, uint32_t pos)
{
    uint32_t pairs = a->rope_dims / 2;
    const float *lo = a->rope + (size_t)2 * (pos % 256) * pairs;
    const float *hi = a->rope + (size_t)2 * (256 + pos / 256) * pairs;
    for (uint32_t i = 0; i < pairs; i++) {
        float c = lo[2 * i] * hi[2 * i] - lo[2 * i + 1] * hi[2 * i + 1];
        float s = lo[2 * i + 1] * hi[2 * i] + lo[2 * i] * hi[2 * i + 1];
        c *= a->rope_scale;
        s *= a->rope_scale;
        for (uint32_t h = 0; h < a->heads + a->kv_heads; h++) {
            float *head = row + (size_t)h * a->head_dim, x = head[i], y = head[i + pairs];
            head[i] = x * c - y * s;
            head[i + pairs] = y * c + x * s;
        }
    }
}

double ref_half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

/* Multiples of 2^(e - 10), and of 2^-24 below 2^-14; rint() rounds to even in the default mode. */
uint16_t ref_half(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs((double)x);
    int exponent;
    if (isnan(x))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    (void)frexp(size, &exponent); /* size < 2^exponent */
    if (size < 0x1p-14)
        return sign | (uint16_t)rint(ldexp(size, 24));
    return sign | (uint16_t)((exponent + 13) * 1024 + (int)rint(ldexp(size, 11 - exponent)));
}

static size_t kv_index(const struct ref_attn *a, uint32_t head, uint32_t pos, uint32_t dim)
{
    size_t page = a->pages[pos / DGL_KV_PAGE];
    return ((page * 2 * a->kv_heads + head) * DGL_KV_PAGE + pos % DGL_KV_PAGE) * a->head_dim + dim;
}

static double get_number(const struct ref_attn *a, const uint32_t *kv, size_t i)
{
    float x;
    if (a->kv_f16)
        return ref_half_value((uint16_t)(kv[i / 2] >> i % 2 * 16));
    memcpy(&x, &kv[i], 4);
    return x;
}

void ref_attn_store(const struct ref_attn *a, const float *row, uint32_t pos, uint32_t *kv)
{
    const float *k = row + (size_t)a->heads * a->head_dim;
    for (uint32_t n = 0; n < 2 * a->kv_heads * a->head_dim; n++) {
        const size_t i = kv_index(a, n / a->head_dim, pos, n % a->head_dim);
        const uint32_t shift = i % 2 * 16;
        if (a->kv_f16)
            kv[i / 2] = (kv[i / 2] & ~(0xffffu << shift)) | (uint32_t)ref_half(k[n]) << shift;
        else
            memcpy(&kv[i], &k[n], 4);
    }
}

bool ref_attention(const struct ref_attn *a, const float *row, uint32_t pos, const uint32_t *kv,
                   double *out)
{
    const uint32_t dim = a->head_dim, sharing = a->heads / a->kv_heads;
    const uint32_t from = a->window && a->window <= pos ? pos - a->window + 1 : 0;
    size_t values = ((size_t)pos + 1) * dim;
    double *weight = dgl_new_array(double, pos + 1u);
    double *cache = dgl_new_array(double, 2 * values); /* keys, then values, of one head */
    bool ok = weight && cache;
    memset(out, 0, (size_t)a->heads * dim * sizeof(*out));
    for (uint32_t h = 0; h < a->heads && ok; h++, row += dim, out += dim) {
        for (size_t i = 0; h % sharing == 0 && i < values; i++) {
            uint32_t j = (uint32_t)(i / dim), d = (uint32_t)(i % dim), kv_head = h / sharing;
            cache[i] = get_number(a, kv, kv_index(a, kv_head, j, d));
            cache[values + i] = get_number(a, kv, kv_index(a, a->kv_heads + kv_head, j, d));
        }
        double top = a->sinks ? a->sinks[h] : -INFINITY, sum = 0;
        for (uint32_t j = from; j <= pos; j++) {
            weight[j] = 0;
            for (uint32_t d = 0; d < dim; d++)
                weight[j] += row[d] * cache[(size_t)j * dim + d];
            weight[j] *= a->scale;
            if (a->softcap != 0)
                weight[j] = a->softcap * tanh(weight[j] / a->softcap);
            top = fmax(top, weight[j]);
        }
        for (uint32_t j = from; j <= pos; j++)
            sum += weight[j] = exp(weight[j] - top);
        if (a->sinks)
            sum += exp(a->sinks[h] - top);
        for (uint32_t j = from; j <= pos; j++)
            for (uint32_t d = 0; d < dim; d++)
                out[d] += weight[j] / sum * cache[values + (size_t)j * dim + d];
    }
    free(weight);
    free(cache);
    return ok;
}
