/* Selects the executor of decode steps: a dispatch per operation, or one persistent dispatch for
 * many tokens. The persistent one is selected if its work groups may wait for each other, its
 * tokens are equal, and it is faster. */
#ifndef DGL_CORE_EXECUTOR_H
#define DGL_CORE_EXECUTOR_H

#include "core/exec/runner.h"

/* The next decode steps of one or several sequences. The functions belong to their owner. */
struct steps {
    struct runner *runner;
    struct recipe recipe;
    int32_t rows; /* sequences of a step */
    void *priv;
    /* Returns true if each sequence has room for `count` more tokens, and memory need not move. */
    bool (*has_room)(void *priv, int32_t count);
    /* Reserves KV pages for so many more tokens. */
    enum dgl_status (*reserve)(void *priv, int32_t count);
    /* Writes the pending token and the state of the next step of each sequence to the device.
     * `trial`: no stop id ends a sequence. */
    enum dgl_status (*write)(void *priv, bool trial);
    /* Reads the ids that `count` steps sampled from there on: [rows][count]. Waits. */
    enum dgl_status (*read)(void *priv, int32_t count, int32_t *ids);
};

/* Decides what is known without computing or compiling anything. */
enum dgl_status executor_look(struct runner *r, struct recipe recipe);
/* Starts the compiler for a persistent dispatch that is forced, was faster in a trial, or was never
 * tried, if the runner waits for the compiler or the compiler does not delay it. */
enum dgl_status executor_prepare(struct runner *r, struct recipe recipe);
/* Returns true if executor_choose() would now decide something that it left open before. */
bool executor_is_due(const struct steps *q);
/* Decides as far as that is possible now. Nothing may be queued. A trial computes the tokens of the
 * steps and leaves no trace of them. *run is the persistent run, borrowed, or NULL if dispatches
 * decode. *max_steps of one submit keep the device busy for at most 100 ms. Returns
 * DGL_ERR_UNSUPPORTED if the steps of one sequence cannot use a forced executor. */
enum dgl_status executor_choose(const struct steps *q, struct exec_run **run, int32_t *max_steps);
/* Returns the run that was chosen before. Something may be queued. */
enum dgl_status executor_use(const struct steps *q, struct exec_run **run, int32_t *max_steps);
/* Returns the run of a persistent dispatch whose steps read the next `tokens` of a prompt, one for
 * each, in less time than a pass over them is expected to take. Returns NULL if a pass is faster,
 * or if nothing was decoded by such a run, as a prompt makes and compiles none. Borrowed. */
struct exec_run *executor_reader(struct runner *r, struct recipe recipe, int32_t tokens);
/* Returns true if one of the ids is the mark of an aborted dispatch. */
bool executor_is_aborted(const int32_t *ids, int32_t count);
/* After a persistent dispatch that may have been aborted: waits, and writes the state of the steps
 * again. Results of everything queued are void. */
enum dgl_status executor_reset(const struct steps *q);
/* The same after an aborted dispatch. Dispatches decode from now on. */
enum dgl_status executor_recover(const struct steps *q);

#endif
