/* Host threads for host work (quantising, hashing). The GPU has one thread per device and needs
 * none of this. */
#ifndef DGL_BASE_THREAD_H
#define DGL_BASE_THREAD_H

#include "core/base/status.h"

int32_t dgl_cpu_count(void);
/* Calls fn(ctx, i) for every i < count on up to `threads` threads (0 = one per processor), any
 * order; returns when all are done. The first status other than DGL_OK stops the handing out of
 * further items and is returned. */
enum dgl_status dgl_parallel_for(int32_t threads, size_t count,
                                 enum dgl_status (*fn)(void *ctx, size_t index), void *ctx);

#endif
