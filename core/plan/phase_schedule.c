/* Assigns views to large buffers, splits a token into parts, finds the waits between rows, and
 * fills the table. */
#include "core/plan/phase_schedule.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

#define REASON_SIZE 256

/* A large buffer as elements of one type: the contents of a view. */
struct aspect {
    uint32_t buffer;
    char type[8];
    bool written; /* by any operation */
};

struct builder {
    const struct phase_schedule_params *params;
    struct phase_schedule *out;
    struct phase_program *program;
    uint32_t *use; /* [count] */
    struct aspect *aspects;
    size_t num_aspects, cap_aspects;
    uint32_t shown[PHASE_MAX_VIEWS]; /* the present aspect of each view */
    bool kept[PHASE_MAX_VIEWS];      /* until the end of the part */
    size_t cap_parts;
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

/* waits[i] is set if operation i conflicts with one since the last wait. Tokens are separated by
 * another wait. */
static void derive_waits(const struct builder *b, bool *waits)
{
    const struct phase_op *ops = b->params->ops;
    for (size_t i = 0, since = 0; i < b->params->count; i++) {
        for (size_t j = since; j < i && !waits[i]; j++)
            waits[i] = conflicts(&ops[i], &ops[j]);
        since = waits[i] ? i : since;
    }
}

/* ---- aspects --------------------------------------------------------------------------------- */

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

/* Finds the aspect of a buffer with a type, or, if `same_size`, any with elements of that size. */
static uint32_t find_aspect(const struct builder *b, uint32_t buffer, const char *type,
                            bool same_size)
{
    for (uint32_t i = 0; i < b->num_aspects; i++) {
        const struct aspect *a = &b->aspects[i];
        if (a->buffer != buffer)
            continue;
        if (!a->written || strcmp(a->type, type) == 0 ||
            (same_size && phase_type_bytes(a->type) == phase_type_bytes(type)))
            return i;
    }
    return UINT32_MAX;
}

static enum dgl_status add_aspect(struct builder *b, uint32_t buffer, const char *type,
                                  bool written)
{
    if (find_aspect(b, buffer, type, false) != UINT32_MAX)
        return DGL_OK;
    if (!dgl_grow((void **)&b->aspects, &b->cap_aspects, b->num_aspects + 1, sizeof(*b->aspects)))
        return dgl_fail_memory(b->params->log, "schedule of phases", b->num_aspects);
    struct aspect *a = &b->aspects[b->num_aspects++];
    *a = (struct aspect){.buffer = buffer, .written = written};
    snprintf(a->type, sizeof(a->type), "%s", written ? type : "uvec4");
    return DGL_OK;
}

/* A written buffer needs an aspect of its own type. A buffer that is only read uses any aspect with
 * elements of the same size. */
static enum dgl_status list_aspects(struct builder *b)
{
    static const char *const own[] = {"uint", "float", "vec4"};
    const struct phase_schedule_params *params = b->params;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < sizeof(own) / sizeof(*own) && status == DGL_OK; i++)
        status = add_aspect(b, params->step.buffer, own[i], true);
    for (int writes = 1; writes >= 0; writes--)
        for (size_t i = 0; i < params->count && status == DGL_OK; i++) {
            const struct phase_op *op = &params->ops[i];
            const struct kernel *kernel = op->choice->kernel;
            for (uint32_t j = 0; j < kernel->num_binds && status == DGL_OK; j++) {
                const struct kernel_bind *bind = &kernel->binds[j];
                uint32_t buffer = op->place[j].buffer;
                bool written = (bind->access & KERNEL_WRITE) != 0;
                if (written != (writes == 1))
                    continue;
                bool read_only =
                    !written && buffer != params->step.buffer && !is_written(b, buffer);
                if (written || find_aspect(b, buffer, bind->type, true) == UINT32_MAX)
                    status = add_aspect(b, buffer, bind->type, !read_only);
            }
        }
    if (status == DGL_OK && (params->ids.buffer != params->step.buffer ||
                             params->scratch.buffer != params->step.buffer))
        return refuse(b, "the sequence's state lies in several buffers");
    return status;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static uint32_t most_views(const struct builder *b)
{
    return b->params->max_views < PHASE_MAX_VIEWS ? b->params->max_views : PHASE_MAX_VIEWS;
}

/* A view for the aspect, which it keeps. */
static void show(struct builder *b, uint32_t view, uint32_t aspect)
{
    b->shown[view] = aspect;
    b->kept[view] = true;
    b->out->parts[b->out->num_parts - 1].buffer[view] = b->aspects[aspect].buffer;
}

static uint32_t add_view(struct builder *b, uint32_t aspect)
{
    struct phase_program *p = b->program;
    const struct aspect *a = &b->aspects[aspect];
    struct phase_view *view = &p->views[p->num_views];
    *view = (struct phase_view){.written = a->written};
    memcpy(view->type, a->type, sizeof(view->type));
    b->shown[p->num_views] = UINT32_MAX;
    b->kept[p->num_views] = false;
    return p->num_views++;
}

static uint32_t view_of_aspect(const struct builder *b, uint32_t aspect)
{
    for (uint32_t v = 0; v < b->program->num_views; v++)
        if (b->shown[v] == aspect)
            return v;
    return UINT32_MAX;
}

/* Returns true if the view may switch to the aspect. */
static bool is_free(const struct builder *b, uint32_t view, uint32_t aspect)
{
    const struct phase_view *v = &b->program->views[view];
    const struct aspect *a = &b->aspects[aspect];
    return !b->kept[view] && v->written == a->written && strcmp(v->type, a->type) == 0;
}

/* Begins a new part at the row: a dispatch of its own. Its views keep their last aspects until its
 * rows need others. */
static enum dgl_status begin_part(struct builder *b, size_t row)
{
    struct phase_schedule *out = b->out;
    if (!dgl_grow((void **)&out->parts, &b->cap_parts, out->num_parts + 1, sizeof(*out->parts)))
        return dgl_fail_memory(b->params->log, "parts of a token", out->num_parts);
    struct phase_part *part = &out->parts[out->num_parts++];
    if (row == 0)
        memset(part->buffer, 0xff, sizeof(part->buffer));
    else
        *part = part[-1];
    part->first = (uint32_t)row;
    for (uint32_t v = 0; v < b->program->num_views; v++)
        b->kept[v] =
            b->shown[v] != UINT32_MAX && b->aspects[b->shown[v]].buffer == b->params->step.buffer;
    return DGL_OK;
}

/* Returns true if the operation, which needs the aspects `need`, can run as this use in the part:
 * the use's views show its buffers, or can switch to them. */
static bool can_run_as(const struct builder *b, const struct phase_use *use, const uint32_t *need)
{
    const uint32_t binds = use->choice->kernel->num_binds;
    for (uint32_t j = 0; j < binds; j++) {
        const uint32_t view = use->view[j], now = view_of_aspect(b, need[j]);
        if (b->shown[view] != need[j] &&
            (!is_free(b, view, need[j]) || (now != UINT32_MAX && b->kept[now])))
            return false;
        for (uint32_t k = 0; k < j; k++)
            if ((use->view[k] == view) != (need[k] == need[j]))
                return false;
    }
    return true;
}

/* Finds views for the aspects of the operation. Returns false if there are not enough. */
static bool find_views(struct builder *b, const uint32_t *need, uint32_t count, uint8_t *views)
{
    struct phase_program *p = b->program;
    for (uint32_t j = 0; j < count; j++) {
        const uint32_t view = view_of_aspect(b, need[j]);
        if (view != UINT32_MAX)
            show(b, view, need[j]);
    }
    for (uint32_t j = 0; j < count; j++) {
        uint32_t view = view_of_aspect(b, need[j]);
        for (uint32_t v = 0; v < p->num_views && view == UINT32_MAX; v++)
            view = is_free(b, v, need[j]) ? v : view;
        if (view == UINT32_MAX && p->num_views + 1 < most_views(b)) /* one is the control words' */
            view = add_view(b, need[j]);
        if (view == UINT32_MAX)
            return false;
        show(b, view, need[j]);
        views[j] = (uint8_t)view;
    }
    return true;
}

/* Finds or adds the use of operation `i` in the present part. Ends the part before it if there are
 * too few views. There is one use per kernel and views, shared by all parts. */
static enum dgl_status place_op(struct builder *b, size_t i)
{
    struct phase_program *p = b->program;
    const struct phase_op *op = &b->params->ops[i];
    const struct kernel *kernel = op->choice->kernel;
    uint32_t need[KERNEL_MAX_BINDS];
    enum dgl_status status = DGL_OK;
    for (uint32_t j = 0; j < kernel->num_binds; j++) {
        const struct kernel_bind *bind = &kernel->binds[j];
        need[j] = find_aspect(b, op->place[j].buffer, bind->type, false);
        if (need[j] == UINT32_MAX)
            need[j] = find_aspect(b, op->place[j].buffer, bind->type, true);
        assert(need[j] != UINT32_MAX);
    }
    for (int attempt = 0; attempt < 2 && status == DGL_OK; attempt++) {
        for (uint32_t u = 0; u < p->num_uses; u++)
            if (p->uses[u].choice == op->choice && can_run_as(b, &p->uses[u], need)) {
                for (uint32_t j = 0; j < kernel->num_binds; j++) {
                    const uint32_t now = view_of_aspect(b, need[j]);
                    if (now != UINT32_MAX && now != p->uses[u].view[j])
                        b->shown[now] = UINT32_MAX;
                    show(b, p->uses[u].view[j], need[j]);
                }
                b->use[i] = u;
                return DGL_OK;
            }
        struct phase_use use = {.choice = op->choice};
        if (find_views(b, need, kernel->num_binds, use.view)) {
            b->use[i] = p->num_uses;
            p->uses[p->num_uses++] = use;
            return DGL_OK;
        }
        if (b->out->parts[b->out->num_parts - 1].first == i)
            break;
        status = begin_part(b, i);
    }
    return status != DGL_OK
               ? status
               : refuse(b, "%s needs more than the %u storage bindings that can be had",
                        kernel->name, most_views(b));
}

/* Views, uses and parts. */
static enum dgl_status place_ops(struct builder *b)
{
    struct phase_program *p = b->program;
    struct phase_schedule *out = b->out;
    const bool all_fit = b->num_aspects + 1 <= most_views(b);
    enum dgl_status status;
    TRY(begin_part(b, 0));
    for (uint32_t a = 0; a < b->num_aspects; a++) {
        const bool own = b->aspects[a].buffer == b->params->step.buffer;
        if (!own && !all_fit)
            continue;
        if (p->num_views + 1 >= most_views(b))
            return refuse(b,
                          "its state alone needs more than the %u storage bindings that can be had",
                          most_views(b));
        show(b, add_view(b, a), a);
    }
    for (size_t i = 0; i < b->params->count; i++) {
        const struct phase_op *op = &b->params->ops[i];
        const struct kernel *kernel = op->choice->kernel;
        for (int k = 1; k < 3; k++)
            if (op->choice->local[k] != 1)
                return refuse(b, "%s has a local size of several dimensions", kernel->name);
        if (op->choice->local[0] != b->params->local)
            return refuse(b, "%s has %lld invocations, not %u", kernel->name,
                          (long long)op->choice->local[0], b->params->local);
        TRY(place_op(b, i));
    }
    for (uint32_t i = out->num_parts; i-- > 0;) {
        const bool final = i + 1 == out->num_parts;
        out->parts[i].last = final ? (uint32_t)b->params->count : out->parts[i + 1].first;
        for (uint32_t v = 0; v < p->num_views && !final; v++)
            /* the view is shown later, but a declared view must be bound */
            if (out->parts[i].buffer[v] == UINT32_MAX)
                out->parts[i].buffer[v] = out->parts[i + 1].buffer[v];
        const struct kernel *first = b->params->ops[out->parts[i].first].choice->kernel;
        p->one_row |= i > 0 && first->begins && (first->uses_step || first->writes_step);
    }
    const uint32_t state = b->params->step.buffer;
    p->state_view = (uint8_t)view_of_aspect(b, find_aspect(b, state, "uint", false));
    p->float_view = (uint8_t)view_of_aspect(b, find_aspect(b, state, "float", false));
    p->vec4_view = (uint8_t)view_of_aspect(b, find_aspect(b, state, "vec4", false));
    p->views[p->num_views++] = (struct phase_view){.type = "uint", .written = true};
    p->parts = out->num_parts;
    out->wanted_views = (uint32_t)b->num_aspects + 1;
done:
    return status;
}

/* ---- uses ------------------------------------------------------------------------------------ */

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

/* ---- table ----------------------------------------------------------------------------------- */

/* Chooses the source of each value of a use: its row if rows differ, else the shared words for
 * addresses, or the text. */
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
        /* addresses are not constants of the text, so that other sequences can use it */
        else if (is_base)
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
    struct builder b = {.params = params, .out = out, .program = &out->program, .reason = reason};
    struct phase_program *p = b.program;
    enum dgl_status status = DGL_OK;
    reason[0] = '\0';
    b.use = dgl_new_array(uint32_t, count);
    p->uses = dgl_new_array(struct phase_use, count);
    p->one_row = params->one_row;
    p->columns = params->columns;
    p->local = params->local;
    p->row_words = PHASE_ROW_WORDS;
    p->barrier = params->barrier;
    if (!b.use || !p->uses)
        TRY(dgl_fail_memory(params->log, "schedule of phases", count * sizeof(*p->uses)));
    TRY(list_aspects(&b));
    TRY(place_ops(&b));
    if (phase_shared_bytes(p) > params->max_shared_bytes)
        TRY(refuse(&b, "it needs %lld bytes of shared memory, the device has %u",
                   (long long)phase_shared_bytes(p), params->max_shared_bytes));
    /* For all later rows, begin() runs after the step was loaded. */
    const struct kernel *first = params->ops[0].choice->kernel;
    if (first->begins && (first->uses_step || first->writes_step))
        TRY(refuse(&b, "%s begins the step and has both begin() and STEP", first->name));
    TRY(fill_table(&b, out));
done:
    free(b.use);
    free(b.aspects);
    if (status != DGL_OK)
        phase_schedule_finish(out);
    return status;
}

void phase_schedule_finish(struct phase_schedule *schedule)
{
    free(schedule->program.uses);
    free(schedule->table);
    free(schedule->parts);
    *schedule = (struct phase_schedule){0};
}
