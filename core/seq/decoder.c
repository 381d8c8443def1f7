/* Decoding of one sequence, or of several sequences together. */
#include "core/seq/generate.h"

#include <assert.h>
#include <stddef.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

_Static_assert(DECODER_MAX_STEPS < OPLIST_REPORT_WORDS, "a report has the ids of all steps");

/* ---- creation and destruction ---------------------------------------------------------------- */

enum dgl_status decoder_create(const struct dgl_session *like, int32_t sequences,
                               struct decoder **out)
{
    struct dgl_model *m = like->model;
    const struct dgl_log *log = m->log;
    struct plan *plan = &m->shard->engine->plan;
    struct decoder *d = NULL;
    *out = NULL;
    enum dgl_status status = plan_add_batch(plan);
    const int32_t slots = plan_batch_slots(plan, like->seq.context, sequences);
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
    struct pass_state *state = dgl_new(struct pass_state);
    if (!d || !state) {
        free(d);
        free(state);
        return dgl_fail_memory(log, "sequences", sizeof(*state));
    }
    *d = (struct decoder){
        .state = state, .slots = slots, .least = 2, .prepared = m->shard->engine_serial - 1};
    state->slots = state->ubatch = slots;
    state->context = like->seq.context;
    TRY(pass_state_init(state, m, NULL, NULL));
    state->runner.progress_cb = like->state.runner.progress_cb;
    state->runner.progress_priv = like->state.runner.progress_priv;
    TRY(pass_state_make(state));
    *out = d;
    return DGL_OK;
done:
    decoder_destroy(&d);
    return status;
}

void decoder_drop(struct decoder *d)
{
    for (int32_t i = 0; i < d->count; i++)
        gl_readback_drop(pass_state_dev(d->state)->gl, d->burst[i].ticket);
    d->count = d->steps = 0;
    d->run = NULL;
}

void decoder_destroy(struct decoder **d)
{
    struct decoder *old = *d;
    *d = NULL;
    if (!old)
        return;
    decoder_drop(old);
    pass_state_finish(old->state);
    free(old->state);
    free(old);
}

/* ---- members --------------------------------------------------------------------------------- */

void decoder_own(struct dgl_session *s, struct generation *g)
{
    s->own = (struct decoder){.state = &s->state, .slots = 1, .members = 1, .slot[0].g = g};
    g->s = s;
    g->decoder = &s->own;
    g->slot = 0;
}

/* Returns the page table entries of a sequence for the next steps. The number is even, because two
 * entries share a word. */
static uint32_t entries_of(const struct sequence *seq)
{
    return (sequence_pages(seq, seq->len + DECODER_BURSTS * DECODER_MAX_STEPS) + 1u) & ~1u;
}

/* Returns the entries that all members need for their next steps. */
static uint32_t entries_wanted(const struct decoder *d)
{
    uint32_t entries = 0;
    for (int32_t i = 0; i < d->slots; i++)
        if (d->slot[i].g)
            entries += entries_of(&d->slot[i].g->s->seq);
    return entries;
}

static bool rope_is_common(const struct decoder *d, const struct dgl_session *s)
{
    return pass_state_rope_holds(d->state, s->state.rope_tokens) &&
           pass_state_rope_holds(&s->state, s->seq.len + DECODER_BURSTS * DECODER_MAX_STEPS + 1);
}

bool decoder_admits(const struct decoder *d, const struct generation *g)
{
    /* The present members need room to grow. */
    const uint32_t entries = d->state->model->shard->kv.entries, most = entries - entries / 16;
    return !g->logits && !g->s->state.runner.profile && d->members < d->slots &&
           rope_is_common(d, g->s) && entries_wanted(d) + entries_of(&g->s->seq) <= most;
}

bool decoder_keeps(const struct generation *g)
{
    const struct decoder *d = g->decoder;
    return d->slots == 1 ||
           (entries_wanted(d) <= d->state->model->shard->kv.entries && rope_is_common(d, g->s));
}

