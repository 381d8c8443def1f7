/*
 * plan.h: the operations of a model, and the kernel of each with the reason: all decisions that
 * need no device. It does not use GL. Executors (core/exec) run the plan, and the memory of a model
 * is computed from it.
 */
#ifndef DGL_CORE_PLAN_H
#define DGL_CORE_PLAN_H

#include "core/plan/fusion.h"
#include "core/plan/kernel_table.h"
#include "core/plan/oplist_sample.h"

/* Pieces that recipes are put together from. */
enum segment {
    /* bodies of passes over up to that many tokens; empty if the next body has the same kernels */
    SEG_PREFILL_2,
    SEG_PREFILL_4,
    SEG_PREFILL_8,
    SEG_PREFILL_16,
    SEG_PREFILL_32,
    SEG_PREFILL_64,
    SEG_PREFILL_128,
    SEG_PREFILL, /* body of a pass over any number */
    SEG_DECODE,  /* body of a pass over one */
    SEG_HEAD,    /* logits of the last token */
    SEG_HIDDEN,  /* hidden states of every token: the final norm */
    SEG_SCORE,   /* logits of every token from its hidden state */
    /* Bodies of passes over the next tokens of up to that many sequences, with the logits of all.
     * Empty before plan_add_batch(), and if the next body has the same kernels. */
    SEG_BATCH_2,
    SEG_BATCH_4,
    SEG_BATCH_8,
    SEG_BATCH_16,
    SEG_BATCH_32,
    SEG_BATCH_64,
    SEG_ADJUST,        /* on the logits, before sampling */
    SEG_SAMPLE_GREEDY, /* sampling, one of three */
    SEG_SAMPLE_TOPK,
    SEG_SAMPLE_FULL,
    /* The last segment of a step: cancels the later steps if the sequence has stopped. Has no
     * operations in a recipe whose sampling also does this: plan_segment_runs(). */
    SEG_EARLY_EXIT,
    SEG_REPORT, /* copies the ids of the steps so far, for every row: plan_add_batch() */
    SEG_COUNT,
};
_Static_assert(SEG_COUNT <= 32, "a recipe has a bit for each");

/* The contents of one submit: segments in the order of the enum. With SEG_EARLY_EXIT the group
 * counts are read from ARGS. */
struct recipe {
    uint32_t segments; /* bit i = enum segment i */
    bool repeats;      /* submitted after itself */
    /* only operations [first, first + count) of it; a count of 0 selects all */
    size_t first, count;
    uint32_t form; /* enum phase_form of its text, if it is one program */
};
#define RECIPE_HAS(recipe, segment) (((recipe).segments >> (segment)&1u) != 0)

/* Segments that every answer needs, as bits of a recipe. They are compiled while weights are read,
 * if the driver has threads for it. All others are compiled by the first call that needs them. */
#define PLAN_WARM_SEGMENTS                                                                         \
    (1u << SEG_DECODE | 1u << SEG_HEAD | 1u << SEG_PREFILL | 1u << SEG_EARLY_EXIT)

struct recipe recipe_of(enum segment segment);
/* Samples from LOGITS, which SEG_ADJUST changes before if `adjusts`. */
struct recipe recipe_sampling(enum sample_kind kind, bool adjusts);
/* Evaluates a token and samples the next one. `several` if it is one of several steps per
 * readback. */
struct recipe recipe_decode(enum sample_kind kind, bool adjusts, bool several);

/* Operation i is served by use[i]. */
struct plan_segment {
    struct oplist ops;
    const struct kernel_use **use; /* [ops.count], borrowed from plan.kernels */
    bool ends_batch;               /* sampling also does the work of SEG_EARLY_EXIT */
};

struct plan {
    const struct plan_device *device;    /* borrowed */
    const struct model_desc *desc;       /* borrowed */
    const struct model_weights *weights; /* borrowed, placed */
    enum dgl_kv_type kv_type;
    struct kv_layout kv;
    uint32_t splits, token_splits, sum_rows; /* as in oplist_params */
    struct kernel_table kernels;
    struct fusion fusion; /* decided which operations are fused; owns their reasons */
    bool has_batch;       /* plan_add_batch() was here */
    /* A kernel that serves only one row per pass, for example a user's, or NULL. If set, the plan
     * has no passes over several sequences. */
    const struct kernel *one_row;
    struct plan_segment segment[SEG_COUNT];
    struct dgl_buf hint_notes; /* lines of plan_check_hints() */
};

