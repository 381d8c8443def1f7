/* A conversation: its messages, the answers among them with the ids that were generated, and its
 * form as JSON. */
#ifndef DGL_TOOLS_CHAT_TALK_H
#define DGL_TOOLS_CHAT_TALK_H

#include "core/base/json.h"

struct chat_message {
    char *json; /* the message as an object: {"role": ..., "content": ...} */
    char *role;
    char *content; /* "" where it is not a text */
    size_t content_len;
    int32_t *ids; /* of an answer, as generated, without the id that ended it; NULL = none kept */
    size_t num_ids;
};

struct chat_talk {
    struct chat_message *messages;
    size_t count, cap;
    char *others; /* further members of the file that was loaded: `"tools":[...],`; NULL = none */
};

void talk_finish(struct chat_talk *talk);
/* Keeps nothing but the system message. */
void talk_reset(struct chat_talk *talk);
void talk_drop_last(struct chat_talk *talk);

/* Adds a message; ids are copied. False: out of memory, nothing changed. */
bool talk_add(struct chat_talk *talk, const char *role, struct dgl_str content, const int32_t *ids,
              size_t num_ids);
/* Sets the system message, the first of the conversation. False: out of memory. */
bool talk_set_system(struct chat_talk *talk, struct dgl_str content);
/* NULL when there is none. */
const struct chat_message *talk_system(const struct chat_talk *talk);
/* The last message waits for an answer: it is there, and not the assistant's or the system's. */
bool talk_is_open(const struct chat_talk *talk);

/* The ids of the conversation up to where the answer begins. Allocates *ids (dgl_free). */
enum dgl_status talk_render(const struct dgl_log *log, const struct chat_talk *talk,
                            const struct dgl_template *tmpl, const struct dgl_tokenizer *tok,
                            int32_t **ids, size_t *count);

/* An object with `messages` and `answers`, the ids of the answers; `--messages` and `template` take
 * such a file too. */
enum dgl_status talk_save(const struct dgl_log *log, const struct chat_talk *talk,
                          const char *path);
/* Takes the place of *talk, which stays as it is on failure. An array of messages, or an object
 * with `messages` and further variables. Ids of an answer are only kept when they spell its text
 * with `tok`: the file may come from another model. */
enum dgl_status talk_load(const struct dgl_log *log, const char *path,
                          const struct dgl_tokenizer *tok, struct chat_talk *talk);

#endif
