/* Finds tokens without a row, and writes the tokenizer files again without them. */
#include "loader/convert/convert_rowless.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "loader/convert/gguf_export.h"
#include "loader/tensor/model_files.h"
#include "loader/tokenizer/doppler_tokenizer.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/tokenizer.h"

struct dropper {
    const struct dgl_log *log;
    struct dgl_model_file *model;
    struct tok_vocab dropped;        /* contents of tokens without a row */
    const struct dgl_json *specials; /* of the post-processor that is written */
};

static bool is_rowless(const struct dropper *d, int64_t id)
{
    return id >= d->model->desc.vocab;
}

/* Returns true for a token, as a text or as an object with `content`, that is left out. */
static bool is_dropped(const struct dropper *d, const struct dgl_json *token)
{
    struct dgl_str text =
        dgl_json_str(dgl_json_is(token, DGL_JSON_OBJECT) ? dgl_json_get(token, "content") : token);
    return text.len > 0 && tok_vocab_find(&d->dropped, text.p, text.len) >= 0;
}

static enum dgl_status drop(struct dropper *d, struct dgl_str content)
{
    if (tok_vocab_find(&d->dropped, content.p, content.len) >= 0)
        return DGL_OK;
    if (d->dropped.count >= TOK_MAX_ID)
        return dgl_fail(d->log, DGL_ERR_FORMAT, "%s: more than %d tokens", d->model->path,
                        TOK_MAX_ID);
    return tok_vocab_add(&d->dropped, content, (int32_t)d->dropped.count)
               ? DGL_OK
               : dgl_fail_memory(d->log, "tokens without a row", content.len);
}

/* The tokenizer knows the tokens of all files, and the ids that new ones get. A pack can be made
 * without it: a kind that is not implemented is copied then, and *known is false. */
static enum dgl_status find_rowless(struct dropper *d, bool required, bool *known)
{
    struct dgl_tokenizer *tok = NULL;
    struct dgl_error error;
    const struct dgl_log log = dgl_log_with_error(d->log, &error);
    struct dgl_str content;
    enum dgl_status status = model_file_tokenizer(&log, d->model, &tok);
    *known = status == DGL_OK;
    if (status == DGL_ERR_UNSUPPORTED && !required) {
        dgl_warn(d->log, "%s; the tokenizer is copied as it is, and no text can be made into ids",
                 error.text);
        return DGL_OK;
    }
    if (status != DGL_OK)
        return dgl_fail(d->log, status, "%s", error.text);
    for (int32_t id = d->model->desc.vocab; id <= tokenizer_max_id(tok); id++) {
        if (tokenizer_spelling(tok, id, &content))
            TRY(drop(d, content));
    }
done:
    tokenizer_destroy(&tok);
    return status;
}

/* ---- elements that are left out ---- */

/* Returns true if the element of a list or an object is left out. */
typedef bool (*drops)(const struct dropper *d, const struct dgl_json *element, int64_t index);

static bool token_drops(const struct dropper *d, const struct dgl_json *element, int64_t index)
{
    (void)index;
    return is_dropped(d, element);
}

static bool id_drops(const struct dropper *d, const struct dgl_json *element, int64_t index)
{
    (void)index;
    int64_t id;
    return dgl_json_i64(element, &id) && is_rowless(d, id);
}

static bool index_drops(const struct dropper *d, const struct dgl_json *element, int64_t index)
{
    (void)element;
    return is_rowless(d, index);
}

static bool merge_drops(const struct dropper *d, const struct dgl_json *merge, int64_t index)
{
    struct dgl_str left, right;
    struct dgl_buf whole = {0};
    (void)index;
    if (!gguf_export_merge_split(merge, &left, &right))
        return false;
    dgl_buf_append(&whole, left.p, left.len);
    dgl_buf_append(&whole, right.p, right.len);
    bool is = tok_vocab_find(&d->dropped, left.p, left.len) >= 0 ||
              tok_vocab_find(&d->dropped, right.p, right.len) >= 0 ||
              (!whole.failed && tok_vocab_find(&d->dropped, whole.p, whole.len) >= 0);
    dgl_buf_finish(&whole);
    return is;
}

/* An entry of special_tokens of a post-processor: its name need not be the token's text. */
static bool special_drops(const struct dropper *d, const struct dgl_json *entry, int64_t index)
{
    bool is = false;
    (void)index;
    for (const struct dgl_json *id = dgl_json_first(dgl_json_get(entry, "ids")); id && !is;
         id = dgl_json_next(id))
        is = id_drops(d, id, 0);
    return is;
}

