/* Slots of sequences, and steps over all of them. */
#include "core/seq/group.h"

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

_Static_assert(GROUP_MAX_STEPS < OPLIST_REPORT_WORDS, "a report has the ids of all steps");

/* ---- life ------------------------------------------------------------------------------------ */

enum dgl_status group_create(struct dgl_model *m, const struct group_params *p,
                             struct seq_group **out)
{
    const struct dgl_log *log = m->dev->log;
    struct plan *plan = &m->engine->plan;
    struct seq_group *group = NULL;
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
    group = dgl_new(struct seq_group);
    if (group)
        group->session = dgl_new(struct dgl_session);
    if (!group || !group->session) {
        free(group);
        return dgl_fail_memory(log, "sequences", sizeof(*group));
    }
    group->slots = slots;
    group->least = 2;
    group->prepared = m->engine_serial - 1;
    group->session->model = m;
    const struct dgl_session_params params = {
        .context = p->context, .progress_cb = p->progress_cb, .progress_priv = p->progress_priv};
    status = session_init_batch(group->session, &params, slots);
    if (status == DGL_OK)
        *out = group;
    else
        group_destroy(&group);
    return status;
}

void group_clear(struct seq_group *group)
{
    for (int32_t i = 0; i < group->slots; i++)
        if (group->slot[i].g)
            group_leave(group, i);
    group->flights = group->steps = group->rows = 0;
}

void group_destroy(struct seq_group **group)
{
    struct seq_group *old = *group;
    *group = NULL;
    if (!old)
        return;
    for (int32_t i = 0; i < old->flights; i++)
        gl_readback_drop(old->session->model->dev->gl, old->flight[i].report);
    session_destroy(old->session);
    free(old);
}

/* ---- members --------------------------------------------------------------------------------- */

/* Entries of the page table for so many tokens of a sequence: even, two are a word. */
static uint32_t entries_of(const struct generation *g, int32_t tokens)
{
    return (plan_kv_pages(tokens < g->s->context ? tokens : g->s->context) + 1u) & ~1u;
}

/* Entries that all members need for their next steps. */
static uint32_t entries_wanted(const struct seq_group *group)
{
    uint32_t entries = 0;
    for (int32_t i = 0; i < group->slots; i++)
        if (group->slot[i].g)
            entries += entries_of(group->slot[i].g,
                                  group->slot[i].g->s->len + GROUP_MAX_FLIGHTS * GROUP_MAX_STEPS);
    return entries;
}

static bool rope_is_common(const struct seq_group *group, const struct dgl_session *s)
{
    return session_rope_holds(group->session, s->rope_tokens) &&
           session_rope_holds(s, s->len + GROUP_MAX_FLIGHTS * GROUP_MAX_STEPS + 1);
}

bool group_admits(const struct seq_group *group, const struct generation *g)
{
    /* Room to grow for those that are here. */
    const uint32_t most = DGL_KV_TABLE_PAGES - DGL_KV_TABLE_PAGES / 16;
    return !g->logits && !g->s->runner.profile && group->members < group->slots &&
           rope_is_common(group, g->s) &&
           entries_wanted(group) + entries_of(g, g->s->len + GROUP_MAX_FLIGHTS * GROUP_MAX_STEPS) <=
               most;
}

int32_t group_misfit(const struct seq_group *group)
{
    const bool crowded = entries_wanted(group) > DGL_KV_TABLE_PAGES;
    int32_t found = -1;
    for (int32_t i = 0; i < group->slots; i++)
        if (group->slot[i].g && (crowded || !rope_is_common(group, group->slot[i].g->s)))
            found = i;
    return found;
}

static struct gl_range part_of(const struct seq_group *group, enum plan_buffer buffer, int32_t slot)
{
    const struct gl_range all = group->session->memory.state[buffer];
    const uint64_t size = all.size / (uint64_t)group->slots;
    return (struct gl_range){all.buffer, all.offset + (uint64_t)slot * size, size};
}

