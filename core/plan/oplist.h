/*
 * oplist.h: a forward pass as a flat list of operations per phase. Operations refer to buffers by
 * meaning (a weight, a buffer of a pass), and to constants and parameters by the names of
 * docs/operations.md. plan.h chooses the kernels, and core/memory resolves the references.
 */
#ifndef DGL_CORE_OPLIST_H
#define DGL_CORE_OPLIST_H

#include "core/plan/kv_layout.h"
#include "core/plan/weights.h"

/* In passes over up to this many tokens a matrix product also applies the norm of its input, if a
 * kernel supports it. */
#define OPLIST_NORM_COLUMNS 64

/* Buffers of a pass. Each sequence has its own buffers below BUF_STATE_COUNT. All others are
 * scratch that sequences share, valid within a pass. */
enum plan_buffer {
    BUF_IDS,         /* uint [context + 1] */
    BUF_STEP,        /* kernels/step.h */
    BUF_PAGES,       /* the page table, kernels/step.h */
    BUF_STOPS,       /* stop ids */
    BUF_ARGS,        /* group counts of the decode plan */
    BUF_ROPE_GLOBAL, /* ROPE tables, as enum ROPE_GLOBAL, ROPE_LOCAL */
    BUF_ROPE_LOCAL,
    BUF_LOGITS,  /* f32 [vocab] */
    BUF_ADJUST,  /* adjustments of the logits before sampling: oplist_sample.h */
    BUF_ARRIVED, /* uint [heads, at least 256]: counters of lib last_group, 0 between dispatches */
    BUF_REPORT,  /* of a batch: uint [rows][OPLIST_REPORT_WORDS] */
    BUF_STATE_COUNT,
    BUF_X = BUF_STATE_COUNT, /* residual stream, f32 [rows, hidden] */
    /* f32 [hidden]: if a decode product also adds to the stream, the stream alternates between X
     * and X2 */
    BUF_X2,
    BUF_NORMED, /* f32 [rows, hidden]: the stream normed, or a block's result before its norm */
    BUF_QKV,    /* f32 [rows, qkv] */
    BUF_ATT,    /* attention output, f32 [rows, heads * head_dim], or decode's partial results */
    BUF_MERGED, /* f32 [heads * head_dim]: decode attention merged from its splits */
    BUF_ACT,    /* f32 [rows, intermediate], or [rows * top_k, an expert's intermediate] */
    BUF_ALL_LOGITS,  /* f32 [rows, vocab], for scoring */
    BUF_CAND,        /* candidates of the sampler */
    BUF_COUNTS,      /* uint [vocab], of the sampler's penalties */
    BUF_ROUTER,      /* router logits, f32 [rows, experts padded to a multiple of 4] */
    BUF_ROUTE,       /* chosen experts, uvec2 [rows, top_k] */
    BUF_EXPERT_ROWS, /* pairs of row and choice by expert: uint [experts + 1 + rows * top_k] */
    BUF_EXPERTS,     /* results of experts, f32 [rows * top_k, hidden], prefill */
    BUF_SUMS,        /* parts of a product's sums, f32 [rows, sum_rows], prefill */
    BUF_COUNT,
};

/* A buffer by its meaning. */
enum ref_kind {
    REF_STATE,  /* id = enum plan_buffer, below BUF_STATE_COUNT */
    REF_ACT,    /* id = enum plan_buffer, from BUF_STATE_COUNT on */
    REF_WEIGHT, /* id = model_weights.matrices, part = band */
    REF_VECTOR, /* id = model_weights.vectors */
    REF_KV,     /* id = layer of its group, part = group: kv_layout_find() */
};
struct ref {
    enum ref_kind kind;
    uint32_t id, part;
};

struct op_bind {
    const char *name; /* in docs/operations.md */
    struct ref ref;
};

struct op_param {
    const char *name;
    bool is_float;
    bool is_op_count; /* the value is the number of operations of the recipe */
    uint32_t u;
    float f;
};

#define OP_MAX_BINDS  8
#define OP_MAX_PARAMS 8

struct op {
    enum dgl_phase phase;
    int32_t layer;     /* -1 outside the layers */
    const char *label; /* name within the plan: "qkv", "attention" ... */
    struct kernel_request request;
    struct op_bind binds[OP_MAX_BINDS];
    uint32_t num_binds;
    struct op_param params[OP_MAX_PARAMS];
    uint32_t num_params;
    uint64_t bytes; /* weight bytes read per run */
    /* Why this operation and the next ones are not fused (fusion.h), or NULL. Borrowed from the
     * plan's fusion. */
    const char *unfused;
};

