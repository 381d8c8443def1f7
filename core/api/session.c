/* Public functions of sessions: check, enter, forward, leave. */
#include "core/seq/session.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/sized.h"
#include "core/measure/measure.h"
#include "core/seq/generate.h"
#include "core/seq/score.h"

static const struct dgl_log *log_of(const struct dgl_session *session)
{
    return session ? session->model->log : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum dgl_status dgl_session_estimate(const struct dgl_model *model,
                                     const struct dgl_session_params *params,
                                     struct dgl_memory *out)
{
    struct dgl_session_params p;
    struct dgl_memory memory;
    const struct dgl_log *log = model ? model->log : NULL;
    if (!DGL_OPEN(log, dgl_memory, out, &memory) || !model ||
        !DGL_TAKE(log, dgl_session_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    int32_t context = p.context ? p.context : model->info.context;
    int32_t ubatch = p.chunk ? p.chunk : plan_default_rows(&model->shard->engine->plan);
    shard_estimate(model->shard, context, ubatch, &memory);
    DGL_CLOSE(out, &memory);
    return DGL_OK;
}

enum dgl_status dgl_session_create(struct dgl_model *model, const struct dgl_session_params *params,
                                   struct dgl_session **out)
{
    struct dgl_session_params p;
    const struct dgl_log *log = model ? model->log : NULL;
    if (!out)
        return dgl_fail_no_out(log, "dgl_session_create");
    *out = NULL;
    if (!model || !DGL_TAKE(log, dgl_session_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    return session_create(model, &p, NULL, out);
}

enum dgl_status dgl_session_clone(struct dgl_session *session,
                                  const struct dgl_session_params *params, struct dgl_session **out)
{
    struct dgl_model *m = session ? session->model : NULL;
    struct dgl_session_params p;
    struct gl_saved saved = {0};
    if (!out)
        return dgl_fail_no_out(m ? m->log : NULL, "dgl_session_clone");
    *out = NULL;
    if (!session || !DGL_TAKE(m->log, dgl_session_params, params, &p))
        return DGL_ERR_INVALID_ARG;
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
    struct dgl_session *s = session ? *session : NULL;
    if (!s)
        return;
    *session = NULL;
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
    if (session)
        runner_cancel(&session->state.runner);
}

void dgl_session_set_cancelled(struct dgl_session *session, bool cancelled)
{
    if (session)
        runner_refuse(&session->state.runner, cancelled);
}

int32_t dgl_session_len(const struct dgl_session *session)
{
    if (!session)
        return 0;
    return session->seq.len;
}

enum dgl_status dgl_session_passes(const struct dgl_session *session, struct dgl_pass_info *out)
{
    struct dgl_pass_info info;
    if (!DGL_OPEN(log_of(session), dgl_pass_info, out, &info) || !session)
        return DGL_ERR_INVALID_ARG;
    const struct dgl_model *m = session->model;
    const struct pace *pace = &m->shard->pace;
    info = (struct dgl_pass_info){.most = session->state.ubatch,
                                  .tokens = session->state.ubatch,
                                  .timed_tokens = pace->layer.tokens,
                                  .layer_ns = pace->layer.ns,
                                  .head_ns = pace->head_ns};
    if (session->auto_ubatch)
        info.tokens = pace_tokens(pace, &m->shard->engine->plan, session->state.ubatch,
                                  session->seq.len, false);
    DGL_CLOSE(out, &info);
    return DGL_OK;
}

void dgl_session_trim(struct dgl_session *session, int32_t len)
{
    if (!session)
        return;
    sequence_trim(&session->seq, len);
}

const int32_t *dgl_session_ids(const struct dgl_session *session)
{
    if (!session)
        return NULL;
    return session->seq.ids;
}

/* Enters the session, and sets `status` to that of `call` in it. If the call is cancelled, `what`
 * is its name in the message. */
#define DO_CALL(session, what, call)                                                               \
    do {                                                                                           \
        struct gl_saved saved = {0};                                                               \
        status = session_enter(session, &saved);                                                   \
        if (status == DGL_OK)                                                                      \
            status = session_leave(session, &saved, what, call);                                   \
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
    struct dgl_session_save_params p;
    enum dgl_status status;
    if (!session || !DGL_TAKE(session->model->log, dgl_session_save_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    DO_CALL(session, "saving the session", session_save(session, &p));
    return status;
}

enum dgl_status dgl_session_load(struct dgl_session *session,
                                 const struct dgl_session_load_params *params, char **data,
                                 size_t *data_len)
{
    if (data)
        *data = NULL;
    if (data_len)
        *data_len = 0;
    struct dgl_session_load_params p;
    enum dgl_status status;
    if (!session || !DGL_TAKE(session->model->log, dgl_session_load_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    DO_CALL(session, "loading the session", session_load(session, &p, data, data_len));
    return status;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

enum dgl_status dgl_session_sync(struct dgl_session *session, const int32_t *ids, size_t count,
                                 size_t *reused)
{
    if (reused)
        *reused = 0;
    if (!session || (!ids && count))
        return DGL_ERR_INVALID_ARG;
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
    if (!dgl_array_open(logits, rows))
        return DGL_ERR_INVALID_ARG;
    struct dgl_logits_params p;
    enum dgl_status status;
    if (!session || !DGL_TAKE(session->model->log, dgl_logits_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    NEED_HEAD(session);
    DO_CALL(session, "evaluation", session_logits(session, &p, logits, rows));
    return status;
}

enum dgl_status dgl_session_eval(struct dgl_session *session, const struct dgl_eval_params *params,
                                 float *logits, float *hidden)
{
    struct dgl_eval_params p;
    enum dgl_status status;
    if (!session || !DGL_TAKE(session->model->log, dgl_eval_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    if (logits)
        NEED_HEAD(session);
    DO_CALL(session, "evaluation", session_append(session, &p, logits, hidden));
    return status;
}

enum dgl_status dgl_embed(struct dgl_session *session, const struct dgl_embed_params *params,
                          float **embeddings, size_t *rows)
{
    if (!dgl_array_open(embeddings, rows))
        return DGL_ERR_INVALID_ARG;
    struct dgl_embed_params p;
    enum dgl_status status;
    if (!session || !DGL_TAKE(session->model->log, dgl_embed_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    DO_CALL(session, "embedding", session_embed(session, &p, embeddings, rows));
    return status;
}

enum dgl_status dgl_perplexity(struct dgl_session *session,
                               const struct dgl_perplexity_params *params,
                               struct dgl_perplexity_result *out)
{
    struct dgl_perplexity_params p;
    struct dgl_perplexity_result result;
    enum dgl_status status;
    if (!DGL_OPEN(log_of(session), dgl_perplexity_result, out, &result) || !session ||
        !DGL_TAKE(session->model->log, dgl_perplexity_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    NEED_HEAD(session);
    DO_CALL(session, "perplexity", session_perplexity(session, &p, &result));
    DGL_CLOSE(out, &result);
    return status;
}

enum dgl_status dgl_sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling)
{
    if (!sampling)
        return dgl_fail_null(log, __func__);
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
    if (!result)
        return;
    generate_result_finish(result);
}

enum dgl_status dgl_generate(struct dgl_session *session, const struct dgl_generate_params *params,
                             struct dgl_generate_result *out)
{
    struct dgl_generate_params p;
    struct dgl_generate_result result;
    enum dgl_status status;
    if (!DGL_OPEN(log_of(session), dgl_generate_result, out, &result) || !session ||
        !DGL_TAKE(session->model->log, dgl_generate_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    NEED_HEAD(session);
    DO_CALL(session, NULL, session_generate(session, &p, &result));
    DGL_CLOSE(out, &result);
    return status;
}

enum dgl_status dgl_bench(struct dgl_session *session, const struct dgl_bench_params *params,
                          struct dgl_bench_result *out)
{
    struct dgl_bench_params p;
    struct dgl_bench_result result;
    enum dgl_status status;
    if (!DGL_OPEN(log_of(session), dgl_bench_result, out, &result) || !session ||
        !DGL_TAKE(session->model->log, dgl_bench_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    DO_CALL(session, "bench", session_bench(session, &p, &result));
    if (status != DGL_OK)
        dgl_bench_result_finish(&result);
    DGL_CLOSE(out, &result);
    return status;
}

void dgl_bench_result_finish(struct dgl_bench_result *result)
{
    if (!result)
        return;
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
