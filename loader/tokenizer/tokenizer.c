/* Tokenizers: loads tokenizer.json, and passes a text through all parts. */
#include "loader/tokenizer/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/tokenizer/doppler_tokenizer.h"
#include "loader/tokenizer/tok_added.h"
#include "loader/tokenizer/tok_decode.h"
#include "loader/tokenizer/tok_model.h"
#include "loader/tokenizer/tok_normalize.h"
#include "loader/tokenizer/tok_post.h"
#include "loader/tokenizer/tok_pretokenize.h"
#include "loader/tokenizer/tokenizer_json.h"

struct dgl_tokenizer {
    struct tok_added added;
    struct tok_normalizer normalizer;
    struct tok_pretokenizer pretokenizer;
    struct tok_model model;
    struct tok_post post;
    struct tok_decoder decoder;
    int32_t max_id;
    int32_t eos; /* eos_token of tokenizer_config.json, or -1 */
};

/* Limits of one call: a base and an amount per byte. Published tokenizers use 3 to 8 steps per byte
 * of ordinary text, up to 65 for a megabyte of one character, and up to 96 bytes of memory. The
 * rest is a margin for unusual tokenizers. */
enum { base_steps = 100 * 1000 * 1000, steps_per_byte = 200 };
enum { base_memory = 128 << 20, memory_per_byte = 256 };

static struct dgl_budget budget_of(const struct dgl_log *log, const char *work, const char *advice,
                                   size_t len)
{
    struct dgl_budget budget = {.log = log,
                                .work = work,
                                .advice = advice,
                                .refusal = DGL_ERR_UNSUPPORTED,
                                .max_steps = dgl_budget_limit(base_steps, steps_per_byte, len),
                                .max_bytes = dgl_budget_limit(base_memory, memory_per_byte, len)};
    dgl_budget_start(&budget);
    return budget;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Consumes `doc`, also on failure. It was parsed from `len` bytes. Settings that only the caller
 * could apply are reported. */
static enum dgl_status create(const struct dgl_log *log, struct dgl_json_doc *doc, size_t len,
                              const struct vocab_lists *lists, const struct tok_config *config,
                              struct dgl_tokenizer **out)
{
    static const char *const ignored[] = {"truncation", "padding"};
    struct dgl_tokenizer *tok = dgl_new(struct dgl_tokenizer);
    const struct dgl_json_reader r = {log, doc};
    const struct dgl_json *root = dgl_json_root(doc), *version, *model, *added;
    struct dgl_budget budget = budget_of(log, "reading the tokenizer",
                                         "; its normalizer makes too much of its tokens", len);
    budget.name = dgl_json_name(doc);
    enum dgl_status status;
    if (!tok)
        TRY(dgl_fail_memory(log, "tokenizer", sizeof(*tok)));
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        TRY(dgl_json_fail(r, root, "a tokenizer is an object, not %s",
                          dgl_json_type_name(dgl_json_type(root))));
    TRY(dgl_json_opt(r, root, "version", DGL_JSON_STRING, &version));
    if (version && !dgl_str_eq(dgl_json_str(version), "1.0"))
        TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED,
                     "%s: version \"%s\" is not implemented, only \"1.0\" is", budget.name,
                     DGL_PRINTABLE_STR(dgl_json_str(version))));
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        if (dgl_json_type(dgl_json_get(root, ignored[i])) != DGL_JSON_NULL)
            dgl_warn(log, "%s: %s is set and has no effect: texts are never cut or filled up",
                     budget.name, ignored[i]);
    TRY(dgl_json_need(r, root, "model", DGL_JSON_OBJECT, &model));
    TRY(dgl_json_opt(r, root, "added_tokens", DGL_JSON_ARRAY, &added));
    TRY(tok_normalizer_load(r, dgl_json_get(root, "normalizer"), &tok->normalizer));
    TRY(tok_pretokenizer_load(r, dgl_json_get(root, "pre_tokenizer"), &tok->pretokenizer));
    TRY(tok_decoder_load(r, dgl_json_get(root, "decoder"), &tok->decoder));
    TRY(tok_model_load(r, model, lists, &tok->model));
    TRY(tok_added_load(&budget, r, added, lists, config, &tok->model.vocab, &tok->normalizer,
                       &tok->added));
    size_t ids = tok->model.vocab.num_entries;
    tok->max_id = (int32_t)(tok->added.num_ids > ids ? tok->added.num_ids : ids) - 1;
    if (tok->max_id < 0)
        TRY(dgl_json_fail(r, model, "the vocabulary is empty"));
    tok->eos = config && config->eos.p ? tok_added_id(&tok->added, config->eos) : -1;
    TRY(tok_post_load(r, dgl_json_get(root, "post_processor"), tok->max_id, &tok->post));
