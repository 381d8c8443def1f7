/* The parts of the tuner: its targets, their candidates, the measurement and the search. */
#ifndef DGL_CORE_TUNER_H
#define DGL_CORE_TUNER_H

#include "core/oracle/kernel_check.h"
#include "core/measure/tune.h"

#define TUNER_MAX_CANDIDATES 128 /* of a target */
#define TUNER_SAMPLE_LISTS   16  /* repetitions of sampling per measurement, a position each */
#define TUNER_PAIRED_ROUNDS  5

/* Operations of one body with the same request. */
struct target_pass {
    struct pass_shape shape;
    uint32_t rank;  /* order of tuning */
    int32_t tokens; /* of a pass */
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
    double default_us; /* time of one operation with the default, first measurement */
    double share;      /* its part of the bytes that all operations of the body read */
    size_t place;      /* index in the order in which the targets were listed */
    int64_t time;      /* time of its stored result, or 0 */
    bool reached;
};

/* A kernel with values of its tunables for the present target. */
struct candidate {
    struct dgl_tune_candidate *report;   /* in `reports` */
    struct kernel_use *use, *shared_use; /* use of pass[1], if the target shares weights */
    /* layout of the weights that the candidate requires, or NULL for the present layout */
    const struct weight_layout *layout;
    struct plan plan[2]; /* plans that contain only the operations of a pass: `only` */
    struct body body[2], *only[2];
    struct exec *exec[2];
    struct exec_run *run[2];
};

/* A copy of a target's weights in another layout. */
struct tuner_copy {
    const struct weight_layout *layout; /* layout of the copy, or NULL */
    /* copy of the model's list, in which `matrices` replace the target's weights */
    struct model_weights weights;
    struct weight *matrices; /* [num], the target's weights with bands in the new layout */
    size_t num;
    struct weight_buffers buffers; /* the model's buffers, then one for each new band */
    struct memory memory;          /* the session's memory, with these weights */
};

struct tuner {
    struct dgl_session *s;
    struct pass_state *crowd; /* for passes over several sequences, or NULL */
    const struct dgl_tune_params *p;
    struct dgl_tune_result *r;
    const struct dgl_log *log;
    struct kernel_set *set; /* kernel set without earlier tuning results; borrowed */
    struct kernel_judge *judge;
    struct tune_store store;
    struct target *targets;
    size_t count, cap;
    int32_t *ids; /* [num_ids] */
    size_t num_ids;
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
    struct dgl_tune_candidate reports[TUNER_MAX_CANDIDATES];
    size_t num;
};

/* Returns true for operations on all rows of a pass. */
static inline bool pass_is_prefill(const struct target_pass *pass)
{
    return pass_shape_is_prefill(pass->shape) ||
           (pass->shape.part == PART_OUTPUTS && pass->shape.outputs != OUTPUT_LAST);
}

/* Returns true for operations that sample a token. */
static inline bool pass_is_sampling(const struct target_pass *pass)
{
    return pass->shape.part == PART_SAMPLE;
}

/* Returns true for operations on one row of each of several sequences. */
static inline bool pass_is_crowd(const struct target_pass *pass)
{
    return pass->shape.per_sequence || (pass_is_sampling(pass) && pass->tokens > 1);
}

/* Returns true if the candidate runs and was timed. */
static inline bool candidate_is_fit(const struct candidate *c)
{
    return !c->report->reason[0] && c->report->us > 0;
}

/* tune_candidates.c */

/* Adds a candidate, unless it cannot run here or was added before. */
enum dgl_status tuner_add(struct tuner *t, const struct target *target, const char *kernel,
                          const char *tunes);
