/*
 * kernel_run.h: runs kernels by themselves on the numbers of a problem. Every buffer is between
 * guard words, buffers without contents begin as NaN, and programs are kept by their text. The
 * caller has entered the device.
 */
#ifndef DGL_CORE_KERNEL_RUN_H
#define DGL_CORE_KERNEL_RUN_H

#include "core/memory/device.h"
#include "core/oracle/problem.h"

#define KERNEL_RUN_WHY 512

struct kept_program;
/* The caller fills in `dev` and, if wanted, the callbacks. All else is 0. */
struct kernel_runner {
    struct dgl_device *dev; /* borrowed */
    struct kept_program *programs;
    size_t num_programs, cap_programs;
    /* May be NULL. Checks every source before the driver compiles it. Returns false and sets `why`
     * on an error. */
    bool (*inspect)(void *priv, const char *label, const char *source, char why[KERNEL_RUN_WHY]);
    void *inspect_priv;
    /* May be NULL. Asked during a compilation; false ends the call with DGL_ERR_CANCELLED. */
    bool (*go_on)(void *priv);
    void *go_on_priv;
};

void kernel_runner_finish(struct kernel_runner *r);
/* Destroys the programs that are kept. */
void kernel_runner_forget(struct kernel_runner *r);

/* Returns the program of a choice; compiles it if the runner has no program with the same source.
 * Borrowed. DGL_ERR_KERNEL: `why` has the first line of the error. The device's log has the rest of
 * the driver's message. */
enum dgl_status kernel_runner_program(struct kernel_runner *r, const struct kernel_choice *choice,
                                      struct gl_program **out, char why[KERNEL_RUN_WHY]);
/* A stage of a problem with the kernel that runs it. */
struct kernel_stage {
    const struct kernel_choice *choice;
    struct gl_program *program;
};

/* Runs the stages [p->num_stages] of a problem in order and reads its buffers back. Returns
 * DGL_ERR_KERNEL and sets `why` if the kernel broke a rule: it changed a guard word or a read-only
 * buffer, declares a BIND or PARAM that the operation does not have, or its GROUPS yields no
 * counts. Other errors are device errors, and logged. */
enum dgl_status kernel_runner_solve(struct kernel_runner *r, struct problem *p,
                                    const struct kernel_stage *stages, char why[KERNEL_RUN_WHY]);

struct kernel_run_times {
    uint32_t dispatches; /* timed, of each kind */
    double alone_us;     /* median from submit to finished, on the host's clock */
    double alone_best_us;
    /* Median and best of dispatches in one submit, on the device's clock, or 0 if it has no
     * clock. */
    double gpu_us, gpu_best_us;
    /* Time of a dispatch inside a plan: all dispatches are in one submit, and each waits for the
     * one before. They alternate between copies of the largest read-only buffer (or of `streamed`),
     * so that no cache holds it. Host clock, best of several submits. */
    double stream_us;
};

/* Times the first stage of a problem. */
enum dgl_status kernel_runner_time(struct kernel_runner *r, struct problem *p,
                                   const struct kernel_stage *stage, const char *streamed,
                                   uint32_t dispatches, struct kernel_run_times *out,
                                   char why[KERNEL_RUN_WHY]);

#endif
