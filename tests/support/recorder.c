/* The recorder's side of exec.h. */
#include "tests/support/recorder.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/support/test.h"

struct recorder_exec {
    struct exec base;
    struct recorder *recorder;
};

struct recorder_run {
    struct recorded_op *ops; /* [run->count] */
};

static struct recorder *recorder_of(const struct exec_run *run)
{
    return ((struct recorder_exec *)run->exec)->recorder;
}

static enum dgl_status recorder_compile(struct exec_run *run)
{
    struct recorder *r = recorder_of(run);
    struct recorder_run *own = run->priv = checked(dgl_new(struct recorder_run));
    own->ops = checked(dgl_new_array(struct recorded_op, run->count));
    r->live++;
    if (r->fail_compile)
        return dgl_fail(run->exec->log, DGL_ERR_KERNEL, "compiling fails");
    for (size_t i = 0; i < run->count; i++) {
        own->ops[i].label = run->ops[i].op->label;
        own->ops[i].use = run->ops[i].use;
    }
    r->compiled++;
    return DGL_OK;
}

static enum dgl_status recorder_bind(struct exec_run *run, const struct memory *memory)
{
    struct recorder *r = recorder_of(run);
    struct recorder_run *own = run->priv;
    (void)memory;
    if (r->fail_bind)
        return dgl_fail(run->exec->log, DGL_ERR_NO_MEMORY, "binding fails");
    for (size_t i = 0; i < run->count; i++) {
        const struct kernel *kernel = run->ops[i].use->choice.kernel;
        const struct op *op = run->ops[i].op;
        struct recorded_op *rec = &own->ops[i];
        rec->num_refs = kernel->num_binds;
        for (uint32_t j = 0; j < kernel->num_binds; j++)
            rec->refs[j] = op_find_bind(op, kernel->binds[j].name)->ref;
        rec->num_params = kernel->num_params;
        for (uint32_t j = 0; j < kernel->num_params; j++) {
            const struct op_param *value = op_find_param(op, kernel->params[j].name);
            rec->params[j] = value->is_op_count ? (uint32_t)run->count : value->u;
            if (value->is_float)
                memcpy(&rec->params[j], &value->f, sizeof(rec->params[j]));
        }
    }
    r->bound++;
    return DGL_OK;
}

static void recorder_move(struct exec_run *run, const struct memory *to)
{
    (void)to;
    recorder_of(run)->moved++;
}

static void recorder_regroup(struct exec_run *run)
{
    struct recorder_run *own = run->priv;
    for (size_t i = 0; i < run->count; i++)
        memcpy(own->ops[i].groups, run->groups[i], sizeof(own->ops[i].groups));
    recorder_of(run)->regrouped++;
}

static enum dgl_status recorder_submit(struct exec_run *run, uint32_t steps, uint64_t *gpu_ns)
{
    struct recorder *r = recorder_of(run);
    const struct recorder_run *own = run->priv;
    if (r->fail_submit)
        return dgl_fail(run->exec->log, DGL_ERR_DEVICE_LOST, "submitting fails");
    assert_true(
        dgl_grow((void **)&r->ops, &r->cap, r->count + steps * run->count, sizeof(*r->ops)));
    for (uint32_t step = 0; step < steps; step++) {
        memcpy(r->ops + r->count, own->ops, run->count * sizeof(*own->ops));
        r->count += run->count;
    }
    for (size_t i = 0; gpu_ns && i < run->count; i++)
        gpu_ns[i] = r->gpu_ns ? r->gpu_ns : UINT64_MAX;
    return DGL_OK;
}

static void recorder_destroy(struct exec_run *run)
{
    struct recorder_run *own = run->priv;
    if (!own)
        return;
    recorder_of(run)->destroyed++;
    recorder_of(run)->live--;
    free(own->ops);
    free(own);
}

static const struct exec_ops recorder_ops = {.name = "recorder",
                                             .compile = recorder_compile,
                                             .bind = recorder_bind,
                                             .move = recorder_move,
                                             .regroup = recorder_regroup,
                                             .submit = recorder_submit,
                                             .destroy = recorder_destroy};

void recorder_init(struct recorder *r, const struct plan *plan)
{
    struct recorder_exec *exec = checked(dgl_new(struct recorder_exec));
    exec->base =
        (struct exec){.ops = &recorder_ops, .plan = plan, .log = plan->device->log, .refs = 1};
    exec->recorder = r;
    *r = (struct recorder){.exec = &exec->base};
}

void recorder_clear(struct recorder *r)
{
    r->count = 0;
}

void recorder_finish(struct recorder *r)
{
    exec_unref(&r->exec);
    free(r->ops);
    *r = (struct recorder){0};
}
