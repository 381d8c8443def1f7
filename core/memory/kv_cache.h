/*
 * The KV cache of a model. Its sequences take pages as they grow, and give them back. A page holds
 * DGL_KV_PAGE positions of one sequence in every layer of a group (core/plan/kv_layout.h): first
 * the keys, then the values, both [kv_heads][DGL_KV_PAGE][head_dim], f16 or f32. kernels/lib/kv
 * computes the addresses within a page. Each group has its own pages. For the same positions, a
 * sequence uses one page of each group, with different page numbers. core/seq writes the page table
 * on the device.
 *
 * The pages of a layer are one range, so that one binding reaches them. The layers are spread over
 * few buffers. If all pages are taken, the cache moves to larger buffers. It starts with pages for
 * FIRST_TOKENS of each session, doubles with every move, and never exceeds the reserved pages. If
 * the device has no room for two copies during a move, all reserved pages are allocated at the
 * start, so that a session can always grow to its reservation. Pooled sequences have no
 * reservation of their own. They share a pool of pages, and their scheduler makes sure that the
 * pool suffices.
 *
 * Several sequences may share a page of a common prefix. Before a sequence writes to a shared page,
 * it gets a copy. A full page can be found by its tokens and all tokens before it (kv_prefix.c). If
 * the last sequence leaves it, the page stays cached for reuse. If a page is needed, the least
 * recently used cached page is evicted.
 */
#ifndef DGL_CORE_KV_CACHE_H
#define DGL_CORE_KV_CACHE_H

#include "core/memory/device.h"
#include "core/plan/kv_layout.h"
#include "kernels/step.h"

#define KV_NO_PAGE UINT16_MAX

struct kv_page {
    uint32_t refs;        /* sequences that use the page */
    uint32_t pooled_refs; /* pooled sequences among them */
    /* Used if the page can be found by its tokens: */
    uint64_t page_id;      /* never reused; 0 if the page is not cached */
    uint64_t parent;       /* id of the page before it; the root if it is the first page */
    uint16_t next;         /* next page of the same hash bucket */
    uint16_t older, newer; /* neighbours in the list of cached pages that no sequence uses */
    int32_t ids[DGL_KV_PAGE];
};

/* The buffers and pages of one group of layers. */
struct kv_store {
    struct kv_group group;
    struct gl_range *layer; /* [group.layers], of `pages` pages each; NULL while pages is 0 */
    struct gl_buffer **buffers;
    uint32_t num_buffers;
    uint32_t pages;       /* allocated pages */
    uint32_t pool_used;   /* pages that pooled sequences use */
    struct kv_page *page; /* [pages] */
    /* [pages]; the first num_free are unused. The last of these is used next. */
    uint16_t *free;
    uint16_t *bucket; /* [pages], the first page of each hash */
    uint32_t num_free;
    uint32_t num_idle;       /* cached pages that no sequence uses */
    uint16_t oldest, newest; /* of these */
    uint64_t bytes;
};

struct kv_cache {
    struct dgl_device *dev;
    uint32_t num_groups;
    struct kv_store store[KV_MAX_GROUPS];
    uint32_t entries;    /* of the page table, for each group: kv_layout_entries() */
    uint64_t page_bytes; /* of a page of each group, in all layers */
    uint32_t most_pages; /* limit per group, so that one binding reaches a layer's pages */
    /* Numbers of pages of each group: */
    uint32_t promised;   /* to all sequences, and to the pool */
    uint32_t first;      /* pages of the reservation that are allocated from the start */
    bool whole;          /* all reserved pages are allocated from the start */
    uint32_t pool_pages; /* promised to pooled sequences, all together */
    uint32_t serial;     /* raised if the buffers are replaced: bindings must be renewed */
    uint64_t last_page_id;
    uint64_t root;          /* of a sequence without adapters and images */
    uint32_t prefix_serial; /* raised if all cached pages are forgotten */
    uint64_t bytes;
};

/* The pages of one sequence, by position. */
struct kv_pages {
    /* Of each group: [count], allocated for [most], rounded up to an even number. One block. */
    uint16_t *page[KV_MAX_GROUPS];
    uint64_t *page_id; /* [num_page_ids], ids of the sequence's first pages */
    uint32_t count, most;
    uint32_t num_known; /* leading pages that are in the page table of the sequence's passes */
    uint32_t num_page_ids;
    uint32_t prefix_serial; /* kv_cache.prefix_serial when the ids were set */
    uint64_t root;          /* kv_prefix_root(); may change while there are no ids */
    bool pooled;
};

/* Initialises a cache without memory. `root` is the root of every sequence that joins. */
void kv_cache_init(struct kv_cache *kv, struct dgl_device *dev, const struct kv_layout *layout,
                   uint64_t root);
/* Adds a sequence that may grow to `most` pages. Together with all earlier reservations these must
 * not exceed most_pages. `left` is the number of free bytes on the device, or 0 if unknown. On
 * failure the cache is unchanged. */
enum dgl_status kv_cache_join(struct kv_cache *kv, uint32_t most, uint64_t left,
                              struct kv_pages *out);
/* Adds a pooled sequence that may grow to `most` pages. Requires a pool from
 * kv_cache_reserve_pool(). */
enum dgl_status kv_cache_join_pooled(struct kv_cache *kv, uint32_t most, struct kv_pages *out);
/* Reserves a pool of `pages` for pooled sequences, of which `first` are allocated from the
 * start. */
