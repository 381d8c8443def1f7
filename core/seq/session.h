/*
 * session.h: one sequence of tokens on the device: its buffers, the runs bound to them, and which
 * tokens it holds. `ids` is the host's copy of the IDS buffer; the KV cache is valid for the first
 * `len` of them.
 */
#ifndef DGL_CORE_SESSION_H
#define DGL_CORE_SESSION_H

#include <stdatomic.h>

#include "core/seq/model.h"
#include "core/seq/sampling.h"
#include "kernels/step.h"

/* What to do about logits that are NaN or infinite: nothing checks a checkpoint's values. */
#define ADVICE_NOT_NUMBERS                                                                         \
    "the model's weights may hold NaN or infinity (try the file that they were made from); if "    \
    "not, try --limits min, and report it with the output of `dopplergl devices`"

struct dgl_session {
    struct dgl_model *model;
    int32_t context, chunk;
    struct gl_buffer **buffers; /* [num_buffers], everything that `slots` refers to */
    uint32_t num_buffers;
    uint64_t bytes; /* of `buffers` */
    struct slot_table slots;
    struct gl_buffer *all_logits; /* made by the first scoring; rows below */
    int32_t score_rows;
    struct run prefill, single, head, score; /* single: the decode body for a pass of one token */
    struct run sample[SAMPLE_KINDS][2];      /* [kind][penalised] */
    struct run decode[SAMPLE_KINDS][2][2];   /* [kind][penalised][several steps per readback] */
    uint32_t plan_serial;                    /* of the model plan that the runs are bound to */
    int32_t *ids;                            /* [context + 1] */
    int32_t len;
    int32_t rope_tokens; /* the ROPE tables are those of a session that holds as many */
    bool logits_valid;   /* LOGITS belongs to token len - 1 */
    atomic_bool cancel;
};

/* What a public function that evaluates begins with: the device's context becomes current, runs of
 * an older plan are dropped, and a cancellation that came before this call does not count. When
 * it succeeds, device_leave() ends the function. */
enum dgl_status session_enter(struct dgl_session *s, struct gl_saved *saved);
/* Binds `run` to one segment unless that was done before. */
enum dgl_status session_bind(struct dgl_session *s, struct run *run, enum segment seg);
/* The run that samples from LOGITS, and the one that evaluates a token and samples its successor.
 */
enum dgl_status session_bind_sampling(struct dgl_session *s, enum sample_kind kind, bool penalised);
enum dgl_status session_bind_decode(struct dgl_session *s, enum sample_kind kind, bool penalised,
                                    bool several);
/* DGL_ERR_INVALID_ARG unless ids[0 .. count) is a sequence that the session can hold; `what` is
 * what the message calls it. */
enum dgl_status session_check_ids(const struct dgl_session *s, const char *what, const int32_t *ids,
                                  size_t count);
/* Whether the ROPE tables are those of a session that holds `tokens`. */
bool session_rope_holds(const struct dgl_session *s, int32_t tokens);
/* Makes them so; should they change, nothing that was evaluated is of use: len becomes 0. Call
 * before evaluating anything of a sequence that will have `tokens`. */
enum dgl_status session_expect(struct dgl_session *s, int32_t tokens);
/* Evaluates ids[len .. count), count <= context, which the caller has put into s->ids; LOGITS then
 * belongs to the last one. Stops between chunks when cancelled (DGL_ERR_CANCELLED, not logged),
 * keeping what was evaluated. */
enum dgl_status session_eval(struct dgl_session *s, int32_t count);
/* The same work on one chunk without a head, ids already in place; for scoring. */
enum dgl_status session_pass(struct dgl_session *s, int32_t tokens);
/* dgl_session_sync() for callers that have entered the device. */
enum dgl_status session_sync(struct dgl_session *s, const int32_t *ids, size_t count,
                             size_t *reused);
enum dgl_status session_write_step(struct dgl_session *s, const struct dgl_step *step);

#endif
