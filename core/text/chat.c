/* Messages of a conversation, and their ids by the template. */
#include "core/text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/chat/chat_ids.h"
#include "loader/chat/chat_template.h"

/* ---- messages -------------------------------------------------------------------------------- */

void chat_message_finish(struct chat_message *m)
{
    free(m->json);
    free(m->role);
    free(m->content);
    free(m->ids);
    *m = (struct chat_message){0};
}

/* Adds a NUL. */
static void *copy(const void *bytes, size_t size)
{
    char *to = dgl_calloc(size + 1, 1);
    if (to && size)
        memcpy(to, bytes, size);
    return to;
}

enum dgl_status chat_messages_add(struct chat_messages *list, const struct dgl_log *log,
                                  struct chat_message m, const char *role, struct dgl_str content)
{
    m.role = copy(role, strlen(role));
    m.content = copy(content.p, content.len);
    m.content_len = content.len;
    if (!m.json || !m.role || !m.content || (m.num_ids && !m.ids) ||
        !dgl_grow((void **)&list->items, &list->cap, list->count + 1, sizeof(m))) {
        chat_message_finish(&m);
        return dgl_fail_memory(log, "message", content.len);
    }
    list->items[list->count++] = m;
    return DGL_OK;
}

void chat_messages_finish(struct chat_messages *list)
{
    for (size_t i = 0; i < list->count; i++)
        chat_message_finish(&list->items[i]);
    free(list->items);
    free(list->others);
    *list = (struct chat_messages){0};
}

