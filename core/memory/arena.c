/* Device buffers of an arena, from the pool. */
#include "core/memory/arena.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/memory/pool.h"

enum dgl_status arena_init(struct arena *out, struct dgl_device *dev, const char *label,
                           const uint64_t *sizes, size_t count, struct gl_range *ranges)
{
    struct arena_cursor c = {0};
    size_t *buffer = dgl_new_array(size_t, count);
    uint64_t *bytes = dgl_new_array(uint64_t, count);
    enum dgl_status status = DGL_OK;
    *out = (struct arena){.buffers = dgl_new_array(struct gl_buffer *, count)};
    if (!buffer || !bytes || !out->buffers)
        TRY(dgl_fail_memory(dev->log, label, count * sizeof(*buffer)));
    for (size_t i = 0; i < count; i++) {
        ranges[i] = (struct gl_range){0};
        if (sizes[i] == 0)
            continue;
        ranges[i].offset = arena_cursor_next(&c, &dev->plan, sizes[i]);
        ranges[i].size = sizes[i];
        buffer[i] = c.buffers - 1;
        bytes[buffer[i]] = c.used;
    }
    for (size_t i = 0; i < c.buffers && status == DGL_OK; i++) {
        status =
            pool_acquire(dev->pool, &(struct gl_buffer_params){.size = bytes[i], .label = label},
                         &out->buffers[i]);
        out->count += status == DGL_OK;
        out->bytes += status == DGL_OK ? bytes[i] : 0;
    }
    for (size_t i = 0; i < count && status == DGL_OK; i++)
        ranges[i].buffer = sizes[i] ? out->buffers[buffer[i]] : NULL;
done:
    free(buffer);
    free(bytes);
    dev->held_bytes += out->bytes;
    if (status != DGL_OK) {
        for (size_t i = 0; i < count; i++)
            ranges[i] = (struct gl_range){0};
        arena_finish(out, dev);
    }
    return status;
}

void arena_finish(struct arena *arena, struct dgl_device *dev)
{
    for (size_t i = 0; i < arena->count; i++)
        pool_release(dev->pool, &arena->buffers[i]);
    dev->held_bytes -= arena->bytes;
    free(arena->buffers);
    *arena = (struct arena){0};
}
