/*
 * session.h: one sequence of tokens on the device: its KV cache and state, the runs bound to them,
 * and which tokens it holds. `ids` is the host's copy of the IDS buffer; the KV cache is valid for
 * the first `len` of them.
 */
#ifndef DGL_CORE_SESSION_H
#define DGL_CORE_SESSION_H

#include <stdatomic.h>

#include "core/exec/runner.h"
#include "core/seq/adjust.h"
#include "core/model/model.h"
#include "core/seq/pass.h"
#include "core/seq/sampling.h"

struct dgl_session {
    struct dgl_model *model;
    struct dgl_session *next; /* of the model's */
    int32_t context, ubatch;  /* positions; tokens per prefill pass, at most */
    int32_t sequences;        /* 1; more: of a batch (decoder.h), whose state this holds in one */
    bool paced;               /* fewer where the device is slow: nobody asked for a number */
    bool guest;               /* of the KV cache: kv_cache.h */
    bool shares;              /* prompts begin with what others have evaluated, where they do */
    struct kv_pages pages;    /* of the model's KV cache */
    struct memory memory;     /* .state is the session's own */
    struct runner runner;     /* bound to `memory` */
    struct step_table *steps; /* of this one sequence */
    struct pass_row *rows;    /* [ubatch], of the pass at hand */
    uint32_t generation;      /* model_generation() that it has followed */
    bool has_workspace;
    int32_t *ids; /* [context + 1] */
    int32_t len;
    int32_t rope_tokens; /* the ROPE tables are those of a session that holds as many */
    bool logits_valid;   /* LOGITS belongs to token len - 1 */
    struct adjust adjust;
    dgl_progress_cb progress_cb; /* while kernels are compiled; NULL = none */
    void *progress_priv;
    atomic_bool cancel;
};

/* dgl_session_create(). `shared` (NULL: none), zeroed at first, makes it a guest of the KV cache,
 * which needs no room for its context: the runs of all guests of one context, who outlive what is
 * in there. */
enum dgl_status session_create(struct dgl_model *m, const struct dgl_session_params *params,
                               struct runner_runs *shared, struct dgl_session **out);
/* Makes a session that was just created, and holds nothing, hold what `from` does. The device is
 * entered. */
enum dgl_status session_copy(struct dgl_session *s, const struct dgl_session *from);
/* Allocates what so many sequences of a batch have in common into a zeroed session whose model is
 * set: no tokens and no pages. On failure session_destroy() it. The device is entered. */
enum dgl_status session_init_batch(struct dgl_session *s, const struct dgl_session_params *params,
                                   int32_t sequences);
/* Frees a session with all that it holds. The device is entered, or lost. */
void session_destroy(struct dgl_session *s);

/* Begins a public call that evaluates: the device's context becomes current, runs of an older
 * engine or workspace are dropped, and a cancellation that came before this call does not count.
 * One that comes later also ends what goes on inside a pass: submits and readbacks then return
 * DGL_ERR_CANCELLED, not logged. When this succeeds, session_leave() ends the function. */
enum dgl_status session_enter(struct dgl_session *s, struct gl_saved *saved);
/* Returns `status`. DGL_ERR_CANCELLED gets its line, "`what` was cancelled"; what = NULL: it has
 * one. */
enum dgl_status session_leave(struct dgl_session *s, const struct gl_saved *saved, const char *what,
                              enum dgl_status status);
/* False: the model has other kernels since the call began, or its memory has moved for another
 * session, and the runs are of the old ones. */
bool session_is_current(const struct dgl_session *s);
/* Drops runs of an older engine, workspace or KV cache, of which the session may have none queued,
 * and makes room for what the new plan has more. Other guests, who are no longer current either,
 * follow before they queue another one. */
enum dgl_status session_follow(struct dgl_session *s);
/* The session has KV pages for `tokens` (more than its context count as that), before work that
 * writes there is queued. Where session_moves() is true, the cache moves and all runs of the
 * session are dropped: none may be queued. */
enum dgl_status session_reserve(struct dgl_session *s, int32_t tokens);
bool session_moves(const struct dgl_session *s, int32_t tokens);
/* False: a guest would have to wait for them. */
bool session_may_reserve(const struct dgl_session *s, int32_t tokens);
/* Pages that other sequences evaluated for s->ids[len .. count) become the session's, but for the
 * last token's; *adopted (may be NULL) is how many tokens that are. Nothing may be queued. */
enum dgl_status session_adopt(struct dgl_session *s, int32_t count, int32_t *adopted);
/* The device has evaluated the next `tokens` of s->ids. */
void session_advance(struct dgl_session *s, int32_t tokens);
/* Compiles the kernels of the segments (bits as in struct recipe) that are not compiled yet, to
 * machine code, so that no run of them waits for the compiler. DGL_ERR_CANCELLED, not logged:
 * cancelled between two of them. */