enum dgl_status kv_cache_reserve_pool(struct kv_cache *kv, uint32_t pages, uint32_t first,
                                      uint64_t left);
/* Releases that pool after all pooled sequences have left. */
void kv_cache_release_pool(struct kv_cache *kv, uint32_t pages, uint32_t first);
/* Gives back all pages and the reservation of a sequence. If no reservation is left, the memory of
 * the cache is freed. Accepts a sequence that is all zero. */
void kv_cache_leave(struct kv_cache *kv, struct kv_pages *pages);
/* Returns the peak size in bytes while a lone sequence grows to `pages`, including the old buffers
 * during a move. */
uint64_t kv_cache_most_bytes(const struct kv_cache *kv, uint32_t pages);
/* Returns a number that changes if layers move to other buffers of the group, or to more or fewer.
 * The text of a persistent program depends on it. */
uint64_t kv_cache_division(const struct kv_cache *kv);
/* Frees the buffers. No sequence may hold a page. Reservations are kept. */
void kv_cache_drop(struct kv_cache *kv);
/* Takes pages until the sequence has `count`, at most `most`. May move the cache. On failure the
 * sequence keeps its pages. Returns DGL_ERR_NO_MEMORY if a pooled sequence has to wait:
 * kv_cache_lacks(). */
enum dgl_status kv_cache_take(struct kv_cache *kv, struct kv_pages *pages, uint32_t count);
/* Returns true if kv_cache_take() would move the cache. */
bool kv_cache_moves(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count);
/* Returns the number of pages that pooled sequences have in the group where they have most. */
uint32_t kv_cache_pool_used(const struct kv_cache *kv);
/* Returns true if no other pooled sequence has page `i` of a pooled sequence, in any group. */
bool kv_cache_is_own(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t i);
/* Returns the number of pages that a pooled sequence has to wait for. */
uint32_t kv_cache_lacks(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count);
/* Call before positions of page `i` are written. If the page is shared, or cached by its tokens,
 * the sequence gets its own copy. Has no effect if the sequence does not have the page. May move
 * the cache. */
enum dgl_status kv_cache_own(struct kv_cache *kv, struct kv_pages *pages, uint32_t i);
/* Makes `to`, a sequence without pages, share the first `count` pages of `from`. `count` is at most
 * to->most. */
void kv_cache_fork(struct kv_cache *kv, const struct kv_pages *from, uint32_t count,
                   struct kv_pages *to);
/* For kv_prefix.c: adds a reference of the sequence to the group's page, as its page `i`. */
void kv_cache_hold(struct kv_cache *kv, uint32_t group, struct kv_pages *pages, uint32_t i,
                   uint16_t page);
/* The sequence keeps its first `count` pages and gives back all others. Does not use the device. */
void kv_cache_give(struct kv_cache *kv, struct kv_pages *pages, uint32_t count);

/* ---- pages by their tokens: kv_prefix.c ------------------------------------------------------ */

/* Hashes everything that a page depends on besides its tokens: the layout of the cache
 * (kv_layout_identity()), the adapter set and the digest of the images (0 without images).
 * Sequences share pages only if their roots are equal. */
uint64_t kv_prefix_root(uint32_t layout, uint64_t adapters, uint64_t images);
/* Returns the root of the sequences of one scope. Scope 0 is `root` itself. */
uint64_t kv_prefix_scoped(uint64_t root, uint64_t scope);
/* Caches all full pages of positions `from` to `to`, which were just evaluated in order for ids[0
 * .. to). Sequences with the same prefix can then share them, until they are overwritten. */
void kv_prefix_note(struct kv_cache *kv, struct kv_pages *pages, const int32_t *ids, int32_t from,
                    int32_t to);
/* Returns the number of whole pages for ids[pos .. count) that are cached in all groups. `pos` is a
 * whole number of pages. Returns 0 also if the pages before `pos` have no known ids. */
uint32_t kv_prefix_find(const struct kv_cache *kv, const struct kv_pages *pages, const int32_t *ids,
                        int32_t pos, int32_t count);
/* Counts the cached pages for ids[0 .. count) that pooled sequences use. */
uint32_t kv_prefix_held(const struct kv_cache *kv, uint64_t root, const int32_t *ids,
                        int32_t count);
/* Replaces the pages from position `pos` on by cached pages with the same ids. Stops at the first
 * page that is not cached, or for which the pool has no room. Returns the number of pages replaced.
 */
uint32_t kv_prefix_reuse(struct kv_cache *kv, struct kv_pages *pages, const int32_t *ids,
                         int32_t pos, int32_t count);
/* Call if the kernels change: other kernels compute other numbers, so no cached page may be
 * reused. */
void kv_prefix_evict_all(struct kv_cache *kv);
/* Evicts a page: it can no longer be found by its tokens. */
void kv_prefix_evict(struct kv_store *store, uint16_t page);
/* Unref: the last sequence left a cached page, which may be evicted from now on. Ref: a sequence
 * takes the page again, or it is evicted. */
void kv_prefix_unref(struct kv_store *store, uint16_t page);
void kv_prefix_ref(struct kv_store *store, uint16_t page);
/* Inserts all cached pages into the buckets again, after their number has changed. */
void kv_prefix_rehash(struct kv_store *store);

#endif
