/* The dispatch executor: buffers by name, parameter blocks, group counts, barriers. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/exec/exec.h"
#include "core/exec/programs.h"
#include "core/memory/pool.h"

/* Distinct parameter blocks in a buffer of the device; a model has fewer. */
#define MAX_BLOCKS  256
#define BLOCK_BYTES (KERNEL_MAX_PARAMS * 4)
struct params {
    struct params *next;
    struct gl_buffer *buffer; /* a block at each multiple of a stride */
    uint32_t count;
    uint32_t block[MAX_BLOCKS][KERNEL_MAX_PARAMS]; /* [count] */
};

/* Most parameter blocks of layers, sequences and recipes are equal. Each distinct block is stored
 * once, until the executor is destroyed. So a run for another sequence needs no new buffer. */
struct dispatch_exec {
    struct exec base;
    struct dgl_device *dev;
    struct programs *programs;
    struct params *params; /* the first one has free blocks */
};

struct dispatch_run {
    struct gl_dispatch *list; /* [run->count] */
};

static struct dispatch_exec *exec_of(const struct exec_run *run)
{
    return (struct dispatch_exec *)run->exec;
}

static enum dgl_status dispatch_compile(struct exec_run *run)
{
    struct dispatch_exec *exec = exec_of(run);
    const struct dgl_log *log = run->exec->log;
    struct dispatch_run *d = run->priv = dgl_new(struct dispatch_run);
    const struct kernel_use **uses = dgl_new_array(const struct kernel_use *, run->count);
    enum dgl_status status = DGL_OK;
    if (d)
        d->list = dgl_new_array(struct gl_dispatch, run->count);
    if (!d || !d->list || !uses)
        TRY(dgl_fail_memory(log, "dispatch list", run->count * sizeof(*d->list)));
    for (size_t i = 0; i < run->count; i++)
        uses[i] = run->ops[i].use;
    TRY(programs_compile(exec->programs, uses, run->count, NULL));
    for (size_t i = 0; i < run->count; i++)
        d->list[i].program = programs_get(exec->programs, run->ops[i].use);
done:
    free(uses);
    return status;
}

/* Fills the parameter block of a kernel from the operation. `op_count` is the number of operations
 * in the recipe. */
static void fill_params(const struct op *op, const struct kernel *kernel, uint32_t op_count,
                        uint32_t block[KERNEL_MAX_PARAMS])
{
    for (uint32_t i = 0; i < kernel->num_params; i++) {
        const struct op_param *value = op_find_param(op, kernel->params[i].name);
        block[i] = value->is_op_count ? op_count : value->u;
        if (value->is_float)
            memcpy(&block[i], &value->f, sizeof(block[i]));
    }
}

static void bind_storage(struct gl_dispatch *record, const struct kernel *kernel, uint32_t i,
                         struct gl_range range)
{
    record->storage[i] = range;
    record->num_storage = (uint8_t)kernel->num_binds;
    if (kernel->binds[i].access & KERNEL_READ)
        record->reads |= (uint8_t)(1u << i);
    if (kernel->binds[i].access & KERNEL_WRITE)
        record->writes |= (uint8_t)(1u << i);
}

static uint64_t block_stride(const struct dgl_device *dev)
{
    const uint64_t align = dev->plan.limits.ubo_align;
    return align > BLOCK_BYTES ? align : (BLOCK_BYTES + align - 1) / align * align;
}

uint64_t exec_dispatch_params_bytes(const struct dgl_device *dev)
{
    return MAX_BLOCKS * block_stride(dev);
}

/* Adds a buffer for more blocks in front of the full buffers. */
static enum dgl_status add_params(struct dispatch_exec *exec)
{
    struct params *params = dgl_new(struct params);
    if (!params)
        return dgl_fail_memory(exec->base.log, "parameter blocks", sizeof(*params));
    enum dgl_status status =
        pool_acquire(exec->dev->pool,
                     &(struct gl_buffer_params){.size = exec_dispatch_params_bytes(exec->dev),
                                                .label = "params"},
                     &params->buffer);
    if (status != DGL_OK) {
        free(params);
        return status;
    }
    params->next = exec->params;
    exec->params = params;
    return DGL_OK;
}

