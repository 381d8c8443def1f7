/* Parallel loops and pipelines over host work. */
#include "core/base/thread.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/cgroup.h"
#include "core/base/checked.h"
#include "core/base/host_memory.h"
#include "core/base/mem.h"
#include "core/base/str.h"

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

/* Lowers the number of threads to the quota of one cgroup, in processors, rounded up. */
static void apply_quota(void *ctx, const char *folder, bool unified)
{
    char path[DGL_KERNEL_PATH], text[64] = "";
    uint64_t quota, period;
    int32_t *threads = ctx;
    if (unified) { /* "50000 100000" or "max 100000" */
        struct dgl_str number, rest;
        if (snprintf(path, sizeof(path), "%s/cpu.max", folder) >= (int)sizeof(path))
            return;
        FILE *file = fopen(path, "re");
        rest = (struct dgl_str){text, file ? fread(text, 1, sizeof(text), file) : 0};
        if (file)
            fclose(file);
        rest = dgl_str_trim(rest);
        if (!dgl_str_split(&rest, ' ', &number) || !dgl_parse_u64(number, UINT32_MAX, &quota) ||
            !dgl_parse_u64(rest, UINT32_MAX, &period))
            return;
    } else if (!dgl_kernel_number(folder, "cpu.cfs_quota_us", &quota) || /* -1: no limit */
               !dgl_kernel_number(folder, "cpu.cfs_period_us", &period)) {
        return;
    }
    if (period > 0 && quota > 0 && dgl_div_up_u64(quota, period) < (uint64_t)*threads)
        *threads = (int32_t)dgl_div_up_u64(quota, period);
}

int32_t dgl_thread_count_under(const char *root)
{
    int32_t threads = dgl_cpu_count();
    dgl_cgroups_each(root, "cpu", apply_quota, &threads);
    return threads;
}

int32_t dgl_thread_count(void)
{
    return dgl_thread_count_under("");
}

/* Returns false if the system has no further thread. */
static bool start_thread(pthread_t *out, void *(*run)(void *priv), void *priv)
{
    sigset_t all, before;
    sigfillset(&all); /* the caller's threads handle signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool ok = pthread_create(out, NULL, run, priv) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* ---- loops ----------------------------------------------------------------------------------- */

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
    size_t wanted = (size_t)(threads > 0 ? threads : dgl_thread_count());
    if (wanted > count)
        wanted = count;
    /* The calling thread works too, so all items are processed even if no helper thread can be
     * started. */
    pthread_t *helpers = wanted > 1 ? dgl_new_array(pthread_t, wanted - 1) : NULL;
    size_t started = 0;
    while (helpers && started < wanted - 1 && start_thread(&helpers[started], run_items, &job))
        started++;
    run_items(&job);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    free(helpers);
    return (enum dgl_status)atomic_load(&job.status);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

struct pipeline {
    const struct dgl_pipeline *p;
    pthread_mutex_t lock; /* of the fields below */
    pthread_cond_t room, produced;
    size_t next;  /* first item that no thread has begun; `count` after a failure */
    size_t freed; /* the slots of the items before this one are free again */
    int32_t threads;
    struct produced {
        bool done;
        enum dgl_status status;
    } * slot;
};

static void *produce_items(void *priv)
{
    struct pipeline *l = priv;
    const struct dgl_pipeline *p = l->p;
    pthread_mutex_lock(&l->lock);
    const int32_t thread = ++l->threads;
    while (l->next < p->count) {
        if (l->next >= l->freed + p->slots) {
            pthread_cond_wait(&l->room, &l->lock);
            continue;
        }
        const size_t item = l->next++;
        pthread_mutex_unlock(&l->lock);
        const enum dgl_status status = p->produce(p->ctx, thread, item);
        pthread_mutex_lock(&l->lock);
        l->slot[item % p->slots] = (struct produced){true, status};
        if (status != DGL_OK)
            l->next = p->count; /* the items after this one are not consumed */
        pthread_cond_signal(&l->produced);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

enum dgl_status dgl_pipeline_run(const struct dgl_log *log, const struct dgl_pipeline *params)
{
    const struct dgl_pipeline *p = params;
    struct pipeline l = {.p = p, .slot = dgl_new_array(struct produced, p->slots)};
    pthread_t *helpers = dgl_new_array(pthread_t, (size_t)p->threads);
    enum dgl_status status = DGL_OK;
    int32_t started = 0;
    assert(p->lag < p->slots);
    if (!l.slot || !helpers) {
        free(l.slot);
        free(helpers);
        return dgl_fail_memory(log, "threads", (uint64_t)p->threads * sizeof(*helpers));
    }
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.room, NULL);
    pthread_cond_init(&l.produced, NULL);
    while (started < p->threads && start_thread(&helpers[started], produce_items, &l))
        started++;
    for (size_t i = 0; i < p->count && status == DGL_OK; i++) {
        struct produced *slot = &l.slot[i % p->slots], result;
        pthread_mutex_lock(&l.lock);
        if (l.next == i) { /* its slot is free: all earlier items are consumed, and slots > lag */
            l.next++;
            pthread_mutex_unlock(&l.lock);
            result.status = p->produce(p->ctx, 0, i);
        } else {
            while (!slot->done)
                pthread_cond_wait(&l.produced, &l.lock);
            result = *slot;
            slot->done = false;
            pthread_mutex_unlock(&l.lock);
        }
        status = p->consume(p->ctx, i, result.status);
        /* After a failure no helper begins another item. A wait for it would never end. */
        assert(status != DGL_OK || result.status == DGL_OK);
        pthread_mutex_lock(&l.lock);
        if (status != DGL_OK)
            l.next = p->count;
        else if (i >= p->lag)
            l.freed = i - p->lag + 1;
        pthread_cond_signal(&l.room);
        pthread_mutex_unlock(&l.lock);
    }
    pthread_mutex_lock(&l.lock);
    pthread_cond_broadcast(&l.room);
    pthread_mutex_unlock(&l.lock);
    for (int32_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    pthread_cond_destroy(&l.produced);
    pthread_cond_destroy(&l.room);
    pthread_mutex_destroy(&l.lock);
    free(l.slot);
    free(helpers);
    return status;
}
