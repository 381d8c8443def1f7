/* Passes over several sequences for the tuner. All sequences of the batch have the session's tokens
 * and share its pages, so their keys are cached better than in use. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/measure/tuner.h"

int32_t tuner_crowd_most(const struct tuner *t)
{
    struct dgl_model *m = t->s->model;
    struct plan *plan = &m->shard->engine->plan;
    const uint64_t left = shard_memory_left(m->shard);
    if (plan_add_batch(plan) != DGL_OK || plan->one_row)
        return 1;
    int32_t most = plan_batch_slots(plan, t->s->context, DGL_STEP_SEQS);
    for (; most > 1 && left; most /= 2) {
        uint64_t bytes[BUF_COUNT], sum = 0;
        plan_batch_bytes(plan, t->s->context, most, bytes);
        for (int i = 0; i < BUF_COUNT; i++)
            sum += bytes[i];
        if (sum <= left)
            break;
    }
    return most;
}

enum dgl_status tuner_crowd_begin(struct tuner *t)
{
    const struct dgl_session_params params = {.context = t->s->context,
                                              .progress_cb = t->s->progress_cb,
                                              .progress_priv = t->s->progress_priv};
    int32_t rows = 1;
    for (size_t i = 0; i < t->count; i++)
        for (uint32_t u = 0; u < t->targets[i].num_passes; u++)
            if (pass_is_crowd(&t->targets[i].pass[u]) && t->targets[i].pass[u].tokens > rows)
                rows = t->targets[i].pass[u].tokens;
    if (rows == 1)
        return DGL_OK;
    t->crowd = dgl_new(struct dgl_session);
    if (!t->crowd)
        return dgl_fail_memory(t->log, "sequences", sizeof(*t->crowd));
    t->crowd->model = t->s->model;
    return session_init_batch(t->crowd, &params, rows);
}

void tuner_crowd_end(struct tuner *t)
{
    if (t->crowd)
        session_destroy(t->crowd);
    t->crowd = NULL;
}

enum dgl_status tuner_crowd_write(struct tuner *t, const struct dgl_step *step, int32_t rows)
{
    struct gl_device *gl = t->s->model->shard->dev->gl;
    const struct memory *memory = &t->crowd->memory;
    const uint32_t slots = (uint32_t)t->crowd->sequences;
    struct dgl_step_table *table = dgl_new(struct dgl_step_table);
    if (!table)
        return dgl_fail_memory(t->log, "step table", sizeof(*table));
    assert(rows <= t->crowd->sequences);
    table->rows = (uint32_t)rows;
    table->seqs = slots;
    table->ids_stride = (uint32_t)(memory->state[BUF_IDS].size / slots / 4);
    table->adjust_stride = (uint32_t)(memory->state[BUF_ADJUST].size / slots / 4);
    for (int32_t i = 0; i < rows; i++) {
        table->seq[i] = *step;
        table->seq[i].seed_lo += (uint32_t)i;
        table->row[i] = DGL_STEP_ROW(i, 0);
    }
    enum dgl_status status = gl_buffer_write(gl, memory->state[BUF_STEP].buffer,
                                             memory->state[BUF_STEP].offset, table, sizeof(*table));
    free(table);
    return status;
}

enum dgl_status tuner_crowd_prepare(struct tuner *t, const struct target_pass *pass)
{
    struct dgl_session *s = t->s, *crowd = t->crowd;
    struct gl_device *gl = s->model->shard->dev->gl;
    const struct gl_range ids = crowd->memory.state[BUF_IDS];
    const struct gl_range pages = crowd->memory.state[BUF_PAGES];
    const uint64_t stride = ids.size / (uint64_t)crowd->sequences;
    const struct recipe body =
        recipe_of(plan_batch_body(&s->model->shard->engine->plan, pass->tokens));
    const struct dgl_step step = {.pos = (uint32_t)t->depth,
                                  .tokens = 1,
                                  .context = (uint32_t)crowd->context,
                                  .flags = DGL_STEP_IGNORE_EOS};
    struct exec_run *run = NULL;
    enum dgl_status status = DGL_OK;
    session_trim(s, t->depth);
    if (s->len < t->depth)
        TRY(session_eval(s, t->depth));
    TRY(session_reserve(s, t->depth + 1));
    TRY(session_follow(crowd));
    TRY(gl_buffer_write(gl, pages.buffer, pages.offset, s->pages.page,
                        ((s->pages.count + 1u) & ~1u) * sizeof(*s->pages.page)));
    for (int32_t i = 0; i < pass->tokens; i++)
        TRY(gl_buffer_write(gl, ids.buffer,
                            ids.offset + (uint64_t)i * stride + (uint64_t)t->depth * 4,
                            &t->ids[(size_t)i % t->num_ids], 4));
    TRY(tuner_crowd_write(t, &step, pass->tokens));
    TRY(session_compile(crowd, body.segments));
    TRY(runner_run(&crowd->runner, body, &run));
    TRY(exec_run_set_tokens(run, pass->tokens));
    status = runner_queue(&crowd->runner, run, 1, DGL_PHASE_DECODE);
done:
    return status;
}
