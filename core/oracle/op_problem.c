/* The table of operations, and shared helpers of their makers. */
#include "core/oracle/op_problem.h"

#include <string.h>

#include "core/oracle/ref_ops.h"
#include "core/plan/weight_layout.h"
#include "kernels/format/kernel_format.h"
#include "kernels/set/kernel_fit.h"

static const struct op_rule *const rules[] = {
    &op_rule_embed,        &op_rule_copy,          &op_rule_read,        &op_rule_synth,
    &op_rule_matmul,       &op_rule_norm,          &op_rule_rope_kv,     &op_rule_qk_norm,
    &op_rule_attn_prefill, &op_rule_attn_decode,   &op_rule_attn_token,  &op_rule_attn_merge,
    &op_rule_moe_matmul,   &op_rule_moe_route,     &op_rule_moe_router,  &op_rule_moe_group,
    &op_rule_moe_combine,  &op_rule_sample_adjust, &op_rule_sample_mask, &op_rule_sample_filter,
    &op_rule_sample_max,   &op_rule_sample_topk,   &op_rule_sample_hist, &op_rule_sample_mass,
    &op_rule_sample_find,  &op_rule_sample_pick,   &op_rule_sample_next, &op_rule_sample_args,
    &op_rule_batch_report,
};

const struct op_rule *op_rule_find(const char *op)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i]->op, op) == 0)
            return rules[i];
    return NULL;
}

void op_load_fit(struct kernel_case *c, uint64_t binding_bytes)
{
    const int64_t columns = request_const(&c->request, "COLUMNS", 0);
    const int64_t stride = request_const(&c->request, "W_STRIDE", 0);
    const int64_t all = request_const(&c->request, "N", 0);
    if (c->tokens == 0)
        c->tokens = columns > 0 ? (uint32_t)columns : 1;
    if (c->rows == 0 && stride > 0 && all > 0) {
        uint64_t most = binding_bytes / (4ull * (uint64_t)stride) / 2 * 2;
        c->rows = (uint32_t)((uint64_t)all < most ? (uint64_t)all : most);
    }
}

enum dgl_dtype op_weight_type(const struct kernel_request *request)
{
    for (size_t i = 0; i < ref_types(); i++)
        if (request_is(request, "weight", dgl_dtype_get(ref_type(i))->name))
            return ref_type(i);
    return DGL_DTYPE_COUNT;
}

uint32_t op_attr_served(const struct kernel *kernel, const struct op_attr *attr,
                        const char *words[OP_MAX_WORDS])
{
    const struct kernel_when *when = NULL;
    uint32_t count = 0;
    for (uint32_t w = 0; w < kernel->num_when && !when; w++)
        if (strcmp(kernel->when[w].key, attr->key) == 0)
            when = &kernel->when[w];
    for (uint32_t w = 0; w < OP_MAX_WORDS && attr->words[w]; w++)
        if (!when || kernel_word_in(when->words, attr->words[w]))
            words[count++] = attr->words[w];
    return count;
}

const struct op_attr *op_attr_find(const struct op_rule *rule, const char *key)
{
    for (uint32_t a = 0; a < OP_MAX_ATTRS && rule->attrs[a].key; a++)
        if (strcmp(rule->attrs[a].key, key) == 0)
            return &rule->attrs[a];
    return NULL;
}

const char *op_attr_word(const struct op_attr *attr, struct dgl_str word)
{
    for (uint32_t w = 0; w < OP_MAX_WORDS && attr->words[w]; w++)
        if (dgl_str_eq(word, attr->words[w]))
            return attr->words[w];
    return NULL;
}

bool op_weights_make(struct problem *p, struct kernel_request *request, uint64_t rows,
                     uint64_t cols, bool timing, struct op_weights *out)
{
    const char *name = kernel_request_word(request, "layout");
    const struct weight_layout *layout = NULL;
    const enum dgl_dtype type = op_weight_type(request);
    struct ref_matrix m;
    uint64_t least;
    *out = (struct op_weights){0};
    if (type != DGL_DTYPE_COUNT)
        layout = weight_layout_find(type, strcmp(name, "none") == 0 ? ref_layout(type) : name);
    if (!layout || !weight_layout_stride(layout, cols, &least)) {
        problem_refuse(p, "no format of weights has that layout");
        return false;
    }
    request_default(request, "W_STRIDE", (int64_t)least);
    out->row_words = (uint64_t)request_const(request, "W_STRIDE", 0);
    if (timing)
        return true;
    if (out->row_words < least ||
        !ref_matrix_init(&m, type, layout->name, rows, cols, ref_rand(&p->seed))) {
        p->failed = true;
        return false;
    }
    uint32_t *packed = problem_new(p, uint32_t, rows * out->row_words);
    double *values = problem_new(p, double, rows *cols);
    if (packed && values) {
        for (uint64_t i = 0; i < rows; i++)
            memcpy(packed + i * out->row_words, m.packed + i * m.row_words, 4 * m.row_words);
        memcpy(values, m.values, rows * cols * sizeof(*values));
    }
    out->packed = packed;
    out->values = values;
    ref_matrix_finish(&m);
    return !p->failed;
}

struct problem_stage *op_band(struct problem *p, const struct kernel_request *request,
                              const struct op_weights *w, uint32_t row0, uint32_t first,
                              uint32_t rows)
{
    struct problem_stage *stage = problem_stage(p, request);
    stage_uint(stage, "row0", row0 + first);
    stage_uint(stage, "rows", rows);
    stage->band = rows;
    if (w->packed) {
        stage->own_name = "W";
        stage->own = w->packed + first * w->row_words;
        stage->own_words = rows * w->row_words;
    }
    return stage;
}
