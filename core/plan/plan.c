/* From operations to kernels: which segments there are, what each contains, who serves it. */
#include "core/plan/plan.h"
#include "core/base/mem.h"
#include "core/plan/oplist_sample.h"

#include <stdlib.h>

static void fill_segment(struct oplist *list, enum segment seg, const struct oplist_params *p)
{
    switch (seg) {
    case SEG_PREFILL:
        oplist_prefill_body(list, p);
        break;
    case SEG_DECODE:
        oplist_decode_body(list, p);
        break;
    case SEG_HEAD:
        oplist_head(list, p, DGL_PHASE_DECODE);
        break;
    case SEG_SCORE:
        oplist_score(list, p);
        break;
    case SEG_PENALTY:
        oplist_penalty(list, p);
        break;
    case SEG_SAMPLE_GREEDY:
        oplist_sample(list, p, SAMPLE_GREEDY);
        break;
    case SEG_SAMPLE_TOPK:
        oplist_sample(list, p, SAMPLE_TOPK);
        break;
    case SEG_SAMPLE_FULL:
        oplist_sample(list, p, SAMPLE_FULL);
        break;
    case SEG_IDLE:
        oplist_idle(list);
        break;
    case SEG_COUNT:
        break;
    }
}

/* Whether the operation has what the kernel, which may come from a user's file, binds and reads:
 * found before anything depends on the plan. */
static enum dgl_status check_served(const struct dgl_log *log, const struct op *op,
                                    const struct kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->num_binds; i++)
        if (!op_find_bind(op, kernel->binds[i].name))
            return dgl_fail(log, DGL_ERR_KERNEL, "%s: BIND %s: operation %s has no such buffer",
                            kernel->path, kernel->binds[i].name, op->request.op);
    for (uint32_t i = 0; i < kernel->num_params; i++) {
        const struct kernel_param *param = &kernel->params[i];
        const struct op_param *value = op_find_param(op, param->name);
        if (!value)
            return dgl_fail(log, DGL_ERR_KERNEL, "%s: PARAM %s: operation %s has no such parameter",
                            kernel->path, param->name, op->request.op);
        if (value->is_float != (param->type == KERNEL_FLOAT))
            return dgl_fail(log, DGL_ERR_KERNEL, "%s: PARAM %s is %s, operation %s gives a %s",
                            kernel->path, param->name, value->is_float ? "uint" : "float",
                            op->request.op, value->is_float ? "float" : "uint");
    }
    return DGL_OK;
}

static enum dgl_status plan_init(struct plan *plan, struct programs *programs, enum segment seg,
                                 const struct oplist_params *p)
{
    fill_segment(&plan->ops, seg, p);
    plan->entry = dgl_new_array(struct program_entry *, plan->ops.count);
    if (plan->ops.failed || !plan->entry)
        return dgl_fail_memory(programs->dev->log, "operation list",
                               plan->ops.count * sizeof(*plan->ops.ops));
    uint32_t groups[3];
    for (size_t i = 0; i < plan->ops.count; i++) {
        const struct op *op = &plan->ops.ops[i];
        enum dgl_status st = programs_find(programs, &op->request, &plan->entry[i]);
        if (st == DGL_OK)
            st = check_served(programs->dev->log, op, plan->entry[i]->choice.kernel);
        if (st == DGL_OK)
            st = op_groups(programs->dev, op, &plan->entry[i]->choice, 1, groups);
        if (st != DGL_OK)
            return st;
    }
    return DGL_OK;
}

enum dgl_status model_plan_init(struct model_plan *plan, struct dgl_device *dev,
                                struct kernel_set *set, const struct oplist_params *params)
{
    *plan = (struct model_plan){0};
    programs_init(&plan->programs, dev, set);
    enum dgl_status st = DGL_OK;
    for (int seg = 0; seg < SEG_COUNT && st == DGL_OK; seg++)
        st = plan_init(&plan->seg[seg], &plan->programs, (enum segment)seg, params);
    if (st != DGL_OK)
        model_plan_finish(plan);
    return st;
}

void model_plan_finish(struct model_plan *plan)
{
    for (int seg = 0; seg < SEG_COUNT; seg++) {
        oplist_finish(&plan->seg[seg].ops);
        free(plan->seg[seg].entry);
    }
    programs_finish(&plan->programs);
    *plan = (struct model_plan){0};
}

enum dgl_status model_plan_compile(struct model_plan *plan, const enum segment *segs, size_t count)
{
    size_t total = 0, n = 0;
    for (size_t i = 0; i < count; i++)
        total += plan->seg[segs[i]].ops.count;
    struct program_entry **entries = dgl_new_array(struct program_entry *, total);
    if (!entries)
        return dgl_fail_memory(plan->programs.dev->log, "program batch", total * sizeof(*entries));
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < plan->seg[segs[i]].ops.count; j++)
            entries[n++] = plan->seg[segs[i]].entry[j];
    enum dgl_status st = programs_compile(&plan->programs, entries, n);
    free(entries);
    return st;
}
