/*
 * Rows of a KV cache on the host: the keys or the values of consecutive positions, [position]
 * [kv_heads][head_dim], in the number format of the cache and independent of their pages.
 * kernels/lib/kv/kv.glsl describes a page.
 */
#ifndef DGL_CORE_KV_ROWS_H
#define DGL_CORE_KV_ROWS_H

#include "core/memory/kv_cache.h"
#include "core/plan/kv_layout.h"

/* Range to copy: positions [page * DGL_KV_PAGE, + count) of a sequence, count <= DGL_KV_PAGE. */
struct kv_rows {
    uint32_t group, layer; /* layer of the group */
    enum kv_part part;
    uint32_t page; /* of the sequence's pages */
    uint32_t count;
    uint32_t heads, head_bytes; /* of one position, of one head there */
};

/* Copies rows to the host and waits for them. `page` is scratch for the keys, or the values, of a
 * page: kv_group.part_bytes. */
enum dgl_status kv_rows_read(const struct kv_cache *kv, struct dgl_device *dev,
                             const struct kv_pages *pages, const struct kv_rows *rows, void *page,
                             void *out);
/* Writes rows into a page that no other sequence shares. The rest of the page becomes 0. */
enum dgl_status kv_rows_write(const struct kv_cache *kv, struct dgl_device *dev,
                              const struct kv_pages *pages, const struct kv_rows *rows, void *page,
                              const void *in);

#endif
