/* Conversations as JSON text. */
#include "core/text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

/* ---- saving ---------------------------------------------------------------------------------- */

enum dgl_status chat_save(const struct dgl_chat *chat, struct dgl_buf *out)
{
    const struct chat_messages *list = &chat->messages;
    bool first = true;
    chat_write_messages(list, 0, 0, out);
    dgl_buf_puts(out, "],\n\"answers\":[");
    for (size_t i = 0; i < list->count; i++) {
        const struct chat_message *m = &list->items[i];
        if (!m->ids)
            continue;
        dgl_buf_printf(out, "%s\n{\"message\":%zu,\"ids\":[", first ? "" : ",", i);
        for (size_t k = 0; k < m->num_ids; k++)
            dgl_buf_printf(out, "%s%d", k ? "," : "", m->ids[k]);
        dgl_buf_puts(out, "]}");
        first = false;
    }
    dgl_buf_puts(out, "]");
    if (chat->hidden)
        dgl_buf_printf(out, ",\n\"hidden\":%zu", chat->hidden);
    dgl_buf_puts(out, "}\n");
    return out->failed ? dgl_fail_memory(chat->log, "the conversation", out->len) : DGL_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Reads {"message": 2, "ids": [...]}. Ids that do not spell the text of the message are ignored. */
static enum dgl_status load_answer(struct dgl_json_reader r, const struct dgl_json *value,
                                   const struct dgl_tokenizer *tok, struct chat_messages *messages)
{
    const struct dgl_json *list;
    int64_t index, id;
    if (!dgl_json_is(value, DGL_JSON_OBJECT) || !messages->count)
        return dgl_json_fail(r, value, "wanted an object with the index of a message and ids");
    int32_t *ids = NULL;
    struct dgl_buf text = {0};
    enum dgl_status status;
    TRY(dgl_json_need_i64(r, value, "message", 0, (int64_t)messages->count - 1, &index));
    TRY(dgl_json_need(r, value, "ids", DGL_JSON_ARRAY, &list));
    struct chat_message *m = &messages->items[index];
    size_t count = 0;
    ids = dgl_new_array(int32_t, dgl_json_count(list));
    if (!ids)
        TRY(dgl_fail_memory(r.log, "ids", dgl_json_count(list) * sizeof(*ids)));
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        if (!dgl_json_i64(v, &id) || id < 0 || id > INT32_MAX)
            TRY(dgl_json_fail(r, v, "wanted a token id"));
        ids[count++] = (int32_t)id;
    }
    if (!m->ids && count && tokenizer_decode(NULL, tok, ids, count, true, &text) == DGL_OK &&
        !text.failed &&
        dgl_str_equal((struct dgl_str){text.p, text.len},
                      (struct dgl_str){m->content, m->content_len})) {
        m->ids = ids;
        m->num_ids = count;
        ids = NULL;
    }
done:
    dgl_buf_finish(&text);
    free(ids);
    return status;
}

enum dgl_status chat_load(struct dgl_chat *chat, const char *name, struct dgl_str json)
{
    struct dgl_json_doc *doc = NULL;
    struct chat_messages list = {0};
    struct dgl_buf text = {0};
    int64_t hidden = 0;
    enum dgl_status status;
    TRY(dgl_json_parse(chat->log, name, json.p, json.len, &doc));
    const struct dgl_json_reader r = {chat->log, doc};
    const struct dgl_json *root = dgl_json_root(doc), *messages = root, *answers = NULL, *role;
    if (dgl_json_is(root, DGL_JSON_OBJECT)) {
        TRY(dgl_json_need(r, root, "messages", DGL_JSON_ARRAY, &messages));
        TRY(dgl_json_opt(r, root, "answers", DGL_JSON_ARRAY, &answers));
        TRY(dgl_json_opt_i64(r, root, "hidden", 0, (int64_t)dgl_json_count(messages), &hidden));
        /* All members except those that chat_save() adds are variables of the template. They stay
         * unchanged. How the file's last message ends is not part of the conversation. */
        for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
            struct dgl_str key = dgl_json_key(v);
            if (dgl_str_eq(key, "messages") || dgl_str_eq(key, "answers") ||
                dgl_str_eq(key, "hidden") || dgl_str_eq(key, "continue_final_message") ||
                dgl_str_eq(key, "add_generation_prompt"))
                continue;
            struct dgl_json_writer w = dgl_json_writer(&text, 0);
            dgl_jw_str(&w, key);
            dgl_buf_putc(&text, ':');
            w = dgl_json_writer(&text, 0);
            dgl_jw_value(&w, v);
            dgl_buf_putc(&text, ',');
        }
        list.others = dgl_buf_take(&text);
        if (!list.others)
            TRY(dgl_fail_memory(chat->log, "variables", 1));
    } else if (!dgl_json_is(root, DGL_JSON_ARRAY)) {
        TRY(dgl_json_fail(r, root, "wanted an array of messages, or an object with messages"));
    }
    for (const struct dgl_json *v = dgl_json_first(messages); v; v = dgl_json_next(v)) {
        if (!dgl_json_is(v, DGL_JSON_OBJECT))
            TRY(dgl_json_fail(r, v, "wanted a message, an object with role and content"));
        TRY(dgl_json_need(r, v, "role", DGL_JSON_STRING, &role));
        struct dgl_json_writer w = dgl_json_writer(&text, 0);
        dgl_jw_value(&w, v);
        TRY(chat_messages_add(&list, chat->log, (struct chat_message){.json = dgl_buf_take(&text)},
                              dgl_json_str(role).p, dgl_json_str(dgl_json_get(v, "content"))));
    }
    for (const struct dgl_json *v = dgl_json_first(answers); v; v = dgl_json_next(v))
        TRY(load_answer(r, v, chat->tok, &list));
    chat_messages_finish(&chat->messages);
    chat->messages = list;
    chat->hidden = (size_t)hidden;
    chat_trim(chat, list.count); /* the last question is never hidden */
    list = (struct chat_messages){0};
done:
    chat_messages_finish(&list);
    dgl_json_destroy(&doc);
    return status;
}
