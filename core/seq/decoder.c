/* Batched decoding of several sequences. */
#include "core/seq/decoder.h"

#include <assert.h>
#include <stddef.h>

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/seq/decode_queue.h"
#include "core/exec/executor.h"

/* The device should not be busy with what is queued for longer than this: a new prompt waits. */
#define FLIGHT_NS 10000000ull

_Static_assert(DECODER_MAX_STEPS < OPLIST_REPORT_WORDS, "a report has the ids of all steps");

/* ---- life ------------------------------------------------------------------------------------ */

enum dgl_status decoder_create(struct dgl_model *m, const struct decoder_params *p,
                               struct decoder **out)
{
    const struct dgl_log *log = m->dev->log;
    struct plan *plan = &m->engine->plan;
    struct decoder *d = NULL;
    *out = NULL;
    enum dgl_status status = plan_add_batch(plan);
    const int32_t slots = plan_batch_slots(plan, p->context, p->sequences);
    if (status != DGL_OK || slots < 2)
        return status;
    if (plan->one_row) {
        dgl_notice(log,
                   "%s (%s) serves one row of a pass alone: each sequence decodes by passes of its "
                   "own",
                   plan->one_row->name, plan->one_row->origin);
        return DGL_OK;
    }
    d = dgl_new(struct decoder);
    if (d)
        d->state = dgl_new(struct dgl_session);
    if (!d || !d->state) {
        free(d);
        return dgl_fail_memory(log, "sequences", sizeof(*d));
    }
    d->slots = slots;
    d->least = 2;
    d->prepared = m->engine_serial - 1;
    d->state->model = m;
    const struct dgl_session_params params = {
        .context = p->context, .progress_cb = p->progress_cb, .progress_priv = p->progress_priv};
    status = session_init_batch(d->state, &params, slots);
    if (status == DGL_OK)
        *out = d;
    else
        decoder_destroy(&d);
    return status;
}

void decoder_clear(struct decoder *d)
{
    for (int32_t i = 0; i < d->slots; i++)
        if (d->slot[i].g)
            decoder_leave(d, i);
    d->count = d->steps = d->rows = 0;
}

void decoder_destroy(struct decoder **d)
{
    struct decoder *old = *d;
    *d = NULL;
    if (!old)
        return;
    for (int32_t i = 0; i < old->count; i++)
        gl_readback_drop(old->state->model->dev->gl, old->burst[i].report);
    session_destroy(old->state);
    free(old);
}

/* ---- members --------------------------------------------------------------------------------- */

/* Entries of the page table for so many tokens of a sequence: even, two are a word. */
static uint32_t entries_of(const struct generation *g, int32_t tokens)
{
    return (plan_kv_pages(tokens < g->s->context ? tokens : g->s->context) + 1u) & ~1u;
}

/* Entries that all members need for their next steps. */
static uint32_t entries_wanted(const struct decoder *d)
{
    uint32_t entries = 0;
    for (int32_t i = 0; i < d->slots; i++)
        if (d->slot[i].g)
            entries +=
                entries_of(d->slot[i].g, d->slot[i].g->s->len + DECODER_BURSTS * DECODER_MAX_STEPS);
    return entries;
}

static bool rope_is_common(const struct decoder *d, const struct dgl_session *s)
{
    return session_rope_holds(d->state, s->rope_tokens) &&
           session_rope_holds(s, s->len + DECODER_BURSTS * DECODER_MAX_STEPS + 1);
}

bool decoder_admits(const struct decoder *d, const struct generation *g)
{
    /* Room to grow for those that are here. */
    const uint32_t most = DGL_KV_TABLE_PAGES - DGL_KV_TABLE_PAGES / 16;
    return !g->logits && !g->s->runner.profile && d->members < d->slots &&
           rope_is_common(d, g->s) &&
           entries_wanted(d) + entries_of(g, g->s->len + DECODER_BURSTS * DECODER_MAX_STEPS) <=
               most;
}

int32_t decoder_misfit(const struct decoder *d)
{
    const bool crowded = entries_wanted(d) > DGL_KV_TABLE_PAGES;
    int32_t found = -1;
    for (int32_t i = 0; i < d->slots; i++)
        if (d->slot[i].g && (crowded || !rope_is_common(d, d->slot[i].g->s)))
            found = i;
    return found;
}

