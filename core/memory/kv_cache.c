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

void kv_cache_init(struct kv_cache *kv, struct dgl_device *dev, const struct kv_layout *layout,
                   uint64_t root)
{
    const uint64_t most = plan_device_binding_bytes(&dev->plan) / kv_layout_widest_bytes(layout);
    *kv = (struct kv_cache){.dev = dev,
                            .num_groups = layout->num_groups,
                            .entries = kv_layout_entries(layout),
                            .page_bytes = kv_layout_page_bytes(layout),
                            .root = root,
                            .most_pages = most < KV_NO_PAGE ? (uint32_t)most : KV_NO_PAGE};
    for (uint32_t g = 0; g < kv->num_groups; g++)
        kv->store[g] = (struct kv_store){
            .group = layout->group[g], .oldest = KV_NO_PAGE, .newest = KV_NO_PAGE};
}

/* Bytes of a page in all layers of the group. */
static uint64_t page_bytes_of(const struct kv_store *store)
{
    return store->group.page_bytes * store->group.layers;
}

static void free_buffers(struct kv_cache *kv, struct kv_store *store)
{
    struct dgl_device *dev = kv->dev;
    for (uint32_t i = 0; i < store->num_buffers; i++)
        pool_release(dev->pool, &store->buffers[i]);
    dev->held_bytes -= store->bytes;
    free(store->layer);
    free(store->buffers);
    free(store->page);
    free(store->free);
    free(store->bucket);
}

