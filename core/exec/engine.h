/* An engine: a plan for one set of kernels with its programs and the executors that run it, and
 * which of them decodes. Replaced whole when kernels are swapped. */
#ifndef DGL_CORE_ENGINE_H
#define DGL_CORE_ENGINE_H

#include "core/exec/exec_record.h"
#include "core/exec/persistent.h"

/* How decode steps of one recipe run; core/exec/executor.c decides. */
enum engine_state {
    ENGINE_OPEN,      /* by dispatches, until there is a reason for anything else */
    ENGINE_COMPILING, /* by dispatches, while the compiler works on the persistent program */
    ENGINE_DISPATCH,
    ENGINE_PERSISTENT,
};
struct engine_choice {
    enum engine_state state;
    char reason[2 * PERSISTENT_REASON];
    char untried[2 * PERSISTENT_REASON]; /* the reason of an open one; "" = nobody has looked */
    char
        parts[PERSISTENT_REASON]; /* why a token is several persistent dispatches; "" = it is not */
    char key[65];                 /* of the record on disk; "" = none */
    struct exec_record record;    /* as measured or read; verdict 0 = not yet */
    bool rival_begun;             /* the compiler has another form of the program */
    int32_t columns;              /* sequences of a step, at most; 0 = nobody has looked */
};
/* Recipes of decode steps: three ways to sample, with or without adjustments of the logits, of one
 * sequence and of passes over up to 2, 4 and 8. */
#define ENGINE_KINDS   6
#define ENGINE_CHOICES (4 * ENGINE_KINDS)

struct engine {
    struct plan plan;
    struct programs programs;     /* of plan.kernels */
    struct exec *exec;            /* runs `plan`, a dispatch per operation */
    struct persistent persistent; /* runs its decode steps */
    enum dgl_executor wanted;
    uint32_t judged; /* segments whose programs gave known answers; core/model/trust.c */
    char no_persistent[PERSISTENT_REASON]; /* why there is none */
    uint64_t decoded_ns;                   /* when it first decoded; 0 = not yet */
    struct engine_choice choice[ENGINE_CHOICES];
    const struct engine_choice *last; /* the one that decoded last; NULL = none */
};

/* Compiles nothing yet. On failure *out is NULL. DGL_ERR_UNSUPPORTED: `wanted` cannot run on this
 * device. */
enum dgl_status engine_create(struct dgl_device *dev, const struct plan_params *params,
                              enum dgl_executor wanted, struct engine **out);
/* How tokens are decoded, as dgl_model_executor() tells it. */
void engine_executor(const struct engine *engine, struct dgl_executor_info *out);
/* The choice for decode steps of the recipe, borrowed; NULL: it is no such step, or several ways to
 * sample are in one. */
struct engine_choice *engine_choice(struct engine *engine, struct recipe recipe);
/* What the choice comes to, as dgl_model_executor() tells it. */
void engine_choice_info(const struct engine *engine, const struct engine_choice *choice,
                        struct dgl_executor_info *out);
/* Accepts NULL in *engine. Runs of it may still be destroyed, but not submitted. */
void engine_destroy(struct engine **engine);

#endif
