/*
 * decoder.h: decodes one sequence, or several together.
 *
 * A decoder with one slot uses the device state of its sequence: its session. Its results are the
 * ids in IDS. A decoder with several slots has a state of its own, with ids, sampling state,
 * adjustments and pages of each member. A pass evaluates the next token of all members, so that
 * weights are read once. The host queues a few steps for all and reads one report.
 *
 * Steps are dispatches per operation, or the same kernels as phases of one persistent dispatch: for
 * one sequence, and for up to PLAN_PHASE_ROWS rows that sample in one way. The report is a dispatch
 * of its own. The program is that of a pass over up to 2, 4 or 8 rows. The step table has the
 * number of rows and their sequences. Members come and go between dispatches. executor.h chooses
 * while nothing is queued. An aborted dispatch leaves marks among its ids. Then everything queued
 * is dropped, and the same steps run again from the host's state of each member.
 */
#ifndef DGL_CORE_DECODER_H
#define DGL_CORE_DECODER_H

#include "core/exec/executor.h"
#include "core/seq/session.h"

struct generation;

/* Steps per report, at most: a report has so many ids of each sequence. */
#define DECODER_MAX_STEPS 8
#define DECODER_BURSTS    2

struct decoder_slot {
    struct generation *g;                 /* the member's, or NULL */
    uint32_t serial;                      /* raised when a member leaves */
    uint32_t kv_first, kv_room, kv_known; /* entries of the page table: from, room for, written */
};

/* Steps that are queued. */
struct burst {
    struct gl_ticket ticket; /* of their results */
    int32_t steps, rows;
    bool profiled;
    struct recipe persistent; /* of the persistent run; no segments: dispatches */
    uint64_t queued_ns;       /* dgl_now_ns() */
    struct {
        uint8_t slot;
        uint32_t serial;
    } row[DGL_STEP_SEQS];
};

struct decoder {
    struct dgl_session *state; /* has the slots' device state; with one slot the sequence's own */
    int32_t slots, members;
    struct decoder_slot slot[DGL_STEP_SEQS];
    struct burst burst[DECODER_BURSTS]; /* [count], oldest first */
    int32_t count, steps;               /* queued, of all bursts */
    uint8_t row[DGL_STEP_SEQS];         /* slots of the rows that the device knows */
    int32_t rows;
    const struct engine_choice *choice; /* of the last steps, or NULL */
    uint64_t read_ns, step_ns;    /* when a burst was read last; the time of a step, 0 = unknown */
    struct dgl_profile_step step; /* in a call that profiles: of the queued step... */
    uint64_t done_ns;             /* ...and when the device had finished it */
    /* of one sequence */
    struct exec_run *run; /* of the last steps, or NULL: ARGS must be written */
    /* of several */
    int32_t least;              /* passes over fewer sequences are compiled when they come up */
    uint32_t prepared;          /* engine whose programs are compiled */
    uint32_t draws;             /* sampling segments of all members so far */
    bool begun;                 /* decoder_begin() was called */
    struct dgl_kv_table *pages; /* as on the device */
};

/* The decoder of one sequence. */
#define DECODER_OF(generation, session)                                                            \
    ((struct decoder){                                                                             \
        .state = (session), .slots = 1, .members = 1, .rows = 1, .slot[0].g = (generation)})

struct decoder_params {
    int32_t context; /* tokens of a sequence, at most */
    int32_t
        sequences; /* that may be members at once; fewer where a binding is too small for them */
    dgl_progress_cb progress_cb;
    void *progress_priv;
};
/* Allocates. *out is NULL without a failure where passes cannot hold several sequences, of which a
 * line tells why. The device is entered. */
enum dgl_status decoder_create(struct dgl_model *m, const struct decoder_params *params,
                               struct decoder **out);
/* Accepts NULL in *d. The device is entered, or lost. */
void decoder_destroy(struct decoder **d);

/* Whether the answer can be a member now: nobody wants its logits, its rotary table is the common
 * one, and the page table has room. */
bool decoder_admits(const struct decoder *d, const struct generation *g);
/* Once an answer is being written that could have company: starts the compiler for passes over
 * several where that holds nobody up, so that the next answer finds them. */
enum dgl_status decoder_begin(struct decoder *d);
/* With nothing queued, or nothing that has changed: compiles passes over members whose tokens
 * these segments draw besides those that it knows of, and makes their runs. */
enum dgl_status decoder_prepare(struct decoder *d, uint32_t draws);
/* After the first token of an answer of which nothing is queued. *slot is its place until it
 * leaves. */
enum dgl_status decoder_join(struct decoder *d, struct generation *g, int32_t *slot);
/* What is queued of it is not taken any more. Touches no device. */
void decoder_leave(struct decoder *d, int32_t slot);
/* Forgets all members and everything queued, because the device was lost. */
void decoder_clear(struct decoder *d);
/* Returns false if the member cannot stay once all that is queued is taken: the page table is full,
 * or its rotary table changes. */
bool decoder_keeps(const struct decoder *d, int32_t slot);

/* Returns true if steps can be queued now. Otherwise call decoder_take(), or none are left. */
bool decoder_can_push(struct decoder *d);
/* Chooses the executor of one sequence, so that decoder_push() need not. Nothing is queued. */
enum dgl_status decoder_choose(struct decoder *d);
/* Queues the next steps of all members that have not come to their end. */
enum dgl_status decoder_push(struct decoder *d);
/* The ids that some steps sampled for a member. */
struct decoder_news {
    struct generation *g;
    int32_t count, ids[DGL_READBACK_INTERVAL_MAX];
};
/* How the last steps were run, as dgl_model_executor() tells it. */
void decoder_executor(const struct decoder *d, struct dgl_executor_info *out);
/* Waits for the oldest steps. Sets news[0 .. *count), [DGL_STEP_SEQS] or [1] for one sequence, to
 * the results of those that are still members. The caller accepts all ids of each before the next
 * call, or its member leaves. *count is 0 after an aborted dispatch: the same steps run again. */
enum dgl_status decoder_take(struct decoder *d, struct decoder_news *news, int32_t *count);
/* After a persistent dispatch of the recipe was given up, or may have been. */
enum dgl_status decoder_recover(struct decoder *d, struct recipe recipe, bool given_up);
/* Forgets what is queued. Does not wait. */
void decoder_drop(struct decoder *d);

#endif