/* Returns the maximum tokens of the sequence. Steps of several sequences end there. */
static int32_t limit_of(const struct generation *g)
{
    const int32_t room = g->s->seq.context - g->s->seq.len;
    const int32_t left = g->max_tokens - (int32_t)g->r->num_tokens;
    return g->s->seq.len + (left < room ? left : room);
}

/* Writes the member's ids from position `first` on, and its state, to the device. If `trial`, no
 * stop id ends the steps. */
static enum dgl_status write_slot(struct decoder *d, int32_t i, int32_t first, bool trial)
{
    static const uint32_t nothing[ADJUST_BIASES];
    const struct generation *g = d->slot[i].g;
    const struct sequence *seq = &g->s->seq;
    const bool adjusts = generation_changes(g) != 0;
    struct dgl_step step = generation_step(g, seq->len);
    enum dgl_status status;
    step.flags |= trial ? DGL_STEP_IGNORE_EOS : 0;
    TRY(pass_state_write(d->state, BUF_IDS, i, (uint64_t)first * 4, seq->ids + first,
                         (uint64_t)(seq->len + 1 - first) * 4));
    if (d->slots == 1) {
        TRY(pass_state_write_step(d->state, &step, 0));
        goto done;
    }
    step.context = (uint32_t)limit_of(g);
    step.kv_first = d->slot[i].kv_first;
    TRY(pass_state_write(d->state, BUF_ADJUST, i, 0, adjusts ? seq->adjust.words : nothing,
                         adjusts ? pass_state_part(d->state, BUF_ADJUST, i).size
                                 : sizeof(nothing)));
    TRY(pass_state_put(d->state, (uint32_t)i, &step));
done:
    return status;
}

enum dgl_status decoder_join(struct decoder *d, struct generation *g)
{
    int32_t i = 0;
    decoder_leave(g);
    assert(d->members < d->slots && g->r->num_tokens > 0);
    while (d->slot[i].g)
        i++;
    d->slot[i] = (struct decoder_slot){.g = g};
    d->members++;
    g->s->seq.pages.num_known = 0; /* of the page table of the decoder */
    g->decoder = d;
    g->slot = i;
    if (d->slots == 1) {
        d->run = NULL;
        g->s->seq.logits_valid = false;
        if (!pass_state_is_current(d->state)) /* generation_advance() joins again */
            return DGL_OK;
    }
    /* The ids may have been sampled by another decoder. */
    return write_slot(d, i, 0, false);
}

void decoder_leave(struct generation *g)
{
    struct decoder *d = g->decoder;
    assert(d->slot[g->slot].g == g);
    d->slot[g->slot].g = NULL;
    d->members--;
    g->decoder = NULL;
    for (int32_t i = 0; i < d->count; i++)
        for (int32_t r = 0; r < d->burst[i].rows; r++)
            if (d->burst[i].row[r] == g)
                d->burst[i].row[r] = NULL;
}

/* ---- the page table -------------------------------------------------------------------------- */

