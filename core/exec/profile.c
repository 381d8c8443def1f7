/* Timers around operations, the time line of decoding, and the speed of the device itself. */
#include "core/exec/profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

/* Large enough that launch costs and caches do not matter, but not larger: one H200 (driver 580)
 * copies 4,098 GB/s between two buffers of 192 MiB, 4,011 of 256 MiB, and 2,085 of 384 MiB, because
 * of address translation. Software renderers have no launch cost and would need seconds; renderers
 * that interpret shaders (softpipe) would need minutes. */
#define STREAM_BYTES             (192ull << 20)
#define STREAM_BYTES_SOFTWARE    (64ull << 20)
#define STREAM_BYTES_INTERPRETED (1ull << 20)
/* Number of buffer pairs, of which the fastest counts: one H200 reached 2,590 to 4,063 GB/s,
 * depending on the addresses of the two buffers. For each pair the fastest of several submits
 * counts. The first submit warms up. */
#define STREAM_TRIES  4
#define STREAM_ROUNDS 4
#define STREAM_COPIES 4 /* per submit */
/* No further pair is started after this time. */
#define STREAM_END_NS 300000000ull
/* Dispatches in one submit, each of which depends on the one before. */
#define DISPATCHES       128
#define DISPATCHES_BYTES 4096
/* No further round is started after this time. */
#define DISPATCHES_END_NS 200000000ull

/* ---- memory ---------------------------------------------------------------------------------- */

/* One dispatch of `copy` or `read` over `bytes`. The caller destroys the buffers. */
struct stream {
    struct exec_single single;
    struct gl_range ranges[2];
    struct gl_dispatch dispatch;
};

static enum dgl_status stream_init(struct stream *c, struct dgl_device *dev, struct kernel_set *set,
                                   const char *name, uint64_t bytes)
{
    struct op op = {.label = name, .request.op = name};
    *c = (struct stream){0};
    op_bind_buffer(&op, "SRC", BUF_X);
    op_bind_buffer(&op, "DST", BUF_X);
    op_uint(&op, "rows", (uint32_t)(bytes / 16));
    enum dgl_status status = exec_single_init(&c->single, dev, set);
    for (int i = 0; i < 2 && status == DGL_OK; i++) {
        c->ranges[i].size = bytes;
        status = gl_buffer_create(dev->gl, &(struct gl_buffer_params){.size = bytes, .label = name},
                                  &c->ranges[i].buffer);
    }
    return status == DGL_OK ? exec_single_record(&c->single, &op, c->ranges, &c->dispatch) : status;
}

static void stream_finish(struct stream *c, struct dgl_device *dev)
{
    for (int i = 0; i < 2; i++)
        gl_buffer_destroy(dev->gl, &c->ranges[i].buffer);
    exec_single_finish(&c->single);
}

/* Measures the bytes of SRC per nanosecond: the best of several rounds. */
static enum dgl_status stream_time(struct stream *stream, struct dgl_device *dev, uint64_t end_ns,
                                   double *rate)
{
    const int copies = dev->info.software ? 1 : STREAM_COPIES;
    const double bytes = (double)stream->ranges[0].size * copies;
    enum dgl_status status;
    for (int i = 0; i <= STREAM_ROUNDS; i++) {
        const uint64_t start = dgl_now_ns();
        for (int k = 0; k < copies; k++)
            TRY(gl_submit(dev->gl, &stream->dispatch, 1, NULL));
        TRY(gl_finish(dev->gl));
        const uint64_t now = dgl_now_ns();
        const double got = bytes / (double)(now - start + 1);
        *rate = i > 0 && got > *rate ? got : *rate;
        if (i > 0 && now > end_ns)
            break;
    }
done:
    return status;
}

