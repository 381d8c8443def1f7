/* Reads hyperparameters from fields: sizes, activations, scales, experts, and properties of
 * layers. */
#include "loader/desc/model_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "loader/desc/config_check.h"

#define MIN_SCALE 1e-9
#define MAX_SCALE 1e9

/* Generous limits. A larger number is an error in the file. */
enum {
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_HEAD_DIM = 1024,
    MAX_WIDTH = 1 << 20,
    MAX_VOCAB = 1 << 21,
    MAX_CONTEXT = 1 << 27,
    MAX_EXPERTS = 4096,
    WIDTH_MULTIPLE = 4
};

/* quantization_config: MXFP4 expert matrices are recognized by their tensors (expert_view.h). Other
 * schemes are not supported. */
static enum dgl_status check_quantization(const struct config *c,
                                          const struct config_family *family)
{
    static const char *const fields[] = {"quantization_config", "compression_config"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), "%s.quant_method", fields[i]);
        struct dgl_str method = config_get(c, path).s;
        if (!FIELD_IS_SET(config_get(c, fields[i])) ||
            ((family->parts & PART_EXPERTS_GPT_OSS) && dgl_str_eq(method, "mxfp4")))
            continue;
        return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is \"%s\"; supported: checkpoints without %s, and gpt_oss with "
                        "mxfp4. Use the original checkpoint; `dopplergl convert --quantize` makes "
                        "it small",
                        c->fields->name, path, DGL_PRINTABLE_STR(method), fields[i]);
    }
    return DGL_OK;
}

/* Reads sizes. A missing field gets the default of the family. If the family has no default, the
 * field is required. */
static enum dgl_status read_sizes(const struct config *c, const struct config_family *family,
                                  struct model_desc *d)
{
    const struct {
        const char *field;
        int64_t min, max;
        int32_t fallback; /* 0 = required */
        int32_t *out;
    } sizes[] = {
        {"num_hidden_layers", 1, MAX_LAYERS, family->layers, &d->layers},
        {"hidden_size", 4, MAX_WIDTH, family->hidden, &d->hidden},
        {"intermediate_size", 4, MAX_WIDTH, family->intermediate, &d->intermediate},
        {"vocab_size", 1, MAX_VOCAB, family->vocab, &d->vocab},
        {"max_position_embeddings", 1, MAX_CONTEXT, family->context, &d->context_max},
        {"num_attention_heads", 1, MAX_HEADS, family->heads, &d->heads},
    };
    struct config_hit hit;
    enum dgl_status status;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int64_t value = sizes[i].fallback;
        TRY(value > 0 ? config_opt_i64(c, sizes[i].field, sizes[i].min, sizes[i].max, &value)
                      : config_need_i64(c, sizes[i].field, sizes[i].min, sizes[i].max, &value));
        *sizes[i].out = (int32_t)value;
    }

    /* Equal to the number of heads if the field is null, or missing in most families. */
    TRY(config_find(c, "num_key_value_heads", &hit));
    bool as_heads = hit.value.kind == FIELD_NULL || family->kv_heads == KV_AS_HEADS;
    int64_t kv_heads = as_heads ? d->heads : family->kv_heads;
    TRY(config_opt_i64(c, "num_key_value_heads", 1, MAX_HEADS, &kv_heads));
    TRY(config_find(c, "head_dim", &hit));
    bool split =
        hit.value.kind == FIELD_NULL || (hit.value.kind == FIELD_ABSENT && family->head_dim == 0);
    int64_t head_dim = split ? d->hidden / d->heads : family->head_dim;
    TRY(config_opt_i64(c, "head_dim", 2, MAX_HEAD_DIM, &head_dim));
    d->kv_heads = (int32_t)kv_heads;
    d->head_dim = (int32_t)head_dim;
    if (split && d->hidden % d->heads != 0)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s is %" PRId32 ", not a multiple of %s %" PRId32
                        ", and there is no %s",
                        c->fields->name, config_printable(c, "hidden_size").text, d->hidden,
                        config_printable(c, "num_attention_heads").text, d->heads,
                        config_printable(c, "head_dim").text);
