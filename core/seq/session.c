/* A session: its life, its calls, and the KV pages of its sequence. */
#include "core/seq/session.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/seq/score.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static struct dgl_session *session_of(const struct model_user *user)
{
    return (struct dgl_session *)((const char *)user - offsetof(struct dgl_session, state.user));
}

static void drop_memory(struct model_user *user)
{
    struct dgl_session *s = session_of(user);
    runner_clear(&s->state.runner);
    kv_cache_leave(&s->model->shard->kv, &s->seq.pages);
    pass_state_drop(&s->state);
}

/* Allocates the session's device memory and joins the KV cache. */
static enum dgl_status make_memory(struct model_user *user)
{
    struct dgl_session *s = session_of(user);
    struct dgl_model *m = s->model;
    const uint32_t pages = plan_kv_pages(s->seq.context);
    enum dgl_status status;
    TRY(pass_state_make(&s->state));
    TRY(s->seq.pooled
            ? kv_cache_join_pooled(&m->shard->kv, pages, &s->seq.pages)
            : kv_cache_join(&m->shard->kv, pages, shard_memory_left(m->shard), &s->seq.pages));
    s->seq.pages.root = kv_prefix_scoped(m->shard->kv.root, s->seq.scope);
    s->state.generation = model_generation(m);
    s->seq.adjust.head_dirty = s->seq.adjust.words != NULL;
    s->seq.adjust.filters_dirty = s->seq.adjust.words != NULL;
    s->seq.adjust.breakers_dirty = s->seq.adjust.breakers.len > 0;
done:
    return status;
}

/* Evaluates the session's tokens again after its memory was dropped. */
static enum dgl_status restore(struct model_user *user, enum dgl_status status)
{
    struct dgl_session *s = session_of(user);
    const int32_t held = s->seq.len;
    if (status != DGL_OK || s->state.runner.refuses) { /* no call may compute */
        sequence_trim(&s->seq, 0);
        return status;
    }
    s->seq.len = 0;
    s->seq.logits_valid = false;
    runner_begin_call(&s->state.runner);
    TRY(session_adopt(s, held, NULL));
    if (s->seq.len < held)
        TRY(session_eval(s, held));
    TRY(gl_finish(session_dev(s)->gl));
done:
    return status;
}

static const struct model_user_ops session_ops = {drop_memory, make_memory, restore};

/* ---- life ------------------------------------------------------------------------------------ */

enum dgl_status session_create(struct dgl_model *m, const struct dgl_session_params *p,
                               struct runner_runs *shared, struct dgl_session **out)
{
    struct dgl_device *dev = m->shard->dev;
    const struct plan *plan = &m->shard->engine->plan;
    const char *chunk_name = p->chunk_name ? p->chunk_name : "session chunk";
    const int32_t context = p->context ? p->context : m->info.context;
    const int32_t ubatch = p->chunk ? p->chunk : plan_default_rows(plan);
    const int32_t most = plan_most_rows(plan);
    struct gl_saved saved = {0};
    struct dgl_session *s = NULL;
    if (p->context < 0 || p->context > m->info.context)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "session context %d: the model was loaded for 1 to %d, 0 takes all of them",
                        p->context, m->info.context);
    if (p->chunk < 0 || p->chunk > most)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "%s %d: %s takes 1 to %d tokens per pass; without it one is chosen",
                        chunk_name, p->chunk, dev->info.renderer, most);
    /* A pass is never longer than the context. */
    if (p->chunk > DGL_STEP_ROWS && context > DGL_STEP_ROWS)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "%s %d: a pass takes at most %d tokens; without it one is chosen",
                        chunk_name, p->chunk, DGL_STEP_ROWS);
    enum dgl_status status = model_enter(m, &saved);
    if (status != DGL_OK)
        return status;
    s = dgl_new(struct dgl_session);
    TRY(s ? DGL_OK : dgl_fail_memory(dev->log, "session", sizeof(*s)));
    s->model = m;
    s->seq = (struct sequence){.context = context,
                               .share_prefix = p->share_prefix,
                               .pooled = shared != NULL,
                               .kv = &m->shard->kv,
                               .adjust.vocab = (uint32_t)m->info.vocab};
    s->state.context = context;
    s->state.slots = 1;
    s->state.ubatch = ubatch < context ? ubatch : context;
    s->auto_ubatch = p->chunk == 0;
    TRY(pass_state_init(&s->state, m, &session_ops, shared));
    s->state.runner.progress_cb = p->progress_cb;
    s->state.runner.progress_priv = p->progress_priv;
    s->seq.ids = dgl_new_array(int32_t, (size_t)context + 1);
    TRY(s->seq.ids ? DGL_OK : dgl_fail_memory(dev->log, "session", (uint64_t)context * 4));
    if (shared)
        TRY(adjust_reserve(&s->seq.adjust, dev->log));
    /* Attention reads all keys of a layer in one dispatch, which cannot be split. */
    const uint64_t limit = plan->device->dispatch_bytes, held = plan_kv_layer_bytes(plan, context);
    if (limit > 0 && held > limit)
        dgl_info(dev->log,
                 "a dispatch of attention may take longer than %d ms after %.0f tokens: limit the "
                 "context with -c",
                 (int)(PACE_BUDGET_NS / 1000000), (double)context * (double)limit / (double)held);
    if (!shared)
        TRY(shard_check_session_fits(m->shard, context, s->state.ubatch));
    TRY(make_memory(&s->state.user));
    TRY(executor_look(&s->state.runner, recipe_decode(SAMPLE_GREEDY, 0, true)));
    *out = s;
    s = NULL;
