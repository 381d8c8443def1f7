/* Conversations: messages, generated answers with their ids, and the part of the messages that the
 * model sees. */
#ifndef DGL_CORE_CHAT_H
#define DGL_CORE_CHAT_H

#include "core/base/json.h"
#include "core/base/str.h"
#include "loader/tokenizer/tokenizer.h"

struct chat_message {
    char *json; /* the message as an object: {"role": ..., "content": ...} */
    char *role;
    char *content; /* "" if it is not a text */
    size_t content_len;
    int32_t *ids; /* ids of an answer, as generated, without the id that ended it, or NULL */
    size_t num_ids;
};

struct chat_messages {
    struct chat_message *items;
    size_t count, cap;
    char *others; /* further members of the loaded file, such as `"tools":[...],`, or NULL */
};
void chat_message_finish(struct chat_message *m);
/* Adds a message, of which json and ids are set. Consumes both, also on failure. `json` is NULL if
 * memory ran out. */
enum dgl_status chat_messages_add(struct chat_messages *list, const struct dgl_log *log,
                                  struct chat_message m, const char *role, struct dgl_str content);
void chat_messages_finish(struct chat_messages *list);

struct dgl_chat {
    /* Borrowed. `session` evaluates the conversation. This room does not use it. */
    struct dgl_session *session;
    const struct dgl_template *tmpl;
    const struct dgl_log *log;
    const struct dgl_tokenizer *tok;
    const struct dgl_model_info *info;
    int32_t context; /* of the session */
    bool context_shift;
    struct chat_messages messages;
    size_t hidden; /* messages after the system message that the model no longer gets */
};

/* Adds a message with this text. `ids`, which may be NULL, are copied. */
enum dgl_status chat_add(struct dgl_chat *chat, const char *role, struct dgl_str text,
                         const int32_t *ids, size_t num_ids);
enum dgl_status chat_set_system(struct dgl_chat *chat, struct dgl_str text);
/* Keeps the first `count` messages. Lowers `hidden` so that the last question stays visible to the
 * model. */
void chat_trim(struct dgl_chat *chat, size_t count);
/* Returns NULL if there is no system message. */
const struct chat_message *chat_system(const struct dgl_chat *chat);
bool chat_is_open(const struct dgl_chat *chat);
/* Returns the index of the user's last message, or SIZE_MAX if there is no such message. */
size_t chat_last_user(const struct dgl_chat *chat);

/* Sets the prompt of an answer: *params gets the ids of the conversation. The caller frees *ids,
 * also on failure. Refuses parameters that already have a prompt. */
enum dgl_status chat_begin_answer(struct dgl_chat *chat, struct dgl_generate_params *params,
                                  int32_t **ids);
/* Adds the generated answer as a message, unless it is empty. */
enum dgl_status chat_end_answer(struct dgl_chat *chat, const struct dgl_generate_result *answer);

/* Appends `{OTHERS "messages":[...` without the closing brackets. Omits messages [from, to). */
void chat_write_messages(const struct chat_messages *list, size_t from, size_t to,
                         struct dgl_buf *out);
/* chat_json.c */
enum dgl_status chat_save(const struct dgl_chat *chat, struct dgl_buf *out);
enum dgl_status chat_load(struct dgl_chat *chat, const char *name, struct dgl_str json);

#endif
