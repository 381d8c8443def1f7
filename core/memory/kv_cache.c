/* Pages of the KV cache: reference counts, a stack of free pages, and buffers that grow. */
#include "core/memory/kv_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/memory/pool.h"
#include "core/plan/plan_device.h"

/* Initial positions per session, so that short sessions never move the cache. */
#define FIRST_TOKENS 2048

static uint32_t first_pages(uint32_t most)
{
    return most < FIRST_TOKENS / DGL_KV_PAGE ? most : FIRST_TOKENS / DGL_KV_PAGE;
}

void kv_cache_init(struct kv_cache *kv, struct dgl_device *dev, uint32_t layers,
                   uint64_t page_bytes, uint64_t root)
{
    const uint64_t most = plan_device_binding_bytes(&dev->plan) / page_bytes;
    *kv = (struct kv_cache){.dev = dev,
                            .layers = layers,
                            .root = root,
                            .page_bytes = page_bytes,
                            .most_pages = most < KV_NO_PAGE ? (uint32_t)most : KV_NO_PAGE,
                            .oldest = KV_NO_PAGE,
                            .newest = KV_NO_PAGE};
}

static void free_buffers(struct kv_cache *kv)
{
    struct dgl_device *dev = kv->dev;
    for (uint32_t i = 0; i < kv->num_buffers; i++)
        pool_release(dev->pool, &kv->buffers[i]);
    dev->held_bytes -= kv->bytes;
    free(kv->layer);
    free(kv->buffers);
    free(kv->page);
    free(kv->free);
    free(kv->bucket);
}

/* Moves the cache to buffers for more pages. On failure the cache is unchanged. */
static enum dgl_status resize(struct kv_cache *kv, uint32_t pages)
{
    struct dgl_device *dev = kv->dev;
    /* Layers are spread over enough buffers that each stays within one binding if all reserved
     * pages are allocated. So the number of buffers only changes with reservations. */
    const uint64_t most = pages > kv->promised ? pages : kv->promised;
    const uint64_t fit = plan_device_binding_bytes(&dev->plan) / (most * kv->page_bytes);
    const uint32_t per_buffer = fit < 1 ? 1 : fit < kv->layers ? (uint32_t)fit : kv->layers;
    const uint32_t added = pages - kv->pages;
    const uint64_t layer_bytes = pages * kv->page_bytes, held_bytes = kv->pages * kv->page_bytes;
    const uint32_t num_buffers = (kv->layers + per_buffer - 1) / per_buffer;
    struct kv_cache to = *kv;
    enum dgl_status status = DGL_OK;
    assert(pages > kv->pages && pages <= kv->most_pages);
    to.layer = dgl_new_array(struct gl_range, kv->layers);
    to.buffers = dgl_new_array(struct gl_buffer *, num_buffers);
    to.page = dgl_new_array(struct kv_page, pages);
    to.free = dgl_new_array(uint16_t, pages);
    to.bucket = dgl_new_array(uint16_t, pages);
    to.num_buffers = 0;
    to.bytes = 0;
    if (!to.layer || !to.buffers || !to.page || !to.free || !to.bucket)
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
        free_buffers(&to);
        return status;
    }
    /* New pages are put below the free ones, with the lowest page on top. */
    for (uint32_t i = 0; i < added; i++)
        to.free[i] = (uint16_t)(pages - 1 - i);
    if (kv->num_free)
        memcpy(to.free + added, kv->free, kv->num_free * sizeof(*kv->free));
    if (kv->pages)
        memcpy(to.page, kv->page, kv->pages * sizeof(*kv->page));
    to.num_free = added + kv->num_free;
    to.pages = pages;
    to.serial++;
    /* The buffers bypass the pool, which would keep them: later buffers are all larger. */
    for (uint32_t i = 0; i < kv->num_buffers; i++)
        gl_buffer_destroy(dev->gl, &kv->buffers[i]);
    free_buffers(kv);
    *kv = to;
    kv_prefix_rehash(kv);
    return DGL_OK;
}

/* The next size of the cache if it needs `least` pages. */
static uint32_t next_pages(const struct kv_cache *kv, uint32_t least)
{
    const uint32_t twice = 2 * kv->pages < kv->promised ? 2 * kv->pages : kv->promised;
    const uint32_t next = kv->whole ? kv->promised : twice > kv->first ? twice : kv->first;
    return next > least ? next : least;
}

uint64_t kv_cache_most_bytes(const struct kv_cache *kv, uint32_t pages)
{
    struct kv_cache at = *kv;
    uint64_t most = at.pages;
    while (at.pages < pages) {
        const uint32_t next = next_pages(&at, at.pages + 1);
        most = (uint64_t)at.pages + next;
        at.pages = next;
    }
    return most * kv->page_bytes * kv->layers;
}

/* Pages that sequences have. */
static uint32_t used_pages(const struct kv_cache *kv)
{
    return kv->pages - kv->num_free - kv->num_idle;
}