/* All that the device knows of a member, as the host has it. `trial`: no stop id ends it. */
static enum dgl_status write_slot(struct seq_group *group, int32_t i, bool trial)
{
    static const uint32_t nothing[ADJUST_BIASES];
    struct gl_device *gl = group->session->model->dev->gl;
    const struct generation *g = group->slot[i].g;
    const struct gl_range ids = part_of(group, BUF_IDS, i), adjust = part_of(group, BUF_ADJUST, i);
    const struct gl_range table = group->session->memory.state[BUF_STEP];
    const bool adjusts = sampling_adjusts(&g->p->sampling);
    struct dgl_step step = generation_step(g, g->s->len);
    step.context = (uint32_t)group->slot[i].limit;
    step.kv_first = group->slot[i].kv_first;
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

enum dgl_status group_join(struct seq_group *group, struct generation *g, int32_t *slot)
{
    const int32_t prompt = (int32_t)g->r->num_prompt_ids, context = g->s->context;
    int32_t i = 0;
    assert(group->members < group->slots && g->queue.steps == 0 && g->r->num_tokens > 0);
    while (group->slot[i].g)
        i++;
    group->slot[i] = (struct group_slot){.g = g, .serial = group->slot[i].serial};
    group->slot[i].limit = g->max_tokens >= 0 && g->max_tokens < context - prompt
                               ? prompt + g->max_tokens - 1
                               : context;
    group->members++;
    *slot = i;
    return write_slot(group, i, false);
}

void group_leave(struct seq_group *group, int32_t slot)
{
    assert(group->slot[slot].g);
    group->slot[slot].g = NULL;
    group->slot[slot].serial++;
    group->members--;
}

/* ---- the page table -------------------------------------------------------------------------- */

/* Entries [first, end) to the device. */
static enum dgl_status write_pages(struct seq_group *group, uint32_t first, uint32_t end)
{
    const struct gl_range table = group->session->memory.state[BUF_PAGES];
    first &= ~1u;
    end = (end + 1) & ~1u;
    return first == end ? DGL_OK
                        : gl_buffer_write(group->session->model->dev->gl, table.buffer,
                                          table.offset + first * 2ull, group->pages.page + first,
                                          (end - first) * 2ull);
}

/* Gives each member entries for the pages that it has and some more. */
static enum dgl_status lay_out_pages(struct seq_group *group)
{
    const struct gl_range table = group->session->memory.state[BUF_STEP];
    uint32_t wanted = 0, next = 0;
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < group->slots; i++)
        if (group->slot[i].g)
            wanted += (group->slot[i].g->s->pages.count + 1) & ~1u;
    assert(wanted <= DGL_KV_TABLE_PAGES);
    const uint32_t more = (DGL_KV_TABLE_PAGES - wanted) / (uint32_t)group->members & ~1u;
    for (int32_t i = 0; i < group->slots && status == DGL_OK; i++) {
        struct group_slot *slot = &group->slot[i];
        if (!slot->g)
            continue;
        const struct kv_pages *pages = &slot->g->s->pages;
        slot->kv_first = next;
        slot->kv_room = ((pages->count + 1) & ~1u) + (more < 16 ? more : 16);
        slot->kv_known = pages->count;
        memcpy(group->pages.page + next, pages->page, pages->count * sizeof(*pages->page));
        next += slot->kv_room;
        status = gl_buffer_write(group->session->model->dev->gl, table.buffer,
                                 table.offset + offsetof(struct dgl_step_table, seq) +
                                     (uint64_t)i * sizeof(struct dgl_step) +
                                     offsetof(struct dgl_step, kv_first),
                                 &slot->kv_first, 4);
    }
    return status == DGL_OK ? write_pages(group, 0, next) : status;
}

