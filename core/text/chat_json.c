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
    chat_write_messages(list, out);
    dgl_buf_puts(out, ",\n\"answers\":[");
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

struct loader {
    struct dgl_json_reader r;
    const struct dgl_tokenizer *tok;
    struct chat_messages list;
    int64_t hidden;
};

static enum dgl_status load_message(struct loader *l, const struct dgl_json *value)
{
    const struct dgl_json *role;
    struct dgl_buf json = {0};
    if (!dgl_json_is(value, DGL_JSON_OBJECT))
        return dgl_json_fail(l->r, value, "wanted a message, an object with role and content");
    enum dgl_status status = dgl_json_need(l->r, value, "role", DGL_JSON_STRING, &role);
    if (status != DGL_OK)
        return status;
    struct dgl_json_writer w = dgl_json_writer(&json, 0);
    dgl_jw_value(&w, value);
    if (!chat_messages_add(&l->list, dgl_buf_take(&json), dgl_json_str(role).p,
                           dgl_json_str(dgl_json_get(value, "content"))))
        return dgl_fail_memory(l->r.log, "messages", l->list.count + 1);
    return DGL_OK;
}

/* {"message": 2, "ids": [...]}. Ids that do not spell the text of the message are ignored. */
static enum dgl_status load_answer(struct loader *l, const struct dgl_json *value)
{
    const struct dgl_json *list;
    int64_t index, id;
    if (!dgl_json_is(value, DGL_JSON_OBJECT) || !l->list.count)
        return dgl_json_fail(l->r, value, "wanted an object with the index of a message and ids");
    int32_t *ids = NULL;
    struct dgl_buf text = {0};
    enum dgl_status status;
    TRY(dgl_json_need_i64(l->r, value, "message", 0, (int64_t)l->list.count - 1, &index));
    TRY(dgl_json_need(l->r, value, "ids", DGL_JSON_ARRAY, &list));
    struct chat_message *m = &l->list.items[index];
    size_t count = 0;
    ids = dgl_new_array(int32_t, dgl_json_count(list));
    if (!ids)
        TRY(dgl_fail_memory(l->r.log, "ids", dgl_json_count(list) * sizeof(*ids)));
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        if (!dgl_json_i64(v, &id) || id < 0 || id > INT32_MAX)
            TRY(dgl_json_fail(l->r, v, "wanted a token id"));
        ids[count++] = (int32_t)id;
    }
    bool same = !m->ids && count &&
                tokenizer_decode(NULL, l->tok, ids, count, true, &text) == DGL_OK && !text.failed;
    same = same && dgl_str_equal((struct dgl_str){text.p, text.len},
                                 (struct dgl_str){m->content, m->content_len});
    if (same && !chat_message_set_ids(m, ids, count))
        TRY(dgl_fail_memory(l->r.log, "ids", count * sizeof(*ids)));
done:
    dgl_buf_finish(&text);
    free(ids);
    return status;
}

enum dgl_status chat_load(struct dgl_chat *chat, const char *name, struct dgl_str json)
{
    struct dgl_json_doc *doc = NULL;
    struct loader l = {.tok = chat->tok};
    struct dgl_buf others = {0};
    enum dgl_status status;
    TRY(dgl_json_parse(chat->log, name, json.p, json.len, &doc));
    l.r = (struct dgl_json_reader){chat->log, doc};
    const struct dgl_json *root = dgl_json_root(doc), *messages = root, *answers = NULL;
    if (dgl_json_is(root, DGL_JSON_OBJECT)) {
        TRY(dgl_json_need(l.r, root, "messages", DGL_JSON_ARRAY, &messages));
        TRY(dgl_json_opt(l.r, root, "answers", DGL_JSON_ARRAY, &answers));
        TRY(dgl_json_opt_i64(l.r, root, "hidden", 0, (int64_t)dgl_json_count(messages), &l.hidden));
        /* All members except those that chat_save() adds are variables of the template. They stay
         * unchanged. */
        for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
            struct dgl_str key = dgl_json_key(v);
            if (dgl_str_eq(key, "messages") || dgl_str_eq(key, "answers") ||
                dgl_str_eq(key, "hidden"))
                continue;
            struct dgl_json_writer w = dgl_json_writer(&others, 0);
            dgl_jw_str(&w, key);
            dgl_buf_putc(&others, ':');
            w = dgl_json_writer(&others, 0);
            dgl_jw_value(&w, v);
            dgl_buf_putc(&others, ',');
        }
        dgl_buf_puts(&others, "");
        l.list.others = dgl_buf_take(&others);
        if (!l.list.others)
            TRY(dgl_fail_memory(chat->log, "variables", 1));
    } else if (!dgl_json_is(root, DGL_JSON_ARRAY)) {
        TRY(dgl_json_fail(l.r, root, "wanted an array of messages, or an object with messages"));
    }
    for (const struct dgl_json *v = dgl_json_first(messages); v; v = dgl_json_next(v))
        TRY(load_message(&l, v));
    for (const struct dgl_json *v = dgl_json_first(answers); v; v = dgl_json_next(v))
        TRY(load_answer(&l, v));
    chat_messages_finish(&chat->messages);
    chat->messages = l.list;
    chat->hidden = (size_t)l.hidden;
    chat_trim(chat, l.list.count); /* the last question is never hidden */
    l.list = (struct chat_messages){0};
done:
    chat_messages_finish(&l.list);
    dgl_json_destroy(&doc);
    return status;
}