done:
    dgl_json_destroy(&doc);
    if (status != DGL_OK)
        tokenizer_destroy(&tok);
    *out = tok;
    return status;
}

enum dgl_status tokenizer_create_with(const struct dgl_log *log, const char *name, const char *json,
                                      size_t len, const struct tok_config *config,
                                      struct dgl_tokenizer **out)
{
    struct dgl_json_doc *doc = NULL;
    *out = NULL;
    enum dgl_status status = doppler_tokenizer_parse(log, name, json, len, &doc);
    return status == DGL_OK ? create(log, doc, len, NULL, config, out) : status;
}

enum dgl_status tokenizer_create(const struct dgl_log *log, const char *name, const char *json,
                                 size_t len, struct dgl_tokenizer **out)
{
    return tokenizer_create_with(log, name, json, len, NULL, out);
}

enum dgl_status tokenizer_create_lists(const struct dgl_log *log, const struct vocab_lists *lists,
                                       struct dgl_tokenizer **out)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf text = {0};
    *out = NULL;
    assert(lists->kind == VOCAB_BPE || lists->kind == VOCAB_SPM);
    enum dgl_status status = tokenizer_json_write(log, lists, false, &text);
    if (status == DGL_OK)
        status = dgl_json_parse(log, lists->name, text.p, text.len, &doc);
    if (status == DGL_OK)
        status = create(log, doc, text.len, lists, NULL, out);
    dgl_buf_finish(&text);
    return status;
}

void tokenizer_destroy(struct dgl_tokenizer **tok)
{
    struct dgl_tokenizer *t = *tok;
    if (!t)
        return;
    tok_post_finish(&t->post);
    tok_decoder_finish(&t->decoder);
    tok_model_finish(&t->model);
    tok_pretokenizer_finish(&t->pretokenizer);
    tok_added_finish(&t->added);
    tok_normalizer_finish(&t->normalizer);
    free(t);
    *tok = NULL;
}

int32_t tokenizer_max_id(const struct dgl_tokenizer *tok)
{
    return tok->max_id;
}

int32_t tokenizer_eos(const struct dgl_tokenizer *tok)
{
    return tok->eos;
}

bool tokenizer_is_added(const struct dgl_tokenizer *tok, int32_t id)
{
    return tok_added_find(&tok->added, id) != NULL;
}

bool tokenizer_is_bounded(const struct dgl_tokenizer *tok, int32_t id)
{
    const struct tok_added_token *token = tok_added_find(&tok->added, id);
    return token && (token->lstrip || token->rstrip || token->single_word);
}

void tokenizer_around(const struct dgl_tokenizer *tok, const struct token_ids **before,
                      const struct token_ids **after)
{
    *before = &tok->post.before;
    *after = &tok->post.behind;
}

