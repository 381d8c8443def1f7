/* Interface of the persistent executor for the choice between executors. One persistent dispatch
 * computes many tokens, and its work groups wait for each other. So residency must be probed
 * first. */
#ifndef DGL_CORE_PERSISTENT_H
#define DGL_CORE_PERSISTENT_H

#include "core/exec/exec.h"
#include "core/exec/residency.h"

#define PERSISTENT_REASON 256

struct persistent_ops {
    /* Checks if the recipe has a persistent program. Sets `key`, its name for exec_record_load(),
     * or "" if results are not stored. If there is no such program, sets `reason` and returns
     * DGL_ERR_UNSUPPORTED without a log line. Otherwise `reason` explains why a token needs several
     * dispatches, or is "". Does not compile. */
    enum dgl_status (*check)(struct exec *exec, struct recipe recipe, const struct memory *memory,
                             char reason[PERSISTENT_REASON], char key[65]);
    /* Starts to compile the program of a run that exec_run_create() will create. Has no effect if
     * that was already started. */
    enum dgl_status (*begin)(struct exec *exec, struct recipe recipe, const struct memory *memory);
    /* Returns true if exec_run_create() would not wait for the compiler. */
    bool (*is_ready)(struct exec *exec, struct recipe recipe);
    /* See residency_probe(). */
    enum dgl_status (*probe)(struct exec_run *run, struct residency *out);
    /* Sets the work groups of each later dispatch. */
    void (*set_groups)(struct exec_run *run, uint32_t groups);
    /* Resets the control words. Required before the first dispatch and after an abort. */
    enum dgl_status (*clear)(struct exec_run *run);
};

struct persistent {
    struct exec *exec; /* NULL if the device has no persistent executor */
    const struct persistent_ops *ops;
    bool aside; /* begin() does not block: the driver compiles in the background */
};

/* Creates the executor that runs all phases of a plan in one dispatch (phases.h). `finishes`:
 * destroying it waits for the compiler. */
enum dgl_status persistent_create(struct dgl_device *dev, const struct plan *plan, bool finishes,
                                  struct persistent *out);

#endif
