/*
 * problem.h: one case of an operation as data: the buffers of its kernels, the dispatches, and the
 * expected results. The table of operations (op_problem.h) makes it, kernel_run.h runs it with a
 * kernel, and problem_check() compares the results.
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

/* Inputs of an operation. */
struct kernel_case {
    struct kernel_request request; /* its attributes; of the constants, those that matter */
    uint32_t tokens;               /* of the pass; 0 counts as 1 */
    uint32_t pos;                  /* of the first one */
    uint32_t context;              /* positions of its sequence; 0 for any number */
    /* index among several sequences (crowd.h); each row has other numbers */
    uint32_t row;
    uint32_t row0, rows; /* of weights, in one band; rows 0: all of them */
    uint32_t bands;      /* dispatches that share the rows; 0 counts as 1 */
    uint32_t cuts[3];    /* for experts and embeddings instead: rows at which a band ends, or 0 */
    uint32_t variant;    /* further properties of the numbers, by operation */
    uint64_t seed;
    /* For timing: buffers have sizes and plausible contents, no result is worked out. */
    bool timing;
};

struct problem_buffer {
    const char *name; /* as kernels' BIND lines have it */
    size_t words;
    const uint32_t *before; /* if NULL, every word is PROBLEM_POISON */
    uint32_t *after;        /* contents after the run; NULL if the buffer is read-only */
    /* expected values of all words; if NULL, only the results are compared */
    const uint32_t *want_words;
    bool free; /* words that are no results may change */
    bool bits; /* for timing: random words, finite in every format of weights, instead of NaN */
};

/* Values, `stride` words apart, from word `at` of a buffer on. All other words of that buffer must
 * not change. */
struct problem_result {
    const char *buffer;
    size_t at, rows, cols, stride;
    double *want;  /* [rows][cols] */
    bool each_row; /* the tolerance holds for every row by itself */
    /* Sum of the squares of all terms of the values' sums. If it is larger than the sum of the
     * squares of the values, errors are relative to it, because terms that cancel were rounded
     * before. 0 if not known. */
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
    bool is_subject; /* the tested kernel runs it; built-in kernels run all other stages */
    struct problem_param params[PROBLEM_MAX_PARAMS];
    uint32_t num_params;
    uint32_t band; /* BAND of GROUPS */
    /* A buffer for this dispatch only that replaces the problem's buffer of that name, or NULL. */
    const char *own_name;
    const uint32_t *own;
    size_t own_words;
};

struct problem {
    struct dgl_arena arena;
    bool failed;       /* out of memory, or `unfit`: test once */
    const char *unfit; /* reason why the problem cannot exist, or NULL */
    uint64_t seed;
    struct problem_buffer buffers[PROBLEM_MAX_BUFFERS];
    uint32_t num_buffers;
    /* Buffers that kernels declare but this case does not use. They are not bound. */
    const char *idle[PROBLEM_MAX_IDLE];
    uint32_t num_idle;
    struct problem_stage stages[PROBLEM_MAX_STAGES];
    uint32_t num_stages;
    struct problem_result results[PROBLEM_MAX_RESULTS];
    uint32_t num_results;
    struct dgl_step step;  /* of the only sequence; tokens: rows of the pass */
    const uint16_t *pages; /* entries of the page table from entry + step.kv_first on, or NULL */
    uint32_t entry;        /* KV_ENTRY */
    uint32_t num_pages;
    /* The whole tables of several sequences, or NULL if there is one. */
    const struct dgl_step_table *steps;
    const struct dgl_kv_table *table;
    uint32_t repeats; /* further runs of all stages; counters are left at 0 */
    /* May be NULL. Called before results are compared. Derives free choices of the kernel (how
     * attention is split) from the buffers. Returns false and sets `why` on an error. */
    bool (*settle)(struct problem *p, char why[512]);
    void *priv; /* for `settle` */
    /* Terms of the longest sum. Beyond 1,024 terms rounding errors grow in proportion, and the
     * tolerance grows with them. */
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
/* Random numbers of deviation `scale`. */
float *problem_floats(struct problem *p, size_t count, float scale);
/* Sets columns `from` to `to` of all rows of `stride` numbers to NaN. */
void problem_nan(float *x, size_t count, size_t stride, size_t from, size_t to);

/* Add a buffer of `count` words. problem_in(): read only. problem_out(): written, with `before` as
 * initial contents (NaN if NULL). problem_exact(): every word must be `want` afterwards. */
struct problem_buffer *problem_in(struct problem *p, const char *name, const void *words,
                                  size_t count);
struct problem_buffer *problem_out(struct problem *p, const char *name, const void *before,
                                   size_t count);
struct problem_buffer *problem_exact(struct problem *p, const char *name, const void *before,
                                     const void *want, size_t count);
/* A read-only buffer with these words, or with random bits if `words` is NULL (for timing). */
struct problem_buffer *problem_bits(struct problem *p, const char *name, const void *words,
                                    size_t count);
/* Like problem_in() if the buffer is used in this case. Otherwise it is marked as idle, and kernels
 * that declare it leave it unbound. */
void problem_in_if(struct problem *p, bool used, const char *name, const void *words, size_t count);
/* Returns NULL if there is no buffer of that name. */
struct problem_buffer *problem_buffer(struct problem *p, const char *name);
/* Adds values to compare from word `at` on, zeroed. `stride` 0: the rows are contiguous. */
struct problem_result *problem_result(struct problem *p, const char *buffer, size_t at, size_t rows,
                                      size_t cols, size_t stride);
/* Adds a dispatch of the kernel in question. */
struct problem_stage *problem_stage(struct problem *p, const struct kernel_request *request);
void stage_uint(struct problem_stage *stage, const char *name, uint32_t value);
void stage_float(struct problem_stage *stage, const char *name, float value);

/* Access to constants and attributes of requests. `value` is the default if the request lacks the
 * constant. */
int64_t request_const(const struct kernel_request *request, const char *name, int64_t value);
void request_set_const(struct kernel_request *request, const char *name, int64_t value);
/* Adds the constant unless it is there. */
void request_default(struct kernel_request *request, const char *name, int64_t value);
/* Returns the constant, which is added with `value` if the request lacks it. */
uint32_t request_size(struct kernel_request *request, const char *name, int64_t value);
bool request_is(const struct kernel_request *request, const char *key, const char *word);
/* A NULL word removes the attribute. */
void request_set(struct kernel_request *request, const char *key, const char *word);

/* Sum of (a - b)^2, divided by the sum of b^2 or by `least`, if that is larger. Infinite if a value
 * is not a number. */
double problem_nmse(const float *a, const double *b, size_t count, double least);

/* Changes the random seed for another row of several sequences. Call it after the data that all
 * rows share. */
void problem_begin_row(struct problem *p, const struct kernel_case *c);
/* Makes the step table with this state as its only sequence. */
void problem_steps(const struct dgl_step *step, struct dgl_step_table *out);
/* The page table with the sequence's pages. */
void problem_pages(const struct problem *p, struct dgl_kv_table *out);

/* Compares the buffers after a run with the results. Returns false and sets `why` at the first
 * difference. Raises *worst to the largest error as a fraction of `tolerance`. */
bool problem_check(struct problem *p, double tolerance, double *worst, char why[512]);

#endif
