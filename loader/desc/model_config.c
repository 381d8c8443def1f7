/* config.json -> hyperparameters: sizes, activations, scales, and the order of the other steps. */
#include "loader/desc/model_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "loader/desc/config_check.h"

#define MIN_SCALE 1e-9
#define MAX_SCALE 1e9

/* Generous limits: beyond them a number is damage, not a model. */
enum {
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_HEAD_DIM = 1024,
    MAX_WIDTH = 1 << 20,
    MAX_VOCAB = 1 << 21,
    MAX_CONTEXT = 1 << 27,
};

/* A size of the model: absent, it is the family's; families without one demand it. */
struct size_field {
    const char *field;
    int64_t min, max;
    int32_t fallback; /* 0 = required */
    int32_t *out;
};

static enum dgl_status read_size(const struct config *c, const struct size_field *f)
{
    int64_t value = f->fallback;
    enum dgl_status st = f->fallback > 0 ? config_opt_i64(c, f->field, f->min, f->max, &value)
                                         : config_need_i64(c, f->field, f->min, f->max, &value);
    *f->out = (int32_t)value;
    return st;
}

/* As many as heads when the file says null, or says nothing in most families. */
static enum dgl_status read_kv_heads(const struct config *c, const struct config_family *family,
                                     struct model_desc *d)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, "num_key_value_heads", &hit);
    if (st != DGL_OK)
        return st;
    int64_t value = hit.is_null || family->kv_heads == KV_AS_HEADS ? d->heads : family->kv_heads;
    st = config_opt_i64(c, "num_key_value_heads", 1, MAX_HEADS, &value);
    d->kv_heads = (int32_t)value;
    return st;
}

static enum dgl_status read_head_dim(const struct config *c, const struct config_family *family,
                                     struct model_desc *d)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, "head_dim", &hit);
    if (st != DGL_OK)
        return st;
    bool split = !hit.value && (hit.is_null || family->head_dim == 0);
    int64_t value = split ? d->hidden / d->heads : family->head_dim;
    st = config_opt_i64(c, "head_dim", 2, MAX_HEAD_DIM, &value);
    d->head_dim = (int32_t)value;
    if (st == DGL_OK && split && d->hidden % d->heads != 0)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT,
                        "%s: %s is %" PRId32 ", not a multiple of %s %" PRId32
                        ", and there is no %s",
                        dgl_json_name(c->r.doc), config_shown(c, "hidden_size").text, d->hidden,
                        config_shown(c, "num_attention_heads").text, d->heads,
                        config_shown(c, "head_dim").text);
    return st;
}

static enum dgl_status read_sizes(const struct config *c, const struct config_family *family,
                                  struct model_desc *d)
{
    const struct size_field sizes[] = {
        {"num_hidden_layers", 1, MAX_LAYERS, family->layers, &d->layers},
        {"hidden_size", 4, MAX_WIDTH, family->hidden, &d->hidden},
        {"intermediate_size", 4, MAX_WIDTH, family->intermediate, &d->intermediate},
        {"vocab_size", 1, MAX_VOCAB, family->vocab, &d->vocab},
        {"max_position_embeddings", 1, MAX_CONTEXT, family->context, &d->context_max},
        {"num_attention_heads", 1, MAX_HEADS, family->heads, &d->heads},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        enum dgl_status st = read_size(c, &sizes[i]);
        if (st != DGL_OK)
            return st;
    }
    enum dgl_status st = read_kv_heads(c, family, d);
    return st == DGL_OK ? read_head_dim(c, family, d) : st;
}

struct multiple {
    const char *field;
    const char *times; /* a second field, the value is their product; NULL = none */
    int64_t value, of;
};

static enum dgl_status check_multiple(const struct config *c, const struct multiple *m)
{
    if (m->value % m->of == 0)
        return DGL_OK;
    return dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED,
                    "%s: %s%s%s is %" PRId64 "; supported: multiples of %" PRId64,
                    dgl_json_name(c->r.doc), config_shown(c, m->field).text, m->times ? " * " : "",
                    m->times ? config_shown(c, m->times).text : "", m->value, m->of);
}

