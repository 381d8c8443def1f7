/* Copies pages of the KV cache to rows in the order of positions, and back. */
#include "core/memory/kv_rows.h"

#include <assert.h>
#include <string.h>

/* Returns the place of the rows: the keys or the values of a page in a layer. */
static struct gl_range part_of(const struct kv_cache *kv, const struct kv_pages *pages,
                               const struct kv_rows *rows)
{
    const struct kv_store *store = &kv->store[rows->group];
    const uint64_t bytes = (uint64_t)rows->heads * DGL_KV_PAGE * rows->head_bytes;
    assert(rows->group < kv->num_groups && rows->layer < store->group.layers);
    assert(rows->page < pages->count && rows->count <= DGL_KV_PAGE);
    assert(bytes == store->group.part_bytes[rows->part]);
    return (struct gl_range){store->layer[rows->layer].buffer,
                             store->layer[rows->layer].offset +
                                 pages->page[rows->group][rows->page] * store->group.page_bytes +
                                 (rows->part == KV_VALUES ? store->group.part_bytes[KV_KEYS] : 0),
                             bytes};
}

enum dgl_status kv_rows_read(const struct kv_cache *kv, struct dgl_device *dev,
                             const struct kv_pages *pages, const struct kv_rows *rows, void *page,
                             void *out)
{
    const size_t bytes = rows->head_bytes, row_bytes = rows->heads * bytes;
    const struct gl_range part = part_of(kv, pages, rows);
    enum dgl_status status = gl_buffer_read(dev->gl, part.buffer, part.offset, page, part.size);
    for (uint32_t h = 0; h < rows->heads && status == DGL_OK; h++)
        for (uint32_t i = 0; i < rows->count; i++)
            memcpy((char *)out + i * row_bytes + h * bytes,
                   (const char *)page + (h * DGL_KV_PAGE + i) * bytes, bytes);
    return status;
}

enum dgl_status kv_rows_write(const struct kv_cache *kv, struct dgl_device *dev,
                              const struct kv_pages *pages, const struct kv_rows *rows, void *page,
                              const void *in)
{
    const size_t bytes = rows->head_bytes, row_bytes = rows->heads * bytes;
    const struct gl_range part = part_of(kv, pages, rows);
    memset(page, 0, part.size);
    for (uint32_t h = 0; h < rows->heads; h++)
        for (uint32_t i = 0; i < rows->count; i++)
            memcpy((char *)page + (h * DGL_KV_PAGE + i) * bytes,
                   (const char *)in + i * row_bytes + h * bytes, bytes);
    return gl_buffer_write(dev->gl, part.buffer, part.offset, page, part.size);
}
