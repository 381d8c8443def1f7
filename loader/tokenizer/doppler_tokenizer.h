/* DOPPLER's own form of tokenizer.json, which its converter writes for GGUF files
 * (docs/tokenizers.md), as the Hugging Face form: from there on the one engine. */
#ifndef DGL_LOADER_DOPPLER_TOKENIZER_H
#define DGL_LOADER_DOPPLER_TOKENIZER_H

#include "core/base/json.h"

/* dgl_json_parse() of a tokenizer.json; of a text in DOPPLER's form, *out is the Hugging Face form
 * of the same tokenizer. Ids out of range or taken twice, lists of other lengths and values of
 * other types are DGL_ERR_FORMAT, other kinds of tokenizers are DGL_ERR_UNSUPPORTED. */
enum dgl_status doppler_tokenizer_parse(const struct dgl_log *log, const char *name,
                                        const char *json, size_t len, struct dgl_json_doc **out);

/* The Hugging Face form of a parsed file; *out stays NULL when it is not DOPPLER's. */
enum dgl_status doppler_tokenizer_convert(const struct dgl_log *log, const struct dgl_json_doc *doc,
                                          struct dgl_json_doc **out);
/* The text of the token that specialTokens gives a role ("bos"); false: there is none, or the file
 * is not of DOPPLER's form. */
bool doppler_tokenizer_special(const struct dgl_json_doc *doc, const char *role,
                               struct dgl_str *text);

#endif