/* Moves a group to buffers for more pages. On failure the cache is unchanged. */
static enum dgl_status resize(struct kv_cache *kv, struct kv_store *store, uint32_t pages)
{
    struct dgl_device *dev = kv->dev;
    /* Layers are in as few buffers as bindings allow, because a persistent program has few
     * bindings. With buffers for all reserved pages there would be more: a context of 131,072
     * tokens needs 512 MiB per layer of Llama 3.1 8B. */
    const uint64_t page_bytes = store->group.page_bytes;
    const uint64_t layer_bytes = pages * page_bytes, held_bytes = store->pages * page_bytes;
    const uint64_t fit = plan_device_binding_bytes(&dev->plan) / layer_bytes;
    const uint32_t layers = store->group.layers, added = pages - store->pages;
    const uint32_t most = fit < 1 ? 1 : fit < layers ? (uint32_t)fit : layers;
    const uint32_t num_buffers = (layers + most - 1) / most;
    const uint32_t per_buffer = (layers + num_buffers - 1) / num_buffers;
    struct kv_store to = *store;
    enum dgl_status status = DGL_OK;
    assert(pages > store->pages && pages <= kv->most_pages);
    to.layer = dgl_new_array(struct gl_range, layers);
    to.buffers = dgl_new_array(struct gl_buffer *, num_buffers);
    to.page = dgl_new_array(struct kv_page, pages);
    to.free = dgl_new_array(uint16_t, pages);
    to.bucket = dgl_new_array(uint16_t, pages);
    to.num_buffers = 0;
    to.bytes = 0;
    if (!to.layer || !to.buffers || !to.page || !to.free || !to.bucket)
        status = dgl_fail_memory(dev->log, "KV cache", layers * sizeof(*to.layer));
    for (uint32_t i = 0; i < num_buffers && status == DGL_OK; i++) {
        const uint32_t first = i * per_buffer;
        const uint32_t left = layers - first, count = left < per_buffer ? left : per_buffer;
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
    for (uint32_t l = 0; l < layers && store->pages > 0 && status == DGL_OK; l++)
        status = gl_buffer_copy(dev->gl, store->layer[l].buffer, store->layer[l].offset,
                                to.layer[l].buffer, to.layer[l].offset, held_bytes);
    dev->held_bytes += to.bytes;
    if (status != DGL_OK) {
        free_buffers(kv, &to);
        return status;
    }
    /* New pages are put below the free ones, with the lowest page on top. */
    for (uint32_t i = 0; i < added; i++)
        to.free[i] = (uint16_t)(pages - 1 - i);
    if (store->num_free)
        memcpy(to.free + added, store->free, store->num_free * sizeof(*store->free));
    if (store->pages)
        memcpy(to.page, store->page, store->pages * sizeof(*store->page));
    to.num_free = added + store->num_free;
    to.pages = pages;
    kv->serial++;
    kv->bytes += to.bytes - store->bytes;
    /* The buffers bypass the pool, which would keep them: later buffers are all larger. */
    for (uint32_t i = 0; i < store->num_buffers; i++)
        gl_buffer_destroy(dev->gl, &store->buffers[i]);
    free_buffers(kv, store);
    *store = to;
    kv_prefix_rehash(store);
    return DGL_OK;
}

/* The next size of a group if it needs `least` pages. */
static uint32_t next_pages(const struct kv_cache *kv, const struct kv_store *store, uint32_t least)
{
    const uint32_t twice = 2 * store->pages < kv->promised ? 2 * store->pages : kv->promised;
    const uint32_t next = kv->whole ? kv->promised : twice > kv->first ? twice : kv->first;
    return next > least ? next : least;
}

uint64_t kv_cache_most_bytes(const struct kv_cache *kv, uint32_t pages)
{
    struct kv_cache at = *kv;
    uint64_t most = at.bytes;
    for (bool grows = true; grows;) {
        grows = false;
        for (uint32_t g = 0; g < at.num_groups; g++) {
            struct kv_store *store = &at.store[g];
            if (store->pages >= pages)
                continue;
            const uint32_t next = next_pages(&at, store, store->pages + 1);
            const uint64_t bytes = next * page_bytes_of(store);
            most = at.bytes + bytes > most ? at.bytes + bytes : most;
            at.bytes += bytes - store->pages * page_bytes_of(store);
            store->pages = next;
            grows = true;
        }
    }
    return most;
}

uint64_t kv_cache_division(const struct kv_cache *kv)
{
    uint64_t division = 0;
    for (uint32_t g = 0; g < kv->num_groups; g++)
        division = division << 16 | kv->store[g].num_buffers;
    return division;
}

/* Pages that sequences have. */
static uint32_t used_pages(const struct kv_store *store)
{
    return store->pages - store->num_free - store->num_idle;
}

/* Reserves `pages` of each group, of which `first` are allocated from the start. On failure the
 * reservations are unchanged. */
static enum dgl_status promise(struct kv_cache *kv, uint32_t pages, uint32_t first, uint64_t left)
{
    const uint32_t promised = kv->promised + pages;
    const uint64_t copies = 2ull * promised * kv->page_bytes;
    const bool whole = kv->whole;
    enum dgl_status status = DGL_OK;
    assert(first <= pages && promised <= kv->most_pages);
    kv->whole = whole || (left > 0 && copies > left + kv->bytes);
    kv->promised = promised;
    for (uint32_t g = 0; g < kv->num_groups; g++) {
        struct kv_store *store = &kv->store[g];
        const uint32_t used = used_pages(store);
        const uint32_t want = kv->whole ? promised : (used > kv->first ? used : kv->first) + first;
        if (want > store->pages)
            TRY(resize(kv, store, next_pages(kv, store, want)));
    }
    kv->first += first;
    return DGL_OK;
done:
    kv->promised -= pages;
    kv->whole = whole;
    if (kv->promised == 0 && kv->bytes > 0) /* of the groups before the one that failed */
        kv_cache_drop(kv);
    return status;
}

void kv_cache_drop(struct kv_cache *kv)
{
    for (uint32_t g = 0; g < kv->num_groups; g++) {
        struct kv_store *store = &kv->store[g];
        assert(used_pages(store) == 0);
        free_buffers(kv, store);
        *store =
            (struct kv_store){.group = store->group, .oldest = KV_NO_PAGE, .newest = KV_NO_PAGE};
    }
    kv->bytes = 0;
    kv->whole = kv->whole && kv->promised > 0;
    kv->serial++;
    kv->prefix_serial++;
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
    free(pages->page[0]);
    free(pages->page_id);
    *pages = (struct kv_pages){0};
}

static enum dgl_status make_pages(struct kv_cache *kv, uint32_t most, struct kv_pages *out)
{
    const uint32_t each = (most + 1u) & ~1u;
    assert(most <= kv->entries);
    *out = (struct kv_pages){.page = {dgl_new_array(uint16_t, (size_t)kv->num_groups * each + 1)},
                             .page_id = dgl_new_array(uint64_t, most + 1u),
                             .most = most,
                             .prefix_serial = kv->prefix_serial,
                             .root = kv->root};
    for (uint32_t g = 1; g < kv->num_groups && out->page[0]; g++)
        out->page[g] = out->page[0] + (size_t)g * each;
    if (out->page[0] && out->page_id)
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
    enum dgl_status status;
    TRY(make_pages(kv, most, out));
    out->pooled = true;
    TRY(promise(kv, 0, 0, 0)); /* the pool has no buffers after kv_cache_drop() */
done:
    if (status != DGL_OK)
        free_pages(out);
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
    assert(kv_cache_pool_used(kv) <= kv->pool_pages);
    take_promise_back(kv, pages, first);
}

void kv_cache_leave(struct kv_cache *kv, struct kv_pages *pages)
{
    const uint32_t most = pages->most;
    const bool pooled = pages->pooled;
    if (!pages->page[0])
        return;
    kv_cache_give(kv, pages, 0);
    free_pages(pages);
    if (!pooled)
        take_promise_back(kv, most, first_pages(most));
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* The counters of the device count the pages of the first group. */
void kv_cache_hold(struct kv_cache *kv, uint32_t group, struct kv_pages *pages, uint32_t i,
                   uint16_t page)
{
    struct kv_store *store = &kv->store[group];
    struct kv_page *p = &store->page[page];
    if (p->refs == 0 && p->page_id)
        kv_prefix_ref(store, page);
    p->refs++;
    kv->dev->pages_used += group == 0 && p->refs == 1;
    kv->dev->pages_shared += group == 0 && p->refs == 2;
    p->pooled_refs += pages->pooled;
    store->pool_used += pages->pooled && p->pooled_refs == 1;
    pages->page[group][i] = page;
}

static void drop(struct kv_cache *kv, uint32_t group, const struct kv_pages *pages, uint16_t page)
{
    struct kv_store *store = &kv->store[group];
    struct kv_page *p = &store->page[page];
    assert(p->refs > 0);
    p->refs--;
    kv->dev->pages_used -= group == 0 && p->refs == 0;
    kv->dev->pages_shared -= group == 0 && p->refs == 1;
    p->pooled_refs -= pages->pooled;
    store->pool_used -= pages->pooled && p->pooled_refs == 0;
    if (p->refs > 0)
        return;
    if (p->page_id)
        kv_prefix_unref(store, page);
    else
        store->free[store->num_free++] = page;
}

/* Returns a free page. Evicts the oldest cached page if all others are in use. The caller has made
 * sure that there is one. */
static uint16_t find_free(struct kv_store *store)
{
    if (store->num_free == 0) {
        const uint16_t oldest = store->oldest;
        assert(oldest != KV_NO_PAGE);
        kv_prefix_ref(store, oldest);
        kv_prefix_evict(store, oldest);
        return oldest;
    }
    return store->free[--store->num_free];
}

/* Makes sure that the sequence may have `more` pages of the group, and that they are free or can be
 * evicted. */
static enum dgl_status make_room(struct kv_cache *kv, struct kv_store *store,
                                 const struct kv_pages *pages, uint32_t more)
{
    if (pages->pooled && store->pool_used + more > kv->pool_pages)
        return dgl_fail(kv->dev->log, DGL_ERR_NO_MEMORY,
                        "%u more pages of the KV cache are wanted, %u of %u are taken", more,
                        store->pool_used, kv->pool_pages);
    if (more <= store->num_free + store->num_idle)
        return DGL_OK;
    return resize(kv, store, next_pages(kv, store, used_pages(store) + more));
}

bool kv_cache_moves(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count)
{
    const uint32_t more = count > pages->count ? count - pages->count : 0;
    bool moves = false;
    for (uint32_t g = 0; g < kv->num_groups; g++)
        moves = moves || more > kv->store[g].num_free + kv->store[g].num_idle;
    return moves;
}

uint32_t kv_cache_pool_used(const struct kv_cache *kv)
{
    uint32_t used = 0;
    for (uint32_t g = 0; g < kv->num_groups; g++)
        used = kv->store[g].pool_used > used ? kv->store[g].pool_used : used;
    return used;
}

bool kv_cache_is_own(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t i)
{
    bool own = true;
    for (uint32_t g = 0; g < kv->num_groups; g++)
        own = own && kv->store[g].page[pages->page[g][i]].pooled_refs == 1;
    return own;
}

uint32_t kv_cache_lacks(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count)
{
    const uint32_t more = count > pages->count ? count - pages->count : 0;
    const uint32_t left = kv->pool_pages - kv_cache_pool_used(kv);
    return more > left ? more - left : 0;
}

enum dgl_status kv_cache_take(struct kv_cache *kv, struct kv_pages *pages, uint32_t count)
{
    enum dgl_status status = DGL_OK;
    assert(count <= pages->most);
    if (count <= pages->count)
        return DGL_OK;
    for (uint32_t g = 0; g < kv->num_groups; g++)
        TRY(make_room(kv, &kv->store[g], pages, count - pages->count));
    for (; pages->count < count; pages->count++)
        for (uint32_t g = 0; g < kv->num_groups; g++)
            kv_cache_hold(kv, g, pages, pages->count, find_free(&kv->store[g]));
done:
    return status;
}

enum dgl_status kv_cache_own(struct kv_cache *kv, struct kv_pages *pages, uint32_t i)
{
    enum dgl_status status = DGL_OK;
    for (uint32_t g = 0; g < kv->num_groups && i < pages->count; g++) {
        struct kv_store *store = &kv->store[g];
        const uint64_t bytes = store->group.page_bytes;
        const uint16_t from = pages->page[g][i];
        if (store->page[from].refs == 1) {
            if (store->page[from].page_id)
                kv_prefix_evict(store, from);
            continue;
        }
        TRY(make_room(kv, store, pages, 1));
        const uint16_t to = find_free(store);
        for (uint32_t l = 0; l < store->group.layers && status == DGL_OK; l++) {
            const struct gl_range layer = store->layer[l];
            status = gl_buffer_copy(kv->dev->gl, layer.buffer, layer.offset + from * bytes,
                                    layer.buffer, layer.offset + to * bytes, bytes);
        }
        if (status != DGL_OK) {
            store->free[store->num_free++] = to;
            goto done;
        }
        kv_cache_hold(kv, g, pages, i, to);
        drop(kv, g, pages, from);
        pages->num_known = pages->num_known < i ? pages->num_known : i;
    }
done:
    return status;
}

void kv_cache_fork(struct kv_cache *kv, const struct kv_pages *from, uint32_t count,
                   struct kv_pages *to)
{
    assert(to->count == 0 && count <= from->count && count <= to->most && !to->pooled);
    for (; to->count < count; to->count++)
        for (uint32_t g = 0; g < kv->num_groups; g++)
            kv_cache_hold(kv, g, to, to->count, from->page[g][to->count]);
    to->prefix_serial = from->prefix_serial;
    to->root = from->root;
    to->num_page_ids = from->num_page_ids < count ? from->num_page_ids : count;
    memcpy(to->page_id, from->page_id, to->num_page_ids * sizeof(*to->page_id));
}

/* Pages are released in reverse, so that eviction drops the tail of a cached prefix before its
 * head. */
void kv_cache_give(struct kv_cache *kv, struct kv_pages *pages, uint32_t count)
{
    for (; pages->count > count; pages->count--)
        for (uint32_t g = 0; g < kv->num_groups; g++)
            drop(kv, g, pages, pages->page[g][pages->count - 1]);
    if (pages->num_known > count)
        pages->num_known = count;
    if (pages->num_page_ids > count)
        pages->num_page_ids = count;
}
