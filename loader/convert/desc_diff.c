/* Compares two model descriptions field by field. */
#include "loader/convert/desc_diff.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/desc/rope_freq.h"

/* The rounding error of an f32 is at most 6e-8 of its value, and two of them may be multiplied. */
#define SAME 1e-6

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static bool same(double a, double b)
{
    return fabs(a - b) <= SAME * fmax(fabs(a), fabs(b));
}

/* ---- single fields ---- */

enum compared_kind {
    COMPARED_SIZE,
    COMPARED_NUMBER,
    COMPARED_CAP,
    COMPARED_BOOL,
    COMPARED_ACT,
    COMPARED_SCORING
};

struct compared {
    const char *name;
    enum compared_kind kind;
    size_t offset;
};
#define AT(member) offsetof(struct model_desc, member)

static const struct compared fields[] = {
    {"num_hidden_layers", COMPARED_SIZE, AT(layers)},
    {"hidden_size", COMPARED_SIZE, AT(hidden)},
    {"intermediate_size", COMPARED_SIZE, AT(intermediate)},
    {"vocab_size", COMPARED_SIZE, AT(vocab)},
    {"num_attention_heads", COMPARED_SIZE, AT(heads)},
    {"num_key_value_heads", COMPARED_SIZE, AT(kv_heads)},
    {"head_dim", COMPARED_SIZE, AT(head_dim)},
    {"max_position_embeddings", COMPARED_SIZE, AT(context_max)},
    {"rms_norm_eps", COMPARED_NUMBER, AT(norm_eps)},
    {"1 added to the weights of norms", COMPARED_BOOL, AT(norm_plus_one)},
    {"hidden_act", COMPARED_ACT, AT(act)},
    {"swiglu_alpha", COMPARED_NUMBER, AT(act_alpha)},
    {"swiglu_limit", COMPARED_NUMBER, AT(act_limit)},
    {"the scale of attention scores", COMPARED_NUMBER, AT(attn_scale)},
    {"attn_logit_softcapping", COMPARED_CAP, AT(attn_softcap)},
    {"final_logit_softcapping", COMPARED_CAP, AT(logit_softcap)},
    {"the scale of embeddings", COMPARED_NUMBER, AT(embed_scale)},
    {"residual_multiplier", COMPARED_NUMBER, AT(residual_scale)},
    {"the scale of logits", COMPARED_NUMBER, AT(logit_scale)},
    {"num_experts", COMPARED_SIZE, AT(moe.experts)},
    {"num_experts_per_tok", COMPARED_SIZE, AT(moe.top_k)},
    {"moe_intermediate_size", COMPARED_SIZE, AT(moe.intermediate)},
    {"the weights of experts", COMPARED_SCORING, AT(moe.scoring)},
};

static bool field_is_same(const struct compared *f, const void *a, const void *b)
{
    switch (f->kind) {
    case COMPARED_SIZE:
        return *(const int32_t *)a == *(const int32_t *)b;
    case COMPARED_NUMBER:
    case COMPARED_CAP:
        return same(*(const double *)a, *(const double *)b);
    case COMPARED_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case COMPARED_ACT:
        return *(const enum model_act *)a == *(const enum model_act *)b;
    case COMPARED_SCORING:
        return *(const enum moe_scoring *)a == *(const enum moe_scoring *)b;
    }
    return false;
}

static void bool_text(bool value, char *text, size_t size)
{
    snprintf(text, size, "%s", value ? "true" : "false");
}

static void field_text(const struct compared *f, const void *value, char *text, size_t size)
{
    static const char *const acts[] = {"silu", "gelu_pytorch_tanh", "silu with a limit"};
    static const char *const scorings[] = {"softmax of the chosen", "softmax of all",
                                           "softmax of all, normalised (norm_topk_prob)"};
    switch (f->kind) {
    case COMPARED_SIZE:
        snprintf(text, size, "%" PRId32, *(const int32_t *)value);
        break;
    case COMPARED_CAP:
        if (*(const double *)value == 0) {
            snprintf(text, size, "null");
            break;
        } /* fall through */
    case COMPARED_NUMBER:
        snprintf(text, size, "%.7g", *(const double *)value);
        break;
    case COMPARED_BOOL:
        bool_text(*(const bool *)value, text, size);
        break;
    case COMPARED_ACT:
        snprintf(text, size, "%s", acts[*(const enum model_act *)value]);
        break;
    case COMPARED_SCORING:
        snprintf(text, size, "%s", scorings[*(const enum moe_scoring *)value]);
        break;
    }
}

