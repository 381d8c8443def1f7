/* The KV cache of a sequence: per layer keys, then values, [2][kv_heads][capacity][head_dim], as
 * f16 or f32. kernels/lib/kv knows the addresses within. */
#ifndef DGL_CORE_KV_CACHE_H
#define DGL_CORE_KV_CACHE_H

#include "core/memory/arena.h"

struct kv_cache {
    struct gl_range *layer; /* [layers], in the arena */
    struct arena arena;
    uint32_t layers;
    int32_t capacity; /* tokens */
    uint64_t bytes;
};

/* On failure *out is empty. */
enum dgl_status kv_cache_init(struct kv_cache *out, struct dgl_device *dev, uint32_t layers,
                              int32_t capacity, uint64_t layer_bytes);
/* Accepts a cache that is all zero. */
void kv_cache_finish(struct kv_cache *kv, struct dgl_device *dev);

#endif
