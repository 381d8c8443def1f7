/* GGUF metadata -> tokenizer.json and tokenizer_config.json: from there on the one tokenizer engine
 * and the one search for chat templates. */
#ifndef DGL_LOADER_GGUF_TOKENIZER_H
#define DGL_LOADER_GGUF_TOKENIZER_H

#include "loader/tokenizer/gguf_vocab.h"

/* Appends tokenizer.json; not for GGUF_VOCAB_NONE. */
enum dgl_status gguf_tokenizer_write(const struct dgl_log *log, const struct gguf_vocab *v,
                                     struct dgl_buf *out);
/* Appends tokenizer_config.json: chat templates, bos_token, eos_token and unk_token. */
enum dgl_status gguf_tokenizer_config_write(const struct dgl_log *log, const struct gguf_vocab *v,
                                            struct dgl_buf *out);

#endif
