/* An executor without a device. It records submits, counts created and destroyed objects, and fails
 * on request. */
#ifndef DGL_TESTS_RECORDER_H
#define DGL_TESTS_RECORDER_H

#include "core/exec/exec.h"

/* An operation as a device would get it. */
struct recorded_op {
    const char *label;
    const struct kernel_use *use;
    uint32_t groups[3];
    struct ref refs[KERNEL_MAX_BINDS]; /* in the kernel's order */
    uint32_t num_refs;
    uint32_t params[KERNEL_MAX_PARAMS]; /* in the kernel's order, floats by their bits */
    uint32_t num_params;
};

/* Outlives its executor. */
struct recorder {
    struct exec *exec;       /* a reference; exec_unref() it, or recorder_finish() does */
    struct recorded_op *ops; /* [count], submitted since the last recorder_clear() */
    size_t count, cap;
    uint32_t compiled, bound, moved, regrouped, destroyed; /* calls that did something */
    int32_t live;                                          /* runs with memory of the executor's */
    bool fail_compile, fail_bind, fail_submit; /* fail_compile: after having allocated */
    uint64_t gpu_ns; /* time of every operation, if times are requested; 0 = unknown */
};

/* Fails the running test when out of memory. `plan` is borrowed. */
void recorder_init(struct recorder *r, const struct plan *plan);
void recorder_clear(struct recorder *r);
void recorder_finish(struct recorder *r);

#endif