static struct gl_range part_of(const struct decoder *d, enum plan_buffer buffer, int32_t slot)
{
    const struct gl_range all = d->state->memory.state[buffer];
    const uint64_t size = all.size / (uint64_t)d->slots;
    return (struct gl_range){all.buffer, all.offset + (uint64_t)slot * size, size};
}

/* All that the device knows of a member, as the host has it. `trial`: no stop id ends it. */
static enum dgl_status write_slot(struct decoder *d, int32_t i, bool trial)
{
    static const uint32_t nothing[ADJUST_BIASES];
    struct gl_device *gl = d->state->model->dev->gl;
    const struct generation *g = d->slot[i].g;
    const struct gl_range ids = part_of(d, BUF_IDS, i), adjust = part_of(d, BUF_ADJUST, i);
    const struct gl_range table = d->state->memory.state[BUF_STEP];
    const bool adjusts = sampling_adjusts(&g->p->sampling);
    struct dgl_step step = generation_step(g, g->s->len);
    step.context = (uint32_t)d->slot[i].limit;
    step.kv_first = d->slot[i].kv_first;
    step.flags |= trial ? DGL_STEP_IGNORE_EOS : 0;
    enum dgl_status status =
        gl_buffer_write(gl, ids.buffer, ids.offset, g->s->ids, (g->s->len + 1ull) * 4);
    if (status == DGL_OK)
        status = gl_buffer_write(gl, adjust.buffer, adjust.offset,
                                 adjusts ? g->s->adjust.words : nothing,
                                 adjusts ? adjust.size : sizeof(nothing));
    if (status == DGL_OK)
        status = gl_buffer_write(gl, table.buffer,
                                 table.offset + offsetof(struct dgl_step_table, seq) +
                                     (uint64_t)i * sizeof(step),
                                 &step, sizeof(step));
    return status;
}

enum dgl_status decoder_join(struct decoder *d, struct generation *g, int32_t *slot)
{
    const int32_t prompt = (int32_t)g->r->num_prompt_ids, context = g->s->context;
    int32_t i = 0;
    assert(d->members < d->slots && g->queue.steps == 0 && g->r->num_tokens > 0);
    while (d->slot[i].g)
        i++;
    d->slot[i] = (struct decoder_slot){.g = g, .serial = d->slot[i].serial};
    d->slot[i].limit = g->max_tokens >= 0 && g->max_tokens < context - prompt
                           ? prompt + g->max_tokens - 1
                           : context;
    d->members++;
    *slot = i;
    return write_slot(d, i, false);
}

void decoder_leave(struct decoder *d, int32_t slot)
{
    assert(d->slot[slot].g);
    d->slot[slot].g = NULL;
    d->slot[slot].serial++;
    d->members--;
}

/* ---- the page table -------------------------------------------------------------------------- */

/* Entries [first, end) to the device. */
static enum dgl_status write_pages(struct decoder *d, uint32_t first, uint32_t end)
{
    const struct gl_range table = d->state->memory.state[BUF_PAGES];
    first &= ~1u;
    end = (end + 1) & ~1u;
    return first == end ? DGL_OK
                        : gl_buffer_write(d->state->model->dev->gl, table.buffer,
                                          table.offset + first * 2ull, d->pages.page + first,
                                          (end - first) * 2ull);
}