/* Reserves `pages`, of which `first` are allocated from the start. On failure the cache is
 * unchanged. */
static enum dgl_status promise(struct kv_cache *kv, uint32_t pages, uint32_t first, uint64_t left)
{
    const uint32_t used = used_pages(kv), promised = kv->promised + pages;
    const uint64_t copies = 2ull * promised * kv->page_bytes * kv->layers;
    const bool whole = kv->whole;
    uint32_t want = (used > kv->first ? used : kv->first) + first;
    enum dgl_status status = DGL_OK;
    assert(first <= pages && promised <= kv->most_pages);
    kv->whole = whole || (left > 0 && copies > left + kv->bytes);
    if (kv->whole)
        want = promised;
    kv->promised = promised;
    if (want > kv->pages)
        status = resize(kv, next_pages(kv, want));
    if (status == DGL_OK) {
        kv->first += first;
        return DGL_OK;
    }
    kv->promised -= pages;
    kv->whole = whole;
    return status;
}

void kv_cache_drop(struct kv_cache *kv)
{
    assert(used_pages(kv) == 0);
    const struct kv_cache old = *kv;
    free_buffers(kv);
    kv_cache_init(kv, old.dev, old.layers, old.page_bytes, old.root);
    kv->promised = old.promised;
    kv->first = old.first;
    kv->pool_pages = old.pool_pages;
    kv->whole = old.whole && old.promised > 0;
    kv->last_page_id = old.last_page_id;
    kv->serial = old.serial + 1;
    kv->prefix_serial = old.prefix_serial + 1;
}

static void take_promise_back(struct kv_cache *kv, uint32_t pages, uint32_t first)
{
    kv->promised -= pages;
    kv->first -= first;
    if (kv->promised == 0)
        kv_cache_drop(kv);
}

static void free_pages(struct kv_pages *pages)
{
    free(pages->page);
    free(pages->page_id);
    *pages = (struct kv_pages){0};
}

static enum dgl_status make_pages(struct kv_cache *kv, uint32_t most, struct kv_pages *out)
{
    assert(most <= DGL_KV_TABLE_PAGES);
    *out = (struct kv_pages){.page = dgl_new_array(uint16_t, most + 1u),
                             .page_id = dgl_new_array(uint64_t, most + 1u),
                             .most = most,
                             .prefix_serial = kv->prefix_serial,
                             .root = kv->root};
    if (out->page && out->page_id)
        return DGL_OK;
    free_pages(out);
    return dgl_fail_memory(kv->dev->log, "pages of a sequence", most * sizeof(*out->page_id));
}

enum dgl_status kv_cache_join(struct kv_cache *kv, uint32_t most, uint64_t left,
                              struct kv_pages *out)
{
    enum dgl_status status;
    TRY(make_pages(kv, most, out));
    TRY(promise(kv, most, first_pages(most), left));
done:
    if (status != DGL_OK)
        free_pages(out);
    return status;
}

enum dgl_status kv_cache_join_pooled(struct kv_cache *kv, uint32_t most, struct kv_pages *out)
{
    enum dgl_status status = make_pages(kv, most, out);
    out->pooled = true;
    return status;
}

enum dgl_status kv_cache_reserve_pool(struct kv_cache *kv, uint32_t pages, uint32_t first,
                                      uint64_t left)
{
    enum dgl_status status = promise(kv, pages, first, left);
    if (status == DGL_OK)
        kv->pool_pages += pages;
    return status;
}

void kv_cache_release_pool(struct kv_cache *kv, uint32_t pages, uint32_t first)
{
    kv->pool_pages -= pages;
    assert(kv->pool_used <= kv->pool_pages);
    take_promise_back(kv, pages, first);
}

void kv_cache_leave(struct kv_cache *kv, struct kv_pages *pages)
{
    const uint32_t most = pages->most;
    const bool pooled = pages->pooled;
    if (!pages->page)
        return;
    kv_cache_give(kv, pages, 0);
    free_pages(pages);
    if (!pooled)
        take_promise_back(kv, most, first_pages(most));
}

/* ---- pages ----------------------------------------------------------------------------------- */

void kv_cache_hold(struct kv_cache *kv, struct kv_pages *pages, uint16_t page)
{
    struct kv_page *p = &kv->page[page];
    if (p->refs == 0 && p->page_id)
        kv_prefix_ref(kv, page);
    p->refs++;
    kv->dev->pages_used += p->refs == 1;
    kv->dev->pages_shared += p->refs == 2;
    p->pooled_refs += pages->pooled;
    kv->pool_used += pages->pooled && p->pooled_refs == 1;
}

