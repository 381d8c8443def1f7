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

uint64_t kv_prefix_root(uint32_t layout, uint64_t adapters, uint64_t images)
{
    return mix(mix(mix(0x9e3779b97f4a7c15u, layout), adapters), images) | ROOT;
}

uint64_t kv_prefix_scoped(uint64_t root, uint64_t scope)
{
    return scope ? mix(root, scope) | ROOT : root;
}

/* Over the parent and the tokens, two at a time. */
static uint64_t hash_of(uint64_t parent, const int32_t *ids)
{
    uint64_t h = parent * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < DGL_KV_PAGE; i += 2)
        h = mix(h, (uint64_t)(uint32_t)ids[i] << 32 | (uint32_t)ids[i + 1]);
    return h;
}

static uint16_t *bucket_of(const struct kv_store *store, uint64_t parent, const int32_t *ids)
{
    return &store->bucket[hash_of(parent, ids) % store->pages];
}

static uint16_t find(const struct kv_store *store, uint64_t parent, const int32_t *ids)
{
    uint16_t at = store->pages ? *bucket_of(store, parent, ids) : KV_NO_PAGE;
    while (at != KV_NO_PAGE && (store->page[at].parent != parent ||
                                memcmp(store->page[at].ids, ids, sizeof(store->page[at].ids)) != 0))
        at = store->page[at].next;
    return at;
}

/* Finds the page of each group. Returns the number of groups that have one, and sets *id if it is
 * not 0: cached pages with equal tokens and parents have the same id in all groups. */
static uint32_t find_all(const struct kv_cache *kv, uint64_t parent, const int32_t *ids,
                         uint16_t page[KV_MAX_GROUPS], uint64_t *id)
{
    uint32_t found = 0;
    for (uint32_t g = 0; g < kv->num_groups; g++) {
        page[g] = find(&kv->store[g], parent, ids);
        if (page[g] == KV_NO_PAGE)
            continue;
        assert(found == 0 || *id == kv->store[g].page[page[g]].page_id);
        *id = kv->store[g].page[page[g]].page_id;
        found++;
    }
    return found;
}

void kv_prefix_rehash(struct kv_store *store)
{
    for (uint32_t i = 0; i < store->pages; i++)
        store->bucket[i] = KV_NO_PAGE;
    for (uint32_t i = 0; i < store->pages; i++) {
        struct kv_page *p = &store->page[i];
        if (!p->page_id)
            continue;
        uint16_t *bucket = bucket_of(store, p->parent, p->ids);
        p->next = *bucket;
        *bucket = (uint16_t)i;
    }
}

void kv_prefix_evict(struct kv_store *store, uint16_t page)
{
    struct kv_page *p = &store->page[page];
    uint16_t *link = bucket_of(store, p->parent, p->ids);
    assert(p->page_id);
    while (*link != page)
        link = &store->page[*link].next;
    *link = p->next;
    p->page_id = 0;
}

void kv_prefix_unref(struct kv_store *store, uint16_t page)
{
    struct kv_page *p = &store->page[page];
    p->older = store->newest;
    p->newer = KV_NO_PAGE;
    *(store->newest == KV_NO_PAGE ? &store->oldest : &store->page[store->newest].newer) = page;
    store->newest = page;
    store->num_idle++;
}

void kv_prefix_ref(struct kv_store *store, uint16_t page)
{
    const struct kv_page *p = &store->page[page];
    *(p->older == KV_NO_PAGE ? &store->oldest : &store->page[p->older].newer) = p->newer;
    *(p->newer == KV_NO_PAGE ? &store->newest : &store->page[p->newer].older) = p->older;
    store->num_idle--;
}

void kv_prefix_evict_all(struct kv_cache *kv)
{
    for (uint32_t g = 0; g < kv->num_groups; g++) {
        struct kv_store *store = &kv->store[g];
        while (store->oldest != KV_NO_PAGE) {
            const uint16_t page = store->oldest;
            kv_prefix_ref(store, page);
            store->free[store->num_free++] = page;
        }
        for (uint32_t i = 0; i < store->pages; i++) {
            store->page[i].page_id = 0;
            store->bucket[i] = KV_NO_PAGE;
        }
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
        uint16_t page[KV_MAX_GROUPS];
        if (find_all(kv, parent, page_ids, page, &pages->page_id[i]) == 0)
            pages->page_id[i] = FIRST_PAGE_ID + kv->last_page_id++;
        for (uint32_t g = 0; g < kv->num_groups; g++) {
            struct kv_store *store = &kv->store[g];
            const uint16_t own = pages->page[g][i];
            struct kv_page *p = &store->page[own];
            if (page[g] != KV_NO_PAGE)
                continue;
            assert(!p->page_id && p->refs > 0);
            p->page_id = pages->page_id[i];
            p->parent = parent;
            memcpy(p->ids, page_ids, sizeof(p->ids));
            uint16_t *bucket = bucket_of(store, parent, page_ids);
            p->next = *bucket;
            *bucket = own;
        }
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
    uint16_t page[KV_MAX_GROUPS];
    uint32_t found = 0;
    for (; pos + DGL_KV_PAGE <= count; pos += DGL_KV_PAGE, found++)
        if (find_all(kv, parent, ids + pos, page, &parent) < kv->num_groups)
            break;
    return found;
}

uint32_t kv_prefix_held(const struct kv_cache *kv, uint64_t root, const int32_t *ids, int32_t count)
{
    uint64_t parent = root;
    uint16_t page[KV_MAX_GROUPS];
    uint32_t held = 0;
    for (int32_t pos = 0; pos + DGL_KV_PAGE <= count; pos += DGL_KV_PAGE) {
        bool all = true;
        if (find_all(kv, parent, ids + pos, page, &parent) < kv->num_groups)
            break;
        for (uint32_t g = 0; g < kv->num_groups; g++)
            all = all && kv->store[g].page[page[g]].pooled_refs > 0;
        held += all;
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
        uint16_t page[KV_MAX_GROUPS];
        bool room = true;
        find_all(kv, parent, ids + (size_t)i * DGL_KV_PAGE, page, &pages->page_id[i]);
        for (uint32_t g = 0; g < kv->num_groups; g++)
            room = room && (!pages->pooled || kv->store[g].page[page[g]].pooled_refs > 0 ||
                            kv->store[g].pool_used < kv->pool_pages);
        if (!room)
            break;
        for (uint32_t g = 0; g < kv->num_groups; g++)
            kv_cache_hold(kv, g, pages, i, page[g]);
        pages->count = pages->num_page_ids = i + 1;
    }
    return pages->count - first;
}
