/* A persistent executor for tests. It runs on any device, by dispatches, and fails on request: it
 * gives up in the middle of a token, computes other tokens, or is slow. */
#ifndef DGL_TESTS_INJECTOR_H
#define DGL_TESTS_INJECTOR_H

#include "core/exec/persistent.h"

struct dgl_model;

struct injector {
    /* requested behaviour */
    const char *no_schedule; /* why check() refuses; NULL = it does not */
    const char *unfit;       /* why probe() finds no groups; NULL = it finds 132 */
    const char *key;         /* 64 digits, returned by check(); NULL = no digits */
    bool aside;              /* its compiler runs in the background */
    int32_t not_ready;       /* number of times that is_ready() returns false */
    int32_t abort_at;        /* submit that is given up, counted from 1; 0 = no submit */
    uint32_t abort_after;    /* whole steps of that submit that are computed, then a half one */
    bool wrong;              /* the last id of each submit is another */
    bool refuses;            /* the driver does not compile the program */
    uint64_t step_ns;        /* minimum time of a step */
    /* a step takes a millisecond if the numbers differ from these; 0 = no such delay */
    uint32_t best_groups;
    const int32_t *known; /* ids by position: returned as answers without computing */
    /* observations */
    int32_t submits;                       /* since it was installed */
    uint32_t most_steps;                   /* of one of them */
    int32_t begun, bound, probed, cleared; /* bound: runs that were made, of one sequence */
    int32_t bound_rows;                    /* of several */
    int32_t moved;                         /* runs, from one sequence to another */
    uint32_t groups;                       /* as set last */
    /* its own */
    struct exec *inner; /* borrowed: the engine's dispatches */
    struct gl_device *gl;
    bool aborted;
};

/* Installs it in the model in place of any other persistent executor, and forgets earlier choices.
 * It must outlive the model. */
void injector_install(struct injector *injector, struct dgl_model *model, enum dgl_executor wanted);

#endif
