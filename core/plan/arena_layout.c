/* Places ranges in order, and begins a new buffer if a binding would become too large. */
#include "core/plan/arena_layout.h"

uint64_t arena_cursor_next(struct arena_cursor *c, const struct plan_device *device, uint64_t size)
{
    const struct dgl_limits *limits = &device->limits;
    uint64_t align =
        limits->ssbo_align > limits->ubo_align ? limits->ssbo_align : limits->ubo_align;
    align = align > 16 ? align : 16;
    uint64_t at = (c->used + align - 1) / align * align;
    if (c->buffers == 0 || at + size > plan_device_binding_bytes(device)) {
        c->buffers++;
        c->used = at = 0;
    }
    c->bytes += at + size - c->used;
    c->used = at + size;
    return at;
}

uint64_t arena_layout_bytes(const struct plan_device *device, const uint64_t *sizes, size_t count)
{
    struct arena_cursor cursor = {0};
    for (size_t i = 0; i < count; i++)
        if (sizes[i])
            arena_cursor_next(&cursor, device, sizes[i]);
    return cursor.bytes;
}
