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

/* Parts of a pass, in the order in which they run. */
enum pass_part {
    PART_LAYERS,     /* embedding and layers; with OUTPUT_EACH also the logits of each row */
    PART_OUTPUTS,    /* from the last layer's result */
    PART_ADJUST,     /* adds biases and penalties to the logits before sampling */
    PART_MASK,       /* drops tokens that a constraint does not allow */
    PART_FILTER,     /* drops tokens before sampling */
    PART_SAMPLE,     /* samples from the logits */
    PART_EARLY_EXIT, /* cancels the later steps if the sequence has stopped */
    PART_REPORT,     /* copies the ids of the steps so far, for every row */
};
enum pass_outputs {
    OUTPUT_NONE,
    OUTPUT_LAST,   /* logits of the last row */
    OUTPUT_HIDDEN, /* hidden states of every row, after the final norm */
    OUTPUT_EACH,   /* logits of every row; as PART_OUTPUTS from its hidden state */
};
#define PASS_ANY_ROWS 8 /* rows_log2 of a body for any number of rows, in tiles of 256 */

/* The key of a body. Fields that do not apply are 0. */
struct pass_shape {
    uint8_t part;      /* enum pass_part */
    uint8_t rows_log2; /* layers: up to 1 << rows_log2 rows, or PASS_ANY_ROWS */
    /* Layers: 1 if each row is the next token of a different sequence, 2 if a sequence may have
     * several rows. 0 if all rows of a tile are of one sequence. */
    uint8_t per_sequence;
    uint8_t outputs; /* enum pass_outputs */
    uint8_t sampler; /* enum sample_kind */
};
#define PASS_ROWS(log2) ((struct pass_shape){.rows_log2 = (uint8_t)(log2)})
#define PASS_DECODE     PASS_ROWS(0)
#define PASS_PREFILL    PASS_ROWS(PASS_ANY_ROWS)
#define PASS_BATCH(log2)                                                                           \
    ((struct pass_shape){.rows_log2 = (uint8_t)(log2), .per_sequence = 1, .outputs = OUTPUT_EACH})
/* Stores all keys before attention, so a row reads those of other rows of its sequence. The state
 * of the pass has a slot per row, because it has the logits of each. */
#define PASS_MIXED(log2)                                                                           \
    ((struct pass_shape){.rows_log2 = (uint8_t)(log2), .per_sequence = 2, .outputs = OUTPUT_EACH})
#define PASS_HEAD         ((struct pass_shape){.part = PART_OUTPUTS, .outputs = OUTPUT_LAST})
#define PASS_HIDDEN       ((struct pass_shape){.part = PART_OUTPUTS, .outputs = OUTPUT_HIDDEN})
#define PASS_SCORE        ((struct pass_shape){.part = PART_OUTPUTS, .outputs = OUTPUT_EACH})
#define PASS_ADJUST       ((struct pass_shape){.part = PART_ADJUST})
#define PASS_MASK         ((struct pass_shape){.part = PART_MASK})
#define PASS_FILTER       ((struct pass_shape){.part = PART_FILTER})
#define PASS_SAMPLE(kind) ((struct pass_shape){.part = PART_SAMPLE, .sampler = (uint8_t)(kind)})
#define PASS_EARLY_EXIT   ((struct pass_shape){.part = PART_EARLY_EXIT})
#define PASS_REPORT       ((struct pass_shape){.part = PART_REPORT})
/* Widest body for several sequences, as rows_log2: DGL_STEP_SEQS. */
#define PASS_BATCH_MOST 6

/* Orders shapes as their bodies run and are displayed. Returns 0 if they are equal. */
int pass_shape_compare(struct pass_shape a, struct pass_shape b);
static inline bool pass_shape_is(struct pass_shape a, struct pass_shape b)
{
    return pass_shape_compare(a, b) == 0;
}
/* Returns true for the layers of a pass over several tokens of one sequence. */
static inline bool pass_shape_is_prefill(struct pass_shape shape)
{
    return shape.part == PART_LAYERS && shape.rows_log2 > 0 && !shape.per_sequence;
}

/* A set of shapes, sorted. */
#define SHAPES_MAX 32
struct shape_set {
    struct pass_shape of[SHAPES_MAX]; /* [count] */
    uint8_t count;
};
struct shape_set shapes_of(struct pass_shape shape);
struct shape_set shapes_join(struct shape_set a, struct shape_set b);
struct shape_set shapes_add(struct shape_set set, struct pass_shape shape);
bool shapes_have(const struct shape_set *set, struct pass_shape shape);

/* The contents of one submit. With PASS_EARLY_EXIT the group counts are read from ARGS. */
struct recipe {
    struct shape_set shapes;
    bool repeats; /* submitted after itself */
    /* only operations [first, first + count) of it; a count of 0 selects all */
    size_t first, count;
};

struct recipe recipe_of(struct pass_shape shape);
/* Samples from LOGITS, which PASS_ADJUST, PASS_MASK and PASS_FILTER change before by `changes`
 * (bits of enum sample_changes). */