/* Gives each member entries for the pages that it has and some more. */
static enum dgl_status lay_out_pages(struct decoder *d)
{
    const struct gl_range table = d->state->memory.state[BUF_STEP];
    uint32_t wanted = 0, next = 0;
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < d->slots; i++)
        if (d->slot[i].g)
            wanted += (d->slot[i].g->s->pages.count + 1) & ~1u;
    assert(wanted <= DGL_KV_TABLE_PAGES);
    const uint32_t more = (DGL_KV_TABLE_PAGES - wanted) / (uint32_t)d->members & ~1u;
    for (int32_t i = 0; i < d->slots && status == DGL_OK; i++) {
        struct decoder_slot *slot = &d->slot[i];
        if (!slot->g)
            continue;
        const struct kv_pages *pages = &slot->g->s->pages;
        slot->kv_first = next;
        slot->kv_room = ((pages->count + 1) & ~1u) + (more < 16 ? more : 16);
        slot->kv_known = pages->count;
        memcpy(d->pages.page + next, pages->page, pages->count * sizeof(*pages->page));
        next += slot->kv_room;
        status = gl_buffer_write(d->state->model->dev->gl, table.buffer,
                                 table.offset + offsetof(struct dgl_step_table, seq) +
                                     (uint64_t)i * sizeof(struct dgl_step) +
                                     offsetof(struct dgl_step, kv_first),
                                 &slot->kv_first, 4);
    }
    return status == DGL_OK ? write_pages(d, 0, next) : status;
}

/* Pages for the next steps of all members, and where they are to the device. */
static enum dgl_status reserve(struct decoder *d, int32_t steps)
{
    enum dgl_status status = DGL_OK;
    bool fits = true;
    for (int32_t i = 0; i < d->slots && status == DGL_OK; i++) {
        struct decoder_slot *slot = &d->slot[i];
        if (!slot->g)
            continue;
        const int32_t end = slot->g->s->len + d->steps + steps;
        status = session_reserve(slot->g->s, end < slot->limit ? end : slot->limit);
        fits = fits && slot->g->s->pages.count <= slot->kv_room;
    }
    if (status == DGL_OK && !fits)
        return lay_out_pages(d);
    for (int32_t i = 0; i < d->slots && status == DGL_OK; i++) {
        struct decoder_slot *slot = &d->slot[i];
        if (!slot->g || slot->kv_known == slot->g->s->pages.count)
            continue;
        const uint32_t first = slot->kv_known, count = slot->g->s->pages.count;
        memcpy(d->pages.page + slot->kv_first + first, slot->g->s->pages.page + first,
               (count - first) * sizeof(uint16_t));
        slot->kv_known = count;
        status = write_pages(d, slot->kv_first + first, slot->kv_first + count);
    }
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Steps that a member has before it, after those that are queued. */
static int32_t steps_left(const struct decoder *d, const struct decoder_slot *slot)
{
    const int32_t left = slot->g ? slot->limit - slot->g->s->len - d->steps : 0;
    return left > 0 ? left : 0;
}

static int32_t steps_wanted(const struct decoder *d)
{
    const bool single = d->state->model->dev->info.software || d->state->runner.profile;
    int32_t steps = single ? 1 : DECODER_MAX_STEPS, most = 0;
    if (d->step_ns > 0 && (uint64_t)steps > FLIGHT_NS / d->step_ns)
        steps = (int32_t)(FLIGHT_NS / d->step_ns);
    for (int32_t i = 0; i < d->slots; i++) {
        const int32_t left = steps_left(d, &d->slot[i]);
        most = left > most ? left : most;
    }
    steps = steps > 0 ? steps : 1;
    return steps < most ? steps : most;
}

/* ---- the executor ---------------------------------------------------------------------------- */

static bool has_room(void *priv, int32_t steps)
{
    const struct decoder *d = priv;
    bool has = true;
    for (int32_t i = 0; i < d->slots && has; i++) {
        const struct decoder_slot *slot = &d->slot[i];
        const struct dgl_session *s = slot->g ? slot->g->s : NULL;
        has = !s || (s->len + steps <= slot->limit && !session_moves(s, s->len + steps) &&
                     session_may_reserve(s, s->len + steps));
    }
    return has;
}

static enum dgl_status reserve_steps(void *priv, int32_t steps)
{
    return reserve(priv, steps);
}

static enum dgl_status write_members(void *priv, bool trial)
{
    struct decoder *d = priv;
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < d->slots && status == DGL_OK; i++)
        if (d->slot[i].g)
            status = write_slot(d, i, trial);
    return status;
}

