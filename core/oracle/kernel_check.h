/*
 * kernel_check.h: tests whether kernels are correct. It makes inputs of odd sizes for an operation,
 * computes the results in doubles on the host, runs a kernel on the device, compares within the
 * kernel's TOLERANCE, and reports the verdict. Users:
 *
 * - live swap (watch) and the first use of a device call kernel_judge_use() for each use of a plan
 * whose kernel is new, in quick mode. It uses the constants, tunables and program of the model, so
 * that no program is compiled twice. It needs a few milliseconds per use when warm;
 * - `kernels check` and `selftest` call kernel_judge_kernel(), full mode: every word of the
 * kernel's WHEN lines, on several shapes;
 * - `kernels bench` calls kernel_judge_use(), then kernel_judge_time() for the same request;
 * - the tuner does so for each candidate: the request of a plan, and a choice with other tunables
 * (kernel_fit_try() with `forced`, or kernel_choose() on a set with hints);
 * - the kernel tests call kernel_judge_case() on their own tables.
 *
 * The caller must have entered the device (device_enter()). The status reports errors of the
 * device, of memory, and cancelling. A kernel that is wrong or cannot run is a verdict, not a
 * failed call, and is not logged.
 */
#ifndef DGL_CORE_KERNEL_CHECK_H
#define DGL_CORE_KERNEL_CHECK_H

#include "core/memory/device.h"
#include "core/oracle/problem.h"

enum kernel_judge_mode {
    KERNEL_JUDGE_QUICK, /* two cases of a kernel, small ones */
    KERNEL_JUDGE_FULL,
};

struct kernel_judge_params {
    struct dgl_device *dev; /* borrowed */
    struct kernel_set *set; /* the judge takes a reference: its kernels are judged */
    enum kernel_judge_mode mode;
    /* May be NULL. Asked before each program is compiled and each case is run; false ends the call
     * with DGL_ERR_CANCELLED. gl_device_set_stop() ends it in the middle of a wait as well. */
    bool (*go_on)(void *priv);
    /* May be NULL. Checks every source before the driver compiles it. Returns false and sets `why`
     * if the kernel is wrong. Used by tests to run a second compiler. */
    bool (*inspect)(void *priv, const char *kernel, const char *source, char why[512]);
    /* If not NULL, receives the source of each case. The case then is neither compiled nor run and
     * counts as passed. Returns false to end the call with DGL_ERR_CANCELLED. */
    bool (*gather)(void *priv, const struct kernel *kernel, const char *source, size_t len);
    void *priv; /* first argument of the callbacks */
};

struct kernel_judge;
/* Transfers *out. */
enum dgl_status kernel_judge_create(const struct kernel_judge_params *params,
                                    struct kernel_judge **out);
/* Accepts NULL in *judge, and a lost device. */
void kernel_judge_destroy(struct kernel_judge **judge);
/* Destroys the programs that are kept for cases to come. */
void kernel_judge_forget(struct kernel_judge *judge);
/* Switches to another set, with its own reference. Programs are kept. */
void kernel_judge_set(struct kernel_judge *judge, struct kernel_set *set);

enum kernel_verdict_kind {
    KERNEL_PASSED, /* every case within the tolerance */
    /* does not compile, changes memory that it must not write, computes wrongly, or declares limits
     * that no device has */
    KERNEL_WRONG,
    KERNEL_SKIPPED, /* no case can run on this device */
};

struct kernel_verdict {
    enum kernel_verdict_kind kind;
    bool built;     /* a wrong one: it ran; else the text begins with its place */
    uint32_t cases; /* that ran; of a wrong kernel the last one is the wrong one */
    double worst;   /* largest error, as a fraction of TOLERANCE */
    /* If wrong: one line with kernel, case, element, actual and expected value, or the driver's
     * first error with its place. If skipped: the rule that is not met here. If passed: "". */
    char text[1024];
};

/* A kernel of the set on the cases of its operation that its WHEN lines serve. Slow: compiles a
 * program for most of them. DGL_ERR_INVALID_ARG: the set has no kernel of that name. */
enum dgl_status kernel_judge_kernel(struct kernel_judge *judge, const char *name,
                                    struct kernel_verdict *out);

/* A request with its constants (docs/operations.md; constants of a buffer's layout may be missing
 * if the caller has no plan), and its kernel. */
struct kernel_subject {
    const struct kernel_request *request;
    const struct kernel_choice *choice; /* if NULL, kernel_choose() chooses from the set */
    /* program of the choice, borrowed; if NULL, the test compiles and keeps it */
    struct gl_program *program;
};
/* Tests one use of a plan with few rows of weights and few tokens, for any size of model: a kernel
 * cannot see the difference. */
enum dgl_status kernel_judge_use(struct kernel_judge *judge, const struct kernel_subject *use,
                                 struct kernel_verdict *out);

/* Tests one case. If `kernel` is NULL, kernel_choose() chooses it. */
enum dgl_status kernel_judge_case(struct kernel_judge *judge, const char *kernel,
                                  const struct kernel_case *c, struct kernel_verdict *out);

/* Sizes for timing that requests do not contain. */
struct kernel_load {
    uint32_t tokens;     /* of the pass; 0: one in decode, else as many as `columns` has */
    uint32_t pos;        /* tokens in the KV cache before */
    uint32_t rows;       /* of weights; 0: all that one binding can hold */
    uint32_t dispatches; /* timed; 0 counts as 20 */
};

struct kernel_timing {
    uint32_t dispatches;
    double us;      /* the figure to compare by: of the device's clock, else of the host's */
    double best_us; /* the quickest dispatch by that clock */
    bool gpu_clock;
    double alone_us;       /* median from submit to finished, host's clock */
    double stream_us;      /* each of a row of dispatches that no cache serves, host's clock */
    uint64_t bytes, flops; /* moved and computed by one dispatch, at least */
};
/* Times a use at its own sizes. Does not check results: call kernel_judge_use() first. If a use
 * cannot be timed (the kernel does not compile), the verdict is not KERNEL_PASSED. `why` may be
 * NULL. */
enum dgl_status kernel_judge_time(struct kernel_judge *judge, const struct kernel_subject *use,
                                  const struct kernel_load *load, struct kernel_timing *out,
                                  struct kernel_verdict *why);

/* "matmul weight=q4_k phase=decode K=260 N=67, 7 tokens": a case for people. */
void kernel_case_describe(const struct kernel_case *c, struct dgl_buf *out);
/* Completes the constants of a case that follow from others, and fits a kernel to it. Returns false
 * if the kernel does not serve the case here. Then `why` names the rule, or is "" if no plan makes
 * such a case. out->fault is set as by kernel_fit_try(). */
bool kernel_judge_fit(struct kernel_judge *judge, const struct kernel *kernel,
                      struct kernel_case *c, struct kernel_choice *out, char why[192]);
/* Makes the verdict for a kernel whose choice->fault is set, with the reason `why`. */
void kernel_judge_fault(struct kernel_verdict *verdict, const struct kernel *kernel,
                        const struct kernel_line *fault, const char *why);
const struct dgl_log *kernel_judge_log(const struct kernel_judge *judge);

/* Returns true if the operation has known answers. */
bool kernel_judge_knows(const char *op);

#endif
