/*
 * phases.h: the phase executor: decodes with one program of many phases (kernels/phases.h). One
 * dispatch runs either one row of the program's table for one token, or all rows for several
 * tokens. In the second case all work groups wait for each other after each row. Both compute the
 * same tokens.
 */
#ifndef DGL_CORE_PHASES_H
#define DGL_CORE_PHASES_H

#include "core/exec/exec.h"
#include "core/plan/phase_schedule.h"

struct exec_phases_params {
    /* Issue one dispatch per row and token, with the groups of the kernel of that row, so that work
     * groups never wait for each other. Otherwise one dispatch runs all rows and all tokens of a
     * submit. */
    bool one_row;
    uint32_t groups;    /* work groups of that dispatch; all must be resident at once */
    uint32_t local;     /* invocations of a work group; 0 lets the executor choose */
    uint32_t max_spins; /* polls of one wait before the dispatch aborts */
    bool finishes;      /* destroying it waits for pending programs, which are then cached */
};

/* Creates an executor for recipes that evaluate and sample: of one sequence (recipe_decode()), or
 * of at most PLAN_PHASE_ROWS sequences with a body of plan_batch_shape(). Also for the body of
 * PASS_MIXED(), whose rows may belong to the same sequence. Creating a run of another recipe fails.
 * A run of several rows has as many as exec_run_set_tokens() sets, which are the rows of the step
 * table. `plan` is borrowed. */
enum dgl_status exec_phases_create(struct dgl_device *dev, const struct plan *plan,
                                   const struct exec_phases_params *params, struct exec **out);

/* Checks if a run of the recipe, bound to `memory`, can be created. If not, sets `reason` and
 * returns DGL_ERR_UNSUPPORTED without a log line. Otherwise `reason` explains why a token needs
 * several dispatches, or is "". Does not compile. Appends the program to `text`, which may be
 * NULL. */
enum dgl_status exec_phases_check(struct exec *exec, struct recipe recipe,
                                  const struct memory *memory, char reason[256],
                                  struct dgl_buf *text);
/* Starts to compile the program of such a run, which exec_run_create() then uses. At most one
 * program of each width is pending. A new one replaces it. */
enum dgl_status exec_phases_begin(struct exec *exec, struct recipe recipe,
                                  const struct memory *memory);
/* Returns true if exec_run_create() would not wait for the compiler. */
bool exec_phases_is_ready(struct exec *exec, struct recipe recipe);

struct dgl_device *exec_phases_device(const struct exec *exec);

/* ---- runs of this executor ------------------------------------------------------------------ */

/* Number of dispatches per token. */
uint32_t exec_phases_parts(const struct exec_run *run);
/* The first of these dispatches. groups[0] may be changed between submits. */
struct gl_dispatch *exec_phases_record(struct exec_run *run);
/* The control words: struct dgl_phase_control (kernels/phase_control.h). */
struct gl_range exec_phases_control(const struct exec_run *run);
/* Sets the work groups of each later persistent dispatch. */
void exec_phases_set_groups(struct exec_run *run, uint32_t groups);

#endif