enum dgl_status chat_add(struct dgl_chat *chat, const char *role, struct dgl_str text,
                         const int32_t *ids, size_t num_ids)
{
    struct dgl_buf json = {0};
    struct dgl_json_writer w = dgl_json_writer(&json, 0);
    if (!role || (!text.p && text.len))
        return dgl_fail(chat->log, DGL_ERR_INVALID_ARG, "a message needs a role and a text");
    size_t valid = dgl_utf8_valid_prefix(text.p, text.len);
    if (valid < text.len)
        return dgl_fail(chat->log, DGL_ERR_INVALID_ARG,
                        "the message is not UTF-8: byte 0x%02x at offset %zu",
                        (unsigned char)text.p[valid], valid);
    dgl_jw_object(&w);
    dgl_jw_field_str(&w, "role", dgl_str_of(role));
    dgl_jw_field_str(&w, "content", text);
    dgl_jw_end_object(&w);
    const struct chat_message m = {.json = dgl_buf_take(&json),
                                   .ids = num_ids ? copy(ids, num_ids * sizeof(*ids)) : NULL,
                                   .num_ids = num_ids};
    return chat_messages_add(&chat->messages, chat->log, m, role, text);
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool has_role(const struct chat_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

const struct chat_message *chat_system(const struct dgl_chat *chat)
{
    const struct chat_messages *list = &chat->messages;
    return list->count && has_role(&list->items[0], "system") ? &list->items[0] : NULL;
}

enum dgl_status chat_set_system(struct dgl_chat *chat, struct dgl_str text)
{
    struct chat_messages *list = &chat->messages;
    const bool replace = chat_system(chat) != NULL;
    enum dgl_status status = text.p ? chat_add(chat, "system", text, NULL, 0) : DGL_OK;
    if (status != DGL_OK)
        return status;
    if (replace) {
        chat_message_finish(&list->items[0]);
        memmove(&list->items[0], &list->items[1], --list->count * sizeof(*list->items));
    }
    if (text.p) {
        const struct chat_message added = list->items[list->count - 1];
        memmove(&list->items[1], &list->items[0], (list->count - 1) * sizeof(added));
        list->items[0] = added;
    }
    return DGL_OK;
}

bool chat_is_open(const struct dgl_chat *chat)
{
    const struct chat_messages *list = &chat->messages;
    const struct chat_message *last = list->count ? &list->items[list->count - 1] : NULL;
    return last && !has_role(last, "assistant") && !has_role(last, "system");
}

size_t chat_last_user(const struct dgl_chat *chat)
{
    for (size_t i = chat->messages.count; i-- > 0;)
        if (has_role(&chat->messages.items[i], "user"))
            return i;
    return SIZE_MAX;
}

void chat_trim(struct dgl_chat *chat, size_t count)
{
    struct chat_messages *list = &chat->messages;
    size_t first = chat_system(chat) ? 1 : 0;
    while (list->count > count)
        chat_message_finish(&list->items[--list->count]);
    /* The last question is never hidden. */
    size_t last = chat_last_user(chat);
    if (last == SIZE_MAX)
        chat->hidden = 0;
    else if (chat->hidden > last - first)
        chat->hidden = last - first;
}

/* ---- ids ------------------------------------------------------------------------------------- */

void chat_write_messages(const struct chat_messages *list, size_t from, size_t to,
                         struct dgl_buf *out)
{
    dgl_buf_printf(out, "{%s\"messages\":[", list->others ? list->others : "");
    for (size_t i = 0; i < list->count; i++)
        if (i < from || i >= to)
            dgl_buf_printf(out, "%s\n%s", i == 0 || (from == 0 && i == to) ? "" : ",",
                           list->items[i].json);
}

/* Makes the ids of the visible messages up to the start of an answer, with the ids of earlier
 * answers at their place. If `empty`, an empty question takes the place of all messages after the
 * system message. Frees the earlier ids of *out. */
static enum dgl_status render(const struct dgl_chat *chat, bool empty, struct token_ids *out)
{
    const struct dgl_log *log = chat->log;
    const struct chat_messages *list = &chat->messages;
    const size_t from = chat_system(chat) ? 1 : 0, to = empty ? list->count : from + chat->hidden;
    struct dgl_buf json = {0}, text = {0}, taint = {0};
    struct dgl_answer *answers = dgl_new_array(struct dgl_answer, list->count);
    size_t num_answers = 0;
    enum dgl_status status;
    free(out->ids);
    *out = (struct token_ids){0};
    for (size_t i = 0; answers && i < list->count; i++)
        if (list->items[i].ids && (i < from || i >= to))
            answers[num_answers++] = (struct dgl_answer){
                i < from ? i : i - (to - from), list->items[i].ids, list->items[i].num_ids};
    chat_write_messages(list, from, to, &json);
    if (empty)
        dgl_buf_printf(&json, "%s\n{\"role\":\"user\",\"content\":\"\"}", from ? "," : "");
    dgl_buf_puts(&json, "]}");
    if (!answers || json.failed)
        TRY(dgl_fail_memory(log, "the conversation", json.len));
    TRY(chat_template_render(log, chat->tmpl,
                             dgl_render_params(.messages = json.p, .messages_len = json.len,
                                               .messages_name = "conversation",
                                               .add_generation_prompt = true, .map_developer = true,
                                               .answers = answers, .num_answers = num_answers),
                             &text, &taint));
    const struct tainted_text rendered = {{text.p, text.len}, (const uint8_t *)taint.p};
    TRY(chat_ids_encode(log, chat->tok, chat_template_markup(chat->tmpl), rendered, answers,
                        num_answers, out));
done:
    dgl_buf_finish(&json);
    dgl_buf_finish(&text);
    dgl_buf_finish(&taint);
    free(answers);
    return status;
}

/* Hides the oldest question that is not the last one, and its answer. Returns false if there is no
 * such question. */
static bool hide_question(struct dgl_chat *chat)
{
    size_t first = chat_system(chat) ? 1 : 0, last = chat_last_user(chat);
    if (last == SIZE_MAX || first + chat->hidden >= last)
        return false;
    do {
        chat->hidden++;
    } while (!has_role(&chat->messages.items[first + chat->hidden], "user"));
    return true;
}

/* ---- generating answers ---------------------------------------------------------------------- */

/* Makes the ids of the conversation up to the start of the answer, at most as many as the context
 * holds. If contexts shift, hides old messages until they fit. p->keep is then the number of ids
 * before the first message that may be hidden. */
enum dgl_status chat_begin_answer(struct dgl_chat *chat, struct dgl_generate_params *p,
                                  int32_t **ids)
{
    const struct dgl_model_info *info = chat->info;
    const size_t context = (size_t)chat->context;
    struct token_ids out = {0}, empty = {0};
    enum dgl_status status;
    *ids = NULL;
    if (p->prompt || p->ids)
        return dgl_fail(chat->log, DGL_ERR_INVALID_ARG,
                        "an answer's prompt are the messages of its conversation: give none");
    if (!chat_is_open(chat))
        return dgl_fail(chat->log, DGL_ERR_INVALID_ARG,
                        "no message of the conversation waits for an answer: add one");
    p->keep = 0;
    p->context_shift = chat->context_shift;
    TRY(render(chat, false, &out));
    if (chat->context_shift) {
        /* The ids before the user's text, which shifting keeps. */
        TRY(render(chat, true, &empty));
        const size_t most = context / 2;
        size_t same = 0;
        while (same < most && same < out.count && same < empty.count &&
               out.ids[same] == empty.ids[same])
            same++;
        p->keep = (int32_t)same;
        const size_t wanted = out.count < context ? context : same + (context - same) / 2;
        while (out.count > wanted && hide_question(chat))
            TRY(render(chat, false, &out));
    }
    if (out.count > context)
        TRY(dgl_fail(chat->log, DGL_ERR_CONTEXT_FULL,
                     "the conversation has %zu tokens, but the context only %zu: take "
                     "messages back%s (the model's limit is %d)",
                     out.count, context, info->context < info->context_max ? ", or raise -c" : "",
                     info->context_max));
    p->ids = *ids = out.ids;
    p->num_ids = out.count;
done:
    free(empty.ids);
    if (status != DGL_OK)
        free(out.ids);
    return status;
}

enum dgl_status chat_end_answer(struct dgl_chat *chat, const struct dgl_generate_result *answer)
{
    if (answer->num_tokens == 0)
        return DGL_OK;
    /* The template writes the id that ended the answer. A stop string is not part of the text, so
     * the generated ids do not match the text. */
    size_t count = answer->finish == DGL_FINISH_STOP  ? 0
                   : answer->finish == DGL_FINISH_EOS ? answer->num_tokens - 1
                                                      : answer->num_tokens;
    return chat_add(chat, "assistant", (struct dgl_str){answer->text, answer->text_len},
                    answer->tokens, count);
}