static void fields_compare(const struct model_desc *a, const struct model_desc *b,
                           struct desc_diff *out)
{
    for (size_t i = 0; i < COUNT(fields) && !out->found; i++) {
        const void *x = (const char *)a + fields[i].offset, *y = (const char *)b + fields[i].offset;
        if (field_is_same(&fields[i], x, y))
            continue;
        out->found = true;
        snprintf(out->field, sizeof(out->field), "%s", fields[i].name);
        field_text(&fields[i], x, out->left, sizeof(out->left));
        field_text(&fields[i], y, out->right, sizeof(out->right));
    }
}

/* ---- tensors ---- */

/* A model without a head uses the embedding table, as one with a tied head does. */
static void head_compare(const struct model_desc *a, const struct model_desc *b,
                         struct desc_diff *out)
{
    const bool x = a->tied_head || a->no_head, y = b->tied_head || b->no_head;
    if (x == y)
        return;
    out->found = true;
    snprintf(out->field, sizeof(out->field), "tie_word_embeddings");
    bool_text(x, out->left, sizeof(out->left));
    bool_text(y, out->right, sizeof(out->right));
}

static void parts_compare(const struct model_desc *a, const struct model_desc *b,
                          struct desc_diff *out)
{
    static const struct {
        enum model_part part;
        const char *name;
    } parts[] = {
        {PART_QKV_BIAS, "attention_bias"},
        {PART_O_BIAS, "attention_bias (of o_proj)"},
        {PART_MLP_BIAS, "mlp_bias"},
        {PART_PRE_NORM, "a norm before attention"},
        {PART_POST_NORM, "a norm after attention"},
        {PART_HEAD_NORM, "a norm of each head's queries"},
        {PART_WIDE_NORM, "a norm of all heads' queries"},
        {PART_SINKS, "attention sinks"},
    };
    uint32_t changed = a->parts ^ b->parts;
    for (size_t i = 0; i < COUNT(parts) && !out->found; i++) {
        if (!(changed & parts[i].part))
            continue;
        out->found = true;
        snprintf(out->field, sizeof(out->field), "%s", parts[i].name);
        bool_text(a->parts & parts[i].part, out->left, sizeof(out->left));
        bool_text(b->parts & parts[i].part, out->right, sizeof(out->right));
    }
}

/* ---- layers ---- */

static void window_text(int32_t window, char *text, size_t size)
{
    if (window > 0)
        snprintf(text, size, "%" PRId32, window);
    else
        snprintf(text, size, "null");
}

static void layer_compare(const struct layer_desc *a, const struct layer_desc *b, int32_t layer,
                          struct desc_diff *out)
{
    static const char *const ropes[] = {"none", "that of full_attention",
                                        "that of sliding_attention"};
    const char *what = a->sparse != b->sparse   ? "experts"
                       : a->window != b->window ? "sliding_window"
                       : a->rope != b->rope     ? "the rotation"
                                                : NULL;
    if (!what)
        return;
    out->found = true;
    snprintf(out->field, sizeof(out->field), "%s of layer %" PRId32, what, layer);
    if (a->sparse != b->sparse) {
        bool_text(a->sparse, out->left, sizeof(out->left));
        bool_text(b->sparse, out->right, sizeof(out->right));
    } else if (a->window != b->window) {
        window_text(a->window, out->left, sizeof(out->left));
        window_text(b->window, out->right, sizeof(out->right));
    } else {
        snprintf(out->left, sizeof(out->left), "%s", ropes[a->rope + 1]);
        snprintf(out->right, sizeof(out->right), "%s", ropes[b->rope + 1]);
    }
}

/* ---- rotations ---- */

struct rope_pair {
    const struct rope_desc *a, *b;
    double *x, *y; /* [dims/2] */
};

