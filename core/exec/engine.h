/* An engine: a plan for one set of kernels, its programs, and the executors that run it. A change
 * of kernels replaces the whole engine. */
#ifndef DGL_CORE_ENGINE_H
#define DGL_CORE_ENGINE_H

#include "core/exec/exec_record.h"
#include "core/exec/persistent.h"

/* How decode steps of one recipe run. core/exec/executor.c decides it. */
enum engine_state {
    ENGINE_OPEN,      /* by dispatches, until a decision is needed */
    ENGINE_COMPILING, /* by dispatches, while the compiler works on the persistent program */
    ENGINE_DISPATCH,
    ENGINE_PERSISTENT,
};
struct engine_choice {
    enum engine_state state;
    char reason[2 * PERSISTENT_REASON]; /* "" if not checked yet */
    /* why a token needs several persistent dispatches, or "" */
    char parts[PERSISTENT_REASON];
    char key[65];              /* key of the record on disk, or "" */
    uint64_t division;         /* kv_cache_division() when it was checked */
    struct exec_record record; /* as measured or read; verdict 0: not decided yet */
    bool expected;             /* ENGINE_OPEN: persistent dispatches will be used */
    int32_t columns;           /* sequences per step, at most; 0 if not checked yet */
};
/* Number of recipes of decode steps: three ways to sample, each with or without each change of the
 * logits, for one sequence and for passes over up to 2, 4 and 8. */
#define ENGINE_KINDS   (SAMPLE_KINDS * SAMPLE_CHANGES)
#define ENGINE_CHOICES (4 * ENGINE_KINDS)

struct engine {
    struct model_weights weights; /* placed for the kernels of `plan` */
    struct plan plan;
    struct programs programs;     /* programs of plan.kernels */
    struct exec *exec;            /* runs `plan` with one dispatch per operation */
    struct persistent persistent; /* runs the decode steps of `plan` */
    enum dgl_executor wanted;
    /* the programs of these shapes passed their known-answer tests; core/model/trust.c */
    struct shape_set judged;
    char no_persistent[PERSISTENT_REASON]; /* why `persistent` has no executor */
    uint64_t decoded_ns;                   /* time of the first decode step, or 0 */
    struct engine_choice choice[ENGINE_CHOICES];
    const struct engine_choice *last; /* choice of the last decode step, or NULL */
};

/* Places the weights and plans. Compiles no kernel. On failure *out is NULL. Returns
 * DGL_ERR_UNSUPPORTED if `wanted` cannot run on this device. */
enum dgl_status engine_create(struct dgl_device *dev, const struct plan_params *params,
                              enum dgl_executor wanted, struct engine **out);
/* Describes the current way to decode, for dgl_model_executor(). */
void engine_executor(const struct engine *engine, struct dgl_executor_info *out);
/* Returns the choice for decode steps of the recipe, borrowed. Returns NULL if the recipe is no
 * decode step or samples in several ways. */
struct engine_choice *engine_choice(struct engine *engine, struct recipe recipe);
/* Describes a choice, for dgl_model_executor(). */
void engine_choice_info(const struct engine *engine, const struct engine_choice *choice,
                        struct dgl_executor_info *out);
/* Accepts NULL in *engine. Runs of the engine may be destroyed later, but not submitted. */
void engine_destroy(struct engine **engine);

#endif
