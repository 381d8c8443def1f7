/* Embeddings, a pass at a time between the steps of the batch, so that a long text holds up no
 * answer for longer than a prompt would. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/status.h"
#include "tools/cli/report.h"
#include "tools/serve/serve.h"

static void write_answer(struct serve_exchange *ex)
{
    const struct serve *s = ex->server;
    const size_t width = (size_t)dgl_model_get_info(s->engine.model)->hidden;
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
    ex->prompt_tokens = ex->ends[ex->request.num_prompts - 1];
    dgl_jw_field_cstr(&w, "model", s->model_name);
    dgl_jw_field_object(&w, "usage");
    dgl_jw_field_u64(&w, "prompt_tokens", ex->prompt_tokens);
    dgl_jw_field_u64(&w, "total_tokens", ex->prompt_tokens);
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
    serve_exchange_answer(ex, 200);
}

/* Runs the next pass of the present prompt. Writes the hidden states of its tokens, [count, width],
 * or with pooling "last" those of the last token. */
static enum dgl_status read_pass(struct serve_exchange *ex, float *hidden, size_t width,
                                 size_t most)
{
    struct serve *s = ex->server;
    struct serve_embedding *e = &ex->embed;
    const bool last = s->opt->pooling && strcmp(s->opt->pooling, "last") == 0;
    const size_t first = e->prompt ? ex->ends[e->prompt - 1] : 0,
                 count = ex->ends[e->prompt] - first;
    const size_t n = count - e->done < most ? count - e->done : most;
    if (e->done == 0) {
        memset(e->sum, 0, width * sizeof(*e->sum));
        dgl_session_trim(s->embedder, 0);
    }
    enum dgl_status status = dgl_session_eval(
        s->embedder,
        dgl_eval_params(.ids = ex->prompt_ids + first + e->done, .num_ids = n, .all = !last), NULL,
        hidden);
    if (status != DGL_OK)
        return status;
    for (size_t i = 0; i < (last ? 1 : n) * width; i++)
        e->sum[i % width] = (last ? 0 : e->sum[i % width]) + (double)hidden[i];
    e->done += n;
    if (e->done == count) {
        float *row = e->rows + e->prompt * width;
        double length = 0;
        for (size_t i = 0; i < width; i++)
            length += e->sum[i] * e->sum[i];
        for (size_t i = 0; i < width; i++)
            row[i] = length > 0 ? (float)(e->sum[i] / sqrt(length)) : 0;
        e->prompt++;
        e->done = 0;
    }
    return DGL_OK;
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
    pthread_mutex_lock(&ex->lock);
    const bool gone = ex->gone;
    pthread_mutex_unlock(&ex->lock);
    *over = gone;
    if (gone)
        return DGL_OK;
    s->engine.console.log.error = &why;
    if (!s->embedder)
        TRY(dgl_session_create(s->engine.model,
                               dgl_session_params(.context = s->metrics.batch.context,
                                                  .chunk = s->opt->ubatch,
                                                  .chunk_name = "--ubatch"),
                               &s->embedder));
    if (!e->rows) {
        e->rows = dgl_new_array(float, ex->request.num_prompts *width);
        e->sum = dgl_new_array(double, width);
    }
    dgl_session_passes(s->embedder, &passes);
    hidden = dgl_new_array(float, (size_t)passes.tokens *width);
    if (!hidden || !e->rows || !e->sum)
        TRY(dgl_fail_memory(&s->engine.console.log, "embeddings", width));
    TRY(read_pass(ex, hidden, width, (size_t)passes.tokens));
done:
    s->engine.console.log.error = NULL;
    free(hidden);
    if (status == DGL_ERR_DEVICE_LOST) {
        e->done = 0;
    } else if (status != DGL_OK || e->prompt == ex->request.num_prompts) {
        pthread_mutex_lock(&ex->lock);
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
