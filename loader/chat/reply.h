/* reply.h: splits the text of an answer into content, reasoning and tool calls. */
#ifndef DGL_LOADER_REPLY_H
#define DGL_LOADER_REPLY_H

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "loader/chat/reply_format.h"

/* If `format` is NULL, calls are content. If `thinks`, <think> begins reasoning. Borrows `log`,
 * `format` and the pointers of *p except prompt_end. */
enum dgl_status reply_create(const struct dgl_log *log, const struct reply_format *format,
                             bool thinks, const struct dgl_reply_params *p, struct dgl_reply **out);
void reply_destroy(struct dgl_reply **reply);
/* Adds text of the answer. With `last`, all text that was held back is reported. Later calls return
 * the first failure again: DGL_ERR_CANCELLED if a callback returned false. */
enum dgl_status reply_push(struct dgl_reply *r, struct dgl_str text, bool last);

#endif
