/* From operations to kernels: the segments of a plan, their operations, and the kernel of each. */
#include "core/plan/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/step.h"

/* ---- recipes --------------------------------------------------------------------------------- */

struct recipe recipe_of(enum segment segment)
{
    return (struct recipe){.segments = 1u << segment};
}

struct recipe recipe_sampling(enum sample_kind kind, bool adjusts)
{
    return (struct recipe){.segments = 1u << (SEG_SAMPLE_GREEDY + kind) |
                                       (adjusts ? 1u << SEG_ADJUST : 0u)};
}

struct recipe recipe_decode(enum sample_kind kind, bool adjusts, bool several)
{
    struct recipe recipe = recipe_sampling(kind, adjusts);
    recipe.segments |= 1u << SEG_DECODE | 1u << SEG_HEAD | (several ? 1u << SEG_EARLY_EXIT : 0u);
    recipe.repeats = true;
    return recipe;
}

/* ---- passes ---------------------------------------------------------------------------------- */

int32_t plan_body_columns(enum segment body)
{
    if (body >= SEG_BATCH_2 && body <= SEG_BATCH_64)
        return 2 << (body - SEG_BATCH_2);
    return body == SEG_DECODE ? 1 : 2 << (body - SEG_PREFILL_2);
}

enum segment plan_batch_body(const struct plan *plan, int32_t sequences)
{
    enum segment body = SEG_BATCH_2;
    assert(sequences > 1 && sequences <= DGL_STEP_SEQS && plan->has_batch);
    while (plan_body_columns(body) < sequences || plan->segment[body].ops.count == 0)
        body++;
    assert(body <= SEG_BATCH_64);
    return body;
}

enum segment plan_step_body(struct recipe recipe)
{
    enum segment body = SEG_DECODE;
    if (RECIPE_HAS(recipe, SEG_DECODE))
        return SEG_DECODE;
    for (body = SEG_BATCH_2; body <= SEG_BATCH_64; body++)
        if (RECIPE_HAS(recipe, body))
            return body;
    return SEG_COUNT;
}

int32_t plan_step_rows(struct recipe recipe)
{
    const enum segment body = plan_step_body(recipe);
    const int32_t columns = body == SEG_COUNT ? 0 : plan_body_columns(body);
    return columns < PLAN_PHASE_ROWS ? columns : PLAN_PHASE_ROWS;
}

enum segment plan_body(const struct plan *plan, int32_t tokens)
{
    if (tokens == 1)
        return SEG_DECODE;
    for (enum segment body = SEG_PREFILL_2; body < SEG_PREFILL; body++)
        if (tokens <= plan_body_columns(body) && plan->segment[body].ops.count > 0)
            return body;
    return SEG_PREFILL;
}

/* Number of tokens for which a pass over `tokens` has room. */
static int32_t pass_room(const struct plan *plan, int32_t tokens)
{
    int32_t columns = tokens == 1 ? 1 : plan_body_columns(plan_body(plan, tokens));
    return (tokens + columns - 1) / columns * columns;
}

int32_t plan_pass_tokens(const struct plan *plan, int32_t left, int32_t most)
{
    /* PASS is the fixed cost of one more pass, in tokens. With experts one more pass never pays,
     * because it reads all of them. */
    enum { PASS = 16 };
    int32_t tokens = left < most ? left : most, columns = plan_body_columns(SEG_PREFILL);
    assert(tokens > 0);
    if (plan_body(plan, 2) == SEG_PREFILL || plan->desc->moe.experts > 0)
        return tokens;
    while (columns > tokens)
        columns /= 2;
    int32_t full = tokens / columns * columns, rest = tokens - full;
    bool splits =
        rest > 0 && pass_room(plan, full) + PASS + pass_room(plan, rest) < pass_room(plan, tokens);
    return splits ? full : tokens;
}

/* ---- segments -------------------------------------------------------------------------------- */

