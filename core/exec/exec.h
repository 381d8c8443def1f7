/*
 * exec.h: executors, the ways to run a plan. An executor compiles a recipe of the plan into a run,
 * binds its references to memory, and submits it any number of times. The dispatch executor issues
 * one dispatch per operation; tests have one that records.
 */
#ifndef DGL_CORE_EXEC_H
#define DGL_CORE_EXEC_H

#include "core/exec/programs.h"
#include "core/memory/memory.h"
#include "core/plan/plan.h"

/* An operation of a recipe with its kernel. */
struct exec_op {
    const struct op *op;          /* borrowed from the plan */
    const struct kernel_use *use; /* borrowed from the plan */
};

/* A recipe, compiled; bound to one sequence's memory at a time. */
struct exec_run {
    struct exec *exec;
    struct recipe recipe;
    struct exec_op *ops; /* [count], in order */
    size_t count;
    uint32_t (*groups)[3];       /* [count] */
    int32_t tokens;              /* of the pass that groups are for; 0 = none yet */
    const struct memory *memory; /* borrowed: of the sequence that it is bound to */
    void *priv;                  /* the executor's own */
};

struct exec_ops {
    const char *name;
    /* Makes the run's private state and links those of its programs that exec_compile() has not
     * compiled. Cannot be cancelled; slow with a cold cache. */
    enum dgl_status (*compile)(struct exec_run *run);
    /* References become ranges. `memory` is borrowed during the call. */
    enum dgl_status (*bind)(struct exec_run *run, const struct memory *memory);
    /* Ranges of run->memory become those of `to`. No allocation. */
    void (*move)(struct exec_run *run, const struct memory *to);
    /* The run's groups have changed. */
    void (*regroup)(struct exec_run *run);
    /* `steps` times, after everything submitted before. No allocation, no look-up. `gpu_ns`, when
     * not NULL and steps is 1: [count] GPU times (UINT64_MAX = unknown); waits. */
    enum dgl_status (*submit)(struct exec_run *run, uint32_t steps, uint64_t *gpu_ns);
    void (*destroy)(struct exec_run *run); /* frees priv, which may be NULL; looks at no plan */
    /* Frees what the executor itself holds, with its last reference. NULL: nothing. */
    void (*finish)(struct exec *exec);
};

/* An executor for one plan. Its runs keep it alive: they may be destroyed after the plan. */
struct exec {
    const struct exec_ops *ops;
    const struct plan *plan; /* borrowed */
    const struct dgl_log *log;
    uint32_t refs; /* its creator's, and one per run */
};
/* Gives a reference back; the last one frees it with free(). Accepts NULL in *exec. */
void exec_unref(struct exec **exec);

/* A run of the recipe: compiled, bound, and grouped for one token. `memory` is borrowed as long as
 * the run is bound to it. */
enum dgl_status exec_run_create(struct exec *exec, struct recipe recipe,
                                const struct memory *memory, struct exec_run **out);
void exec_run_destroy(struct exec_run **run);
/* Binds the run to another sequence's memory, which is like that which it is bound to
 * (memory_is_like()). What was submitted before keeps its own. No allocation. */
void exec_run_move(struct exec_run *run, const struct memory *memory);
/* Group counts for a pass of `tokens` tokens; nothing to do when they are already so. */
enum dgl_status exec_run_set_tokens(struct exec_run *run, int32_t tokens);
static inline enum dgl_status exec_run_submit(struct exec_run *run, uint32_t steps,
                                              uint64_t *gpu_ns)
{
    return run->exec->ops->submit(run, steps, gpu_ns);
}

/* ---- cache ----------------------------------------------------------------------------------- */

/* Runs by recipe, of one sequence or of several whose memory is alike. */
struct exec_cache {
    struct exec_run **runs;
    size_t count, cap;
};

/* The run of a recipe, made on first use. *out is borrowed, valid until exec_cache_clear(). */
enum dgl_status exec_cache_get(struct exec_cache *cache, struct exec *exec, struct recipe recipe,
                               const struct memory *memory, struct exec_run **out);
/* NULL: it was not made yet. */
struct exec_run *exec_cache_find(const struct exec_cache *cache, struct recipe recipe);
/* Destroys the run of a recipe, if there is one; it may not be on its way. */
void exec_cache_drop(struct exec_cache *cache, struct recipe recipe);
void exec_cache_clear(struct exec_cache *cache);

/* ---- dispatch executor: dispatch.c ----------------------------------------------------------- */

/* One dispatch per operation, barriers from declared reads and writes. `programs` is borrowed. */
enum dgl_status exec_dispatch_create(struct dgl_device *dev, const struct plan *plan,
                                     struct programs *programs, struct exec **out);
/* The records of a run of the dispatch executor, for tests. Borrowed. */
const struct gl_dispatch *exec_dispatch_list(const struct exec_run *run);
/* Compiles in one batch the programs of the segments of a plan that are in `segments` (bits as in
 * struct recipe) and have none yet. `how`: see gl_programs_create(). */
enum dgl_status exec_compile(struct programs *programs, const struct plan *plan, uint32_t segments,
                             const struct gl_compile *how);

/* As exec_compile(), but only begins: see programs_begin(). */
enum dgl_status exec_begin(struct programs *programs, const struct plan *plan, uint32_t segments);

/* Whether all programs of those segments are there. */
bool exec_is_compiled(const struct programs *programs, const struct plan *plan, uint32_t segments);

/* One operation outside of a plan, such as a copy. */
struct exec_single {
    struct dgl_device *dev;
    struct kernel_table table;
    struct programs programs;
    struct gl_buffer *params; /* of the record made last */
};
/* Call exec_single_finish() also on failure. */
enum dgl_status exec_single_init(struct exec_single *s, struct dgl_device *dev,
                                 struct kernel_set *set);
/* Accepts one that is all zero. */
void exec_single_finish(struct exec_single *s);
/* Chooses and compiles; ranges[i] is the buffer of op->binds[i], whose reference is not looked at.
 * *out may be submitted again and again, until the next record is made. */
enum dgl_status exec_single_record(struct exec_single *s, const struct op *op,
                                   const struct gl_range *ranges, struct gl_dispatch *out);

#endif
