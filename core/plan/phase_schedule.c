/* Gives every large buffer its views, finds where rows wait, and fills the table. */
#include "core/plan/phase_schedule.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

#define REASON_SIZE 256

struct builder {
    const struct phase_schedule_params *params;
    struct phase_program *program;
    uint32_t *use; /* [count] */
    char *reason;
};

static enum dgl_status refuse(const struct builder *b, const char *fmt, ...) DGL_PRINTF(2, 3);
static enum dgl_status refuse(const struct builder *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(b->reason, REASON_SIZE, fmt, args);
    va_end(args);
    return DGL_ERR_UNSUPPORTED;
}

/* ---- waits ----------------------------------------------------------------------------------- */

static enum kernel_access access_of(const struct kernel *kernel, const char *name)
{
    enum kernel_access access = 0;
    for (uint32_t i = 0; i < kernel->num_binds; i++)
        if (strcmp(kernel->binds[i].name, name) == 0)
            access |= kernel->binds[i].access;
    return access;
}

static bool conflicts(const struct phase_op *a, const struct phase_op *b)
{
    for (uint32_t i = 0; i < a->op->num_binds; i++) {
        const struct op_bind *x = &a->op->binds[i];
        enum kernel_access ax = access_of(a->choice->kernel, x->name);
        for (uint32_t j = 0; ax && j < b->op->num_binds; j++) {
            const struct op_bind *y = &b->op->binds[j];
            enum kernel_access ay = access_of(b->choice->kernel, y->name);
            if (ay && ((ax | ay) & KERNEL_WRITE) && x->ref.kind == y->ref.kind &&
                x->ref.id == y->ref.id && x->ref.part == y->ref.part)
                return true;
        }
    }
    return false;
}

/* waits[i]: operation i conflicts with one since the wait before it. Tokens are separated by a wait
 * of their own. */
static void derive_waits(const struct builder *b, bool *waits)
{
    const struct phase_op *ops = b->params->ops;
    for (size_t i = 0, since = 0; i < b->params->count; i++) {
        for (size_t j = since; j < i && !waits[i]; j++)
            waits[i] = conflicts(&ops[i], &ops[j]);
        since = waits[i] ? i : since;
    }
}

/* ---- views ----------------------------------------------------------------------------------- */

static bool is_written(const struct builder *b, uint32_t buffer)
{
    for (size_t i = 0; i < b->params->count; i++) {
        const struct phase_op *op = &b->params->ops[i];
        const struct kernel *kernel = op->choice->kernel;
        for (uint32_t j = 0; j < kernel->num_binds; j++)
            if ((kernel->binds[j].access & KERNEL_WRITE) && op->place[j].buffer == buffer)
                return true;
    }
    return false;
}

/* The view of a buffer with a type; with `same_size` any that reads as many bytes will do. */
static uint32_t find_view(const struct phase_program *p, uint32_t buffer, const char *type,
                          bool same_size)
{
    for (uint32_t i = 0; i < p->num_views; i++) {
        const struct phase_view *view = &p->views[i];
        if (view->buffer != buffer)
            continue;
        if (!view->written || strcmp(view->type, type) == 0 ||
            (same_size && phase_type_bytes(view->type) == phase_type_bytes(type)))
            return i;
    }
    return UINT32_MAX;
}

static void add_view(struct builder *b, uint32_t buffer, const char *type, bool written)
{
    struct phase_program *p = b->program;
    if (find_view(p, buffer, type, false) != UINT32_MAX)
        return;
    if (p->num_views + 1 == PHASE_MOST_WANTED) /* the control words' is left */
        return;
    struct phase_view *view = &p->views[p->num_views++];
    *view = (struct phase_view){.buffer = buffer, .written = written};
    snprintf(view->type, sizeof(view->type), "%s", written ? type : "uvec4");
}