static bool piece_drops(const struct dropper *d, const struct dgl_json *piece, int64_t index)
{
    struct dgl_str name = dgl_json_str(dgl_json_get(dgl_json_get(piece, "SpecialToken"), "id"));
    return name.p && special_drops(d, dgl_json_get(d->specials, name.p), index);
}

/* Writes the elements of a list or an object that are not left out. */
static void write_kept(const struct dropper *d, struct dgl_json_writer *w,
                       const struct dgl_json *from, drops left_out)
{
    bool list = dgl_json_is(from, DGL_JSON_ARRAY);
    int64_t index = 0;
    list ? dgl_jw_array(w) : dgl_jw_object(w);
    for (const struct dgl_json *e = dgl_json_first(from); e; e = dgl_json_next(e), index++) {
        if (left_out(d, e, index))
            continue;
        if (!list)
            dgl_jw_key_str(w, dgl_json_key(e));
        dgl_jw_value(w, e);
    }
    list ? dgl_jw_end_array(w) : dgl_jw_end_object(w);
}

static bool is_group(const struct dgl_json *v)
{
    return dgl_json_is(v, DGL_JSON_ARRAY) || dgl_json_is(v, DGL_JSON_OBJECT);
}

/* ---- tokenizer.json ---- */

static void write_model(const struct dropper *d, struct dgl_json_writer *w,
                        const struct dgl_json *model)
{
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(model); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        bool list = dgl_json_is(v, DGL_JSON_ARRAY);
        dgl_jw_key_str(w, key);
        if (dgl_str_eq(key, "vocab") && is_group(v))
            write_kept(d, w, v, list ? index_drops : id_drops);
        else if (dgl_str_eq(key, "merges") && list)
            write_kept(d, w, v, merge_drops);
        else if ((dgl_str_eq(key, "unk_token") && is_dropped(d, v)) ||
                 (dgl_str_eq(key, "unk_id") && id_drops(d, v, 0)))
            dgl_jw_null(w);
        else
            dgl_jw_value(w, v);
    }
    dgl_jw_end_object(w);
}

/* Writes a post-processor, or a sequence of them, which the tokenizer has limited in depth. */
static void write_post(struct dropper *d, struct dgl_json_writer *w, const struct dgl_json *post)
{
    d->specials = dgl_json_get(post, "special_tokens");
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(post); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        bool list = dgl_json_is(v, DGL_JSON_ARRAY);
        dgl_jw_key_str(w, key);
        if (list && dgl_str_eq(key, "processors")) {
            dgl_jw_array(w);
            for (const struct dgl_json *p = dgl_json_first(v); p; p = dgl_json_next(p))
                write_post(d, w, p);
            dgl_jw_end_array(w);
        } else if (list && (dgl_str_eq(key, "single") || dgl_str_eq(key, "pair"))) {
            write_kept(d, w, v, piece_drops);
        } else if (dgl_str_eq(key, "special_tokens") && is_group(v)) {
            write_kept(d, w, v, special_drops);
        } else {
            dgl_jw_value(w, v);
        }
    }
    dgl_jw_end_object(w);
}

/* DOPPLER's form has the lists at the top, and flags for the tokens around a text. */
static void write_doppler(const struct dropper *d, struct dgl_json_writer *w,
                          const struct dgl_json *root)
{
    static const struct {
        const char *list;
        drops left_out;
    } lists[] = {{"vocab", id_drops},
                 {"tokenTypes", index_drops},
                 {"scores", index_drops},
                 {"merges", merge_drops},
                 {"specialTokens", id_drops}};
    static const char *const flags[][2] = {{"addBosToken", "bos"}, {"addEosToken", "eos"}};
    const struct dgl_json *specials = dgl_json_get(root, "specialTokens");
    bool off[2];
    for (size_t i = 0; i < 2; i++)
        off[i] = id_drops(d, dgl_json_get(specials, flags[i][1]), 0);
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        drops left_out = NULL;
        if ((off[0] && dgl_str_eq(key, flags[0][0])) || (off[1] && dgl_str_eq(key, flags[1][0])))
            continue;
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && is_group(v); i++)
            left_out = dgl_str_eq(key, lists[i].list) ? lists[i].left_out : left_out;
        dgl_jw_key_str(w, key);
        if (left_out)
            write_kept(d, w, v, left_out);
        else if (dgl_str_eq(key, "vocabSize"))
            dgl_jw_i64(w, d->model->desc.vocab); /* the file has ids above it */
        else
            dgl_jw_value(w, v);
    }
    for (size_t i = 0; i < 2; i++)
        if (off[i])
            dgl_jw_field_bool(w, flags[i][0], false);
    dgl_jw_end_object(w);
}

