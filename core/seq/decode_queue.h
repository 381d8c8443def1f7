/* Decode steps in batches: the GPU feeds itself, and the next batch is queued before the ids of the
 * last one are read, so that it never waits for the host. */
#ifndef DGL_CORE_DECODE_QUEUE_H
#define DGL_CORE_DECODE_QUEUE_H

#include "core/seq/session.h"

#define DECODE_MAX_BATCHES 2

struct decode_batch {
    struct gl_ticket ids; /* that its steps sample */
    int32_t steps;
    uint64_t queued_ns; /* when it was: dgl_now_ns() */
};

struct decode_queue {
    struct dgl_session *session; /* set by the caller */
    struct exec_run *run;        /* of the session; set by the caller, as the next one */
    int32_t max_steps;           /* of one submit; 0 = all of a batch */
    struct decode_batch batch[DECODE_MAX_BATCHES]; /* [count], oldest first */
    int32_t count, steps;                          /* queued, of all batches */
    uint64_t read_ns, step_ns;    /* when a batch was read last; the time of a step, 0 = unknown */
    struct dgl_profile_step step; /* in a call that profiles: of the one step that is queued */
    uint64_t done_ns;             /* and when the device had finished it */
};

/* False: decode_queue_pop() first. Software renderers, which compute before they return, and calls
 * that profile get one batch at a time. */
bool decode_queue_has_room(const struct decode_queue *q);
/* Queues `steps` steps, at most DGL_READBACK_INTERVAL_MAX, in a call that profiles one, after those
 * of the queue; the first one of an empty queue evaluates the token at position session->len. */
enum dgl_status decode_queue_push(struct decode_queue *q, int32_t steps);
/* Waits for the oldest batch; ids[0 .. *count) are those that its steps sampled. */
enum dgl_status decode_queue_pop(struct decode_queue *q, int32_t *ids, int32_t *count);
/* Forgets what is queued: an answer has ended. Does not wait. */
void decode_queue_drop(struct decode_queue *q);

#endif