static enum dgl_status stream_measure(struct dgl_device *dev, struct kernel_set *set,
                                      const char *name, double *rate)
{
    const struct gl_caps *caps = gl_device_caps(dev->gl);
    const uint64_t most = !caps->software  ? STREAM_BYTES
                          : caps->llvmpipe ? STREAM_BYTES_SOFTWARE
                                           : STREAM_BYTES_INTERPRETED;
    const uint64_t free_bytes = device_memory_budget(dev); /* includes existing buffers */
    const uint64_t end_ns = dgl_now_ns() + STREAM_END_NS;
    struct stream stream[STREAM_TRIES] = {0};
    uint64_t bytes = plan_device_binding_bytes(&dev->plan);
    enum dgl_status status = DGL_OK;
    int tries = caps->software ? 1 : STREAM_TRIES, made = 0;
    bytes = bytes < most ? bytes : most;
    if (free_bytes > 0 && bytes > 4096) { /* at most half of the free memory */
        const uint64_t half = free_bytes > dev->held_bytes ? (free_bytes - dev->held_bytes) / 2 : 0;
        while (tries > 1 && 2 * bytes * (uint64_t)tries > half)
            tries--;
        bytes = half < 8192 ? 4096 : half / 2 < bytes ? half / 2 / 16 * 16 : bytes;
    }
    *rate = 0;
    /* All pairs exist at once; otherwise the driver would reuse the same memory. */
    while (made < tries && (made == 0 || dgl_now_ns() < end_ns)) {
        struct stream *next = &stream[made++];
        TRY(stream_init(next, dev, set, name, bytes));
        TRY(stream_time(next, dev, end_ns, rate));
    }
done:
    for (int i = 0; i < made; i++)
        stream_finish(&stream[i], dev);
    return status;
}

enum dgl_status profile_copy(struct dgl_device *dev, struct kernel_set *set, double *gbps)
{
    double rate = 0;
    enum dgl_status status = stream_measure(dev, set, "copy", &rate);
    *gbps = 2.0 * rate;
    return status;
}

enum dgl_status profile_read(struct dgl_device *dev, struct kernel_set *set, double *gbps)
{
    return stream_measure(dev, set, "read", gbps);
}

enum dgl_status profile_dispatch(struct dgl_device *dev, struct kernel_set *set, double *us)
{
    struct gl_dispatch *list = dgl_new_array(struct gl_dispatch, DISPATCHES);
    struct stream stream = {0};
    uint64_t best_ns = UINT64_MAX;
    const uint64_t end_ns = dgl_now_ns() + DISPATCHES_END_NS;
    enum dgl_status status;
    *us = 0;
    TRY(list ? stream_init(&stream, dev, set, "copy", DISPATCHES_BYTES)
             : dgl_fail_memory(dev->log, "dispatches", DISPATCHES * sizeof(*list)));
    for (size_t i = 0; i < DISPATCHES; i++)
        list[i] = stream.dispatch;
    gl_hazards_derive(list, DISPATCHES, true);
    for (int i = 0; i < STREAM_ROUNDS; i++) {
        const uint64_t start = dgl_now_ns();
        if (i > 0 && start > end_ns)
            break;
        TRY(gl_submit(dev->gl, list, DISPATCHES, NULL));
        TRY(gl_finish(dev->gl));
        uint64_t ns = dgl_now_ns() - start;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    *us = (double)best_ns * 1e-3 / DISPATCHES;
done:
    stream_finish(&stream, dev);
    free(list);
    return status;
}

/* ---- a profile ------------------------------------------------------------------------------- */

enum dgl_status profile_timer(struct dgl_device *dev, struct kernel_set *set, uint64_t *ns)
{
    struct gl_dispatch list[GL_TIMER_COST_MAX];
    struct stream copy;
    enum dgl_status status = stream_init(&copy, dev, set, "copy", DISPATCHES_BYTES);
    for (size_t i = 0; i < GL_TIMER_COST_MAX; i++)
        list[i] = copy.dispatch;
    if (status == DGL_OK)
        status = gl_timer_cost(dev->gl, list, GL_TIMER_COST_MAX, ns);
    stream_finish(&copy, dev);
    return status;
}

enum dgl_status profile_init(struct profile *profile, struct dgl_device *dev,
                             struct kernel_set *set)
{
    *profile = (struct profile){.dev = dev};
    enum dgl_status status = profile_timer(dev, set, &profile->sums.timer_ns);
    profile->step_end_ns = dgl_now_ns();
    return status;
}

void profile_sums_finish(struct dgl_profile *sums)
{
    free(sums->entries);
    free(sums->steps);
    *sums = (struct dgl_profile){0};
}

static struct dgl_profile_entry *find_entry(struct profile *p, const struct dgl_profile_entry *key)
{
    struct dgl_profile *sums = &p->sums;
    for (size_t i = 0; i < sums->num_entries; i++) {
        struct dgl_profile_entry *e = &sums->entries[i];
        if (e->phase == key->phase && strcmp(e->op, key->op) == 0 &&
            strcmp(e->kernel, key->kernel) == 0)
            return e;
    }
    if (!dgl_grow((void **)&sums->entries, &p->cap_entries, sums->num_entries + 1,
                  sizeof(*sums->entries)))
        return NULL;
    sums->entries[sums->num_entries] = *key;
    return &sums->entries[sums->num_entries++];
}

/* Bytes of weights, plus the keys and values that the rows of a sequence read, counted once. */
static uint64_t bytes_read(const struct exec_run *run, const struct exec_op *e,
                           const struct profile_pass *pass)
{
    const int32_t tokens = pass->sequences > 1 ? 1 : run->tokens; /* of a sequence */
    const struct plan *plan = run->exec->plan;
    const struct kernel *kernel = e->use->choice.kernel;
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        const struct op_bind *bind = op_find_bind(e->op, kernel->binds[i].name);
        if (bind->ref.kind != REF_KV || !(kernel->binds[i].access & KERNEL_READ))
            continue;
        const uint64_t kv = plan_kv_read_bytes(plan, (uint32_t)e->op->layer, tokens, pass->held);
        return e->op->bytes + (uint64_t)pass->sequences * kv;
    }
    /* Each token reads one row of the table. */
    return strcmp(e->op->request.op, "embed") == 0 ? e->op->bytes * (uint64_t)run->tokens
                                                   : e->op->bytes;
}