static enum dgl_status read_rows(void *priv, int32_t steps, int32_t *ids)
{
    struct decoder *d = priv;
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < d->rows && status == DGL_OK; i++) {
        const struct gl_range at = part_of(d, BUF_IDS, d->row[i]);
        const struct dgl_session *s = d->slot[d->row[i]].g->s;
        status =
            gl_buffer_read(d->state->model->dev->gl, at.buffer, at.offset + (s->len + 1ull) * 4,
                           ids + (size_t)i * (size_t)steps, (uint64_t)steps * 4);
    }
    return status;
}

/* The body of a pass over so many members. */
static struct recipe body_of(const struct decoder *d, int32_t rows)
{
    struct recipe body = recipe_of(SEG_DECODE);
    if (rows > 1)
        return recipe_of(plan_batch_body(&d->state->model->engine->plan, rows));
    body.segments |= recipe_of(SEG_HEAD).segments;
    return body;
}

/* The next steps of all that have some before them: *body evaluates, *draws draws. Returns how many
 * rows that are. */
static int32_t next_steps(const struct decoder *d, struct recipe *body, struct recipe *draws)
{
    int32_t rows = 0;
    *draws = (struct recipe){0};
    for (int32_t i = 0; i < d->slots; i++)
        if (steps_left(d, &d->slot[i]) > 0) {
            const struct dgl_sampling *how = &d->slot[i].g->p->sampling;
            draws->segments |= recipe_sampling(sampling_kind(how), sampling_adjusts(how)).segments;
            rows++;
        }
    *body = body_of(d, rows);
    return rows;
}

/* Steps of `rows` members by these recipes. Returns false if only dispatches can run them. */
static bool steps_of(struct decoder *d, struct recipe body, struct recipe draws, int32_t rows,
                     struct steps *out)
{
    struct engine *engine = d->state->model->engine;
    *out = (struct steps){
        .runner = &d->state->runner,
        .recipe = {.segments = body.segments | draws.segments, .repeats = true},
        .rows = rows,
        .priv = d,
        .has_room = has_room,
        .reserve = reserve_steps,
        .write = write_members,
        .read = read_rows,
    };
    return rows > 1 && rows <= PLAN_PHASE_ROWS && engine->persistent.exec &&
           engine_choice(engine, out->recipe);
}

/* Returns true if the executor would now decide something that it left open before. */
static bool is_due(const struct decoder *d)
{
    struct steps steps;
    struct recipe body, draws;
    struct decoder *all = (struct decoder *)(uintptr_t)d; /* which has_room() only reads */
    const int32_t rows = next_steps(d, &body, &draws);
    return steps_of(all, body, draws, rows, &steps) && executor_is_due(&steps);
}

void decoder_executor(const struct decoder *d, struct dgl_executor_info *out)
{
    const struct engine *engine = d->state->model->engine;
    *out = (struct dgl_executor_info){
        .executor = DGL_EXECUTOR_DISPATCH, .name = "dispatch", .reason = engine->no_persistent};
    if (d->choice && d->prepared == d->state->model->engine_serial)
        engine_choice_info(engine, d->choice, out);
    else if (engine->persistent.exec)
        out->reason = "passes over more than 8 sequences, or that draw in several ways, are single "
                      "dispatches";
}

bool decoder_can_push(const struct decoder *d)
{
    const struct dgl_session *s = d->state;
    const int32_t steps = steps_wanted(d);
    bool moves = !session_is_current(s);
    if (steps > 0 && !moves && d->count > 0 && is_due(d))
        return false;
    for (int32_t i = 0; i < d->slots && !moves; i++) {
        const struct generation *g = d->slot[i].g;
        moves = g && session_moves(g->s, g->s->len + d->steps + steps);
    }
    if (steps == 0 || (d->count > 0 && (moves || decoder_misfit(d) >= 0)))
        return false;
    return d->count < (s->model->dev->info.software || s->runner.profile ? 1 : DECODER_BURSTS);
}