/* Reserves pages for the next steps of all members, and writes the page table. */
static enum dgl_status reserve(void *priv, int32_t steps)
{
    struct decoder *d = priv;
    const uint32_t entries = d->state->model->shard->kv.entries;
    uint32_t wanted = 0, next = 0;
    enum dgl_status status = DGL_OK;
    bool fits = true;
    for (int32_t i = 0; i < d->slots; i++) {
        const struct decoder_slot *slot = &d->slot[i];
        if (!slot->g)
            continue;
        const int32_t end = slot->g->s->seq.len + d->steps + steps, limit = limit_of(slot->g);
        TRY(sequence_reserve(&slot->g->s->seq, end < limit || d->slots == 1 ? end : limit));
        fits = fits && (d->slots == 1 || slot->g->s->seq.pages.count <= slot->kv_room);
        wanted += (slot->g->s->seq.pages.count + 1) & ~1u;
    }
    TRY(pass_state_follow(d->state));
    assert(fits || wanted <= entries);
    for (int32_t i = 0; i < d->slots; i++) {
        struct decoder_slot *slot = &d->slot[i];
        if (!slot->g)
            continue;
        struct kv_pages *pages = &slot->g->s->seq.pages;
        if (!fits) { /* each member gets entries for its pages, and some more */
            const uint32_t more = (entries - wanted) / (uint32_t)d->members & ~1u;
            slot->kv_first = next;
            slot->kv_room = ((pages->count + 1) & ~1u) + (more < 16 ? more : 16);
            pages->num_known = 0;
            next += slot->kv_room;
            TRY(pass_state_write(d->state, BUF_STEP, 0,
                                 offsetof(struct dgl_step_table, seq) +
                                     (uint64_t)i * sizeof(struct dgl_step) +
                                     offsetof(struct dgl_step, kv_first),
                                 &slot->kv_first, 4));
        }
        TRY(pass_state_write_pages(d->state, slot->kv_first, pages));
    }
done:
    return status;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* The driver's wait starts this long before the expected end of a burst. Shorter sleeps do not
 * pay. */
#define EARLY_NS 150000ull
/* Longest sleep between two checks for cancellation. */
#define SLEEP_NS 10000000ull

/* ---- steps ----------------------------------------------------------------------------------- */

/* Returns the steps of a member that remain after the queued ones. */
static int32_t steps_left(const struct decoder *d, const struct decoder_slot *slot)
{
    const int32_t left = slot->g ? limit_of(slot->g) - slot->g->s->seq.len - d->steps : 0;
    return left > 0 ? left : 0;
}

/* Returns true if a member has a constraint. The host computes the mask of a token from the token
 * before it, so no two steps are queued together. A persistent dispatch gets its masks before it
 * begins. Otherwise the device evaluates the body while the host computes them. */
static bool is_masked(const struct decoder *d)
{
    bool masked = false;
    for (int32_t i = 0; i < d->slots; i++)
        masked |= d->slot[i].g && d->slot[i].g->p->constraint;
    return masked;
}

static bool is_single(const struct decoder *d)
{
    return pass_state_dev(d->state)->info.software || d->state->runner.profile || is_masked(d);
}

static int32_t steps_wanted(const struct decoder *d)
{
    int32_t steps = is_single(d) ? 1 : DECODER_MAX_STEPS, most = 0;
    if (d->slots == 1)
        steps = d->slot[0].g->interval;
    else
        steps = pace_steps(d->step_ns, PACE_QUEUED_NS, steps);
    for (int32_t i = 0; i < d->slots; i++) {
        const int32_t left = steps_left(d, &d->slot[i]);
        most = left > most ? left : most;
    }
    steps = steps < most ? steps : most;
    while (d->slots == 1 && steps > 0 &&
           !pass_state_rope_holds(d->state, d->slot[0].g->s->seq.len + d->steps + steps))
        steps--;
    return steps;
}

/* ---- the executor ---------------------------------------------------------------------------- */

static bool has_room(void *priv, int32_t steps)
{
    const struct decoder *d = priv;
    bool has = true;
    for (int32_t i = 0; i < d->slots && has; i++) {
        const struct generation *g = d->slot[i].g;
        if (!g)
            continue;
        const int32_t end = g->s->seq.len + steps;
        has = end <= (d->slots == 1 ? g->s->seq.context : limit_of(g)) &&
              pass_state_rope_holds(&g->s->state, end) && sequence_may_reserve(&g->s->seq, end) &&
              (d->slots == 1 || !sequence_moves(&g->s->seq, end));
    }
    return has;
}

static enum dgl_status write_members(void *priv, bool trial)
{
    struct decoder *d = priv;
    enum dgl_status status = DGL_OK;
    /* A sequence's own IDS buffer already has all ids but the pending one. */
    for (int32_t i = 0; i < d->slots; i++) {
        struct generation *g = d->slot[i].g;
        if (!g)
            continue;
        TRY(write_slot(d, i, d->slots == 1 ? g->s->seq.len : 0, trial));
        if (g->p->constraint)
            TRY(generation_write_mask(g, d->state, i));
    }
done:
    return status;
}

static enum dgl_status read_rows(void *priv, int32_t steps, int32_t *ids)
{
    struct decoder *d = priv;
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < d->state->num_rows; i++) {
        const int32_t slot = (int32_t)d->state->rows[i].seq;
        TRY(pass_state_read(d->state, BUF_IDS, slot, (d->slot[slot].g->s->seq.len + 1ull) * 4,
                            ids + i * (size_t)steps, (uint64_t)steps * 4));
    }
done:
    return status;
}