/* Pages for the next steps of all members, and where they are to the device. */
static enum dgl_status reserve(struct seq_group *group, int32_t steps)
{
    enum dgl_status status = DGL_OK;
    bool fits = true;
    for (int32_t i = 0; i < group->slots && status == DGL_OK; i++) {
        struct group_slot *slot = &group->slot[i];
        if (!slot->g)
            continue;
        const int32_t end = slot->g->s->len + group->steps + steps;
        status = session_reserve(slot->g->s, end < slot->limit ? end : slot->limit);
        fits = fits && slot->g->s->pages.count <= slot->kv_room;
    }
    if (status == DGL_OK && !fits)
        return lay_out_pages(group);
    for (int32_t i = 0; i < group->slots && status == DGL_OK; i++) {
        struct group_slot *slot = &group->slot[i];
        if (!slot->g || slot->kv_known == slot->g->s->pages.count)
            continue;
        const uint32_t first = slot->kv_known, count = slot->g->s->pages.count;
        memcpy(group->pages.page + slot->kv_first + first, slot->g->s->pages.page + first,
               (count - first) * sizeof(uint16_t));
        slot->kv_known = count;
        status = write_pages(group, slot->kv_first + first, slot->kv_first + count);
    }
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Steps that a member has before it, after those that are queued. */
static int32_t steps_left(const struct seq_group *group, const struct group_slot *slot)
{
    const int32_t left = slot->g ? slot->limit - slot->g->s->len - group->steps : 0;
    return left > 0 ? left : 0;
}

static int32_t steps_wanted(const struct seq_group *group)
{
    const bool single = group->session->model->dev->info.software || group->session->runner.profile;
    int32_t steps = single ? 1 : GROUP_MAX_STEPS, most = 0;
    if (group->step_ns > 0 && (uint64_t)steps > FLIGHT_NS / group->step_ns)
        steps = (int32_t)(FLIGHT_NS / group->step_ns);
    for (int32_t i = 0; i < group->slots; i++) {
        const int32_t left = steps_left(group, &group->slot[i]);
        most = left > most ? left : most;
    }
    steps = steps > 0 ? steps : 1;
    return steps < most ? steps : most;
}

/* ---- the executor ---------------------------------------------------------------------------- */

static bool has_room(void *priv, int32_t steps)
{
    const struct seq_group *group = priv;
    bool has = true;
    for (int32_t i = 0; i < group->slots && has; i++) {
        const struct group_slot *slot = &group->slot[i];
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
    struct seq_group *group = priv;
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < group->slots && status == DGL_OK; i++)
        if (group->slot[i].g)
            status = write_slot(group, i, trial);
    return status;
}

static enum dgl_status read_rows(void *priv, int32_t steps, int32_t *ids)
{
    struct seq_group *group = priv;
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < group->rows && status == DGL_OK; i++) {
        const struct gl_range at = part_of(group, BUF_IDS, group->row[i]);
        const struct dgl_session *s = group->slot[group->row[i]].g->s;
        status = gl_buffer_read(group->session->model->dev->gl, at.buffer,
                                at.offset + (s->len + 1ull) * 4, ids + (size_t)i * (size_t)steps,
                                (uint64_t)steps * 4);
    }
    return status;
}

/* The body of a pass over so many members. */
static struct recipe body_of(const struct seq_group *group, int32_t rows)
{
    struct recipe body = recipe_of(SEG_DECODE);
    if (rows > 1)
        return recipe_of(plan_batch_body(&group->session->model->engine->plan, rows));
    body.segments |= recipe_of(SEG_HEAD).segments;
    return body;
}

/* The next steps of all that have some before them: *body evaluates, *draws draws. Returns how many
 * rows that are. */
static int32_t next_steps(const struct seq_group *group, struct recipe *body, struct recipe *draws)
{
    int32_t rows = 0;
    *draws = (struct recipe){0};
    for (int32_t i = 0; i < group->slots; i++)
        if (steps_left(group, &group->slot[i]) > 0) {
            const struct dgl_sampling *how = &group->slot[i].g->p->sampling;
            draws->segments |= recipe_sampling(sampling_kind(how), sampling_adjusts(how)).segments;
            rows++;
        }
    *body = body_of(group, rows);
    return rows;
}

/* Steps of `rows` members by these recipes. Returns false if only dispatches can run them. */
static bool steps_of(struct seq_group *group, struct recipe body, struct recipe draws, int32_t rows,
                     struct steps *out)
{
    struct engine *engine = group->session->model->engine;
    *out = (struct steps){
        .runner = &group->session->runner,
        .recipe = {.segments = body.segments | draws.segments, .repeats = true},
        .rows = rows,
        .priv = group,
        .has_room = has_room,
        .reserve = reserve_steps,
        .write = write_members,
        .read = read_rows,
    };
    return rows > 1 && rows <= PLAN_PHASE_ROWS && engine->persistent.exec &&
           engine_choice(engine, out->recipe);
}

/* Returns true if the executor would now decide something that it left open before. */
static bool is_due(const struct seq_group *group)
{
    struct steps steps;
    struct recipe body, draws;
    struct seq_group *all = (struct seq_group *)(uintptr_t)group; /* which has_room() only reads */
    const int32_t rows = next_steps(group, &body, &draws);
    return steps_of(all, body, draws, rows, &steps) && executor_is_due(&steps);
}

