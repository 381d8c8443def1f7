/* The persistent executor as the choice between executors sees it: one dispatch computes many
 * tokens, its work groups waiting for each other, so that it has to be asked first. */
#ifndef DGL_CORE_PERSISTENT_H
#define DGL_CORE_PERSISTENT_H

#include "core/exec/exec.h"
#include "core/exec/residency.h"

#define PERSISTENT_REASON 256

struct persistent_ops {
    /* Whether the recipe has such a program, and the name of all its forms for exec_record_load()
     * (key "": nothing is kept). DGL_ERR_UNSUPPORTED, not logged, with the reason: it has none.
     * When it has one, `reason` says why a token is several dispatches, or nothing. Compiles
     * nothing. */
    enum dgl_status (*check)(struct exec *exec, struct recipe recipe, const struct memory *memory,
                             char reason[PERSISTENT_REASON], char key[65]);
    /* Starts the compiler for a run that exec_run_create() will make, of the program in the form
     * recipe.form; nothing to do when it runs already. `optional`: nobody is to wait for it. */
    enum dgl_status (*begin)(struct exec *exec, struct recipe recipe, const struct memory *memory,
                             bool optional);
    /* Whether exec_run_create() would not wait for the compiler. */
    bool (*is_ready)(struct exec *exec, struct recipe recipe);
    /* As residency_probe(). */
    enum dgl_status (*probe)(struct exec_run *run, struct residency *out);
    /* Work groups of each dispatch from now on. */
    void (*set_groups)(struct exec_run *run, uint32_t groups);
    /* After an abort, or before the first dispatch: it may run again. */
    enum dgl_status (*clear)(struct exec_run *run);
};

struct persistent {
    struct exec *exec; /* NULL: there is none */
    const struct persistent_ops *ops;
    bool aside; /* begin() holds nobody up: the driver compiles while others run */
};

/* All phases of a plan in one dispatch (phases.h). `finishes`: its end waits for the compiler. */
enum dgl_status persistent_create(struct dgl_device *dev, const struct plan *plan, bool finishes,
                                  struct persistent *out);

#endif
