/* Reads the special tokens of tokenizer_config.json and special_tokens_map.json. */
#include "loader/tokenizer/tok_config.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/tokenizer/tok_vocab.h"

#define DECODER    "added_tokens_decoder"
#define EXTRA      "extra_special_tokens"
#define ADDITIONAL "additional_special_tokens"

/* In this order they get ids, if they are not in the vocabulary. */
static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum { NUM_NAMES = sizeof(names) / sizeof(names[0]) };

/* Both files; a key of the second replaces that of the first. */
struct sources {
    const struct dgl_log *log;
    struct dgl_json_reader config, map; /* without a document: the file is not read */
};

static const struct dgl_json *root_of(struct dgl_json_reader r)
{
    return r.doc ? dgl_json_root(r.doc) : NULL;
}

static const struct dgl_json *get(const struct sources *s, const char *key,
                                  struct dgl_json_reader *from)
{
    const struct dgl_json *value = dgl_json_get(root_of(s->map), key);
    *from = value ? s->map : s->config;
    return value ? value : dgl_json_get(root_of(s->config), key);
}

/* Reads a text, or an object with `content`. All objects of special_tokens_map.json are special. */
static enum dgl_status token_read(const struct sources *s, struct dgl_json_reader r,
                                  const struct dgl_json *value, struct tok_config_token *token)
{
    const struct dgl_json *content = value;
    enum dgl_status status = DGL_OK;
    if (dgl_json_is(value, DGL_JSON_STRING)) {
        token->special = true;
    } else {
        TRY(dgl_json_need(r, value, "content", DGL_JSON_STRING, &content));
        TRY(dgl_json_opt_bool(r, value, "special", &token->special));
        token->special |= r.doc == s->map.doc;
        token->normalized = !token->special;
        TRY(dgl_json_opt_bool(r, value, "normalized", &token->normalized));
        TRY(dgl_json_opt_bool(r, value, "single_word", &token->single_word));
        TRY(dgl_json_opt_bool(r, value, "lstrip", &token->lstrip));
        TRY(dgl_json_opt_bool(r, value, "rstrip", &token->rstrip));
    }
    token->content = dgl_json_str(content);
done:
    return status;
}

/* Adds a token. Values of other types and null are no tokens. */
static enum dgl_status token_add(const struct sources *s, struct dgl_json_reader r,
                                 const struct dgl_json *value, struct tok_config_token token,
                                 struct tok_config *out)
{
    if (!dgl_json_is(value, DGL_JSON_STRING) && !dgl_json_is(value, DGL_JSON_OBJECT))
        return DGL_OK;
    enum dgl_status status = token_read(s, r, value, &token);
    if (status == DGL_OK &&
        !dgl_grow((void **)&out->tokens, &out->cap, out->count + 1, sizeof(token)))
        status = dgl_fail_memory(s->log, "special tokens", (out->count + 1) * sizeof(token));
    if (status == DGL_OK)
        out->tokens[out->count++] = token;
    return status;
}

static int id_compare(const void *a, const void *b)
{
    const struct tok_config_token *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static enum dgl_status listed_read(const struct sources *s, struct tok_config *out)
{
    const struct dgl_json *list;
    struct dgl_json_reader r = s->config;
    enum dgl_status status;
    TRY(dgl_json_opt(r, root_of(r), DECODER, DGL_JSON_OBJECT, &list));
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        struct tok_config_token token = {.place = TOK_LISTED};
        if (!dgl_parse_i64(dgl_json_key(v), 0, TOK_MAX_ID - 1, &token.id))
            TRY(dgl_json_fail(r, v, "wanted an id from 0 to %d as key", TOK_MAX_ID - 1));
        if (!dgl_json_is(v, DGL_JSON_OBJECT))
            TRY(dgl_json_fail_wanted(r, v, "an object with content"));
        TRY(token_add(s, r, v, token, out));
    }
    if (out->count > 0)
        qsort(out->tokens, out->count, sizeof(*out->tokens), id_compare);
done:
    return status;
}

