/* One sequence: its memory, reuse of prefixes, and passes over up to `ubatch` tokens. */
#include "core/seq/session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/kernel_records.h"
#include "core/plan/rope_table.h"
#include "core/exec/executor.h"
#include "core/seq/prefill.h"
#include "core/model/trust.h"
#include "loader/desc/rope_freq.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* Layout: uint count, then the ids. */
static enum dgl_status write_stop_ids(struct dgl_session *s)
{
    const struct dgl_model_info *info = &s->model->info;
    uint32_t words[1 + MODEL_MAX_STOP_IDS] = {(uint32_t)info->num_stop_ids};
    for (size_t i = 0; i < info->num_stop_ids; i++)
        words[1 + i] = (uint32_t)info->stop_ids[i].id;
    return gl_buffer_write(s->model->shard->dev->gl, s->memory.state[BUF_STOPS].buffer,
                           s->memory.state[BUF_STOPS].offset, words, sizeof(words));
}

enum dgl_status session_write_rope(struct dgl_session *s, int32_t tokens)
{
    struct dgl_device *dev = s->model->shard->dev;
    const struct model_desc *desc = s->model->shard->engine->plan.desc;
    enum dgl_status status = DGL_OK;
    for (int32_t set = 0; set < ROPE_SETS && status == DGL_OK; set++) {
        struct gl_range range = s->memory.state[BUF_ROPE_GLOBAL + set];
        if (range.size == 0)
            continue;
        float *table = dgl_calloc(1, range.size);
        if (table && rope_table_fill(&desc->rope[set], s->context, tokens, table))
            status = gl_buffer_write(dev->gl, range.buffer, range.offset, table, range.size);
        else
            status = dgl_fail_memory(dev->log, "rotary table", range.size);
        free(table);
    }
    s->rope_tokens = tokens;
    return status;
}

/* Allocates the session's device memory and joins the KV cache. */
static enum dgl_status make_memory(struct dgl_session *s)
{
    struct dgl_model *m = s->model;
    struct dgl_device *dev = m->shard->dev;
    const struct plan *plan = &m->shard->engine->plan;
    const struct gl_range *state = s->memory.state;
    const uint32_t pages = plan_kv_pages(s->context);
    enum dgl_status status;
    TRY(s->sequences == 1 ? workspace_acquire(&m->shard->workspace, dev, plan, s->ubatch)
                          : workspace_acquire_batch(&m->shard->workspace, dev, plan, s->sequences));
    s->has_workspace = true;
    s->memory.weights = &m->shard->buffers;
    s->memory.workspace = &m->shard->workspace;
    s->memory.kv = &m->shard->kv;
    TRY(memory_init_state(&s->memory, dev, plan, s->context, s->sequences));
    TRY(gl_buffer_zero(dev->gl, state[BUF_ARRIVED].buffer, state[BUF_ARRIVED].offset,
                       state[BUF_ARRIVED].size));
    TRY(gl_buffer_zero(dev->gl, state[BUF_PAGES].buffer, state[BUF_PAGES].offset,
                       sizeof(struct dgl_kv_table)));
    if (s->sequences == 1)
        TRY(s->guest ? kv_cache_join_pooled(&m->shard->kv, pages, &s->pages)
                     : kv_cache_join(&m->shard->kv, pages, shard_memory_left(m->shard), &s->pages));
    s->generation = model_generation(m);
    *s->steps = (struct step_table){.range = state[BUF_STEP]};
    s->adjust.head_dirty = s->adjust.words != NULL;
    s->adjust.breakers_dirty = s->adjust.has_breakers;
    TRY(write_stop_ids(s));
    TRY(session_write_rope(s, 0));
done:
    return status;
}

static void drop_memory(struct dgl_session *s)
{
    struct dgl_device *dev = s->model->shard->dev;
    runner_clear(&s->runner);
    kv_cache_leave(&s->model->shard->kv, &s->pages);
    memory_finish_state(&s->memory, dev);
    if (s->has_workspace)
        workspace_release(&s->model->shard->workspace, dev);
    s->has_workspace = false;
}

/* Evaluates the session's tokens again after its memory was dropped. */
static enum dgl_status restore(struct dgl_session *s)
{
    const int32_t held = s->len;
    s->len = 0;
    s->logits_valid = false;
    atomic_store(&s->cancel, false);
    enum dgl_status status = session_adopt(s, held, NULL);
    if (status == DGL_OK && s->len < held)
        status = session_eval(s, held);
    return status == DGL_OK ? gl_finish(s->model->shard->dev->gl) : status;
}

