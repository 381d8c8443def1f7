/* Writes tokenizer.json as tokenizer.ggml.*: the inverse of tokenizer_json.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/convert/gguf_export.h"
#include "loader/model/chat_source.h"
#include "loader/tensor/model_files.h"
#include "loader/tokenizer/doppler_tokenizer.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/tokenizer.h"
#include "loader/tokenizer/vocab_lists.h"

#define KEY(name) "tokenizer.ggml." name

/* Score of pieces that no merge produces: below all others. */
#define SCORE_NONE (-1e6f)

struct token {
    struct dgl_str text; /* NULL: the id is unused */
    enum token_type type;
    float score;
};

struct exporter {
    const struct dgl_log *log;
    const struct dgl_model_file *model;
    struct dgl_json_doc *doc;
    const struct dgl_json *root, *vocab; /* of tokenizer.json, its model */
    struct dgl_tokenizer *tok;
    struct gguf_writer *w;
    struct token *tokens; /* [count] */
    int32_t count;
    struct tok_vocab ids;
    const struct gguf_pre *pre; /* NULL: SentencePiece */
    struct chat_source chat;
};

static bool type_is(const struct dgl_json *object, const char *type)
{
    return dgl_str_eq(dgl_json_str(dgl_json_get(object, "type")), type);
}

static enum dgl_status cannot(const struct exporter *x, const char *what)
{
    return dgl_fail(x->log, DGL_ERR_UNSUPPORTED,
                    "%s: %s cannot be said in a GGUF file; " GGUF_AS_PACK, dgl_json_name(x->doc),
                    what);
}

static enum dgl_status token_set(struct exporter *x, const struct dgl_json *where, int64_t id,
                                 struct dgl_str text, enum token_type type)
{
    if (id < 0 || id >= x->count)
        return dgl_json_fail((struct dgl_json_reader){x->log, x->doc}, where,
                             "id %" PRId64 " is not below vocab_size %" PRId32, id, x->count);
    if (!x->tokens[id].text.p && !tok_vocab_add(&x->ids, text, (int32_t)id))
        return dgl_fail_memory(x->log, "vocabulary", text.len);
    x->tokens[id] = (struct token){text, type, SCORE_NONE};
    return DGL_OK;
}

static enum dgl_status read_vocab(struct exporter *x)
{
    bool spm = x->pre == NULL;
    enum dgl_status status = DGL_OK;
    const struct dgl_json *list = dgl_json_get(x->vocab, "vocab");
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        int64_t id = -1;
        struct dgl_str text = dgl_json_key(v);
        dgl_json_i64(v, &id);
        bool byte = text.len == 6 && memcmp(text.p, "<0x", 3) == 0 && text.p[5] == '>';
        TRY(token_set(x, v, id, text, spm && byte ? TOKEN_BYTE : TOKEN_NORMAL));
    }
    struct dgl_str unk = dgl_json_str(dgl_json_get(x->vocab, "unk_token"));
    /* The tokenizer knows the added tokens of all files. */
    for (int32_t id = 0; id < x->count; id++) {
        struct dgl_str text;
        if (!tokenizer_is_added(x->tok, id) || !tokenizer_spelling(x->tok, id, &text))
            continue;
        enum token_type type =
            tokenizer_is_special(x->tok, id) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        if (spm && unk.p && dgl_str_equal(text, unk))
            type = TOKEN_UNKNOWN;
        TRY(token_set(x, list, id, text, type));
    }
done:
    return status;
}

bool gguf_export_merge_split(const struct dgl_json *merge, struct dgl_str *left,
                             struct dgl_str *right)
{
    if (dgl_json_is(merge, DGL_JSON_ARRAY)) {
        *left = dgl_json_str(dgl_json_at(merge, 0));
        *right = dgl_json_str(dgl_json_at(merge, 1));
        return left->p && right->p;
    }
    struct dgl_str text = dgl_json_str(merge);
    const char *blank = text.len > 1 ? memchr(text.p + 1, ' ', text.len - 1) : NULL;
    if (!blank)
        return false;
    *left = (struct dgl_str){text.p, (size_t)(blank - text.p)};
    *right = (struct dgl_str){blank + 1, text.len - left->len - 1};
    return true;
}

