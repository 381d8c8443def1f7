/* The phase executor: schedule, program, table and records of a decode recipe. */
#include "core/exec/phases.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/pool.h"
#include "kernels/phase_control.h"

#define REASON_SIZE 256

/* Arena of the sequence as uint, float and vec4; weights; KV cache; control words. */
#define LEAST_BINDINGS 6
#define SHARED_STEP    6144
#define SHARED_STEPS   7

struct phases_pending {
    struct gl_pending *program; /* program of `text`, or NULL */
    struct dgl_buf text;
};

/* Widths of programs: 1 sequence, and up to 2, 4 and 8. */
#define WIDTHS 4
_Static_assert(1 << (WIDTHS - 1) == PLAN_PHASE_ROWS, "the largest of them");

struct phases_exec {
    struct exec base;
    struct dgl_device *dev;
    struct exec_phases_params params;
    struct phases_pending pending[WIDTHS];
    struct phases_run *runs; /* all runs with a program */
};

struct phases_run {
    struct phases_run *next;        /* in the list of the executor */
    struct phase_schedule schedule; /* the kernel choices of its operations are freed */
    struct dgl_buf text;
    struct gl_program *program;
    /* the schedule's table, then one block per record with its range of rows */
    struct gl_buffer *table;
    uint32_t *words;      /* [size / 4], of the table */
    uint64_t size, first; /* bytes of the table buffer; offset of the first record block */
    uint64_t stride;      /* from one record block to the next */
    /* [columns][num_rows][2], by number of tokens: groups in x, and all groups */
    uint32_t *row_groups;
    bool stale;                /* the table buffer is out of date */
    uint32_t groups;           /* of a persistent dispatch */
    struct gl_buffer *control; /* struct dgl_phase_control */
    /* Dispatches of a token in order: one per row (one_row), else one per part. */
    struct gl_dispatch *records;
    size_t num_records;
};

static struct phases_exec *exec_of(const struct exec *exec)
{
    return (struct phases_exec *)exec;
}

static struct phases_pending *pending_of(struct phases_exec *exec, struct recipe recipe)
{
    size_t width = 0;
    while (1 << width < plan_step_rows(recipe))
        width++;
    assert(plan_step_rows(recipe) == 1 << width);
    return &exec->pending[width];
}

/* ---- schedule -------------------------------------------------------------------------------- */

/* Inputs of a schedule. */
struct collector {
    const struct phases_exec *exec;
    const struct memory *memory;
    struct phase_op *ops;
    size_t count;
    struct kernel_choice **choices; /* [table.count], by kernel_use.id; NULL if not chosen yet */
    const struct gl_buffer **buffers;
    size_t num_buffers, cap_buffers;
    /* of the device, with the shared memory of one kernel among many */
    struct kernel_var properties[KERNEL_MAX_PROPERTIES];
    uint32_t local;
    bool passes; /* over several sequences */
    bool fits;   /* every kernel can have these invocations */
    char *reason;
};

/* Resolves a reference for decode steps. Scratch comes from the step arena of the sequences if that
 * has the buffer; large buffers are only in the workspace. */
static struct gl_range resolve(const struct memory *memory, struct ref ref)
{
    const bool own = ref.kind == REF_ACT && memory->step_scratch[ref.id].buffer;
    return own ? memory->step_scratch[ref.id] : memory_resolve(memory, ref);
}

/* Sets *out to the index of the range's buffer in c->buffers, and its offset. Adds the buffer if it
 * is new. */
static enum dgl_status place_of(struct collector *c, struct gl_range range, struct phase_place *out)
{
    uint32_t i = 0;
    while (i < c->num_buffers && c->buffers[i] != range.buffer)
        i++;
    if (i == c->num_buffers) {
        if (!dgl_grow((void **)&c->buffers, &c->cap_buffers, c->num_buffers + 1,
                      sizeof(*c->buffers)))
            return dgl_fail_memory(c->exec->base.log, "buffers of phases", c->num_buffers);
        c->buffers[c->num_buffers++] = range.buffer;
    }
    *out = (struct phase_place){i, range.offset};
    return DGL_OK;
}