static void drop_all(struct dgl_model *m)
{
    for (struct dgl_session *s = m->sessions; s; s = s->next)
        drop_memory(s);
}

static enum dgl_status make_all(struct dgl_model *m)
{
    enum dgl_status status = DGL_OK;
    for (struct dgl_session *s = m->sessions; s && status == DGL_OK; s = s->next)
        status = make_memory(s);
    return status;
}

static enum dgl_status restore_all(struct dgl_model *m, enum dgl_status status)
{
    for (struct dgl_session *s = m->sessions; s; s = s->next) {
        if (status == DGL_OK)
            status = restore(s);
        else
            session_trim(s, 0);
    }
    return status;
}

static bool is_any_profiling(const struct dgl_model *m)
{
    const struct dgl_session *s = m->sessions;
    while (s && !s->runner.profile)
        s = s->next;
    return s != NULL;
}

static void add_to_model(struct dgl_session *s)
{
    static const struct model_sessions calls = {drop_all, make_all, restore_all, is_any_profiling};
    s->model->calls = &calls;
    s->next = s->model->sessions;
    s->model->sessions = s;
}

/* `shared` has the runs of all guests, or is NULL. */
static void init_runner(struct dgl_session *s, struct runner_runs *shared)
{
    struct dgl_model *m = s->model;
    s->runner = (struct runner){.dev = m->shard->dev,
                                .engine = &m->shard->engine,
                                .pace = &m->shard->pace,
                                .memory = &s->memory,
                                .runs = shared ? shared : &s->runner.own};
}

/* Initializes and allocates a session of one sequence. `s` must be zeroed except for its model, its
 * runner and `guest`. On failure, call session_destroy(). The caller must have entered the
 * device. */
static enum dgl_status session_init(struct dgl_session *s, const struct dgl_session_params *p)
{
    struct dgl_model *m = s->model;
    struct dgl_device *dev = m->shard->dev;
    const struct plan *plan = &m->shard->engine->plan;
    s->sequences = 1;
    s->context = p->context ? p->context : m->info.context;
    s->ubatch = p->chunk ? p->chunk : plan_default_rows(plan);
    s->ubatch = s->ubatch < s->context ? s->ubatch : s->context;
    s->paced = p->chunk == 0;
    /* Attention reads all keys of a layer in one dispatch, which cannot be split. */
    const uint64_t most = plan->device->dispatch_bytes,
                   held = plan_kv_layer_bytes(plan, s->context);
    if (most > 0 && held > most)
        dgl_info(dev->log,
                 "a dispatch of attention may take longer than %d ms after %.0f tokens: limit the "
                 "context with -c",
                 (int)(PACE_BUDGET_NS / 1000000), (double)s->context * (double)most / (double)held);
    s->shares = p->share_prefix;
    s->progress_cb = p->progress_cb;
    s->progress_priv = p->progress_priv;
    enum dgl_status status =
        s->guest ? DGL_OK : shard_check_session_fits(m->shard, s->context, s->ubatch);
    if (status != DGL_OK)
        return status;
    s->ids = dgl_new_array(int32_t, (size_t)s->context + 1);
    s->steps = dgl_new(struct step_table);
    s->rows = dgl_new_array(struct pass_row, (size_t)s->ubatch);
    add_to_model(s);
    s->adjust.vocab = (uint32_t)m->info.vocab;
    if (!s->ids || !s->steps || !s->rows)
        return dgl_fail_memory(dev->log, "session", (uint64_t)s->context * 4);
    status = s->guest ? adjust_reserve(&s->adjust, dev->log) : DGL_OK;
    if (status == DGL_OK)
        status = make_memory(s);
    return status == DGL_OK ? executor_look(&s->runner, recipe_decode(SAMPLE_GREEDY, 0, true))
                            : status;
}

enum dgl_status session_init_batch(struct dgl_session *s, const struct dgl_session_params *p,
                                   int32_t sequences)
{
    struct dgl_model *m = s->model;
    assert(sequences > 1 && sequences <= DGL_STEP_SEQS && p->context > 0);
    s->sequences = s->ubatch = sequences;
    s->context = p->context;
    s->progress_cb = p->progress_cb;
    s->progress_priv = p->progress_priv;
    s->steps = dgl_new(struct step_table);
    init_runner(s, NULL);
    add_to_model(s);
    if (!s->steps)
        return dgl_fail_memory(m->log, "step table", sizeof(*s->steps));
    return make_memory(s);
}

