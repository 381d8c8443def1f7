/*
 * problem.h: one case of an operation as data: the buffers that its kernels get, the dispatches,
 * and the results that every kernel of it must give. Made by the table of operations
 * (op_problem.h), solved by a kernel in kernel_run.h, held against the results in problem_check().
 */
#ifndef DGL_CORE_PROBLEM_H
#define DGL_CORE_PROBLEM_H

#include "core/base/mem.h"
#include "core/base/str.h"
#include "kernels/kernels.h"
#include "kernels/step.h"

#define PROBLEM_MAX_BUFFERS 14 /* may be more than one kernel binds */
#define PROBLEM_MAX_PARAMS  12
#define PROBLEM_MAX_STAGES  10
#define PROBLEM_MAX_RESULTS 3
#define PROBLEM_MAX_IDLE    2
#define PROBLEM_POISON      0x7FC0BAD0u /* a NaN: every word of a buffer without contents */

/* The sequence that all rows of a problem are of: not the first, which kernels might take unasked.
 */
#define PROBLEM_SEQ 3

/* What an operation is asked. */
struct kernel_case {
    struct kernel_request request; /* its attributes; of the constants, those that matter */
    uint32_t tokens;               /* of the pass; 0 counts as 1 */
    uint32_t pos;                  /* of the first one */
    uint32_t context;              /* positions of its sequence; 0 = some */
    uint32_t row;                  /* of several sequences (crowd.h), each with other numbers */
    uint32_t row0, rows;           /* of weights, in one band; rows 0: all of them */
    uint32_t bands;                /* dispatches that share the rows; 0 counts as 1 */
    uint32_t cuts[3]; /* instead, of experts and embeddings: rows at which one ends, 0 = none */
    uint32_t variant; /* further properties of the numbers, by operation */
    uint64_t seed;
    /* For timing: buffers have sizes and plausible contents, no result is worked out. */
    bool timing;
};

struct problem_buffer {
    const char *name; /* as kernels' BIND lines have it */
    size_t words;
    const uint32_t *before;     /* NULL: every word is PROBLEM_POISON */
    uint32_t *after;            /* what the kernel left; NULL: it may only read, all stays */
    const uint32_t *want_words; /* all of its words afterwards; NULL: those of its results count */
    bool free;                  /* words that are no results may change */
    bool bits; /* for timing: random words, finite in every format of weights, instead of NaN */
};

/* Values, `stride` words apart, from word `at` of a buffer on. All other words of that buffer stay
 * as they were. */
struct problem_result {
    const char *buffer;
    size_t at, rows, cols, stride;
    double *want;  /* [rows][cols] */
    bool each_row; /* the tolerance holds for every row by itself */
    /* Squares of all terms of the values' sums: what errors count against where that is more than
     * the squares of the values, since terms that cancel are rounded as they were. 0 = not known */
    double terms_power;
};

struct problem_param {
    const char *name;
    bool is_float;
    uint32_t u;
    float f;
};

/* One dispatch. */
struct problem_stage {
    struct kernel_request request;
    bool is_subject; /* the kernel in question runs it; others are run by built-in kernels */
    struct problem_param params[PROBLEM_MAX_PARAMS];
    uint32_t num_params;
    uint32_t band; /* BAND of GROUPS */
    /* A buffer of this dispatch alone, in place of the problem's of that name; NULL = none. */
    const char *own_name;
    const uint32_t *own;
    size_t own_words;
};