/* Returns the body of a pass over `rows` members. */
static struct recipe body_of(const struct decoder *d, int32_t rows)
{
    struct recipe body = recipe_of(PASS_DECODE);
    if (rows > 1)
        return recipe_of(plan_batch_shape(pass_state_plan(d->state), rows));
    body.shapes = shapes_add(body.shapes, PASS_HEAD);
    return body;
}

/* Describes the steps of `rows` members to the executor. */
static struct steps steps_of(struct decoder *d, struct recipe recipe, int32_t rows)
{
    return (struct steps){&d->state->runner, recipe,  rows,          d,
                          has_room,          reserve, write_members, read_rows};
}

/* Sets *out to the next steps as one recipe, and *draws to the shapes that sample their tokens.
 * Returns false if they need dispatches of several recipes. */
static bool plan_steps(struct decoder *d, struct steps *out, struct shape_set *draws)
{
    struct engine *engine = d->state->model->shard->engine;
    struct recipe recipe;
    int32_t rows = 0;
    *draws = (struct shape_set){.count = 0};
    for (int32_t i = 0; i < d->slots; i++)
        if (steps_left(d, &d->slot[i]) > 0) {
            *draws = shapes_join(*draws, generation_draw(d->slot[i].g).shapes);
            rows++;
        }
    if (d->slots == 1) {
        *out = steps_of(d, generation_recipe(d->slot[0].g), 1);
        return true;
    }
    recipe = body_of(d, rows);
    recipe.shapes = shapes_join(recipe.shapes, *draws);
    recipe.repeats = true;
    *out = steps_of(d, recipe, rows);
    return rows > 1 && rows <= PLAN_PHASE_ROWS && engine->persistent.exec &&
           engine_choice(engine, recipe);
}

void decoder_executor(const struct decoder *d, struct dgl_executor_info *out)
{
    const struct engine *engine = d->state->model->shard->engine;
    *out = (struct dgl_executor_info){
        .executor = DGL_EXECUTOR_DISPATCH, .name = "dispatch", .reason = engine->no_persistent};
    if (d->choice && d->prepared == d->state->model->shard->engine_serial)
        engine_choice_info(engine, d->choice, out);
    else if (engine->persistent.exec)
        out->reason = "passes over more than 8 sequences, or that draw in several ways, are single "
                      "dispatches";
}

bool decoder_can_push(struct decoder *d)
{
    const int32_t steps = steps_wanted(d);
    struct steps next;
    struct shape_set draws;
    bool moves = false;
    if (steps == 0)
        return false;
    if (d->count > 0) {
        moves = !pass_state_is_current(d->state) ||
                (plan_steps(d, &next, &draws) && executor_is_due(&next));
        for (int32_t i = 0; i < d->slots && !moves; i++) {
            const struct generation *g = d->slot[i].g;
            moves = g && (!decoder_keeps(g) ||
                          sequence_moves(&g->s->seq, g->s->seq.len + d->steps + steps));
        }
    }
    return !moves && d->count < (is_single(d) ? 1 : DECODER_BURSTS);
}

/* Returns the shapes of passes over `least` or more members, except those that sample. Compiling
 * them ahead avoids a later wait. */
