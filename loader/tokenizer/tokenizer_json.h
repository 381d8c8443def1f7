/* Writes the lists of a vocabulary as tokenizer.json. */
#ifndef DGL_LOADER_TOKENIZER_JSON_H
#define DGL_LOADER_TOKENIZER_JSON_H

#include "loader/tokenizer/vocab_lists.h"

/* Appends tokenizer.json; not for VOCAB_NONE. Without `lists`, the tokens, merges and added tokens
 * are omitted, and only the small parts remain that define how a text is cut and joined. */
enum dgl_status tokenizer_json_write(const struct dgl_log *log, const struct vocab_lists *v,
                                     bool lists, struct dgl_buf *out);

#endif