enum dgl_status session_create(struct dgl_model *m, const struct dgl_session_params *p,
                               struct runner_runs *shared, struct dgl_session **out)
{
    struct dgl_device *dev = m->shard->dev;
    struct gl_saved saved = {0};
    const char *chunk_name = p->chunk_name ? p->chunk_name : "session chunk";
    if (p->context < 0 || p->context > m->info.context)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "session context %d: the model was loaded for 1 to %d, 0 takes all of them",
                        p->context, m->info.context);
    int32_t most = plan_most_rows(&m->shard->engine->plan);
    if (p->chunk < 0 || p->chunk > most)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "%s %d: %s takes 1 to %d tokens per pass; without it one is chosen",
                        chunk_name, p->chunk, dev->info.renderer, most);
    /* A pass is never longer than the context. */
    int32_t context = p->context ? p->context : m->info.context;
    if (p->chunk > DGL_STEP_ROWS && context > DGL_STEP_ROWS)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "%s %d: a pass takes at most %d tokens; without it one is chosen",
                        chunk_name, p->chunk, DGL_STEP_ROWS);
    enum dgl_status status = model_enter(m, &saved);
    if (status != DGL_OK)
        return status;
    struct dgl_session *s = dgl_new(struct dgl_session);
    if (s) {
        s->model = m;
        s->guest = shared != NULL;
        init_runner(s, shared);
        status = session_init(s, p);
        if (status == DGL_OK)
            *out = s;
        else
            session_destroy(s);
    } else {
        status = dgl_fail_memory(dev->log, "session", sizeof(*s));
    }
    device_leave(dev, &saved);
    return status;
}

enum dgl_status session_copy(struct dgl_session *s, const struct dgl_session *from)
{
    struct gl_device *gl = s->model->shard->dev->gl;
    const struct gl_range ids = s->memory.state[BUF_IDS], to = s->memory.state[BUF_LOGITS];
    const struct gl_range logits = from->memory.state[BUF_LOGITS];
    enum dgl_status status = DGL_OK;
    assert(s->len == 0 && from->len <= s->context);
    if (s->rope_tokens != from->rope_tokens)
        status = session_write_rope(s, from->rope_tokens);
    if (status == DGL_OK && from->len > 0)
        status = gl_buffer_write(gl, ids.buffer, ids.offset, from->ids, (uint64_t)from->len * 4);
    if (status == DGL_OK && from->logits_valid)
        status = gl_buffer_copy(gl, logits.buffer, logits.offset, to.buffer, to.offset, to.size);
    if (status != DGL_OK)
        return status;
    memcpy(s->ids, from->ids, (size_t)from->len * sizeof(*s->ids));
    kv_cache_fork(&s->model->shard->kv, &from->pages, plan_kv_pages(from->len), &s->pages);
    s->len = from->len;
    s->logits_valid = from->logits_valid;
    return DGL_OK;
}

void session_destroy(struct dgl_session *s)
{
    struct dgl_session **link = &s->model->sessions;
    while (*link && *link != s)
        link = &(*link)->next;
    if (*link)
        *link = s->next;
    drop_memory(s);
    adjust_finish(&s->adjust);
    free(s->ids);
    free(s->steps);
    free(s->rows);
    free(s);
}

/* ---- state ----------------------------------------------------------------------------------- */

bool session_is_current(const struct dgl_session *s)
{
    return s->generation == model_generation(s->model);
}

enum dgl_status session_follow(struct dgl_session *s)
{
    const struct dgl_model *m = s->model;
    const uint32_t generation = model_generation(m);
    enum dgl_status status = DGL_OK;
    if (m->shard->lost != DGL_OK) /* changing the kernels failed during a call */
        return dgl_fail(m->log, m->shard->lost,
                        "%s has no weights any more: dgl_model_rebuild() brings them back",
                        m->info.path);
    if (s->generation != generation)
        status = memory_fit_plan(&s->memory, m->shard->dev, &m->shard->engine->plan);
    if (status != DGL_OK)
        return status;
    if (s->runner.runs->generation != generation)
        runner_clear(&s->runner);
    s->runner.runs->generation = s->generation = generation;
    return DGL_OK;
}

static uint32_t pages_of(const struct dgl_session *s, int32_t tokens)
{
    return plan_kv_pages(tokens < s->context ? tokens : s->context);
}

bool session_moves(const struct dgl_session *s, int32_t tokens)
{
    return kv_cache_moves(&s->model->shard->kv, &s->pages, pages_of(s, tokens));
}

