/*
 * session.h: one sequence of tokens on the device: its KV cache, its state, and the runs that are
 * bound to them. `ids` is the host's copy of the IDS buffer. The KV cache is valid for the first
 * `len` ids.
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
    struct dgl_session *next; /* in the model's list */
    int32_t context, ubatch;  /* positions; maximum tokens of a prefill pass */
    int32_t sequences;        /* 1, or the sequences of a batch (decoder.h) that share this state */
    bool paced;               /* the caller set no pass size: passes are shorter on a slow device */
    bool guest;               /* is a guest of the KV cache, see kv_cache.h */
    bool shares;              /* reuses KV pages of other sequences with the same prefix */
    struct kv_pages pages;    /* pages in the model's KV cache */
    struct memory memory;     /* .state belongs to the session */
    struct runner runner;     /* bound to `memory` */
    struct step_table *steps; /* of this sequence alone */
    struct pass_row *rows;    /* [ubatch], rows of the current pass */
    uint32_t generation;      /* the model_generation() that the session has followed */
    bool has_workspace;
    int32_t *ids; /* [context + 1] */
    int32_t len;
    int32_t rope_tokens; /* sequence length for which the ROPE tables were written */
    bool logits_valid;   /* LOGITS is that of token len - 1 */
    struct adjust adjust;
    dgl_progress_cb progress_cb; /* called during compilation; may be NULL */
    void *progress_priv;
    atomic_bool cancel;
};

/* Implements dgl_session_create(). If `shared` is not NULL, the session is a guest of the KV cache:
 * it needs no room for its whole context. `shared` has the runs of all guests with one context. It
 * must be zeroed before the first guest is created. The guests must outlive its contents. */
enum dgl_status session_create(struct dgl_model *m, const struct dgl_session_params *params,
                               struct runner_runs *shared, struct dgl_session **out);
/* Copies the state of `from` into a new, empty session. The caller must have entered the device. */
enum dgl_status session_copy(struct dgl_session *s, const struct dgl_session *from);
/* Allocates the state that the sequences of a batch share, without tokens or pages. `s` must be
 * zeroed except for its model. On failure, call session_destroy(). The caller must have entered the
 * device. */
enum dgl_status session_init_batch(struct dgl_session *s, const struct dgl_session_params *params,
                                   int32_t sequences);
/* The device must be entered, or lost. */
void session_destroy(struct dgl_session *s);

/* Begins a public call that evaluates. Makes the device's context current, drops runs of an older
 * engine or workspace, and clears an earlier cancellation. If the call is cancelled from here on,
 * submits and readbacks return DGL_ERR_CANCELLED and log no message. If session_enter() succeeds,
 * the function must end with session_leave(). */
enum dgl_status session_enter(struct dgl_session *s, struct gl_saved *saved);
/* Ends a public call and returns `status`. If `status` is DGL_ERR_CANCELLED and `what` is not NULL,
 * logs "`what` was cancelled". */
enum dgl_status session_leave(struct dgl_session *s, const struct gl_saved *saved, const char *what,
                              enum dgl_status status);
/* Returns false if the runs are outdated: the model has other kernels since the call began, or its
 * memory has moved for another session. */
bool session_is_current(const struct dgl_session *s);
/* Drops runs of an older engine, workspace or KV cache, and allocates the buffers that the new plan
 * adds. No outdated run of the session may be queued. Other guests are outdated too; each must
 * follow before it queues a run. */
enum dgl_status session_follow(struct dgl_session *s);
/* Reserves KV pages for `tokens` positions, or for the context if that is less. Call it before
 * queueing work that writes there. If session_moves() returns true, the cache moves and all runs of
 * the session are dropped; none of them may be queued. */
enum dgl_status session_reserve(struct dgl_session *s, int32_t tokens);
bool session_moves(const struct dgl_session *s, int32_t tokens);
/* Returns false if a guest would have to wait for these pages. */
bool session_may_reserve(const struct dgl_session *s, int32_t tokens);
/* Reuses pages of other sequences that hold s->ids[len .. count). The last token is always left to
 * evaluate. *adopted (may be NULL) is set to the number of tokens. The session must have no queued
 * work. */
enum dgl_status session_adopt(struct dgl_session *s, int32_t count, int32_t *adopted);
/* Notes that the device has evaluated the next `tokens` of s->ids. */
void session_advance(struct dgl_session *s, int32_t tokens);
/* Compiles the kernels of the segments (bits as in struct recipe) to machine code, so that no run
 * waits for the compiler. Skips those already compiled. Returns DGL_ERR_CANCELLED, without a
 * message, if cancelled between two kernels. */
enum dgl_status session_compile(struct dgl_session *s, uint32_t segments);
/* Ends the call in progress with DGL_ERR_CANCELLED. May be called from any thread. */
void session_cancel(struct dgl_session *s);
bool session_is_cancelled(const struct dgl_session *s);
void session_trim(struct dgl_session *s, int32_t len);
/* Returns the KV pages beyond `len` tokens to the cache. */
void session_trim_pages(struct dgl_session *s);
/* Returns true if the ROPE tables are valid for a sequence of `tokens`. */
bool session_rope_holds(const struct dgl_session *s, int32_t tokens);
/* Writes the ROPE tables for a sequence of `tokens`, even if tokens were evaluated with other
 * tables. */
enum dgl_status session_write_rope(struct dgl_session *s, int32_t tokens);
/* Prepares the ROPE tables for a sequence of `tokens`. If the tables change, all evaluated tokens
 * are invalid and `len` becomes 0. Call it before evaluating any part of the sequence. */
enum dgl_status session_expect(struct dgl_session *s, int32_t tokens);
/* Writes the state of a pass over step->tokens rows from step->pos on. `flags` apply to the last
 * row; ROW_SCORE and ROW_HIDDEN apply to all rows. */
enum dgl_status session_write_step(struct dgl_session *s, const struct dgl_step *step,
                                   uint32_t flags);
/* Writes the logit adjustments of the parameters to ADJUST, if the device has different ones. */
enum dgl_status session_write_adjust(struct dgl_session *s, const struct dgl_sampling *sampling);
/* Reads `count` ids from position `pos` on. Waits. */
enum dgl_status session_read_ids(struct dgl_session *s, int32_t pos, int32_t count, int32_t *ids);
/* Default number of tokens per readback. It is more than 1 if a readback costs more than a few
 * steps beyond the end of the answer. */
int32_t session_readback_interval(const struct dgl_session *s);

#endif
