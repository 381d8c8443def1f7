/* The state of passes on the device, for one sequence or for several: step table, page table, ids,
 * logits, adjustments and ROPE tables, with the runs that are bound to them. A pass runs the model
 * over rows, each a token of a sequence. */
#ifndef DGL_CORE_PASS_STATE_H
#define DGL_CORE_PASS_STATE_H

#include "core/exec/runner.h"
#include "core/model/model.h"

/* Results of a row. */
enum row_flag {
    ROW_LOGITS = 1 << 0, /* computes its logits to LOGITS; the last such row leaves them there */
    ROW_SAMPLE = 1 << 1, /* with ROW_LOGITS, last row of its sequence: samples the next token */
    ROW_SCORE = 1 << 2,  /* all rows of the pass: compute their logits to ALL_LOGITS */
    ROW_HIDDEN = 1 << 3, /* all rows of the pass: write their hidden states to NORMED */
};

/* A row of a pass: one token of one sequence. The rows of a sequence follow each other. */
struct pass_row {
    uint32_t seq;    /* index in the step table */
    uint32_t offset; /* its position, from the sequence's `pos` on */
    uint32_t flags;  /* enum row_flag */
    /* ROW_SAMPLE: how to sample, as in recipe_sampling() */
    enum sample_kind sampler;
    uint32_t changes; /* of the logits: enum sample_changes */
};

/* Attention over many rows reads the sequence of a tile from its first row. In a pass over several
 * sequences, the rows of each begin at a multiple of this, and a tile has at most so many rows. */
#define PASS_TILE 64

struct pass_state {
    struct model_user user; /* in the model's list */
    struct dgl_model *model;
    int32_t slots;         /* sequences */
    int32_t context;       /* maximum positions of a sequence */
    int32_t ubatch;        /* maximum rows of a pass */
    struct memory memory;  /* .state belongs to the pass state */
    struct runner runner;  /* bound to `memory` */
    struct pass_row *rows; /* [ubatch]; [num_rows] of the current pass */
    uint32_t num_rows;
    /* The rows in the device's step table. Its head and rows are not written again if they are the
     * same. */
    uint32_t table_rows;           /* 0 if the device has no head */
    uint32_t table[DGL_STEP_ROWS]; /* UINT32_MAX where the device has no row */
    int32_t rope_tokens;           /* sequence length for which the ROPE tables were written */
    uint32_t generation;           /* the model_generation() that the state has followed */
    uint32_t workspaces;           /* times that the state has acquired the workspace */
};

/* Initializes a state without device memory, and adds it to the model's users. The caller has set
 * slots, context and ubatch. If `ops` is NULL, the state is its own user. `shared` has the runs of
 * several states, or is NULL. The caller calls pass_state_finish(), also on failure. */
enum dgl_status pass_state_init(struct pass_state *st, struct dgl_model *m,
                                const struct model_user_ops *ops, struct runner_runs *shared);
/* The device must be entered, or lost. */
void pass_state_finish(struct pass_state *st);
/* Allocate and free the device memory. The caller must have entered the device, or for
 * pass_state_drop() it is lost. */
enum dgl_status pass_state_make(struct pass_state *st);
void pass_state_drop(struct pass_state *st);

static inline struct dgl_device *pass_state_dev(const struct pass_state *st)
{
    return st->runner.dev;
}
static inline struct plan *pass_state_plan(const struct pass_state *st)
{
    return &(*st->runner.engine)->plan;
}

/* Returns false if the runs are outdated: the model has other kernels since the call began, or its
 * memory has moved. */
bool pass_state_is_current(const struct pass_state *st);
/* Drops runs of an older engine, workspace or KV cache, and allocates the buffers that the new plan
 * adds. No outdated run may be queued. Other states with the same runs are outdated too; each must
 * follow before it queues a run. */
enum dgl_status pass_state_follow(struct pass_state *st);
/* Compiles the kernels of these shapes to machine code, so that no run
 * waits for the compiler. Skips those already compiled. Returns DGL_ERR_CANCELLED, without a
 * message, if cancelled between two kernels. */
enum dgl_status pass_state_compile(struct pass_state *st, struct shape_set shapes);

/* Returns the part of a buffer that belongs to one sequence. */
struct gl_range pass_state_part(const struct pass_state *st, enum plan_buffer buffer, int32_t slot);
/* Write to that part of the buffer, and read from it, from byte `at` on. Reading waits. */
enum dgl_status pass_state_write(const struct pass_state *st, enum plan_buffer buffer, int32_t slot,
                                 uint64_t at, const void *bytes, uint64_t size);
enum dgl_status pass_state_read(const struct pass_state *st, enum plan_buffer buffer, int32_t slot,
                                uint64_t at, void *bytes, uint64_t size);
/* Writes the state of a sequence to the step table. */
enum dgl_status pass_state_put(const struct pass_state *st, uint32_t seq,
                               const struct dgl_step *step);
/* Writes the rows of the next pass to the step table. */
enum dgl_status pass_state_set_rows(struct pass_state *st, const struct pass_row *rows,
                                    uint32_t num_rows);
/* Writes the pages of a sequence that the page table does not have yet. The sequence has the
 * table's entries from `kv_first` on, an even number of them. */
enum dgl_status pass_state_write_pages(const struct pass_state *st, uint32_t kv_first,
                                       struct kv_pages *pages);
/* Writes the state of a pass over step->tokens rows of the first sequence from step->pos on.
 * `flags` apply to the last row; ROW_SCORE and ROW_HIDDEN apply to all rows. */
enum dgl_status pass_state_write_step(struct pass_state *st, const struct dgl_step *step,
                                      uint32_t flags);
/* Adds rows of one more sequence to the current pass, and writes its state: row->seq with
 * step->tokens rows from step->pos on. `row` has the flags of the last row. Set num_rows to 0
 * before the first sequence. To fill the tile before, the sequence before gets rows beyond its
 * tokens. Its pages must be reserved up to a multiple of PASS_TILE rows, and these positions are
 * overwritten later. Returns DGL_ERR_UNSUPPORTED, without a message, if the pass has no room. */
enum dgl_status pass_state_add(struct pass_state *st, const struct dgl_step *step,
                               const struct pass_row *row);
/* Writes the rows of the current pass. *body is set to the run over all of them, borrowed. */
enum dgl_status pass_state_body(struct pass_state *st, struct exec_run **body);
/* Queues the results that the flags of the rows select, after the body. `held` is the length of the
 * longest sequence after the pass. */
enum dgl_status pass_state_queue_results(struct pass_state *st, int32_t held);
/* Returns true if the ROPE tables are valid for a sequence of `tokens`. */
bool pass_state_rope_holds(const struct pass_state *st, int32_t tokens);
/* Writes the ROPE tables for a sequence of `tokens`, even if tokens were evaluated with other
 * tables. */
enum dgl_status pass_state_write_rope(struct pass_state *st, int32_t tokens);

#endif