enum dgl_status profile_add(struct profile *profile, const struct exec_run *run,
                            const struct profile_pass *pass, const uint64_t *ns)
{
    uint64_t at_ns = dgl_now_ns(), cost_ns = profile->sums.timer_ns;
    for (size_t i = 0; ns && i < run->count; i++)
        at_ns -= ns[i] == UINT64_MAX ? 0 : ns[i];
    for (size_t i = 0; i < run->count; i++) {
        const struct exec_op *op = &run->ops[i];
        const uint64_t took_ns = ns ? ns[i] : UINT64_MAX;
        struct dgl_event event = {.kind = DGL_EVENT_OP,
                                  .phase = pass->phase,
                                  .name = op->op->label,
                                  .kernel = op->use->choice.kernel->name,
                                  .start_ns = at_ns,
                                  .duration_ns = took_ns > cost_ns ? took_ns - cost_ns : 0,
                                  .bytes = bytes_read(run, op, pass)};
        struct dgl_profile_entry *e = find_entry(
            profile,
            &(struct dgl_profile_entry){
                .op = event.name, .kernel = event.kernel, .phase = pass->phase, .timed = true});
        if (!e)
            return dgl_fail_memory(profile->dev->log, "profile", run->count * sizeof(*e));
        e->calls++;
        e->bytes += event.bytes;
        e->timed = e->timed && took_ns != UINT64_MAX;
        e->gpu_ns = e->timed ? e->gpu_ns + event.duration_ns : 0;
        if (took_ns != UINT64_MAX) {
            device_tell(profile->dev, &event);
            at_ns += took_ns;
        }
    }
    return DGL_OK;
}

enum dgl_status profile_run(struct profile *profile, struct exec_run *run,
                            const struct profile_pass *pass, uint64_t *gpu_ns)
{
    uint64_t *ns = dgl_new_array(uint64_t, run->count);
    if (!ns)
        return dgl_fail_memory(profile->dev->log, "timer results", run->count * sizeof(*ns));
    enum dgl_status status = exec_run_submit(run, 1, ns);
    if (status == DGL_OK)
        status = profile_add(profile, run, pass, ns);
    const uint64_t cost_ns = profile->sums.timer_ns;
    for (size_t i = 0; gpu_ns && i < run->count && status == DGL_OK; i++)
        *gpu_ns += ns[i] == UINT64_MAX || ns[i] < cost_ns ? 0 : ns[i] - cost_ns;
    free(ns);
    return status;
}

enum dgl_status profile_step(struct profile *profile, struct dgl_profile_step step)
{
    struct dgl_profile *sums = &profile->sums;
    uint64_t now = dgl_now_ns(), wall = now - profile->step_end_ns;
    uint64_t known = step.record_ns + step.gpu_ns + step.readback_ns;
    if (!dgl_grow((void **)&sums->steps, &profile->cap_steps, sums->num_steps + 1,
                  sizeof(*sums->steps)))
        return dgl_fail_memory(profile->dev->log, "profile",
                               (sums->num_steps + 1) * sizeof(*sums->steps));
    step.host_ns = wall > known ? wall - known : 0;
    sums->steps[sums->num_steps++] = step;
    profile->step_end_ns = now;
    return DGL_OK;
}
