/* The state of passes: its device memory, and the compilation of its runs. */
#include "core/seq/pass_state.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/kernel_records.h"
#include "core/model/trust.h"
#include "core/plan/rope_table.h"
#include "loader/desc/rope_freq.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static struct pass_state *state_of(const struct model_user *user)
{
    return (struct pass_state *)((const char *)user - offsetof(struct pass_state, user));
}

static void drop_memory(struct model_user *user)
{
    pass_state_drop(state_of(user));
}

static enum dgl_status make_memory(struct model_user *user)
{
    return pass_state_make(state_of(user));
}

/* The owner of the state restores its contents. */
static enum dgl_status restore(struct model_user *user, enum dgl_status status)
{
    return status == DGL_OK ? gl_finish(pass_state_dev(state_of(user))->gl) : status;
}

enum dgl_status pass_state_init(struct pass_state *st, struct dgl_model *m,
                                const struct model_user_ops *ops, struct runner_runs *shared)
{
    static const struct model_user_ops own = {drop_memory, make_memory, restore};
    st->model = m;
    st->runner = (struct runner){.dev = m->shard->dev,
                                 .engine = &m->shard->engine,
                                 .pace = &m->shard->pace,
                                 .memory = &st->memory,
                                 .runs = shared ? shared : &st->runner.own};
    st->user =
        (struct model_user){.ops = ops ? ops : &own, .next = m->users, .runner = &st->runner};
    m->users = &st->user;
    st->rows = dgl_new_array(struct pass_row, (size_t)st->ubatch);
    return st->rows ? DGL_OK
                    : dgl_fail_memory(m->log, "rows of a pass",
                                      (uint64_t)st->ubatch * sizeof(*st->rows));
}

void pass_state_finish(struct pass_state *st)
{
    struct model_user **link = &st->model->users;
    while (*link && *link != &st->user)
        link = &(*link)->next;
    if (*link)
        *link = st->user.next;
    pass_state_drop(st);
    free(st->rows);
}

static void forget_rows(struct pass_state *st)
{
    st->table_rows = 0;
    memset(st->table, 0xff, sizeof(st->table));
}

enum dgl_status pass_state_make(struct pass_state *st)
{
    struct dgl_model *m = st->model;
    struct dgl_device *dev = m->shard->dev;
    const struct plan *plan = pass_state_plan(st);
    const struct gl_range *state = st->memory.state;
    /* BUF_STOPS: the number of stop ids, then the ids. */
    uint32_t stops[1 + MODEL_MAX_STOP_IDS] = {(uint32_t)m->info.num_stop_ids};
    enum dgl_status status;
    for (size_t i = 0; i < m->info.num_stop_ids; i++)
        stops[1 + i] = (uint32_t)m->info.stop_ids[i].id;
    TRY(st->slots == 1 ? workspace_acquire(&m->shard->workspace, dev, plan, st->ubatch)
                       : workspace_acquire_batch(&m->shard->workspace, dev, plan, st->slots));
    st->workspaces++;
    if (st->slots > 1 && st->ubatch > st->slots) {
        TRY(workspace_acquire(&m->shard->workspace, dev, plan, st->ubatch));
        st->workspaces++;
    }
    st->memory.weights = &m->shard->buffers;
    st->memory.workspace = &m->shard->workspace;
    st->memory.kv = &m->shard->kv;
    TRY(memory_init_state(&st->memory, dev, plan, st->context, st->slots));
    TRY(gl_buffer_zero(dev->gl, state[BUF_ARRIVED].buffer, state[BUF_ARRIVED].offset,
                       state[BUF_ARRIVED].size));
    TRY(gl_buffer_zero(dev->gl, state[BUF_PAGES].buffer, state[BUF_PAGES].offset,
                       sizeof(struct dgl_kv_table)));
    forget_rows(st);
    TRY(gl_buffer_write(dev->gl, state[BUF_STOPS].buffer, state[BUF_STOPS].offset, stops,
                        sizeof(stops)));
    TRY(pass_state_write_rope(st, 0));
    st->generation = model_generation(m);
done:
    return status;
}

void pass_state_drop(struct pass_state *st)
{
    runner_clear(&st->runner);
    memory_finish_state(&st->memory, pass_state_dev(st));
    for (; st->workspaces > 0; st->workspaces--)
        workspace_release(&st->model->shard->workspace, pass_state_dev(st));
}

/* ---- generations ----------------------------------------------------------------------------- */

bool pass_state_is_current(const struct pass_state *st)
{
    return st->generation == model_generation(st->model);
}

enum dgl_status pass_state_follow(struct pass_state *st)
{
    const struct dgl_model *m = st->model;
    const uint32_t generation = model_generation(m);
    /* changing the kernels may have failed during a call */
    enum dgl_status status = shard_check(m->shard, m->log);
    if (status == DGL_OK && st->generation != generation)
        status = memory_fit_plan(&st->memory, m->shard->dev, pass_state_plan(st));
    if (status != DGL_OK)
        return status;
    if (st->runner.runs->generation != generation)
        runner_clear(&st->runner);
    st->runner.runs->generation = st->generation = generation;
    return DGL_OK;
}