static void fill_segment(struct plan_segment *out, enum segment segment,
                         const struct oplist_params *p)
{
    struct oplist *list = &out->ops;
    struct oplist_params prefill = *p;
    switch (segment) {
    case SEG_PREFILL_2:
    case SEG_PREFILL_4:
    case SEG_PREFILL_8:
    case SEG_PREFILL_16:
    case SEG_PREFILL_32:
    case SEG_PREFILL_64:
    case SEG_PREFILL_128:
    case SEG_PREFILL:
        prefill.columns = segment == SEG_PREFILL ? 0 : plan_body_columns(segment);
        oplist_prefill_body(list, &prefill);
        break;
    case SEG_DECODE:
        oplist_decode_body(list, p);
        break;
    case SEG_HEAD:
        oplist_head(list, p, DGL_PHASE_DECODE);
        break;
    case SEG_HIDDEN:
        oplist_hidden(list, p);
        break;
    case SEG_SCORE:
        oplist_score(list, p);
        break;
    case SEG_BATCH_2:
    case SEG_BATCH_4:
    case SEG_BATCH_8:
    case SEG_BATCH_16:
    case SEG_BATCH_32:
    case SEG_BATCH_64:
        /* Rows fill the device in place of the splits of one row's keys. */
        prefill.batch = true;
        prefill.columns = plan_body_columns(segment);
        prefill.splits = plan_batch_splits(p->splits, prefill.columns);
        prefill.token_splits = plan_batch_splits(p->token_splits, prefill.columns);
        oplist_batch_body(list, &prefill);
        break;
    case SEG_ADJUST:
        oplist_adjust(list, p);
        break;
    case SEG_SAMPLE_GREEDY:
        out->ends_batch = oplist_sample(list, p, SAMPLE_GREEDY);
        break;
    case SEG_SAMPLE_TOPK:
        out->ends_batch = oplist_sample(list, p, SAMPLE_TOPK);
        break;
    case SEG_SAMPLE_FULL:
        out->ends_batch = oplist_sample(list, p, SAMPLE_FULL);
        break;
    case SEG_EARLY_EXIT:
        oplist_early_exit(list);
        break;
    case SEG_REPORT:
        oplist_report(list);
        break;
    case SEG_COUNT:
        break;
    }
}

static bool op_has_buffer(const void *priv, const char *name)
{
    return op_find_bind(priv, name) != NULL;
}

static bool op_has_param(const void *priv, const char *name, bool *is_float)
{
    const struct op_param *param = op_find_param(priv, name);
    *is_float = param && param->is_float;
    return param != NULL;
}

enum dgl_status plan_check_served(const struct dgl_log *log, const struct op *op,
                                  const struct kernel *kernel)
{
    const struct kernel_supply supply = {op->request.op, op_has_buffer, op_has_param, op};
    char why[512];
    return kernel_is_supplied(kernel, &supply, why) ? DGL_OK
                                                    : dgl_fail(log, DGL_ERR_KERNEL, "%s", why);
}

bool plan_segment_runs(const struct plan *plan, struct recipe recipe, enum segment segment)
{
    bool ended = false;
    for (int s = SEG_SAMPLE_GREEDY; s <= SEG_SAMPLE_FULL; s++)
        ended |= RECIPE_HAS(recipe, s) && plan->segment[s].ends_batch;
    return RECIPE_HAS(recipe, segment) && !(segment == SEG_EARLY_EXIT && ended);
}

/* BUF_COUNT: it writes to no residual stream. */
static enum plan_buffer stream_written(const struct op *op)
{
    static const char *const results[] = {"STREAM", "Y", "X"};
    bool in_x = strcmp(op->request.op, "embed") == 0 || strcmp(op->request.op, "moe_combine") == 0;
    for (size_t i = 0; i < (in_x ? 3 : 2); i++) {
        const struct op_bind *bind = op_find_bind(op, results[i]);
        if (bind && bind->ref.kind == REF_ACT && (bind->ref.id == BUF_X || bind->ref.id == BUF_X2))
            return (enum plan_buffer)bind->ref.id;
    }
    return BUF_COUNT;
}