bool session_may_reserve(const struct dgl_session *s, int32_t tokens)
{
    return !s->guest || kv_cache_lacks(&s->model->shard->kv, &s->pages, pages_of(s, tokens)) == 0;
}

enum dgl_status session_reserve(struct dgl_session *s, int32_t tokens)
{
    struct dgl_model *m = s->model;
    const struct gl_range table = s->memory.state[BUF_PAGES];
    enum dgl_status status = kv_cache_take(&m->shard->kv, &s->pages, pages_of(s, tokens));
    if (status == DGL_OK && s->len % DGL_KV_PAGE)
        status = kv_cache_own(&m->shard->kv, &s->pages, (uint32_t)(s->len / DGL_KV_PAGE));
    if (status == DGL_OK && !session_is_current(s))
        status = session_follow(s);
    /* Two entries share a word. */
    const uint32_t first = s->pages.num_known & ~1u, end = (s->pages.count + 1) & ~1u;
    if (status == DGL_OK && s->pages.num_known < s->pages.count)
        status = gl_buffer_write(m->shard->dev->gl, table.buffer, table.offset + first * 2ull,
                                 s->pages.page + first, (end - first) * 2ull);
    if (status == DGL_OK)
        s->pages.num_known = s->pages.count;
    return status;
}

enum dgl_status session_adopt(struct dgl_session *s, int32_t count, int32_t *adopted)
{
    struct dgl_model *m = s->model;
    struct kv_cache *kv = &m->shard->kv;
    const struct gl_range ids = s->memory.state[BUF_IDS];
    const int32_t from = s->len / DGL_KV_PAGE * DGL_KV_PAGE;
    if (adopted)
        *adopted = 0;
    if (!s->shares || !session_rope_holds(s, 0))
        return DGL_OK;
    uint32_t found = kv_prefix_find(kv, &s->pages, s->ids, from, count - 1);
    if (from + (int32_t)found * DGL_KV_PAGE <= s->len)
        return DGL_OK;
    found = kv_prefix_reuse(kv, &s->pages, s->ids, from, count - 1);
    const int32_t to = from + (int32_t)found * DGL_KV_PAGE, had = s->len;
    if (to <= had) { /* fewer than found, because the guest's pages have run out */
        session_trim(s, to);
        return DGL_OK;
    }
    s->len = to;
    s->logits_valid = false;
    m->shard->dev->prefix_hit_tokens += (uint64_t)(to - had);
    if (adopted)
        *adopted = to - had;
    return gl_buffer_write(m->shard->dev->gl, ids.buffer, ids.offset + (uint64_t)from * 4,
                           s->ids + from, (uint64_t)(to - from) * 4);
}

enum dgl_status session_enter(struct dgl_session *s, struct gl_saved *saved)
{
    struct dgl_model *m = s->model;
    enum dgl_status status = model_enter(m, saved);
    if (status != DGL_OK)
        return status;
    status = session_follow(s);
    if (status != DGL_OK) {
        device_leave(m->shard->dev, saved);
        return status;
    }
    atomic_store(&s->cancel, false);
    gl_device_set_stop(m->shard->dev->gl, &s->cancel);
    return DGL_OK;
}

enum dgl_status session_leave(struct dgl_session *s, const struct gl_saved *saved, const char *what,
                              enum dgl_status status)
{
    struct dgl_device *dev = s->model->shard->dev;
    gl_device_set_stop(dev->gl, NULL);
    device_leave(dev, saved);
    return status == DGL_ERR_CANCELLED && what
               ? dgl_fail(dev->log, status, "%s was cancelled", what)
               : status;
}

static bool compile_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct dgl_session *s = priv;
    bool go_on = !s->progress_cb || s->progress_cb(s->progress_priv, what, done, total);
    return go_on && !session_is_cancelled(s);
}

void session_cancel(struct dgl_session *s)
{
    atomic_store_explicit(&s->cancel, true, memory_order_relaxed);
}

bool session_is_cancelled(const struct dgl_session *s)
{
    return atomic_load_explicit(&s->cancel, memory_order_relaxed);
}

static bool go_on(void *priv)
{
    return !session_is_cancelled(priv);
}

/* Replans the model without a built-in kernel that exceeded the compiler's limits. */
static enum dgl_status do_without(struct dgl_session *s, const struct kernel_use *use)
{
    enum dgl_status status =
        kernel_records_add_unfit(s->model->shard->dev, use->choice.kernel->name);
    if (status == DGL_OK)
        status = model_replan(s->model);
    return status == DGL_OK ? session_follow(s) : status;
}

