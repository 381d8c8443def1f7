/* Cache of full pages by their tokens and all tokens before them, so that sequences share a common
 * prefix.
 *
 * A cached page has an id and stores the id of the page before it. Two pages match if their tokens
 * and the ids of their parents are equal. Both are compared; the hash only selects the bucket. Ids
 * are never reused: if a page is evicted, the pages after it can no longer be found.
 * The parent of a first page is the root of its sequence, so that different roots share nothing.
 * Cached pages without a user are kept in the order in which they were left. */
#include <assert.h>
#include <string.h>

#include "core/memory/kv_cache.h"

#define FIRST_PAGE_ID 1
#define ROOT          (1ull << 63) /* set in all roots, and in no page id */

/* SplitMix64's finisher over the hash so far and one more word. */
static uint64_t mix(uint64_t h, uint64_t word)
{
    h ^= word;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

uint64_t kv_prefix_root(enum dgl_kv_type type, uint64_t adapters, uint64_t images)
{
    return mix(mix(mix(0x9e3779b97f4a7c15u, (uint64_t)type), adapters), images) | ROOT;
}

/* Over the parent and the tokens, two at a time. */
static uint64_t hash_of(uint64_t parent, const int32_t *ids)
{
    uint64_t h = parent * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < DGL_KV_PAGE; i += 2)
        h = mix(h, (uint64_t)(uint32_t)ids[i] << 32 | (uint32_t)ids[i + 1]);
    return h;
}

static uint16_t *bucket_of(const struct kv_cache *kv, uint64_t parent, const int32_t *ids)
{
    return &kv->bucket[hash_of(parent, ids) % kv->pages];
}

static uint16_t find(const struct kv_cache *kv, uint64_t parent, const int32_t *ids)
{
    uint16_t page = kv->pages ? *bucket_of(kv, parent, ids) : KV_NO_PAGE;
    while (page != KV_NO_PAGE && (kv->page[page].parent != parent ||
                                  memcmp(kv->page[page].ids, ids, sizeof(kv->page[page].ids)) != 0))
        page = kv->page[page].next;
    return page;
}

void kv_prefix_rehash(struct kv_cache *kv)
{
    for (uint32_t i = 0; i < kv->pages; i++)
        kv->bucket[i] = KV_NO_PAGE;
    for (uint32_t i = 0; i < kv->pages; i++) {
        struct kv_page *p = &kv->page[i];
        if (!p->page_id)
            continue;
        uint16_t *bucket = bucket_of(kv, p->parent, p->ids);
        p->next = *bucket;
        *bucket = (uint16_t)i;
    }
}

void kv_prefix_evict(struct kv_cache *kv, uint16_t page)
{
    struct kv_page *p = &kv->page[page];
    uint16_t *link = bucket_of(kv, p->parent, p->ids);
    assert(p->page_id);
    while (*link != page)
        link = &kv->page[*link].next;
    *link = p->next;
    p->page_id = 0;
}

void kv_prefix_unref(struct kv_cache *kv, uint16_t page)
{
    struct kv_page *p = &kv->page[page];
    p->older = kv->newest;
    p->newer = KV_NO_PAGE;
    *(kv->newest == KV_NO_PAGE ? &kv->oldest : &kv->page[kv->newest].newer) = page;
    kv->newest = page;
    kv->num_idle++;
}

void kv_prefix_ref(struct kv_cache *kv, uint16_t page)
{
    const struct kv_page *p = &kv->page[page];
    *(p->older == KV_NO_PAGE ? &kv->oldest : &kv->page[p->older].newer) = p->newer;
    *(p->newer == KV_NO_PAGE ? &kv->newest : &kv->page[p->newer].older) = p->older;
    kv->num_idle--;
}

void kv_prefix_evict_all(struct kv_cache *kv)
{
    while (kv->oldest != KV_NO_PAGE) {
        const uint16_t page = kv->oldest;
        kv_prefix_ref(kv, page);
        kv->free[kv->num_free++] = page;
    }
    for (uint32_t i = 0; i < kv->pages; i++) {
        kv->page[i].page_id = 0;
        kv->bucket[i] = KV_NO_PAGE;
    }
    kv->prefix_serial++;
}

