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

/* A compiled recipe, bound to the memory of one sequence at a time. */
struct exec_run {
    struct exec *exec;
    struct recipe recipe;
    struct exec_op *ops; /* [count], in order */
    size_t count;
    uint32_t (*groups)[3];       /* [count] */
    int32_t tokens;              /* tokens of the pass that `groups` is for; 0 before the first */
    const struct memory *memory; /* memory that the run is bound to; borrowed */
    void *priv;                  /* private state of the executor */
};

struct exec_ops {
    const char *name;
    /* Creates the private state of the run, and links programs that exec_compile() has not
     * compiled. Cannot be cancelled; slow with a cold cache. */
    enum dgl_status (*compile)(struct exec_run *run);
    /* Resolves the references of the operations to ranges of `memory`, which is borrowed during the
     * call. */
    enum dgl_status (*bind)(struct exec_run *run, const struct memory *memory);
    /* Replaces ranges of run->memory by those of `to`. Does not allocate. */
    void (*move)(struct exec_run *run, const struct memory *to);
    /* Called after run->groups has changed. */
    void (*regroup)(struct exec_run *run);
    /* Submits the run `steps` times, after all earlier submits. Does not allocate or look anything
     * up. If `gpu_ns` is not NULL, steps must be 1: waits, and sets [count] GPU times (UINT64_MAX
     * if unknown). */
    enum dgl_status (*submit)(struct exec_run *run, uint32_t steps, uint64_t *gpu_ns);
    /* frees priv, which may be NULL; does not use the plan */
    void (*destroy)(struct exec_run *run);
    /* Frees the private state of the executor after its last reference was released. May be
     * NULL. */
    void (*finish)(struct exec *exec);
};

/* An executor of one plan. Runs hold a reference to it, so they may be destroyed after the plan. */
struct exec {
    const struct exec_ops *ops;
    const struct plan *plan; /* borrowed */
    const struct dgl_log *log;
    uint32_t refs; /* one of the creator, and one per run */
};
/* Releases a reference. The last release frees the executor with free(). Accepts NULL in *exec. */
void exec_unref(struct exec **exec);

/* Creates a run of the recipe: compiled, bound, with group counts for one token. `memory` is
 * borrowed as long as the run is bound to it. */
enum dgl_status exec_run_create(struct exec *exec, struct recipe recipe,
                                const struct memory *memory, struct exec_run **out);
void exec_run_destroy(struct exec_run **run);
/* Binds the run to the memory of another sequence, for which memory_is_like() must be true. Earlier
 * submits are not affected. Does not allocate. */
void exec_run_move(struct exec_run *run, const struct memory *memory);
/* Sets the group counts for a pass of `tokens` tokens. */
enum dgl_status exec_run_set_tokens(struct exec_run *run, int32_t tokens);
static inline enum dgl_status exec_run_submit(struct exec_run *run, uint32_t steps,
                                              uint64_t *gpu_ns)
{
    return run->exec->ops->submit(run, steps, gpu_ns);
}

/* ---- cache ----------------------------------------------------------------------------------- */

/* Runs by recipe. All of them are bound to memories of the same kind (memory_is_like()). */
struct exec_cache {
    struct exec_run **runs;
    size_t count, cap;
};

/* Returns the run of a recipe, which is created on first use. *out is borrowed and valid until
 * exec_cache_clear(). */
enum dgl_status exec_cache_get(struct exec_cache *cache, struct exec *exec, struct recipe recipe,
                               const struct memory *memory, struct exec_run **out);
/* Returns NULL if there is no such run yet. */
struct exec_run *exec_cache_find(const struct exec_cache *cache, struct recipe recipe);
void exec_cache_clear(struct exec_cache *cache);

/* ---- dispatch executor: dispatch.c ----------------------------------------------------------- */

/* Creates an executor that issues one dispatch per operation, with barriers from the declared reads
 * and writes. `programs` is borrowed. */
enum dgl_status exec_dispatch_create(struct dgl_device *dev, const struct plan *plan,
                                     struct programs *programs, struct exec **out);
/* Bytes of the parameter blocks of such an executor, if they fit in one buffer. */
uint64_t exec_dispatch_params_bytes(const struct dgl_device *dev);
/* Dispatches of a run of this executor, for tests. Borrowed. */
const struct gl_dispatch *exec_dispatch_list(const struct exec_run *run);
/* Compiles, in one batch, all missing programs of these shapes. `how`: see
 * gl_programs_create(). */
enum dgl_status exec_compile(struct programs *programs, const struct plan *plan,
                             struct shape_set shapes, const struct gl_compile *how);

/* Like exec_compile(), but only starts the compiler: see programs_begin(). */
enum dgl_status exec_begin(struct programs *programs, const struct plan *plan,
                           struct shape_set shapes);

/* Returns true if all programs of these shapes are compiled. */
bool exec_is_compiled(const struct programs *programs, const struct plan *plan,
                      struct shape_set shapes);

/* One operation outside of a plan, such as a copy. */
struct exec_single {
    struct dgl_device *dev;
    struct kernel_table table;
    struct programs programs;
    struct gl_buffer *params; /* parameter block of the latest record */
};
/* Call exec_single_finish() also on failure. */
enum dgl_status exec_single_init(struct exec_single *s, struct dgl_device *dev,
                                 struct kernel_set *set);
/* Accepts a zeroed struct. */
void exec_single_finish(struct exec_single *s);
/* Chooses and compiles the kernel of an operation. ranges[i] is the buffer of op->binds[i], whose
 * reference is ignored. *out may be submitted repeatedly until the next record is made. */
enum dgl_status exec_single_record(struct exec_single *s, const struct op *op,
                                   const struct gl_range *ranges, struct gl_dispatch *out);

#endif