struct recipe recipe_sampling(enum sample_kind kind, unsigned changes);
/* Evaluates a token and samples the next one. `several` if it is one of several steps per
 * readback. */
struct recipe recipe_decode(enum sample_kind kind, unsigned changes, bool several);
bool recipe_equal(const struct recipe *a, const struct recipe *b);

/* The operations of a pass, or of a part of it, with a kernel for each. */
struct body {
    struct pass_shape shape;
    struct oplist ops;
    const struct kernel_use **use; /* [ops.count], borrowed from plan.kernels */
    bool ends_batch;               /* sampling also does the work of PASS_EARLY_EXIT */
    /* The body for more rows that runs in its place, because it has the same kernels, or NULL. This
     * body then has no operations. */
    const struct body *wider;
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
    /* A kernel that serves only one row per pass, for example a user's, or NULL. If set, the plan
     * has no passes over several sequences. */
    const struct kernel *one_row;
    struct body **bodies; /* [num_bodies], sorted by shape: those that were listed so far */
    size_t num_bodies, cap_bodies;
    struct dgl_buf hint_notes; /* lines of plan_check_hints() */
};

/* Lists the bodies of one sequence, and chooses a kernel for every operation. On failure *out is
 * empty. */
enum dgl_status plan_init(struct plan *out, const struct plan_params *params,
                          const struct model_weights *weights);
/* Lists a body and chooses its kernels on first use, and those of all wider bodies. A body with the
 * same kernels as the next wider one is replaced by it. If a body fails, it is not added. */
enum dgl_status plan_list(struct plan *plan, struct pass_shape shape);
/* Lists the bodies of passes over several sequences on first use. On failure those that were listed
 * before stay. */
enum dgl_status plan_add_batch(struct plan *plan);
/* Accepts a plan that is all zero. */
void plan_finish(struct plan *plan);

/* Returns the body that runs passes of this shape. If it was not listed, returns one without
 * operations. Borrowed, valid until plan_finish(). */
const struct body *plan_body(const struct plan *plan, struct pass_shape shape);
/* Gets the distinct bodies of the shapes that have operations, in order. Omits PASS_EARLY_EXIT if
 * the sampling does its work. Returns their number. */
size_t plan_bodies(const struct plan *plan, const struct shape_set *shapes,
                   const struct body *out[SHAPES_MAX]);
/* Lists the operations of a shape, without kernels, also if a wider body replaces it. The caller
 * calls oplist_finish(). */
enum dgl_status plan_list_ops(struct plan *plan, struct pass_shape shape, struct oplist *out);

/* Returns the shape of the body for a pass over `tokens` tokens of one sequence. Passes over one or
 * a few tokens use matrix-vector kernels, also in a prompt. */
struct pass_shape plan_pass_shape(const struct plan *plan, int32_t tokens);
/* Returns the shape of the body for the next tokens of that many sequences, 2 to DGL_STEP_SEQS. */
struct pass_shape plan_batch_shape(const struct plan *plan, int32_t sequences);
/* Tokens of the next pass if `left` remain, in passes of up to `most`. If the last tokens would
 * fill a pass badly, they are left to the next pass. */
int32_t plan_pass_tokens(const struct plan *plan, int32_t left, int32_t most);
/* Returns the maximum number of sequences of a program that contains all operations of one step of
 * the recipe: 1, or up to PLAN_PHASE_ROWS for a pass over several. Returns 0 if the recipe has no
 * such program. The first shape of such a recipe is its body. */
#define PLAN_PHASE_ROWS 8
int32_t plan_step_rows(struct recipe recipe);

/* Shapes that every answer needs. Their kernels are compiled while weights are read, if the driver
 * has threads for it. All others are compiled by the first call that needs them. */
#define PLAN_WARM_SHAPES                                                                           \
    ((struct shape_set){{PASS_PREFILL, PASS_DECODE, PASS_HEAD, PASS_EARLY_EXIT}, 4})
/* Returns true if a hint or a user's file selects a kernel of one of the bodies. */
bool plan_is_asked(const struct plan *plan, struct shape_set shapes);

/* Returns the end of the block of a body that begins with operation `first`. A block is the
 * embedding, attention with its projections, or the feed-forward part. Its last operation writes to
 * the residual stream, X or X2 (*stream). If the block's result is added to the stream by the first
 * product of the next block, that product is the end. */
size_t plan_block_end(const struct body *body, size_t first, enum plan_buffer *stream);

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
 * the body, then sampling. Several sequences require plan_add_batch(). */
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
 * DGL_ERR_UNSUPPORTED if hints are strict and a hint applies to no step of the plan. */
enum dgl_status plan_check_hints(struct plan *plan, const char *model);
/* Reports these lines, except for those of the plan `before`, which may be NULL. */
void plan_tell_hints(const struct plan *plan, const struct plan *before);

#endif