void group_executor(const struct seq_group *group, struct dgl_executor_info *out)
{
    const struct engine *engine = group->session->model->engine;
    *out = (struct dgl_executor_info){
        .executor = DGL_EXECUTOR_DISPATCH, .name = "dispatch", .reason = engine->no_persistent};
    if (group->choice && group->prepared == group->session->model->engine_serial)
        engine_choice_info(engine, group->choice, out);
    else if (engine->persistent.exec)
        out->reason = "passes over more than 8 sequences, or that draw in several ways, are single "
                      "dispatches";
}

bool group_can_push(const struct seq_group *group)
{
    const struct dgl_session *s = group->session;
    const int32_t steps = steps_wanted(group);
    bool moves = !session_is_current(s);
    if (steps > 0 && !moves && group->flights > 0 && is_due(group))
        return false;
    for (int32_t i = 0; i < group->slots && !moves; i++) {
        const struct generation *g = group->slot[i].g;
        moves = g && session_moves(g->s, g->s->len + group->steps + steps);
    }
    if (steps == 0 || (group->flights > 0 && (moves || group_misfit(group) >= 0)))
        return false;
    return group->flights <
           (s->model->dev->info.software || s->runner.profile ? 1 : GROUP_MAX_FLIGHTS);
}

/* Rows of the pass: members with steps before them. */
static enum dgl_status write_rows(struct seq_group *group)
{
    struct dgl_session *s = group->session;
    const struct gl_range table = s->memory.state[BUF_STEP];
    const int32_t known = group->rows;
    uint32_t words[DGL_STEP_SEQS];
    uint8_t row[DGL_STEP_SEQS];
    int32_t rows = 0;
    for (int32_t i = 0; i < group->slots; i++)
        if (steps_left(group, &group->slot[i]) > 0) {
            words[rows] = DGL_STEP_ROW(i, 0);
            row[rows++] = (uint8_t)i;
        }
    assert(rows > 0);
    if (rows == known && memcmp(row, group->row, (size_t)rows) == 0)
        return DGL_OK;
    const uint32_t head[4] = {(uint32_t)rows, (uint32_t)group->slots,
                              (uint32_t)(part_of(group, BUF_IDS, 0).size / 4),
                              (uint32_t)(part_of(group, BUF_ADJUST, 0).size / 4)};
    memcpy(group->row, row, (size_t)rows);
    group->rows = rows;
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
static uint32_t all_segments(const struct seq_group *group)
{
    const struct plan *plan = &group->session->model->engine->plan;
    uint32_t segments = recipe_of(SEG_REPORT).segments | recipe_of(SEG_DECODE).segments |
                        recipe_of(SEG_HEAD).segments;
    for (int32_t n = group->least; n <= group->slots; n++)
        segments |= recipe_of(plan_batch_body(plan, n)).segments;
    return segments;
}

enum dgl_status group_begin(struct seq_group *group)
{
    const struct dgl_session *s = group->session;
    if (group->begun || !session_is_current(s))
        return DGL_OK;
    group->begun = true;
    return exec_begin(&s->model->engine->programs, &s->model->engine->plan, all_segments(group));
}

/* The runs of all of these, so that passes make none. */
static enum dgl_status make_runs(struct seq_group *group)
{
    struct dgl_session *s = group->session;
    struct exec_run *run;
    enum dgl_status status = runner_run(&s->runner, recipe_of(SEG_REPORT), &run);
    if (status == DGL_OK)
        status = runner_run(&s->runner, body_of(group, 1), &run);
    for (int32_t n = group->least; n <= group->slots && status == DGL_OK; n++)
        status = runner_run(&s->runner, body_of(group, n), &run);
    for (int draw = SEG_ADJUST; draw <= SEG_SAMPLE_FULL && status == DGL_OK; draw++)
        if (group->draws >> draw & 1u)
            status = runner_run(&s->runner, recipe_of((enum segment)draw), &run);
    return status;
}

enum dgl_status group_prepare(struct seq_group *group, uint32_t draws)
{
    struct dgl_session *s = group->session;
    struct dgl_model *m = s->model;
    enum dgl_status status = session_follow(s);
    if (status == DGL_OK)
        status = plan_add_batch(&m->engine->plan);
    const bool more = (draws & ~group->draws) != 0 || s->runner.runs->dispatch.count == 0;
    if (status != DGL_OK || (group->prepared == m->engine_serial && !more))
        return status;
    atomic_store(&s->cancel, false);
    group->draws |= draws;
    status = session_compile(s, all_segments(group) | group->draws);
    if (status == DGL_OK) /* which may replan */
        status = plan_add_batch(&m->engine->plan);
    if (status == DGL_OK)
        status = make_runs(group);
    group->prepared = m->engine_serial;
    return status;
}

/* The run of a recipe, for the rows of this pass. */
static enum dgl_status get_run(struct seq_group *group, struct recipe recipe, struct exec_run **out)
{
    enum dgl_status status = runner_run(&group->session->runner, recipe, out);
    return status == DGL_OK ? exec_run_set_tokens(*out, group->rows) : status;
}

/* Sets *run to the persistent run of such steps, or to NULL if dispatches serve. */
static enum dgl_status choose(struct seq_group *group, struct recipe body, struct recipe draws,
                              struct exec_run **run, struct recipe *recipe)
{
    struct steps steps;
    int32_t max_steps;
    *run = NULL;
    group->choice = NULL;
    if (!steps_of(group, body, draws, group->rows, &steps))
        return DGL_OK;
    enum dgl_status status = group->flights == 0 ? executor_choose(&steps, run, &max_steps)
                                                 : executor_use(&steps, run, &max_steps);
    group->choice = engine_choice(group->session->model->engine, steps.recipe);
    *recipe = steps.recipe;
    return status;
}

/* Runs of a step and, as the last one, of what reports. */
#define GROUP_MAX_RUNS (1 + SEG_SAMPLE_FULL - SEG_ADJUST + 1 + 1)

/* The runs of a step by dispatches. What draws is a run for each of its segments, of which there
 * are many mixtures. */
static enum dgl_status get_runs(struct seq_group *group, struct recipe evaluates,
                                struct recipe draws, struct exec_run **run, int32_t *count)
{
    enum dgl_status status = get_run(group, evaluates, &run[0]);
    *count = 1;
    for (int draw = SEG_ADJUST; draw <= SEG_SAMPLE_FULL && status == DGL_OK; draw++)
        if (RECIPE_HAS(draws, draw))
            status = get_run(group, recipe_of((enum segment)draw), &run[(*count)++]);
    return status;
}

/* One step of these runs and what reports, for the profile of the session. */
static enum dgl_status push_profiled(struct seq_group *group, struct exec_run **run, int32_t count)
{
    int64_t held = 0;
    for (int32_t i = 0; i < group->rows; i++)
        held += group->slot[group->row[i]].g->s->len + 1;
    const struct profile_pass pass = {
        .phase = DGL_PHASE_DECODE, .sequences = group->rows, .held = (int32_t)(held / group->rows)};
    return runner_profile_step(&group->session->runner, run, count, &pass, &group->step,
                               &group->done_ns);
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

enum dgl_status group_push(struct seq_group *group)
{
    struct dgl_session *s = group->session;
    struct group_flight *flight = &group->flight[group->flights];
    const int32_t steps = steps_wanted(group);
    struct exec_run *persistent = NULL, *run[GROUP_MAX_RUNS];
    struct recipe evaluates, draws;
    int32_t count = 1;
    assert(group_can_push(group));
    flight->persistent = (struct recipe){0};
    enum dgl_status status = reserve(group, steps);
    if (status == DGL_OK)
        status = group_prepare(group, group->draws);
    if (status == DGL_OK)
        status = write_rows(group);
    if (status != DGL_OK)
        return status;
    next_steps(group, &evaluates, &draws);
    status = choose(group, evaluates, draws, &persistent, &flight->persistent);
    if (persistent)
        run[0] = persistent;
    else if (status == DGL_OK)
        status = get_runs(group, evaluates, draws, run, &count);
    if (!persistent)
        flight->persistent = (struct recipe){0};
    if (status == DGL_OK)
        status = get_run(group, recipe_of(SEG_REPORT), &run[count]);
    if (status == DGL_OK && s->runner.profile)
        status = push_profiled(group, run, count + 1);
    else if (status == DGL_OK)
        status = queue_runs(s, run, count, steps, persistent != NULL);
    const struct gl_range at = s->memory.state[BUF_REPORT];
    if (status == DGL_OK)
        status =
            gl_readback_begin(s->model->dev->gl, at.buffer, at.offset,
                              (uint32_t)group->rows * OPLIST_REPORT_WORDS * 4, &flight->report);
    if (status != DGL_OK)
        return status;
    flight->steps = steps;
    flight->rows = group->rows;
    flight->profiled = s->runner.profile != NULL;
    flight->queued_ns = dgl_now_ns();
    for (int32_t i = 0; i < group->rows; i++) {
        flight->row[i].slot = group->row[i];
        flight->row[i].serial = group->slot[group->row[i]].serial;
    }
    group->flights++;
    group->steps += steps;
    return DGL_OK;
}

/* What is queued counts for nothing: the device gets what the host knows of the members.
 * `given_up`: so was the dispatch, else nobody can say. */
static enum dgl_status start_again(struct seq_group *group, struct recipe recipe, bool given_up)
{
    struct dgl_session *s = group->session;
    const struct recipe none = {0};
    struct steps steps;
    steps_of(group, recipe, none, group->rows, &steps);
    for (int32_t i = 0; i < group->flights; i++)
        gl_readback_drop(s->model->dev->gl, group->flight[i].report);
    group->flights = group->steps = 0;
    return given_up ? executor_recover(&steps) : executor_reset(&steps);
}

/* Whether the report of a persistent dispatch tells that it was given up; *known: of how many rows
 * that could be seen. One that was not has brought each row a token at least. */
static bool is_given_up(const struct seq_group *group, const struct group_flight *flight,
                        uint32_t report[][OPLIST_REPORT_WORDS], int32_t *known)
{
    bool given_up = false;
    *known = 0;
    for (int32_t r = 0; r < flight->rows; r++) {
        const struct group_slot *slot = &group->slot[flight->row[r].slot];
        given_up |= executor_is_aborted((const int32_t *)report[r] + 1, flight->steps);
        if (!slot->g || slot->serial != flight->row[r].serial)
            continue;
        given_up |= report[r][0] == (uint32_t)slot->g->s->len;
        ++*known;
    }
    return given_up;
}

enum dgl_status group_take(struct seq_group *group, struct group_news *news, int32_t *count)
{
    const struct group_flight flight = group->flight[0];
    struct dgl_device *dev = group->session->model->dev;
    uint32_t report[DGL_STEP_SEQS][OPLIST_REPORT_WORDS];
    assert(group->flights > 0);
    *count = 0;
    group->flights--;
    group->steps -= flight.steps;
    memmove(group->flight, group->flight + 1, (size_t)group->flights * sizeof(flight));
    enum dgl_status status = gl_readback_end(dev->gl, flight.report, report);
    const uint64_t now = dgl_now_ns();
    const uint64_t begun = flight.queued_ns > group->read_ns ? flight.queued_ns : group->read_ns;
    group->step_ns = (now - begun) / (uint64_t)flight.steps;
    group->read_ns = now;
    if (status == DGL_OK && flight.persistent.segments) {
        int32_t known;
        const bool given_up = is_given_up(group, &flight, report, &known);
        if (given_up || known == 0)
            return start_again(group, flight.persistent, given_up);
    }
    for (int32_t r = 0; r < flight.rows && status == DGL_OK; r++) {
        const struct group_slot *slot = &group->slot[flight.row[r].slot];
        struct group_news *n = &news[*count];
        if (!slot->g || slot->serial != flight.row[r].serial)
            continue;
        const int32_t from = slot->g->s->len, came = (int32_t)(report[r][0] - (uint32_t)from);
        if (came < 1 || came > flight.steps)
            return dgl_fail(dev->log, DGL_ERR_GPU,
                            "%s took a sequence from position %d to %u in %d steps",
                            dev->info.renderer, from, report[r][0], flight.steps);
        *n = (struct group_news){.g = slot->g, .slot = flight.row[r].slot, .count = came};
        for (int32_t i = 0; i < came; i++)
            n->ids[i] = (int32_t)report[r][came - i];
        ++*count;
    }
    struct profile *profile = group->session->runner.profile;
    if (status != DGL_OK || !profile)
        return status;
    if (!flight.profiled) { /* queued before there was one, which begins behind it */
        profile->step_end_ns = now;
        return DGL_OK;
    }
    group->step.readback_ns = now - group->done_ns;
    return profile_step(profile, group->step);
}
