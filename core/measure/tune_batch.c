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
    int32_t most = plan_batch_slots(plan, t->s->seq.context, DGL_STEP_SEQS);
    for (; most > 1 && left; most /= 2) {
        uint64_t bytes[BUF_COUNT], sum = 0;
        plan_batch_bytes(plan, t->s->seq.context, most, bytes);
        for (int i = 0; i < BUF_COUNT; i++)
            sum += bytes[i];
        if (sum <= left)
            break;
    }
    return most;
}

enum dgl_status tuner_crowd_begin(struct tuner *t)
{
    struct dgl_session *s = t->s;
    int32_t rows = 1;
    enum dgl_status status;
    for (size_t i = 0; i < t->count; i++)
        for (uint32_t u = 0; u < t->targets[i].num_passes; u++)
            if (pass_is_crowd(&t->targets[i].pass[u]) && t->targets[i].pass[u].tokens > rows)
                rows = t->targets[i].pass[u].tokens;
    if (rows == 1)
        return DGL_OK;
    t->crowd = dgl_new(struct pass_state);
    if (!t->crowd)
        return dgl_fail_memory(t->log, "sequences", sizeof(*t->crowd));
    t->crowd->slots = t->crowd->ubatch = rows;
    t->crowd->context = s->seq.context;
    TRY(pass_state_init(t->crowd, s->model, NULL, NULL));
    t->crowd->runner.progress_cb = s->state.runner.progress_cb;
    t->crowd->runner.progress_priv = s->state.runner.progress_priv;
    TRY(pass_state_make(t->crowd));
done:
    return status;
}

void tuner_crowd_end(struct tuner *t)
{
    if (t->crowd)
        pass_state_finish(t->crowd);
    free(t->crowd);
    t->crowd = NULL;
}

enum dgl_status tuner_crowd_write(struct tuner *t, const struct dgl_step *step, int32_t rows)
{
    struct pass_state *crowd = t->crowd;
    struct dgl_step seeded = *step;
    enum dgl_status status;
    assert(rows <= crowd->slots);
    for (int32_t i = 0; i < rows; i++, seeded.seed_lo++) {
        crowd->rows[i] = (struct pass_row){.seq = (uint32_t)i};
        TRY(step_table_put(&crowd->steps, pass_state_dev(crowd), (uint32_t)i, &seeded));
    }
    TRY(step_table_set_rows(&crowd->steps, pass_state_dev(crowd), crowd->rows, (uint32_t)rows));
done:
    return status;
}

enum dgl_status tuner_crowd_prepare(struct tuner *t, const struct target_pass *pass)
{
    struct dgl_session *s = t->s;
    struct pass_state *crowd = t->crowd;
    const struct recipe body = recipe_of(plan_batch_shape(session_plan(s), pass->tokens));
    const struct dgl_step step = {.pos = (uint32_t)t->depth,
                                  .tokens = 1,
                                  .context = (uint32_t)crowd->context,
                                  .flags = DGL_STEP_IGNORE_EOS};
    struct exec_run *run = NULL;
    enum dgl_status status = DGL_OK;
    sequence_trim(&s->seq, t->depth);
    if (s->seq.len < t->depth)
        TRY(session_eval(s, t->depth));
    TRY(session_reserve(s, t->depth + 1));
    TRY(pass_state_follow(crowd));
    const struct kv_cache *kv = &s->model->shard->kv;
    for (uint32_t g = 0; g < kv->num_groups; g++)
        TRY(pass_state_write(crowd, BUF_PAGES, 0, g * kv->entries * 2ull, s->seq.pages.page[g],
                             ((s->seq.pages.count + 1u) & ~1u) * 2ull));
    for (int32_t i = 0; i < pass->tokens; i++)
        TRY(pass_state_write(crowd, BUF_IDS, i, (uint64_t)t->depth * 4,
                             &t->ids[(size_t)i % t->num_ids], 4));
    TRY(tuner_crowd_write(t, &step, pass->tokens));
    TRY(pass_state_compile(crowd, body.shapes));
    TRY(runner_run(&crowd->runner, body, &run));
    TRY(exec_run_set_tokens(run, pass->tokens));
    status = runner_queue(&crowd->runner, run, 1, DGL_PHASE_DECODE);
done:
    return status;
}