struct plan_params {
    const struct plan_device *device;
    struct kernel_set *set; /* the plan takes its own reference */
    const struct model_desc *desc;
    const struct model_weights *weights;
    enum dgl_kv_type kv_type;
};
/* Chooses a kernel for every operation. On failure *out is empty. */
enum dgl_status plan_init(struct plan *out, const struct plan_params *params);
/* Adds the segments of passes over several sequences, if they are missing. On failure the plan is
 * unchanged. */
enum dgl_status plan_add_batch(struct plan *plan);
/* Body of a pass over the next tokens of that many sequences, 2 to DGL_STEP_SEQS. */
enum segment plan_batch_body(const struct plan *plan, int32_t sequences);
/* The body of one step of a recipe, and the maximum number of sequences of a program that contains
 * all its operations: 1, or up to PLAN_PHASE_ROWS for a pass over several. They return SEG_COUNT
 * and 0 if the recipe has no such program. */
#define PLAN_PHASE_ROWS 8
enum segment plan_step_body(struct recipe recipe);
int32_t plan_step_rows(struct recipe recipe);
/* Accepts a plan that is all zero. */
void plan_finish(struct plan *plan);

/* Lists the operations of a segment as the plan does, also if the plan left it empty because the
 * next segment has the same kernels. The caller calls oplist_finish(). */
enum dgl_status plan_segment_list(struct plan *plan, enum segment segment, struct oplist *out);

/* Largest number of tokens of a pass with this body. For SEG_PREFILL, the tokens of a tile. */
int32_t plan_body_columns(enum segment body);

/* Returns true if a recipe of the plan contains the operations of a segment. */
bool plan_segment_runs(const struct plan *plan, struct recipe recipe, enum segment segment);
/* Body of a pass over `tokens` tokens. Passes over one or a few tokens use matrix-vector kernels,
 * also in a prompt. */
enum segment plan_body(const struct plan *plan, int32_t tokens);
/* Tokens of the next pass if `left` remain, in passes of up to `most`. If the last tokens would
 * fill a pass badly, they are left to the next pass. */
int32_t plan_pass_tokens(const struct plan *plan, int32_t left, int32_t most);

/* Returns true if a hint or a user's file selects a kernel of one of the segments (bits as in
 * struct recipe). */
bool plan_is_asked(const struct plan *plan, uint32_t segments);

/* Returns the end of the block of a body that begins with operation `first`. A block is the
 * embedding, attention with its projections, or the feed-forward part. Its last operation writes to
 * the residual stream, X or X2 (*stream). If the block's result is added to the stream by the first
 * product of the next block, that product is the end. */
size_t plan_block_end(const struct plan *plan, enum segment body, size_t first,
                      enum plan_buffer *stream);

/* Returns DGL_ERR_KERNEL unless the operation has every buffer and parameter that the kernel, which
 * may come from a user's file, binds and reads. */
enum dgl_status plan_check_served(const struct dgl_log *log, const struct op *op,
                                  const struct kernel *kernel);

/* ---- memory: plan_memory.c ------------------------------------------------------------------- */

/* Bytes of every buffer of a sequence of `context` tokens and passes of `rows` tokens; 0 if the
 * model does not use it. ALL_LOGITS is allocated when scoring begins and counts 0. */
void plan_buffer_bytes(const struct plan *plan, int32_t context, int32_t rows,
                       uint64_t bytes[BUF_COUNT]);
/* Bytes of the buffers of one sequence of `context` tokens: its state, and scratch for passes over
 * one token. */
void plan_sequence_bytes(const struct plan *plan, int32_t context, uint64_t bytes[BUF_COUNT]);
/* The sum of these buffers in one arena. */
uint64_t plan_sequence_total(const struct plan *plan, int32_t context);
/* Bytes of the common state of all sequences in a batch, and of the scratch of passes over all of
 * them. */
void plan_batch_bytes(const struct plan *plan, int32_t context, int32_t sequences,
                      uint64_t bytes[BUF_COUNT]);
/* Bytes of the buffers that each of these sequences has of its own: the state, and scratch for
 * passes over up to PLAN_PHASE_ROWS of them. The large sums of split products are not included. */
void plan_batch_own_bytes(const struct plan *plan, int32_t context, int32_t sequences,
                          uint64_t bytes[BUF_COUNT]);
/* The number of sequences, at most `sequences`, that a pass over several can have. It is smaller if
 * a binding is too small for their common state. Below 2 there are no such passes. */