/* The score of a piece is minus the index of the first merge that produces it. */
static void score(struct exporter *x, struct dgl_str left, struct dgl_str right, size_t rank)
{
    struct dgl_buf whole = {0};
    dgl_buf_append(&whole, left.p, left.len);
    dgl_buf_append(&whole, right.p, right.len);
    int32_t id = whole.failed ? -1 : tok_vocab_find(&x->ids, whole.p, whole.len);
    if (id >= 0 && x->tokens[id].score <= SCORE_NONE)
        x->tokens[id].score = -(float)rank;
    dgl_buf_finish(&whole);
}

static enum dgl_status write_merges(struct exporter *x)
{
    const struct dgl_json *list = dgl_json_get(x->vocab, "merges");
    size_t rank = 0;
    gguf_put_array(x->w, KEY("merges"), GGUF_STRING, dgl_json_count(list));
    for (const struct dgl_json *m = dgl_json_first(list); m; m = dgl_json_next(m), rank++) {
        struct dgl_str left, right;
        if (!gguf_export_merge_split(m, &left, &right))
            return dgl_json_fail((struct dgl_json_reader){x->log, x->doc}, m,
                                 "wanted two pieces with a blank between, or an array of two");
        struct dgl_buf text = {0};
        dgl_buf_append(&text, left.p, left.len);
        dgl_buf_putc(&text, ' ');
        dgl_buf_append(&text, right.p, right.len);
        if (text.failed)
            return dgl_fail_memory(x->log, "merges", text.len);
        gguf_add_str(x->w, (struct dgl_str){text.p, text.len});
        dgl_buf_finish(&text);
        if (!x->pre)
            score(x, left, right, rank);
    }
    return DGL_OK;
}

static void write_tokens(struct exporter *x)
{
    gguf_put_array(x->w, KEY("tokens"), GGUF_STRING, (uint64_t)x->count);
    for (int32_t i = 0; i < x->count; i++) {
        struct dgl_str text = x->tokens[i].text;
        struct dgl_buf other = {0};
        if (!text.p) {
            dgl_buf_printf(&other, "[PAD%" PRId32 "]", i);
        } else if (!x->pre && x->tokens[i].type == TOKEN_USER_DEFINED) {
            /* It is matched before spaces are replaced by marks, so it contains spaces. */
            for (size_t at = 0; at < text.len; at++) {
                bool mark = text.len - at >= 3 && memcmp(text.p + at, VOCAB_SPACE_MARK, 3) == 0;
                dgl_buf_putc(&other, mark ? ' ' : text.p[at]);
                at += mark ? 2 : 0;
            }
        }
        gguf_add_str(x->w, other.p ? (struct dgl_str){other.p, other.len} : text);
        x->w->keys.failed |= other.failed;
        dgl_buf_finish(&other);
    }
    gguf_put_array(x->w, KEY("token_type"), GGUF_I32, (uint64_t)x->count);
    for (int32_t i = 0; i < x->count; i++)
        gguf_add_i32(x->w, x->tokens[i].text.p ? (int32_t)x->tokens[i].type : TOKEN_UNUSED);
    if (x->pre)
        return;
    gguf_put_array(x->w, KEY("scores"), GGUF_F32, (uint64_t)x->count);
    for (int32_t i = 0; i < x->count; i++)
        gguf_add_f32(x->w, x->tokens[i].score);
}

/* ---- kinds ---- */

/* Returns true if a normalizer inserts a space mark before the text. */
static bool prepends(const struct dgl_json *normalizer)
{
    if (type_is(normalizer, "Prepend"))
        return true;
    const struct dgl_json *list = dgl_json_get(normalizer, "normalizers");
    for (const struct dgl_json *n = dgl_json_first(list); n; n = dgl_json_next(n)) {
        if (prepends(n))
            return true;
    }
    return false;
}

