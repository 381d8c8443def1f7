/* Arenas: many ranges in few device buffers (core/plan/arena_layout.h). */
#ifndef DGL_CORE_ARENA_H
#define DGL_CORE_ARENA_H

#include "core/memory/device.h"
#include "core/plan/arena_layout.h"

struct arena {
    struct gl_buffer **buffers;
    size_t count;
    uint64_t bytes; /* of all of them */
};

/* Allocates one range for each of `sizes`, in order (an empty range for size 0). Offsets are valid
 * for storage and uniform bindings. No buffer is larger than one binding, unless a single range is.
 * Buffers come from the pool; contents are undefined. On failure *out is empty. */
enum dgl_status arena_init(struct arena *out, struct dgl_device *dev, const char *label,
                           const uint64_t *sizes, size_t count, struct gl_range *ranges);
/* Accepts an arena that is all zero. */
void arena_finish(struct arena *arena, struct dgl_device *dev);

#endif