/* Returns the range of a block with these words, which is written on first use. */
static enum dgl_status find_block(struct dispatch_exec *exec,
                                  const uint32_t words[KERNEL_MAX_PARAMS], struct gl_range *out)
{
    const uint64_t stride = block_stride(exec->dev);
    enum dgl_status status = DGL_OK;
    for (const struct params *p = exec->params; p; p = p->next)
        for (uint32_t i = 0; i < p->count; i++)
            if (memcmp(p->block[i], words, BLOCK_BYTES) == 0) {
                *out = (struct gl_range){p->buffer, i * stride, BLOCK_BYTES};
                return DGL_OK;
            }
    if (!exec->params || exec->params->count == MAX_BLOCKS)
        status = add_params(exec);
    if (status != DGL_OK)
        return status;
    struct params *p = exec->params;
    *out = (struct gl_range){p->buffer, p->count * stride, BLOCK_BYTES};
    status = gl_buffer_write(exec->dev->gl, p->buffer, out->offset, words, BLOCK_BYTES);
    if (status == DGL_OK)
        memcpy(p->block[p->count++], words, BLOCK_BYTES);
    return status;
}

static enum dgl_status bind_uniform(struct exec_run *run, struct gl_range step,
                                    struct gl_range pages)
{
    struct dispatch_run *d = run->priv;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < run->count && status == DGL_OK; i++) {
        const struct kernel *kernel = run->ops[i].use->choice.kernel;
        struct gl_dispatch *record = &d->list[i];
        uint32_t words[KERNEL_MAX_PARAMS] = {0};
        fill_params(run->ops[i].op, kernel, (uint32_t)run->count, words);
        status = find_block(exec_of(run), words, &record->uniform[0]);
        record->uniform[1] = step;
        record->uniform[2] = pages;
        record->num_uniform = kernel->uses_pages ? 3 : kernel->uses_step ? 2 : 1;
    }
    return status;
}

static enum dgl_status dispatch_bind(struct exec_run *run, const struct memory *memory)
{
    struct dispatch_run *d = run->priv;
    for (size_t i = 0; i < run->count; i++) {
        const struct kernel *kernel = run->ops[i].use->choice.kernel;
        struct gl_dispatch *record = &d->list[i];
        for (uint32_t j = 0; j < kernel->num_binds; j++) {
            const struct op_bind *bind = op_find_bind(run->ops[i].op, kernel->binds[j].name);
            bind_storage(record, kernel, j, memory_resolve(memory, bind->ref));
        }
    }
    enum dgl_status status = bind_uniform(run, memory->state[BUF_STEP], memory->state[BUF_PAGES]);
    if (status != DGL_OK)
        return status;
    if (shapes_have(&run->recipe.shapes, PASS_EARLY_EXIT)) {
        /* ARGS contains the group counts in the order of the dispatch list. */
        struct gl_range args = memory->state[BUF_ARGS];
        if (run->count * 12 > args.size)
            return dgl_fail(run->exec->log, DGL_ERR_UNSUPPORTED,
                            "%zu operations per token, room for %llu", run->count,
                            (unsigned long long)args.size / 12);
        for (size_t i = 0; i < run->count; i++)
            d->list[i].indirect = (struct gl_range){args.buffer, args.offset + i * 12, 12};
    }
    gl_hazards_derive(d->list, run->count, run->recipe.repeats);
    return DGL_OK;
}

static void dispatch_move(struct exec_run *run, const struct memory *to)
{
    struct dispatch_run *d = run->priv;
    const struct memory *from = run->memory;
    for (size_t i = 0; i < run->count; i++) {
        struct gl_dispatch *record = &d->list[i];
        memory_move(from, to, record->storage, record->num_storage);
        memory_move(from, to, record->uniform, GL_MAX_UNIFORM);
        memory_move(from, to, &record->indirect, 1);
    }
}

static void dispatch_regroup(struct exec_run *run)
{
    struct dispatch_run *d = run->priv;
    for (size_t i = 0; i < run->count; i++)
        memcpy(d->list[i].groups, run->groups[i], sizeof(d->list[i].groups));
}

static enum dgl_status dispatch_submit(struct exec_run *run, uint32_t steps, uint64_t *gpu_ns)
{
    const struct dispatch_run *d = run->priv;
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < steps && status == DGL_OK; i++)
        status = gl_submit(exec_of(run)->dev->gl, d->list, run->count, gpu_ns);
    return status;
}

static void dispatch_destroy(struct exec_run *run)
{
    struct dispatch_run *d = run->priv;
    if (!d)
        return;
    free(d->list);
    free(d);
    run->priv = NULL;
}

static void dispatch_finish(struct exec *base)
{
    struct dispatch_exec *exec = (struct dispatch_exec *)base;
    for (struct params *p = exec->params, *next; p; p = next) {
        next = p->next;
        pool_release(exec->dev->pool, &p->buffer);
        free(p);
    }
}

static const struct exec_ops dispatch_ops = {.name = "dispatch",
                                             .compile = dispatch_compile,
                                             .bind = dispatch_bind,
                                             .move = dispatch_move,
                                             .regroup = dispatch_regroup,
                                             .submit = dispatch_submit,
                                             .destroy = dispatch_destroy,
                                             .finish = dispatch_finish};