/* Other keys *_token name tokens of the model, such as image_token. */
static enum dgl_status own_names_read(const struct sources *s, struct dgl_json_reader r,
                                      struct tok_config *out)
{
    const struct tok_config_token token = {.place = TOK_NAMED, .id = -1};
    enum dgl_status status = DGL_OK;
    for (const struct dgl_json *v = dgl_json_first(root_of(r)); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        bool named = !dgl_str_ends(key, "_token");
        for (size_t i = 0; i < NUM_NAMES && !named; i++)
            named = dgl_str_eq(key, names[i]);
        if (!named && (dgl_json_is(v, DGL_JSON_STRING) || dgl_json_get(v, "content")))
            TRY(token_add(s, r, v, token, out));
    }
done:
    return status;
}

static enum dgl_status named_read(const struct sources *s, struct tok_config *out)
{
    const struct tok_config_token token = {.place = TOK_NAMED, .id = -1};
    struct dgl_json_reader r;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < NUM_NAMES; i++) {
        const struct dgl_json *value = get(s, names[i], &r);
        size_t before = out->count;
        TRY(token_add(s, r, value, token, out));
        if (strcmp(names[i], "eos_token") == 0 && out->count > before)
            out->eos = out->tokens[before].content;
    }
    TRY(own_names_read(s, s->config, out));
    TRY(own_names_read(s, s->map, out));
    const struct dgl_json *extra = get(s, EXTRA, &r);
    for (const struct dgl_json *v = dgl_json_is(extra, DGL_JSON_OBJECT) ? dgl_json_first(extra)
                                                                        : NULL;
         v; v = dgl_json_next(v))
        TRY(token_add(s, r, v, token, out));
done:
    return status;
}

/* The older name of the list counts if the newer one has no tokens. */
static enum dgl_status extra_read(const struct sources *s, struct tok_config *out)
{
    const struct tok_config_token token = {.place = TOK_EXTRA, .id = -1};
    struct dgl_json_reader r;
    const struct dgl_json *list = get(s, EXTRA, &r);
    enum dgl_status status = DGL_OK;
    if (!dgl_json_is(list, DGL_JSON_ARRAY) || dgl_json_count(list) == 0)
        list = get(s, ADDITIONAL, &r);
    if (list && !dgl_json_is(list, DGL_JSON_ARRAY) && !dgl_json_is(list, DGL_JSON_NULL))
        TRY(dgl_json_fail_wanted(r, list, "a list of tokens"));
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v))
        TRY(token_add(s, r, v, token, out));
done:
    return status;
}

/* Parses a file that is an object. */
static enum dgl_status file_parse(const struct dgl_log *log, struct tok_config_file file,
                                  struct dgl_json_doc **doc)
{
    if (!file.text)
        return DGL_OK;
    enum dgl_status status = dgl_json_parse(log, file.name, file.text, file.len, doc);
    if (status == DGL_OK && !dgl_json_is(dgl_json_root(*doc), DGL_JSON_OBJECT))
        status = dgl_json_fail_wanted((struct dgl_json_reader){log, *doc}, dgl_json_root(*doc),
                                      "an object");
    return status;
}

enum dgl_status tok_config_load(const struct dgl_log *log, struct tok_config_file config,
                                struct tok_config_file map, struct tok_config *out)
{
    *out = (struct tok_config){0};
    enum dgl_status status;
    TRY(file_parse(log, config, &out->config));
    struct sources s = {.log = log, .config = {log, out->config}, .map = {log, NULL}};
    out->has_list = dgl_json_get(root_of(s.config), DECODER) != NULL;
    if (!out->has_list)
        TRY(file_parse(log, map, &out->map));
    s.map.doc = out->map;
    if (out->has_list)
        TRY(listed_read(&s, out));
    TRY(named_read(&s, out));
    TRY(extra_read(&s, out));
done:
    if (status != DGL_OK)
        tok_config_finish(out);
    return status;
}

void tok_config_finish(struct tok_config *config)
{
    dgl_json_destroy(&config->config);
    dgl_json_destroy(&config->map);
    free(config->tokens);
    *config = (struct tok_config){0};
}