struct problem {
    struct dgl_arena arena;
    bool failed;       /* out of memory, or `unfit`: test once */
    const char *unfit; /* why there is no such problem; NULL = there is */
    uint64_t seed;
    struct problem_buffer buffers[PROBLEM_MAX_BUFFERS];
    uint32_t num_buffers;
    /* Buffers that kernels have and that mean nothing here: they are not bound. */
    const char *idle[PROBLEM_MAX_IDLE];
    uint32_t num_idle;
    struct problem_stage stages[PROBLEM_MAX_STAGES];
    uint32_t num_stages;
    struct problem_result results[PROBLEM_MAX_RESULTS];
    uint32_t num_results;
    struct dgl_step step;  /* of the only sequence; tokens: rows of the pass */
    const uint16_t *pages; /* its entries of the page table, from step.kv_first on; NULL = none */
    uint32_t num_pages;
    /* Of several sequences instead: the whole tables; NULL = there is one. */
    const struct dgl_step_table *steps;
    const struct dgl_kv_table *table;
    uint32_t repeats; /* further runs of all stages; counters are left at 0 */
    /* May be NULL. Called before results are compared: works out what kernels are free in (how
     * attention is split) from the buffers. False: `why` says what is wrong. */
    bool (*settle)(struct problem *p, char why[512]);
    void *priv; /* for `settle` */
    /* Terms of the longest sum: beyond 1,024 rounding errors grow in proportion, and with them what
     * the tolerance allows. */
    uint64_t terms;
    uint64_t bytes; /* that the stages of the subject read and write at least */
    uint64_t flops; /* that they compute at least */
};

void problem_finish(struct problem *p);

/* The sizes make no sense together: `why`, which lives forever. */
void problem_refuse(struct problem *p, const char *why);
/* Zeroed memory that lives as long as the problem; NULL sets `failed`. */
void *problem_alloc(struct problem *p, size_t count, size_t size);
#define problem_new(p, type, count) ((type *)problem_alloc((p), (count), sizeof(type)))
uint64_t problem_rand(struct problem *p);
float problem_rand_float(struct problem *p);
/* Random numbers of deviation `scale`. */
float *problem_floats(struct problem *p, size_t count, float scale);

/* Add a buffer of `count` words. What is read only; what is written, from `before` (NULL: NaN) on;
 * what must be `want` afterwards, word for word. */
struct problem_buffer *problem_in(struct problem *p, const char *name, const void *words,
                                  size_t count);
struct problem_buffer *problem_out(struct problem *p, const char *name, const void *before,
                                   size_t count);
struct problem_buffer *problem_exact(struct problem *p, const char *name, const void *before,
                                     const void *want, size_t count);
/* A buffer of random bits, for timing. */
struct problem_buffer *problem_bits(struct problem *p, const char *name, size_t count);
/* A buffer that the operation has and that means nothing in this case. */
void problem_idle(struct problem *p, const char *name);
/* NULL: there is none of that name. */
struct problem_buffer *problem_buffer(struct problem *p, const char *name);
/* Adds values to compare, all zero so far, and one after the other from word `at` on; `stride` may
 * be changed. */
struct problem_result *problem_result(struct problem *p, const char *buffer, size_t at, size_t rows,
                                      size_t cols);
/* Adds a dispatch of the kernel in question. */
struct problem_stage *problem_stage(struct problem *p, const struct kernel_request *request);
void stage_uint(struct problem_stage *stage, const char *name, uint32_t value);
void stage_float(struct problem_stage *stage, const char *name, float value);

/* Constants and attributes of requests. `value` counts where the request has none of that name. */
int64_t request_const(const struct kernel_request *request, const char *name, int64_t value);
void request_set_const(struct kernel_request *request, const char *name, int64_t value);
/* Adds the constant unless it is there. */
void request_default(struct kernel_request *request, const char *name, int64_t value);
bool request_is(const struct kernel_request *request, const char *key, const char *word);
/* A NULL word removes the attribute. */
void request_set(struct kernel_request *request, const char *key, const char *word);

/* Sum of (a - b)^2 over that of b^2, or over `least` where that is more; infinite when a number is
 * missing. */
double problem_nmse(const float *a, const double *b, size_t count, double least);

/* Other numbers for another row of several sequences: what all rows share is drawn before. */
void problem_begin_row(struct problem *p, const struct kernel_case *c);
/* The step table whose only sequence is in that state. */
void problem_steps(const struct dgl_step *step, struct dgl_step_table *out);
/* The page table with the sequence's pages. */
void problem_pages(const struct problem *p, struct dgl_kv_table *out);

/* Holds the buffers after a run against the results. False: `why` says where they differ. *worst is
 * raised to the largest error as a part of `tolerance`. */
bool problem_check(struct problem *p, double tolerance, double *worst, char why[512]);

#endif
