/*
 * tok_decode.h: the "decoder" of tokenizer.json as a pipeline that takes one token at a time.
 * Decoding everything at once is the same pipeline with all tokens, so that a stream can show
 * nothing else.
 */
#ifndef DGL_LOADER_TOK_DECODE_H
#define DGL_LOADER_TOK_DECODE_H

#include "core/base/budget.h"
#include "core/base/json.h"
#include "loader/regex/tok_regex.h"
#include "loader/tokenizer/tok_steps.h"

struct tok_decode_step;

/* Sequences are flattened. Immutable after loading. */
struct tok_decoder {
    struct tok_decode_step *steps;
    size_t count; /* at most TOK_MAX_STEPS */
};

/* `json` may be NULL or null: tokens are then joined with blanks, as the reference does. */
enum dgl_status tok_decoder_load(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct tok_decoder *out);
void tok_decoder_finish(struct tok_decoder *decoder);

/* What a step remembers between tokens. */
struct tok_decode_state {
    struct dgl_buf token; /* the parts so far of a token that a step wants whole */
    struct dgl_buf held;  /* bytes that wait for the rest of their run or character */
    struct dgl_buf made;  /* what the step has made of the token at hand */
    size_t tokens;        /* finished before this one */
    size_t cut;           /* characters stripped off this token so far */
    bool past_start;      /* nothing more to strip at the start of this token */
    bool in_token;        /* a part of this token went through already */
};

/* One text being decoded. */
struct tok_decode_stream {
    struct dgl_budget *budget; /* of the call at hand */
    const struct tok_decoder *decoder;
    struct tok_decode_state states[TOK_MAX_STEPS];
    struct tok_regex_scratch *regex;
    struct tok_spans spans;
    struct dgl_buf *out; /* of the call at hand */
};
/* The budget keeps the first failure; nothing is decoded after it. */
void tok_decode_stream_init(struct tok_decode_stream *stream, struct dgl_budget *budget,
                            const struct tok_decoder *decoder);
/* Memory for tokens of usual lengths, so that decoding them asks for none. False: there is none. */
bool tok_decode_stream_reserve(struct tok_decode_stream *stream);
void tok_decode_stream_finish(struct tok_decode_stream *stream);
/* Appends to `out` what is certain now. Whole characters only. */
enum dgl_status tok_decode_push(struct tok_decode_stream *stream, struct dgl_str token,
                                struct dgl_buf *out);
/* Appends the rest; the stream is at its start again. */
enum dgl_status tok_decode_flush(struct tok_decode_stream *stream, struct dgl_buf *out);

#endif
