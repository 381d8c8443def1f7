/* The parts of the tuner: its targets, their candidates, the measurement and the search. */
#ifndef DGL_CORE_TUNER_H
#define DGL_CORE_TUNER_H

#include "core/oracle/kernel_check.h"
#include "core/exec/tune_store.h"
#include "core/measure/measure.h"
#include "core/seq/decoder.h"

#define TUNER_MAX_CANDIDATES 128 /* of a target */
#define TUNER_SAMPLE_LISTS   16  /* repetitions of sampling per measurement, a position each */

/* Operations of one body with the same request. */
struct target_pass {
    struct pass_shape shape;
    uint32_t rank;  /* order of tuning */
    int32_t tokens; /* of a pass */
    bool prefill;   /* operations on all rows of a pass */
    bool crowd;     /* operations on one row of each of several sequences */
    struct op *ops;
    size_t count, cap;
    uint32_t lists;  /* repetitions of the list per measurement */
    double probe_us; /* of the default, run once */
};

struct target {
    char *key;
    char texts[65];
    /* pass[0] is optimised. pass[1] exists if prefill, or a pass over several sequences, uses the
     * same request as decode. It must not become slower. */
    struct target_pass pass[2];
    uint32_t num_passes;
    /* pass[1] is the prefill pass that reads the same weights with other kernels. Used if
     * candidates need another layout of the weights. */
    bool shares;
    double share; /* its part of the bytes that all operations of the body read */
    size_t place; /* index in the order in which the targets were listed */
    int64_t time; /* time of its stored result, or 0 */
    bool reached; /* time did not run out before a candidate was tried */
};

/* A kernel with values of its tunables. */
struct tuning {
    const struct kernel *kernel;
    uint32_t set;                    /* bit i: tunable i has value[i], else it has its preset */
    int64_t value[KERNEL_MAX_TUNES]; /* 0 if not set */
};

/* A tuning of the present target. */
struct candidate {
    struct tuning tuning;
    struct dgl_tune_candidate report;
    struct kernel_use *use[2]; /* use[1]: for pass[1] if the target shares weights, or NULL */
    /* layout of the weights that the candidate requires, or NULL for the present layout */
    const struct weight_layout *layout;
    struct plan plan[2]; /* plans that contain only the operations of a pass: `only` */
    struct body body[2], *only[2];
    struct exec_run *run[2];
};

/* A copy of a target's weights in another layout. */
struct tuner_copy {
    const struct weight_layout *layout; /* layout of the copy, or NULL */
    /* the model's placement, but bands of the target's weights have that layout */
    struct model_weights weights;
    struct weight_buffers buffers; /* the model's buffers, then one for each of these bands */
    struct memory memory;          /* the session's memory, with these weights */
};

struct tuner {
    struct dgl_session *s;
    struct decoder *crowd; /* for passes over several sequences, or NULL */
    int32_t crowd_rows;    /* of the largest such pass of the targets */
    const struct dgl_tune_params *p;
    struct dgl_tune_result *r;
    const struct dgl_log *log;
    struct kernel_set *set;     /* kernel set without earlier tuning results; borrowed */
    struct kernel_set *builtin; /* the built-in kernels alone, made when first needed */
    struct kernel_judge *judge;
    struct tune_store store;
    struct target *targets;
    size_t count, cap;
    size_t num_ids; /* ids of the session's sequence that are set */
    int32_t depth, most_tokens;
    /* sequences of a pass over several; 1 if there are no such passes */
    int32_t most_rows;
    uint64_t start_ns, busy_ns; /* start of the call; last time at which the device was busy */
    uint64_t end_ns;            /* no step begins that would end after this time */
    /* Recent duration of three steps: one candidate (compile, check and time), the setup of a
     * target, and the preparation of the buffers for a pass. */
    uint64_t candidate_ns, begin_ns, prepare_ns;
    /* of the target at hand */
    bool late;                /* candidates were left out for want of time */
    struct tuner_copy copied; /* for candidates of another layout */
    struct kernel_table table;
    struct programs programs;
    struct candidate *candidates[TUNER_MAX_CANDIDATES]; /* [0]: the default */
    size_t num;
};

/* tune_candidates.c */

/* Chooses the kernel that the model would use without results of the tuner. */
enum dgl_status tuner_choose_default(const struct tuner *t, const struct target *target,
                                     struct kernel_choice *out);
enum dgl_status tuner_add_default(struct tuner *t, const struct target *target);
/* Adds a copy of an operation to a pass. */
enum dgl_status tuner_add_op(const struct tuner *t, struct target_pass *pass, const struct op *op);
/* Adds a candidate, unless it cannot run here or was added before. */
enum dgl_status tuner_add(struct tuner *t, const struct target *target,
                          const struct tuning *tuning);
/* Adds the candidate of a stored result. */
enum dgl_status tuner_add_stored(struct tuner *t, const struct target *target,
                                 const struct dgl_tuned *entry);
/* Adds all candidates that differ from a candidate in one tunable. If `others`, also adds all other
 * kernels of the operation, and the built-in kernel if files replace it. */
enum dgl_status tuner_add_neighbours(struct tuner *t, const struct target *target, size_t of,
                                     bool others);
/* Returns the tuning with a value for one more tunable. */
struct tuning tuning_with(const struct tuning *tuning, uint32_t tunable, int64_t value);
/* Forgets the candidates from `first` on. */
void tuner_drop(struct tuner *t, size_t first);
/* Frees the candidates, programs and copied weights of the present target. */
void tuner_target_end(struct tuner *t);
/* Adds the pass for target.shares if the set has kernels for another layout. */
enum dgl_status tuner_share(struct tuner *t, struct target *target);
/* Packs a copy of the target's weights in that layout from the model's files. Slow. */
enum dgl_status tuner_copy_begin(struct tuner *t, const struct target *target,
                                 const struct weight_layout *layout);
void tuner_copy_end(struct tuner *t);

/* tune_measure.c */

/* Returns the largest number of sequences per pass for which memory is left, or 1 if there is no
 * room for several. */
int32_t tuner_crowd_most(const struct tuner *t);
/* Begins a target: adds the default, compiles and times it. There is no candidate afterwards if
 * the default cannot run. */
enum dgl_status tuner_begin(struct tuner *t, struct target *target);
/* Compiles candidates [first, end) in one batch and runs their known-answer tests. Failed
 * candidates get a reason. */
enum dgl_status tuner_compile(struct tuner *t, const struct target *target, size_t first,
                              size_t end);
/* Searches from the candidate *best, which is timed, to the fastest candidate. */
enum dgl_status tuner_search(struct tuner *t, const struct target *target, size_t *best);
/* Measures default and winner alternately. *beats is set if the winner is faster in the first pass
 * by more than the spread of the ratio, and not slower in the other pass by more than the
 * spread. */
enum dgl_status tuner_pair(struct tuner *t, const struct target *target, size_t winner,
                           struct dgl_tune_op *out, bool *beats);

#endif