/* What is written needs a view of its type; what is only read takes any of as many bytes. */
static enum dgl_status make_views(struct builder *b)
{
    struct phase_program *p = b->program;
    const struct phase_schedule_params *params = b->params;
    add_view(b, params->step.buffer, "uint", true);
    add_view(b, params->step.buffer, "float", true);
    add_view(b, params->step.buffer, "vec4", true);
    for (int writes = 1; writes >= 0; writes--)
        for (size_t i = 0; i < params->count; i++) {
            const struct phase_op *op = &params->ops[i];
            const struct kernel *kernel = op->choice->kernel;
            for (uint32_t j = 0; j < kernel->num_binds; j++) {
                const struct kernel_bind *bind = &kernel->binds[j];
                uint32_t buffer = op->place[j].buffer;
                bool written = (bind->access & KERNEL_WRITE) != 0;
                if (written != (writes == 1))
                    continue;
                bool read_only =
                    !written && buffer != params->step.buffer && !is_written(b, buffer);
                if (written || find_view(p, buffer, bind->type, true) == UINT32_MAX)
                    add_view(b, buffer, bind->type, !read_only);
            }
        }
    if (params->ids.buffer != params->step.buffer || params->scratch.buffer != params->step.buffer)
        return refuse(b, "the sequence's state lies in several buffers");
    if (p->num_views + 1 > params->max_views || p->num_views + 1 > PHASE_MAX_VIEWS)
        return refuse(b, "it needs %u storage bindings, %u can be had", p->num_views + 1,
                      params->max_views < PHASE_MAX_VIEWS ? params->max_views : PHASE_MAX_VIEWS);
    p->state_view = (uint8_t)find_view(p, params->step.buffer, "uint", false);
    p->float_view = (uint8_t)find_view(p, params->step.buffer, "float", false);
    p->vec4_view = (uint8_t)find_view(p, params->step.buffer, "vec4", false);
    p->views[p->num_views++] =
        (struct phase_view){.type = "uint", .buffer = UINT32_MAX, .written = true};
    return DGL_OK;
}

/* ---- uses ------------------------------------------------------------------------------------ */

static uint8_t view_of(const struct builder *b, const struct phase_op *op, uint32_t bind)
{
    const struct kernel_bind *k = &op->choice->kernel->binds[bind];
    uint32_t view = find_view(b->program, op->place[bind].buffer, k->type, false);
    if (view == UINT32_MAX)
        view = find_view(b->program, op->place[bind].buffer, k->type, true);
    assert(view != UINT32_MAX);
    return (uint8_t)view;
}

static uint32_t base_of(const struct phase_op *op, uint32_t bind)
{
    return (uint32_t)(op->place[bind].offset /
                      phase_type_bytes(op->choice->kernel->binds[bind].type));
}

static uint32_t param_of(const struct phase_op *op, uint32_t param)
{
    const struct op_param *value = op_find_param(op->op, op->choice->kernel->params[param].name);
    uint32_t word = value->is_op_count ? 0 : value->u; /* no group counts wait for being zeroed */
    if (value->is_float)
        memcpy(&word, &value->f, sizeof(word));
    return word;
}

/* One use per kernel and views. */
static enum dgl_status make_uses(struct builder *b)
{
    struct phase_program *p = b->program;
    for (size_t i = 0; i < b->params->count; i++) {
        const struct phase_op *op = &b->params->ops[i];
        const struct kernel *kernel = op->choice->kernel;
        struct phase_use use = {.choice = op->choice};
        uint32_t u = 0;
        for (uint32_t j = 0; j < kernel->num_binds; j++)
            use.view[j] = view_of(b, op, j);
        while (u < p->num_uses && (p->uses[u].choice != use.choice ||
                                   memcmp(p->uses[u].view, use.view, sizeof(use.view)) != 0))
            u++;
        if (u == p->num_uses)
            p->uses[p->num_uses++] = use;
        b->use[i] = u;
        for (int k = 1; k < 3; k++)
            if (op->choice->local[k] != 1)
                return refuse(b, "%s has a local size of several dimensions", kernel->name);
        if (op->choice->local[0] != b->params->local)
            return refuse(b, "%s has %lld invocations, not %u", kernel->name,
                          (long long)op->choice->local[0], b->params->local);
    }
    return DGL_OK;
}

/* ---- table ----------------------------------------------------------------------------------- */

/* Decides where each value of a use comes from; the words of its rows are numbered within it. */
static void place_values(struct builder *b, uint32_t u)
{
    struct phase_program *p = b->program;
    struct phase_use *use = &p->uses[u];
    const struct kernel *kernel = use->choice->kernel;
    uint32_t words = 0;
    for (uint32_t j = 0; j < kernel->num_binds + kernel->num_params; j++) {
        bool is_base = j < kernel->num_binds, first = true, equal = true;
        uint32_t k = is_base ? j : j - kernel->num_binds, value = 0;
        for (size_t i = 0; i < b->params->count; i++) {
            if (b->use[i] != u)
                continue;
            const struct phase_op *op = &b->params->ops[i];
            uint32_t word = is_base ? base_of(op, k) : param_of(op, k);
            equal &= first || word == value;
            value = word;
            first = false;
        }
        struct phase_value *out = is_base ? &use->base[k] : &use->param[k];
        if (!equal)
            *out = (struct phase_value){PHASE_ROW, words++};
        else if (is_base) /* addresses are no part of the text: it serves other sequences too */
            *out = (struct phase_value){PHASE_SHARED, p->shared_words++};
        else
            *out = (struct phase_value){PHASE_LITERAL, value};
    }
    words = PHASE_ROW_WORDS + (words + 3) / 4 * 4;
    p->row_words = words > p->row_words ? words : p->row_words;
}

