/* Reads the special tokens of tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json. */
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

/* A list of extra tokens, or an object that names them. */
struct extra {
    struct dgl_json_reader from;
    const struct dgl_json *value;
    bool late; /* its tokens are not special in added_tokens.json */
};
enum { MAX_EXTRAS = 2 };

/* The files; a key of the map replaces that of the config. */
struct sources {
    const struct dgl_log *log;
    struct dgl_json_reader config, map, added; /* without a document: the file is not read */
    struct extra extras[MAX_EXTRAS];
    size_t num_extras;
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

static enum dgl_status token_append(const struct sources *s, struct tok_config_token token,
                                    struct tok_config *out)
{
    if (!dgl_grow((void **)&out->tokens, &out->cap, out->count + 1, sizeof(token)))
        return dgl_fail_memory(s->log, "special tokens", (out->count + 1) * sizeof(token));
    out->tokens[out->count++] = token;
    return DGL_OK;
}

/* Adds a token. Values of other types and null are no tokens. */
static enum dgl_status token_add(const struct sources *s, struct dgl_json_reader r,
                                 const struct dgl_json *value, struct tok_config_token token,
                                 struct tok_config *out)
{
    if (!dgl_json_is(value, DGL_JSON_STRING) && !dgl_json_is(value, DGL_JSON_OBJECT))
        return DGL_OK;
    enum dgl_status status = token_read(s, r, value, &token);
    return status == DGL_OK ? token_append(s, token, out) : status;
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

static bool has_tokens(const struct dgl_json *value)
{
    return dgl_json_is(value, DGL_JSON_ARRAY) || dgl_json_is(value, DGL_JSON_OBJECT)
               ? dgl_json_count(value) > 0
               : dgl_json_str(value).len > 0;
}

static enum dgl_status extra_put(struct sources *s, struct dgl_json_reader r,
                                 const struct dgl_json *value, bool late)
{
    if (dgl_json_type(value) == DGL_JSON_NULL)
        return DGL_OK;
    if (!dgl_json_is(value, DGL_JSON_ARRAY) && !dgl_json_is(value, DGL_JSON_OBJECT))
        return dgl_json_fail_wanted(r, value, "a list of tokens");
    s->extras[s->num_extras++] = (struct extra){r, value, late};
    return DGL_OK;
}

/* In the config, the older name counts if the newer one has no tokens. A list of the map is added
 * to that of the config; another value of the map replaces a list. The older name of the map counts
 * if there is no list with the newer name, be it an empty one. */
static enum dgl_status extras_find(struct sources *s)
{
    const struct dgl_json *config = root_of(s->config), *map = root_of(s->map);
    const struct dgl_json *list = dgl_json_get(config, EXTRA), *more = dgl_json_get(map, EXTRA);
    const struct dgl_json *older = dgl_json_get(config, ADDITIONAL);
    enum dgl_status status = DGL_OK;
    if (older && !has_tokens(list)) {
        list = older;
        older = NULL;
    }
    bool named = dgl_json_is(list, DGL_JSON_OBJECT), present = list && !named;
    if (named || !more || dgl_json_is(more, DGL_JSON_ARRAY))
        TRY(extra_put(s, s->config, list, false));
    if (more) {
        present = !dgl_json_is(more, DGL_JSON_OBJECT);
        TRY(extra_put(s, s->map, more, false));
    } else if (!present && dgl_json_get(map, ADDITIONAL)) {
        TRY(extra_put(s, s->map, dgl_json_get(map, ADDITIONAL), true));
    } else if (!present) {
        TRY(extra_put(s, s->config, older, true));
    }
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
    for (size_t i = 0; i < s->num_extras; i++) {
        const struct extra *x = &s->extras[i];
        const bool object = dgl_json_is(x->value, DGL_JSON_OBJECT);
        for (const struct dgl_json *v = object ? dgl_json_first(x->value) : NULL; v;
             v = dgl_json_next(v))
            TRY(token_add(s, x->from, v, token, out));
    }
done:
    return status;
}

static enum dgl_status extra_read(const struct sources *s, struct tok_config *out)
{
    const struct tok_config_token token = {.place = TOK_EXTRA, .id = -1};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < s->num_extras; i++) {
        const struct extra *x = &s->extras[i];
        const bool list = dgl_json_is(x->value, DGL_JSON_ARRAY);
        for (const struct dgl_json *v = list ? dgl_json_first(x->value) : NULL; v;
             v = dgl_json_next(v))
            TRY(token_add(s, x->from, v, token, out));
    }
done:
    return status;
}

/* ---- added_tokens.json ---- */

/* Adds the text of a value that makes a token of added_tokens.json special: a text, or an object of
 * special_tokens_map.json. */
static enum dgl_status special_put(const struct sources *s, struct dgl_json_reader r,
                                   const struct dgl_json *value, struct tok_vocab *special)
{
    const struct dgl_json *content = value;
    if (r.doc == s->map.doc && dgl_json_is(value, DGL_JSON_OBJECT))
        content = dgl_json_get(value, "content");
    struct dgl_str text = dgl_json_str(content);
    if (text.len == 0 || tok_vocab_find(special, text.p, text.len) >= 0)
        return DGL_OK;
    return special->count < TOK_MAX_ID && tok_vocab_add(special, text, (int32_t)special->count)
               ? DGL_OK
               : dgl_fail_memory(s->log, "special tokens", text.len);
}

/* Reads the tokens of old tokenizers, as an object of ids by text. */
static enum dgl_status added_read(const struct sources *s, struct tok_config *out)
{
    struct tok_vocab special = {0};
    struct dgl_json_reader r;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < NUM_NAMES; i++) {
        const struct dgl_json *value = get(s, names[i], &r);
        TRY(special_put(s, r, value, &special));
    }
    for (size_t i = 0; i < s->num_extras; i++) {
        const struct extra *x = &s->extras[i];
        const bool list = dgl_json_is(x->value, DGL_JSON_ARRAY) && !x->late;
        for (const struct dgl_json *v = list ? dgl_json_first(x->value) : NULL; v;
             v = dgl_json_next(v))
            TRY(special_put(s, x->from, v, &special));
    }
    for (const struct dgl_json *v = dgl_json_first(root_of(s->added)); v; v = dgl_json_next(v)) {
        struct tok_config_token token = {
            .content = dgl_json_key(v), .place = TOK_LISTED, .id = -1, .old = true};
        if (!dgl_json_i64(v, &token.id) || token.id < 0 || token.id >= TOK_MAX_ID)
            TRY(dgl_json_fail(s->added, v, "wanted an id from 0 to %d", TOK_MAX_ID - 1));
        token.special = tok_vocab_find(&special, token.content.p, token.content.len) >= 0;
        token.normalized = !token.special;
        TRY(token_append(s, token, out));
    }
    if (out->count > 0)
        qsort(out->tokens, out->count, sizeof(*out->tokens), id_compare);
done:
    tok_vocab_finish(&special);
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

enum dgl_status tok_config_load(const struct dgl_log *log,
                                const struct tok_config_file files[TOK_CONFIG_FILES],
                                struct tok_config *out)
{
    *out = (struct tok_config){0};
    enum dgl_status status;
    TRY(file_parse(log, files[TOK_CONFIG], &out->docs[TOK_CONFIG]));
    struct sources s = {.log = log, .config = {log, out->docs[TOK_CONFIG]}};
    out->has_list = dgl_json_get(root_of(s.config), DECODER) != NULL;
    for (size_t i = TOK_CONFIG_MAP; i < TOK_CONFIG_FILES && !out->has_list; i++)
        TRY(file_parse(log, files[i], &out->docs[i]));
    s.map = (struct dgl_json_reader){log, out->docs[TOK_CONFIG_MAP]};
    s.added = (struct dgl_json_reader){log, out->docs[TOK_CONFIG_ADDED]};
    TRY(extras_find(&s));
    TRY(out->has_list ? listed_read(&s, out) : added_read(&s, out));
    TRY(named_read(&s, out));
    TRY(extra_read(&s, out));
done:
    if (status != DGL_OK)
        tok_config_finish(out);
    return status;
}

void tok_config_finish(struct tok_config *config)
{
    for (size_t i = 0; i < TOK_CONFIG_FILES; i++)
        dgl_json_destroy(&config->docs[i]);
    free(config->tokens);
    *config = (struct tok_config){0};
}
