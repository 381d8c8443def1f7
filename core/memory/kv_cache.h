/*
 * The KV cache of a model: pages, which its sequences take as they grow and give back. A page holds
 * DGL_KV_PAGE positions of one sequence in every layer: of each, keys, then values, both
 * [kv_heads][DGL_KV_PAGE][head_dim], f16 or f32. kernels/lib/kv knows the addresses within.
 *
 * A layer's pages are one range, so that one binding reaches them; the layers are in few buffers.
 * When all pages are taken, the cache moves to larger buffers: it has pages for FIRST_TOKENS of
 * each session at least, twice as many whenever it moves, and no more than all contexts together
 * come to. Where the device has no room for two copies, it has all of them from the beginning: what
 * a session was promised is then there whenever it grows.
 */
#ifndef DGL_CORE_KV_CACHE_H
#define DGL_CORE_KV_CACHE_H

#include "core/memory/device.h"
#include "kernels/step.h"

struct kv_cache {
    struct gl_range *layer; /* [layers], of `pages` pages each; no buffer while pages is 0 */
    struct gl_buffer **buffers;
    uint32_t layers, num_buffers;
    uint64_t page_bytes; /* of one layer */
    uint32_t most_pages; /* that one binding reaches */
    uint32_t pages;      /* that there is memory for */
    uint32_t promised;   /* that the contexts of all sequences come to */
    uint32_t first;      /* of these, what is there from the beginning */
    uint32_t serial;     /* raised when the buffers are replaced: bind again */
    uint16_t *free;      /* [pages]; the first num_free are nobody's, the last of them goes first */
    uint32_t num_free;
    uint64_t bytes;
};

/* The pages of one sequence, by position. */
struct kv_pages {
    uint16_t *page; /* [count], room for [most], or for one more where that is odd */
    uint32_t count, most;
    uint32_t num_known; /* so many leading ones are in the page table on the device */
};

/* A cache without memory. */
void kv_cache_init(struct kv_cache *kv, const struct dgl_device *dev, uint32_t layers,
                   uint64_t page_bytes);
/* A sequence that may come to `most` pages, which with what was promised before are not more than
 * most_pages. `left`: bytes that are free on the device, 0 = unknown. Does nothing on failure. */
enum dgl_status kv_cache_join(struct kv_cache *kv, struct dgl_device *dev, uint32_t most,
                              uint64_t left, struct kv_pages *out);
/* Gives all that a sequence has back; the last one's leave frees the cache's memory. Accepts a
 * sequence that is all zero. */
void kv_cache_leave(struct kv_cache *kv, struct dgl_device *dev, struct kv_pages *pages);
/* The sequence's first `count` pages, at most `most`, are there; may move the cache. On failure it
 * has what it had. */
enum dgl_status kv_cache_take(struct kv_cache *kv, struct dgl_device *dev, struct kv_pages *pages,
                              uint32_t count);
/* Whether that would move the cache. */
bool kv_cache_moves(const struct kv_cache *kv, const struct kv_pages *pages, uint32_t count);
/* The sequence keeps its first `count` pages. Touches no device. */
void kv_cache_give(struct kv_cache *kv, struct kv_pages *pages, uint32_t count);

#endif
