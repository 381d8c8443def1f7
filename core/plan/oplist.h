/*
 * oplist.h: what has to be computed, as a flat list of operations per phase. Operations name their
 * buffers by role (a slot of the session, or a fixed place among the weights) and their constants
 * and parameters by the names that docs/operations.md gives them; which kernel serves them is the
 * plan's business.
 */
#ifndef DGL_CORE_OPLIST_H
#define DGL_CORE_OPLIST_H

#include "core/memory/weights.h"

/* Buffers that a session owns. */
enum op_slot {
    SLOT_FIXED = 0, /* op_bind.fixed says where */
    SLOT_IDS,       /* uint [context + 1] */
    SLOT_STEP,      /* struct dgl_step */
    SLOT_X,         /* residual stream, f32 [chunk, hidden] */
    SLOT_NORMED,    /* f32 [chunk, hidden]: the stream normed, or what waits to be normed */
    SLOT_QKV,       /* f32 [chunk, qkv] */
    SLOT_ATT,    /* attention output, f32 [chunk, heads * head_dim], or decode's partial results */
    SLOT_MERGED, /* f32 [heads * head_dim]: decode attention, put together from its parts */
    SLOT_ACT,    /* f32 [chunk, intermediate], or [chunk * top_k, an expert's intermediate] */
    SLOT_LOGITS, /* f32 [vocab] */
    SLOT_ALL_LOGITS,  /* f32 [rows, vocab], for scoring */
    SLOT_KV,          /* op_bind.index = layer */
    SLOT_CAND,        /* candidates of the sampler */
    SLOT_STOPS,       /* stop ids */
    SLOT_ARGS,        /* group counts of the decode plan */
    SLOT_ROPE_GLOBAL, /* ROPE tables, as enum ROPE_GLOBAL, ROPE_LOCAL */
    SLOT_ROPE_LOCAL,
    SLOT_ROUTER,  /* router logits, f32 [chunk, experts padded to a multiple of 4] */
    SLOT_ROUTE,   /* chosen experts, uvec2 [chunk, top_k] */
    SLOT_LIST,    /* the same by expert: uint [experts + 1 + chunk * top_k], prefill */
    SLOT_EXPERTS, /* their results, f32 [chunk * top_k, hidden], prefill */
    SLOT_COUNT,
};

struct op_bind {
    const char *name; /* as docs/operations.md */
    enum op_slot slot;
    int32_t index;
    struct gl_range fixed;
};

struct op_param {
    const char *name;
    bool is_float;
    bool is_run_count; /* the number of dispatches in the run that it becomes part of */
    uint32_t u;
    float f;
};

#define OP_MAX_BINDS  8
#define OP_MAX_PARAMS 8

struct op {
    enum dgl_phase phase;
    int32_t layer;     /* -1 outside the layers */
    const char *label; /* "qkv", "attention" ...: what the plan shows */
    struct kernel_request request;
    struct op_bind binds[OP_MAX_BINDS];
    uint32_t num_binds;
    struct op_param params[OP_MAX_PARAMS];
    uint32_t num_params;
    uint64_t bytes; /* weight bytes read per run */
};

struct oplist {
    struct op *ops;
    size_t count, cap;
    bool failed;       /* out of memory while appending; test once */
    struct op discard; /* what is appended after that */
};
void oplist_finish(struct oplist *list);

/* Building blocks of an operation; `label`, names and words are string literals. */
struct op *oplist_append(struct oplist *list, enum dgl_phase phase, int32_t layer,
                         const char *label, const char *op);
void op_bind_slot(struct op *op, const char *name, enum op_slot slot);
void op_bind_fixed(struct op *op, const char *name, struct gl_range range);
void op_attr(struct op *op, const char *key, const char *word);
void op_const(struct op *op, const char *name, int64_t value);
void op_uint(struct op *op, const char *name, uint32_t value);
void op_float(struct op *op, const char *name, double value);
void op_run_count(struct op *op, const char *name);
/* What the operation offers under a name; NULL = nothing. */
const struct op_bind *op_find_bind(const struct op *op, const char *name);
const struct op_param *op_find_param(const struct op *op, const char *name);

/* Everything that tells one matrix product of the model from another. With post "store", "add" and
 * "softcap" y is what `scale` says times the product; 1 = as it is. */
struct oplist_matmul {
    enum dgl_phase phase;
    int32_t layer;
    const char *label, *pre, *post, *act;
    const struct weight *weight; /* its vectors are the prologue's gain and the bias */
    enum op_slot x, y;
    int32_t x_stride, y_stride;
    double scale;
    bool last_row; /* x is the last token's row */
};

/* One RMS norm of rows of `hidden` numbers; post is "store" or "add". */
struct oplist_norm {
    enum dgl_phase phase;
    int32_t layer;
    const char *label, *post;
    struct gl_range gain;
    enum op_slot x, y;
};

/* Facts that operations depend on beside the model itself. */
struct oplist_params {
    const struct model_desc *desc;
    const struct model_weights *weights;
    const struct weight_layouts *layouts;
    int32_t context;
    enum dgl_kv_type kv_type;
    uint32_t splits; /* parts of the keys in decode attention */
};

void oplist_matmul(struct oplist *list, const struct oplist_params *p,
                   const struct oplist_matmul *m);
void oplist_norm(struct oplist *list, const struct oplist_params *p, const struct oplist_norm *n);

/* Each appends to `list`. A pass is body, then (when its logits are wanted) a head, then (in
 * generation) sampling. */
void oplist_prefill_body(struct oplist *list, const struct oplist_params *p);
void oplist_decode_body(struct oplist *list, const struct oplist_params *p);
/* Logits of the pass's last token, to LOGITS. */
void oplist_head(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase);
/* Logits of every token of the pass, to ALL_LOGITS. */
void oplist_score(struct oplist *list, const struct oplist_params *p);

#endif
