/* Parallel loops over host work. */
#include "core/base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/mem.h"

int32_t dgl_cpu_count(void)
{
    cpu_set_t set;
    long count = 0;
    /* The affinity mask respects taskset and cpusets. The call fails beyond 1024 processors. */
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        count = CPU_COUNT(&set);
    if (count <= 0)
        count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int32_t)count : 1;
}

struct parallel_job {
    enum dgl_status (*fn)(void *ctx, size_t index);
    void *ctx;
    size_t count;
    atomic_size_t next;
    atomic_int status; /* an enum dgl_status */
};

static void *run_items(void *priv)
{
    struct parallel_job *job = priv;
    while (atomic_load(&job->status) == DGL_OK) {
        size_t index = atomic_fetch_add(&job->next, 1);
        if (index >= job->count)
            break;
        enum dgl_status status = job->fn(job->ctx, index);
        int expected = DGL_OK;
        if (status != DGL_OK)
            atomic_compare_exchange_strong(&job->status, &expected, (int)status);
    }
    return NULL;
}

enum dgl_status dgl_parallel_for(int32_t threads, size_t count,
                                 enum dgl_status (*fn)(void *ctx, size_t index), void *ctx)
{
    struct parallel_job job = {.fn = fn, .ctx = ctx, .count = count};
    size_t wanted = (size_t)(threads > 0 ? threads : dgl_cpu_count());
    if (wanted > count)
        wanted = count;
    /* The calling thread works too, so all items are processed even if no helper thread can be
     * started. */
    pthread_t *helpers = wanted > 1 ? dgl_new_array(pthread_t, wanted - 1) : NULL;
    size_t started = 0;
    while (helpers && started < wanted - 1 &&
           pthread_create(&helpers[started], NULL, run_items, &job) == 0)
        started++;
    run_items(&job);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    free(helpers);
    return (enum dgl_status)atomic_load(&job.status);
}