struct oplist {
    struct op *ops;
    size_t count, cap;
    bool failed;       /* out of memory while appending; test once */
    struct op discard; /* receives the operations that are appended after a failure */
};
void oplist_finish(struct oplist *list);

/* Building blocks of an operation; `label`, names and words are string literals. */
struct op *oplist_append(struct oplist *list, enum dgl_phase phase, int32_t layer,
                         const char *label, const char *op);
void op_bind_buffer(struct op *op, const char *name, enum plan_buffer buffer);
void op_bind_band(struct op *op, const char *name, const struct weight *weight, uint32_t band);
void op_bind_vector(struct op *op, const char *name, uint32_t vector);
void op_attr(struct op *op, const char *key, const char *word);
void op_const(struct op *op, const char *name, int64_t value);
void op_uint(struct op *op, const char *name, uint32_t value);
void op_float(struct op *op, const char *name, double value);
void op_op_count(struct op *op, const char *name);
/* Both return NULL if the operation has no entry of that name. */
const struct op_bind *op_find_bind(const struct op *op, const char *name);
const struct op_param *op_find_param(const struct op *op, const char *name);
/* Rows of weights in the operation's band, or 0 if it reads no weights. */
uint32_t op_weight_rows(const struct op *op);

/* One matrix product of the model. With post "store", "add" and "softcap" y is `scale` times the
 * product. */
struct oplist_matmul {
    enum dgl_phase phase;
    int32_t layer;
    const char *label, *pre, *post, *act;
    const struct weight *weight; /* its vector is the prologue's norm weight and the bias */
    enum plan_buffer x, y;
    int32_t x_stride, y_stride;
    double scale;
    bool last_row; /* x is the last token's row */
    /* pre "join" and "join_norm": NORMED is added to x through the norm with these weights, and the
     * sum is also written to `stream`. */
    uint32_t join_norm;
    enum plan_buffer stream;
};

/* One RMS norm of rows of `hidden` numbers; post is "store" or "add". */
struct oplist_norm {
    enum dgl_phase phase;
    int32_t layer;
    const char *label, *post;
    uint32_t norm_weight; /* vector */
    enum plan_buffer x, y;
};

struct fusion; /* fusion.h */

/* Everything that operations depend on. */
struct oplist_params {
    const struct model_desc *desc;
    const struct model_weights *weights;
    const struct kv_layout *kv;
    uint32_t splits;       /* parts of the keys in decode attention */
    uint32_t token_splits; /* largest `splits` if attention is one operation */
    /* rows of weights for which SUMS has room; each part of a split row counts */
    uint32_t sum_rows;
    /* Largest number of tokens of a pass over several, a power of two from 2 to 128. 0 means any
     * number, in tiles of 256. */
    int32_t columns;
    /* The rows of a pass over several tokens belong to several sequences. */
    bool batch;
    /* with `batch`: a sequence may have several rows, so all keys are stored before attention */
    bool mixed;
    /* Chooses the fused operations. If NULL, operations are not fused. */
    struct fusion *fusion;
};

/* Attribute and constant of products for several tokens: oplist_params.columns. */
void op_columns(struct op *op, const struct oplist_params *p);
void oplist_matmul(struct oplist *list, const struct oplist_params *p,
                   const struct oplist_matmul *m);
void oplist_norm(struct oplist *list, const struct oplist_params *p, const struct oplist_norm *n);

/* These functions append to `list`. A pass is a body, then a head if its logits are needed, then
 * sampling in generation. */
void oplist_prefill_body(struct oplist *list, const struct oplist_params *p);
void oplist_decode_body(struct oplist *list, const struct oplist_params *p);
/* Computes the logits of the pass's last token into LOGITS. */
void oplist_head(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase);
/* Evaluates one token of each of several sequences (p->batch), and computes the logits of each into
 * LOGITS. */
void oplist_batch_body(struct oplist *list, const struct oplist_params *p);
/* Writes the position and the last ids of each row's sequence to REPORT. */
#define OPLIST_REPORT_WORDS 16 /* position, then ids, the last one first */
void oplist_report(struct oplist *list);
/* Writes the hidden states of every token of the pass after the final norm to NORMED. */
void oplist_hidden(struct oplist *list, const struct oplist_params *p);
/* Writes the logits of every token of the pass from NORMED to ALL_LOGITS. */
void oplist_score(struct oplist *list, const struct oplist_params *p);

#endif
