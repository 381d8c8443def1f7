/*
 * decoder.h: decodes one sequence, or several together.
 *
 * A decoder with one slot uses the pass state of its session. Its results are the ids in IDS. A
 * decoder with several slots has a pass state of its own, with the ids, sampling state, adjustments
 * and pages of each member. One pass evaluates the next token of all members, so the
 * weights are read once. The host queues a few steps for all members and reads one report.
 *
 * Steps run as one dispatch per operation, or as phases of one persistent dispatch. The persistent
 * form serves one sequence, or up to PLAN_PHASE_ROWS rows that sample in the same way. Its program
 * is compiled for a pass over up to 2, 4 or 8 rows. The step table has the number of rows and their
 * sequences. The report is a dispatch of its own. Members join and leave between dispatches.
 * executor.h chooses the executor while the queue is empty. An aborted dispatch leaves marks among
 * its ids. The decoder then drops everything queued, and runs the same steps again from the host's
 * state of each member.
 */
#ifndef DGL_CORE_DECODER_H
#define DGL_CORE_DECODER_H

#include "core/exec/executor.h"
#include "core/seq/pass_state.h"

struct dgl_session;
struct generation;

/* Maximum steps per report. A report has room for this many ids of each sequence. */
#define DECODER_MAX_STEPS 8
#define DECODER_BURSTS    2

struct decoder_slot {
    struct generation *g;       /* member, or NULL if the slot is free */
    uint32_t kv_first, kv_room; /* entries of the page table, if there are several slots */
};

/* Steps that are queued together and read back at once. */
struct burst {
    struct gl_ticket ticket; /* of the readback */
    int32_t steps, rows;
    bool profiled;
    struct recipe persistent; /* recipe of the persistent run; empty if dispatches are used */
    uint64_t queued_ns;       /* dgl_now_ns() */
    struct generation *row[DGL_STEP_SEQS]; /* [rows]; NULL if the member has left */
};

struct decoder {
    struct pass_state *state; /* of the slots; with one slot, the session's */
    int32_t slots, members;
    struct decoder_slot slot[DGL_STEP_SEQS];
    struct burst burst[DECODER_BURSTS]; /* [count], oldest first */
    int32_t count, steps;               /* bursts queued; steps queued in all bursts */
    const struct engine_choice *choice; /* of the last steps, or NULL */
    uint64_t read_ns, step_ns;    /* time of the last readback; time of one step, 0 if unknown */
    struct dgl_profile_step step; /* if the call is profiled: the queued step... */
    uint64_t done_ns;             /* ...and the time at which the device finished it */
    /* Used if there is one slot. */
    struct exec_run *run; /* of the last steps; if NULL, ARGS must be written */
    /* Used if there are several slots. */
    int32_t least;          /* passes over fewer sequences are compiled on first use */
    uint32_t prepared;      /* serial of the engine with compiled programs */
    struct shape_set draws; /* sampling shapes used by any member so far */
    bool begun;             /* decoder_begin() was called */
};

/* Creates a decoder of up to `sequences` like that of the session; fewer if a binding is too small.
 * If passes cannot have several sequences, returns DGL_OK and sets *out to NULL. The caller must
 * have entered the device. */
enum dgl_status decoder_create(const struct dgl_session *like, int32_t sequences,
                               struct decoder **out);
/* Accepts NULL in *d. The device must be entered, or lost. */
void decoder_destroy(struct decoder **d);

/* Begins an answer in the session's own decoder, which has one slot. */
void decoder_own(struct dgl_session *s, struct generation *g);
/* Returns true if the answer can become a member now: a slot and page table entries are free, the
 * caller does not want logits, the call is not profiled, and the answer uses the common rotary
 * table. */
bool decoder_admits(const struct decoder *d, const struct generation *g);
/* Starts to compile the passes over several sequences in the background, if the compiler can do so
 * without delaying anyone. Called when an answer is being decoded that others may join. */
enum dgl_status decoder_begin(struct decoder *d);
/* Compiles the passes for members that sample by the shapes `draws`, unless that is done, and
 * creates their runs. If steps are queued, the engine must not have changed. */
enum dgl_status decoder_prepare(struct decoder *d, struct shape_set draws);
/* Moves an answer to another decoder after its first token. No steps of the answer may be queued.
 * g->decoder and g->slot are its place until it moves again. */
enum dgl_status decoder_join(struct decoder *d, struct generation *g);
/* Removes an answer from its decoder. Results of its queued steps are ignored. Does not use the
 * device. */
void decoder_leave(struct generation *g);
/* Returns false if the answer must leave its decoder after its queued steps, because the page table
 * is full or its rotary table changes. */
bool decoder_keeps(const struct generation *g);

/* Returns true if steps can be queued now. If it returns false with steps queued, call
 * decoder_take(). If it returns false with an empty queue, no steps are left. */
bool decoder_can_push(struct decoder *d);
/* Chooses the executor of a single sequence ahead of decoder_push(). The queue must be empty. */
enum dgl_status decoder_choose(struct decoder *d);
/* Queues the next steps of all members that have steps left. */
enum dgl_status decoder_push(struct decoder *d);
/* New ids of one member. */
struct decoder_news {
    struct generation *g;
    int32_t count, ids[DGL_READBACK_INTERVAL_MAX];
};
/* Reports how the last steps were run, in the form of dgl_model_executor(). */
void decoder_executor(const struct decoder *d, struct dgl_executor_info *out);
/* Waits for the oldest queued steps. Sets news[0 .. *count) to the results of the members that are
 * still there. `news` has room for DGL_STEP_SEQS entries, or for 1 if there is one slot. Before the
 * next call, the caller must accept all ids of each member or remove the member. After an aborted
 * dispatch *count is 0, and the same steps run again. */
enum dgl_status decoder_take(struct decoder *d, struct decoder_news *news, int32_t *count);
/* Drops everything queued after a persistent dispatch of the recipe was given up. `given_up` is
 * false if that is uncertain. */
enum dgl_status decoder_recover(struct decoder *d, struct recipe recipe, bool given_up);
/* Drops everything queued. Does not wait. */
void decoder_drop(struct decoder *d);

#endif
