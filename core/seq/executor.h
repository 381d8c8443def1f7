/* Which executor decodes: a dispatch per operation, or one persistent dispatch for many tokens,
 * where work groups may wait for each other, the tokens are equal and it is faster. */
#ifndef DGL_CORE_EXECUTOR_H
#define DGL_CORE_EXECUTOR_H

#include "core/seq/session.h"

/* The sequences of passes over several (group.h), whose session is a batch's. */
struct executor_rows {
    void *priv;
    int32_t count; /* of the pass */
    /* Whether each of them can hold so many tokens more and nothing has to move for that; and gives
     * them the pages. */
    bool (*has_room)(void *priv, int32_t steps);
    enum dgl_status (*reserve)(void *priv, int32_t steps);
    /* What the host knows of them goes to the device: the state of the next step of each. `trial`:
     * no stop id ends one. */
    enum dgl_status (*write)(void *priv, bool trial);
    /* The ids of so many steps from there: [count][steps]. Waits. */
    enum dgl_status (*read)(void *priv, int32_t steps, int32_t *ids);
};

/* Decode steps that are to be run. */
struct executor_query {
    struct recipe recipe;
    /* State of the next one, of the token at position session->len, which is in IDS: what the
     * device has. */
    struct dgl_step step;
    bool wait; /* for the compiler; else dispatches serve until it is done */
    /* The steps are of these, and `step` does not matter; NULL: of the session's sequence. */
    const struct executor_rows *rows;
};

/* What is known without computing or compiling anything goes to the engine's choice. */
enum dgl_status executor_look(struct dgl_session *s, struct recipe recipe);
/* Starts the compiler for a persistent dispatch that is forced, was faster in a trial, or was never
 * tried by a session that waits for the compiler or that the compiler does not hold up. */
enum dgl_status executor_prepare(struct dgl_session *s, struct recipe recipe);
/* True when executor_choose() would now decide what it left open the last time. */
bool executor_is_due(struct dgl_session *s, const struct executor_query *q);
/* Decides as far as that is possible now. Nothing may be queued; a trial computes tokens after
 * those of the session, of which nothing is left. *run is the session's; *max_steps, of one submit
 * of it, keep the device busy for 100 ms. DGL_ERR_UNSUPPORTED: a forced executor cannot run.
 * Of several sequences *run is NULL where dispatches serve, forced or not. */
enum dgl_status executor_choose(struct dgl_session *s, const struct executor_query *q,
                                struct exec_run **run, int32_t *max_steps);
/* The run as it was chosen so far: something may be queued. */
enum dgl_status executor_use(struct dgl_session *s, const struct executor_query *q,
                             struct exec_run **run);
/* The run of a persistent dispatch whose steps, one for each, read the next `tokens` of a prompt in
 * less time than a pass over them is expected to take; NULL: the pass does. Borrowed; one that the
 * session has decoded by, so that nothing is made or compiled for a prompt. */
struct exec_run *executor_reader(struct dgl_session *s, struct recipe recipe, int32_t tokens);
/* Whether some of the ids of a batch are the marks of an aborted dispatch. */
bool executor_is_aborted(const int32_t *ids, int32_t count);
/* Waits for all that was queued, which counts for nothing, and gives the device the state of the
 * token at session->len again. */
enum dgl_status executor_rewind(struct dgl_session *s, const struct executor_query *q);
/* The same after a dispatch of which nobody can say whether it was given up. */
enum dgl_status executor_reset(struct dgl_session *s, const struct executor_query *q);
/* After such a batch, nothing else being queued: the device gets back the state of the token at
 * session->len, so that the same steps can be run again, from now on by dispatches. */
enum dgl_status executor_recover(struct dgl_session *s, const struct executor_query *q,
                                 struct exec_run **run, int32_t *max_steps);

#endif
