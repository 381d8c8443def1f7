/* kernel_bench.h: a device and a set of kernels to test, with the judge of core/oracle: its cases
 * of operations, and single runs on numbers of the test. The test names a kernel instead of
 * choosing one, and walks over all kernels of an operation. If glslangValidator is installed, it
 * must also accept every text. */
#ifndef DGL_TESTS_KERNEL_BENCH_H
#define DGL_TESTS_KERNEL_BENCH_H

#include "core/oracle/kernel_check.h"
#include "core/oracle/problem.h"
#include "gl/gl.h"

struct kernel_bench;

/* Opens any device with the built-in kernels. `limits_min` lowers the device to the GLES 3.1
 * minimums. Returns NULL and prints the reason if there is no device. */
struct kernel_bench *kernel_bench_create(bool limits_min);
void kernel_bench_destroy(struct kernel_bench **bench);
const struct kernel_set *kernel_bench_set(const struct kernel_bench *bench);
const struct gl_caps *kernel_bench_caps(const struct kernel_bench *bench);
/* Adds hints, a JSON object such as {"tunes": {"matmul_decode.LANES": 64}}. Returns false and
 * prints the reason if they are refused. */
bool kernel_bench_hint(struct kernel_bench *bench, const char *json);
/* Adds a kernel file; false when it is refused, and the reason is printed. */
bool kernel_bench_file(struct kernel_bench *bench, const char *path);
/* The name of the i-th kernel that serves `op`, in the order of the set; NULL beyond the last. */
const char *kernel_bench_name(const struct kernel_bench *bench, const char *op, size_t i);
/* Returns the kernel that kernel_choose() selects for the request on this device, or NULL if no
 * kernel can run it. */
const char *kernel_bench_preferred(struct kernel_bench *bench,
                                   const struct kernel_request *request);

enum bench_result {
    BENCH_RAN,
    /* the kernel does not serve the request, or not on this device; `why` has the rule */
    BENCH_CANNOT,
    /* it should have run, or its results are wrong: `why` has the error, the overwritten guard
     * word, or the computed value */
    BENCH_FAILED,
};
#define BENCH_WHY 1024

/* A case of an operation that core/oracle knows, with its results. */
enum bench_result kernel_bench_case(struct kernel_bench *bench, const char *kernel,
                                    const struct kernel_case *c, char why[BENCH_WHY]);

/* Runs one kernel on a problem whose only stages are those of its operation. The results stay in
 * p->buffers and are not checked: problem_check(). */
enum bench_result kernel_bench_solve(struct kernel_bench *bench, const char *kernel,
                                     struct problem *p, char why[BENCH_WHY]);

/* ---- single runs ----------------------------------------------------------------------------- */

/* A storage buffer, by its name in the kernel's BIND line. A buffer that the case does not list is
 * not bound. */
struct bench_bind {
    const char *name;
    size_t words;
    const void *in; /* contents; NULL: every word is a NaN */
    void *out;      /* gets the contents afterwards; NULL: not wanted */
};

#define BENCH_MAX_BINDS  12 /* a case may list more than one kernel binds */
#define BENCH_MAX_PARAMS 12

struct bench_case {
    struct kernel_request request;
    struct bench_bind binds[BENCH_MAX_BINDS];
    uint32_t num_binds;
    struct problem_param params[BENCH_MAX_PARAMS]; /* more than the kernel declares */
    uint32_t num_params;
    struct dgl_step step; /* of the only sequence, PROBLEM_SEQ; T of GROUPS is step.tokens */
    uint32_t band;        /* BAND of GROUPS */
    uint32_t repeats;     /* further dispatches */
};

void bench_attr(struct bench_case *c, const char *key, const char *word);
void bench_const(struct bench_case *c, const char *name, int64_t value);
void bench_uint(struct bench_case *c, const char *name, uint32_t value);
void bench_float(struct bench_case *c, const char *name, float value);
void bench_in(struct bench_case *c, const char *name, const void *in, size_t words);
void bench_out(struct bench_case *c, const char *name, void *out, size_t words);
void bench_inout(struct bench_case *c, const char *name, const void *in, void *out, size_t words);

enum bench_result kernel_bench_run(struct kernel_bench *bench, const char *kernel,
                                   struct bench_case *c, char why[BENCH_WHY]);

#endif