bool plan_is_asked(const struct plan *plan, uint32_t segments)
{
    for (int i = 0; i < SEG_COUNT; i++)
        for (size_t k = 0; segments >> i & 1u && k < plan->segment[i].ops.count; k++)
            if (plan->segment[i].use[k]->choice.asked)
                return true;
    return false;
}

size_t plan_block_end(const struct plan *plan, enum segment body, size_t first,
                      enum plan_buffer *stream)
{
    const struct plan_segment *s = &plan->segment[body];
    size_t i = first;
    for (*stream = BUF_COUNT; i < s->ops.count; i++)
        if ((*stream = stream_written(&s->ops.ops[i])) != BUF_COUNT)
            break;
    /* Bands of one weight are consecutive. */
    const char *label = i < s->ops.count ? s->ops.ops[i].label : NULL;
    while (i < s->ops.count && strcmp(s->ops.ops[i].label, label) == 0)
        i++;
    return i;
}

static void segment_finish(struct plan_segment *segment)
{
    oplist_finish(&segment->ops);
    free(segment->use);
    *segment = (struct plan_segment){0};
}

/* The segment's operations and their kernels. */
static enum dgl_status plan_segment_init(struct plan *plan, enum segment which,
                                         const struct oplist_params *ops)
{
    const struct plan_device *device = plan->device;
    struct plan_segment *segment = &plan->segment[which];
    enum dgl_status status = DGL_OK;
    fill_segment(segment, which, ops);
    segment->use = dgl_new_array(const struct kernel_use *, segment->ops.count);
    if (segment->ops.failed || !segment->use)
        TRY(dgl_fail_memory(device->log, "operation list", segment->ops.count * sizeof(struct op)));
    for (size_t i = 0; i < segment->ops.count; i++) {
        const struct op *op = &segment->ops.ops[i];
        struct kernel_use *use = NULL;
        uint32_t groups[3];
        TRY(kernel_table_find(&plan->kernels, &op->request, &use));
        TRY(plan_check_served(device->log, op, use->choice.kernel));
        TRY(kernel_use_groups(device, use, 1, op_weight_rows(op), groups));
        segment->use[i] = use;
    }
done:
    return status;
}

/* Adds the bodies from `first` on for fewer tokens than `widest`, which exists. Keeps those whose
 * kernels differ from the next body's. */
static enum dgl_status add_bodies(struct plan *plan, enum segment first, enum segment widest,
                                  const struct oplist_params *ops)
{
    enum segment wider = widest;
    enum dgl_status status = DGL_OK;
    for (int s = widest - 1; s >= (int)first; s--) {
        struct plan_segment *a = &plan->segment[s], *b = &plan->segment[wider];
        size_t uses = plan->kernels.count;
        TRY(plan_segment_init(plan, (enum segment)s, ops));
        bool same = a->ops.count == b->ops.count;
        for (size_t i = 0; i < a->ops.count && same; i++)
            same = kernel_use_equal(a->use[i], b->use[i]);
        if (same) {
            segment_finish(a);
            kernel_table_cut(&plan->kernels, uses);
        } else {
            wider = (enum segment)s;
        }
    }
done:
    return status;
}

static struct oplist_params oplist_params_of(struct plan *plan)
{
    return (struct oplist_params){.desc = plan->desc,
                                  .weights = plan->weights,
                                  .kv = &plan->kv,
                                  .splits = plan->splits,
                                  .token_splits = plan->token_splits,
                                  .sum_rows = plan->sum_rows,
                                  .fusion = &plan->fusion};
}

enum dgl_status plan_segment_list(struct plan *plan, enum segment segment, struct oplist *out)
{
    const struct oplist_params ops = oplist_params_of(plan);
    struct plan_segment listed = {.use = NULL};
    fill_segment(&listed, segment, &ops);
    *out = listed.ops;
    return out->failed ? dgl_fail_memory(plan->device->log, "operation list",
                                         out->count * sizeof(struct op))
                       : DGL_OK;
}

