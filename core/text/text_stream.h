/* Converts generated ids to text: whole characters, held back only while they could begin a stop
 * string. */
#ifndef DGL_CORE_TEXT_STREAM_H
#define DGL_CORE_TEXT_STREAM_H

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "loader/tokenizer/tokenizer.h"

struct text_stream {
    struct detokenizer *detok;
    const struct dgl_tokenizer *tok;
    struct dgl_generate_params p; /* stop strings, and special tokens that leave text */
    struct dgl_buf text;          /* everything so far; a stop string is cut off */
    size_t emitted;               /* bytes of it that the callback has had */
    int32_t *stop_ids;            /* [num_stop_ids], those of *p and of its stop strings */
    size_t num_stop_ids;
    size_t tokens; /* pushed so far */
    bool free;     /* the last of them is one of the first min_tokens: nothing stops in its text */
    bool stopped;  /* a stop string was completed, or a stop id was pushed */
    enum dgl_status status; /* of the first failure, which is logged; no text comes after it */
};

/* If `tok` is NULL, no text is produced. `log`, and the lists `stop` and `shown` of *p, are
 * borrowed. */
enum dgl_status text_stream_init(struct text_stream *t, const struct dgl_log *log,
                                 const struct dgl_tokenizer *tok,
                                 const struct dgl_generate_params *p);
void text_stream_finish(struct text_stream *t);
/* Adds a token. Call text_stream_ready() after it. */
void text_stream_push(struct text_stream *t, int32_t id);
/* Ends the answer: text_stream_ready() then returns all remaining text. */
void text_stream_end(struct text_stream *t);
/* Returns the text that is safe to show and was not returned yet. Borrowed until the next call. */
struct dgl_str text_stream_ready(struct text_stream *t);

#endif