enum dgl_status session_compile(struct dgl_session *s, uint32_t segments)
{
    const struct gl_compile how = {
        .machine_code = true, .progress_cb = compile_progress, .progress_priv = s};
    struct dgl_model *m = s->model;
    enum dgl_status status;
    bool replanned = false;
    do {
        status = exec_compile(&m->shard->engine->programs, &m->shard->engine->plan, segments, &how);
        if (status == DGL_ERR_KERNEL && m->shard->engine->programs.exceeded) {
            status = do_without(s, m->shard->engine->programs.exceeded);
            replanned = true;
            continue;
        }
        if (status == DGL_OK)
            status = trust_programs(m->shard, segments, go_on, s, &replanned);
        if (status == DGL_OK && replanned)
            status = session_follow(s);
    } while (status == DGL_OK && replanned);
    return status;
}

void session_trim(struct dgl_session *s, int32_t len)
{
    if (len < s->len) {
        s->len = len < 0 ? 0 : len;
        s->logits_valid = false;
        session_trim_pages(s);
    }
}

void session_trim_pages(struct dgl_session *s)
{
    kv_cache_give(&s->model->shard->kv, &s->pages, plan_kv_pages(s->len));
}

bool session_rope_holds(const struct dgl_session *s, int32_t tokens)
{
    const struct model_desc *desc = s->model->shard->engine->plan.desc;
    for (int32_t set = 0; set < ROPE_SETS; set++)
        if (s->memory.state[BUF_ROPE_GLOBAL + set].size &&
            rope_freq_changes(&desc->rope[set], s->rope_tokens, tokens))
            return false;
    return true;
}

enum dgl_status session_expect(struct dgl_session *s, int32_t tokens)
{
    if (session_rope_holds(s, tokens))
        return DGL_OK;
    session_trim(s, 0);
    return session_write_rope(s, tokens);
}

enum dgl_status session_write_step(struct dgl_session *s, const struct dgl_step *step,
                                   uint32_t flags)
{
    for (uint32_t i = 0; i < step->tokens; i++)
        s->rows[i] = (struct pass_row){
            .pos = step->pos + i,
            .flags = i + 1 == step->tokens ? flags : flags & (ROW_SCORE | ROW_HIDDEN),
        };
    return step_table_write(s->steps, s->model->shard->dev, step, 1, s->rows, step->tokens);
}

enum dgl_status session_write_adjust(struct dgl_session *s, const struct dgl_sampling *sampling)
{
    struct adjust *a = &s->adjust;
    struct gl_device *gl = s->model->shard->dev->gl;
    const struct gl_range at = s->memory.state[BUF_ADJUST];
    if (!sampling_adjusts(sampling))
        return DGL_OK;
    const bool dry = sampling_has_dry(sampling);
    for (const struct dgl_session *o = s->model->sessions; o && dry; o = o->next)
        adjust_share(a, &o->adjust, s->model->tok, sampling);
    enum dgl_status status = adjust_fill(a, s->model->log, s->model->tok, sampling);
    if (status == DGL_OK && a->head_dirty)
        status = gl_buffer_write(gl, at.buffer, at.offset, a->words, ADJUST_MARKS * 4);
    a->head_dirty = a->head_dirty && status != DGL_OK;
    if (status == DGL_OK && a->breakers_dirty)
        status =
            gl_buffer_write(gl, at.buffer, at.offset + ADJUST_MARKS * 4, a->words + ADJUST_MARKS,
                            ((uint64_t)oplist_adjust_words(a->vocab) - ADJUST_MARKS) * 4);
    a->breakers_dirty = a->breakers_dirty && status != DGL_OK;
    return status;
}

enum dgl_status session_read_ids(struct dgl_session *s, int32_t pos, int32_t count, int32_t *ids)
{
    struct dgl_device *dev = s->model->shard->dev;
    struct gl_ticket ticket;
    const struct gl_range at = s->memory.state[BUF_IDS];
    enum dgl_status status = gl_readback_begin(dev->gl, at.buffer, at.offset + (uint64_t)pos * 4,
                                               (uint32_t)count * 4, &ticket);
    return status == DGL_OK ? gl_readback_end(dev->gl, ticket, ids) : status;
}

int32_t session_readback_interval(const struct dgl_session *s)
{
    return s->model->shard->dev->info.software ? 1 : DGL_READBACK_INTERVAL;
}
