/* Runs bound to one sequence's state on the device, or to the state of several sequences, and the
 * call that queues them. */
#ifndef DGL_CORE_RUNNER_H
#define DGL_CORE_RUNNER_H

#include <stdatomic.h>

#include "core/exec/engine.h"
#include "core/exec/pace.h"
#include "core/exec/profile.h"

/* Runs of the engine's executors. */
struct runner_runs {
    struct exec_cache dispatch, persistent;
    uint32_t generation; /* model_generation() that they are bound to */
};

struct runner {
    struct dgl_device *dev;
    struct engine **engine; /* the model's; a change of kernels replaces it */
    struct pace *pace;      /* the model's */
    struct memory *memory;
    struct runner_runs own, *runs; /* its own runs, or the runs of all lanes of a batch */
    /* The call in progress. */
    atomic_bool cancel;
    atomic_bool refuses;         /* every call is cancelled: dgl_session_set_cancelled() */
    dgl_progress_cb progress_cb; /* called during compilation; may be NULL */
    void *progress_priv;
    struct profile *profile; /* every pass of the call in progress is added to it, or NULL */
    bool wait_executor;      /* waits for the compiler before decoding, to measure only that */
};

/* Ends the call in progress with DGL_ERR_CANCELLED. May be called from any thread. */
static inline void runner_cancel(struct runner *r)
{
    atomic_store_explicit(&r->cancel, true, memory_order_relaxed);
}
/* Begins a call. It is cancelled already if the runner refuses calls. runner_refuse() stores in the
 * opposite order, so none of its cancellations is lost. */
static inline void runner_begin_call(struct runner *r)
{
    atomic_store(&r->cancel, false);
    if (atomic_load(&r->refuses))
        atomic_store(&r->cancel, true);
}
/* Cancels the call in progress and all later calls, or ends that state. May be called from any
 * thread. */
static inline void runner_refuse(struct runner *r, bool refuses)
{
    atomic_store(&r->refuses, refuses);
    if (refuses)
        atomic_store(&r->cancel, true);
}
static inline bool runner_is_cancelled(const struct runner *r)
{
    return atomic_load_explicit(&r->cancel, memory_order_relaxed);
}

/* Destroys all runs. No run may be queued. */
void runner_clear(struct runner *r);
/* Returns the run of a recipe, which is compiled and bound on first use. Borrowed until
 * runner_clear(). Lanes of a batch share it: queueing it binds it to the lane's memory. */
enum dgl_status runner_run(struct runner *r, struct recipe recipe, struct exec_run **out);
/* Queues `steps` rounds of a run. */
enum dgl_status runner_queue(struct runner *r, struct exec_run *run, uint32_t steps,
                             enum dgl_phase phase);
/* Queues a run after which the sequence holds `held` tokens. Waits in a call that profiles. */
enum dgl_status runner_submit(struct runner *r, struct exec_run *run, enum dgl_phase phase,
                              int32_t held);
/* Writes the group counts of a run with PASS_EARLY_EXIT to ARGS. Call it before the first of the
 * run's steps, because a stop zeroes the counts. Has no effect on other runs. */
enum dgl_status runner_write_args(struct runner *r, const struct exec_run *run);
/* In a call that profiles: runs one step, which consists of these runs, and waits. Sets all fields
 * of *step except readback_ns, and *done_ns to the time when the device finished. */
enum dgl_status runner_profile_step(struct runner *r, struct exec_run *const *runs, int32_t count,
                                    const struct profile_pass *pass, struct dgl_profile_step *step,
                                    uint64_t *done_ns);

#endif
