/* Device buffers that outlive their users. A session gives its buffers back and the next session
 * reuses them, so that only the first of several equal sessions allocates memory. */
#ifndef DGL_CORE_POOL_H
#define DGL_CORE_POOL_H

#include "gl/gl.h"

struct pool;
struct pool *pool_create(struct gl_device *gl); /* Returns NULL if memory runs out. */
/* All buffers must have been released. */
void pool_destroy(struct pool **pool);
/* Destroys all free buffers. */
void pool_clear(struct pool *pool);
/* Returns a buffer of at least `size` bytes, at most a quarter larger. `zero` also clears reused
 * buffers. */
enum dgl_status pool_acquire(struct pool *pool, const struct gl_buffer_params *params,
                             struct gl_buffer **out);
/* Accepts NULL. A buffer of a lost context is destroyed. The buffer must not be in use by queued
 * work that is still being written by others: GL orders the rest. */
void pool_release(struct pool *pool, struct gl_buffer **buffer);

#endif
