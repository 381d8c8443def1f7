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
    /* Reserves KV pages for `count` more tokens. */
    enum dgl_status (*reserve)(void *priv, int32_t count);
    /* Writes the pending token and the state of the next step of each sequence to the device.
     * `trial`: no stop id ends a sequence. */
    enum dgl_status (*write)(void *priv, bool trial);
    /* Reads the ids that the last `count` steps sampled: [rows][count]. Waits. */
    enum dgl_status (*read)(void *priv, int32_t count, int32_t *ids);
};

/* Decides as far as possible without computing or compiling. */
enum dgl_status executor_look(struct runner *r, struct recipe recipe);
/* Starts the compiler for a persistent dispatch that is forced, was faster in a trial, or was never
 * tried, if the runner waits for the compiler or the compiler does not delay it. */
enum dgl_status executor_prepare(struct runner *r, struct recipe recipe);
/* Returns true if executor_choose() could now decide a question that was open before. */
bool executor_is_due(const struct steps *q);
/* Returns the run of the executor in use. If `decides`, decides as far as possible before, and the
 * queue must be empty: a trial computes the tokens of the steps and restores the state afterwards.
 * *run is the persistent run, borrowed, or NULL if dispatches decode. *max_steps limits one submit
 * to about 100 ms. Returns DGL_ERR_UNSUPPORTED if the steps of one sequence cannot use a forced
 * executor. */
enum dgl_status executor_choose(const struct steps *q, bool decides, struct exec_run **run,
                                int32_t *max_steps);
/* Returns the run of a persistent dispatch that evaluates the next `tokens` of a prompt, one per
 * step. Returns NULL if one pass over these tokens is expected to be faster. Also returns NULL if
 * the dispatch was not compiled for decoding before, because it is never compiled for a prompt.
 * Borrowed. */
struct exec_run *executor_reader(struct runner *r, struct recipe recipe, int32_t tokens);
/* Returns true if one of the ids is the mark of an aborted dispatch. */
bool executor_is_aborted(const int32_t *ids, int32_t count);
/* Call after a persistent dispatch that was given up, or may have been: `given_up` is false. Waits,
 * and writes the state of the steps again. The results of all queued work are invalid. If it was
 * given up, dispatches decode from now on. */
enum dgl_status executor_recover(const struct steps *q, bool given_up);

#endif
