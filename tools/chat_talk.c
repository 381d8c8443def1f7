/* The messages of a conversation, and their ids by the template. */
#include "tools/chat_talk.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tools/chat_file.h"
#include "tools/report.h"

static void message_finish(struct chat_message *m)
{
    free(m->json);
    free(m->role);
    free(m->content);
    free(m->ids);
    *m = (struct chat_message){0};
}

static void drop_from(struct chat_talk *talk, size_t count)
{
    while (talk->count > count)
        message_finish(&talk->messages[--talk->count]);
}

void talk_finish(struct chat_talk *talk)
{
    drop_from(talk, 0);
    free(talk->messages);
    free(talk->others);
    *talk = (struct chat_talk){0};
}

void talk_reset(struct chat_talk *talk)
{
    drop_from(talk, talk_system(talk) ? 1 : 0);
}

void talk_drop_last(struct chat_talk *talk)
{
    if (talk->count)
        drop_from(talk, talk->count - 1);
}

static char *copy(struct dgl_str text)
{
    struct dgl_buf out = {0};
    dgl_buf_append(&out, text.p, text.len);
    dgl_buf_puts(&out, "");
    return dgl_buf_take(&out);
}

bool talk_message_init(struct chat_message *m, char *json, const char *role, struct dgl_str content)
{
    *m = (struct chat_message){.json = json,
                               .role = copy(dgl_str_of(role)),
                               .content = copy(content),
                               .content_len = content.len};
    if (m->json && m->role && m->content)
        return true;
    message_finish(m);
    return false;
}

bool talk_message_set_ids(struct chat_message *m, const int32_t *ids, size_t count)
{
    m->ids = dgl_new_array(int32_t, count);
    if (!m->ids)
        return false;
    memcpy(m->ids, ids, count * sizeof(*ids));
    m->num_ids = count;
    return true;
}

bool talk_append(struct chat_talk *talk, struct chat_message *m)
{
    bool ok =
        dgl_grow((void **)&talk->messages, &talk->cap, talk->count + 1, sizeof(*talk->messages));
    if (ok)
        talk->messages[talk->count++] = *m;
    else
        message_finish(m);
    return ok;
}

bool talk_add(struct chat_talk *talk, const char *role, struct dgl_str content, const int32_t *ids,
              size_t num_ids)
{
    struct chat_message m;
    struct dgl_buf json = {0};
    struct dgl_json_writer w = dgl_json_writer(&json, 0);
    dgl_jw_object(&w);
    report_text(&w, "role", role);
    dgl_jw_key(&w, "content");
    dgl_jw_str(&w, content);
    dgl_jw_end_object(&w);
    if (!talk_message_init(&m, dgl_buf_take(&json), role, content))
        return false;
    if (num_ids && !talk_message_set_ids(&m, ids, num_ids)) {
        message_finish(&m);
        return false;
    }
    return talk_append(talk, &m);
}

static bool has_role(const struct chat_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

const struct chat_message *talk_system(const struct chat_talk *talk)
{
    return talk->count && has_role(&talk->messages[0], "system") ? &talk->messages[0] : NULL;
}

bool talk_set_system(struct chat_talk *talk, struct dgl_str content)
{
    bool replace = talk_system(talk) != NULL;
    if (!talk_add(talk, "system", content, NULL, 0))
        return false;
    struct chat_message added = talk->messages[--talk->count];
    if (replace)
        message_finish(&talk->messages[0]);
    else
        memmove(&talk->messages[1], &talk->messages[0], talk->count++ * sizeof(added));
    talk->messages[0] = added;
    return true;
}

bool talk_is_open(const struct chat_talk *talk)
{
    const struct chat_message *last = talk->count ? &talk->messages[talk->count - 1] : NULL;
    return last && !has_role(last, "assistant") && !has_role(last, "system");
}

void talk_write_messages(const struct chat_talk *talk, struct dgl_buf *out, const char *separator)
{
    dgl_buf_printf(out, "{%s\"messages\":[", talk->others ? talk->others : "");
    for (size_t i = 0; i < talk->count; i++) {
        dgl_buf_puts(out, i ? "," : "");
        dgl_buf_puts(out, separator);
        dgl_buf_puts(out, talk->messages[i].json);
    }
    dgl_buf_puts(out, "]");
}

enum dgl_status talk_render(const struct dgl_log *log, const struct chat_talk *talk,
                            const struct dgl_template *tmpl, const struct dgl_tokenizer *tok,
                            int32_t **ids, size_t *count)
{
    struct dgl_buf text = {0};
    struct dgl_answer *answers = dgl_new_array(struct dgl_answer, talk->count);
    size_t num_answers = 0;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; answers && i < talk->count; i++) {
        const struct chat_message *m = &talk->messages[i];
        if (m->ids)
            answers[num_answers++] = (struct dgl_answer){i, m->ids, m->num_ids};
    }
    talk_write_messages(talk, &text, "");
    dgl_buf_puts(&text, "}");
    if (!answers || text.failed)
        status = dgl_fail_memory(log, "the conversation", text.len);
    else
        status = dgl_render_ids(log, tmpl, tok,
                                dgl_render_params(.messages = text.p, .messages_len = text.len,
                                                  .messages_name = "conversation",
                                                  .add_generation_prompt = true, .answers = answers,
                                                  .num_answers = num_answers),
                                ids, count);
    dgl_buf_finish(&text);
    free(answers);
    return status;
}
