/*
 * decoder.h: sequences that decode together: each pass evaluates the next token of all of them, so
 * that weights are read once, and draws each one's successor by its own state. The host queues a
 * few steps for all and reads one report. A sequence has its pages, and its tokens, from a session;
 * what passes need of it besides (ids, state, adjustments, page table) is in a slot here while it
 * is a member.
 *
 * Steps are dispatches per operation, or (up to PLAN_PHASE_ROWS rows that draw in one way) the same
 * kernels as phases of one persistent dispatch, behind which the report is a dispatch of its own.
 * The program is that of a pass over up to 2, 4 or 8 rows; how many there are, and which sequences
 * they are of, is in the step table, and the groups of each phase in the program's. Members come
 * and go between dispatches as ever. executor.h chooses, with nothing queued, as for one sequence.
 * A dispatch that is given up leaves marks among the ids that the report tells; then all that is
 * queued is dropped, and the same steps are run again from what the host knows of each member.
 */
#ifndef DGL_CORE_DECODER_H
#define DGL_CORE_DECODER_H

#include "core/seq/generation.h"

/* Steps per report, at most: a report has so many ids of each sequence. */
#define DECODER_MAX_STEPS 8
#define DECODER_BURSTS    2

struct decoder_slot {
    struct generation *g;                 /* the member's; NULL = free */
    uint32_t serial;                      /* raised when a member leaves */
    int32_t limit;                        /* the sequence stops when it has so many tokens */
    uint32_t kv_first, kv_room, kv_known; /* entries of the page table: from, room for, written */
};

/* Steps that are queued. */
struct burst {
    struct gl_ticket report;
    int32_t steps, rows;
    bool profiled;
    struct recipe persistent; /* of the dispatch that they are; no segments: they are single ones */
    uint64_t queued_ns;
    struct {
        uint8_t slot;
        uint32_t serial;
    } row[DGL_STEP_SEQS];
};

struct decoder {
    struct dgl_session *state; /* what the slots' state lies in: session_init_batch() */
    int32_t slots, members;
    int32_t least; /* passes over fewer sequences are compiled when they come up */
    struct decoder_slot slot[DGL_STEP_SEQS];
    struct burst burst[DECODER_BURSTS]; /* [count], oldest first */
    int32_t count, steps;               /* queued, of all bursts */
    uint8_t row[DGL_STEP_SEQS];         /* slots of the rows that the device knows */
    int32_t rows;
    uint32_t prepared;                  /* engine whose programs are compiled */
    uint32_t draws;                     /* segments that members' tokens are drawn by, so far */
    bool begun;                         /* decoder_begin() has been called */
    const struct engine_choice *choice; /* of the last steps; NULL = they had none */
    uint64_t read_ns, step_ns;
    struct dgl_profile_step step; /* while the session has a profile: of the burst */
    uint64_t done_ns;             /* and when the device had finished it */
    struct dgl_kv_table pages;    /* as on the device */
};

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
/* All leave, and nothing is queued any more: the device was lost. */
void decoder_clear(struct decoder *d);
/* A member that the decoder cannot take further, with all that is queued taken: the page table is
 * full, or its rotary table changes. -1 = none. */
int32_t decoder_misfit(const struct decoder *d);

/* Returns true if steps can be queued now. Otherwise call decoder_take(), or none are left. */
bool decoder_can_push(const struct decoder *d);
/* Queues the next steps of all members that have not come to their end. */
enum dgl_status decoder_push(struct decoder *d);
/* What came of a member in some steps. */
struct decoder_news {
    struct generation *g;
    int32_t slot, count;
    int32_t ids[DECODER_MAX_STEPS];
};
/* How the last steps were run, as dgl_model_executor() tells it. */
void decoder_executor(const struct decoder *d, struct dgl_executor_info *out);
/* Waits for the oldest steps; news[0 .. *count), [DGL_STEP_SEQS], of those that are still members.
 * Each is to be taken in full before the next call, or its member to leave. None where a
 * persistent dispatch was given up: the same steps come again. */
enum dgl_status decoder_take(struct decoder *d, struct decoder_news *news, int32_t *count);

#endif
