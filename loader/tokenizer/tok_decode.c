/* Decoders: every step reads parts of tokens and passes parts of tokens to the next step. The last
 * step writes to the output. */
#include "loader/tokenizer/tok_decode.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/tokenizer/tok_bytes.h"
#include "loader/tokenizer/tok_metaspace.h"
#include "loader/tokenizer/tok_pattern.h"
#include "loader/tokenizer/tok_steps.h"

#define REPLACEMENT "\xEF\xBF\xBD"

enum step_kind {
    STEP_JOIN, /* writes blanks between tokens */
    STEP_REPLACE,
    STEP_BYTE_FALLBACK, /* "<0x41>" to its byte */
    STEP_FUSE,          /* joins all tokens to one */
    STEP_STRIP,
    STEP_METASPACE,
    STEP_BYTE_LEVEL, /* GPT-2's alphabet to bytes; joins all tokens to one */
};

struct tok_decode_step {
    enum step_kind kind;
    struct tok_pattern pattern;
    char *content; /* the replacement; for STEP_STRIP the character to strip */
    size_t content_len;
    int64_t start, stop; /* how many to strip at most */
    struct tok_metaspace metaspace;
};

/* ---- loading --------------------------------------------------------------------------------- */

static enum dgl_status load_step(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct dgl_str type, void *ctx)
{
    static const struct {
        const char *name;
        enum step_kind kind;
    } kinds[] = {{"Replace", STEP_REPLACE},     {"ByteFallback", STEP_BYTE_FALLBACK},
                 {"Fuse", STEP_FUSE},           {"Strip", STEP_STRIP},
                 {"Metaspace", STEP_METASPACE}, {"ByteLevel", STEP_BYTE_LEVEL}};
    struct tok_decoder *out = ctx;
    struct tok_decode_step *step = &out->steps[out->count++];
    enum dgl_status status = DGL_OK;
    size_t i = 0, count = sizeof(kinds) / sizeof(kinds[0]);
    uint32_t cp;
    while (i < count && !dgl_str_eq(type, kinds[i].name))
        i++;
    if (i == count)
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: decoder type \"%s\" is not implemented",
                        dgl_json_name(r.doc), DGL_PRINTABLE_STR(type));
    step->kind = kinds[i].kind;
    if (step->kind == STEP_METASPACE)
        return tok_metaspace_load(r, json, &step->metaspace);
    if (step->kind == STEP_STRIP || step->kind == STEP_REPLACE)
        TRY(tok_step_text(r, json, "content", &step->content, &step->content_len));
    if (step->kind == STEP_REPLACE)
        return tok_pattern_load(r, json, "pattern", &step->pattern);
    if (step->kind == STEP_STRIP) {
        if (step->content_len == 0 ||
            dgl_utf8_decode(step->content, step->content_len, &cp) != step->content_len)
            return dgl_json_fail(r, dgl_json_get(json, "content"), "wanted one character");
        TRY(dgl_json_opt_i64(r, json, "start", 0, INT32_MAX, &step->start));
        TRY(dgl_json_opt_i64(r, json, "stop", 0, INT32_MAX, &step->stop));
    }
done:
    return status;
}

enum dgl_status tok_decoder_load(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct tok_decoder *out)
{
    *out = (struct tok_decoder){.steps = dgl_new_array(struct tok_decode_step, TOK_MAX_STEPS)};
    if (!out->steps)
        return dgl_fail_memory(r.log, "decoder", sizeof(*out->steps));
    if (dgl_json_type(json) != DGL_JSON_NULL)
        return tok_steps_load(r, json, "decoders", load_step, out);
    out->steps[out->count++].kind = STEP_JOIN;
    return DGL_OK;
}