done:
    return status;
}

/* Checks sizes that are valid alone, but not together. */
static enum dgl_status check_sizes(const struct config *c, const struct model_desc *d)
{
    const struct {
        const char *field;
        const char *times; /* the value is the product with this field, if not NULL */
        int64_t value, of;
    } multiples[] = {
        {"hidden_size", NULL, d->hidden, 4},
        {"intermediate_size", NULL, d->intermediate, 4},
        {"head_dim", NULL, d->head_dim, 2},
        {"num_key_value_heads", "head_dim", (int64_t)d->kv_heads * d->head_dim, 4},
    };
    if (d->heads % d->kv_heads != 0)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s is %" PRId32 ", not a multiple of %s %" PRId32, c->fields->name,
                        config_printable(c, "num_attention_heads").text, d->heads,
                        config_printable(c, "num_key_value_heads").text, d->kv_heads);
    for (size_t i = 0; i < sizeof(multiples) / sizeof(multiples[0]); i++) {
        if (multiples[i].value % multiples[i].of != 0)
            return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                            "%s: %s%s%s is %" PRId64 "; supported: multiples of %" PRId64,
                            c->fields->name, config_printable(c, multiples[i].field).text,
                            multiples[i].times ? " * " : "",
                            multiples[i].times ? config_printable(c, multiples[i].times).text : "",
                            multiples[i].value, multiples[i].of);
    }
    return DGL_OK;
}

static enum dgl_status read_norms(const struct config *c, const struct config_family *family,
                                  struct model_desc *d)
{
    d->norm_eps = family->norm_eps;
    d->norm_plus_one = family->norm_plus_one;
    d->tied_head = family->tied_head;
    enum dgl_status status = config_opt_f64(c, "rms_norm_eps", 1e-30, 1.0, &d->norm_eps);
    return status == DGL_OK ? config_opt_bool(c, "tie_word_embeddings", &d->tied_head) : status;
}

/* GPT-OSS writes "silu" for its clamped variant. */
static enum dgl_status read_act(const struct config *c, const struct config_family *family,
                                struct model_desc *d)
{
    static const struct {
        const char *name;
        enum model_act act;
    } names[] = {
        {"silu", MODEL_ACT_SILU},
        {"swish", MODEL_ACT_SILU},
        {"gelu_pytorch_tanh", MODEL_ACT_GELU_TANH},
        {"gelu_new", MODEL_ACT_GELU_TANH},
    };
    struct config_hit hit;
    bool clamp = family->act == MODEL_ACT_SWIGLU_CLAMP;
    enum dgl_status status = config_find(c, "hidden_act", &hit);
    bool known = !FIELD_IS_SET(hit.value);
    d->act = family->act;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!dgl_str_eq(hit.value.s, names[i].name) || (clamp && names[i].act != MODEL_ACT_SILU))
            continue;
        known = true;
        if (!clamp)
            d->act = names[i].act;
    }
    if (status == DGL_OK && !known)
        return config_refuse(c, hit.path, &hit.value,
                             clamp ? "\"silu\"" : "\"silu\", \"gelu_pytorch_tanh\"");
    if (status != DGL_OK || !clamp)
        return status;
    d->act_alpha = 1.702;
    d->act_limit = 7.0;
    status = config_opt_f64(c, "swiglu_alpha", MIN_SCALE, MAX_SCALE, &d->act_alpha);
    return status == DGL_OK ? config_opt_f64(c, "swiglu_limit", MIN_SCALE, MAX_SCALE, &d->act_limit)
                            : status;
}

/* null disables a cap. A missing field means the default of the family. */
static enum dgl_status read_cap(const struct config *c, const char *field, double fallback,
                                double *out)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    *out = hit.value.kind == FIELD_NULL ? 0.0 : fallback;
    return status == DGL_OK ? config_opt_f64(c, field, MIN_SCALE, MAX_SCALE, out) : status;
}