done:
    if (s)
        session_destroy(s);
    device_leave(dev, &saved);
    return status;
}

enum dgl_status session_copy(struct dgl_session *s, const struct dgl_session *from)
{
    const struct gl_range to = s->state.memory.state[BUF_LOGITS];
    const struct gl_range logits = from->state.memory.state[BUF_LOGITS];
    const uint64_t bytes = (uint64_t)from->seq.len * sizeof(*s->seq.ids);
    enum dgl_status status = DGL_OK;
    assert(s->seq.len == 0 && from->seq.len <= s->seq.context);
    if (s->state.rope_tokens != from->state.rope_tokens)
        TRY(pass_state_write_rope(&s->state, from->state.rope_tokens));
    if (from->seq.len > 0)
        TRY(pass_state_write(&s->state, BUF_IDS, 0, 0, from->seq.ids, bytes));
    if (from->seq.logits_valid)
        TRY(gl_buffer_copy(session_dev(s)->gl, logits.buffer, logits.offset, to.buffer, to.offset,
                           to.size));
    memcpy(s->seq.ids, from->seq.ids, bytes);
    kv_cache_fork(&s->model->shard->kv, &from->seq.pages, plan_kv_pages(from->seq.len),
                  &s->seq.pages);
    s->seq.len = from->seq.len;
    s->seq.logits_valid = from->seq.logits_valid;
done:
    return status;
}