static struct shape_set all_shapes(const struct decoder *d)
{
    const struct plan *plan = pass_state_plan(d->state);
    struct shape_set shapes = {{PASS_DECODE, PASS_HEAD, PASS_REPORT}, 3};
    for (int32_t n = d->least; n <= d->slots; n++)
        shapes = shapes_add(shapes, plan_batch_shape(plan, n));
    return shapes;
}

enum dgl_status decoder_begin(struct decoder *d)
{
    struct engine *engine = d->state->model->shard->engine;
    if (d->begun || !pass_state_is_current(d->state))
        return DGL_OK;
    enum dgl_status status;
    d->begun = true;
    TRY(plan_add_batch(&engine->plan)); /* a rebuilt engine has no batch bodies yet */
    TRY(exec_begin(&engine->programs, &engine->plan, all_shapes(d)));
done:
    return status;
}

enum dgl_status decoder_prepare(struct decoder *d, struct shape_set draws)
{
    const struct shape_set all = shapes_join(d->draws, draws);
    struct shard *shard = d->state->model->shard;
    struct runner *r = &d->state->runner;
    struct exec_run *run;
    struct shape_set shapes;
    uint32_t serial;
    enum dgl_status status;
    TRY(pass_state_follow(d->state));
    if (d->prepared == shard->engine_serial && all.count == d->draws.count &&
        r->runs->dispatch.count > 0)
        return DGL_OK;
    d->draws = all;
    d->choice = NULL; /* of an engine that may be gone */
    do {              /* compiling may replan, and the new plan may have other bodies */
        serial = shard->engine_serial;
        TRY(plan_add_batch(&shard->engine->plan));
        shapes = shapes_join(all_shapes(d), d->draws);
        TRY(pass_state_compile(d->state, shapes));
    } while (serial != shard->engine_serial);
    TRY(runner_run(r, body_of(d, 1), &run));
    for (uint32_t i = 0; i < shapes.count; i++)
        TRY(runner_run(r, recipe_of(shapes.of[i]), &run));
    d->prepared = serial;
done:
    return status;
}

/* Gets the run of a recipe, for the rows of this pass. */
static enum dgl_status get_run(struct decoder *d, struct recipe recipe, struct exec_run **out)
{
    enum dgl_status status = runner_run(&d->state->runner, recipe, out);
    return status == DGL_OK ? exec_run_set_tokens(*out, (int32_t)d->state->num_rows) : status;
}

/* Maximum runs of a step, including the report. */
#define DECODER_MAX_RUNS (1 + 3 + SAMPLE_KINDS + 1)

/* The runs of the next steps. */
struct step_runs {
    struct exec_run *run[DECODER_MAX_RUNS];
    int32_t count;
    int32_t max_steps;        /* of one submit; 1 if a step has several runs */
    struct recipe persistent; /* recipe of the persistent run; empty if dispatches are used */
};

/* Gets the runs of the next steps. Chooses the executor if the queue is empty. One sequence uses a
 * single run for all steps. Several sequences use a single run if it is persistent. Otherwise each
 * sampling operation is a run of its own, because there are many combinations. */
static enum dgl_status get_runs(struct decoder *d, struct step_runs *out)
{
    struct runner *r = &d->state->runner;
    struct shape_set draws;
    struct steps steps;
    enum dgl_status status = DGL_OK;
    *out = (struct step_runs){0};
    d->choice = NULL;
    if (plan_steps(d, &steps, &draws)) {
        const bool decides = d->count == 0 && !(d->slots == 1 && d->slot[0].g->given_up) &&
                             (!d->run || executor_is_due(&steps));
        TRY(executor_choose(&steps, decides, &out->run[0], &out->max_steps));
        d->choice = engine_choice(*r->engine, steps.recipe);
        if (out->run[0])
            out->persistent = steps.recipe;
        else if (d->slots == 1 && !is_masked(d))
            TRY(runner_run(r, steps.recipe, &out->run[0]));
    }
    if (out->run[0]) {
        out->count = 1;
    } else {
        out->max_steps = 1;
        TRY(get_run(d, body_of(d, (int32_t)d->state->num_rows), &out->run[out->count++]));
        for (uint32_t i = 0; i < draws.count; i++)
            TRY(get_run(d, recipe_of(draws.of[i]), &out->run[out->count++]));
    }
    if (d->slots > 1) {
        TRY(get_run(d, recipe_of(PASS_REPORT), &out->run[out->count]));
    } else if (d->run != out->run[0]) {
        TRY(runner_write_args(r, out->run[0]));
        d->run = out->run[0];
    }
done:
    return status;
}

