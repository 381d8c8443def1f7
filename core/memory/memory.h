/* Where references of a plan lead: the device buffers of one sequence and of what it shares. */
#ifndef DGL_CORE_MEMORY_H
#define DGL_CORE_MEMORY_H

#include "core/memory/kv_cache.h"
#include "core/memory/weight_buffers.h"
#include "core/memory/workspace.h"

struct memory {
    const struct weight_buffers *weights;   /* the model's */
    const struct workspace *workspace;      /* the model's: scratch of a pass */
    const struct kv_cache *kv;              /* the sequence's */
    struct gl_range state[BUF_STATE_COUNT]; /* the sequence's */
};

/* The range of a reference, whose buffer exists. No allocation. */
struct gl_range memory_resolve(const struct memory *memory, struct ref ref);

#endif
