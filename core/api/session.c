/* Public functions of sessions: check, enter, forward, leave. */
#include "core/seq/session.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/measure/measure.h"
#include "core/seq/generate.h"
#include "core/seq/score.h"

/* ---- life ------------------------------------------------------------------------------------ */

void dgl_session_estimate(const struct dgl_model *model, const struct dgl_session_params *params,
                          struct dgl_memory *out)
{
    int32_t context = params && params->context ? params->context : model->info.context;
    int32_t ubatch =
        params && params->chunk ? params->chunk : plan_default_rows(&model->shard->engine->plan);
    shard_estimate(model->shard, context, ubatch, out);
}

enum dgl_status dgl_session_create(struct dgl_model *model, const struct dgl_session_params *params,
                                   struct dgl_session **out)
{
    if (!out)
        return dgl_fail_no_out(model->log, "dgl_session_create");
    *out = NULL;
    return session_create(model, params ? params : &(struct dgl_session_params){0}, NULL, out);
}

enum dgl_status dgl_session_clone(struct dgl_session *session,
                                  const struct dgl_session_params *params, struct dgl_session **out)
{
    struct dgl_model *m = session->model;
    struct dgl_session_params p = params ? *params : (struct dgl_session_params){0};
    struct gl_saved saved = {0};
    if (!out)
        return dgl_fail_no_out(m->log, "dgl_session_clone");
    *out = NULL;
    p.context = p.context ? p.context : session->seq.context;
    if (!params) {
        p.chunk = session->auto_ubatch ? 0 : session->state.ubatch;
        p.share_prefix = session->seq.share_prefix;
    }
    if (p.context > 0 && p.context < session->seq.len)
        return dgl_fail(m->log, DGL_ERR_INVALID_ARG,
                        "a clone's context is %d tokens, the session holds %d: trim it first",
                        p.context, session->seq.len);
    struct dgl_session *s = NULL;
    enum dgl_status status = session_create(m, &p, NULL, &s);
    if (status == DGL_OK)
        status = model_enter(m, &saved);
    if (status == DGL_OK) {
        status = session_copy(s, session);
        device_leave(m->shard->dev, &saved);
    }
    if (status == DGL_OK)
        *out = s;
    else
        dgl_session_destroy(&s);
    return status;
}

void dgl_session_destroy(struct dgl_session **session)
{
    struct dgl_session *s = *session;
    *session = NULL;
    if (!s)
        return;
    struct dgl_device *dev = session_dev(s);
    struct gl_saved saved = {0};
    /* A lost device cannot be entered; its objects are gone and destroying them is harmless. */
    bool entered = gl_enter_to_destroy(dev->gl, &saved);
    session_destroy(s);
    if (entered)
        gl_leave(dev->gl, &saved);
}

void dgl_session_cancel(struct dgl_session *session)
{
    runner_cancel(&session->state.runner);
}

int32_t dgl_session_len(const struct dgl_session *session)
{
    return session->seq.len;
}

void dgl_session_passes(const struct dgl_session *session, struct dgl_pass_info *out)
{
    const struct dgl_model *m = session->model;
    const struct pace *pace = &m->shard->pace;
    *out = (struct dgl_pass_info){.most = session->state.ubatch,
                                  .tokens = session->state.ubatch,
                                  .timed_tokens = pace->layer.tokens,
                                  .layer_ns = pace->layer.ns,
                                  .head_ns = pace->head_ns};
    if (session->auto_ubatch)
        out->tokens = pace_tokens(pace, &m->shard->engine->plan, session->state.ubatch,
                                  session->seq.len, false);
}

void dgl_session_trim(struct dgl_session *session, int32_t len)
{
    sequence_trim(&session->seq, len);
}

const int32_t *dgl_session_ids(const struct dgl_session *session)
{
    return session->seq.ids;
}

/* Enters the session, and returns the status of `call` in it. If the call is cancelled, `what` is
 * its name in the message. */
#define RETURN_CALL(session, what, call)                                                           \
    do {                                                                                           \
        struct gl_saved saved = {0};                                                               \
        const enum dgl_status entered = session_enter(session, &saved);                            \
        return entered == DGL_OK ? session_leave(session, &saved, what, call) : entered;           \
    } while (0)

/* Returns from the function if the session's model has no logits. */
#define NEED_HEAD(session)                                                                         \
    do {                                                                                           \
        const enum dgl_status headed = model_check_head((session)->model);                         \
        if (headed != DGL_OK)                                                                      \
            return headed;                                                                         \
    } while (0)

/* ---- files ----------------------------------------------------------------------------------- */

enum dgl_status dgl_session_save(struct dgl_session *session,
                                 const struct dgl_session_save_params *params)
{
    RETURN_CALL(session, "saving the session",
                session_save(session, params ? params : &(struct dgl_session_save_params){0}));
}

