/* Host threads for host work such as quantising, hashing and loading. Functions of a device run
 * only on that device's thread, never on these threads. These threads receive no signals. */
#ifndef DGL_BASE_THREAD_H
#define DGL_BASE_THREAD_H

#include "core/base/status.h"

/* Returns the number of processors that this process may use. */
int32_t dgl_cpu_count(void);
/* Returns the number of threads that compute at the same time: dgl_cpu_count(), or less if a cgroup
 * limits the time of processors. Reads some small files. */
int32_t dgl_thread_count(void);
/* dgl_thread_count(), with /proc and /sys read from folder `root`. For tests. */
int32_t dgl_thread_count_under(const char *root);
/* Calls fn(ctx, i) for every i < count, in any order, on up to `threads` threads (0 means
 * dgl_thread_count()), and waits for all calls. After a status other than DGL_OK no further items
 * are started, and the first such status is returned. */
enum dgl_status dgl_parallel_for(int32_t threads, size_t count,
                                 enum dgl_status (*fn)(void *ctx, size_t index), void *ctx);

/* Items that several threads produce and the calling thread consumes in order. Item i is kept in
 * slot i % slots, from the start of produce() until item i + lag is consumed. */
struct dgl_pipeline {
    size_t count;      /* of items */
    int32_t threads;   /* helper threads, which only produce */
    size_t slots, lag; /* slots > lag */
    /* `thread` is 0 for the calling thread and 1 to `threads` for the helpers. The calling thread
     * produces an item only if no helper has begun it. */
    enum dgl_status (*produce)(void *ctx, int32_t thread, size_t item);
    /* Called on the calling thread for each item in order, up to the first failure, with the result
     * of produce(). Must return a failure if `produced` is one. */
    enum dgl_status (*consume)(void *ctx, size_t item, enum dgl_status produced);
    void *ctx;
};
/* Returns DGL_OK, the first failure of consume(), or DGL_ERR_NO_MEMORY. Returns after all helpers
 * have ended. If no helper can be started, the calling thread produces all items. */
enum dgl_status dgl_pipeline_run(const struct dgl_log *log, const struct dgl_pipeline *params);

#endif
