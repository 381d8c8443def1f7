/* Replies of core/dopplergl.h. */
#include "loader/chat/reply.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/sized.h"
#include "loader/chat/chat_template.h"
#include "loader/tokenizer/tokenizer.h"

enum dgl_status dgl_reply_create(const struct dgl_log *log, const struct dgl_reply_params *params,
                                 struct dgl_reply **out)
{
    if (!out)
        return dgl_fail_no_out(log, "dgl_reply_create");
    *out = NULL;
    struct dgl_reply_params p;
    if (!DGL_TAKE(log, dgl_reply_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    params = &p;
    if (!params->tmpl || !params->part_cb)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "reply: tmpl or part_cb is NULL");
    return reply_create(log, params->tmpl->replies, params->tmpl->thinks, params, out);
}

void dgl_reply_destroy(struct dgl_reply **reply)
{
    if (reply)
        reply_destroy(reply);
}

enum dgl_status dgl_reply_push(struct dgl_reply *reply, const char *text, size_t len)
{
    if (!reply || (!text && len))
        return DGL_ERR_INVALID_ARG;
    return reply_push(reply, (struct dgl_str){text, len}, false);
}

enum dgl_status dgl_reply_end(struct dgl_reply *reply)
{
    if (!reply)
        return DGL_ERR_INVALID_ARG;
    return reply_push(reply, DGL_STR(""), true);
}

const char *dgl_template_call_format(const struct dgl_template *tmpl)
{
    if (!tmpl)
        return NULL;
    return tmpl->replies ? tmpl->replies->name : NULL;
}

bool dgl_template_reads(const struct dgl_template *tmpl, const char *name)
{
    return tmpl && name && chat_template_reads(tmpl, dgl_str_of(name));
}

size_t dgl_template_reply_tokens(const struct dgl_template *tmpl, const struct dgl_tokenizer *tok,
                                 int32_t *ids)
{
    if (!tmpl || !tok || !ids)
        return 0;
    static const char *const thoughts[] = {REPLY_THINK_OPEN, REPLY_THINK_CLOSE};
    const char *texts[DGL_REPLY_TOKENS_MAX];
    size_t num_texts = 0, count = 0;
    for (size_t i = 0; tmpl->replies && i < REPLY_FORMAT_TOKENS && tmpl->replies->tokens[i]; i++)
        texts[num_texts++] = tmpl->replies->tokens[i];
    for (size_t i = 0; tmpl->thinks && i < 2; i++)
        texts[num_texts++] = thoughts[i];
    for (size_t i = 0; i < num_texts; i++) {
        struct token_ids found = {0};
        if (tokenizer_encode(NULL, tok, dgl_str_of(texts[i]),
                             (struct encode_flags){.continues = true}, &found) == DGL_OK &&
            found.count == 1 && tokenizer_is_special(tok, found.ids[0]))
            ids[count++] = found.ids[0];
        free(found.ids);
    }
    return count;
}