bool tokenizer_is_special(const struct dgl_tokenizer *tok, int32_t id)
{
    const struct tok_added_token *token = tok_added_find(&tok->added, id);
    return token && token->special;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* State of one tokenizer_encode(). */
struct encoder {
    const struct dgl_log *log;
    struct dgl_budget budget;
    const struct dgl_tokenizer *tok;
    struct encode_flags flags;
    struct tok_scratch scratch;
    struct token_ids *out;
};

/* Encodes normalized text between added tokens. */
static enum dgl_status encode_plain(struct encoder *e, struct dgl_str text, size_t origin_len)
{
    struct tok_scratch *s = &e->scratch;
    size_t room = e->out->cap;
    enum dgl_status status;
    TRY(tok_pretokenize(&e->budget, &e->tok->pretokenizer, s, text, origin_len));
    for (size_t i = 0; i < s->text.count; i++) {
        struct dgl_str piece = {s->text.bytes.p + s->text.pieces[i].start, s->text.pieces[i].len};
        TRY(tok_model_encode(&e->budget, &e->tok->model, &s->model, piece, e->out));
    }
    dgl_budget_bytes(&e->budget, (e->out->cap - room) * sizeof(*e->out->ids));
    status = e->budget.status;
done:
    return status;
}

/* Encodes raw text between added tokens: normalizes it, then cuts it at added tokens of normalized
 * text. */
static enum dgl_status encode_raw(struct encoder *e, struct tainted_text text, size_t origin_len)
{
    struct tok_scratch *s = &e->scratch;
    const struct tok_added *added = &e->tok->added;
    enum dgl_status status;
    TRY(tok_normalize(&e->budget, &e->tok->normalizer, s, text, &origin_len));
    struct tainted_text normalized = {{s->normalized.p, s->normalized.len},
                                      text.taint ? (const uint8_t *)s->normalized_taint.p : NULL};
    TRY(tok_added_cut(&e->budget, added, &added->normalized, e->flags.no_parse_special,
                      e->flags.markup, normalized, &s->cuts));
    for (size_t i = 0; i < s->cuts.count; i++) {
        struct tok_cut cut = s->cuts.items[i];
        struct dgl_str part = {s->normalized.p + cut.start, cut.end - cut.start};
        TRY(cut.token >= 0 ? token_ids_add(e->log, e->out, added->tokens[cut.token].id)
                           : encode_plain(e, part, tok_origin_of(origin_len, cut.start, cut.end)));
        s->continues = false;
    }
done:
    return status;
}

enum dgl_status tokenizer_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                 struct dgl_str text, struct encode_flags flags,
                                 struct token_ids *out)
{
    size_t valid = text.len ? dgl_utf8_valid_prefix(text.p, text.len) : 0;
    if (valid != text.len)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "the text is not UTF-8: byte 0x%02x at offset %zu",
                        (unsigned char)text.p[valid], valid);
    struct encoder e = {.log = log, .tok = tok, .flags = flags, .out = out};
    e.budget = budget_of(
        log, "encoding the text",
        "; the patterns, normalizers or tokens of this tokenizer make too much of it", text.len);
    struct tok_scratch *s = &e.scratch;
    const struct tok_added *added = &tok->added;
    const struct tainted_text tainted = {text, flags.taint};
    size_t before = out->count, first_char = 0;
    uint32_t cp;
    enum dgl_status status = DGL_OK;
    if (text.len && !flags.continues)
        first_char = dgl_utf8_decode(text.p, text.len, &cp);
    if (flags.add_special)
        TRY(token_ids_append(log, out, tok->post.before.ids, tok->post.before.count));
    TRY(tok_added_cut(&e.budget, added, &added->raw, flags.no_parse_special, flags.markup, tainted,
                      &s->raw_cuts));
    s->continues = flags.continues;
    for (size_t i = 0; i < s->raw_cuts.count; i++) {
        struct tok_cut cut = s->raw_cuts.items[i];
        TRY(cut.token >= 0 ? token_ids_add(log, out, added->tokens[cut.token].id)
                           : encode_raw(&e, tainted_part(tainted, cut.start, cut.end),
                                        cut.start == 0 ? first_char : 0));
        s->continues = false;
    }
    if (flags.add_special)
        TRY(token_ids_append(log, out, tok->post.behind.ids, tok->post.behind.count));
done:
    tok_scratch_finish(&e.scratch);
    if (status != DGL_OK)
        out->count = before;
    return status;
}