enum dgl_status session_compile(struct dgl_session *s, uint32_t segments);
/* Bodies of the passes of up to `rows` tokens that evaluate the next `count`, as such bits. */
uint32_t session_body_segments(const struct dgl_session *s, int32_t count, int32_t rows);
/* Tokens of the next pass when `left` are to be evaluated, in passes of up to `rows`. */
int32_t session_pass_tokens(const struct dgl_session *s, int32_t left, int32_t rows, bool scores);
/* Rows of the passes in which session_eval() evaluates the next `count` tokens, at most. */
int32_t session_eval_rows(const struct dgl_session *s, int32_t count);
/* DGL_ERR_INVALID_ARG unless ids[0 .. count) is a sequence that the session can hold; `name` is the
 * message's word for it. */
enum dgl_status session_check_ids(const struct dgl_session *s, const char *name, const int32_t *ids,
                                  size_t count);
/* The ids of a prompt that is text or ids, exactly one of them. Free ids->ids with free(), also on
 * failure. */
struct prompt {
    const char *text; /* NULL = ids */
    size_t text_len;  /* bytes; 0 = strlen(text) */
    const int32_t *ids;
    size_t num_ids;
    bool no_parse_special;
};
/* Of the parameters of a call that takes one. */
#define PROMPT_OF(p)                                                                               \
    (&(struct prompt){.text = (p)->prompt,                                                         \
                      .text_len = (p)->prompt_len,                                                 \
                      .ids = (p)->ids,                                                             \
                      .num_ids = (p)->num_ids,                                                     \
                      .no_parse_special = (p)->no_parse_special})
enum dgl_status session_prompt_ids(const struct dgl_session *s, const struct prompt *prompt,
                                   struct token_ids *ids);
/* Ends the call in progress with DGL_ERR_CANCELLED. May be called from any thread. */
void session_cancel(struct dgl_session *s);
bool session_is_cancelled(const struct dgl_session *s);
void session_trim(struct dgl_session *s, int32_t len);
/* Gives KV pages back that were reserved for tokens which did not come. */
void session_trim_pages(struct dgl_session *s);
/* Whether the ROPE tables are those of a session that holds `tokens`. */
bool session_rope_holds(const struct dgl_session *s, int32_t tokens);
/* Makes them so, whatever is held. */
enum dgl_status session_write_rope(struct dgl_session *s, int32_t tokens);
/* Makes them so; should they change, nothing that was evaluated is of use: len becomes 0. Call
 * before evaluating anything of a sequence that will have `tokens`. */
enum dgl_status session_expect(struct dgl_session *s, int32_t tokens);
/* Evaluates ids[len .. count), count <= context, which the caller has put into s->ids; LOGITS then
 * belongs to the last one. Stops between passes when cancelled (DGL_ERR_CANCELLED, not logged),
 * keeping what was evaluated. The last pass is queued, not started. */
enum dgl_status session_eval(struct dgl_session *s, int32_t count);
/* One pass over the next `tokens` of s->ids, with the logits that `flags` (enum row_flag) name. */
enum dgl_status session_pass(struct dgl_session *s, int32_t tokens, uint32_t flags);
/* The residual stream of rows at positions 0 .. rows: [point][rows][hidden]. Point 0 is the
 * embedding, points 2i + 1 and 2i + 2 are attention and the feed-forward part of layer i. */
struct stream_trace {
    float *values;
    size_t rows;
};
size_t session_trace_points(const struct dgl_session *s);
/* session_pass() block by block, which brings the stream at each point; waits for each. */
enum dgl_status session_trace_pass(struct dgl_session *s, int32_t tokens, uint32_t flags,
                                   const struct stream_trace *trace);
/* Makes room for the logits of every row of a pass (ROW_SCORE); *rows is how many rows one may
 * have. */
enum dgl_status session_begin_scoring(struct dgl_session *s, int32_t *rows);
/* Puts ids[0 .. count) into s->ids (where they may be already, if nothing was evaluated) and keeps
 * the common prefix of what was evaluated; *reused (may be NULL) is its length. Unless len is then
 * `count`, session_eval(count) is to follow. */
enum dgl_status session_take_ids(struct dgl_session *s, const int32_t *ids, size_t count,
                                 size_t *reused);
/* Writes the state of a pass over step->tokens rows from step->pos on; `flags` are those of the
 * last row, ROW_SCORE and ROW_HIDDEN of all. */
enum dgl_status session_write_step(struct dgl_session *s, const struct dgl_step *step,
                                   uint32_t flags);
/* What the parameters do to logits before they are ranked goes to ADJUST, as far as the device has
 * other words there. */
enum dgl_status session_write_adjust(struct dgl_session *s, const struct dgl_sampling *sampling);
/* Brings count ids from position `pos` on; waits. */
enum dgl_status session_read_ids(struct dgl_session *s, int32_t pos, int32_t count, int32_t *ids);
/* The failure of logits that are NaN or infinite, with what to do: nothing checks a checkpoint's
 * values, nor what the user's own kernels compute when a process starts with them. */
enum dgl_status session_fail_not_numbers(const struct dgl_session *s, const char *fmt, ...)
    DGL_PRINTF(2, 3);
/* Tokens per readback when nobody asks for another number: where a readback costs more than a few
 * steps beyond the answer's end. */
int32_t session_readback_interval(const struct dgl_session *s);

/* dgl_generate(); the device is entered. */
enum dgl_status session_generate(struct dgl_session *s, const struct dgl_generate_params *params,
                                 struct dgl_generate_result *out);
void generate_result_finish(struct dgl_generate_result *result);

#endif
