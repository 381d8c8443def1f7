/* Pages of the KV cache: a stack of free ones, and buffers that grow. */
#include "core/memory/kv_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/memory/pool.h"
#include "core/plan/plan_device.h"

/* Positions that there is room for when a session begins: short ones never move the cache. */
#define FIRST_TOKENS 2048

static uint32_t first_pages(uint32_t most)
{
    return most < FIRST_TOKENS / DGL_KV_PAGE ? most : FIRST_TOKENS / DGL_KV_PAGE;
}

void kv_cache_init(struct kv_cache *kv, const struct dgl_device *dev, uint32_t layers,
                   uint64_t page_bytes)
{
    const uint64_t most = plan_device_binding_bytes(&dev->plan) / page_bytes;
    *kv = (struct kv_cache){.layers = layers,
                            .page_bytes = page_bytes,
                            .most_pages = most < UINT16_MAX ? (uint32_t)most : UINT16_MAX};
}

/* Buffers for a number of layers each, so many that the buffers stay within one binding when all
 * that is promised is there: their number changes with promises alone. */
static uint32_t layers_per_buffer(const struct kv_cache *kv, const struct dgl_device *dev,
                                  uint32_t pages)
{
    const uint64_t most = pages > kv->promised ? pages : kv->promised;
    const uint64_t fit = plan_device_binding_bytes(&dev->plan) / (most * kv->page_bytes);
    return fit < 1 ? 1 : fit < kv->layers ? (uint32_t)fit : kv->layers;
}

static void free_buffers(struct kv_cache *kv, struct dgl_device *dev)
{
    for (uint32_t i = 0; i < kv->num_buffers; i++)
        pool_release(dev->pool, &kv->buffers[i]);
    dev->held_bytes -= kv->bytes;
    free(kv->layer);
    free(kv->buffers);
    free(kv->free);
}

/* Moves the cache to buffers for more pages. On failure nothing changes. */
static enum dgl_status resize(struct kv_cache *kv, struct dgl_device *dev, uint32_t pages)
{
    const uint32_t per_buffer = layers_per_buffer(kv, dev, pages), added = pages - kv->pages;
    const uint64_t layer_bytes = pages * kv->page_bytes, held_bytes = kv->pages * kv->page_bytes;
    const uint32_t num_buffers = (kv->layers + per_buffer - 1) / per_buffer;
    struct kv_cache to = *kv;
    enum dgl_status status = DGL_OK;
    assert(pages > kv->pages && pages <= kv->most_pages);
    to.layer = dgl_new_array(struct gl_range, kv->layers);
    to.buffers = dgl_new_array(struct gl_buffer *, num_buffers);
    to.free = dgl_new_array(uint16_t, pages);
    to.num_buffers = 0;
    to.bytes = 0;
    if (!to.layer || !to.buffers || !to.free)
        status = dgl_fail_memory(dev->log, "KV cache", kv->layers * sizeof(*to.layer));
    for (uint32_t i = 0; i < num_buffers && status == DGL_OK; i++) {
        const uint32_t first = i * per_buffer;
        const uint32_t left = kv->layers - first, count = left < per_buffer ? left : per_buffer;
        status = pool_acquire(
            dev->pool, &(struct gl_buffer_params){.size = count * layer_bytes, .label = "kv"},
            &to.buffers[i]);
        if (status != DGL_OK)
            break;
        to.num_buffers++;
        to.bytes += count * layer_bytes;
        for (uint32_t l = 0; l < count; l++)
            to.layer[first + l] = (struct gl_range){to.buffers[i], l * layer_bytes, layer_bytes};
    }
    for (uint32_t l = 0; l < kv->layers && kv->pages > 0 && status == DGL_OK; l++)
        status = gl_buffer_copy(dev->gl, kv->layer[l].buffer, kv->layer[l].offset,
                                to.layer[l].buffer, to.layer[l].offset, held_bytes);
    dev->held_bytes += to.bytes;
    if (status != DGL_OK) {
        free_buffers(&to, dev);
        return status;
    }
    /* The new pages lie below the free ones, the lowest on top. */
    for (uint32_t i = 0; i < added; i++)
        to.free[i] = (uint16_t)(pages - 1 - i);
    if (kv->num_free)
        memcpy(to.free + added, kv->free, kv->num_free * sizeof(*kv->free));
    to.num_free = added + kv->num_free;
    to.pages = pages;
    to.serial++;
    /* Not to the pool, which would keep them: none of their size is wanted again. */
    for (uint32_t i = 0; i < kv->num_buffers; i++)
        gl_buffer_destroy(dev->gl, &kv->buffers[i]);
    free_buffers(kv, dev);
    *kv = to;
    return DGL_OK;
}