static bool has_word(const struct kernel_request *request, const char *key, const char *word)
{
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (strcmp(request->attrs[i].key, key) == 0)
            return strcmp(request->attrs[i].word, word) == 0;
    return false;
}

/* Chooses the kernel of a use with the program's number of invocations. Operations with the same
 * use share the choice. */
static enum dgl_status choose(struct collector *c, const struct kernel_use *use,
                              const struct kernel_choice **out)
{
    const struct plan *plan = c->exec->base.plan;
    struct kernel_choice **choice = &c->choices[use->id];
    if (!*choice) {
        *choice = dgl_new(struct kernel_choice);
        if (!*choice)
            return dgl_fail_memory(c->exec->base.log, "kernel of a phase", sizeof(**choice));
        /* If the kernel cannot use less shared memory, it gets the full limit, and other kernels
         * get less. */
        if (!kernel_choice_resize(plan->kernels.set, &use->request, c->properties,
                                  plan->device->num_properties, &use->choice, c->local, *choice) &&
            !kernel_choice_resize(plan->kernels.set, &use->request, plan->device->properties,
                                  plan->device->num_properties, &use->choice, c->local, *choice)) {
            snprintf(c->reason, REASON_SIZE, "%s cannot have %u invocations",
                     use->choice.kernel->name, c->local);
            return DGL_ERR_UNSUPPORTED;
        }
    }
    /* All invocations of a group add up the squares of a row, so their number determines the order
     * of the sum. */
    const bool norms = has_word(&use->request, "pre", "norm");
    if (c->passes && norms && use->choice.local[0] != c->local) {
        snprintf(c->reason, REASON_SIZE, "%s with %u invocations adds up a norm in another order",
                 use->choice.kernel->name, c->local);
        return DGL_ERR_UNSUPPORTED;
    }
    *out = *choice;
    return DGL_OK;
}

/* Collects the operations in order, without the early exit. The program itself checks whether the
 * sequence has stopped. */
static enum dgl_status collect(struct collector *c, const struct body *const *bodies,
                               size_t num_bodies)
{
    const struct plan *plan = c->exec->base.plan;
    enum dgl_status status = DGL_OK;
    c->count = 0;
    for (size_t b = 0; b < num_bodies && bodies[b]->shape.part < PART_EARLY_EXIT; b++)
        for (size_t i = 0; i < bodies[b]->ops.count; i++) {
            struct phase_op *op = &c->ops[c->count++];
            op->op = &bodies[b]->ops.ops[i];
            TRY(choose(c, bodies[b]->use[i], &op->choice));
            if (!kernel_groups_band(op->choice, 1, op_weight_rows(op->op),
                                    plan->device->limits.max_groups[0], op->groups)) {
                snprintf(c->reason, REASON_SIZE, "%s: GROUPS gives no usable count",
                         op->choice->kernel->name);
                TRY(DGL_ERR_UNSUPPORTED);
            }
            for (uint32_t j = 0; j < op->choice->kernel->num_binds; j++) {
                const struct op_bind *bind =
                    op_find_bind(op->op, op->choice->kernel->binds[j].name);
                TRY(place_of(c, resolve(c->memory, bind->ref), &op->place[j]));
            }
        }
done:
    return status;
}

static enum dgl_status make_schedule(const struct phases_exec *exec, struct recipe recipe,
                                     const struct memory *memory, struct collector *c,
                                     struct phase_schedule *out)
{
    const struct plan *plan = exec->base.plan;
    const struct dgl_limits *limits = &plan->device->limits;
    const struct body *bodies[SHAPES_MAX];
    const size_t num_bodies = plan_bodies(plan, &recipe.shapes, bodies);
    size_t count = 0;
    for (size_t i = 0; i < num_bodies; i++)
        count += bodies[i]->ops.count;
    c->ops = dgl_new_array(struct phase_op, count);
    c->choices = dgl_new_array(struct kernel_choice *, plan->kernels.count);
    struct phase_schedule_params params = {
        .log = exec->base.log,
        .ops = c->ops,
        .one_row = exec->params.one_row,
        .columns = (uint32_t)plan_step_rows(recipe),
        .local = c->local,
        .max_views = limits->max_ssbo_bindings,
        .max_table_bytes = limits->max_ubo_bytes,
        .max_shared_bytes = limits->max_shared_bytes,
        .barrier = kernel_set_lib(plan->kernels.set, KERNEL_BARRIER_LIB),
    };
    assert(params.barrier);
    if (!c->ops || !c->choices)
        return dgl_fail_memory(exec->base.log, "schedule of phases", count * sizeof(*c->ops));
    enum dgl_status status;
    c->fits = false;
    TRY(collect(c, bodies, num_bodies));
    params.count = c->count;
    c->fits = true;
    TRY(place_of(c, memory->state[BUF_STEP], &params.step));
    TRY(place_of(c, memory->state[BUF_IDS], &params.ids));
    /* The sampler's candidates: the buffer is large enough, and each token overwrites it. */
    TRY(place_of(c, memory->step_scratch[BUF_CAND], &params.scratch));
    status = phase_schedule_init(out, &params, c->reason);
done:
    return status;
}

