/*
 * phases.h: the phase executor: decoding as one program of many phases (kernels/phases.h). One
 * dispatch runs one row of its table for one token, or all rows for several tokens with waits of
 * all work groups for each other in between; both give the same tokens.
 */
#ifndef DGL_CORE_PHASES_H
#define DGL_CORE_PHASES_H

#include "core/exec/exec.h"
#include "core/plan/phase_schedule.h"

struct exec_phases_params {
    /* A dispatch per row and token, with as many groups as the row's kernel asks for: work groups
     * never wait for each other. Else one dispatch for all rows and all tokens of a submit. */
    bool one_row;
    uint32_t groups;    /* of the latter, all of which must be resident at once */
    uint32_t local;     /* invocations of a work group; 0 = chosen */
    uint32_t max_spins; /* polls of one wait before it is given up */
    bool finishes;      /* its end waits for a program on its way, which goes into the cache */
};

/* An executor for recipes that evaluate and sample: of one sequence (recipe_decode()), or of
 * several with a body of plan_batch_body(), PLAN_PHASE_ROWS of them at most; others are refused
 * when a run is made. A run of the latter is for as many rows as exec_run_set_tokens() says, which
 * are those of the step table. `plan` is borrowed. */
enum dgl_status exec_phases_create(struct dgl_device *dev, const struct plan *plan,
                                   const struct exec_phases_params *params, struct exec **out);

/* Whether a run of the recipe, bound to `memory`, can be made: DGL_ERR_UNSUPPORTED, not logged,
 * when it cannot, and `reason` says why; when it can, why a token takes several dispatches, or
 * nothing. Compiles nothing. recipe.form does not matter. `text` (NULL = not wanted): the program
 * in its first form, appended; `forms` likewise: what differs in the others. */
enum dgl_status exec_phases_check(struct exec *exec, struct recipe recipe,
                                  const struct memory *memory, char reason[256],
                                  struct dgl_buf *text, struct dgl_buf *forms);
/* Starts the compiler for such a run; exec_run_create() then takes its program. One program of each
 * form and width is on its way at a time: another one takes its place. `optional`: params.finishes
 * does not count. */
enum dgl_status exec_phases_begin(struct exec *exec, struct recipe recipe,
                                  const struct memory *memory, bool optional);
/* Whether exec_run_create() would not wait for it. */
bool exec_phases_is_ready(const struct exec *exec, struct recipe recipe);

struct dgl_device *exec_phases_device(const struct exec *exec);

/* ---- of a run that was made by it ------------------------------------------------------------ */

/* Dispatches of a token. */
uint32_t exec_phases_parts(const struct exec_run *run);
/* The first of them; groups[0] may be changed between submits. */
struct gl_dispatch *exec_phases_record(struct exec_run *run);
/* The control words: struct dgl_phase_control (kernels/phase_control.h). */
struct gl_range exec_phases_control(const struct exec_run *run);
/* Groups of its persistent dispatch from now on. */
void exec_phases_set_groups(struct exec_run *run, uint32_t groups);
/* The program's text. Borrowed. */
struct dgl_str exec_phases_text(const struct exec_run *run);

#endif
