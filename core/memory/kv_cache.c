/* All layers in one arena. */
#include "core/memory/kv_cache.h"

#include <stdlib.h>

#include "core/base/mem.h"

enum dgl_status kv_cache_init(struct kv_cache *out, struct dgl_device *dev, uint32_t layers,
                              int32_t capacity, uint64_t layer_bytes)
{
    uint64_t *sizes = dgl_new_array(uint64_t, layers);
    enum dgl_status status;
    *out = (struct kv_cache){.layers = layers, .capacity = capacity};
    out->layer = dgl_new_array(struct gl_range, layers);
    for (uint32_t i = 0; sizes && i < layers; i++)
        sizes[i] = layer_bytes;
    if (!out->layer || !sizes)
        status = dgl_fail_memory(dev->log, "KV cache", layers * sizeof(*out->layer));
    else
        status = arena_init(&out->arena, dev, "kv", sizes, layers, out->layer);
    free(sizes);
    out->bytes = out->arena.bytes;
    if (status != DGL_OK)
        kv_cache_finish(out, dev);
    return status;
}

void kv_cache_finish(struct kv_cache *kv, struct dgl_device *dev)
{
    arena_finish(&kv->arena, dev);
    free(kv->layer);
    *kv = (struct kv_cache){0};
}