static void collector_finish(struct collector *c)
{
    for (size_t i = 0; c->choices && i < c->exec->base.plan->kernels.count; i++)
        free(c->choices[i]);
    free(c->choices);
    free(c->ops);
    free(c->buffers);
    c->choices = NULL;
    c->ops = NULL;
    c->buffers = NULL;
}

/* Returns the invocations of the kernel that reads the most bytes. All other kernels use the same
 * number. */
static uint32_t main_local(const struct body *body)
{
    uint64_t most = 0;
    uint32_t local = 0;
    for (size_t i = 0; i < body->ops.count; i++)
        if (body->ops.ops[i].bytes >= most) {
            most = body->ops.ops[i].bytes;
            local = (uint32_t)body->use[i]->choice.local[0];
        }
    return local;
}

/* Makes the schedule and the source. The invocations of a work group are the requested number, or
 * the first of several numbers that all kernels support. Shared memory has one pool per type.
 * Kernels that can use less shared memory get less until all pools fit. */
static enum dgl_status generate(const struct phases_exec *exec, struct recipe recipe,
                                const struct memory *memory, struct collector *c,
                                struct phase_schedule *schedule, struct dgl_buf *text)
{
    const struct plan *plan = exec->base.plan;
    const uint32_t asked = exec->params.local, bindings = plan->device->limits.max_ssbo_bindings;
    const struct pass_shape shape = recipe.shapes.of[0];
    char *reason = c->reason, first[REASON_SIZE] = "";
    enum dgl_status status = DGL_ERR_UNSUPPORTED;
    bool told = false;
    if (plan_step_rows(recipe) == 0 || recipe.count) {
        snprintf(reason, REASON_SIZE, "it is no decode step");
        return status;
    }
    const uint32_t sizes[] = {
        asked ? asked : main_local(plan_body(plan, shape)), 512, 256, 128, 64, 32};
    const size_t num_sizes = asked ? 1 : sizeof(sizes) / sizeof(*sizes);
    if (bindings < LEAST_BINDINGS) {
        snprintf(reason, REASON_SIZE, "it needs %d storage bindings or more, the device has %u",
                 LEAST_BINDINGS, bindings);
        return status;
    }
    for (size_t i = 0; i < SHARED_STEPS * num_sizes && status == DGL_ERR_UNSUPPORTED; i++) {
        collector_finish(c);
        *c = (struct collector){.exec = exec,
                                .memory = memory,
                                .local = sizes[i / SHARED_STEPS],
                                .reason = reason,
                                .passes = shape.per_sequence};
        for (size_t k = 0; k < plan->device->num_properties; k++) {
            c->properties[k] = plan->device->properties[k];
            if (strcmp(c->properties[k].name, "SHARED_BYTES") == 0) /* spare bytes for the pools */
                c->properties[k].value -= (int64_t)(i % SHARED_STEPS) * SHARED_STEP;
        }
        status = make_schedule(exec, recipe, memory, c, schedule);
        if (i == 0 || (c->fits && !told))
            snprintf(first, sizeof(first), "%s", reason);
        told |= c->fits;
    }
    /* Report the reason of the first size that all kernels support, if there is one. */
    if (status == DGL_ERR_UNSUPPORTED)
        snprintf(reason, REASON_SIZE, "%s", first);
    return status == DGL_OK ? phase_generate(exec->base.log, &schedule->program, text, reason)
                            : status;
}

