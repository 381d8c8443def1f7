/*
 * The KV cache of a model: pages, which its sequences take as they grow and give back. A page holds
 * DGL_KV_PAGE positions of one sequence in every layer: of each, keys, then values, both
 * [kv_heads][DGL_KV_PAGE][head_dim], f16 or f32. kernels/lib/kv knows the addresses within.
 *
 * A layer's pages are one range, so that one binding reaches them; the layers are in few buffers.
 * When all pages are taken, the cache moves to larger buffers: it has pages for FIRST_TOKENS of
 * each session at least, twice as many whenever it moves, and no more than what is promised. Where
 * the device has no room for two copies, it has all of them from the beginning: what a session was
 * promised is then there whenever it grows. Guests are sequences that were promised nothing of
 * their own: they share a number of pages, and whoever runs them sees to it that they suffice.
 *
 * Several sequences may have a page: it has positions that they begin with. Who writes to one that
 * others have gets a copy first. A full page may be known by its tokens and those before it
 * (kv_prefix.c); when nobody has it any more it stays for who begins alike, and the one that was
 * left the longest ago goes when a page is wanted.
 */
#ifndef DGL_CORE_KV_CACHE_H
#define DGL_CORE_KV_CACHE_H

#include "core/memory/device.h"
#include "kernels/step.h"

#define KV_NO_PAGE UINT16_MAX

struct kv_page {
    uint32_t refs;   /* sequences that have it */
    uint32_t guests; /* guests that have it */
    /* When it is known by its tokens: */
    uint64_t node;         /* its name, never given twice; 0 = it is not known */
    uint64_t parent;       /* name of the page before it; 0 = it is the first one */
    uint16_t next;         /* page with a like hash */
    uint16_t older, newer; /* neighbours among those that are known and nobody's */
    int32_t ids[DGL_KV_PAGE];
};

struct kv_cache {
    struct dgl_device *dev;
    struct gl_range *layer; /* [layers], of `pages` pages each; no buffer while pages is 0 */
    struct gl_buffer **buffers;
    uint32_t layers, num_buffers;
    uint64_t page_bytes;  /* of one layer */
    uint32_t most_pages;  /* that one binding reaches */
    uint32_t pages;       /* that there is memory for */
    uint32_t promised;    /* to all sequences, and to guests */
    uint32_t first;       /* of these, what is there from the beginning */
    bool whole;           /* all that is promised is there from the beginning */
    uint32_t guest_pages; /* promised to guests, all together */
    uint32_t guest_used;  /* that guests have */
    uint32_t serial;      /* raised when the buffers are replaced: bind again */
    struct kv_page *page; /* [pages] */
    uint16_t *free;       /* [pages]; the first num_free are nobody's, the last goes first */
    uint16_t *bucket;     /* [pages], the first page of each hash */
    uint32_t num_free;
    uint32_t num_idle;       /* known, and nobody's */
    uint16_t oldest, newest; /* of these */
    uint64_t last_node;
    uint32_t prefix_serial; /* raised when all that is known is forgotten */
    uint64_t bytes;
};

/* The pages of one sequence, by position. */
struct kv_pages {
    uint16_t *page; /* [count], room for [most], or for one more where that is odd */
    uint64_t *node; /* [num_nodes], names of what the sequence begins with, as they are known */
    uint32_t count, most;
    uint32_t num_known; /* so many leading ones are in the page table on the device */
    uint32_t num_nodes;
    uint32_t prefix_serial; /* of the names */
    bool guest;
};

/* A cache without memory. */
void kv_cache_init(struct kv_cache *kv, struct dgl_device *dev, uint32_t layers,
                   uint64_t page_bytes);
/* A sequence that may come to `most` pages, which with what was promised before are not more than
 * most_pages. `left`: bytes that are free on the device, 0 = unknown. Does nothing on failure. */
enum dgl_status kv_cache_join(struct kv_cache *kv, uint32_t most, uint64_t left,
                              struct kv_pages *out);
