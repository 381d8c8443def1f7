/* What tokenizer.ggml.pre stands for: how byte-level BPE cuts a text into words. Both directions
 * read the same table. */
#ifndef DGL_LOADER_GGUF_PRE_H
#define DGL_LOADER_GGUF_PRE_H

#include "core/base/json.h"

struct gguf_pre {
    const char *name;  /* as llama.cpp calls it */
    const char *regex; /* of a Split; NULL = GPT-2's own, which ByteLevel brings */
    bool digits;       /* each digit on its own before that */
    bool ignore_merges, nfc;
    bool add_bos; /* where tokenizer.ggml.add_bos_token is absent */
};
/* By any of the names that llama.cpp uses for it; NULL = unknown. */
const struct gguf_pre *gguf_pre_find(struct dgl_str name);
/* All canonical names, for messages. */
void gguf_pre_names(struct dgl_buf *out);
/* The row that cuts as these parts of a tokenizer.json do; NULL = none does. */
const struct gguf_pre *gguf_pre_match(const struct dgl_json *normalizer,
                                      const struct dgl_json *pre_tokenizer, bool ignore_merges);
/* Writes "normalizer" and "pre_tokenizer" into the object that is open; a writer of one line. */
void gguf_pre_write(struct dgl_json_writer *w, const struct gguf_pre *pre);

#endif