enum dgl_status exec_phases_check(struct exec *base, struct recipe recipe,
                                  const struct memory *memory, char reason[REASON_SIZE],
                                  struct dgl_buf *text)
{
    const struct phases_exec *exec = exec_of(base);
    struct collector c = {.exec = exec, .reason = reason};
    struct phase_schedule schedule = {0};
    struct dgl_buf own = {0};
    reason[0] = '\0';
    enum dgl_status status = generate(exec, recipe, memory, &c, &schedule, text ? text : &own);
    if (status == DGL_OK && schedule.num_parts > 1)
        snprintf(reason, REASON_SIZE,
                 "a token takes %u persistent dispatches, since one for all of it needs %u storage "
                 "bindings and %u can be had",
                 schedule.num_parts, schedule.wanted_views, schedule.program.num_views);
    phase_schedule_finish(&schedule);
    collector_finish(&c);
    dgl_buf_finish(&own);
    return status;
}

/* ---- program --------------------------------------------------------------------------------- */

/* The driver may refuse a program of this size. The caller reports it, so the log stays quiet. */
static struct gl_program_params program_params(const struct dgl_buf *text)
{
    return (struct gl_program_params){
        .source = text->p, .len = text->len, .label = "phases", .origin = "builtin", .quiet = true};
}

