/* Host threads for host work such as quantising and hashing. Each GPU device has its own single
 * thread and does not use these. */
#ifndef DGL_BASE_THREAD_H
#define DGL_BASE_THREAD_H

#include "core/base/status.h"

int32_t dgl_cpu_count(void);
/* Calls fn(ctx, i) for every i < count, in any order, on up to `threads` threads (0 means one per
 * processor), and waits for all calls. After a status other than DGL_OK no further items are
 * started, and the first such status is returned. */
enum dgl_status dgl_parallel_for(int32_t threads, size_t count,
                                 enum dgl_status (*fn)(void *ctx, size_t index), void *ctx);

#endif