/* Rows of the pass: members with steps before them. */
static enum dgl_status write_rows(struct decoder *d)
{
    struct dgl_session *s = d->state;
    const struct gl_range table = s->memory.state[BUF_STEP];
    const int32_t known = d->rows;
    uint32_t words[DGL_STEP_SEQS];
    uint8_t row[DGL_STEP_SEQS];
    int32_t rows = 0;
    for (int32_t i = 0; i < d->slots; i++)
        if (steps_left(d, &d->slot[i]) > 0) {
            words[rows] = DGL_STEP_ROW(i, 0);
            row[rows++] = (uint8_t)i;
        }
    assert(rows > 0);
    if (rows == known && memcmp(row, d->row, (size_t)rows) == 0)
        return DGL_OK;
    const uint32_t head[4] = {(uint32_t)rows, (uint32_t)d->slots,
                              (uint32_t)(part_of(d, BUF_IDS, 0).size / 4),
                              (uint32_t)(part_of(d, BUF_ADJUST, 0).size / 4)};
    memcpy(d->row, row, (size_t)rows);
    d->rows = rows;
    enum dgl_status status =
        gl_buffer_write(s->model->dev->gl, table.buffer, table.offset, head, sizeof(head));
    if (status == DGL_OK)
        status = gl_buffer_write(s->model->dev->gl, table.buffer,
                                 table.offset + offsetof(struct dgl_step_table, row), words,
                                 (uint64_t)rows * 4);
    return status;
}

/* Everything that passes over any number of members from `least` on run, so that none waits for a
 * compiler later, but for what draws. */
static uint32_t all_segments(const struct decoder *d)
{
    const struct plan *plan = &d->state->model->engine->plan;
    uint32_t segments = recipe_of(SEG_REPORT).segments | recipe_of(SEG_DECODE).segments |
                        recipe_of(SEG_HEAD).segments;
    for (int32_t n = d->least; n <= d->slots; n++)
        segments |= recipe_of(plan_batch_body(plan, n)).segments;
    return segments;
}

enum dgl_status decoder_begin(struct decoder *d)
{
    const struct dgl_session *s = d->state;
    if (d->begun || !session_is_current(s))
        return DGL_OK;
    d->begun = true;
    return exec_begin(&s->model->engine->programs, &s->model->engine->plan, all_segments(d));
}

/* The runs of all of these, so that passes make none. */
static enum dgl_status make_runs(struct decoder *d)
{
    struct dgl_session *s = d->state;
    struct exec_run *run;
    enum dgl_status status = runner_run(&s->runner, recipe_of(SEG_REPORT), &run);
    if (status == DGL_OK)
        status = runner_run(&s->runner, body_of(d, 1), &run);
    for (int32_t n = d->least; n <= d->slots && status == DGL_OK; n++)
        status = runner_run(&s->runner, body_of(d, n), &run);
    for (int draw = SEG_ADJUST; draw <= SEG_SAMPLE_FULL && status == DGL_OK; draw++)
        if (d->draws >> draw & 1u)
            status = runner_run(&s->runner, recipe_of((enum segment)draw), &run);
    return status;
}

enum dgl_status decoder_prepare(struct decoder *d, uint32_t draws)
{
    struct dgl_session *s = d->state;
    struct dgl_model *m = s->model;
    enum dgl_status status = session_follow(s);
    if (status == DGL_OK)
        status = plan_add_batch(&m->engine->plan);
    const bool more = (draws & ~d->draws) != 0 || s->runner.runs->dispatch.count == 0;
    if (status != DGL_OK || (d->prepared == m->engine_serial && !more))
        return status;
    atomic_store(&s->cancel, false);
    d->draws |= draws;
    status = session_compile(s, all_segments(d) | d->draws);
    if (status == DGL_OK) /* which may replan */
        status = plan_add_batch(&m->engine->plan);
    if (status == DGL_OK)
        status = make_runs(d);
    d->prepared = m->engine_serial;
    return status;
}

/* The run of a recipe, for the rows of this pass. */
static enum dgl_status get_run(struct decoder *d, struct recipe recipe, struct exec_run **out)
{
    enum dgl_status status = runner_run(&d->state->runner, recipe, out);
    return status == DGL_OK ? exec_run_set_tokens(*out, d->rows) : status;
}