enum dgl_status plan_init(struct plan *out, const struct plan_params *p)
{
    enum dgl_status status = DGL_OK;
    *out = (struct plan){.device = p->device,
                         .desc = p->desc,
                         .weights = p->weights,
                         .kv_type = p->kv_type,
                         .splits = plan_choose_splits(p->device, p->desc),
                         .token_splits = plan_token_splits(p->device, p->desc),
                         .sum_rows = plan_sum_rows(p->device)};
    kv_layout_init(&out->kv, p->desc, p->kv_type, p->device->kv_by_window);
    const struct oplist_params ops = oplist_params_of(out);
    kernel_table_init(&out->kernels, p->device, p->set);
    fusion_init(&out->fusion, p->device, p->set);
    for (int s = SEG_PREFILL; s < SEG_REPORT && status == DGL_OK; s++)
        if (s < SEG_BATCH_2 || s > SEG_BATCH_64)
            status = plan_segment_init(out, (enum segment)s, &ops);
    if (status == DGL_OK)
        status = add_bodies(out, SEG_PREFILL_2, SEG_PREFILL, &ops);
    if (status != DGL_OK)
        plan_finish(out);
    return status;
}

/* Returns the first kernel of a segment that reads or writes rows of sequences and is only ever
 * launched for the first row, or NULL. */
static const struct kernel *find_one_row(const struct plan *plan, enum segment which)
{
    static const char *const by_sequence[] = {"attn_", "sample_"};
    const struct plan_segment *segment = &plan->segment[which];
    for (size_t i = 0; i < segment->ops.count; i++) {
        const struct op *op = &segment->ops.ops[i];
        uint32_t one[3], two[3];
        bool asks = false;
        for (size_t k = 0; k < sizeof(by_sequence) / sizeof(by_sequence[0]); k++)
            asks |= strncmp(op->request.op, by_sequence[k], strlen(by_sequence[k])) == 0;
        if (asks &&
            kernel_groups_band(&segment->use[i]->choice, 1, 0, plan->device->limits.max_groups[0],
                               one) &&
            kernel_groups_band(&segment->use[i]->choice, 2, 0, plan->device->limits.max_groups[0],
                               two) &&
            memcmp(one, two, sizeof(one)) == 0)
            return segment->use[i]->choice.kernel;
    }
    return NULL;
}

enum dgl_status plan_add_batch(struct plan *plan)
{
    const struct oplist_params ops = oplist_params_of(plan);
    const size_t uses = plan->kernels.count;
    if (plan->has_batch)
        return DGL_OK;
    enum dgl_status status = plan_segment_init(plan, SEG_REPORT, &ops);
    if (status == DGL_OK)
        status = plan_segment_init(plan, SEG_BATCH_64, &ops);
    if (status == DGL_OK)
        status = add_bodies(plan, SEG_BATCH_2, SEG_BATCH_64, &ops);
    if (status != DGL_OK) {
        segment_finish(&plan->segment[SEG_REPORT]);
        for (int s = SEG_BATCH_2; s <= SEG_BATCH_64; s++)
            segment_finish(&plan->segment[s]);
        kernel_table_cut(&plan->kernels, uses);
        return status;
    }
    for (int s = SEG_BATCH_2; s < SEG_EARLY_EXIT && !plan->one_row; s++)
        plan->one_row = find_one_row(plan, (enum segment)s);
    plan->has_batch = true;
    return DGL_OK;
}

void plan_finish(struct plan *plan)
{
    for (int s = 0; s < SEG_COUNT; s++)
        segment_finish(&plan->segment[s]);
    fusion_finish(&plan->fusion);
    kernel_table_finish(&plan->kernels);
    dgl_buf_finish(&plan->hint_notes);
    *plan = (struct plan){0};
}
