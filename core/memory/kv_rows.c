/* Copies pages of the KV cache to rows in the order of positions, and back. */
#include "core/memory/kv_rows.h"

#include <assert.h>
#include <string.h>

uint64_t kv_rows_page_bytes(const struct kv_cache *kv)
{
    return kv->page_bytes / KV_PARTS;
}

/* Returns the offset of the rows in the buffer of their layer. */
static uint64_t part_offset(const struct kv_cache *kv, const struct kv_pages *pages,
                            const struct kv_rows *rows)
{
    assert(rows->layer < kv->layers && rows->page < pages->count && rows->count <= DGL_KV_PAGE);
    assert((uint64_t)rows->heads * DGL_KV_PAGE * rows->head_bytes == kv_rows_page_bytes(kv));
    return kv->layer[rows->layer].offset + pages->page[rows->page] * kv->page_bytes +
           rows->part * kv_rows_page_bytes(kv);
}

enum dgl_status kv_rows_read(const struct kv_cache *kv, struct dgl_device *dev,
                             const struct kv_pages *pages, const struct kv_rows *rows, void *page,
                             void *out)
{
    const size_t bytes = rows->head_bytes, row_bytes = rows->heads * bytes;
    enum dgl_status status =
        gl_buffer_read(dev->gl, kv->layer[rows->layer].buffer, part_offset(kv, pages, rows), page,
                       kv_rows_page_bytes(kv));
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
    memset(page, 0, kv_rows_page_bytes(kv));
    for (uint32_t h = 0; h < rows->heads; h++)
        for (uint32_t i = 0; i < rows->count; i++)
            memcpy((char *)page + (h * DGL_KV_PAGE + i) * bytes,
                   (const char *)in + i * row_bytes + h * bytes, bytes);
    return gl_buffer_write(dev->gl, kv->layer[rows->layer].buffer, part_offset(kv, pages, rows),
                           page, kv_rows_page_bytes(kv));
}