static void rope_text(const struct rope_desc *r, double step, char *text, size_t size)
{
    static const char *const kinds[] = {"default", "linear", "dynamic",
                                        "yarn",    "llama3", "longrope"};
    char factor[40] = "", rounded[24] = "";
    if (r->kind != ROPE_DEFAULT && r->kind != ROPE_LONGROPE)
        snprintf(factor, sizeof(factor), ", factor %.7g", r->factor);
    if (r->kind == ROPE_YARN)
        snprintf(rounded, sizeof(rounded), ", truncate %s", r->truncate ? "true" : "false");
    snprintf(text, size, "%s, theta %.7g%s%s, %" PRId32 " values by %.7g per position, scale %.7g",
             kinds[r->kind], r->theta, factor, rounded, r->dims, step, r->scale);
}

/* Index of the first rotation step that differs for this number of tokens, or n. */
static size_t step_compare(const struct rope_pair *p, int64_t tokens, size_t n)
{
    size_t i = 0;
    rope_inv_freq(p->a, tokens, p->x);
    rope_inv_freq(p->b, tokens, p->y);
    while (i < n && same(p->x[i], p->y[i]))
        i++;
    return i;
}

static void rope_compare(const struct rope_pair *p, const char *name, int32_t context,
                         struct desc_diff *out)
{
    /* Steps that depend on the length are compared at the trained lengths. */
    const int32_t at[] = {p->a->original_context, p->b->original_context};
    const int64_t lengths[] = {1, at[0], (int64_t)at[0] + 1, at[1], (int64_t)at[1] + 1, context};
    size_t n = (size_t)(p->a->dims < p->b->dims ? p->a->dims : p->b->dims) / 2, step = 0;
    bool differs = p->a->dims != p->b->dims || !same(p->a->scale, p->b->scale);
    for (size_t i = 0; i < COUNT(lengths) && !differs; i++) {
        step = lengths[i] > 0 ? step_compare(p, lengths[i], n) : n;
        differs = step < n;
    }
    if (!differs)
        return;
    if (step >= n) /* only the scale, or the number of values */
        step = step_compare(p, 1, n) < n ? step_compare(p, 1, n) : 0;
    out->found = true;
    snprintf(out->field, sizeof(out->field), "%s", name);
    rope_text(p->a, p->x[step], out->left, sizeof(out->left));
    rope_text(p->b, p->y[step], out->right, sizeof(out->right));
}

static enum dgl_status ropes_compare(const struct dgl_log *log, const struct model_desc *a,
                                     const struct model_desc *b, struct desc_diff *out)
{
    bool used[ROPE_SETS] = {false};
    struct rope_pair p = {0};
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < a->layers; i++) {
        if (a->layer[i].rope != ROPE_NONE)
            used[a->layer[i].rope] = true;
    }
    for (int set = 0; set < ROPE_SETS && !out->found; set++) {
        if (!used[set])
            continue;
        free(p.x);
        free(p.y);
        p = (struct rope_pair){.a = &a->rope[set], .b = &b->rope[set]};
        p.x = dgl_new_array(double, (size_t)p.a->dims / 2);
        p.y = dgl_new_array(double, (size_t)p.b->dims / 2);
        if (!p.x || !p.y)
            TRY(dgl_fail_memory(log, "rotation", (uint64_t)p.a->dims * sizeof(double)));
        rope_compare(&p,
                     set == ROPE_LOCAL ? "rope_parameters of sliding_attention" : "rope_parameters",
                     a->context_max, out);
    }
done:
    free(p.x);
    free(p.y);
    return status;
}

enum dgl_status desc_diff_find(const struct dgl_log *log, const struct model_desc *left,
                               const struct model_desc *right, struct desc_diff *out)
{
    *out = (struct desc_diff){0};
    fields_compare(left, right, out);
    if (!out->found)
        head_compare(left, right, out);
    if (!out->found)
        parts_compare(left, right, out);
    for (int32_t i = 0; i < left->layers && !out->found; i++)
        layer_compare(&left->layer[i], &right->layer[i], i, out);
    return out->found ? DGL_OK : ropes_compare(log, left, right, out);
}
