/* Meaning of tokenizer.ggml.pre: how byte-level BPE cuts a text into words. Reading and writing use
 * the same table. */
#ifndef DGL_LOADER_GGUF_PRE_H
#define DGL_LOADER_GGUF_PRE_H

#include "core/base/json.h"

#define GGUF_PRE_DEFAULT "default" /* of files without the key */
#define GGUF_PRE_MAX     4

struct gguf_pre {
    const char *name; /* llama.cpp's name */
    /* Patterns of the Splits, in order; none: GPT-2's own, which is part of ByteLevel. */
    const char *regex[GGUF_PRE_MAX];
    bool digits; /* splits off each digit first */
    bool ignore_merges, nfc;
    bool add_bos; /* default of tokenizer.ggml.add_bos_token */
};
/* Finds a row by any of llama.cpp's names for it. Returns NULL if the name is unknown. */
const struct gguf_pre *gguf_pre_find(struct dgl_str name);
/* Appends all canonical names, for messages. */
void gguf_pre_names(struct dgl_buf *out);
/* Finds the row that cuts as these parts of a tokenizer.json. Returns NULL if no row does. */
const struct gguf_pre *gguf_pre_match(const struct dgl_json *normalizer,
                                      const struct dgl_json *pre_tokenizer, bool ignore_merges);
/* Writes "normalizer" and "pre_tokenizer" into the open object. The writer must not indent. */
void gguf_pre_write(struct dgl_json_writer *w, const struct gguf_pre *pre);

#endif