/* ---- compilation ----------------------------------------------------------------------------- */

static bool go_on(void *priv)
{
    return !runner_is_cancelled(priv);
}

static bool compile_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    const struct runner *r = priv;
    bool more = !r->progress_cb || r->progress_cb(r->progress_priv, what, done, total);
    return more && go_on(priv);
}

enum dgl_status pass_state_compile(struct pass_state *st, struct shape_set shapes)
{
    const struct gl_compile how = {
        .machine_code = true, .progress_cb = compile_progress, .progress_priv = &st->runner};
    struct dgl_model *m = st->model;
    enum dgl_status status;
    bool replanned;
    do {
        replanned = false;
        for (uint32_t i = 0; i < shapes.count; i++) /* a new plan has no bodies of batches */
            TRY(plan_list(&m->shard->engine->plan, shapes.of[i]));
        status = exec_compile(&m->shard->engine->programs, &m->shard->engine->plan, shapes, &how);
        if (status == DGL_ERR_KERNEL && m->shard->engine->programs.exceeded) {
            /* Replan without a built-in kernel that exceeded the compiler's limits. */
            const struct kernel_use *use = m->shard->engine->programs.exceeded;
            TRY(kernel_records_add_unfit(m->shard->dev, use->choice.kernel->name));
            TRY(model_replan(m));
            replanned = true;
        } else {
            TRY(status);
            TRY(trust_programs(m->shard, shapes, go_on, &st->runner, &replanned));
        }
        if (replanned)
            TRY(pass_state_follow(st));
    } while (replanned);
done:
    return status;
}

/* ---- contents -------------------------------------------------------------------------------- */

struct gl_range pass_state_part(const struct pass_state *st, enum plan_buffer buffer, int32_t slot)
{
    const struct gl_range all = st->memory.state[buffer];
    const uint64_t size = all.size / (uint64_t)st->slots;
    return (struct gl_range){all.buffer, all.offset + (uint64_t)slot * size, size};
}

enum dgl_status pass_state_write(const struct pass_state *st, enum plan_buffer buffer, int32_t slot,
                                 uint64_t at, const void *bytes, uint64_t size)
{
    const struct gl_range part = pass_state_part(st, buffer, slot);
    return gl_buffer_write(pass_state_dev(st)->gl, part.buffer, part.offset + at, bytes, size);
}

enum dgl_status pass_state_read(const struct pass_state *st, enum plan_buffer buffer, int32_t slot,
                                uint64_t at, void *bytes, uint64_t size)
{
    const struct gl_range part = pass_state_part(st, buffer, slot);
    return gl_buffer_read(pass_state_dev(st)->gl, part.buffer, part.offset + at, bytes, size);
}

enum dgl_status pass_state_put(const struct pass_state *st, uint32_t seq,
                               const struct dgl_step *step)
{
    assert(seq < (uint32_t)st->slots);
    return pass_state_write(st, BUF_STEP, 0,
                            offsetof(struct dgl_step_table, seq) + seq * sizeof(*step), step,
                            sizeof(*step));
}

enum dgl_status pass_state_set_rows(struct pass_state *st, const struct pass_row *rows,
                                    uint32_t num_rows)
{
    const uint32_t head[4] = {
        num_rows, (uint32_t)st->slots,
        st->slots > 1 ? (uint32_t)(pass_state_part(st, BUF_IDS, 0).size / 4) : 0,
        st->slots > 1 ? (uint32_t)(pass_state_part(st, BUF_ADJUST, 0).size / 4) : 0};
    uint32_t changed = num_rows; /* first row that differs on the device */
    enum dgl_status status = DGL_OK;
    assert(num_rows > 0 && num_rows <= DGL_STEP_ROWS);
    for (uint32_t i = num_rows; i-- > 0;) {
        const uint32_t word = DGL_STEP_ROW(rows[i].seq, rows[i].offset);
        assert(rows[i].seq < (uint32_t)st->slots && rows[i].offset < 1u << 16);
        if (st->table[i] != word)
            changed = i;
        st->table[i] = word;
    }
    if (st->table_rows != num_rows)
        TRY(pass_state_write(st, BUF_STEP, 0, 0, head, sizeof(head)));
    if (changed < num_rows)
        TRY(pass_state_write(st, BUF_STEP, 0, offsetof(struct dgl_step_table, row) + changed * 4ull,
                             &st->table[changed], (num_rows - changed) * 4ull));
    st->table_rows = num_rows;
done:
    if (status != DGL_OK)
        forget_rows(st);
    return status;
}

