/* Pooling and normalisation of embeddings, in doubles. */
#include "core/base/pooling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

#define INT16_SCALE 32760.0 /* as llama.cpp */

static const char *const names[] = {[DGL_POOLING_MODEL] = "model",
                                    [DGL_POOLING_MEAN] = "mean",
                                    [DGL_POOLING_LAST] = "lasttoken",
                                    [DGL_POOLING_NONE] = "none",
                                    [DGL_POOLING_CLS] = "cls",
                                    [DGL_POOLING_MAX] = "max",
                                    [DGL_POOLING_MEAN_SQRT_LEN] = "mean_sqrt_len_tokens",
                                    [DGL_POOLING_WEIGHTED_MEAN] = "weightedmean"};

const char *dgl_pooling_name(enum dgl_pooling pooling)
{
    return (size_t)pooling < sizeof(names) / sizeof(names[0]) ? names[pooling] : "unknown";
}

bool dgl_pooling_parse(struct dgl_str name, enum dgl_pooling *out)
{
    if (dgl_str_eq(name, "last"))
        name = DGL_STR("lasttoken");
    for (size_t i = DGL_POOLING_MEAN; i < sizeof(names) / sizeof(names[0]); i++) {
        if (i == DGL_POOLING_NONE || !dgl_str_eq(name, names[i]))
            continue;
        *out = (enum dgl_pooling)i;
        return true;
    }
    return false;
}

bool dgl_pool_init(struct dgl_pool *pool, enum dgl_pooling pooling, size_t width)
{
    *pool = (struct dgl_pool){
        .pooling = pooling, .width = width, .values = dgl_calloc(width, sizeof(double))};
    return pool->values;
}

void dgl_pool_finish(struct dgl_pool *pool)
{
    free(pool->values);
    *pool = (struct dgl_pool){0};
}

bool dgl_pool_needs_last(const struct dgl_pool *pool)
{
    return pool->pooling == DGL_POOLING_LAST;
}

void dgl_pool_add(struct dgl_pool *pool, const float *rows, size_t num)
{
    for (size_t r = 0; r < num; r++, rows += pool->width) {
        const bool first = pool->count++ == 0;
        const double weight =
            pool->pooling == DGL_POOLING_WEIGHTED_MEAN ? (double)pool->count : 1.0;
        for (size_t i = 0; i < pool->width; i++) {
            double *sum = &pool->values[i];
            const double x = (double)rows[i];
            if (pool->pooling == DGL_POOLING_CLS)
                *sum = first ? x : *sum;
            else if (pool->pooling == DGL_POOLING_MAX)
                *sum = first || x > *sum ? x : *sum;
            else if (pool->pooling == DGL_POOLING_LAST)
                *sum = x;
            else
                *sum += weight * x;
        }
    }
}

void dgl_pool_reset(struct dgl_pool *pool)
{
    memset(pool->values, 0, pool->width * sizeof(*pool->values));
    pool->count = 0;
}

void dgl_pool_take(struct dgl_pool *pool, float *row, size_t num)
{
    const double count = (double)pool->count;
    double divisor = 1.0;
    if (pool->pooling == DGL_POOLING_MEAN)
        divisor = count;
    else if (pool->pooling == DGL_POOLING_MEAN_SQRT_LEN)
        divisor = sqrt(count);
    else if (pool->pooling == DGL_POOLING_WEIGHTED_MEAN)
        divisor = count * (count + 1) / 2;
    for (size_t i = 0; i < num; i++)
        row[i] = pool->count ? (float)(pool->values[i] / divisor) : 0.0f;
    dgl_pool_reset(pool);
}

void dgl_normalize(float *row, size_t num, int norm)
{
    double largest = 0.0, sum = 0.0;
    for (size_t i = 0; i < num; i++)
        largest = fmax(largest, fabs((double)row[i]));
    if (norm < 0 || !(largest > 0.0))
        return;
    /* Divided by the largest, so that a high power does not overflow. */
    for (size_t i = 0; i < num && norm > 0; i++)
        sum += pow(fabs((double)row[i]) / largest, norm);
    const double length = norm == 0 ? largest / INT16_SCALE : largest * pow(sum, 1.0 / norm);
    for (size_t i = 0; i < num; i++)
        row[i] = (float)((double)row[i] / length);
}