/* Adds all candidates that differ from a candidate in one tunable. */
enum dgl_status tuner_add_neighbours(struct tuner *t, const struct target *target, size_t of);
/* Adds all other kernels of the operation. */
enum dgl_status tuner_add_variants(struct tuner *t, const struct target *target);
/* Copies `tunes` with one tunable set to a value. Returns false if the text does not fit. */
bool tune_with(const char *tunes, const char *name, int64_t value, char *out, size_t size);
/* Forgets the candidates from `first` on. */
void tuner_drop(struct tuner *t, size_t first);
/* Frees the candidates, programs and copied weights of the present target. */
void tuner_target_end(struct tuner *t);

/* tune_layout.c */

/* Makes the operation's request for weights in the layout that a kernel reads. *layout is that
 * layout if the weights have another one now. Returns false if the weights cannot have it. */
bool tuner_request(const struct tuner *t, const struct op *op, const struct kernel *kernel,
                   struct kernel_request *out, const struct weight_layout **layout);
/* Adds the pass for target.shares if the set has kernels for another layout. */
enum dgl_status tuner_share(struct tuner *t, struct target *target);
/* Packs a copy of the target's weights in that layout from the model's files. Slow. */
enum dgl_status tuner_copy_begin(struct tuner *t, const struct target *target,
                                 const struct weight_layout *layout);
void tuner_copy_end(struct tuner *t);

/* tune_batch.c */

/* Returns the largest number of sequences per pass for which memory is left, or 1 if there is no
 * room for several. */
int32_t tuner_crowd_most(const struct tuner *t);
/* Creates t->crowd for the largest pass of the targets. The session's scratch may move. */
enum dgl_status tuner_crowd_begin(struct tuner *t);
void tuner_crowd_end(struct tuner *t);
/* Writes the state of a pass over `rows` sequences, which all have the state `step` with different
 * seeds. */
enum dgl_status tuner_crowd_write(struct tuner *t, const struct dgl_step *step, int32_t rows);
/* Like tuner_prepare(), for a pass over several sequences. */
enum dgl_status tuner_crowd_prepare(struct tuner *t, const struct target_pass *pass);

/* tune_measure.c */

/* Updates a duration estimate. It drops by at most half per update. */
static inline void tuner_note(uint64_t *cost, uint64_t ns)
{
    *cost = ns > *cost / 2 ? ns : *cost / 2;
}
/* Compiles candidates [first, end) in one batch and runs their known-answer tests. Failed
 * candidates get a reason. */
enum dgl_status tuner_compile(struct tuner *t, const struct target *target, size_t first,
                              size_t end);
/* Fills buffers and step table as they are before these operations in a real pass. */
enum dgl_status tuner_prepare(struct tuner *t, const struct target_pass *pass);
/* Runs the operations until an idle GPU has raised its clocks. */
enum dgl_status tuner_warm(struct tuner *t, const struct target_pass *pass,
                           const struct candidate *c, uint32_t u);
/* Chooses the number of repetitions per measurement, and measures fewer of the operations if one is
 * slow. */
enum dgl_status tuner_size_span(struct tuner *t, struct target_pass *pass, struct candidate *c,
                                uint32_t u);
/* Makes one measurement. *us is the time of one operation in microseconds. */
enum dgl_status tuner_span(struct tuner *t, const struct target_pass *pass,
                           const struct candidate *c, uint32_t u, uint32_t lists, double *us);
/* Times candidates [first, end); *best becomes the fastest. */
enum dgl_status tuner_time(struct tuner *t, const struct target *target, size_t first, size_t end,
                           size_t *best);
/* Estimated duration of one attempt of paired rounds. */
uint64_t tuner_pair_ns(const struct tuner *t, const struct target *target);

/* tune_search.c */

/* Searches from the candidate *best, which is timed, to the fastest candidate. */
enum dgl_status tuner_search(struct tuner *t, const struct target *target, size_t *best);
/* Measures default and winner alternately. *beats is set if the winner is faster in the first pass
 * by more than the spread of the ratio, and not slower in the other pass by more than the
 * spread. */
enum dgl_status tuner_pair(struct tuner *t, const struct target *target, size_t winner,
                           struct dgl_tune_op *out, bool *beats);

#endif
