/* Timers around operations, and a timed copy. */
#include "core/exec/profile.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

/* Large enough that launch costs vanish, small enough for any device. */
#define COPY_BYTES  (512ull << 20)
#define COPY_ROUNDS 8

static struct dgl_profile_entry *find_entry(struct profile *p, const struct dgl_profile_entry *key)
{
    for (size_t i = 0; i < p->count; i++) {
        struct dgl_profile_entry *e = &p->entries[i];
        if (e->phase == key->phase && strcmp(e->op, key->op) == 0 &&
            strcmp(e->kernel, key->kernel) == 0)
            return e;
    }
    if (!dgl_grow((void **)&p->entries, &p->cap, p->count + 1, sizeof(*p->entries)))
        return NULL;
    p->entries[p->count] = *key;
    return &p->entries[p->count++];
}

enum dgl_status profile_run(struct profile *profile, struct exec_run *run, enum dgl_phase phase)
{
    const struct dgl_log *log = run->exec->log;
    uint64_t *ns = dgl_new_array(uint64_t, run->count);
    if (!ns)
        return dgl_fail_memory(log, "timer results", run->count * sizeof(*ns));
    enum dgl_status status = exec_run_submit(run, 1, ns);
    for (size_t i = 0; i < run->count && status == DGL_OK; i++) {
        const struct exec_op *op = &run->ops[i];
        struct dgl_profile_entry *e =
            find_entry(profile, &(struct dgl_profile_entry){.op = op->op->label,
                                                            .kernel = op->use->choice.kernel->name,
                                                            .phase = phase,
                                                            .timed = true});
        if (!e) {
            status = dgl_fail_memory(log, "profile", run->count);
            break;
        }
        e->calls++;
        e->bytes += op->op->bytes;
        e->timed = e->timed && ns[i] != UINT64_MAX;
        e->gpu_ns = e->timed ? e->gpu_ns + ns[i] : 0;
    }
    free(ns);
    return status;
}

enum dgl_status profile_copy(struct dgl_device *dev, struct kernel_set *set, double *gbps)
{
    struct exec_single single = {0};
    struct gl_range ranges[2] = {{0}, {0}};
    struct gl_dispatch copy;
    struct op op = {.label = "copy", .request.op = "copy"};
    uint64_t bytes = plan_device_binding_bytes(&dev->plan), start = 0;
    bytes = bytes < COPY_BYTES ? bytes : COPY_BYTES;
    op_bind_buffer(&op, "SRC", BUF_X);
    op_bind_buffer(&op, "DST", BUF_X);
    op_uint(&op, "rows", (uint32_t)(bytes / 16));
    enum dgl_status status = exec_single_init(&single, dev, set);
    for (int i = 0; i < 2 && status == DGL_OK; i++) {
        ranges[i].size = bytes;
        status = gl_buffer_create(
            dev->gl, &(struct gl_buffer_params){.size = bytes, .label = "copy"}, &ranges[i].buffer);
    }
    if (status == DGL_OK)
        status = exec_single_record(&single, &op, ranges, &copy);
    for (int i = -1; i < COPY_ROUNDS && status == DGL_OK; i++) {
        if (i == 0)
            start = dgl_now_ns(); /* round -1 warms up */
        status = gl_submit(dev->gl, &copy, 1, NULL);
        if (status == DGL_OK && i < 0)
            status = gl_finish(dev->gl);
    }
    if (status == DGL_OK)
        status = gl_finish(dev->gl);
    if (status == DGL_OK)
        *gbps = 2.0 * (double)bytes * COPY_ROUNDS / (double)(dgl_now_ns() - start + 1);
    for (int i = 0; i < 2; i++)
        gl_buffer_destroy(dev->gl, &ranges[i].buffer);
    exec_single_finish(&single);
    return status;
}
