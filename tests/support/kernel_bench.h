/*
 * kernel_bench.h: runs kernels by themselves, on numbers of the caller's choosing. Every buffer
 * lies between guard words, buffers without contents start as NaN, and a kernel is named, not
 * chosen: a test walks over all kernels of an operation.
 */
#ifndef DGL_TESTS_KERNEL_BENCH_H
#define DGL_TESTS_KERNEL_BENCH_H

#include "gl/gl.h"
#include "kernels/kernels.h"
#include "kernels/step.h"

struct kernel_bench;

/* Any device, and the built-in kernels; `limits_min` clamps the device to the GLES 3.1 minimums.
 * NULL when there is no device; the reason is printed. */
struct kernel_bench *kernel_bench_create(bool limits_min);
/* The same on a whole device, for measurements: with the kernel files of a folder on top, NULL =
 * none, and with a folder that keeps programs, "" = none. */
struct kernel_bench *kernel_bench_create_measuring(const char *kernel_dir, const char *cache_dir);
void kernel_bench_destroy(struct kernel_bench **bench);
const struct kernel_set *kernel_bench_set(const struct kernel_bench *bench);
const struct gl_caps *kernel_bench_caps(const struct kernel_bench *bench);
/* Adds hints, a JSON object such as {"tunes": {"matmul_decode.LANES": 64}}; false when they are
 * refused, and the reason is printed. */
bool kernel_bench_hint(struct kernel_bench *bench, const char *json);
/* Adds a kernel file; false when it is refused, and the reason is printed. */
bool kernel_bench_file(struct kernel_bench *bench, const char *path);
/* The name of the i-th kernel that serves `op`, in the order of the set; NULL beyond the last. */
const char *kernel_bench_name(const struct kernel_bench *bench, const char *op, size_t i);
/* What kernel_choose() takes for the request here; NULL when nothing can run it. */
const char *kernel_bench_preferred(struct kernel_bench *bench,
                                   const struct kernel_request *request);

/* A storage buffer, by the name that the kernel's BIND line gives it. A bind that the case does not
 * list is left unbound. */
struct bench_bind {
    const char *name;
    size_t words;
    const void *in; /* contents; NULL: every word is a NaN */
    void *out;      /* gets the contents afterwards; NULL: not wanted */
};

/* A member of the parameter block; those that the kernel does not declare are ignored. */
struct bench_param {
    const char *name;
    bool is_float;
    uint32_t u;
    float f;
};

#define BENCH_MAX_BINDS  12 /* a case may list more than one kernel binds */
#define BENCH_MAX_PARAMS 12

/* The sequence that all rows of a case are of: not the first, which kernels might take unasked. */
#define BENCH_SEQ 3
/* The step table of a case with that state. */
void bench_steps(const struct dgl_step *step, struct dgl_step_table *out);

struct bench_case {
    struct kernel_request request;
    struct bench_bind binds[BENCH_MAX_BINDS];
    uint32_t num_binds;
    struct bench_param params[BENCH_MAX_PARAMS];
    uint32_t num_params;
    struct dgl_step step; /* of the only sequence; T of GROUPS is step.tokens */
    uint32_t band;        /* BAND of GROUPS */
    uint32_t repeats; /* further dispatches, timed; the contents of buffers are then those after the
                         last */
    double median_us, best_us; /* of `repeats`: from submit to finished, on the host's clock */
    double gpu_us;             /* best by the device's timer; 0 = no timer */
    /* Of `repeats` in one submit, each waiting for the one before, on several copies of the bind
     * `streamed` (NULL: the largest that is only read), so that no GPU cache holds it: what the
     * kernel costs inside a plan. */
    double stream_us;
    const char *streamed;
};

void bench_attr(struct bench_case *c, const char *key, const char *word);
void bench_const(struct bench_case *c, const char *name, int64_t value);
void bench_uint(struct bench_case *c, const char *name, uint32_t value);
void bench_float(struct bench_case *c, const char *name, float value);
void bench_in(struct bench_case *c, const char *name, const void *in, size_t words);
void bench_out(struct bench_case *c, const char *name, void *out, size_t words);
void bench_inout(struct bench_case *c, const char *name, const void *in, void *out, size_t words);

enum bench_result {
    BENCH_RAN,
    BENCH_CANNOT, /* the kernel does not serve the request, or not on this device; `why` says which
                     rule */
    BENCH_FAILED, /* it should have run: `why` has the error, or which guard word was overwritten */
};
#define BENCH_WHY 512
enum bench_result kernel_bench_run(struct kernel_bench *bench, const char *kernel,
                                   struct bench_case *c, char why[BENCH_WHY]);

/* Compiles sources of kernel_bench_source() together, as many at a time as the driver does. Cases
 * with these sources then need no compiling. */
bool kernel_bench_compile(struct kernel_bench *bench, char *const *sources, size_t count);

struct bench_stream {
    const char *name;      /* of a bind that is only read */
    const uint32_t *words; /* what it reads, repeated; as many as the first call says */
    size_t num_words;
    bool hot; /* the same part every time */
};
/* Microseconds of one of c->repeats dispatches in one submit, each waiting for the one before. The
 * bind reads the next part of one large buffer every time, so that no cache holds it. Negative: the
 * kernel did not run, `why` says for what reason. */
double kernel_bench_stream(struct kernel_bench *bench, const char *kernel, struct bench_case *c,
                           const struct bench_stream *stream, char why[BENCH_WHY]);

/* The generated GLSL of a kernel for a request, to be freed; NULL as above, with the reason in
 * `why`. */
char *kernel_bench_source(struct kernel_bench *bench, const char *kernel,
                          const struct kernel_request *request, char why[BENCH_WHY]);

#endif
