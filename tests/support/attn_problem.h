/*
 * attn_problem.h: one case of rope_kv, attn_prefill, attn_decode or attn_token: random rows, a
 * cache that is NaN where nothing was written, what kernels should make of it, and running one.
 * Turned keys and cached numbers are compared bit for bit, so that decode and prefill agree.
 */
#ifndef DGL_TESTS_ATTN_PROBLEM_H
#define DGL_TESTS_ATTN_PROBLEM_H

#include "tests/support/kernel_walk.h"
#include "core/oracle/ref_attn.h"

#define ATTN_MAX_HEADS 32
#define ATTN_NORM_EPS  1e-5f

/* tokens = 0: decode. */
struct attn_shape {
    uint32_t heads, kv_heads, head_dim, rope_dims, tokens, pos, splits;
    uint32_t pad; /* columns between rows, prefill */
    float loud;   /* what q is multiplied by; 0 counts as 1 */
    bool louder;  /* rope_scale 1.25 instead of 1 */
    uint32_t window;
    float softcap;
    bool sinks; /* prefill, and decode with the whole result */
    enum attn_norm { ATTN_NORM_NONE, ATTN_NORM_HEAD, ATTN_NORM_ALL } norm; /* as sinks in decode */
};

struct attn_row {
    const char *name;
    struct attn_shape shape;
    bool kv_f16, limits_min;
};

struct attn_problem {
    struct attn_shape s;
    struct ref_attn ref;
    struct kernel_bench *bench;
    uint32_t tokens, qkv_stride, o_stride;
    float *qkv, *turned; /* [tokens][qkv_stride]: before and after rope */
    size_t qkv_words, kv_words;
    float sinks[ATTN_MAX_HEADS], *gain;
    size_t gain_words;
    uint32_t *kv_before, *kv_after;
};

void attn_problem_init(struct attn_problem *p, const struct attn_row *row,
                       struct kernel_bench *bench);
void attn_problem_finish(struct attn_problem *p);
/* The request, constants and parameters of an operation, without its buffers but ROPE. */
void attn_describe(const struct attn_problem *p, const char *op, struct bench_case *c);

/* Each runs one kernel and fails the test when its results are wrong. */
typedef enum bench_result (*attn_run_fn)(struct attn_problem *p, const char *kernel,
                                         char why[BENCH_WHY]);
enum bench_result attn_run_rope_kv(struct attn_problem *p, const char *kernel, char why[BENCH_WHY]);
enum bench_result attn_run_prefill(struct attn_problem *p, const char *kernel, char why[BENCH_WHY]);
enum bench_result attn_run_decode(struct attn_problem *p, const char *kernel, char why[BENCH_WHY]);
enum bench_result attn_run_token(struct attn_problem *p, const char *kernel, char why[BENCH_WHY]);

/* The row on every kernel of the walk's operation, by `run`; how many ran. */
size_t attn_run_some(const struct attn_row *row, struct kernel_bench *bench,
                     struct kernel_walk *walk, attn_run_fn run);
/* The same; at least one must run. Skips without a bench. */
void attn_run_all(const struct attn_row *row, struct kernel_bench *bench, struct kernel_walk *walk,
                  attn_run_fn run);

#endif
