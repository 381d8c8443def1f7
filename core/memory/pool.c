/* Buffer pool: a short list of free buffers, searched for the tightest fit. Used when sessions come
 * and go, never per token. */
#include "core/memory/pool.h"

#include <stdlib.h>

#include "core/base/mem.h"

/* Larger than the number of buffers of a session of any known model: a KV buffer per layer and
 * about twenty more. */
#define MAX_FREE 256

struct pool {
    struct gl_device *gl;
    struct gl_buffer *free[MAX_FREE];
    uint32_t num_free;
};

struct pool *pool_create(struct gl_device *gl)
{
    struct pool *pool = dgl_new(struct pool);
    if (pool)
        pool->gl = gl;
    return pool;
}

void pool_clear(struct pool *pool)
{
    while (pool->num_free > 0)
        gl_buffer_destroy(pool->gl, &pool->free[--pool->num_free]);
}

void pool_destroy(struct pool **pool)
{
    struct pool *p = *pool;
    *pool = NULL;
    if (!p)
        return;
    pool_clear(p);
    free(p);
}

enum dgl_status pool_acquire(struct pool *pool, const struct gl_buffer_params *params,
                             struct gl_buffer **out)
{
    const uint64_t size = params->size;
    struct gl_buffer **best = NULL; /* the smallest free buffer with size <= bytes <= 1.25 size */
    for (uint32_t i = 0; i < pool->num_free; i++) {
        const uint64_t bytes = gl_buffer_size(pool->free[i]);
        if (bytes >= size && bytes - size <= size / 4 && (!best || bytes < gl_buffer_size(*best)))
            best = &pool->free[i];
    }
    if (!best)
        return gl_buffer_create(pool->gl, params, out);
    *out = *best;
    *best = pool->free[--pool->num_free];
    if (!params->zero)
        return DGL_OK;
    enum dgl_status status = gl_buffer_zero(pool->gl, *out, 0, gl_buffer_size(*out));
    if (status != DGL_OK)
        pool_release(pool, out);
    return status;
}

void pool_release(struct pool *pool, struct gl_buffer **buffer)
{
    if (!*buffer)
        return;
    if (pool->num_free == MAX_FREE || gl_buffer_is_stale(pool->gl, *buffer))
        gl_buffer_destroy(pool->gl, buffer);
    else
        pool->free[pool->num_free++] = *buffer;
    *buffer = NULL;
}
