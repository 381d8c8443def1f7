/* Finds tokens without a row, and writes the tokenizer files again without them. */
#include "loader/convert/convert_rowless.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "loader/convert/gguf_export.h"
#include "loader/tensor/model_files.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/tokenizer.h"

struct dropper {
    const struct dgl_log *log;
    struct dgl_model_file *model;
    struct tok_vocab dropped; /* contents of tokens without a row */
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

/* The tokenizer knows the tokens of all files, and the ids that new ones get. */
static enum dgl_status find_rowless(struct dropper *d)
{
    struct dgl_tokenizer *tok = NULL;
    struct dgl_str content;
    enum dgl_status status;
    TRY(model_file_tokenizer(d->log, d->model, &tok));
    for (int32_t id = d->model->desc.vocab; id <= tokenizer_max_id(tok); id++) {
        if (tokenizer_spelling(tok, id, &content))
            TRY(drop(d, content));
    }
done:
    tokenizer_destroy(&tok);
    return status;
}

/* ---- tokenizer.json ---- */

static bool merge_is_dropped(const struct dropper *d, const struct dgl_json *merge)
{
    struct dgl_str left, right;
    struct dgl_buf whole = {0};
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

static void write_model(const struct dropper *d, struct dgl_json_writer *w,
                        const struct dgl_json *model)
{
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(model); v; v = dgl_json_next(v)) {
        bool vocab = dgl_str_eq(dgl_json_key(v), "vocab");
        bool list = dgl_json_is(v, DGL_JSON_ARRAY);
        dgl_jw_key_str(w, dgl_json_key(v));
        if (!vocab && !(list && dgl_str_eq(dgl_json_key(v), "merges"))) {
            dgl_jw_value(w, v);
            continue;
        }
        list ? dgl_jw_array(w) : dgl_jw_object(w);
        int64_t index = 0;
        for (const struct dgl_json *e = dgl_json_first(v); e; e = dgl_json_next(e), index++) {
            int64_t id = index;
            if (vocab && !list)
                dgl_json_i64(e, &id);
            if (vocab ? is_rowless(d, id) : merge_is_dropped(d, e))
                continue;
            if (!list)
                dgl_jw_key_str(w, dgl_json_key(e));
            dgl_jw_value(w, e);
        }
        list ? dgl_jw_end_array(w) : dgl_jw_end_object(w);
    }
    dgl_jw_end_object(w);
}

/* ---- both kinds of files ---- */

/* Writes the elements of a list or an object that are no dropped tokens. */
static void write_kept(const struct dropper *d, struct dgl_json_writer *w,
                       const struct dgl_json *from)
{
    bool list = dgl_json_is(from, DGL_JSON_ARRAY);
    list ? dgl_jw_array(w) : dgl_jw_object(w);
    for (const struct dgl_json *e = dgl_json_first(from); e; e = dgl_json_next(e)) {
        if (is_dropped(d, e))
            continue;
        if (!list)
            dgl_jw_key_str(w, dgl_json_key(e));
        dgl_jw_value(w, e);
    }
    list ? dgl_jw_end_array(w) : dgl_jw_end_object(w);
}

static void write_file(const struct dropper *d, struct dgl_json_writer *w,
                       const struct dgl_json *root)
{
    static const char *const groups[] = {"added_tokens", "added_tokens_decoder",
                                         "extra_special_tokens", "additional_special_tokens"};
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        bool group = false;
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
            group = group || dgl_str_eq(key, groups[i]);
        group = group && (dgl_json_is(v, DGL_JSON_ARRAY) || dgl_json_is(v, DGL_JSON_OBJECT));
        if (dgl_str_ends(key, "_token") && is_dropped(d, v))
            continue;
        dgl_jw_key_str(w, key);
        if (dgl_str_eq(key, "model") && dgl_json_is(v, DGL_JSON_OBJECT))
            write_model(d, w, v);
        else if (group)
            write_kept(d, w, v);
        else
            dgl_jw_value(w, v);
    }
    dgl_jw_end_object(w);
}

static enum dgl_status rewrite(const struct dropper *d, const char *name, char **text, size_t *len)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    if (!*text)
        return DGL_OK;
    enum dgl_status status = dgl_json_parse(d->log, name, *text, *len, &doc);
    if (status != DGL_OK)
        return status;
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

enum dgl_status convert_drop_rowless(const struct dgl_log *log, struct dgl_model_file *m)
{
    enum { SHOWN = 4 };
    struct dropper d = {.log = log, .model = m};
    struct dgl_buf list = {0};
    enum dgl_status status = DGL_OK;
    if (!m->tokenizer_json)
        return DGL_OK;
    TRY(find_rowless(&d));
    if (d.dropped.count == 0)
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
done:
    dgl_buf_finish(&list);
    tok_vocab_finish(&d.dropped);
    return status;
}
