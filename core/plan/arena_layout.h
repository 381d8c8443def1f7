/* Arenas in numbers: many ranges in few buffers, each no larger than one storage binding unless a
 * range alone is, so that a program with a bounded number of bindings can reach all of them. */
#ifndef DGL_CORE_ARENA_LAYOUT_H
#define DGL_CORE_ARENA_LAYOUT_H

#include "core/plan/plan_device.h"

/* Position of the next range. Begin with {0}. */
struct arena_cursor {
    size_t buffers; /* so far */
    uint64_t used;  /* bytes of the last one */
    uint64_t bytes; /* of all of them */
};
/* Takes `size` bytes in the last buffer (buffers - 1), or in a new one; returns the offset there,
 * which storage and uniform bindings take. */
uint64_t arena_cursor_next(struct arena_cursor *cursor, const struct plan_device *device,
                           uint64_t size);
/* Bytes of the buffers that ranges of these sizes fill in order. Ranges of size 0 are skipped. */
uint64_t arena_layout_bytes(const struct plan_device *device, const uint64_t *sizes, size_t count);

#endif