/* Pages that the cache gets when it needs `least`. */
static uint32_t next_pages(const struct kv_cache *kv, uint32_t least)
{
    const uint32_t twice = 2 * kv->pages < kv->promised ? 2 * kv->pages : kv->promised;
    return twice > least ? twice : least;
}

enum dgl_status kv_cache_join(struct kv_cache *kv, struct dgl_device *dev, uint32_t most,
                              uint64_t left, struct kv_pages *out)
{
    const uint32_t used = kv->pages - kv->num_free, promised = kv->promised + most;
    const uint32_t first = first_pages(most);
    const uint64_t copies = 2ull * promised * kv->page_bytes * kv->layers;
    uint32_t want = (used > kv->first ? used : kv->first) + first;
    enum dgl_status status = DGL_OK;
    assert(promised <= kv->most_pages && most <= DGL_KV_TABLE_PAGES);
    if (left > 0 && copies > left + kv->bytes)
        want = promised;
    out->page = dgl_new_array(uint16_t, most + 1u);
    if (!out->page)
        return dgl_fail_memory(dev->log, "pages of a sequence", most * sizeof(*out->page));
    kv->promised = promised;
    if (want > kv->pages)
        status = resize(kv, dev, next_pages(kv, want));
    if (status == DGL_OK) {
        kv->first += first;
        out->most = most;
        return DGL_OK;
    }
    kv->promised -= most;
    free(out->page);
    *out = (struct kv_pages){0};
    return status;
}

void kv_cache_leave(struct kv_cache *kv, struct dgl_device *dev, struct kv_pages *pages)
{
    if (!pages->page)
        return;
    kv_cache_give(kv, pages, 0);
    kv->promised -= pages->most;
    kv->first -= first_pages(pages->most);
    free(pages->page);
    *pages = (struct kv_pages){0};
    if (kv->promised > 0)
        return;
    assert(kv->num_free == kv->pages);
    free_buffers(kv, dev);
    *kv = (struct kv_cache){.layers = kv->layers,
                            .page_bytes = kv->page_bytes,
                            .most_pages = kv->most_pages,
                            .serial = kv->serial + 1};
}

bool kv_cache_moves(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count)
{
    return count > pages->count && count - pages->count > kv->num_free;
}

enum dgl_status kv_cache_take(struct kv_cache *kv, struct dgl_device *dev, struct kv_pages *pages,
                              uint32_t count)
{
    assert(count <= pages->most);
    if (kv_cache_moves(kv, pages, count)) {
        const uint32_t used = kv->pages - kv->num_free;
        enum dgl_status status = resize(kv, dev, next_pages(kv, used + count - pages->count));
        if (status != DGL_OK)
            return status;
    }
    while (pages->count < count)
        pages->page[pages->count++] = kv->free[--kv->num_free];
    return DGL_OK;
}

void kv_cache_give(struct kv_cache *kv, struct kv_pages *pages, uint32_t count)
{
    while (pages->count > count)
        kv->free[kv->num_free++] = pages->page[--pages->count];
    if (pages->num_known > count)
        pages->num_known = count;
}