static void drop(struct kv_cache *kv, struct kv_pages *pages, uint16_t page)
{
    struct kv_page *p = &kv->page[page];
    assert(p->refs > 0);
    p->refs--;
    kv->dev->pages_used -= p->refs == 0;
    kv->dev->pages_shared -= p->refs == 1;
    p->pooled_refs -= pages->pooled;
    kv->pool_used -= pages->pooled && p->pooled_refs == 0;
    if (p->refs > 0)
        return;
    if (p->page_id)
        kv_prefix_unref(kv, page);
    else
        kv->free[kv->num_free++] = page;
}

/* Returns a free page. Evicts the oldest cached page if all others are in use. The caller has made
 * sure that there is one. */
static uint16_t find_free(struct kv_cache *kv)
{
    if (kv->num_free == 0) {
        const uint16_t oldest = kv->oldest;
        assert(oldest != KV_NO_PAGE);
        kv_prefix_ref(kv, oldest);
        kv_prefix_evict(kv, oldest);
        return oldest;
    }
    return kv->free[--kv->num_free];
}

/* Makes sure that `more` pages are free or can be evicted. */
static enum dgl_status make_room(struct kv_cache *kv, uint32_t more)
{
    return more > kv->num_free + kv->num_idle ? resize(kv, next_pages(kv, used_pages(kv) + more))
                                              : DGL_OK;
}

static enum dgl_status check_pool(const struct kv_cache *kv, const struct kv_pages *pages,
                                  uint32_t more)
{
    if (!pages->pooled || kv->pool_used + more <= kv->pool_pages)
        return DGL_OK;
    return dgl_fail(kv->dev->log, DGL_ERR_NO_MEMORY,
                    "%u more pages of the KV cache are wanted, %u of %u are taken", more,
                    kv->pool_used, kv->pool_pages);
}

bool kv_cache_moves(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count)
{
    return count > pages->count && count - pages->count > kv->num_free + kv->num_idle;
}

uint32_t kv_cache_lacks(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count)
{
    const uint32_t more = count > pages->count ? count - pages->count : 0;
    const uint32_t left = kv->pool_pages - kv->pool_used;
    return more > left ? more - left : 0;
}

enum dgl_status kv_cache_take(struct kv_cache *kv, struct kv_pages *pages, uint32_t count)
{
    assert(count <= pages->most);
    if (count <= pages->count)
        return DGL_OK;
    enum dgl_status status = check_pool(kv, pages, count - pages->count);
    if (status == DGL_OK)
        status = make_room(kv, count - pages->count);
    while (status == DGL_OK && pages->count < count) {
        const uint16_t page = find_free(kv);
        kv_cache_hold(kv, pages, page);
        pages->page[pages->count++] = page;
    }
    return status;
}

bool kv_cache_must_copy(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t i)
{
    return i < pages->count && kv->page[pages->page[i]].refs > 1;
}

enum dgl_status kv_cache_own(struct kv_cache *kv, struct kv_pages *pages, uint32_t i)
{
    if (i >= pages->count)
        return DGL_OK;
    const uint16_t from = pages->page[i];
    if (!kv_cache_must_copy(kv, pages, i)) {
        if (kv->page[from].page_id)
            kv_prefix_evict(kv, from);
        return DGL_OK;
    }
    enum dgl_status status;
    TRY(check_pool(kv, pages, 1));
    TRY(make_room(kv, 1));
    const uint16_t to = find_free(kv);
    for (uint32_t l = 0; l < kv->layers && status == DGL_OK; l++) {
        const struct gl_range layer = kv->layer[l];
        status = gl_buffer_copy(kv->dev->gl, layer.buffer, layer.offset + from * kv->page_bytes,
                                layer.buffer, layer.offset + to * kv->page_bytes, kv->page_bytes);
    }
    if (status != DGL_OK) {
        kv->free[kv->num_free++] = to;
        goto done;
    }
    kv_cache_hold(kv, pages, to);
    drop(kv, pages, from);
    pages->page[i] = to;
    pages->num_known = pages->num_known < i ? pages->num_known : i;
done:
    return status;
}

void kv_cache_fork(struct kv_cache *kv, const struct kv_pages *from, uint32_t count,
                   struct kv_pages *to)
{
    assert(to->count == 0 && count <= from->count && count <= to->most && !to->pooled);
    for (; to->count < count; to->count++) {
        kv_cache_hold(kv, to, from->page[to->count]);
        to->page[to->count] = from->page[to->count];
    }
    to->prefix_serial = from->prefix_serial;
    to->root = from->root;
    to->num_page_ids = from->num_page_ids < count ? from->num_page_ids : count;
    memcpy(to->page_id, from->page_id, to->num_page_ids * sizeof(*to->page_id));
}

/* Pages are released in reverse, so that eviction drops the tail of a cached prefix before its
 * head. */
void kv_cache_give(struct kv_cache *kv, struct kv_pages *pages, uint32_t count)
{
    while (pages->count > count)
        drop(kv, pages, pages->page[--pages->count]);
    if (pages->num_known > count)
        pages->num_known = count;
    if (pages->num_page_ids > count)
        pages->num_page_ids = count;
}