void tok_decoder_finish(struct tok_decoder *decoder)
{
    for (size_t i = 0; i < decoder->count; i++) {
        tok_pattern_finish(&decoder->steps[i].pattern);
        free(decoder->steps[i].content);
    }
    free(decoder->steps);
    *decoder = (struct tok_decoder){0};
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void feed(struct tok_decode_stream *s, size_t at, struct dgl_str part, bool end);

/* Passes a part of a token to a step, or to the output after the last step. `end` marks the last
 * part of the token. */
static void pass(struct tok_decode_stream *s, size_t at, struct dgl_str part, bool end)
{
    if (!dgl_budget_steps(s->budget, dgl_budget_steps_of(part.len)))
        return;
    if (at < s->decoder->count)
        feed(s, at, part, end);
    else
        dgl_budget_append(s->budget, s->out, part.p, part.len);
}

/* Passes a part to the step after `at`. */
static void emit(struct tok_decode_stream *s, size_t at, struct dgl_str part, bool end)
{
    pass(s, at + 1, part, end);
}

/* A run of bytes is decoded as a whole: if it is not UTF-8, every byte becomes U+FFFD. */
static void emit_bytes(struct tok_decode_stream *s, size_t at)
{
    struct dgl_buf *run = &s->states[at].held;
    if (run->len == 0)
        return;
    if (s->raw || dgl_utf8_valid_prefix(run->p, run->len) == run->len) {
        emit(s, at, (struct dgl_str){run->p, run->len}, true);
    } else {
        for (size_t i = 0; i < run->len; i++)
            emit(s, at, DGL_STR(REPLACEMENT), true);
    }
    run->len = 0;
}

/* Emits complete characters. The first bytes of an incomplete character are held back. */
static void byte_level_token(struct tok_decode_stream *s, size_t at, struct dgl_str token)
{
    struct dgl_buf *held = &s->states[at].held, *text = &s->states[at].made;
    text->len = 0;
    if (!tok_bytes_append_unmapped(held, token))
        dgl_buf_append(held, token.p, token.len);
    size_t tail = held->len && !s->raw ? dgl_utf8_incomplete_tail(held->p, held->len) : 0;
    size_t whole = held->len - tail;
    if (whole == 0)
        return;
    if (s->raw || dgl_utf8_valid_prefix(held->p, whole) == whole) {
        emit(s, at, (struct dgl_str){held->p, whole}, false);
    } else {
        dgl_utf8_append_lossy(text, held->p, whole);
        emit(s, at, (struct dgl_str){text->p, text->len}, false);
    }
    memmove(held->p, held->p + whole, tail);
    held->len = tail;
}

static void strip_part(struct tok_decode_stream *s, size_t at, struct dgl_str part, bool end)
{
    const struct tok_decode_step *step = &s->decoder->steps[at];
    struct tok_decode_state *state = &s->states[at];
    size_t len = step->content_len;
    while (!state->past_start && part.len > 0) {
        if (state->cut < (size_t)step->start && part.len >= len &&
            memcmp(part.p, step->content, len) == 0) {
            part = (struct dgl_str){part.p + len, part.len - len};
            state->cut++;
        } else {
            state->past_start = true;
        }
    }
    for (int64_t i = 0; i < step->stop && part.len >= len; i++) {
        if (memcmp(part.p + part.len - len, step->content, len) != 0)
            break;
        part.len -= len;
    }
    emit(s, at, part, end);
    if (end) {
        state->cut = 0;
        state->past_start = false;
    }
}

/* Marks become blanks. The marks of the first token are dropped if the scheme added them. */
static void metaspace_part(struct tok_decode_stream *s, size_t at, struct dgl_str part, bool end)
{
    const struct tok_metaspace *m = &s->decoder->steps[at].metaspace;
    struct tok_decode_state *state = &s->states[at];
    bool drop = state->tokens == 0 && m->scheme != TOK_PREPEND_NEVER;
    while (part.len > 0) {
        const char *mark = memmem(part.p, part.len, m->mark, m->mark_len);
        size_t before = mark ? (size_t)(mark - part.p) : part.len;
        emit(s, at, (struct dgl_str){part.p, before}, false);
        if (mark && !drop)
            emit(s, at, DGL_STR(" "), false);
        size_t used = before + (mark ? m->mark_len : 0);
        part = (struct dgl_str){part.p + used, part.len - used};
    }
    emit(s, at, part, end);
    state->tokens += end;
}

static bool wants_whole_tokens(const struct tok_decode_step *step)
{
    return step->kind == STEP_REPLACE || step->kind == STEP_BYTE_FALLBACK ||
           step->kind == STEP_BYTE_LEVEL || (step->kind == STEP_STRIP && step->stop > 0);
}

static void feed(struct tok_decode_stream *s, size_t at, struct dgl_str part, bool end)
{
    const struct tok_decode_step *step = &s->decoder->steps[at];
    struct tok_decode_state *state = &s->states[at];
    const bool collected = wants_whole_tokens(step) && !(end && state->token.len == 0);
    if (collected) {
        if (!dgl_budget_append(s->budget, &state->token, part.p, part.len) || !end)
            return;
        part = (struct dgl_str){state->token.p, state->token.len};
    }
    switch (step->kind) {
    case STEP_REPLACE:
        state->made.len = 0;
        if (tok_pattern_replace(s->budget, &step->pattern,
                                (struct dgl_str){step->content, step->content_len}, &s->regex,
                                &s->spans, part, &state->made) == DGL_OK)
            emit(s, at, (struct dgl_str){state->made.p, state->made.len}, true);
        break;
    case STEP_BYTE_FALLBACK: {
        bool byte = part.len == 6 && memcmp(part.p, "<0x", 3) == 0 && part.p[5] == '>';
        int high = byte ? dgl_hex_value(part.p[3]) : -1, low = byte ? dgl_hex_value(part.p[4]) : -1;
        if (high >= 0 && low >= 0) {
            char c = (char)(high << 4 | low);
            dgl_budget_append(s->budget, &state->held, &c, 1);
            if (s->raw)
                emit_bytes(s, at);
        } else {
            emit_bytes(s, at);
            emit(s, at, part, true);
        }
        break;
    }
    case STEP_BYTE_LEVEL:
        byte_level_token(s, at, part);
        break;
    case STEP_STRIP:
        strip_part(s, at, part, end);
        break;
    case STEP_FUSE:
        emit(s, at, part, false);
        break;
    case STEP_METASPACE:
        metaspace_part(s, at, part, end);
        break;
    case STEP_JOIN:
        if (state->tokens > 0 && !state->in_token)
            emit(s, at, DGL_STR(" "), false);
        emit(s, at, part, end);
        state->in_token = !end;
        state->tokens += end;
        break;
    }
    if (collected)
        state->token.len = 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

void tok_decode_stream_init(struct tok_decode_stream *stream, struct dgl_budget *budget,
                            const struct tok_decoder *decoder)
{
    *stream = (struct tok_decode_stream){.budget = budget, .decoder = decoder};
}

/* Initial sizes. Longer tokens are rare and allocate more memory. */
#define USUAL_TOKEN_BYTES 128
#define USUAL_SPANS       32

bool tok_decode_stream_reserve(struct tok_decode_stream *stream)
{
    bool done = true;
    for (size_t i = 0; i < stream->decoder->count && done; i++) {
        const struct tok_decode_step *step = &stream->decoder->steps[i];
        struct tok_decode_state *state = &stream->states[i];
        if (wants_whole_tokens(step))
            done = dgl_buf_reserve(&state->token, USUAL_TOKEN_BYTES) &&
                   dgl_buf_reserve(&state->held, USUAL_TOKEN_BYTES) &&
                   dgl_buf_reserve(&state->made, USUAL_TOKEN_BYTES);
        if (step->kind == STEP_REPLACE && done)
            done = dgl_grow((void **)&stream->spans.items, &stream->spans.cap, USUAL_SPANS,
                            sizeof(*stream->spans.items));
        if (step->pattern.regex && !stream->regex && done)
            done = (stream->regex = tok_regex_scratch_create()) != NULL;
    }
    return done;
}

static void reset(struct tok_decode_stream *stream)
{
    for (size_t i = 0; i < TOK_MAX_STEPS; i++) {
        dgl_buf_finish(&stream->states[i].held);
        dgl_buf_finish(&stream->states[i].token);
        dgl_buf_finish(&stream->states[i].made);
        stream->states[i] = (struct tok_decode_state){0};
    }
}

void tok_decode_stream_finish(struct tok_decode_stream *stream)
{
    reset(stream);
    tok_regex_scratch_destroy(&stream->regex);
    free(stream->spans.items);
    stream->spans = (struct tok_spans){0};
}

static enum dgl_status check(struct tok_decode_stream *stream)
{
    bool failed = stream->out->failed;
    for (size_t i = 0; i < stream->decoder->count; i++)
        failed |= stream->states[i].held.failed || stream->states[i].token.failed ||
                  stream->states[i].made.failed;
    if (failed)
        dgl_budget_fail_memory(stream->budget, stream->out->len);
    return stream->budget->status;
}

enum dgl_status tok_decode_push(struct tok_decode_stream *stream, struct dgl_str token,
                                struct dgl_buf *out)
{
    stream->out = out;
    if (stream->budget->status == DGL_OK)
        pass(stream, 0, token, true);
    return check(stream);
}

enum dgl_status tok_decode_flush(struct tok_decode_stream *stream, struct dgl_buf *out)
{
    stream->out = out;
    for (size_t i = 0; stream->budget->status == DGL_OK && i < stream->decoder->count; i++) {
        enum step_kind kind = stream->decoder->steps[i].kind;
        bool tail = kind == STEP_BYTE_LEVEL && stream->states[i].held.len > 0;
        if (kind == STEP_BYTE_FALLBACK)
            emit_bytes(stream, i);
        else if (kind == STEP_BYTE_LEVEL || kind == STEP_FUSE)
            emit(stream, i, tail ? DGL_STR(REPLACEMENT) : (struct dgl_str){0}, true);
    }
    enum dgl_status status = check(stream);
    reset(stream);
    return status;
}