enum dgl_status decoder_choose(struct decoder *d)
{
    struct step_runs runs;
    return get_runs(d, &runs);
}

/* Writes the masks of the rows of the pass. */
static enum dgl_status write_masks(struct decoder *d, const struct burst *burst)
{
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < burst->rows; i++)
        if (burst->row[i]->p->constraint)
            TRY(generation_write_mask(burst->row[i], d->state, burst->row[i]->slot));
done:
    return status;
}

enum dgl_status decoder_push(struct decoder *d)
{
    struct runner *r = &d->state->runner;
    struct burst *burst = &d->burst[d->count];
    struct pass_state *st = d->state;
    const int32_t steps = steps_wanted(d), report = d->slots > 1;
    struct step_runs runs;
    int64_t held = 0;
    enum dgl_status status;
    assert(decoder_can_push(d));
    TRY(reserve(d, steps));
    if (report) {
        TRY(decoder_prepare(d, d->draws));
        st->num_rows = 0;
        for (int32_t i = 0; i < d->slots; i++)
            if (steps_left(d, &d->slot[i]) > 0)
                st->rows[st->num_rows++] = (struct pass_row){.seq = (uint32_t)i};
        TRY(pass_state_set_rows(st, st->rows, st->num_rows));
    }
    TRY(get_runs(d, &runs));
    burst->rows = (int32_t)st->num_rows;
    for (int32_t i = 0; i < burst->rows; i++)
        burst->row[i] = d->slot[st->rows[i].seq].g;
    const bool masks_first = r->profile || runs.count == 1;
    if (masks_first)
        TRY(write_masks(d, burst));
    if (r->profile) {
        assert(steps == 1);
        for (int32_t i = 0; i < burst->rows; i++)
            held += burst->row[i]->s->seq.len + 1;
        const struct profile_pass pass = {.phase = DGL_PHASE_DECODE,
                                          .sequences = burst->rows,
                                          .held = (int32_t)(held / burst->rows)};
        TRY(runner_profile_step(r, runs.run, runs.count + report, &pass, &d->step, &d->done_ns));
    } else {
        for (int32_t done = 0, part; done < steps; done += part) {
            part = steps - done > runs.max_steps ? runs.max_steps : steps - done;
            for (int32_t k = 0; k < runs.count; k++) {
                TRY(runner_queue(r, runs.run[k], (uint32_t)part, DGL_PHASE_DECODE));
                if (k == 0 && !masks_first && is_masked(d)) {
                    TRY(gl_flush(r->dev->gl));
                    TRY(write_masks(d, burst));
                }
            }
        }
        if (report)
            TRY(runner_queue(r, runs.run[runs.count], 1, DGL_PHASE_DECODE));
    }
    const struct gl_range at = st->memory.state[report ? BUF_REPORT : BUF_IDS];
    const uint64_t first = report ? 0 : (uint64_t)(d->slot[0].g->s->seq.len + d->steps + 1) * 4;
    const int32_t words = report ? burst->rows * OPLIST_REPORT_WORDS : steps;
    TRY(gl_readback_begin(r->dev->gl, at.buffer, at.offset + first, (uint32_t)words * 4,
                          &burst->ticket));
    burst->steps = steps;
    burst->profiled = r->profile != NULL;
    burst->persistent = runs.persistent;
    burst->queued_ns = dgl_now_ns();
    d->count++;
    d->steps += steps;
done:
    return status;
}

