/* tokenizer.ggml.* and tokenizer.chat_template*: vocabulary and chat templates. */
#ifndef DGL_LOADER_GGUF_VOCAB_H
#define DGL_LOADER_GGUF_VOCAB_H

#include "loader/gguf/gguf_file.h"
#include "loader/tokenizer/vocab_lists.h"

/* Unknown kinds and pre-tokenizers are DGL_ERR_UNSUPPORTED; ids beyond the list, lists of different
 * lengths and tokens that are not text are DGL_ERR_FORMAT. Tokens of turns are control tokens
 * (gguf_turns.h). */
enum dgl_status gguf_vocab_read(const struct dgl_log *log, const struct gguf_file *file,
                                struct vocab_lists *out);
/* Appends tokenizer_config.json: chat templates, bos_token, eos_token and unk_token. */
enum dgl_status gguf_tokenizer_config_write(const struct dgl_log *log, const struct gguf_file *file,
                                            const struct vocab_lists *v, struct dgl_buf *out);

#endif
