/* reply.h: struct dgl_reply: the text of an answer to content, reasoning and calls of tools. */
#ifndef DGL_LOADER_REPLY_H
#define DGL_LOADER_REPLY_H

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "loader/chat/reply_format.h"

/* `format` NULL: calls are text; `thinks`: <think> begins reasoning. Borrows `log`, `format` and
 * what *p points to, but for its prompt. */
enum dgl_status reply_create(const struct dgl_log *log, const struct reply_format *format,
                             bool thinks, const struct dgl_reply_params *p, struct dgl_reply **out);
void reply_destroy(struct dgl_reply **reply);
/* Takes more of the answer; with `last` nothing is held back any more. The first failure stays:
 * DGL_ERR_CANCELLED where a callback returned false. */
enum dgl_status reply_push(struct dgl_reply *r, struct dgl_str text, bool last);

#endif