/* Sets *run to the persistent run of such steps, or to NULL if dispatches serve. */
static enum dgl_status choose(struct decoder *d, struct recipe body, struct recipe draws,
                              struct exec_run **run, struct recipe *recipe)
{
    struct steps steps;
    int32_t max_steps;
    *run = NULL;
    d->choice = NULL;
    if (!steps_of(d, body, draws, d->rows, &steps))
        return DGL_OK;
    enum dgl_status status = d->count == 0 ? executor_choose(&steps, run, &max_steps)
                                           : executor_use(&steps, run, &max_steps);
    d->choice = engine_choice(d->state->model->engine, steps.recipe);
    *recipe = steps.recipe;
    return status;
}

/* Runs of a step and, as the last one, of what reports. */
#define DECODER_MAX_RUNS (1 + SEG_SAMPLE_FULL - SEG_ADJUST + 1 + 1)

/* The runs of a step by dispatches. What draws is a run for each of its segments, of which there
 * are many mixtures. */
static enum dgl_status get_runs(struct decoder *d, struct recipe evaluates, struct recipe draws,
                                struct exec_run **run, int32_t *count)
{
    enum dgl_status status = get_run(d, evaluates, &run[0]);
    *count = 1;
    for (int draw = SEG_ADJUST; draw <= SEG_SAMPLE_FULL && status == DGL_OK; draw++)
        if (RECIPE_HAS(draws, draw))
            status = get_run(d, recipe_of((enum segment)draw), &run[(*count)++]);
    return status;
}

/* One step of these runs and what reports, for the profile of the session. */
static enum dgl_status push_profiled(struct decoder *d, struct exec_run **run, int32_t count)
{
    int64_t held = 0;
    for (int32_t i = 0; i < d->rows; i++)
        held += d->slot[d->row[i]].g->s->len + 1;
    const struct profile_pass pass = {
        .phase = DGL_PHASE_DECODE, .sequences = d->rows, .held = (int32_t)(held / d->rows)};
    return runner_profile_step(&d->state->runner, run, count, &pass, &d->step, &d->done_ns);
}

/* So many steps, by one persistent dispatch or one after the other, and what reports. */
static enum dgl_status queue_runs(struct dgl_session *s, struct exec_run **run, int32_t count,
                                  int32_t steps, bool persistent)
{
    enum dgl_status status =
        persistent ? runner_queue(&s->runner, run[0], (uint32_t)steps, DGL_PHASE_DECODE) : DGL_OK;
    for (int32_t i = 0; i < steps && !persistent && status == DGL_OK; i++)
        for (int32_t k = 0; k < count && status == DGL_OK; k++)
            status = runner_queue(&s->runner, run[k], 1, DGL_PHASE_DECODE);
    return status == DGL_OK ? runner_queue(&s->runner, run[count], 1, DGL_PHASE_DECODE) : status;
}

enum dgl_status decoder_push(struct decoder *d)
{
    struct dgl_session *s = d->state;
    struct burst *burst = &d->burst[d->count];
    const int32_t steps = steps_wanted(d);
    struct exec_run *persistent = NULL, *run[DECODER_MAX_RUNS];
    struct recipe evaluates, draws;
    int32_t count = 1;
    assert(decoder_can_push(d));
    burst->persistent = (struct recipe){0};
    enum dgl_status status = reserve(d, steps);
    if (status == DGL_OK)
        status = decoder_prepare(d, d->draws);
    if (status == DGL_OK)
        status = write_rows(d);
    if (status != DGL_OK)
        return status;
    next_steps(d, &evaluates, &draws);
    status = choose(d, evaluates, draws, &persistent, &burst->persistent);
    if (persistent)
        run[0] = persistent;
    else if (status == DGL_OK)
        status = get_runs(d, evaluates, draws, run, &count);
    if (!persistent)
        burst->persistent = (struct recipe){0};
    if (status == DGL_OK)
        status = get_run(d, recipe_of(SEG_REPORT), &run[count]);
    if (status == DGL_OK && s->runner.profile)
        status = push_profiled(d, run, count + 1);
    else if (status == DGL_OK)
        status = queue_runs(s, run, count, steps, persistent != NULL);
    const struct gl_range at = s->memory.state[BUF_REPORT];
    if (status == DGL_OK)
        status = gl_readback_begin(s->model->dev->gl, at.buffer, at.offset,
                                   (uint32_t)d->rows * OPLIST_REPORT_WORDS * 4, &burst->report);
    if (status != DGL_OK)
        return status;
    burst->steps = steps;
    burst->rows = d->rows;
    burst->profiled = s->runner.profile != NULL;
    burst->queued_ns = dgl_now_ns();
    for (int32_t i = 0; i < d->rows; i++) {
        burst->row[i].slot = d->row[i];
        burst->row[i].serial = d->slot[d->row[i]].serial;
    }
    d->count++;
    d->steps += steps;
    return DGL_OK;
}

