/* Embeddings, a pass at a time between the steps of the batch, so that a long text holds up no
 * answer for longer than a prompt would. */
#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/status.h"
#include "tools/cli/report.h"
#include "tools/serve/serve.h"

static void write_answer(struct serve_exchange *ex)
{
    const struct serve *s = ex->server;
    const size_t width = ex->embed.width;
    struct dgl_json_writer w = report_object(&ex->out);
    dgl_jw_field_cstr(&w, "object", "list");
    dgl_jw_field_array(&w, "data");
    for (size_t i = 0; i < ex->request.num_prompts; i++) {
        const float *row = ex->embed.rows + i * width;
        struct dgl_buf text = {0};
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "object", "embedding");
        dgl_jw_field_u64(&w, "index", i);
        dgl_jw_key(&w, "embedding");
        if (ex->request.base64) {
            dgl_buf_base64(&text, row, width * sizeof(*row));
            ex->out.failed |= text.failed;
            dgl_jw_cstr(&w, text.p);
        } else {
            dgl_jw_array(&w);
            for (size_t k = 0; k < width; k++)
                dgl_jw_f64(&w, (double)row[k]);
            dgl_jw_end_array(&w);
        }
        dgl_jw_end_object(&w);
        dgl_buf_finish(&text);
    }
    dgl_jw_end_array(&w);
    const size_t tokens = ex->ends[ex->request.num_prompts - 1];
    dgl_jw_field_cstr(&w, "model", s->model_name);
    dgl_jw_field_object(&w, "usage");
    dgl_jw_field_u64(&w, "prompt_tokens", tokens);
    dgl_jw_field_u64(&w, "total_tokens", tokens);
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
    serve_exchange_answer(ex, 200);
}

/* Runs the next pass of the present prompt. Uses `hidden` for the hidden states of its tokens. */
static enum dgl_status read_pass(struct serve_exchange *ex, float *hidden, size_t most)
{
    struct serve *s = ex->server;
    struct serve_embedding *e = &ex->embed;
    const bool last = dgl_pool_needs_last(&e->pool);
    const size_t first = e->prompt ? ex->ends[e->prompt - 1] : 0,
                 count = ex->ends[e->prompt] - first;
    const size_t n = count - e->done < most ? count - e->done : most;
    if (e->done == 0) {
        dgl_pool_reset(&e->pool); /* a lost device may have ended the previous attempt */
        dgl_session_trim(s->embedder, 0);
    }
    enum dgl_status status = dgl_session_eval(
        s->embedder,
        dgl_eval_params(.ids = ex->prompt_ids + first + e->done, .num_ids = n, .all = !last), NULL,
        hidden);
    if (status != DGL_OK)
        return status;
    dgl_pool_add(&e->pool, hidden, last ? 1 : n);
    e->done += n;
    if (e->done == count) {
        float *row = e->rows + e->prompt * e->width;
        dgl_pool_take(&e->pool, row, e->width);
        dgl_normalize(row, e->width, ex->request.embd_normalize);
        e->prompt++;
        e->done = 0;
    }
    return DGL_OK;
}

/* Prepares the first pass of a request. */
static enum dgl_status begin(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    struct serve_embedding *e = &ex->embed;
    const struct dgl_model_info *info = dgl_model_get_info(s->engine.model);
    enum dgl_pooling pooling = info->pooling;
    enum dgl_status status = DGL_OK;
    if (s->opt->pooling)
        dgl_pooling_parse(dgl_str_of(s->opt->pooling), &pooling);
    if (!s->embedder)
        TRY(dgl_session_create(s->engine.model,
                               dgl_session_params(.context = s->context, .chunk = s->opt->ubatch,
                                                  .chunk_name = "--ubatch"),
                               &s->embedder));
    if (e->rows)
        return DGL_OK;
    e->width = (size_t)(ex->request.dimensions ? ex->request.dimensions : info->hidden);
    e->rows = dgl_new_array(float, ex->request.num_prompts * e->width);
    if (!dgl_pool_init(&e->pool, pooling, (size_t)info->hidden) || !e->rows)
        TRY(dgl_fail_memory(&s->engine.console.log, "embeddings",
                            ex->request.num_prompts * e->width * sizeof(float)));
done:
    return status;
}

enum dgl_status serve_embed_step(struct serve_exchange *ex, bool *over)
{
    struct serve *s = ex->server;
    struct serve_embedding *e = &ex->embed;
    const size_t width = (size_t)dgl_model_get_info(s->engine.model)->hidden;
    struct dgl_pass_info passes = {.size = sizeof(passes)};
    struct dgl_error why = {""};
    float *hidden = NULL;
    enum dgl_status status = DGL_OK;
    dgl_memory_take_failures();
    pthread_mutex_lock(&ex->lock);
    const bool gone = ex->gone;
    pthread_mutex_unlock(&ex->lock);
    *over = gone;
    if (gone)
        return DGL_OK;
    s->engine.console.log.error = &why;
    TRY(begin(ex));
    dgl_session_passes(s->embedder, &passes);
    hidden = dgl_new_array(float, (size_t)passes.tokens *width);
    if (!hidden)
        TRY(dgl_fail_memory(&s->engine.console.log, "embeddings", width));
    TRY(read_pass(ex, hidden, (size_t)passes.tokens));
done:
    s->engine.console.log.error = NULL;
    free(hidden);
    if (status == DGL_ERR_DEVICE_LOST) {
        e->done = 0;
    } else if (status != DGL_OK || e->prompt == ex->request.num_prompts) {
        pthread_mutex_lock(&ex->lock);
        pthread_mutex_lock(&s->lock);
        serve_share_give(ex); /* before the answer, which the next request may follow at once */
        pthread_mutex_unlock(&s->lock);
        if (status == DGL_OK)
            write_answer(ex);
        else
            serve_reply_fail_call(ex, status, &why);
        pthread_mutex_unlock(&ex->lock);
        *over = true;
        status = DGL_OK;
    }
    return status;
}

void serve_embed_end(struct serve_exchange *ex)
{
    const struct serve_embedding *e = &ex->embed;
    enum serve_outcome outcome = SERVE_CANCELLED;
    ex->prompt_tokens = (e->prompt ? ex->ends[e->prompt - 1] : 0) + e->done;
    if (ex->finished)
        outcome = ex->status == 200 ? SERVE_FINISHED : SERVE_FAILED;
    serve_metrics_embedding(&ex->server->metrics, outcome, ex->prompt_tokens);
}
