/* The chat templates of core/dopplergl.h. */
#include <stdlib.h>

#include "core/base/sized.h"
#include "loader/chat/chat_ids.h"
#include "loader/chat/chat_template.h"
#include "core/base/mem.h"

enum dgl_status dgl_template_load(const struct dgl_log *log,
                                  const struct dgl_template_params *params,
                                  struct dgl_template **out)
{
    struct chat_source source;
    if (!out)
        return dgl_fail_no_out(log, "dgl_template_load");
    *out = NULL;
    struct dgl_template_params p;
    if (!DGL_TAKE(log, dgl_template_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    params = &p;
    if (!params->path)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "chat template: path is NULL, wanted a model");
    chat_source_init(&source);
    enum dgl_status status =
        chat_source_load(log, params->source, params->path, params->override_kv, &source);
    if (status == DGL_OK)
        status = chat_template_create(log, &source, params, out);
    chat_source_finish(&source);
    return status;
}

void dgl_template_destroy(struct dgl_template **tmpl)
{
    if (tmpl)
        chat_template_destroy(tmpl);
}

enum dgl_status dgl_render(const struct dgl_log *log, const struct dgl_template *tmpl,
                           const struct dgl_render_params *params, char **text, size_t *len)
{
    struct dgl_buf out = {0};
    struct dgl_render_params p;
    if (!dgl_array_open(text, len) || !tmpl)
        return dgl_fail_null(log, __func__);
    if (!DGL_TAKE(log, dgl_render_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status = chat_template_render(log, tmpl, &p, &out, NULL);
    return dgl_return_text(log, status, "rendered text", &out, text, len);
}

enum dgl_status dgl_render_ids(const struct dgl_log *log, const struct dgl_template *tmpl,
                               const struct dgl_tokenizer *tok,
                               const struct dgl_render_params *params, int32_t **ids, size_t *count)
{
    struct dgl_buf text = {0}, taint = {0};
    struct token_ids out = {0};
    struct dgl_render_params p;
    if (!dgl_array_open(ids, count) || !tmpl || !tok)
        return dgl_fail_null(log, __func__);
    if (!DGL_TAKE(log, dgl_render_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status;
    TRY(chat_template_render(log, tmpl, &p, &text, &taint));
    /* An empty result is an array too. */
    if (!(out.ids = dgl_malloc(sizeof(int32_t))))
        TRY(dgl_fail_memory(log, "ids", sizeof(int32_t)));
    out.cap = 1;
    const struct tainted_text rendered = {{text.p, text.len}, (const uint8_t *)taint.p};
    TRY(chat_ids_encode(log, tok, chat_template_markup(tmpl), rendered, p.answers, p.num_answers,
                        &out));
    *ids = out.ids;
    *count = out.count;
done:
    if (status != DGL_OK)
        free(out.ids);
    dgl_buf_finish(&text);
    dgl_buf_finish(&taint);
    return status;
}