/* What is queued counts for nothing: the device gets what the host knows of the members.
 * `given_up`: so was the dispatch, else nobody can say. */
static enum dgl_status start_again(struct decoder *d, struct recipe recipe, bool given_up)
{
    struct dgl_session *s = d->state;
    const struct recipe none = {0};
    struct steps steps;
    steps_of(d, recipe, none, d->rows, &steps);
    for (int32_t i = 0; i < d->count; i++)
        gl_readback_drop(s->model->dev->gl, d->burst[i].report);
    d->count = d->steps = 0;
    return given_up ? executor_recover(&steps) : executor_reset(&steps);
}

/* Whether the report of a persistent dispatch tells that it was given up; *known: of how many rows
 * that could be seen. One that was not has brought each row a token at least. */
static bool is_given_up(const struct decoder *d, const struct burst *burst,
                        uint32_t report[][OPLIST_REPORT_WORDS], int32_t *known)
{
    bool given_up = false;
    *known = 0;
    for (int32_t r = 0; r < burst->rows; r++) {
        const struct decoder_slot *slot = &d->slot[burst->row[r].slot];
        given_up |= executor_is_aborted((const int32_t *)report[r] + 1, burst->steps);
        if (!slot->g || slot->serial != burst->row[r].serial)
            continue;
        given_up |= report[r][0] == (uint32_t)slot->g->s->len;
        ++*known;
    }
    return given_up;
}

enum dgl_status decoder_take(struct decoder *d, struct decoder_news *news, int32_t *count)
{
    const struct burst burst = d->burst[0];
    struct dgl_device *dev = d->state->model->dev;
    uint32_t report[DGL_STEP_SEQS][OPLIST_REPORT_WORDS];
    assert(d->count > 0);
    *count = 0;
    d->count--;
    d->steps -= burst.steps;
    memmove(d->burst, d->burst + 1, (size_t)d->count * sizeof(burst));
    enum dgl_status status = gl_readback_end(dev->gl, burst.report, report);
    const uint64_t now = dgl_now_ns();
    const uint64_t begun = burst.queued_ns > d->read_ns ? burst.queued_ns : d->read_ns;
    d->step_ns = (now - begun) / (uint64_t)burst.steps;
    d->read_ns = now;
    if (status == DGL_OK && burst.persistent.segments) {
        int32_t known;
        const bool given_up = is_given_up(d, &burst, report, &known);
        if (given_up || known == 0)
            return start_again(d, burst.persistent, given_up);
    }
    for (int32_t r = 0; r < burst.rows && status == DGL_OK; r++) {
        const struct decoder_slot *slot = &d->slot[burst.row[r].slot];
        struct decoder_news *n = &news[*count];
        if (!slot->g || slot->serial != burst.row[r].serial)
            continue;
        const int32_t from = slot->g->s->len, came = (int32_t)(report[r][0] - (uint32_t)from);
        if (came < 1 || came > burst.steps)
            return dgl_fail(dev->log, DGL_ERR_GPU,
                            "%s took a sequence from position %d to %u in %d steps",
                            dev->info.renderer, from, report[r][0], burst.steps);
        *n = (struct decoder_news){.g = slot->g, .slot = burst.row[r].slot, .count = came};
        for (int32_t i = 0; i < came; i++)
            n->ids[i] = (int32_t)report[r][came - i];
        ++*count;
    }
    struct profile *profile = d->state->runner.profile;
    if (status != DGL_OK || !profile)
        return status;
    if (!burst.profiled) { /* queued before there was one, which begins behind it */
        profile->step_end_ns = now;
        return DGL_OK;
    }
    d->step.readback_ns = now - d->done_ns;
    return profile_step(profile, d->step);
}