static enum dgl_status read_scales(const struct config *c, const struct config_family *family,
                                   struct model_desc *d)
{
    enum dgl_status status = DGL_OK;
    d->attn_scale = 1.0 / sqrt((double)d->head_dim);
    d->embed_scale = d->residual_scale = d->logit_scale = 1.0;
    if (family->embed_sqrt) /* Hugging Face stores it as a float */
        d->embed_scale = (double)sqrtf((float)d->hidden);
    if (family->query_scalar > 0) {
        double scalar = family->query_scalar;
        TRY(config_opt_f64(c, "query_pre_attn_scalar", MIN_SCALE, MAX_SCALE, &scalar));
        if (family->attn_softcap > 0)
            TRY(read_cap(c, "attn_logit_softcapping", family->attn_softcap, &d->attn_softcap));
        TRY(read_cap(c, "final_logit_softcapping", family->logit_softcap, &d->logit_softcap));
        d->attn_scale = 1.0 / sqrt(scalar);
        /* Hugging Face's class for such checkpoints does not apply it. */
        if ((d->parts & PART_OTHER_MODES) && d->logit_softcap != 0) {
            struct field cap = config_get(c, "final_logit_softcapping");
            return config_refuse(c, "final_logit_softcapping", &cap, "null");
        }
    } else if (family->bit & FAMILY_GRANITE) {
        /* Granite multiplies everywhere, but divides its logits. The default of its attention
         * multiplier is 1, unlike in other families. */
        double divisor = 1.0;
        d->attn_scale = 1.0;
        TRY(config_opt_f64(c, "attention_multiplier", MIN_SCALE, MAX_SCALE, &d->attn_scale));
        TRY(config_opt_f64(c, "embedding_multiplier", MIN_SCALE, MAX_SCALE, &d->embed_scale));
        TRY(config_opt_f64(c, "residual_multiplier", MIN_SCALE, MAX_SCALE, &d->residual_scale));
        TRY(config_opt_f64(c, "logits_scaling", MIN_SCALE, MAX_SCALE, &divisor));
        d->logit_scale = 1.0 / divisor;
    }
done:
    return status;
}

static enum dgl_status read_biases(const struct config *c, const struct config_family *family,
                                   struct model_desc *d)
{
    bool attn = family->attn_bias, mlp = false;
    enum dgl_status status = config_opt_bool(c, "attention_bias", &attn);
    if (status == DGL_OK)
        status = config_opt_bool(c, "mlp_bias", &mlp);
    if (attn)
        d->parts |= PART_QKV_BIAS | PART_O_BIAS;
    if (mlp)
        d->parts |= PART_MLP_BIAS;
    return status;
}

/* Reads the number of experts and how they are selected. */
static enum dgl_status read_experts(const struct config *c, const struct config_family *family,
                                    struct model_desc *out)
{
    int64_t experts = family->experts, top_k = family->top_k, width = family->moe_intermediate;
    bool norm = false;
    if (family->experts == 0)
        return DGL_OK;
    enum dgl_status status;
    TRY(config_opt_i64(c, "num_experts", 1, MAX_EXPERTS, &experts));
    TRY(config_opt_i64(c, "num_experts_per_tok", 1, MAX_EXPERTS, &top_k));
    if (width > 0)
        TRY(config_opt_i64(c, "moe_intermediate_size", 4, MAX_WIDTH, &width));
    if (family->scoring == MOE_SOFTMAX_TOPK)
        TRY(config_opt_bool(c, "norm_topk_prob", &norm));
    if (top_k > experts)
        return dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s is %" PRId64 ", but %s is %" PRId64,
                        c->fields->name, config_printable(c, "num_experts_per_tok").text, top_k,
                        config_printable(c, "num_experts").text, experts);
    if (width % WIDTH_MULTIPLE != 0)
        return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is %" PRId64 "; supported: multiples of %d", c->fields->name,
                        config_printable(c, "moe_intermediate_size").text, width, WIDTH_MULTIPLE);
    out->moe = (struct moe_desc){.experts = (int32_t)experts,
                                 .top_k = (int32_t)top_k,
                                 .intermediate = width > 0 ? (int32_t)width : out->intermediate,
                                 .scoring = norm ? MOE_SOFTMAX_TOPK_NORM : family->scoring};