void kv_prefix_note(struct kv_cache *kv, struct kv_pages *pages, const int32_t *ids, int32_t from,
                    int32_t to)
{
    uint32_t i = (uint32_t)(from / DGL_KV_PAGE);
    if (from == 0) {
        pages->prefix_serial = kv->prefix_serial;
        pages->num_page_ids = 0;
    }
    if (pages->prefix_serial != kv->prefix_serial || pages->num_page_ids < i)
        return;
    for (; i < (uint32_t)(to / DGL_KV_PAGE); i++) {
        const int32_t *page_ids = ids + (size_t)i * DGL_KV_PAGE;
        const uint64_t parent = i ? pages->page_id[i - 1] : pages->root;
        uint16_t page = find(kv, parent, page_ids);
        if (page == KV_NO_PAGE) {
            page = pages->page[i];
            struct kv_page *p = &kv->page[page];
            assert(!p->page_id && p->refs > 0);
            p->page_id = FIRST_PAGE_ID + kv->last_page_id++;
            p->parent = parent;
            memcpy(p->ids, page_ids, sizeof(p->ids));
            uint16_t *bucket = bucket_of(kv, parent, page_ids);
            p->next = *bucket;
            *bucket = page;
        }
        pages->page_id[i] = kv->page[page].page_id;
        pages->num_page_ids = i + 1;
    }
}

uint32_t kv_prefix_find(const struct kv_cache *kv, const struct kv_pages *pages, const int32_t *ids,
                        int32_t pos, int32_t count)
{
    assert(pos % DGL_KV_PAGE == 0);
    if (pos > 0 && (pages->prefix_serial != kv->prefix_serial ||
                    pages->num_page_ids < (uint32_t)(pos / DGL_KV_PAGE)))
        return 0;
    uint64_t parent = pos ? pages->page_id[pos / DGL_KV_PAGE - 1] : pages->root;
    uint32_t found = 0;
    for (; pos + DGL_KV_PAGE <= count; pos += DGL_KV_PAGE, found++) {
        const uint16_t page = find(kv, parent, ids + pos);
        if (page == KV_NO_PAGE)
            break;
        parent = kv->page[page].page_id;
    }
    return found;
}

uint32_t kv_prefix_held(const struct kv_cache *kv, uint64_t root, const int32_t *ids, int32_t count)
{
    uint64_t parent = root;
    uint32_t held = 0;
    for (int32_t pos = 0; pos + DGL_KV_PAGE <= count; pos += DGL_KV_PAGE) {
        const uint16_t page = find(kv, parent, ids + pos);
        if (page == KV_NO_PAGE)
            break;
        held += kv->page[page].pooled_refs > 0;
        parent = kv->page[page].page_id;
    }
    return held;
}

uint32_t kv_prefix_reuse(struct kv_cache *kv, struct kv_pages *pages, const int32_t *ids,
                         int32_t pos, int32_t count)
{
    const uint32_t first = (uint32_t)(pos / DGL_KV_PAGE);
    uint32_t found = kv_prefix_find(kv, pages, ids, pos, count);
    if (found == 0)
        return 0;
    if (pos == 0)
        pages->prefix_serial = kv->prefix_serial;
    kv_cache_give(kv, pages, first);
    for (uint32_t i = first; i < first + found; i++) {
        const uint64_t parent = i ? pages->page_id[i - 1] : pages->root;
        const uint16_t page = find(kv, parent, ids + (size_t)i * DGL_KV_PAGE);
        if (pages->pooled && kv->page[page].pooled_refs == 0 && kv->pool_used >= kv->pool_pages)
            break;
        kv_cache_hold(kv, pages, page);
        pages->page[i] = page;
        pages->page_id[i] = kv->page[page].page_id;
        pages->count = pages->num_page_ids = i + 1;
    }
    return pages->count - first;
}
