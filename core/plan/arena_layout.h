/* Layout of arenas: many ranges in few buffers. No buffer is larger than one storage binding,
 * unless a single range is. So a program with a limited number of bindings can reach all of
 * them. */
#ifndef DGL_CORE_ARENA_LAYOUT_H
#define DGL_CORE_ARENA_LAYOUT_H

#include "core/plan/plan_device.h"

/* Position of the next range. Begin with {0}. */
struct arena_cursor {
    size_t buffers; /* so far */
    uint64_t used;  /* bytes of the last one */
    uint64_t bytes; /* of all of them */
};
/* Places `size` bytes in the last buffer (buffers - 1), or in a new one. Returns the offset there,
 * which is valid for storage and uniform bindings. */
uint64_t arena_cursor_next(struct arena_cursor *cursor, const struct plan_device *device,
                           uint64_t size);
/* Bytes of the buffers that ranges of these sizes fill in order. Ranges of size 0 are skipped. */
uint64_t arena_layout_bytes(const struct plan_device *device, const uint64_t *sizes, size_t count);

#endif