enum dgl_status dgl_session_load(struct dgl_session *session,
                                 const struct dgl_session_load_params *params, char **data,
                                 size_t *data_len)
{
    if (data)
        *data = NULL;
    if (data_len)
        *data_len = 0;
    RETURN_CALL(session, "loading the session",
                session_load(session, params ? params : &(struct dgl_session_load_params){0}, data,
                             data_len));
}

/* ---- evaluation ------------------------------------------------------------------------------ */

enum dgl_status dgl_session_sync(struct dgl_session *session, const int32_t *ids, size_t count,
                                 size_t *reused)
{
    struct gl_saved saved = {0};
    enum dgl_status status = session_enter(session, &saved);
    if (status != DGL_OK)
        return status;
    status = session_take_ids(session, ids, count, true, reused);
    if (status == DGL_OK && session->seq.len < (int32_t)count)
        status = session_eval(session, (int32_t)count);
    if (status == DGL_OK)
        status = gl_flush(session_dev(session)->gl);
    return session_leave(session, &saved, "evaluation", status);
}

enum dgl_status dgl_logits(struct dgl_session *session, const struct dgl_logits_params *params,
                           float **logits, size_t *rows)
{
    *logits = NULL;
    *rows = 0;
    NEED_HEAD(session);
    RETURN_CALL(
        session, "evaluation",
        session_logits(session, params ? params : &(struct dgl_logits_params){0}, logits, rows));
}

enum dgl_status dgl_session_eval(struct dgl_session *session, const struct dgl_eval_params *params,
                                 float *logits, float *hidden)
{
    if (logits)
        NEED_HEAD(session);
    RETURN_CALL(
        session, "evaluation",
        session_append(session, params ? params : &(struct dgl_eval_params){0}, logits, hidden));
}

enum dgl_status dgl_embed(struct dgl_session *session, const struct dgl_embed_params *params,
                          float **embeddings, size_t *rows)
{
    *embeddings = NULL;
    *rows = 0;
    RETURN_CALL(
        session, "embedding",
        session_embed(session, params ? params : &(struct dgl_embed_params){0}, embeddings, rows));
}

enum dgl_status dgl_perplexity(struct dgl_session *session,
                               const struct dgl_perplexity_params *params,
                               struct dgl_perplexity_result *out)
{
    *out = (struct dgl_perplexity_result){0};
    NEED_HEAD(session);
    RETURN_CALL(
        session, "perplexity",
        session_perplexity(session, params ? params : &(struct dgl_perplexity_params){0}, out));
}

enum dgl_status dgl_sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling)
{
    return sampling_check(log, sampling);
}

const char *dgl_finish_str(enum dgl_finish finish)
{
    static const char *const names[] = {[DGL_FINISH_EOS] = "eos",
                                        [DGL_FINISH_STOP] = "stop",
                                        [DGL_FINISH_LENGTH] = "length",
                                        [DGL_FINISH_CONTEXT] = "context",
                                        [DGL_FINISH_CANCELLED] = "cancelled"};
    return (size_t)finish < sizeof(names) / sizeof(names[0]) ? names[finish] : "unknown";
}

void dgl_generate_result_finish(struct dgl_generate_result *result)
{
    generate_result_finish(result);
}

enum dgl_status dgl_generate(struct dgl_session *session, const struct dgl_generate_params *params,
                             struct dgl_generate_result *out)
{
    *out = (struct dgl_generate_result){0};
    NEED_HEAD(session);
    RETURN_CALL(session, NULL,
                session_generate(session, params ? params : &(struct dgl_generate_params){0}, out));
}

enum dgl_status dgl_bench(struct dgl_session *session, const struct dgl_bench_params *params,
                          struct dgl_bench_result *out)
{
    static const struct dgl_bench_params defaults;
    struct gl_saved saved = {0};
    *out = (struct dgl_bench_result){0};
    enum dgl_status status = session_enter(session, &saved);
    if (status != DGL_OK)
        return status;
    status = session_bench(session, params ? params : &defaults, out);
    if (status != DGL_OK)
        dgl_bench_result_finish(out);
    return session_leave(session, &saved, "bench", status);
}

void dgl_bench_result_finish(struct dgl_bench_result *result)
{
    profile_sums_finish(&result->profile);
    free(result->decode_latency_ms);
    free(result->submit_ms);
    free(result->tokens);
    free(result->text);
    result->decode_latency_ms = NULL;
    result->num_latencies = 0;
    result->submit_ms = NULL;
    result->num_submits = 0;
    result->tokens = NULL;
    result->num_tokens = 0;
    result->text = NULL;
}