/* ---- both kinds of files ---- */

static void write_file(struct dropper *d, struct dgl_json_writer *w, const struct dgl_json *root)
{
    static const char *const groups[] = {"added_tokens", "added_tokens_decoder",
                                         "extra_special_tokens", "additional_special_tokens"};
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        bool group = false;
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
            group = group || dgl_str_eq(key, groups[i]);
        if (dgl_str_ends(key, "_token") && is_dropped(d, v))
            continue;
        dgl_jw_key_str(w, key);
        if (dgl_str_eq(key, "model") && dgl_json_is(v, DGL_JSON_OBJECT))
            write_model(d, w, v);
        else if (dgl_str_eq(key, "post_processor") && dgl_json_is(v, DGL_JSON_OBJECT))
            write_post(d, w, v);
        else if (group && is_group(v))
            write_kept(d, w, v, token_drops);
        else
            dgl_jw_value(w, v);
    }
    dgl_jw_end_object(w);
}

/* added_tokens.json: ids by text. An entry with the id of a token of tokenizer.json has no effect,
 * and must not get one when that token is left out. */
static bool key_drops(const struct dropper *d, const struct dgl_json *element, int64_t index)
{
    struct dgl_str text = dgl_json_key(element);
    return tok_vocab_find(&d->dropped, text.p, text.len) >= 0 || id_drops(d, element, index);
}

static enum dgl_status rewrite(struct dropper *d, const char *name, char **text, size_t *len)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    if (!*text)
        return DGL_OK;
    enum dgl_status status = dgl_json_parse(d->log, name, *text, *len, &doc);
    if (status != DGL_OK)
        return status;
    if (strcmp(name, FILE_ADDED_TOKENS) == 0)
        write_kept(d, &w, dgl_json_root(doc), key_drops);
    else if (strcmp(name, FILE_TOKENIZER) == 0 && doppler_tokenizer_is(doc))
        write_doppler(d, &w, dgl_json_root(doc));
    else
        write_file(d, &w, dgl_json_root(doc));
    dgl_buf_putc(&out, '\n');
    dgl_json_destroy(&doc);
    size_t written = out.len;
    char *again = dgl_buf_take(&out);
    if (!again)
        return dgl_fail_memory(d->log, name, written);
    free(*text);
    *text = again;
    *len = written;
    return DGL_OK;
}

enum dgl_status convert_drop_rowless(const struct dgl_log *log, struct dgl_model_file *m,
                                     bool required)
{
    enum { SHOWN = 4 };
    bool known;
    struct dropper d = {.log = log, .model = m};
    struct dgl_buf list = {0};
    enum dgl_status status = DGL_OK;
    if (!m->tokenizer_json)
        return DGL_OK;
    TRY(find_rowless(&d, required, &known));
    if (!known || d.dropped.count == 0)
        goto done;
    for (int32_t i = 0; i < SHOWN && (size_t)i < d.dropped.count; i++) {
        struct dgl_str content = {0};
        tok_vocab_token(&d.dropped, i, &content);
        dgl_buf_printf(&list, "%s%s", i ? ", " : "", DGL_PRINTABLE_STR(content));
    }
    if (d.dropped.count > SHOWN)
        dgl_buf_printf(&list, ", ... (%zu in all)", d.dropped.count);
    dgl_notice(log,
               "%s: tokens with ids at or above vocab_size %" PRId32 " are left out of the "
               "output: %s",
               m->path, m->desc.vocab, list.p ? list.p : "?");
    TRY(rewrite(&d, FILE_TOKENIZER, &m->tokenizer_json, &m->tokenizer_json_len));
    TRY(rewrite(&d, FILE_TOKENIZER_CONFIG, &m->tokenizer_config_json, &m->tokenizer_config_len));
    TRY(rewrite(&d, FILE_SPECIAL_TOKENS, &m->special_tokens_json, &m->special_tokens_len));
    TRY(rewrite(&d, FILE_ADDED_TOKENS, &m->added_tokens_json, &m->added_tokens_len));
done:
    dgl_buf_finish(&list);
    tok_vocab_finish(&d.dropped);
    return status;
}
