/* From operations to kernels: the bodies of a plan, their operations, and the kernel of each. */
#include "core/plan/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/step.h"

/* ---- shapes and recipes ---------------------------------------------------------------------- */

int pass_shape_compare(struct pass_shape a, struct pass_shape b)
{
    /* One row comes last among the layers of one sequence: prefill is displayed before decode. */
    a.rows_log2 = (uint8_t)(a.rows_log2 - 1);
    b.rows_log2 = (uint8_t)(b.rows_log2 - 1);
    const int part = memcmp(&a.part, &b.part, 1);
    const int per_sequence = memcmp(&a.per_sequence, &b.per_sequence, 1);
    return part ? part : per_sequence ? per_sequence : memcmp(&a, &b, sizeof(a));
}

bool shapes_have(const struct shape_set *set, struct pass_shape shape)
{
    bool has = false;
    for (uint32_t i = 0; i < set->count && !has; i++)
        has = pass_shape_compare(set->of[i], shape) == 0;
    return has;
}

struct shape_set shapes_add(struct shape_set set, struct pass_shape shape)
{
    uint32_t at = set.count;
    if (shapes_have(&set, shape))
        return set;
    assert(set.count < SHAPES_MAX);
    for (; at > 0 && pass_shape_compare(set.of[at - 1], shape) > 0; at--)
        set.of[at] = set.of[at - 1];
    set.of[at] = shape;
    set.count++;
    return set;
}

struct shape_set shapes_of(struct pass_shape shape)
{
    return (struct shape_set){.of = {shape}, .count = 1};
}

struct shape_set shapes_join(struct shape_set a, struct shape_set b)
{
    for (uint32_t i = 0; i < b.count; i++)
        a = shapes_add(a, b.of[i]);
    return a;
}

struct recipe recipe_of(struct pass_shape shape)
{
    return (struct recipe){.shapes = shapes_of(shape)};
}

struct recipe recipe_sampling(enum sample_kind kind, unsigned changes)
{
    struct recipe recipe = recipe_of(PASS_SAMPLE(kind));
    if (changes & SAMPLE_ADJUSTS)
        recipe.shapes = shapes_add(recipe.shapes, PASS_ADJUST);
    if (changes & SAMPLE_MASKS)
        recipe.shapes = shapes_add(recipe.shapes, PASS_MASK);
    if (changes & SAMPLE_FILTERS)
        recipe.shapes = shapes_add(recipe.shapes, PASS_FILTER);
    return recipe;
}

struct recipe recipe_decode(enum sample_kind kind, unsigned changes, bool several)
{
    struct recipe recipe = recipe_sampling(kind, changes);
    recipe.shapes = shapes_add(shapes_add(recipe.shapes, PASS_DECODE), PASS_HEAD);
    if (several)
        recipe.shapes = shapes_add(recipe.shapes, PASS_EARLY_EXIT);
    recipe.repeats = true;
    return recipe;
}

bool recipe_equal(const struct recipe *a, const struct recipe *b)
{
    return a->shapes.count == b->shapes.count &&
           memcmp(a->shapes.of, b->shapes.of, a->shapes.count * sizeof(a->shapes.of[0])) == 0 &&
           a->repeats == b->repeats && a->first == b->first && a->count == b->count;
}