void session_destroy(struct dgl_session *s)
{
    decoder_drop(&s->own);
    drop_memory(&s->state.user);
    pass_state_finish(&s->state);
    adjust_finish(&s->seq.adjust);
    free(s->seq.ids);
    free(s);
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum dgl_status session_enter(struct dgl_session *s, struct gl_saved *saved)
{
    struct dgl_device *dev = session_dev(s);
    enum dgl_status status = model_enter(s->model, saved);
    if (status != DGL_OK)
        return status;
    status = pass_state_follow(&s->state);
    if (status != DGL_OK) {
        device_leave(dev, saved);
        return status;
    }
    runner_begin_call(&s->state.runner);
    gl_device_set_stop(dev->gl, &s->state.runner.cancel);
    return DGL_OK;
}

enum dgl_status session_leave(struct dgl_session *s, const struct gl_saved *saved, const char *what,
                              enum dgl_status status)
{
    struct dgl_device *dev = session_dev(s);
    gl_device_set_stop(dev->gl, NULL);
    device_leave(dev, saved);
    return status == DGL_ERR_CANCELLED && what
               ? dgl_fail(dev->log, status, "%s was cancelled", what)
               : status;
}

bool session_is_cancelled(const struct dgl_session *s)
{
    return runner_is_cancelled(&s->state.runner);
}

/* ---- pages ----------------------------------------------------------------------------------- */

enum dgl_status session_reserve(struct dgl_session *s, int32_t tokens)
{
    enum dgl_status status;
    TRY(sequence_reserve(&s->seq, tokens));
    TRY(pass_state_follow(&s->state));
    TRY(pass_state_write_pages(&s->state, 0, &s->seq.pages));
done:
    return status;
}

enum dgl_status session_adopt(struct dgl_session *s, int32_t count, int32_t *adopted)
{
    struct sequence *seq = &s->seq;
    const int32_t from = seq->len / DGL_KV_PAGE * DGL_KV_PAGE, had = seq->len;
    if (adopted)
        *adopted = 0;
    if (!seq->share_prefix || !pass_state_rope_holds(&s->state, 0))
        return DGL_OK;
    uint32_t found = kv_prefix_find(seq->kv, &seq->pages, seq->ids, from, count - 1);
    if (from + (int32_t)found * DGL_KV_PAGE <= had)
        return DGL_OK;
    found = kv_prefix_reuse(seq->kv, &seq->pages, seq->ids, from, count - 1);
    const int32_t to = from + (int32_t)found * DGL_KV_PAGE;
    if (to <= had) { /* fewer than found, because the pool's pages have run out */
        sequence_trim(seq, to);
        return DGL_OK;
    }
    seq->len = to;
    seq->logits_valid = false;
    session_dev(s)->prefix_hit_tokens += (uint64_t)(to - had);
    if (adopted)
        *adopted = to - had;
    return pass_state_write(&s->state, BUF_IDS, 0, (uint64_t)from * 4, seq->ids + from,
                            (uint64_t)(to - from) * 4);
}

void session_advance(struct dgl_session *s, int32_t tokens)
{
    struct sequence *seq = &s->seq;
    if (seq->share_prefix && pass_state_rope_holds(&s->state, 0))
        kv_prefix_note(seq->kv, &seq->pages, seq->ids, seq->len, seq->len + tokens);
    seq->len += tokens;
    session_dev(s)->tokens += (uint64_t)tokens;
    seq->logits_valid = false;
}

enum dgl_status session_expect(struct dgl_session *s, int32_t tokens)
{
    if (pass_state_rope_holds(&s->state, tokens))
        return DGL_OK;
    sequence_trim(&s->seq, 0);
    return pass_state_write_rope(&s->state, tokens);
}

/* ---- buffers --------------------------------------------------------------------------------- */

enum dgl_status session_write_adjust(struct dgl_session *s, const struct dgl_sampling *sampling,
                                     unsigned changes, const struct session_bans *bans)
{
    struct adjust *a = &s->seq.adjust;
    const struct dgl_model_info *info = &s->model->info;
    const struct dgl_tokenizer *tok = s->model->tok;
    const uint64_t filters = oplist_filters_at(a->vocab);
    enum dgl_status status = DGL_OK;
    if (!changes)
        return DGL_OK;
    for (const struct model_user *user = s->model->users; user; user = user->next)
        if (user->ops == &session_ops && sampling_has_dry(sampling))
            adjust_share(a, &session_of(user)->seq.adjust, tok, sampling);
    TRY(adjust_fill(a, session_dev(s)->log, tok, sampling, changes));
    if (sampling->min_tokens > 0 && bans) {
        for (size_t i = 0; i < info->num_stop_ids && !bans->ignore_eos; i++)
            TRY(adjust_ban(a, session_dev(s)->log, &info->stop_ids[i].id, 1, bans->until));
        TRY(adjust_ban(a, session_dev(s)->log, bans->ids, bans->count, bans->until));
    }
    if (a->head_dirty)
        TRY(pass_state_write(&s->state, BUF_ADJUST, 0, 0, a->words, ADJUST_MARKS * 4));
    a->head_dirty = false;
    if (a->breakers_dirty)
        TRY(pass_state_write(&s->state, BUF_ADJUST, 0, ADJUST_MARKS * 4, a->words + ADJUST_MARKS,
                             (filters - ADJUST_MARKS) * 4));
    a->breakers_dirty = false;
    if (a->filters_dirty)
        TRY(pass_state_write(&s->state, BUF_ADJUST, 0, filters * 4, a->words + filters,
                             FILTER_WORDS * 4));
    a->filters_dirty = false;
done:
    return status;
}

enum dgl_status session_read_ids(struct dgl_session *s, int32_t pos, int32_t count, int32_t *ids)
{
    struct gl_device *gl = session_dev(s)->gl;
    struct gl_ticket ticket;
    const struct gl_range at = s->state.memory.state[BUF_IDS];
    enum dgl_status status = gl_readback_begin(gl, at.buffer, at.offset + (uint64_t)pos * 4,
                                               (uint32_t)count * 4, &ticket);
    return status == DGL_OK ? gl_readback_end(gl, ticket, ids) : status;
}

int32_t session_readback_interval(const struct dgl_session *s)
{
    return session_dev(s)->info.software ? 1 : DGL_READBACK_INTERVAL;
}