/* Numbers that are fine alone and wrong together. */
static enum dgl_status check_sizes(const struct config *c, const struct model_desc *d)
{
    const char *file = dgl_json_name(c->r.doc);
    if (d->heads % d->kv_heads != 0)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT,
                        "%s: %s is %" PRId32 ", not a multiple of %s %" PRId32, file,
                        config_shown(c, "num_attention_heads").text, d->heads,
                        config_shown(c, "num_key_value_heads").text, d->kv_heads);
    const struct multiple multiples[] = {
        {"hidden_size", NULL, d->hidden, 4},
        {"intermediate_size", NULL, d->intermediate, 4},
        {"head_dim", NULL, d->head_dim, 2},
        {"num_key_value_heads", "head_dim", (int64_t)d->kv_heads * d->head_dim, 4},
    };
    enum dgl_status st = DGL_OK;
    for (size_t i = 0; i < sizeof(multiples) / sizeof(multiples[0]) && st == DGL_OK; i++)
        st = check_multiple(c, &multiples[i]);
    return st;
}

struct act_name {
    const char *name;
    enum model_act act;
};

static const struct act_name act_names[] = {
    {"silu", MODEL_ACT_SILU},
    {"swish", MODEL_ACT_SILU},
    {"gelu_pytorch_tanh", MODEL_ACT_GELU_TANH},
    {"gelu_new", MODEL_ACT_GELU_TANH},
};

/* GPT-OSS writes "silu" for its clamped variant. */
static enum dgl_status read_act(const struct config *c, const struct config_family *family,
                                struct model_desc *d)
{
    struct config_hit hit;
    bool clamp = family->act == MODEL_ACT_SWIGLU_CLAMP;
    enum dgl_status st = config_find(c, "hidden_act", &hit);
    d->act = family->act;
    if (st != DGL_OK || !hit.value)
        return st;
    for (size_t i = 0; i < sizeof(act_names) / sizeof(act_names[0]); i++) {
        if (!dgl_str_eq(dgl_json_str(hit.value), act_names[i].name) ||
            (clamp && act_names[i].act != MODEL_ACT_SILU))
            continue;
        if (!clamp)
            d->act = act_names[i].act;
        return DGL_OK;
    }
    return config_refuse(c, hit.path, hit.value,
                         clamp ? "\"silu\"" : "\"silu\", \"gelu_pytorch_tanh\"");
}

static enum dgl_status read_clamp(const struct config *c, struct model_desc *d)
{
    if (d->act != MODEL_ACT_SWIGLU_CLAMP)
        return DGL_OK;
    d->act_alpha = 1.702;
    d->act_limit = 7.0;
    enum dgl_status st = config_opt_f64(c, "swiglu_alpha", MIN_SCALE, MAX_SCALE, &d->act_alpha);
    return st == DGL_OK ? config_opt_f64(c, "swiglu_limit", MIN_SCALE, MAX_SCALE, &d->act_limit)
                        : st;
}

/* null switches a cap off, absent means the family's. */
static enum dgl_status read_cap(const struct config *c, const char *field, double fallback,
                                double *out)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, field, &hit);
    if (st != DGL_OK)
        return st;
    *out = hit.is_null ? 0.0 : fallback;
    return config_opt_f64(c, field, MIN_SCALE, MAX_SCALE, out);
}

static enum dgl_status read_gemma_scales(const struct config *c, const struct config_family *family,
                                         struct model_desc *d)
{
    double scalar = family->query_scalar;
    enum dgl_status st = config_opt_f64(c, "query_pre_attn_scalar", MIN_SCALE, MAX_SCALE, &scalar);
    if (st == DGL_OK && family->attn_softcap > 0)
        st = read_cap(c, "attn_logit_softcapping", family->attn_softcap, &d->attn_softcap);
    if (st == DGL_OK)
        st = read_cap(c, "final_logit_softcapping", family->logit_softcap, &d->logit_softcap);
    d->attn_scale = 1.0 / sqrt(scalar);
    /* Hugging Face's class for such checkpoints does not apply it. */
    if (st == DGL_OK && (d->parts & PART_OTHER_MODES) && d->logit_softcap != 0)
        return config_refuse(c, "final_logit_softcapping",
                             dgl_json_get(c->root, "final_logit_softcapping"), "null");
    return st;
}

/* Granite multiplies everywhere, but divides its logits; unlike in other families, the default of
 * attention's multiplier is 1. */