int32_t plan_step_rows(struct recipe recipe)
{
    const struct pass_shape body = recipe.shapes.of[0];
    if (recipe.shapes.count == 0 || body.part != PART_LAYERS || pass_shape_is_prefill(body))
        return 0;
    return 1 << body.rows_log2 < PLAN_PHASE_ROWS ? 1 << body.rows_log2 : PLAN_PHASE_ROWS;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Sets *at to the place of a shape in plan->bodies, or to the place to insert it. Returns true if
 * it is listed. */
static bool find(const struct plan *plan, struct pass_shape shape, size_t *at)
{
    int order = 1;
    for (*at = 0; *at < plan->num_bodies; ++*at)
        if ((order = pass_shape_compare(plan->bodies[*at]->shape, shape)) >= 0)
            break;
    return order == 0;
}

const struct body *plan_body(const struct plan *plan, struct pass_shape shape)
{
    static const struct body none;
    size_t at;
    const struct body *body = find(plan, shape, &at) ? plan->bodies[at] : &none;
    while (body->wider)
        body = body->wider;
    return body;
}

size_t plan_bodies(const struct plan *plan, const struct shape_set *shapes,
                   const struct body *out[SHAPES_MAX])
{
    size_t count = 0;
    bool ended = false, known = false;
    for (uint32_t i = 0; i < shapes->count; i++, known = false) {
        const struct body *body = plan_body(plan, shapes->of[i]);
        for (size_t k = 0; k < count && !known; k++)
            known = out[k] == body;
        if (!known && body->ops.count > 0 && !(ended && body->shape.part == PART_EARLY_EXIT))
            out[count++] = body;
        ended |= body->ends_batch;
    }
    return count;
}

/* Returns the smallest log2 from `least` on of a body for that many rows. */
static uint8_t log2_of(int32_t rows, uint8_t least)
{
    while (least < PASS_ANY_ROWS && 1 << least < rows)
        least++;
    return least;
}

struct pass_shape plan_pass_shape(const struct plan *plan, int32_t tokens)
{
    return plan_body(plan, PASS_ROWS(log2_of(tokens, 0)))->shape;
}

struct pass_shape plan_batch_shape(const struct plan *plan, int32_t sequences)
{
    assert(sequences > 1 && sequences <= DGL_STEP_SEQS);
    const struct body *body = plan_body(plan, PASS_BATCH(log2_of(sequences, 1)));
    assert(body->ops.count > 0); /* plan_add_batch() */
    return body->shape;
}

/* Number of tokens for which a pass over `tokens` has room. */
static int32_t pass_room(const struct plan *plan, int32_t tokens)
{
    const int32_t columns = 1 << plan_pass_shape(plan, tokens).rows_log2;
    return (tokens + columns - 1) / columns * columns;
}

int32_t plan_pass_tokens(const struct plan *plan, int32_t left, int32_t most)
{
    /* PASS is the fixed cost of one more pass, in tokens. With experts one more pass never pays,
     * because it reads all of them. */
    enum { PASS = 16 };
    int32_t tokens = left < most ? left : most, columns = 1 << PASS_ANY_ROWS;
    assert(tokens > 0);
    if (plan_pass_shape(plan, 2).rows_log2 == PASS_ANY_ROWS || plan->desc->moe.experts > 0)
        return tokens;
    while (columns > tokens)
        columns /= 2;
    int32_t full = tokens / columns * columns, rest = tokens - full;
    bool splits =
        rest > 0 && pass_room(plan, full) + PASS + pass_room(plan, rest) < pass_room(plan, tokens);
    return splits ? full : tokens;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void list_ops(struct plan *plan, struct body *out)
{
    const struct pass_shape shape = out->shape;
    struct oplist *list = &out->ops;
    struct oplist_params p = {.desc = plan->desc,
                              .weights = plan->weights,
                              .kv = &plan->kv,
                              .splits = plan->splits,
                              .token_splits = plan->token_splits,
                              .sum_rows = plan->sum_rows,
                              .fusion = &plan->fusion};
    if (shape.rows_log2 > 0 && shape.rows_log2 < PASS_ANY_ROWS)
        p.columns = 1 << shape.rows_log2;
    switch ((enum pass_part)shape.part) {
    case PART_LAYERS:
        if (shape.per_sequence) {
            /* Rows fill the device in place of the splits of one row's keys. */
            p.batch = true;
            p.mixed = shape.per_sequence > 1;
            p.splits = plan_batch_splits(plan->splits, p.columns);
            p.token_splits = plan_batch_splits(plan->token_splits, p.columns);
            oplist_batch_body(list, &p);
        } else if (shape.rows_log2 > 0) {
            oplist_prefill_body(list, &p);
        } else {
            oplist_decode_body(list, &p);
        }
        break;
    case PART_OUTPUTS:
        if (shape.outputs == OUTPUT_LAST)
            oplist_head(list, &p, DGL_PHASE_DECODE);
        else if (shape.outputs == OUTPUT_HIDDEN)
            oplist_hidden(list, &p);
        else
            oplist_score(list, &p);
        break;
    case PART_ADJUST:
        oplist_adjust(list, &p);
        break;
    case PART_MASK:
        oplist_mask(list, &p);
        break;
    case PART_FILTER:
        oplist_filter(list, &p);
        break;
    case PART_SAMPLE:
        out->ends_batch = oplist_sample(list, &p, (enum sample_kind)shape.sampler);
        break;
    case PART_EARLY_EXIT:
        oplist_early_exit(list);
        break;
    case PART_REPORT:
        oplist_report(list);
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

bool plan_is_asked(const struct plan *plan, struct shape_set shapes)
{
    const struct body *bodies[SHAPES_MAX];
    const size_t count = plan_bodies(plan, &shapes, bodies);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < bodies[i]->ops.count; k++)
            if (bodies[i]->use[k]->choice.asked)
                return true;
    return false;
}

size_t plan_block_end(const struct body *body, size_t first, enum plan_buffer *stream)
{
    size_t i = first;
    for (*stream = BUF_COUNT; i < body->ops.count; i++)
        if ((*stream = stream_written(&body->ops.ops[i])) != BUF_COUNT)
            break;
    /* Bands of one weight are consecutive. */
    const char *label = i < body->ops.count ? body->ops.ops[i].label : NULL;
    while (i < body->ops.count && strcmp(body->ops.ops[i].label, label) == 0)
        i++;
    return i;
}

static void body_clear(struct body *body)
{
    oplist_finish(&body->ops);
    free(body->use);
    body->use = NULL;
}

/* Chooses the kernel of each operation. */
static enum dgl_status choose_kernels(struct plan *plan, struct body *body)
{
    const struct plan_device *device = plan->device;
    enum dgl_status status = DGL_OK;
    body->use = dgl_new_array(const struct kernel_use *, body->ops.count);
    if (body->ops.failed || !body->use)
        TRY(dgl_fail_memory(device->log, "operation list", body->ops.count * sizeof(struct op)));
    for (size_t i = 0; i < body->ops.count; i++) {
        const struct op *op = &body->ops.ops[i];
        struct kernel_use *use = NULL;
        uint32_t groups[3];
        TRY(kernel_table_find(&plan->kernels, &op->request, &use));
        TRY(plan_check_served(device->log, op, use->choice.kernel));
        TRY(kernel_use_groups(device, use, 1, op_weight_rows(op), groups));
        body->use[i] = use;
    }
done:
    return status;
}

/* Returns the first kernel of a body that reads or writes rows of sequences and is only ever
 * launched for the first row, or NULL. */
static const struct kernel *find_one_row(const struct plan *plan, const struct body *body)
{
    for (size_t i = 0; i < body->ops.count; i++) {
        const char *name = body->ops.ops[i].request.op;
        uint32_t one[3], two[3];
        if ((strncmp(name, "attn_", 5) == 0 || strncmp(name, "sample_", 7) == 0) &&
            kernel_groups_band(&body->use[i]->choice, 1, 0, plan->device->limits.max_groups[0],
                               one) &&
            kernel_groups_band(&body->use[i]->choice, 2, 0, plan->device->limits.max_groups[0],
                               two) &&
            memcmp(one, two, sizeof(one)) == 0)
            return body->use[i]->choice.kernel;
    }
    return NULL;
}

enum dgl_status plan_list(struct plan *plan, struct pass_shape shape)
{
    const uint8_t widest = shape.per_sequence ? PASS_BATCH_MOST : PASS_ANY_ROWS;
    const struct body *wider = NULL;
    struct body *body = NULL;
    enum dgl_status status = DGL_OK;
    size_t at;
    if (find(plan, shape, &at))
        return DGL_OK;
    if (shape.rows_log2 > 0 && shape.rows_log2 < widest) {
        struct pass_shape next = shape;
        next.rows_log2++;
        TRY(plan_list(plan, next));
        wider = plan_body(plan, next);
    }
    const size_t uses = plan->kernels.count;
    body = dgl_new(struct body);
    if (!body || !dgl_grow((void **)&plan->bodies, &plan->cap_bodies, plan->num_bodies + 1,
                           sizeof(*plan->bodies)))
        TRY(dgl_fail_memory(plan->device->log, "operation list", sizeof(*body)));
    body->shape = shape;
    list_ops(plan, body);
    status = choose_kernels(plan, body);
    bool same = status == DGL_OK && wider && body->ops.count == wider->ops.count;
    for (size_t i = 0; same && i < body->ops.count; i++)
        same = kernel_use_equal(body->use[i], wider->use[i]);
    if (same)
        body->wider = wider;
    if (same || status != DGL_OK) {
        body_clear(body);
        kernel_table_cut(&plan->kernels, uses);
    }
    TRY(status);
    if (!plan->one_row &&
        (shape.per_sequence || (shape.part >= PART_ADJUST && shape.part <= PART_SAMPLE)))
        plan->one_row = find_one_row(plan, body);
    find(plan, shape, &at);
    memmove(plan->bodies + at + 1, plan->bodies + at,
            (plan->num_bodies++ - at) * sizeof(*plan->bodies));
    plan->bodies[at] = body;
    body = NULL;
done:
    free(body);
    return status;
}

enum dgl_status plan_list_ops(struct plan *plan, struct pass_shape shape, struct oplist *out)
{
    struct body body = {.shape = shape};
    list_ops(plan, &body);
    *out = body.ops;
    return out->failed ? dgl_fail_memory(plan->device->log, "operation list",
                                         out->count * sizeof(struct op))
                       : DGL_OK;
}

enum dgl_status plan_init(struct plan *out, const struct plan_params *p,
                          const struct model_weights *weights)
{
    /* The kernels of all widths are chosen now, so that hints are checked and reported at load. */
    /* clang-format off */
    const struct pass_shape shapes[] = {
        PASS_PREFILL, PASS_DECODE, PASS_HEAD, PASS_HIDDEN, PASS_SCORE, PASS_ADJUST,
        PASS_SAMPLE(SAMPLE_GREEDY), PASS_SAMPLE(SAMPLE_TOPK), PASS_SAMPLE(SAMPLE_FULL),
        PASS_EARLY_EXIT, PASS_ROWS(1),
    };
    /* clang-format on */
    enum dgl_status status = DGL_OK;
    *out = (struct plan){.device = p->device,
                         .desc = p->desc,
                         .weights = weights,
                         .kv_type = p->kv_type,
                         .splits = plan_choose_splits(p->device, p->desc),
                         .token_splits = plan_token_splits(p->device, p->desc),
                         .sum_rows = plan_sum_rows(p->device)};
    kv_layout_init(&out->kv, p->desc, p->kv_type, p->device->kv_by_window);
    kernel_table_init(&out->kernels, p->device, p->set);
    fusion_init(&out->fusion, p->device, p->set);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]) && status == DGL_OK; i++)
        status = plan_list(out, shapes[i]);
    if (status != DGL_OK)
        plan_finish(out);
    return status;
}

enum dgl_status plan_add_batch(struct plan *plan)
{
    const enum dgl_status status = plan_list(plan, PASS_REPORT);
    return status == DGL_OK ? plan_list(plan, PASS_BATCH(1)) : status;
}

void plan_finish(struct plan *plan)
{
    for (size_t i = 0; i < plan->num_bodies; i++) {
        body_clear(plan->bodies[i]);
        free(plan->bodies[i]);
    }
    free(plan->bodies);
    fusion_finish(&plan->fusion);
    kernel_table_finish(&plan->kernels);
    dgl_buf_finish(&plan->hint_notes);
    *plan = (struct plan){0};
}
