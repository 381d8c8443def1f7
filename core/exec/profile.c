/* Timers around operations, the time line of decoding, and a timed copy. */
#include "core/exec/profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

/* Large enough that launch costs and caches do not count; a software renderer launches nothing and
 * takes seconds for as much. */
#define COPY_BYTES          (512ull << 20)
#define COPY_BYTES_SOFTWARE (64ull << 20)
#define COPY_ROUNDS         8

/* ---- a copy ---------------------------------------------------------------------------------- */

/* A copy of `bytes` from one buffer to another; both are the caller's to destroy. */
struct copy {
    struct exec_single single;
    struct gl_range ranges[2];
    struct gl_dispatch dispatch;
};

static enum dgl_status copy_init(struct copy *c, struct dgl_device *dev, struct kernel_set *set,
                                 uint64_t bytes)
{
    struct op op = {.label = "copy", .request.op = "copy"};
    *c = (struct copy){0};
    op_bind_buffer(&op, "SRC", BUF_X);
    op_bind_buffer(&op, "DST", BUF_X);
    op_uint(&op, "rows", (uint32_t)(bytes / 16));
    enum dgl_status status = exec_single_init(&c->single, dev, set);
    for (int i = 0; i < 2 && status == DGL_OK; i++) {
        c->ranges[i].size = bytes;
        status =
            gl_buffer_create(dev->gl, &(struct gl_buffer_params){.size = bytes, .label = "copy"},
                             &c->ranges[i].buffer);
    }
    return status == DGL_OK ? exec_single_record(&c->single, &op, c->ranges, &c->dispatch) : status;
}

static void copy_finish(struct copy *c, struct dgl_device *dev)
{
    for (int i = 0; i < 2; i++)
        gl_buffer_destroy(dev->gl, &c->ranges[i].buffer);
    exec_single_finish(&c->single);
}

enum dgl_status profile_copy(struct dgl_device *dev, struct kernel_set *set, double *gbps)
{
    const uint64_t most = dev->info.software ? COPY_BYTES_SOFTWARE : COPY_BYTES;
    const uint64_t free_bytes = gl_device_caps(dev->gl)->memory_free_bytes; /* when it was opened */
    uint64_t bytes = plan_device_binding_bytes(&dev->plan), start = 0;
    struct copy copy;
    bytes = bytes < most ? bytes : most;
    if (free_bytes > 0 && bytes > 4096) { /* half of what a model has left */
        uint64_t left = free_bytes > dev->held_bytes ? (free_bytes - dev->held_bytes) / 4 : 0;
        bytes = left < 4096 ? 4096 : left < bytes ? left / 16 * 16 : bytes;
    }
    enum dgl_status status = copy_init(&copy, dev, set, bytes);
    for (int i = -1; i < COPY_ROUNDS && status == DGL_OK; i++) {
        if (i == 0)
            start = dgl_now_ns(); /* round -1 warms up */
        status = gl_submit(dev->gl, &copy.dispatch, 1, NULL);
        if (status == DGL_OK && i < 0)
            status = gl_finish(dev->gl);
    }
    if (status == DGL_OK)
        status = gl_finish(dev->gl);
    if (status == DGL_OK)
        *gbps =
            2.0 * (double)copy.ranges[0].size * COPY_ROUNDS / (double)(dgl_now_ns() - start + 1);
    copy_finish(&copy, dev);
    return status;
}

/* ---- a profile ------------------------------------------------------------------------------- */

/* Records that depend on one another, as those of a plan do, and do next to nothing. */
enum dgl_status profile_init(struct profile *profile, struct dgl_device *dev,
                             struct kernel_set *set)
{
    struct gl_dispatch list[GL_TIMER_COST_MAX];
    struct copy copy;
    *profile = (struct profile){.dev = dev};
    enum dgl_status status = copy_init(&copy, dev, set, 4096);
    for (size_t i = 0; i < GL_TIMER_COST_MAX; i++)
        list[i] = copy.dispatch;
    if (status == DGL_OK)
        status = gl_timer_cost(dev->gl, list, GL_TIMER_COST_MAX, &profile->sums.timer_ns);
    copy_finish(&copy, dev);
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

/* Weights, and once the keys and values that some row of a pass sees, after which the sequence
 * holds `held` tokens. */
static uint64_t bytes_read(const struct exec_run *run, const struct exec_op *e, int32_t held)
{
    const struct plan *plan = run->exec->plan;
    const struct kernel *kernel = e->use->choice.kernel;
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        const struct op_bind *bind = op_find_bind(e->op, kernel->binds[i].name);
        if (bind->ref.kind != REF_KV || !(kernel->binds[i].access & KERNEL_READ))
            continue;
        return e->op->bytes + plan_kv_read_bytes(plan, bind->ref.id, run->tokens, held);
    }
    return e->op->bytes;
}

enum dgl_status profile_add(struct profile *profile, const struct exec_run *run,
                            enum dgl_phase phase, int32_t held, const uint64_t *ns)
{
    uint64_t at_ns = dgl_now_ns(), cost_ns = profile->sums.timer_ns;
    for (size_t i = 0; ns && i < run->count; i++)
        at_ns -= ns[i] == UINT64_MAX ? 0 : ns[i];
    for (size_t i = 0; i < run->count; i++) {
        const struct exec_op *op = &run->ops[i];
        const uint64_t took_ns = ns ? ns[i] : UINT64_MAX;
        struct dgl_event event = {.kind = DGL_EVENT_OP,
                                  .phase = phase,
                                  .name = op->op->label,
                                  .kernel = op->use->choice.kernel->name,
                                  .start_ns = at_ns,
                                  .duration_ns = took_ns > cost_ns ? took_ns - cost_ns : 0,
                                  .bytes = bytes_read(run, op, held)};
        struct dgl_profile_entry *e = find_entry(
            profile, &(struct dgl_profile_entry){
                         .op = event.name, .kernel = event.kernel, .phase = phase, .timed = true});
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

enum dgl_status profile_run(struct profile *profile, struct exec_run *run, enum dgl_phase phase,
                            int32_t held, uint64_t *gpu_ns)
{
    uint64_t *ns = dgl_new_array(uint64_t, run->count);
    if (!ns)
        return dgl_fail_memory(profile->dev->log, "timer results", run->count * sizeof(*ns));
    enum dgl_status status = exec_run_submit(run, 1, ns);
    if (status == DGL_OK)
        status = profile_add(profile, run, phase, held, ns);
    for (size_t i = 0; gpu_ns && i < run->count && status == DGL_OK; i++)
        *gpu_ns += ns[i] == UINT64_MAX ? 0 : ns[i];
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
