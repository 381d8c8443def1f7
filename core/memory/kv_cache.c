/* One buffer per layer, from the pool. */
#include "core/memory/kv_cache.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/memory/pool.h"

enum dgl_status kv_cache_init(struct kv_cache *out, struct dgl_device *dev, uint32_t layers,
                              int32_t capacity, uint64_t layer_bytes)
{
    *out = (struct kv_cache){.layers = layers, .capacity = capacity};
    out->layer = dgl_new_array(struct gl_range, layers);
    if (!out->layer)
        return dgl_fail_memory(dev->log, "KV cache", layers * sizeof(*out->layer));
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < layers && status == DGL_OK; i++) {
        struct gl_range *range = &out->layer[i];
        status =
            pool_acquire(dev->pool, &(struct gl_buffer_params){.size = layer_bytes, .label = "kv"},
                         &range->buffer);
        if (status == DGL_OK) {
            range->size = layer_bytes;
            out->bytes += layer_bytes;
        }
    }
    dev->held_bytes += out->bytes;
    if (status != DGL_OK)
        kv_cache_finish(out, dev);
    return status;
}

void kv_cache_finish(struct kv_cache *kv, struct dgl_device *dev)
{
    for (uint32_t i = 0; kv->layer && i < kv->layers; i++)
        pool_release(dev->pool, &kv->layer[i].buffer);
    dev->held_bytes -= kv->bytes;
    free(kv->layer);
    *kv = (struct kv_cache){0};
}
