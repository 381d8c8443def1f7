/*
 * session.h: one sequence of tokens with its state on the device: the KV cache, the state of its
 * passes, and the runs that are bound to them. The IDS buffer is a copy of the sequence's ids.
 */
#ifndef DGL_CORE_SESSION_H
#define DGL_CORE_SESSION_H

#include "core/seq/decoder.h"
#include "core/seq/sequence.h"

/* Gets the residual stream of positions 0 .. rows, as [point][rows][hidden]. Point 0 is the
 * embedding. Points 2i + 1 and 2i + 2 follow the attention and the feed-forward part of layer i. */
struct stream_trace {
    float *values;
    size_t rows;
    struct pass_shape first; /* body of the first pass */
};

struct dgl_session {
    struct dgl_model *model;
    struct sequence seq;
    struct pass_state state;
    struct decoder own;         /* decodes an answer of the session alone; see decoder_own() */
    struct stream_trace *trace; /* of each pass, or NULL */
    bool auto_ubatch; /* the caller set no pass size: passes are shorter on a slow device */
};

/* Implements dgl_session_create(). If `shared` is not NULL, the sequence is pooled: it needs no
 * room for its whole context. `shared` has the runs of all pooled sessions with one context. It
 * must be zeroed before the first of them is created. The sessions must outlive its contents. */
enum dgl_status session_create(struct dgl_model *m, const struct dgl_session_params *params,
                               struct runner_runs *shared, struct dgl_session **out);
/* Copies the state of `from` into a new, empty session. The caller must have entered the device. */
enum dgl_status session_copy(struct dgl_session *s, const struct dgl_session *from);
/* Implement dgl_session_save() and dgl_session_load(). The caller must have entered the device. */
enum dgl_status session_save(struct dgl_session *s, const struct dgl_session_save_params *params);
enum dgl_status session_load(struct dgl_session *s, const struct dgl_session_load_params *params,
                             char **data, size_t *data_len);
/* The caller must have entered the device, unless the device is lost. */
void session_destroy(struct dgl_session *s);

static inline struct dgl_device *session_dev(const struct dgl_session *s)
{
    return s->model->shard->dev;
}
static inline struct plan *session_plan(const struct dgl_session *s)
{
    return pass_state_plan(&s->state);
}

/* Begins a public call that evaluates. Makes the device's context current, drops runs of an older
 * engine or workspace, and clears an earlier cancellation. If the call is cancelled from here on,
 * submits and readbacks return DGL_ERR_CANCELLED and log no message. If session_enter() succeeds,
 * the function must end with session_leave(). */
enum dgl_status session_enter(struct dgl_session *s, struct gl_saved *saved);
/* Ends a public call and returns `status`. If `status` is DGL_ERR_CANCELLED and `what` is not NULL,
 * logs "`what` was cancelled". */
enum dgl_status session_leave(struct dgl_session *s, const struct gl_saved *saved, const char *what,
                              enum dgl_status status);
bool session_is_cancelled(const struct dgl_session *s);
/* Reserves KV pages for `tokens` positions, or for the context if that is less. Call it before
 * queueing work that writes there. If sequence_moves() returns true, the cache moves and all runs
 * of the session are dropped; none of them may be queued. */
enum dgl_status session_reserve(struct dgl_session *s, int32_t tokens);
/* Reuses pages of other sequences that hold ids[len .. count) of the sequence. The last token is
 * always left to evaluate. *adopted (may be NULL) is set to the number of tokens. The session must
 * have no queued work. */
enum dgl_status session_adopt(struct dgl_session *s, int32_t count, int32_t *adopted);
/* Notes that the device has evaluated the next `tokens` of the ids. */
void session_advance(struct dgl_session *s, int32_t tokens);
/* Prepares the ROPE tables for a sequence of `tokens`. If the tables change, all evaluated tokens
 * are invalid and `len` becomes 0. Call it before evaluating any part of the sequence. */
enum dgl_status session_expect(struct dgl_session *s, int32_t tokens);
/* Ids that must not be chosen, besides the model's stop ids, while the sequence has fewer than
 * `until` ids. */
struct session_bans {
    const int32_t *ids; /* [count] */
    size_t count;
    uint32_t until;
    bool ignore_eos; /* the model's stop ids may be chosen */
};
/* Writes the logit adjustments of the parameters to ADJUST, if the device has different ones.
 * `bans` is for min_tokens and may be NULL without. */
enum dgl_status session_write_adjust(struct dgl_session *s, const struct dgl_sampling *sampling,
                                     unsigned changes, const struct session_bans *bans);
/* Reads `count` ids from position `pos` on. Waits. */
enum dgl_status session_read_ids(struct dgl_session *s, int32_t pos, int32_t count, int32_t *ids);
/* Default number of tokens per readback. It is more than 1 if a readback costs more than a few
 * steps beyond the end of the answer. */
int32_t session_readback_interval(const struct dgl_session *s);

#endif