static enum dgl_status write_kind(struct exporter *x)
{
    const struct dgl_json *normalizer = dgl_json_get(x->root, "normalizer");
    const struct dgl_json *pre = dgl_json_get(x->root, "pre_tokenizer");
    bool ignore = dgl_json_bool(dgl_json_get(x->vocab, "ignore_merges"));
    if (!type_is(x->vocab, "BPE"))
        return cannot(x, "a model other than BPE");
    if (!dgl_json_bool(dgl_json_get(x->vocab, "byte_fallback"))) {
        x->pre = gguf_pre_match(normalizer, pre, ignore);
        if (!x->pre)
            return cannot(x, "its normalizer and pre_tokenizer");
        gguf_put_str(x->w, KEY("model"), DGL_STR("gpt2"));
        gguf_put_str(x->w, KEY("pre"), dgl_str_of(x->pre->name));
        return DGL_OK;
    }
    if (type_is(pre, "Metaspace"))
        return cannot(x, "pre_tokenizer Metaspace");
    gguf_put_str(x->w, KEY("model"), DGL_STR("llama"));
    gguf_put_str(x->w, KEY("pre"), DGL_STR("default"));
    gguf_put_bool(x->w, KEY("add_space_prefix"), prepends(normalizer));
    return DGL_OK;
}

/* ---- ids ---- */

/* Finds the one token that the post-processor puts before or after a text: -1 if there is none. */
static enum dgl_status find_wrapping(const struct exporter *x, const struct token_ids *ids,
                                     const char *what, int32_t *id)
{
    size_t count = 0;
    *id = -1;
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->ids[i] >= x->count) /* without a row */
            continue;
        *id = ids->ids[i];
        count++;
    }
    return count > 1 ? cannot(x, what) : DGL_OK;
}

/* Replaces *id, the id of `name`, by that of the token around texts, which readers of GGUF files
 * take from the key of that name. */
static void use_wrapping(const struct exporter *x, int32_t around, const char *name,
                         const char *verb, int32_t *id)
{
    if (around < 0 || around == *id)
        return;
    if (*id >= 0)
        dgl_warn(x->log, "%s: %s is %s, but texts %s with %s, which is %s_id of the GGUF file",
                 x->model->path, name, DGL_PRINTABLE_STR(x->tokens[*id].text), verb,
                 DGL_PRINTABLE_STR(x->tokens[around].text), name);
    *id = around;
}

static int32_t token_id(const struct exporter *x, const char *name)
{
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++) {
        const struct chat_source_token *t = &x->chat.tokens[i];
        if (t->found && strcmp(t->name, name) == 0)
            return tok_vocab_find(&x->ids, t->text.p ? t->text.p : "", t->text.len);
    }
    return -1;
}

static enum dgl_status write_ids(struct exporter *x)
{
    static const char *const stops[] = {KEY("eos_token_id"), KEY("eot_token_id"),
                                        KEY("eom_token_id")};
    const struct model_desc *d = &x->model->desc;
    const struct token_ids *before, *after;
    size_t used = 0;
    int32_t bos = d->bos_id >= 0 ? d->bos_id : token_id(x, "bos_token"), first, last;
    int32_t named = token_id(x, "eos_token"), eos = named;
    struct dgl_str unk = dgl_json_str(dgl_json_get(x->vocab, "unk_token"));
    int32_t unk_id = unk.p ? tok_vocab_find(&x->ids, unk.p, unk.len) : -1;
    enum dgl_status status;
    tokenizer_around(x->tok, &before, &after);
    TRY(find_wrapping(x, before, "a post-processor with several tokens before a text", &first));
    TRY(find_wrapping(x, after, "a post-processor with several tokens after a text", &last));
    use_wrapping(x, first, "bos_token", "begin", &bos);
    use_wrapping(x, last, "eos_token", "end", &eos);
    if (bos >= 0)
        gguf_put_u32(x->w, KEY("bos_token_id"), (uint32_t)bos);
    if (eos >= 0)
        gguf_put_u32(x->w, stops[used++], (uint32_t)eos);
    if (named >= 0 && named != eos)
        gguf_put_u32(x->w, stops[used++], (uint32_t)named);
    for (size_t i = 0; i < d->num_stop_ids; i++) {
        if (d->stop_ids[i].id == eos || d->stop_ids[i].id == named)
            continue;
        if (used == 3)
            dgl_warn(x->log, "%s: stop id %" PRId32 " is left out: GGUF has three keys for them",
                     x->model->path, d->stop_ids[i].id);
        else
            gguf_put_u32(x->w, stops[used++], (uint32_t)d->stop_ids[i].id);
    }
    if (unk_id >= 0)
        gguf_put_u32(x->w, KEY("unknown_token_id"), (uint32_t)unk_id);
    gguf_put_bool(x->w, KEY("add_bos_token"), first >= 0);
    gguf_put_bool(x->w, KEY("add_eos_token"), last >= 0);
done:
    return status;
}

