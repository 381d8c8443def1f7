/*
 * tok_decode.h: the "decoder" of tokenizer.json as a pipeline that reads one token at a time.
 * Decoding all tokens at once uses the same pipeline, so a stream gives the same text.
 */
#ifndef DGL_LOADER_TOK_DECODE_H
#define DGL_LOADER_TOK_DECODE_H

#include "core/base/budget.h"
#include "core/base/json.h"
#include "loader/regex/tok_regex.h"
#include "loader/tokenizer/tok_steps.h"

struct tok_decode_step;

/* Nested sequences are flattened. Immutable after loading. */
struct tok_decoder {
    struct tok_decode_step *steps;
    size_t count; /* at most TOK_MAX_STEPS */
};

/* If `json` is NULL or null, tokens are joined with blanks, as in the reference. */
enum dgl_status tok_decoder_load(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct tok_decoder *out);
void tok_decoder_finish(struct tok_decoder *decoder);

/* State of a step between tokens. */
struct tok_decode_state {
    struct dgl_buf token; /* parts so far of a token, for steps that read whole tokens */
    struct dgl_buf held;  /* bytes of an incomplete run or character */
    struct dgl_buf made;  /* output of the step for the current token */
    size_t tokens;        /* tokens finished before this one */
    size_t cut;           /* characters stripped off this token so far */
    bool past_start;      /* the start of this token is stripped */
    bool in_token;        /* a part of this token was already passed on */
};

/* Decoder state of one text. */
struct tok_decode_stream {
    struct dgl_budget *budget; /* budget of the current call */
    const struct tok_decoder *decoder;
    bool raw; /* bytes are passed on at once, even if they are no whole characters */
    struct tok_decode_state states[TOK_MAX_STEPS];
    struct tok_regex_scratch *regex;
    struct tok_spans spans;
    struct dgl_buf *out; /* output of the current call */
};
/* After the first failure, which the budget stores, decoding has no effect. */
void tok_decode_stream_init(struct tok_decode_stream *stream, struct dgl_budget *budget,
                            const struct tok_decoder *decoder);
/* Allocates memory for tokens of usual length, so that decoding them does not allocate. Returns
 * false if memory is exhausted. */
bool tok_decode_stream_reserve(struct tok_decode_stream *stream);
void tok_decode_stream_finish(struct tok_decode_stream *stream);
/* Appends the text that is certain now, in whole characters. */
enum dgl_status tok_decode_push(struct tok_decode_stream *stream, struct dgl_str token,
                                struct dgl_buf *out);
/* Appends the rest and resets the stream. */
enum dgl_status tok_decode_flush(struct tok_decode_stream *stream, struct dgl_buf *out);

#endif