/* A guest that may come to `most` pages; kv_cache_invite() came before. */
enum dgl_status kv_cache_join_guest(struct kv_cache *kv, uint32_t most, struct kv_pages *out);
/* Promises `pages` to guests; of these, `first` are there from the beginning. */
enum dgl_status kv_cache_invite(struct kv_cache *kv, uint32_t pages, uint32_t first, uint64_t left);
/* Takes that back, when the guests have left. */
void kv_cache_uninvite(struct kv_cache *kv, uint32_t pages, uint32_t first);
/* Gives all that a sequence has back; when nothing is promised any more, the cache's memory is
 * freed. Accepts a sequence that is all zero. */
void kv_cache_leave(struct kv_cache *kv, struct kv_pages *pages);
/* Frees the memory, of which nobody has a page; what is promised stays so. */
/* The most bytes that it has at any time while a lone sequence comes to have `pages`: as it moves,
 * what it leaves too. */
uint64_t kv_cache_most_bytes(const struct kv_cache *kv, uint32_t pages);
void kv_cache_drop(struct kv_cache *kv);
/* The sequence's first `count` pages, at most `most`, are there; may move the cache. On failure it
 * has what it had. DGL_ERR_NO_MEMORY for a guest: kv_cache_lacks(). */
enum dgl_status kv_cache_take(struct kv_cache *kv, struct kv_pages *pages, uint32_t count);
/* Whether that would move the cache. */
bool kv_cache_moves(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count);
/* How many pages a guest would have to wait for. */
uint32_t kv_cache_lacks(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count);
/* Before positions of page `i` are written: should others have it, or know it by its tokens, the
 * sequence gets one of its own that holds the same. Nothing to do for pages that it has not. May
 * move the cache. */
enum dgl_status kv_cache_own(struct kv_cache *kv, struct kv_pages *pages, uint32_t i);
/* Whether that would take a page. */
bool kv_cache_must_copy(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t i);
/* A sequence without pages gets the first `count` of another, at most its `most`. */
void kv_cache_fork(struct kv_cache *kv, const struct kv_pages *from, uint32_t count,
                   struct kv_pages *to);
/* For kv_prefix.c: the sequence has the page, wherever it puts it. */
void kv_cache_hold(struct kv_cache *kv, struct kv_pages *pages, uint16_t page);
/* The sequence keeps its first `count` pages. Touches no device. */
void kv_cache_give(struct kv_cache *kv, struct kv_pages *pages, uint32_t count);

/* ---- pages by their tokens: kv_prefix.c ------------------------------------------------------ */

/* All pages of positions `from` to `to` that are full have just been evaluated, in their order, for
 * ids[0 .. to): whoever begins alike may have them, until they are overwritten. */
void kv_prefix_note(struct kv_cache *kv, struct kv_pages *pages, const int32_t *ids, int32_t from,
                    int32_t to);
/* Pages that other sequences evaluated for ids[pos .. count), whole ones; 0 as well when what the
 * sequence has of the first `pos` ids, a number of whole pages, is not known by its tokens. */
uint32_t kv_prefix_find(const struct kv_cache *kv, const struct kv_pages *pages, const int32_t *ids,
                        int32_t pos, int32_t count);
/* Of the pages of ids[0 .. count) that are known, how many guests have. */
uint32_t kv_prefix_held(const struct kv_cache *kv, const int32_t *ids, int32_t count);
/* The sequence gets those, in place of what it has from there on; as many as there are, and as many
 * as a guest may have. */
uint32_t kv_prefix_adopt(struct kv_cache *kv, struct kv_pages *pages, const int32_t *ids,
                         int32_t pos, int32_t count);
/* Other kernels will compute other numbers: nothing that was evaluated is given to others. */
void kv_prefix_forget_all(struct kv_cache *kv);
/* A page is not known any more. */
void kv_prefix_forget(struct kv_cache *kv, uint16_t page);
/* A page that is known was left by the last one that had it, or is nobody's no more. */
void kv_prefix_idle(struct kv_cache *kv, uint16_t page);
void kv_prefix_wake(struct kv_cache *kv, uint16_t page);
/* Puts all that is known into the buckets of a cache that has others. */
void kv_prefix_rehash(struct kv_cache *kv);

#endif