enum dgl_status tokenizer_find_markup(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                      struct dgl_str text, uint8_t **markup)
{
    *markup = dgl_new_array(uint8_t, tok->added.count);
    if (!*markup)
        return dgl_fail_memory(log, "markup", tok->added.count);
    struct dgl_budget budget =
        budget_of(log, "searching the template for tokens", "; it is no usual template", text.len);
    return tok_added_find_in(&budget, &tok->added, text, *markup);
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Returns the text of a token for the decoder. Returns false if the token is skipped or unknown. */
static bool token_text(const struct dgl_tokenizer *tok, int32_t id, bool skip_special,
                       struct dgl_str *out)
{
    const struct tok_added_token *added = tok_added_find(&tok->added, id);
    if (!added)
        return tok_vocab_token(&tok->model.vocab, id, out);
    *out = (struct dgl_str){added->decoded.p, added->decoded.len};
    return !(skip_special && added->special);
}

static const char decode_advice[] =
    "; the decoder or the tokens of this tokenizer make too much of it";

enum dgl_status tokenizer_decode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                 const int32_t *ids, size_t count, bool skip_special,
                                 struct dgl_buf *out)
{
    struct tok_decode_stream stream;
    struct dgl_budget budget = budget_of(log, "decoding", decode_advice, count);
    tok_decode_stream_init(&stream, &budget, &tok->decoder);
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < count; i++) {
        struct dgl_str token;
        if (token_text(tok, ids[i], skip_special, &token))
            TRY(tok_decode_push(&stream, token, out));
    }
    status = tok_decode_flush(&stream, out);
done:
    tok_decode_stream_finish(&stream);
    return status;
}

bool tokenizer_spelling(const struct dgl_tokenizer *tok, int32_t id, struct dgl_str *out)
{
    const struct tok_added_token *added = tok_added_find(&tok->added, id);
    if (!added)
        return tok_vocab_token(&tok->model.vocab, id, out);
    *out = (struct dgl_str){added->content.p, added->content.len};
    return true;
}

int32_t tokenizer_find_special(const struct dgl_tokenizer *tok, struct dgl_str spelling)
{
    for (size_t i = 0; i < tok->added.count; i++) {
        const struct tok_added_token *t = &tok->added.tokens[i];
        if (t->special && t->content.len == spelling.len && spelling.len > 0 &&
            memcmp(t->content.p, spelling.p, spelling.len) == 0)
            return t->id;
    }
    return -1;
}

enum dgl_status tokenizer_token_bytes(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                      int32_t id, struct dgl_buf *out)
{
    struct tok_decode_stream stream;
    struct dgl_budget budget = budget_of(log, "decoding", decode_advice, 2);
    struct dgl_buf twice = {0};
    struct dgl_str token;
    size_t first = 0;
    enum dgl_status status = DGL_OK;
    tok_decode_stream_init(&stream, &budget, &tok->decoder);
    stream.raw = true;
    if (token_text(tok, id, false, &token)) {
        TRY(tok_decode_push(&stream, token, &twice));
        first = twice.len;
        TRY(tok_decode_push(&stream, token, &twice));
        TRY(tok_decode_flush(&stream, &twice));
    }
    if (twice.len > first)
        dgl_buf_append(out, twice.p + first, twice.len - first);
done:
    tok_decode_stream_finish(&stream);
    dgl_buf_finish(&twice);
    return status;
}

struct detokenizer {
    const struct dgl_tokenizer *tok;
    bool skip_special;
    struct dgl_budget budget;
    struct tok_decode_stream stream;
};

enum dgl_status detokenizer_create(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                   bool skip_special, struct detokenizer **out)
{
    struct detokenizer *d = *out = dgl_new(struct detokenizer);
    if (!d)
        return dgl_fail_memory(log, "decoder", sizeof(*d));
    d->tok = tok;
    d->skip_special = skip_special;
    d->budget = budget_of(log, "decoding", decode_advice, 0);
    tok_decode_stream_init(&d->stream, &d->budget, &tok->decoder);
    if (tok_decode_stream_reserve(&d->stream))
        return DGL_OK;
    detokenizer_destroy(out);
    return dgl_fail_memory(log, "decoder", sizeof(*d));
}

enum dgl_status detokenizer_push(struct detokenizer *d, int32_t id, struct dgl_buf *out)
{
    struct dgl_str token;
    if (!token_text(d->tok, id, d->skip_special, &token))
        return d->budget.status;
    dgl_budget_extend(&d->budget, steps_per_byte, memory_per_byte);
    return tok_decode_push(&d->stream, token, out);
}

enum dgl_status detokenizer_flush(struct detokenizer *d, struct dgl_buf *out)
{
    return tok_decode_flush(&d->stream, out);
}

void detokenizer_destroy(struct detokenizer **d)
{
    if (!*d)
        return;
    tok_decode_stream_finish(&(*d)->stream);
    free(*d);
    *d = NULL;
}
