/* Public functions of conversations: check, enter, forward, leave. */
#include "core/text/chat.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/sized.h"
#include "core/seq/generate.h"

enum dgl_status dgl_chat_create(const struct dgl_chat_params *params, struct dgl_chat **out)
{
    struct dgl_chat_params p;
    if (!out)
        return DGL_ERR_INVALID_ARG;
    *out = NULL;
    if (!DGL_TAKE(NULL, dgl_chat_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    struct dgl_session *session = p.session;
    const struct dgl_log *log = session ? session->model->log : NULL;
    params = &p;
    if (!session || !params->tmpl)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "a conversation needs a session and a template");
    if (!session->model->tok)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s has no tokenizer: there is nothing to chat with",
                        session->model->info.path);
    struct dgl_chat *chat = dgl_new(struct dgl_chat);
    if (!chat)
        return dgl_fail_memory(log, "conversation", sizeof(*chat));
    *chat = (struct dgl_chat){.session = session,
                              .tmpl = params->tmpl,
                              .log = log,
                              .tok = session->model->tok,
                              .info = &session->model->info,
                              .context = session->seq.context,
                              .context_shift = params->context_shift};
    *out = chat;
    return DGL_OK;
}

void dgl_chat_destroy(struct dgl_chat **chat)
{
    if (!chat || !*chat)
        return;
    chat_messages_finish(&(*chat)->messages);
    free(*chat);
    *chat = NULL;
}

/* ---- messages -------------------------------------------------------------------------------- */

enum dgl_status dgl_chat_add(struct dgl_chat *chat, const char *role, const char *text, size_t len)
{
    if (!chat || (!text && len))
        return DGL_ERR_INVALID_ARG;
    return chat_add(chat, role, (struct dgl_str){text, len}, NULL, 0);
}

enum dgl_status dgl_chat_set_system(struct dgl_chat *chat, const char *text, size_t len)
{
    if (!chat)
        return DGL_ERR_INVALID_ARG;
    return chat_set_system(chat, (struct dgl_str){text, len});
}

size_t dgl_chat_num_messages(const struct dgl_chat *chat)
{
    if (!chat)
        return 0;
    return chat->messages.count;
}

enum dgl_status dgl_chat_message(const struct dgl_chat *chat, size_t index, struct dgl_message *out)
{
    struct dgl_message message;
    if (!DGL_OPEN(chat ? chat->log : NULL, dgl_message, out, &message) || !chat ||
        index >= chat->messages.count)
        return DGL_ERR_INVALID_ARG;
    const struct chat_message *m = &chat->messages.items[index];
    message = (struct dgl_message){.role = m->role,
                                   .content = m->content,
                                   .content_len = m->content_len,
                                   .ids = m->ids,
                                   .num_ids = m->num_ids};
    DGL_CLOSE(out, &message);
    return DGL_OK;
}

size_t dgl_chat_num_hidden(const struct dgl_chat *chat)
{
    if (!chat)
        return 0;
    return chat->hidden;
}

void dgl_chat_trim(struct dgl_chat *chat, size_t count)
{
    if (!chat)
        return;
    chat_trim(chat, count);
}

void dgl_chat_reset(struct dgl_chat *chat)
{
    if (!chat)
        return;
    chat_trim(chat, chat_system(chat) ? 1 : 0);
}

size_t dgl_chat_undo(struct dgl_chat *chat)
{
    if (!chat)
        return 0;
    size_t last = chat_last_user(chat), count = chat->messages.count;
    if (last == SIZE_MAX)
        return 0;
    chat_trim(chat, last);
    return count - last;
}

bool dgl_chat_retry(struct dgl_chat *chat)
{
    if (!chat)
        return false;
    size_t last = chat_last_user(chat);
    if (last == SIZE_MAX)
        return false;
    chat_trim(chat, last + 1);
    return true;
}

bool dgl_chat_is_open(const struct dgl_chat *chat)
{
    if (!chat)
        return false;
    return chat_is_open(chat);
}

/* ---- answers --------------------------------------------------------------------------------- */

enum dgl_status dgl_chat_answer(struct dgl_chat *chat, const struct dgl_generate_params *params,
                                struct dgl_generate_result *out)
{
    struct dgl_generate_params p;
    struct dgl_generate_result result;
    struct gl_saved saved = {0};
    int32_t *ids = NULL;
    if (!DGL_OPEN(chat ? chat->log : NULL, dgl_generate_result, out, &result) || !chat ||
        !DGL_TAKE(chat->log, dgl_generate_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status = model_check_head(chat->session->model);
    if (status == DGL_OK)
        status = session_enter(chat->session, &saved);
    if (status != DGL_OK)
        return status;
    TRY(chat_begin_answer(chat, &p, &ids));
    TRY(session_generate(chat->session, &p, &result));
    TRY(chat_end_answer(chat, &result));
done:
    free(ids);
    DGL_CLOSE(out, &result);
    return session_leave(chat->session, &saved, NULL, status);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

enum dgl_status dgl_chat_save(const struct dgl_chat *chat, char **json, size_t *len)
{
    if (!dgl_array_open(json, len) || !chat)
        return DGL_ERR_INVALID_ARG;
    struct dgl_buf out = {0};
    enum dgl_status status = chat_save(chat, &out);
    return dgl_return_text(chat->log, status, "the conversation", &out, json, len);
}

enum dgl_status dgl_chat_load(struct dgl_chat *chat, const char *name, const char *json, size_t len)
{
    if (!chat || !json)
        return DGL_ERR_INVALID_ARG;
    return chat_load(chat, name ? name : "messages", (struct dgl_str){json, len});
}