enum dgl_status exec_dispatch_create(struct dgl_device *dev, const struct plan *plan,
                                     struct programs *programs, struct exec **out)
{
    struct dispatch_exec *exec = dgl_new(struct dispatch_exec);
    *out = NULL;
    if (!exec)
        return dgl_fail_memory(dev->log, "executor", sizeof(*exec));
    exec->base = (struct exec){.ops = &dispatch_ops, .plan = plan, .log = dev->log, .refs = 1};
    exec->dev = dev;
    exec->programs = programs;
    *out = &exec->base;
    return DGL_OK;
}

const struct gl_dispatch *exec_dispatch_list(const struct exec_run *run)
{
    return ((const struct dispatch_run *)run->priv)->list;
}

/* Compiles the programs of those shapes, or begins to compile them in the background. */
static enum dgl_status compile_shapes(struct programs *programs, const struct plan *plan,
                                      struct shape_set shapes, bool begin,
                                      const struct gl_compile *how)
{
    const struct body *bodies[SHAPES_MAX];
    const size_t num_bodies = plan_bodies(plan, &shapes, bodies);
    size_t count = 0, at = 0;
    if (exec_is_compiled(programs, plan, shapes))
        return DGL_OK;
    for (size_t i = 0; i < num_bodies; i++)
        count += bodies[i]->ops.count;
    const struct kernel_use **uses = dgl_new_array(const struct kernel_use *, count);
    if (!uses)
        return dgl_fail_memory(programs->dev->log, "kernels to compile", count * sizeof(*uses));
    for (size_t i = 0; i < num_bodies; at += bodies[i++]->ops.count)
        memcpy(uses + at, bodies[i]->use, bodies[i]->ops.count * sizeof(*uses));
    enum dgl_status status = begin ? programs_begin(programs, uses, count)
                                   : programs_compile(programs, uses, count, how);
    free(uses);
    return status;
}

enum dgl_status exec_compile(struct programs *programs, const struct plan *plan,
                             struct shape_set shapes, const struct gl_compile *how)
{
    return compile_shapes(programs, plan, shapes, false, how);
}

enum dgl_status exec_begin(struct programs *programs, const struct plan *plan,
                           struct shape_set shapes)
{
    return compile_shapes(programs, plan, shapes, true, NULL);
}

bool exec_is_compiled(const struct programs *programs, const struct plan *plan,
                      struct shape_set shapes)
{
    const struct body *bodies[SHAPES_MAX];
    const size_t count = plan_bodies(plan, &shapes, bodies);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < bodies[i]->ops.count; k++)
            if (!programs_has(programs, bodies[i]->use[k]))
                return false;
    return true;
}

/* ---- one operation --------------------------------------------------------------------------- */

enum dgl_status exec_single_init(struct exec_single *s, struct dgl_device *dev,
                                 struct kernel_set *set)
{
    *s = (struct exec_single){.dev = dev};
    kernel_table_init(&s->table, &dev->plan, set);
    programs_init(&s->programs, dev, &s->table);
    return gl_buffer_create(
        dev->gl, &(struct gl_buffer_params){.size = KERNEL_MAX_PARAMS * 4, .label = "params"},
        &s->params);
}

void exec_single_finish(struct exec_single *s)
{
    if (!s->dev)
        return;
    gl_buffer_destroy(s->dev->gl, &s->params);
    programs_finish(&s->programs);
    kernel_table_finish(&s->table);
    *s = (struct exec_single){0};
}

enum dgl_status exec_single_record(struct exec_single *s, const struct op *op,
                                   const struct gl_range *ranges, struct gl_dispatch *out)
{
    struct kernel_use *use = NULL;
    uint32_t block[KERNEL_MAX_PARAMS] = {0};
    enum dgl_status status;
    TRY(kernel_table_find(&s->table, &op->request, &use));
    TRY(plan_check_served(s->dev->log, op, use->choice.kernel));
    TRY(programs_compile(&s->programs, (const struct kernel_use *const *)&use, 1, NULL));
    const struct kernel *kernel = use->choice.kernel;
    *out = (struct gl_dispatch){.program = programs_get(&s->programs, use),
                                .uniform = {{s->params, 0, sizeof(block)}},
                                .num_uniform = 1};
    for (uint32_t i = 0; i < kernel->num_binds; i++)
        bind_storage(out, kernel, i, ranges[op_find_bind(op, kernel->binds[i].name) - op->binds]);
    fill_params(op, kernel, 1, block);
    TRY(kernel_use_groups(&s->dev->plan, use, 1, op_weight_rows(op), out->groups));
    TRY(gl_buffer_write(s->dev->gl, s->params, 0, block, sizeof(block)));
    gl_hazards_derive(out, 1, true);
done:
    return status;
}
