/*
 * op_problem.h: test rules of the operations: the words of their attributes, test shapes, and the
 * maker of a problem from a request. There is one rule for each operation of docs/operations.md.
 * Phases are tested through their kernels.
 */
#ifndef DGL_CORE_OP_PROBLEM_H
#define DGL_CORE_OP_PROBLEM_H

#include "core/oracle/problem.h"

#define OP_MAX_ATTRS  7
#define OP_MAX_WORDS  32
#define OP_MAX_CONSTS 8

struct op_attr {
    const char *key;
    const char *words[OP_MAX_WORDS]; /* ends with NULL */
};

struct op_shape {
    struct kernel_var consts[OP_MAX_CONSTS]; /* ends with a NULL name */
    uint32_t tokens, pos, bands, variant;
};

/* A shape for requests with these words. */
struct op_special {
    struct op_shape shape;
    /* ends with a NULL key; a NULL word is an absent attribute */
    struct kernel_attr words[OP_MAX_ATTRS];
};

struct op_rule {
    const char *op;
    struct op_attr attrs[OP_MAX_ATTRS]; /* ends with a NULL key */
    const struct op_shape *shapes;
    size_t num_shapes;
    const struct op_special *specials; /* for which kernels do otherwise than for `shapes` */
    size_t num_specials;
    struct op_shape typical; /* a size that large models have, to be timed */
    /* Completes and checks attributes, shape and constants. Returns false if no plan makes such a
     * case. May be NULL if all combinations are valid. */
    bool (*settle)(struct kernel_case *c);
    /* Reduces a plan's request to a part that is cheap to compute on the host: few rows, few
     * tokens. May be NULL if all of it is computed. */
    void (*narrow)(struct kernel_case *c);
    /* Turns a case of one row into the case of row `row` of several sequences, with another
     * position and other numbers. Returns false if such a case cannot be a row of several
     * sequences. NULL if this is so for all cases. */
    bool (*member)(struct kernel_case *c, uint32_t row);
    /* Fills a problem that is all zero except for its seed. Sets p->failed if memory runs out. */
    void (*make)(struct problem *p, const struct kernel_case *c);
    /* buffer that no cache should hold during timing; NULL selects the largest */
    const char *streamed;
};

/* Returns NULL if there is no such operation. */
const struct op_rule *op_rule_find(const char *op);
/* Returns NULL if the operation has no such attribute. */
const struct op_attr *op_attr_find(const struct op_rule *rule, const char *key);
/* Returns the attribute's own copy of a word, or NULL if it is none of its words. */
const char *op_attr_word(const struct op_attr *attr, struct dgl_str word);
/* Lists the words of an attribute that the kernel serves. Returns their number. */
uint32_t op_attr_served(const struct kernel *kernel, const struct op_attr *attr,
                        const char *words[OP_MAX_WORDS]);

/* The rules of each file. */
extern const struct op_rule op_rule_embed, op_rule_copy, op_rule_read, op_rule_synth,
    op_rule_matmul, op_rule_norm, op_rule_rope_kv, op_rule_qk_norm, op_rule_attn_prefill,
    op_rule_attn_decode, op_rule_attn_token, op_rule_attn_merge, op_rule_moe_matmul,
    op_rule_moe_route, op_rule_moe_router, op_rule_moe_group, op_rule_moe_combine,
    op_rule_sample_adjust, op_rule_sample_mask, op_rule_sample_filter, op_rule_sample_max,
    op_rule_sample_topk, op_rule_sample_hist, op_rule_sample_mass, op_rule_sample_find,
    op_rule_sample_pick, op_rule_sample_next, op_rule_sample_args, op_rule_batch_report;

/* clang-format breaks the braces of a macro into lines of their own. */
/* clang-format off */
#define OP_WEIGHTS {"weight", {KERNEL_WEIGHT_WORDS}}
/* clang-format on */
#define OP_SHAPES(table) .shapes = (table), .num_shapes = sizeof(table) / sizeof((table)[0])

/* Fills in the omitted sizes of a load: tokens, and rows of weights, which must fit
 * `binding_bytes`. */
void op_load_fit(struct kernel_case *c, uint64_t binding_bytes);

/* The type that the request's attribute `weight` names, or DGL_DTYPE_COUNT. */
enum dgl_dtype op_weight_type(const struct kernel_request *request);

/* A matrix of weights for a problem. For timing it has no contents. */
struct op_weights {
    uint64_t row_words;
    const uint32_t *packed; /* [rows][row_words] */
    const double *values;   /* [rows][cols] */
};
/* Makes `rows` rows in the request's attributes weight and layout, with K columns, W_STRIDE words
 * apart. Adds that constant if the request lacks it. Returns false if p->failed, or if there is no
 * such layout (`rows` is 0 then). */
bool op_weights_make(struct problem *p, struct kernel_request *request, uint64_t rows,
                     uint64_t cols, bool timing, struct op_weights *out);

/* Adds the dispatch for `rows` rows, which begin `first` rows after the first row of the matrix,
 * that is row `row0` of the weight. They have a buffer W of their own, except for timing. */
struct problem_stage *op_band(struct problem *p, const struct kernel_request *request,
                              const struct op_weights *w, uint32_t row0, uint32_t first,
                              uint32_t rows);

#endif