enum dgl_status decoder_recover(struct decoder *d, struct recipe recipe, bool given_up)
{
    const struct steps steps = steps_of(d, recipe, (int32_t)d->state->num_rows);
    decoder_drop(d);
    if (d->slots == 1)
        d->slot[0].g->given_up = true;
    return executor_recover(&steps, given_up);
}

enum dgl_status decoder_take(struct decoder *d, struct decoder_news *news, int32_t *count)
{
    const struct burst burst = d->burst[0];
    struct dgl_device *dev = pass_state_dev(d->state);
    struct profile *profile = d->state->runner.profile;
    uint32_t report[DGL_STEP_SEQS][OPLIST_REPORT_WORDS];
    const uint64_t steps = (uint64_t)burst.steps;
    const bool one = d->slots == 1;
    assert(d->count > 0);
    *count = 0;
    d->count--;
    d->steps -= burst.steps;
    memmove(d->burst, d->burst + 1, (size_t)d->count * sizeof(burst));
    /* A burst starts when it is queued and the one before it has finished. */
    const uint64_t begun = burst.queued_ns > d->read_ns ? burst.queued_ns : d->read_ns;
    /* Sleep until shortly before the expected end. The waits of some drivers keep a processor busy:
     * NVIDIA's spins until the fence is reached. */
    const uint64_t wake_ns = begun + steps * d->step_ns;
    for (uint64_t now = dgl_now_ns();
         one && now + EARLY_NS < wake_ns && !runner_is_cancelled(&d->state->runner);
         now = dgl_now_ns()) {
        const uint64_t left = wake_ns - EARLY_NS - now;
        nanosleep(&(struct timespec){.tv_nsec = (long)(left < SLEEP_NS ? left : SLEEP_NS)}, NULL);
    }
    const bool overslept = one && d->step_ns > 0 && gl_readback_is_done(dev->gl, burst.ticket);
    enum dgl_status status =
        gl_readback_end(dev->gl, burst.ticket, one ? (void *)news->ids : (void *)report);
    d->read_ns = dgl_now_ns();
    d->step_ns = (d->read_ns - begun) / steps;
    if (overslept) /* the true step time is shorter, but unknown */
        d->step_ns -= d->step_ns / 8;
    TRY(status);
    if (burst.persistent.shapes.count) {
        /* A complete dispatch adds at least one token to each row. If no member is left, this is
         * uncertain. */
        bool known = one, given_up = one && executor_is_aborted(news->ids, burst.steps);
        for (int32_t r = 0; r < burst.rows && !one; r++) {
            const struct generation *g = burst.row[r];
            known |= g != NULL;
            given_up |= executor_is_aborted((const int32_t *)report[r] + 1, burst.steps) ||
                        (g && report[r][0] == (uint32_t)g->s->seq.len);
        }
        if (given_up || !known) {
            TRY(decoder_recover(d, burst.persistent, given_up));
            goto done;
        }
    }
    for (int32_t r = 0; r < burst.rows; r++) {
        struct decoder_news *n = &news[*count];
        n->g = burst.row[r];
        n->count = burst.steps;
        if (!n->g)
            continue;
        ++*count;
        if (one)
            break;
        const int32_t from = n->g->s->seq.len;
        n->count = (int32_t)(report[r][0] - (uint32_t)from);
        if (n->count < 1 || n->count > burst.steps)
            return dgl_fail(dev->log, DGL_ERR_GPU,
                            "%s took a sequence from position %d to %u in %d steps",
                            dev->info.renderer, from, report[r][0], burst.steps);
        for (int32_t i = 0; i < n->count; i++)
            n->ids[i] = (int32_t)report[r][n->count - i];
    }
    if (profile && !burst.profiled) { /* queued before the profile began */
        profile->step_end_ns = d->read_ns;
    } else if (profile) {
        d->step.readback_ns = dgl_now_ns() - d->done_ns;
        TRY(profile_step(profile, d->step));
    }
done:
    return status;
}