int32_t plan_batch_slots(const struct plan *plan, int32_t context, int32_t sequences);
/* One sequence, or several of a batch. Neighbours are uploaded together, in at most
 * PLAN_BATCH_GROUPS groups. */
#define PLAN_BATCH_GROUPS 4
struct plan_batch {
    int32_t context, sequences;
    int32_t rows; /* tokens of a pass over a prompt */
    bool groups;  /* true if passes serve several sequences */
};
/* Bytes in addition to weights and KV cache. *state is the part that belongs to the sequences and
 * groups; the rest is shared scratch. */
uint64_t plan_batch_total(const struct plan *plan, const struct plan_batch *batch, uint64_t *state);
/* Bytes of the keys and values of one layer of the widest group for `tokens` positions. */
uint64_t plan_kv_layer_bytes(const struct plan *plan, int32_t tokens);
/* Number of pages of a group for that many positions. */
uint32_t plan_kv_pages(int32_t tokens);
/* Bytes of the KV cache that a pass of `rows` tokens reads, counting each byte once. After the pass
 * the sequence has `held` tokens. */
uint64_t plan_kv_read_bytes(const struct plan *plan, uint32_t layer, int32_t rows, int32_t held);
/* Largest number of tokens per pass whose activations the device can bind. */
int32_t plan_most_rows(const struct plan *plan);
/* Default number of tokens per pass. */
int32_t plan_default_rows(const struct plan *plan);
/* Computes the total memory of these sequences, each filled to `context` tokens, and the largest
 * context that fits into `available` bytes (0 if unknown). */
void plan_estimate(const struct plan *plan, const struct plan_batch *batch, uint64_t available,
                   struct dgl_memory *out);
/* Number of groups of keys that decode attention processes in parallel. */
uint32_t plan_choose_splits(const struct plan_device *device, const struct model_desc *desc);
/* Number of splits in a pass over up to `columns` sequences, if one sequence has `splits`. */
uint32_t plan_batch_splits(uint32_t splits, int32_t columns);
/* Largest number of splits if attention is one operation, which uses fewer splits for few keys. */
uint32_t plan_token_splits(const struct plan_device *device, const struct model_desc *desc);
/* Rows of weights for which there is memory for sums over many tokens. Each part of a split row
 * counts. */
uint32_t plan_sum_rows(const struct plan_device *device);

/* ---- report: plan_report.c ------------------------------------------------------------------- */

/* Lists the plan for display, one step per operation. `cb` returns false to stop. */
void plan_iterate(const struct plan *plan, bool (*cb)(void *priv, const struct dgl_plan_step *step),
                  void *priv);
/* Lists the steps of a pass over the next tokens of this many sequences, 1 to DGL_STEP_SEQS: first
 * the body, then sampling. The plan must contain the segments of such passes: plan_add_batch(). */
void plan_iterate_batch(const struct plan *plan, int32_t sequences,
                        bool (*cb)(void *priv, const struct dgl_plan_step *step), void *priv);
/* Calls `cb` with each kernel or lib (the other argument is NULL) of a user's file that serves no
 * operation of the plan. Skips those that were in the set `before`, which may be NULL. */
void plan_iterate_unused(const struct plan *plan, const struct kernel_set *before,
                         void (*cb)(void *priv, const struct kernel *kernel,
                                    const struct kernel_lib *lib),
                         void *priv);
/* Warns of these: one line. */
void plan_warn_unused(const struct plan *plan, const struct kernel_set *before, const char *model);
/* Appends "NAME (FILE), NAME (FILE)": the kernels and libs that are not built in and that some
 * operation of the plan runs. Appends no text if there are no such files. */
void plan_name_users_texts(const struct plan *plan, struct dgl_buf *out);
/* The public view of a kernel. The kernel owns the strings. */
struct dgl_kernel_info kernel_info(const struct kernel *kernel);

/* ---- hints: hint_report.c -------------------------------------------------------------------- */

/* Collects notes about hints, one per line: unused hints, hints that were passed over, a manifest's
 * defaults that override the model's kernels, and f16 on a device where it is slow. Returns
 * DGL_ERR_UNSUPPORTED if hints are strict and a hint applies to no step of the plan.
 * `q4_k_expanded` is true if the model has q4_k weights that a hint expands to another type. */
enum dgl_status plan_check_hints(struct plan *plan, const char *model, bool q4_k_expanded);
/* Reports these lines, except for those of the plan `before`, which may be NULL. */
void plan_tell_hints(const struct plan *plan, const struct plan *before);

#endif
