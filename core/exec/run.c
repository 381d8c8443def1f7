/* From kernels to dispatch records: buffers by name, parameter blocks, group counts, barriers. */
#include "core/base/mem.h"
#include "core/plan/plan.h"
#include "core/memory/pool.h"

#include <stdlib.h>
#include <string.h>

/* Where the buffer lies that the kernel calls `name`; the plan has checked that the operation has
 * one. */
static struct gl_range resolve(const struct op *op, const char *name,
                               const struct slot_table *slots)
{
    const struct op_bind *bind = op_find_bind(op, name);
    if (bind->slot == SLOT_FIXED)
        return bind->fixed;
    return bind->slot == SLOT_KV ? slots->kv[bind->index] : slots->slot[bind->slot];
}

static void bind_storage(const struct run_params *p, const struct op *op,
                         const struct kernel *kernel, struct gl_dispatch *d)
{
    d->num_storage = (uint8_t)kernel->num_binds;
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        const struct kernel_bind *bind = &kernel->binds[i];
        d->storage[i] = resolve(op, bind->name, p->slots);
        if (bind->access & KERNEL_READ)
            d->reads |= (uint8_t)(1u << i);
        if (bind->access & KERNEL_WRITE)
            d->writes |= (uint8_t)(1u << i);
    }
}

/* The value of one parameter as the 32 bits of its type in the block. */
static uint32_t param_word(const struct run *run, size_t record, const char *name)
{
    const struct op_param *value = op_find_param(run->op[record], name);
    uint32_t word = value->is_run_count ? (uint32_t)run->count : value->u;
    if (value->is_float)
        memcpy(&word, &value->f, sizeof(word));
    return word;
}

static uint64_t param_stride(const struct run_params *p)
{
    uint64_t align = dgl_device_get_limits(p->dev)->ubo_align;
    uint64_t bytes = KERNEL_MAX_PARAMS * 4;
    return align > bytes ? align : (bytes + align - 1) / align * align;
}

static enum dgl_status upload_params(struct run *run, const struct run_params *p)
{
    uint64_t stride = param_stride(p), size = stride * run->count;
    unsigned char *blocks = dgl_calloc(run->count, stride);
    if (!blocks)
        return dgl_fail_memory(p->dev->log, "parameter blocks", size);
    enum dgl_status st = pool_acquire(
        p->dev->pool, &(struct gl_buffer_params){.size = size, .label = "params"}, &run->params);
    for (size_t i = 0; i < run->count && st == DGL_OK; i++) {
        const struct kernel *kernel = run->entry[i]->choice.kernel;
        for (uint32_t j = 0; j < kernel->num_params; j++) {
            uint32_t word = param_word(run, i, kernel->params[j].name);
            memcpy(blocks + i * stride + j * 4, &word, 4);
        }
        run->list[i].uniform[0] = (struct gl_range){run->params, i * stride, KERNEL_MAX_PARAMS * 4};
        run->list[i].uniform[1] = p->slots->slot[SLOT_STEP];
        run->list[i].num_uniform = kernel->uses_step ? 2 : 1;
    }
    if (st == DGL_OK)
        st = gl_buffer_write(p->dev->gl, run->params, 0, blocks, size);
    free(blocks);
    return st;
}

/* Group counts lie one after the other in ARGS, in the order of the list. */
static enum dgl_status make_indirect(struct run *run, const struct run_params *p)
{
    struct gl_range args = p->slots->slot[SLOT_ARGS];
    if (run->count * 12 > args.size)
        return dgl_fail(p->dev->log, DGL_ERR_UNSUPPORTED, "%zu operations per token, room for %llu",
                        run->count, (unsigned long long)args.size / 12);
    for (size_t i = 0; i < run->count; i++)
        run->list[i].indirect = (struct gl_range){args.buffer, args.offset + i * 12, 12};
    return DGL_OK;
}

static void bind_records(struct run *run, const struct run_params *p)
{
    size_t n = 0;
    for (size_t s = 0; s < p->num_segs; s++) {
        const struct plan *plan = &p->plan->seg[p->segs[s]];
        for (size_t i = 0; i < plan->ops.count; i++, n++) {
            run->op[n] = &plan->ops.ops[i];
            run->entry[n] = plan->entry[i];
            run->list[n].program = plan->entry[i]->program;
            bind_storage(p, run->op[n], run->entry[n]->choice.kernel, &run->list[n]);
        }
    }
}

enum dgl_status run_init(struct run *run, const struct run_params *p)
{
    *run = (struct run){0};
    enum dgl_status st = model_plan_compile(p->plan, p->segs, p->num_segs);
    if (st != DGL_OK)
        return st;
    for (size_t s = 0; s < p->num_segs; s++)
        run->count += p->plan->seg[p->segs[s]].ops.count;
    run->list = dgl_new_array(struct gl_dispatch, run->count);
    run->entry = dgl_new_array(const struct program_entry *, run->count);
    run->op = dgl_new_array(const struct op *, run->count);
    if (!run->list || !run->entry || !run->op)
        st = dgl_fail_memory(p->dev->log, "dispatch list", run->count * sizeof(*run->list));
    if (st == DGL_OK) {
        bind_records(run, p);
        st = upload_params(run, p);
    }
    if (st == DGL_OK)
        st = run_set_tokens(p->dev, run, 1);
    if (st == DGL_OK && p->indirect)
        st = make_indirect(run, p);
    if (st == DGL_OK)
        gl_hazards_derive(run->list, run->count, p->repeats);
    if (st != DGL_OK)
        run_finish(p->dev, run);
    return st;
}

void run_finish(struct dgl_device *dev, struct run *run)
{
    pool_release(dev->pool, &run->params);
    free(run->list);
    free(run->entry);
    free(run->op);
    *run = (struct run){0};
}

enum dgl_status op_groups(struct dgl_device *dev, const struct op *op,
                          const struct kernel_choice *choice, int32_t tokens, uint32_t groups[3])
{
    const struct op_param *rows = op_find_param(op, "rows"); /* of weights, in this band */
    uint32_t max_x = dgl_device_get_limits(dev)->max_groups[0];
    if (kernel_groups_band(choice, tokens, rows ? rows->u : 0, max_x, groups))
        return DGL_OK;
    return dgl_fail(dev->log, DGL_ERR_KERNEL, "%s: GROUPS gives no usable count for %d tokens",
                    choice->kernel->path, tokens);
}

enum dgl_status run_set_tokens(struct dgl_device *dev, struct run *run, int32_t tokens)
{
    enum dgl_status st = DGL_OK;
    if (run->tokens == tokens)
        return DGL_OK;
    run->tokens = 0; /* mixed counts, should one of them fail */
    for (size_t i = 0; i < run->count && st == DGL_OK; i++)
        st = op_groups(dev, run->op[i], &run->entry[i]->choice, tokens, run->list[i].groups);
    if (st == DGL_OK)
        run->tokens = tokens;
    return st;
}