done:
    return status;
}

/* ---- what differs from layer to layer -------------------------------------------------------- */

/* no_rope_layers: 1 for a layer with rotation, 0 for a layer without. */
static enum dgl_status read_no_rope(const struct config *c, const struct config_family *family,
                                    struct model_desc *d)
{
    struct field list;
    int64_t interval = 4;
    if (!(family->bit & FAMILY_SMOLLM3))
        return DGL_OK;
    enum dgl_status status = config_opt_i64(c, "no_rope_layer_interval", 1, INT32_MAX, &interval);
    if (status == DGL_OK)
        status = config_opt_list(c, "no_rope_layers", &list);
    if (status != DGL_OK)
        return status;
    if (FIELD_IS_SET(list) && list.count != (size_t)d->layers)
        return config_fail(c, "no_rope_layers", "%zu entries, but %s is %" PRId32, list.count,
                           config_printable(c, "num_hidden_layers").text, d->layers);
    struct field v = field_first(&list);
    for (int32_t i = 0; i < d->layers; i++, v = field_next(&v)) {
        bool rotates = FIELD_IS_SET(list) ? v.i == 1 : (i + 1) % interval != 0;
        if (FIELD_IS_SET(list) && (v.kind != FIELD_INT || v.i < 0 || v.i > 1)) {
            char path[48];
            snprintf(path, sizeof(path), "no_rope_layers[%" PRId32 "]", i);
            return config_fail(c, path, "neither 0 nor 1");
        }
        d->layer[i].rope = rotates ? ROPE_GLOBAL : ROPE_NONE;
    }
    return DGL_OK;
}

/* layer_types overrides any rule. */
static enum dgl_status read_windows(const struct config *c, const struct config_family *family,
                                    struct model_desc *d)
{
    bool on = !family->window_switch, allowed = family->window_rule != WINDOW_NEVER;
    int64_t size = allowed ? family->window : 0; /* 0 means no window */
    int64_t from = 28, pattern = family->window_pattern;
    struct config_hit hit;
    struct field types;
    enum dgl_status status;
    if (allowed) {
        if (family->window_switch)
            TRY(config_opt_bool(c, "use_sliding_window", &on));
        TRY(config_find(c, "sliding_window", &hit));
        if (hit.value.kind == FIELD_NULL)
            size = 0;
        TRY(config_opt_i64(c, "sliding_window", 1, INT32_MAX, &size));
        if (family->window_rule == WINDOW_FROM)
            TRY(config_opt_i64(c, "max_window_layers", 0, INT32_MAX, &from));
        if (family->bit & FAMILY_GEMMA3)
            TRY(config_opt_i64(c, "sliding_window_pattern", 1, INT32_MAX, &pattern));
        if (!on)
            size = 0;
    }
    TRY(config_opt_list(c, "layer_types", &types));
    if (FIELD_IS_SET(types) && types.count != (size_t)d->layers)
        return config_fail(c, "layer_types", "%zu entries, but %s is %" PRId32, types.count,
                           config_printable(c, "num_hidden_layers").text, d->layers);
    struct field type = field_first(&types);
    for (int32_t i = 0; i < d->layers; i++, type = field_next(&type)) {
        struct layer_desc *l = &d->layer[i];
        bool window = family->window_rule == WINDOW_PATTERN
                          ? (i + 1) % pattern != 0
                          : size > 0 && (family->window_rule != WINDOW_FROM || i >= from) &&
                                (family->window_rule != WINDOW_NO_ROPE || l->rope == ROPE_NONE);
        if (FIELD_IS_SET(types)) {
            char path[48];
            window = dgl_str_eq(type.s, "sliding_attention");
            snprintf(path, sizeof(path), "layer_types[%" PRId32 "]", i);
            if (!dgl_str_eq(type.s, "full_attention") && !(window && allowed))
                return config_refuse(c, path, &type,
                                     allowed ? "\"full_attention\", \"sliding_attention\""
                                             : "\"full_attention\"");
        }
        if (window && size == 0)
            return dgl_fail(c->log, DGL_ERR_FORMAT,
                            "%s: layer %" PRId32
                            " is a sliding_attention layer, but %s is null or switched off",
                            c->fields->name, i, config_printable(c, "sliding_window").text);
        /* A window as long as the longest text has no effect. Phi-3.5 writes twice the context. */
        if (window && size < d->context_max)
            l->window = (int32_t)size;
        /* Layers with a window use the local theta. */
        if (window && family->local_theta > 0)
            l->rope = ROPE_LOCAL;
    }
done:
    return status;
}