static enum dgl_status read_granite_scales(const struct config *c, struct model_desc *d)
{
    double divisor = 1.0;
    d->attn_scale = 1.0;
    enum dgl_status st =
        config_opt_f64(c, "attention_multiplier", MIN_SCALE, MAX_SCALE, &d->attn_scale);
    if (st == DGL_OK)
        st = config_opt_f64(c, "embedding_multiplier", MIN_SCALE, MAX_SCALE, &d->embed_scale);
    if (st == DGL_OK)
        st = config_opt_f64(c, "residual_multiplier", MIN_SCALE, MAX_SCALE, &d->residual_scale);
    if (st == DGL_OK)
        st = config_opt_f64(c, "logits_scaling", MIN_SCALE, MAX_SCALE, &divisor);
    d->logit_scale = 1.0 / divisor;
    return st;
}

static enum dgl_status read_scales(const struct config *c, const struct config_family *family,
                                   struct model_desc *d)
{
    d->attn_scale = 1.0 / sqrt((double)d->head_dim);
    d->embed_scale = d->residual_scale = d->logit_scale = 1.0;
    if (family->embed_sqrt) /* Hugging Face keeps it in a float */
        d->embed_scale = (double)sqrtf((float)d->hidden);
    if (family->query_scalar > 0)
        return read_gemma_scales(c, family, d);
    return family->bit & FAMILY_GRANITE ? read_granite_scales(c, d) : DGL_OK;
}

static enum dgl_status read_biases(const struct config *c, const struct config_family *family,
                                   struct model_desc *d)
{
    bool attn = family->attn_bias, mlp = false;
    enum dgl_status st = config_opt_bool(c, "attention_bias", &attn);
    if (st == DGL_OK)
        st = config_opt_bool(c, "mlp_bias", &mlp);
    if (attn)
        d->parts |= PART_QKV_BIAS | PART_O_BIAS;
    if (mlp)
        d->parts |= PART_MLP_BIAS;
    return st;
}

static enum dgl_status read_norms(const struct config *c, const struct config_family *family,
                                  struct model_desc *d)
{
    d->norm_eps = family->norm_eps;
    d->norm_plus_one = family->norm_plus_one;
    d->tied_head = family->tied_head;
    enum dgl_status st = config_opt_f64(c, "rms_norm_eps", 1e-30, 1.0, &d->norm_eps);
    return st == DGL_OK ? config_opt_bool(c, "tie_word_embeddings", &d->tied_head) : st;
}

/* The steps that only need sizes, in any order. */
static enum dgl_status read_behaviour(const struct config *c, const struct config_family *family,
                                      struct model_desc *out)
{
    enum dgl_status st = read_norms(c, family, out);
    if (st == DGL_OK)
        st = read_act(c, family, out);
    if (st == DGL_OK)
        st = read_clamp(c, out);
    if (st == DGL_OK)
        st = read_scales(c, family, out);
    if (st == DGL_OK)
        st = read_biases(c, family, out);
    if (st == DGL_OK)
        st = config_rope_read(c, family, out);
    if (st == DGL_OK)
        st = config_moe_read(c, family, out);
    return st == DGL_OK ? config_layers_read(c, family, out) : st;
}

enum dgl_status model_config_read(const struct config *c, struct model_desc *out)
{
    const struct config_family *family = NULL;
    struct config inner;
    enum dgl_status st = config_family_read(c, &inner, &family);
    if (st == DGL_OK)
        st = config_quant_check(c, family);
    if (st == DGL_OK && inner.root != c->root)
        st = config_quant_check(&inner, family);
    if (st != DGL_OK)
        return st;
    snprintf(out->family, sizeof(out->family), "%s", family->model_type);
    out->parts = family->parts | (inner.root != c->root ? PART_OTHER_MODES : 0);
    st = read_sizes(&inner, family, out);
    if (st == DGL_OK)
        st = check_sizes(&inner, out);
    if (st == DGL_OK)
        st = model_layers_create(c->r.log, out);
    if (st == DGL_OK)
        st = read_behaviour(&inner, family, out);
    if (st == DGL_OK && inner.root != c->root)
        st = config_check_fields(c, FAMILY_OUTER);
    return st == DGL_OK ? config_check_fields(&inner, family->bit) : st;
}
