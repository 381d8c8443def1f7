/* Messages under construction, shared by chat_talk.c and chat_file.c. */
#ifndef DGL_TOOLS_CHAT_FILE_H
#define DGL_TOOLS_CHAT_FILE_H

#include "tools/chat_talk.h"

/* Consumes `json`, also on failure. False: out of memory, *m is empty. */
bool talk_message_init(struct chat_message *m, char *json, const char *role,
                       struct dgl_str content);
bool talk_message_set_ids(struct chat_message *m, const int32_t *ids, size_t count);
/* Consumes *m, also on failure. */
bool talk_append(struct chat_talk *talk, struct chat_message *m);
/* `{OTHERS"messages":[...]`, with `separator` before each message; the object stays open. */
void talk_write_messages(const struct chat_talk *talk, struct dgl_buf *out, const char *separator);

#endif
