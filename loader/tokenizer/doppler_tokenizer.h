/* DOPPLER's own form of tokenizer.json, which its converter writes for GGUF files
 * (docs/tokenizers.md). It is converted to the Hugging Face form, so that one engine reads both. */
#ifndef DGL_LOADER_DOPPLER_TOKENIZER_H
#define DGL_LOADER_DOPPLER_TOKENIZER_H

#include "core/base/json.h"

/* Returns true if a tokenizer.json has DOPPLER's form. */
bool doppler_tokenizer_is(const struct dgl_json_doc *doc);
/* Parses a tokenizer.json like dgl_json_parse(). If the text has DOPPLER's form, *out is the
 * Hugging Face form of the same tokenizer. Returns DGL_ERR_FORMAT for ids that are out of range or
 * used twice, lists of the wrong length and values of the wrong type, and DGL_ERR_UNSUPPORTED for
 * other kinds of tokenizers. */
enum dgl_status doppler_tokenizer_parse(const struct dgl_log *log, const char *name,
                                        const char *json, size_t len, struct dgl_json_doc **out);

/* Converts a parsed file to the Hugging Face form. Sets *out to NULL if the file has another
 * form. */
enum dgl_status doppler_tokenizer_convert(const struct dgl_log *log, const struct dgl_json_doc *doc,
                                          struct dgl_json_doc **out);
/* Finds the token of a role ("bos") in specialTokens. Returns false if the role is missing or the
 * file has another form. */
bool doppler_tokenizer_special(const struct dgl_json_doc *doc, const char *role,
                               struct dgl_str *text);

#endif
