/*
 * tok_config.h: special tokens of tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json. They are added to those of tokenizer.json as in transformers 5.24
 * (docs/tokenizers.md).
 */
#ifndef DGL_LOADER_TOK_CONFIG_H
#define DGL_LOADER_TOK_CONFIG_H

#include "core/base/json.h"

enum tok_config_place {
    TOK_LISTED, /* added_tokens_decoder, or added_tokens.json */
    TOK_NAMED,  /* eos_token and other keys *_token */
    TOK_EXTRA   /* extra_special_tokens or additional_special_tokens */
};

struct tok_config_token {
    struct dgl_str content; /* borrowed from the documents */
    enum tok_config_place place;
    int64_t id; /* of a listed token, otherwise -1 */
    bool old;   /* of added_tokens.json: not added if tokenizer.json has a token with its id */
    bool special, normalized, single_word, lstrip, rstrip;
};

enum tok_config_name {
    TOK_CONFIG, /* tokenizer_config.json */
    /* The others are only read if that file has no added_tokens_decoder. */
    TOK_CONFIG_MAP,   /* special_tokens_map.json */
    TOK_CONFIG_ADDED, /* added_tokens.json */
    TOK_CONFIG_FILES
};

/* `{0}` has no tokens. */
struct tok_config {
    struct dgl_json_doc *docs[TOK_CONFIG_FILES];
    struct tok_config_token *tokens; /* TOK_LISTED by id, then TOK_NAMED, then TOK_EXTRA */
    size_t count, cap;
    bool has_list;      /* there is an added_tokens_decoder */
    struct dgl_str eos; /* content of eos_token; p is NULL without one */
};

/* A file; `text` NULL means that it is absent. */
struct tok_config_file {
    const char *name; /* for messages */
    const char *text;
    size_t len;
};
enum dgl_status tok_config_load(const struct dgl_log *log,
                                const struct tok_config_file files[TOK_CONFIG_FILES],
                                struct tok_config *out);
void tok_config_finish(struct tok_config *config);

#endif
