/* Evaluates known ids of a session in passes: prompts, and texts that are scored. */
#ifndef DGL_CORE_PREFILL_H
#define DGL_CORE_PREFILL_H

#include "core/seq/session.h"

/* Returns the bodies of the passes that evaluate the next `count` tokens in passes of up to `rows`,
 * as shapes. */
struct shape_set session_body_shapes(const struct dgl_session *s, int32_t count, int32_t rows);
/* Returns the size of the next pass if `left` tokens remain and a pass has at most `rows`.
 * `scores`: every row computes logits. */
int32_t session_pass_tokens(const struct dgl_session *s, int32_t left, int32_t rows, bool scores);
/* Returns the maximum rows of a pass if session_eval() evaluates the next `count` tokens. */
int32_t session_eval_rows(const struct dgl_session *s, int32_t count);
/* Returns DGL_ERR_INVALID_ARG if ids[0 .. count) is empty, does not fit the context, or has an id
 * outside of the vocabulary. `name` names the ids in the message. */
enum dgl_status session_check_ids(const struct dgl_session *s, const char *name, const int32_t *ids,
                                  size_t count);
/* A prompt: either text or ids. session_prompt_ids() returns its ids. The caller frees ids->ids
 * with free(), also on failure. */
struct prompt {
    const char *text; /* NULL if the prompt is ids */
    size_t text_len;  /* in bytes; 0 means strlen(text) */
    const int32_t *ids;
    size_t num_ids;
    bool no_parse_special;
};
/* The prompt in the parameters of a public call. */
#define PROMPT_OF(p)                                                                               \
    (&(struct prompt){.text = (p)->prompt,                                                         \
                      .text_len = (p)->prompt_len,                                                 \
                      .ids = (p)->ids,                                                             \
                      .num_ids = (p)->num_ids,                                                     \
                      .no_parse_special = (p)->no_parse_special})
enum dgl_status session_prompt_ids(const struct dgl_session *s, const struct prompt *prompt,
                                   struct token_ids *ids);
/* Queues one pass over the next `tokens` of ids. `flags` (enum row_flag) selects the results. If
 * s->trace is set, runs the pass block by block instead, and waits. */
enum dgl_status session_pass(struct dgl_session *s, int32_t tokens, uint32_t flags);
size_t session_trace_points(const struct dgl_session *s);
/* Stores ids[0 .. count) in ids and keeps the evaluated tokens up to the first difference.
 * If `adopts`, pages that other sequences have evaluated are used too. *reused (may be NULL) is set
 * to the number of tokens that need no evaluation. `ids` may be the session's own ids. If
 * len < count afterwards, session_eval(count) must follow. */
enum dgl_status session_take_ids(struct dgl_session *s, const int32_t *ids, size_t count,
                                 bool adopts, size_t *reused);
/* Reports NaN or infinite logits, with advice. `fmt` names the values and the verb, for example
 * "the logits are". Such logits may come from the weights or from a user's own kernel: neither is
 * checked beforehand. */
enum dgl_status session_fail_not_numbers(const struct dgl_session *s, const char *fmt, ...)
    DGL_PRINTF(2, 3);

#endif
