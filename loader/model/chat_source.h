/*
 * chat_source.h: the chat templates of a model and the special tokens that they speak of, wherever
 * a model keeps them. What reads a format fills a chat_source; chat_template.h works with it.
 *
 * Hugging Face folders and packs: the files of chat_files.h, then chat_template.jinja, then
 * chat_template.json, then "chat_template" of tokenizer_config.json (a text, or a list of named
 * ones), which GGUF files have as tokenizer.chat_template and tokenizer.chat_template.NAME. Tokens:
 * tokenizer_config.json, then special_tokens_map.json, then what tokenizer.json in DOPPLER's form
 * names by id, then the special tokens <s> and </s> of tokenizer.json as bos_token and eos_token.
 */
#ifndef DGL_LOADER_CHAT_SOURCE_H
#define DGL_LOADER_CHAT_SOURCE_H

#include "core/base/json.h"

#define CHAT_DEFAULT  "default"  /* name of a template that has none */
#define CHAT_TOOL_USE "tool_use" /* the one for conversations with tools */

struct chat_source_template {
    struct dgl_buf name, text, origin; /* origin: "chat_template.jinja" */
    bool file;                         /* a file holds it and nothing else */
};
/* A variable that templates know: "bos_token" and its text. */
struct chat_source_token {
    const char *name; /* static */
    struct dgl_buf text;
    bool found;
};
enum { CHAT_SOURCE_TOKENS = 7 };

struct chat_source {
    struct chat_source_template *templates; /* names are unique */
    size_t count, cap;
    struct chat_source_token tokens[CHAT_SOURCE_TOKENS];
};

void chat_source_init(struct chat_source *source);
void chat_source_finish(struct chat_source *source);
/* Both keep what is there already: the stronger origin comes first. A name that no template knows
 * as a token is ignored. */
enum dgl_status chat_source_add(const struct dgl_log *log, struct chat_source *source,
                                const char *origin, struct dgl_str name, struct dgl_str text);
enum dgl_status chat_source_add_token(const struct dgl_log *log, struct chat_source *source,
                                      const char *name, struct dgl_str text);
/* NULL: there is none of that name. */
const struct chat_source_template *chat_source_find(const struct chat_source *source,
                                                    const char *name);

/* Fills an initialised source from the model at `path` (what dgl_template_params says); no
 * template is no fault. */
enum dgl_status chat_source_load(const struct dgl_log *log, const char *path,
                                 struct chat_source *out);

#endif
