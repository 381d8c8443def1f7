/*
 * plan.h: operations with their kernels (model side), and the same bound to a session's buffers as
 * dispatch records ready to replay (session side).
 */
#ifndef DGL_CORE_PLAN_H
#define DGL_CORE_PLAN_H

#include "core/plan/oplist.h"
#include "core/exec/programs.h"

/* Pieces that passes are put together from. */
enum segment {
    SEG_PREFILL,       /* body of a pass over several tokens */
    SEG_DECODE,        /* body of a pass over one */
    SEG_HEAD,          /* logits of the last token */
    SEG_SCORE,         /* logits of every token */
    SEG_PENALTY,       /* repetition penalty on the logits */
    SEG_SAMPLE_GREEDY, /* sampling, one of three */
    SEG_SAMPLE_TOPK,
    SEG_SAMPLE_FULL,
    SEG_IDLE, /* ends a run of several steps: idles the rest once stopped */
    SEG_COUNT,
};

/* A segment: operation i is served by entry[i]. */
struct plan {
    struct oplist ops;
    struct program_entry **entry; /* [ops.count] */
};

/* All segments of a model for one set of kernels. */
struct model_plan {
    struct programs programs;
    struct plan seg[SEG_COUNT];
};

/* Chooses a kernel for every operation; compiles nothing. On failure *out is empty. */
enum dgl_status model_plan_init(struct model_plan *plan, struct dgl_device *dev,
                                struct kernel_set *set, const struct oplist_params *params);
void model_plan_finish(struct model_plan *plan);
/* Compiles the kernels of the segments; cheap when that was done before. */
enum dgl_status model_plan_compile(struct model_plan *plan, const enum segment *segs, size_t count);

/* Group counts of the kernel that serves an operation, for a pass of `tokens` tokens;
 * DGL_ERR_KERNEL when its GROUPS gives none that can be used. */
enum dgl_status op_groups(struct dgl_device *dev, const struct op *op,
                          const struct kernel_choice *choice, int32_t tokens, uint32_t groups[3]);

/* What resolves op_bind: a range for every slot. SLOT_KV is [layers]. */
struct slot_table {
    struct gl_range slot[SLOT_COUNT];
    struct gl_range *kv;
};

/* Segments bound to buffers: an array of dispatches, replayed as it stands. */
struct run {
    struct gl_dispatch *list;
    const struct program_entry **entry; /* [count] */
    const struct op **op;               /* [count] */
    size_t count;
    struct gl_buffer *params; /* parameter blocks, one per record */
    int32_t tokens;           /* the group counts are for this many */
};

struct run_params {
    struct dgl_device *dev;
    struct model_plan *plan;
    const enum segment *segs;
    size_t num_segs;
    const struct slot_table *slots;
    bool repeats;  /* replayed after itself */
    bool indirect; /* group counts are read from ARGS, where the caller puts those of the list */
};
/* Compiles, allocates, uploads parameter blocks. On failure *out is empty. */
enum dgl_status run_init(struct run *run, const struct run_params *params);
void run_finish(struct dgl_device *dev, struct run *run);
/* Group counts for a pass of `tokens` tokens; nothing to do when they are already so. */
enum dgl_status run_set_tokens(struct dgl_device *dev, struct run *run, int32_t tokens);

#endif