enum dgl_status pass_state_write_pages(const struct pass_state *st, uint32_t kv_first,
                                       struct kv_pages *pages)
{
    const struct kv_cache *kv = &st->model->shard->kv;
    /* Two entries share a word. */
    const uint32_t first = pages->num_known & ~1u, end = (pages->count + 1) & ~1u;
    enum dgl_status status = DGL_OK;
    for (uint32_t g = 0; g < kv->num_groups && pages->num_known < pages->count; g++)
        TRY(pass_state_write(st, BUF_PAGES, 0, (g * kv->entries + kv_first + first) * 2ull,
                             pages->page[g] + first, (end - first) * 2ull));
    pages->num_known = pages->count;
done:
    return status;
}

enum dgl_status pass_state_add(struct pass_state *st, const struct dgl_step *step,
                               const struct pass_row *row)
{
    const uint32_t begin = (st->num_rows + PASS_TILE - 1) / PASS_TILE * PASS_TILE;
    if (begin + step->tokens > (uint32_t)st->ubatch)
        return DGL_ERR_UNSUPPORTED;
    for (; st->num_rows < begin; st->num_rows++) {
        const struct pass_row *before = &st->rows[st->num_rows - 1];
        st->rows[st->num_rows] =
            (struct pass_row){.seq = before->seq, .offset = before->offset + 1};
    }
    for (uint32_t i = 0; i < step->tokens; i++) {
        struct pass_row *r = &st->rows[st->num_rows++];
        *r = *row;
        r->offset = i;
        r->flags &= i + 1 == step->tokens ? ~0u : ROW_SCORE | ROW_HIDDEN;
    }
    return pass_state_put(st, row->seq, step);
}

enum dgl_status pass_state_write_step(struct pass_state *st, const struct dgl_step *step,
                                      uint32_t flags)
{
    enum dgl_status status;
    st->num_rows = 0;
    TRY(pass_state_add(st, step, &(struct pass_row){.flags = flags}));
    TRY(pass_state_set_rows(st, st->rows, st->num_rows));
done:
    return status;
}

enum dgl_status pass_state_body(struct pass_state *st, struct exec_run **body)
{
    const int32_t rows = (int32_t)st->num_rows;
    enum dgl_status status;
    TRY(pass_state_set_rows(st, st->rows, st->num_rows));
    TRY(runner_run(&st->runner, recipe_of(plan_pass_shape(pass_state_plan(st), rows)), body));
    TRY(exec_run_set_tokens(*body, rows));
done:
    return status;
}

enum dgl_status pass_state_queue_results(struct pass_state *st, int32_t held)
{
    struct runner *r = &st->runner;
    const uint32_t all = st->rows[st->num_rows - 1].flags & (ROW_SCORE | ROW_HIDDEN);
    struct recipe recipe = recipe_of(PASS_HIDDEN);
    struct exec_run *run;
    enum dgl_status status = DGL_OK;
    if (all & ROW_SCORE)
        recipe.shapes = shapes_add(recipe.shapes, PASS_SCORE);
    if (all) {
        TRY(runner_run(r, recipe, &run));
        TRY(exec_run_set_tokens(run, (int32_t)st->num_rows));
        TRY(runner_submit(r, run, DGL_PHASE_PREFILL, held));
    }
    for (uint32_t i = 0; i < st->num_rows; i++) {
        const struct pass_row row = st->rows[i];
        if (!(row.flags & ROW_LOGITS))
            continue;
        /* The head reads the last row of the table, the sampler the sequence of row 0. */
        TRY(pass_state_set_rows(st, st->rows, i + 1));
        TRY(runner_run(r, recipe_of(PASS_HEAD), &run));
        TRY(runner_submit(r, run, DGL_PHASE_PREFILL, held));
        if (!(row.flags & ROW_SAMPLE))
            continue;
        TRY(pass_state_set_rows(st, &row, 1));
        TRY(runner_run(r, recipe_sampling(row.sampler, row.changes), &run));
        TRY(runner_submit(r, run, DGL_PHASE_SAMPLE, held));
    }
done:
    return status;
}

bool pass_state_rope_holds(const struct pass_state *st, int32_t tokens)
{
    const struct model_desc *desc = pass_state_plan(st)->desc;
    for (int32_t set = 0; set < ROPE_SETS; set++)
        if (st->memory.state[BUF_ROPE_GLOBAL + set].size &&
            rope_freq_changes(&desc->rope[set], st->rope_tokens, tokens))
            return false;
    return true;
}

enum dgl_status pass_state_write_rope(struct pass_state *st, int32_t tokens)
{
    struct dgl_device *dev = pass_state_dev(st);
    const struct model_desc *desc = pass_state_plan(st)->desc;
    enum dgl_status status = DGL_OK;
    for (int32_t set = 0; set < ROPE_SETS && status == DGL_OK; set++) {
        struct gl_range range = st->memory.state[BUF_ROPE_GLOBAL + set];
        if (range.size == 0)
            continue;
        float *table = dgl_calloc(1, range.size);
        if (table && rope_table_fill(&desc->rope[set], st->context, tokens, table))
            status = gl_buffer_write(dev->gl, range.buffer, range.offset, table, range.size);
        else
            status = dgl_fail_memory(dev->log, "rotary table", range.size);
        free(table);
    }
    st->rope_tokens = tokens;
    return status;
}