static void put_word(uint32_t *shared, uint32_t *row, struct phase_value at, uint32_t value)
{
    if (at.source == PHASE_SHARED)
        shared[at.word] = value;
    else if (at.source == PHASE_ROW)
        row[PHASE_ROW_WORDS + at.word] = value;
}

static enum dgl_status fill_table(struct builder *b, struct phase_schedule *out)
{
    struct phase_program *p = b->program;
    const struct phase_schedule_params *params = b->params;
    p->step_base = (struct phase_value){PHASE_SHARED, p->shared_words++};
    p->ids_base = (struct phase_value){PHASE_SHARED, p->shared_words++};
    p->scratch_base = (struct phase_value){PHASE_SHARED, p->shared_words++};
    for (uint32_t u = 0; u < p->num_uses; u++)
        place_values(b, u);
    p->shared_words = (p->shared_words + 3) / 4 * 4;
    bool *waits = dgl_new_array(bool, params->count);
    p->num_rows = (uint32_t)params->count;
    out->table_bytes = 4 * (p->shared_words + (uint64_t)p->num_rows * p->row_words);
    out->table = dgl_calloc(1, out->table_bytes);
    if (!out->table || !waits) {
        free(waits);
        return dgl_fail_memory(params->log, "table of phases", out->table_bytes);
    }
    derive_waits(b, waits);
    put_word(out->table, NULL, p->step_base, (uint32_t)(params->step.offset / 4));
    put_word(out->table, NULL, p->ids_base, (uint32_t)(params->ids.offset / 4));
    put_word(out->table, NULL, p->scratch_base, (uint32_t)(params->scratch.offset / 4));
    for (size_t i = 0; i < params->count; i++) {
        const struct phase_op *op = &params->ops[i];
        const struct phase_use *use = &p->uses[b->use[i]];
        uint32_t *row = out->table + p->shared_words + i * p->row_words;
        row[0] = b->use[i];
        row[1] = op->groups[0] * op->groups[2];
        row[2] = row[1] * op->groups[1];
        row[3] = i + 1 < params->count && waits[i + 1];
        for (uint32_t j = 0; j < use->choice->kernel->num_binds; j++)
            put_word(out->table, row, use->base[j], base_of(op, j));
        for (uint32_t j = 0; j < use->choice->kernel->num_params; j++)
            put_word(out->table, row, use->param[j], param_of(op, j));
    }
    free(waits);
    if (out->table_bytes > params->max_table_bytes)
        return refuse(b, "its table has %llu bytes, a uniform block at most %llu",
                      (unsigned long long)out->table_bytes,
                      (unsigned long long)params->max_table_bytes);
    return DGL_OK;
}

enum dgl_status phase_schedule_init(struct phase_schedule *out,
                                    const struct phase_schedule_params *params,
                                    char reason[REASON_SIZE])
{
    const size_t count = params->count;
    *out = (struct phase_schedule){0};
    struct builder b = {.params = params, .program = &out->program, .reason = reason};
    struct phase_program *p = b.program;
    enum dgl_status status = DGL_OK;
    reason[0] = '\0';
    b.use = dgl_new_array(uint32_t, count);
    p->uses = dgl_new_array(struct phase_use, count);
    p->one_row = params->one_row;
    p->local = params->local;
    p->row_words = PHASE_ROW_WORDS;
    p->barrier = params->barrier;
    if (!b.use || !p->uses)
        status = dgl_fail_memory(params->log, "schedule of phases", count * sizeof(*p->uses));
    if (status == DGL_OK)
        status = make_views(&b);
    if (status == DGL_OK)
        status = make_uses(&b);
    if (status == DGL_OK && phase_shared_bytes(p) > params->max_shared_bytes)
        status = refuse(&b, "it needs %lld bytes of shared memory, the device has %u",
                        (long long)phase_shared_bytes(p), params->max_shared_bytes);
    /* begin() of all others runs after the step has been loaded. */
    const struct kernel *first = status == DGL_OK ? params->ops[0].choice->kernel : NULL;
    if (first && first->begins && (first->uses_step || first->writes_step))
        status = refuse(&b, "%s begins the step and has both begin() and STEP", first->name);
    if (status == DGL_OK)
        status = fill_table(&b, out);
    free(b.use);
    if (status != DGL_OK)
        phase_schedule_finish(out);
    return status;
}

void phase_schedule_finish(struct phase_schedule *schedule)
{
    free(schedule->program.uses);
    free(schedule->table);
    *schedule = (struct phase_schedule){0};
}
