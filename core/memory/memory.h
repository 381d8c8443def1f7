/* Resolves references of a plan to ranges of the device buffers of one sequence and of its
 * model. */
#ifndef DGL_CORE_MEMORY_H
#define DGL_CORE_MEMORY_H

#include "core/memory/arena.h"
#include "core/memory/kv_cache.h"
#include "core/memory/weight_buffers.h"
#include "core/memory/workspace.h"

struct memory {
    const struct weight_buffers *weights; /* the model's */
    const struct workspace *workspace;    /* the model's: scratch of a pass */
    const struct kv_cache *kv;            /* the model's */
    /* Buffers of the sequence in one arena: its state, then scratch for passes over one token, for
     * programs that can bind only a few buffers. For several sequences see
     * plan_batch_own_bytes(). */
    struct gl_range state[BUF_STATE_COUNT];
    struct gl_range step_scratch[BUF_COUNT]; /* those from BUF_STATE_COUNT on */
    struct arena arena;
    struct arena args; /* ARGS of a plan with more operations than the first plan, else empty */
};

/* Allocates arena, state and step_scratch for a sequence of `context` tokens, or for all
 * `sequences` together. On failure they are empty. */
enum dgl_status memory_init_state(struct memory *memory, struct dgl_device *dev,
                                  const struct plan *plan, int32_t context, int32_t sequences);
/* Call after the kernels changed: enlarges ARGS if the new plan has more operations. The contents
 * of ARGS are only valid during a batch, and no other state of a sequence depends on kernels. On
 * failure the memory is unchanged. */
enum dgl_status memory_fit_plan(struct memory *memory, struct dgl_device *dev,
                                const struct plan *plan);
/* Accepts a zeroed struct. */
void memory_finish_state(struct memory *memory, struct dgl_device *dev);

/* Returns the range of a reference whose buffer exists. Does not allocate. */
struct gl_range memory_resolve(const struct memory *memory, struct ref ref);

/* Returns true if two sequences have the same ranges at the same offsets, each in its own buffers.
 * Sequences of one context and one plan do. */
bool memory_is_like(const struct memory *a, const struct memory *b);
/* Redirects ranges in the buffers of `from` to the buffers of `to`, for which memory_is_like() is
 * true. Ranges in shared buffers stay. */
void memory_move(const struct memory *from, const struct memory *to, struct gl_range *ranges,
                 uint32_t count);

#endif