static bool same_text(const struct dgl_buf *a, const struct dgl_buf *b)
{
    return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

enum dgl_status exec_phases_begin(struct exec *base, struct recipe recipe,
                                  const struct memory *memory)
{
    struct phases_exec *exec = exec_of(base);
    struct phases_pending *pending = pending_of(exec, recipe);
    char reason[REASON_SIZE] = "";
    struct collector c = {.exec = exec, .reason = reason};
    struct phase_schedule schedule = {0};
    struct dgl_buf text = {0};
    enum dgl_status status = generate(exec, recipe, memory, &c, &schedule, &text);
    phase_schedule_finish(&schedule);
    collector_finish(&c);
    assert(status != DGL_ERR_UNSUPPORTED); /* the caller has called exec_phases_check() */
    if (status == DGL_OK && text.failed)
        status = dgl_fail_memory(base->log, "program of phases", text.len);
    if (status == DGL_OK && !(pending->program && same_text(&pending->text, &text))) {
        const struct gl_program_params params = program_params(&text);
        gl_pending_destroy(exec->dev->gl, &pending->program);
        dgl_buf_finish(&pending->text);
        status = gl_pending_create(exec->dev->gl, &params, &pending->program);
        pending->text = text;
        text = (struct dgl_buf){0};
    }
    dgl_buf_finish(&text);
    return status;
}

bool exec_phases_is_ready(struct exec *base, struct recipe recipe)
{
    struct phases_exec *exec = exec_of(base);
    const struct gl_pending *program = pending_of(exec, recipe)->program;
    return !program || gl_pending_is_ready(exec->dev->gl, program);
}

/* Gets the program of run->text: from another run, from the pending program, or newly compiled. */
static enum dgl_status make_program(struct phases_exec *exec, struct recipe recipe,
                                    struct phases_run *run)
{
    struct dgl_device *dev = exec->dev;
    struct phases_pending *pending = pending_of(exec, recipe);
    const struct gl_program_params params = program_params(&run->text);
    const struct phases_run *other = exec->runs;
    enum dgl_status status = DGL_OK;
    if (run->text.failed)
        return dgl_fail_memory(exec->base.log, "program of phases", run->text.len);
    account_push(dev, ACCOUNT_COMPILE);
    while (other && !same_text(&other->text, &run->text))
        other = other->next;
    if (other) {
        run->program = gl_program_ref(other->program);
    } else if (pending->program && same_text(&pending->text, &run->text)) {
        status = gl_pending_take(dev->gl, &pending->program, &run->program);
        dgl_buf_finish(&pending->text);
    } else {
        /* Also make machine code. Otherwise the first dispatch would compile it, without the watch
         * on slow compilations. */
        status = gl_programs_create(dev->gl, &params, 1, &(struct gl_compile){.machine_code = true},
                                    &run->program);
    }
    account_pop(dev);
    if (status == DGL_OK) {
        run->next = exec->runs;
        exec->runs = run;
    }
    return status;
}

/* ---- run ------------------------------------------------------------------------------------- */

static enum dgl_status phases_compile(struct exec_run *run)
{
    run->priv = dgl_new(struct phases_run);
    return run->priv ? DGL_OK : dgl_fail_memory(run->exec->log, "run", sizeof(struct phases_run));
}

/* Computes the groups of each row of the table for every possible number of tokens. */
static enum dgl_status list_groups(const struct phases_exec *exec, struct phases_run *d,
                                   const struct collector *c)
{
    const struct plan *plan = exec->base.plan;
    const struct phase_program *p = &d->schedule.program;
    uint32_t *out = d->row_groups = dgl_new_array(uint32_t, 2ull * p->columns * p->num_rows);
    if (!out)
        return dgl_fail_memory(exec->base.log, "groups of phases", p->num_rows);
    for (uint32_t tokens = 1; tokens <= p->columns; tokens++)
        for (uint32_t i = 0; i < p->num_rows; i++) {
            const struct phase_op *op = &c->ops[i];
            uint32_t groups[3];
            if (!kernel_groups_band(op->choice, (int32_t)tokens, op_weight_rows(op->op),
                                    plan->device->limits.max_groups[0], groups))
                return dgl_fail(exec->base.log, DGL_ERR_KERNEL,
                                "%s: GROUPS gives no usable count for %u tokens",
                                op->choice->kernel->name, tokens);
            *out++ = groups[0] * groups[2];
            *out++ = groups[0] * groups[1] * groups[2];
        }
    return DGL_OK;
}

/* Puts the groups of a pass over `tokens` tokens into the table. */
static void put_tokens(struct phases_exec *exec, struct phases_run *d, uint32_t tokens)
{
    const struct phase_program *p = &d->schedule.program;
    const uint32_t *groups = d->row_groups + 2ull * (tokens - 1) * p->num_rows;
    assert(tokens >= 1 && tokens <= p->columns);
    for (uint32_t i = 0; i < p->num_rows; i++)
        memcpy(d->words + p->shared_words + i * p->row_words + 1, groups + 2ull * i, 8);
    for (uint32_t r = 0; r < d->num_records; r++) {
        d->words[(d->first + r * d->stride) / 4 + 2] = tokens;
        if (exec->params.one_row)
            d->records[r].groups[0] = groups[2ull * r + 1];
    }
    d->stale = true;
}

static enum dgl_status write_table(struct phases_exec *exec, struct phases_run *d)
{
    d->stale = false;
    return gl_buffer_write(exec->dev->gl, d->table, 0, d->words, d->size);
}

/* Makes the table buffer: first the schedule's table, then one block per record with its range of
 * rows. Each block begins at an aligned offset. */
static enum dgl_status make_table(struct phases_exec *exec, struct phases_run *d)
{
    struct dgl_device *dev = exec->dev;
    const uint32_t rows = d->schedule.program.num_rows;
    d->stride = dev->plan.limits.ubo_align > 16 ? dev->plan.limits.ubo_align : 16;
    d->first = (d->schedule.table_bytes + d->stride - 1) / d->stride * d->stride;
    d->num_records = exec->params.one_row ? rows : d->schedule.num_parts;
    d->size = d->first + d->num_records * d->stride;
    d->words = dgl_calloc(1, d->size);
    d->records = dgl_new_array(struct gl_dispatch, d->num_records);
    if (!d->words || !d->records)
        return dgl_fail_memory(exec->base.log, "table of phases", d->size);
    memcpy(d->words, d->schedule.table, d->schedule.table_bytes);
    for (uint32_t r = 0; r < d->num_records; r++) {
        const struct phase_part *part = exec->params.one_row ? NULL : &d->schedule.parts[r];
        d->words[(d->first + r * d->stride) / 4] = part ? part->first : r;
        d->words[(d->first + r * d->stride) / 4 + 1] = part ? part->last : r + 1;
    }
    enum dgl_status status = pool_acquire(
        dev->pool, &(struct gl_buffer_params){.size = d->size, .label = "phases"}, &d->table);
    if (status == DGL_OK)
        status = pool_acquire(dev->pool,
                              &(struct gl_buffer_params){.size = sizeof(struct dgl_phase_control),
                                                         .label = "control"},
                              &d->control);
    for (uint32_t r = 0; r < d->num_records; r++) {
        d->records[r].uniform[0] = (struct gl_range){d->table, 0, d->schedule.table_bytes};
        d->records[r].uniform[1] = (struct gl_range){d->table, d->first + r * d->stride, 16};
    }
    return status;
}

/* Fills the dispatch records. Every record may read and write all buffers. */
static void fill_records(struct phases_exec *exec, struct phases_run *d, const struct collector *c,
                         struct gl_range pages)
{
    const struct phase_program *p = &d->schedule.program;
    const struct phase_part *part = d->schedule.parts;
    for (uint32_t r = 0; r < d->num_records; r++) {
        struct gl_dispatch *record = &d->records[r];
        const uint32_t first = exec->params.one_row ? r : d->schedule.parts[r].first;
        part += first >= part->last;
        record->program = d->program;
        record->num_storage = (uint8_t)p->num_views;
        for (uint32_t i = 0; i < p->num_views; i++) {
            struct gl_buffer *buffer = i + 1 == p->num_views
                                           ? d->control
                                           : (struct gl_buffer *)c->buffers[part->buffer[i]];
            record->storage[i] = (struct gl_range){buffer, 0, gl_buffer_size(buffer)};
            record->reads |= (uint16_t)(1u << i);
            record->writes |= (uint16_t)(p->views[i].written ? 1u << i : 0u);
        }
        record->uniform[2] = pages;
        record->num_uniform = 3;
        record->groups[0] = record->groups[1] = record->groups[2] = 1;
    }
    gl_hazards_derive(d->records, d->num_records, true);
}

static enum dgl_status phases_bind(struct exec_run *run, const struct memory *memory)
{
    struct phases_exec *exec = exec_of(run->exec);
    struct phases_run *d = run->priv;
    struct dgl_device *dev = exec->dev;
    char reason[REASON_SIZE] = "";
    struct collector c = {.exec = exec, .reason = reason};
    const struct dgl_phase_control control = {.steps = 1, .max_spins = exec->params.max_spins};
    enum dgl_status status = generate(exec, run->recipe, memory, &c, &d->schedule, &d->text);
    if (status == DGL_ERR_UNSUPPORTED)
        dgl_fail(run->exec->log, status, "no program of phases: %s", reason);
    TRY(status);
    TRY(make_program(exec, run->recipe, d));
    TRY(make_table(exec, d));
    TRY(list_groups(exec, d, &c));
    TRY(gl_buffer_write(dev->gl, d->control, 0, &control, sizeof(control)));
    d->groups = exec->params.groups;
    fill_records(exec, d, &c, memory->state[BUF_PAGES]);
    put_tokens(exec, d, (uint32_t)run->tokens);
    TRY(write_table(exec, d));
done:
    collector_finish(&c);
    return status;
}

/* Whole buffers are bound. The offsets are in the table and are equal for both sequences. */
static void phases_move(struct exec_run *run, const struct memory *to)
{
    struct phases_run *d = run->priv;
    for (size_t r = 0; r < d->num_records; r++) {
        struct gl_dispatch *record = &d->records[r];
        memory_move(run->memory, to, record->storage, record->num_storage);
        memory_move(run->memory, to, record->uniform, GL_MAX_UNIFORM);
        for (uint32_t i = 0; i < record->num_storage; i++)
            record->storage[i].size = gl_buffer_size(record->storage[i].buffer);
    }
}

/* The next submit writes the table. */
static void phases_regroup(struct exec_run *run)
{
    struct phases_run *d = run->priv;
    if (d->row_groups)
        put_tokens(exec_of(run->exec), d, (uint32_t)run->tokens);
}

/* Submits one dispatch for all tokens, or several dispatches per token. */
static enum dgl_status phases_submit(struct exec_run *run, uint32_t steps, uint64_t *gpu_ns)
{
    struct phases_exec *exec = exec_of(run->exec);
    struct phases_run *d = run->priv;
    struct gl_device *gl = exec->dev->gl;
    const uint32_t rounds = d->num_records > 1 ? steps : 1;
    const uint32_t words[] = {0, steps / rounds, DGL_PHASE_RUN, exec->params.max_spins};
    enum dgl_status status = gl_buffer_write(gl, d->control, 0, words, sizeof(words));
    if (status == DGL_OK && d->stale)
        status = write_table(exec, d);
    for (uint32_t r = 0; r < d->num_records && !exec->params.one_row; r++)
        d->records[r].groups[0] = d->groups;
    for (uint32_t i = 0; i < rounds && status == DGL_OK; i++)
        status = gl_submit(gl, d->records, d->num_records, gpu_ns);
    return status;
}

static void phases_destroy(struct exec_run *run)
{
    struct phases_exec *exec = exec_of(run->exec);
    struct phases_run *d = run->priv;
    if (!d)
        return;
    struct phases_run **at = &exec->runs;
    while (*at && *at != d)
        at = &(*at)->next;
    if (*at)
        *at = d->next;
    gl_program_destroy(exec->dev->gl, &d->program);
    pool_release(exec->dev->pool, &d->table);
    pool_release(exec->dev->pool, &d->control);
    phase_schedule_finish(&d->schedule);
    dgl_buf_finish(&d->text);
    free(d->words);
    free(d->row_groups);
    free(d->records);
    free(d);
    run->priv = NULL;
}

/* Stores a pending program in the cache folder, for the next process. */
static void phases_finish(struct exec *base)
{
    struct phases_exec *exec = exec_of(base);
    struct gl_device *gl = exec->dev->gl;
    for (size_t i = 0; i < WIDTHS; i++) {
        struct phases_pending *pending = &exec->pending[i];
        struct gl_program *program = NULL;
        const bool wanted = pending->program && !gl_pending_is_stale(gl, pending->program);
        const bool ready = wanted && gl_pending_is_ready(gl, pending->program);
        if (wanted && !ready)
            dgl_info(base->log, "the compiler is still at the program of persistent dispatches");
        if (wanted && gl_program_is_kept(gl) && gl_program_cache_dir(gl) &&
            (ready || exec->params.finishes) &&
            gl_pending_take(gl, &pending->program, &program) == DGL_OK)
            gl_program_destroy(gl, &program);
        gl_pending_destroy(gl, &pending->program);
        dgl_buf_finish(&pending->text);
    }
}

static const struct exec_ops phases_ops = {.name = "phases",
                                           .compile = phases_compile,
                                           .bind = phases_bind,
                                           .move = phases_move,
                                           .regroup = phases_regroup,
                                           .submit = phases_submit,
                                           .destroy = phases_destroy,
                                           .finish = phases_finish};

enum dgl_status exec_phases_create(struct dgl_device *dev, const struct plan *plan,
                                   const struct exec_phases_params *params, struct exec **out)
{
    struct phases_exec *exec = dgl_new(struct phases_exec);
    *out = NULL;
    if (!exec)
        return dgl_fail_memory(dev->log, "executor", sizeof(*exec));
    exec->base = (struct exec){.ops = &phases_ops, .plan = plan, .log = dev->log, .refs = 1};
    exec->dev = dev;
    exec->params = *params;
    *out = &exec->base;
    return DGL_OK;
}

void exec_phases_set_groups(struct exec_run *run, uint32_t groups)
{
    ((struct phases_run *)run->priv)->groups = groups;
}

struct dgl_device *exec_phases_device(const struct exec *exec)
{
    return ((const struct phases_exec *)exec)->dev;
}

uint32_t exec_phases_parts(const struct exec_run *run)
{
    return ((const struct phases_run *)run->priv)->schedule.num_parts;
}

struct gl_dispatch *exec_phases_record(struct exec_run *run)
{
    return ((struct phases_run *)run->priv)->records;
}

struct gl_range exec_phases_control(const struct exec_run *run)
{
    const struct phases_run *d = run->priv;
    return (struct gl_range){d->control, 0, sizeof(struct dgl_phase_control)};
}
