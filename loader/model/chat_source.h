/*
 * chat_source.h: chat templates of a model and the special tokens that they use, from all places
 * where a model may keep them. The readers of each format fill a chat_source; chat_template.h uses
 * it.
 *
 * Order of templates in Hugging Face folders and packs: the files of chat_files.h, then
 * chat_template.jinja, then chat_template.json, then "chat_template" of tokenizer_config.json (a
 * text, or named templates). GGUF files have the last as tokenizer.chat_template and
 * tokenizer.chat_template.NAME. Order of tokens: special_tokens_map.json, which is only read if
 * tokenizer_config.json has no added_tokens_decoder, then tokenizer_config.json, then ids of
 * tokenizer.json in the form of DOPPLER, and last the special tokens <s> and </s> of tokenizer.json
 * as bos_token and eos_token.
 */
#ifndef DGL_LOADER_CHAT_SOURCE_H
#define DGL_LOADER_CHAT_SOURCE_H

#include "core/base/json.h"

#define CHAT_DEFAULT  "default"  /* name of an unnamed template */
#define CHAT_TOOL_USE "tool_use" /* template for conversations with tools */

struct chat_source_template {
    struct dgl_buf name, text, origin; /* origin: "chat_template.jinja" */
    bool file;                         /* the template has a file of its own */
};
/* Variable for templates: "bos_token" and its text. */
struct chat_source_token {
    const char *name; /* static */
    struct dgl_buf text;
    bool found;
    bool none; /* a file says that there is no such token */
};
enum { CHAT_SOURCE_TOKENS = 7 };

struct chat_source {
    struct chat_source_template *templates; /* names are unique */
    size_t count, cap;
    struct chat_source_token tokens[CHAT_SOURCE_TOKENS];
    bool listed; /* tokenizer_config.json has an added_tokens_decoder */
};

void chat_source_init(struct chat_source *source);
void chat_source_finish(struct chat_source *source);
/* Both keep an existing entry, so callers add the origin with the highest priority first. A token
 * name that templates do not use is ignored. */
enum dgl_status chat_source_add(const struct dgl_log *log, struct chat_source *source,
                                const char *origin, struct dgl_str name, struct dgl_str text);
enum dgl_status chat_source_add_token(const struct dgl_log *log, struct chat_source *source,
                                      const char *name, struct dgl_str text);
/* Returns NULL if no template has the name. */
const struct chat_source_template *chat_source_find(const struct chat_source *source,
                                                    const char *name);

/* Fills an initialised *out from the model at `path` in `source`, or in the file system if that is
 * NULL (see dgl_template_params). A model without
 * templates is not an error. `override_kv` corrects keys of a GGUF file (gguf_override.h). */
enum dgl_status chat_source_load(const struct dgl_log *log, const struct dgl_source *source,
                                 const char *path, const char *const *override_kv,
                                 struct chat_source *out);

#endif
