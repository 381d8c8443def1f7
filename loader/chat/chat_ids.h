/* chat_ids.h: rendered conversations to token ids. */
#ifndef DGL_LOADER_CHAT_IDS_H
#define DGL_LOADER_CHAT_IDS_H

#include "loader/text/taint.h"
#include "loader/tokenizer/tokenizer.h"

/* Appends the ids of a text that chat_template_render() made from messages with these answers. If
 * an answer appears in full, its own ids are used instead of encoding its text and its own leading
 * and trailing blanks. Other text is encoded as a continuation of the text before it. Tokens that
 * `markup` (chat_template_markup()) contains never come from data. */
enum dgl_status chat_ids_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                struct dgl_str markup, struct tainted_text rendered,
                                const struct dgl_answer *answers, size_t num_answers,
                                struct token_ids *out);

#endif
