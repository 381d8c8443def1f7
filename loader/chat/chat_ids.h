/* chat_ids.h: from a rendered conversation to ids. */
#ifndef DGL_LOADER_CHAT_IDS_H
#define DGL_LOADER_CHAT_IDS_H

#include "loader/text/taint.h"
#include "loader/tokenizer/tokenizer.h"

/* Appends the ids of a text that chat_template_render() made of messages with these answers. Where
 * the text of an answer stands in full, its own ids take the place, together with blanks around it
 * that are part of them; what lies between is encoded as the continuation of what was before. */
enum dgl_status chat_ids_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                struct tainted_text rendered, const struct dgl_answer *answers,
                                size_t num_answers, struct token_ids *out);

#endif
