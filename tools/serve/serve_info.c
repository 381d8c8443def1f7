/* Status pages of the server: /health, /v1/models, /metrics, and unknown paths. */
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "tools/serve/serve_http.h"

/* A working engine is unhealthy after this time without a sign of life. */
#define SILENT_NS 120000000000ull

void serve_info_health(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    const uint64_t beat = atomic_load(&s->beat_ns), now = dgl_now_ns();
    char why[256];
    pthread_mutex_lock(&s->lock);
    snprintf(why, sizeof(why), "%s", s->unwell);
    pthread_mutex_unlock(&s->lock);
    if (!atomic_load(&s->ready) && !why[0])
        snprintf(why, sizeof(why), "the model is being loaded");
    else if (atomic_load(&s->draining) && !why[0])
        snprintf(why, sizeof(why), "the server is stopping");
    else if (beat && now > beat && now - beat > SILENT_NS && !why[0])
        snprintf(why, sizeof(why), "no step has ended for %llu s",
                 (unsigned long long)((now - beat) / 1000000000u));
    if (why[0]) {
        serve_reply_fail(ex, 503, "%s", why);
        return;
    }
    dgl_buf_puts(&ex->out, "{\"status\":\"ok\"}");
    serve_exchange_answer(ex, 200);
}

static bool refuse_unready(struct serve_exchange *ex)
{
    const bool ready = atomic_load(&ex->server->ready);
    if (!ready)
        serve_reply_fail(ex, 503, "the model is being loaded");
    return !ready;
}

static void write_model(const struct serve *s, struct dgl_str name, struct dgl_json_writer *w)
{
    const struct dgl_model_info *info = dgl_model_get_info(s->engine.model);
    dgl_jw_object(w);
    dgl_jw_field_str(w, "id", name);
    dgl_jw_field_cstr(w, "object", "model");
    dgl_jw_field_i64(w, "created", 0);
    dgl_jw_field_cstr(w, "owned_by", "dopplergl");
    dgl_jw_field_object(w, "meta");
    dgl_jw_field_cstr(w, "family", info->family);
    dgl_jw_field_cstr(w, "quantization", info->quantization);
    dgl_jw_field_u64(w, "parameters", info->parameters);
    dgl_jw_field_i64(w, "vocab", info->vocab);
    dgl_jw_field_i64(w, "context", s->context);
    dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}

void serve_info_models(struct serve_exchange *ex)
{
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    if (refuse_unready(ex))
        return;
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "object", "list");
    dgl_jw_field_array(&w, "data");
    for (size_t i = 0; i < ex->server->num_names; i++)
        write_model(ex->server, ex->server->names[i], &w);
    dgl_jw_end_array(&w);
    dgl_jw_end_object(&w);
    serve_exchange_answer(ex, 200);
}

void serve_info_model(struct serve_exchange *ex)
{
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    const char *name = serve_head_below(ex) + strlen(SERVE_MODEL_PATH);
    struct serve_error error;
    if (refuse_unready(ex))
        return;
    if (serve_has_name(ex->server, dgl_str_of(name))) {
        write_model(ex->server, dgl_str_of(name), &w);
        serve_exchange_answer(ex, 200);
        return;
    }
    serve_refuse(&error, 404, "model", "there is no model '%s': this server has '%s'", name,
                 ex->server->model_name);
    error.code = "model_not_found";
    serve_exchange_refuse(ex, &error);
}

void serve_info_metrics(struct serve_exchange *ex)
{
    ex->content_type = "text/plain; version=0.0.4; charset=utf-8";
    serve_metrics_write(&ex->server->metrics, &ex->out);
    serve_exchange_answer(ex, 200);
}

void serve_info_no_responses(struct serve_exchange *ex)
{
    struct serve_error error;
    serve_refuse(&error, 400, "path", "/v1/responses is not supported: use /v1/chat/completions");
    serve_exchange_refuse(ex, &error);
}