/* Reports added tokens with flags that GGUF files cannot store. */
static void report_bounded(const struct exporter *x)
{
    enum { SHOWN = 4 };
    struct dgl_buf list = {0};
    size_t count = 0;
    /* Readers strip blanks after the special tokens of this architecture. */
    if (strcmp(x->model->desc.family, "phi3") == 0)
        return;
    for (int32_t id = 0; id < x->count; id++)
        if (tokenizer_is_bounded(x->tok, id) && count++ < SHOWN)
            dgl_buf_printf(&list, "%s%s", count > 1 ? ", " : "",
                           DGL_PRINTABLE_STR(x->tokens[id].text));
    if (count > SHOWN)
        dgl_buf_printf(&list, ", ... (%zu in all)", count);
    if (count > 0)
        dgl_warn(x->log,
                 "%s: a GGUF file cannot say that tokens absorb blanks or are whole words (lstrip, "
                 "rstrip, single_word); texts with these have other ids: %s",
                 x->model->path, list.p ? list.p : "?");
    dgl_buf_finish(&list);
}

enum dgl_status gguf_export_vocab(const struct dgl_log *log, const struct dgl_model_file *model,
                                  struct gguf_writer *w)
{
    struct exporter x = {.log = log, .model = model, .w = w, .count = model->desc.vocab};
    if (!model->tokenizer_json) {
        gguf_put_str(w, KEY("model"), DGL_STR("none"));
        return DGL_OK;
    }
    chat_source_init(&x.chat);
    enum dgl_status status;
    TRY(doppler_tokenizer_parse(log, FILE_TOKENIZER, model->tokenizer_json,
                                model->tokenizer_json_len, &x.doc));
    TRY(model_file_tokenizer(log, model, &x.tok));
    TRY(chat_source_load(log, model->source, model->path, model->override_kv, &x.chat));
    x.tokens = dgl_new_array(struct token, (size_t)x.count);
    if (!x.tokens)
        TRY(dgl_fail_memory(log, "vocabulary", (uint64_t)x.count * sizeof(*x.tokens)));
    x.root = dgl_json_root(x.doc);
    x.vocab = dgl_json_get(x.root, "model");
    TRY(write_kind(&x));
    TRY(read_vocab(&x));
    TRY(write_merges(&x));
    write_tokens(&x);
    TRY(write_ids(&x));
    report_bounded(&x);
    for (size_t i = 0; i < x.chat.count; i++) {
        const struct chat_source_template *t = &x.chat.templates[i];
        struct dgl_buf key = {0};
        dgl_buf_puts(&key, "tokenizer.chat_template");
        if (strcmp(t->name.p, CHAT_DEFAULT) != 0)
            dgl_buf_printf(&key, ".%s", t->name.p);
        gguf_put_str(w, key.p ? key.p : "", (struct dgl_str){t->text.p, t->text.len});
        w->keys.failed |= key.failed;
        dgl_buf_finish(&key);
    }
done:
    chat_source_finish(&x.chat);
    tok_vocab_finish(&x.ids);
    tokenizer_destroy(&x.tok);
    free(x.tokens);
    dgl_json_destroy(&x.doc);
    return status;
}