/* Finds the layers with experts. Layers in mlp_only_layers are dense, regardless of
 * decoder_sparse_step. */
static enum dgl_status read_sparse(const struct config *c, const struct config_family *family,
                                   struct model_desc *out)
{
    int64_t step = 1;
    struct field dense = {0};
    enum dgl_status status = DGL_OK;
    if (family->experts == 0)
        return DGL_OK;
    if (family->bit & FAMILY_QWEN3_MOE) {
        TRY(config_opt_i64(c, "decoder_sparse_step", 1, INT32_MAX, &step));
        TRY(config_opt_list(c, "mlp_only_layers", &dense));
    }
    for (int32_t i = 0; i < out->layers; i++)
        out->layer[i].sparse = (i + 1) % step == 0;
    size_t i = 0;
    for (struct field v = field_first(&dense); v.kind != FIELD_ABSENT; v = field_next(&v), i++) {
        if (v.kind != FIELD_INT || v.i < 0 || v.i >= out->layers) {
            char path[48];
            snprintf(path, sizeof(path), "mlp_only_layers[%zu]", i);
            return config_fail(c, path, "not a layer below %s %" PRId32,
                               config_printable(c, "num_hidden_layers").text, out->layers);
        }
        out->layer[v.i].sparse = false;
    }
done:
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum dgl_status model_config_read(const struct config *c, struct model_desc *out)
{
    typedef enum dgl_status step(const struct config *, const struct config_family *,
                                 struct model_desc *);
    /* These steps need the sizes. read_windows needs the layers without rotation, read_sparse the
     * experts. */
    static step *const steps[] = {read_norms,   read_act,         read_scales,
                                  read_biases,  config_rope_read, read_experts,
                                  read_no_rope, read_windows,     read_sparse};
    const struct config_family *family = NULL;
    struct config inner;
    struct config_hit dtype;
    enum dgl_status status;
    TRY(config_family_read(c, &inner, &family));
    bool nested = inner.prefix;
    TRY(check_quantization(c, family));
    TRY(check_quantization(&inner, family));
    /* Tensors have their own types. But if two names for dtype disagree, two configs were mixed
     * up. */
    TRY(config_find(c, "dtype", &dtype));
    TRY(config_find(&inner, "dtype", &dtype));
    snprintf(out->family, sizeof(out->family), "%s", family->model_type);
    out->parts = family->parts | (nested ? PART_OTHER_MODES : 0);
    TRY(read_sizes(&inner, family, out));
    TRY(check_sizes(&inner, out));
    TRY(model_layers_create(c->log, out));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        TRY(steps[i](&inner, family, out));
    if (nested)
        TRY(config_check_fields(c, FAMILY_OUTER));
    status = config_check_fields(&inner, family->bit);
done:
    return status;
}
