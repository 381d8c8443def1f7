/* config.json -> hyperparameters: families, values that are implemented, ranges as a set. */
#include "loader/model_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/config_check.h"

/* Generous limits: beyond them a number is damage, not a model. */
enum {
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_HEAD_DIM = 1024,
    MAX_WIDTH = 1 << 20,
    MAX_VOCAB = 1 << 21,
    MAX_CONTEXT = 1 << 27,
};

/* What an absent field means differs by family, as in Hugging Face's configuration classes. */
struct family {
    const char *model_type;
    bool kv_heads_required; /* absent: as many as heads, unless required */
    bool window_required;   /* an absent sliding_window is a window: it must be there and null */
};

static const struct family families[] = {
    {"llama", false, false},
    {"mistral", true, true},
};
#define FAMILY_NAMES "\"llama\", \"mistral\""

static enum dgl_status read_family(const struct config *c, const struct family **out)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, "model_type", &hit);
    if (st != DGL_OK)
        return st;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (dgl_str_eq(dgl_json_str(hit.value), families[i].model_type)) {
            *out = &families[i];
            return DGL_OK;
        }
    }
    return config_refuse(c, "model_type", hit.value, FAMILY_NAMES);
}

/* Schemes whose weights are not plain numbers; they would otherwise fail later with a less
 * helpful message. */
static enum dgl_status refuse_quantized(const struct config *c)
{
    static const char *const fields[] = {"quantization_config", "compression_config"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct dgl_json *q = dgl_json_get(c->root, fields[i]);
        if (!q || dgl_json_is(q, DGL_JSON_NULL))
            continue;
        struct dgl_str method = dgl_json_str(dgl_json_get(q, "quant_method"));
        return dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED,
                        "%s: %s.quant_method is \"%.*s\"; supported: checkpoints without %s. Use "
                        "the original checkpoint; `dopplergl convert --quantize` makes it small",
                        dgl_json_name(c->r.doc), fields[i], (int)method.len,
                        method.p ? method.p : "", fields[i]);
    }
    return DGL_OK;
}

static enum dgl_status read_sizes(const struct config *c, const struct family *family,
                                  struct model_desc *d)
{
    int64_t layers = 0, hidden = 0, inter = 0, vocab = 0, context = 0, heads = 0;
    enum dgl_status st = config_need_i64(c, "num_hidden_layers", 1, MAX_LAYERS, &layers);
    if (st == DGL_OK)
        st = config_need_i64(c, "hidden_size", 4, MAX_WIDTH, &hidden);
    if (st == DGL_OK)
        st = config_need_i64(c, "intermediate_size", 4, MAX_WIDTH, &inter);
    if (st == DGL_OK)
        st = config_need_i64(c, "vocab_size", 1, MAX_VOCAB, &vocab);
    if (st == DGL_OK)
        st = config_need_i64(c, "max_position_embeddings", 1, MAX_CONTEXT, &context);
    if (st == DGL_OK)
        st = config_need_i64(c, "num_attention_heads", 1, MAX_HEADS, &heads);
    if (st != DGL_OK)
        return st;
    int64_t kv_heads = heads, head_dim = hidden / heads;
    st = family->kv_heads_required
             ? config_need_i64(c, "num_key_value_heads", 1, MAX_HEADS, &kv_heads)
             : config_opt_i64(c, "num_key_value_heads", 1, MAX_HEADS, &kv_heads);
    if (st == DGL_OK)
        st = config_opt_i64(c, "head_dim", 2, MAX_HEAD_DIM, &head_dim);
    if (st != DGL_OK)
        return st;
    d->layers = (int32_t)layers;
    d->hidden = (int32_t)hidden;
    d->intermediate = (int32_t)inter;
    d->vocab = (int32_t)vocab;
    d->context_max = (int32_t)context;
    d->heads = (int32_t)heads;
    d->kv_heads = (int32_t)kv_heads;
    d->head_dim = (int32_t)head_dim;
    return DGL_OK;
}

struct multiple {
    const char *field;
    int64_t value, of;
};

/* Numbers that are fine alone and wrong together. */
static enum dgl_status check_sizes(const struct config *c, const struct model_desc *d)
{
    const char *file = dgl_json_name(c->r.doc);
    if (d->heads % d->kv_heads != 0)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT,
                        "%s: num_attention_heads is %" PRId32
                        ", not a multiple of num_key_value_heads %" PRId32,
                        file, d->heads, d->kv_heads);
    struct config_hit head_dim;
    enum dgl_status st = config_find(c, "head_dim", &head_dim);
    if (st != DGL_OK)
        return st;
    if (!head_dim.value && d->hidden % d->heads != 0)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT,
                        "%s: hidden_size is %" PRId32
                        ", not a multiple of num_attention_heads %" PRId32
                        ", and there is no head_dim",
                        file, d->hidden, d->heads);
    const struct multiple multiples[] = {
        {"hidden_size", d->hidden, 4},
        {"intermediate_size", d->intermediate, 4},
        {"head_dim", d->head_dim, 2},
        {"num_key_value_heads * head_dim", (int64_t)d->kv_heads * d->head_dim, 4},
    };
    for (size_t i = 0; i < sizeof(multiples) / sizeof(multiples[0]); i++) {
        const struct multiple *m = &multiples[i];
        if (m->value % m->of != 0)
            return dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED,
                            "%s: %s is %" PRId64 "; supported: multiples of %" PRId64, file,
                            m->field, m->value, m->of);
    }
    return DGL_OK;
}

static enum dgl_status read_act(const struct config *c, struct model_desc *d)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, "hidden_act", &hit);
    if (st != DGL_OK)
        return st;
    d->act = MODEL_ACT_SILU; /* also what an absent field means in these families */
    if (!hit.value || dgl_str_eq(dgl_json_str(hit.value), "silu") ||
        dgl_str_eq(dgl_json_str(hit.value), "swish"))
        return DGL_OK;
    return config_refuse(c, hit.path, hit.value, "\"silu\"");
}

/* `*_scaling: {}` and `rope_type: "default"` both mean plain rotary embedding. */
static enum dgl_status read_rope(const struct config *c, struct model_desc *d)
{
    struct config_hit type;
    enum dgl_status st = config_find(c, "rope_type", &type);
    if (st != DGL_OK)
        return st;
    if (type.value && !dgl_str_eq(dgl_json_str(type.value), "default"))
        return config_refuse(c, type.path, type.value, "\"default\"");
    const struct dgl_json *scaling = dgl_json_get(c->root, "rope_scaling");
    if (!type.value && dgl_json_count(scaling) > 0)
        return config_refuse(c, "rope_scaling", scaling, "null, or rope_type \"default\"");
    d->rope = (struct rope_desc){ROPE_DEFAULT, 10000.0, d->head_dim, 1.0};
    return config_opt_f64(c, "rope_theta", 1e-3, 1e15, &d->rope.theta);
}

static enum dgl_status check_layer_types(const struct config *c, const struct model_desc *d)
{
    const struct dgl_json *types;
    enum dgl_status st = dgl_json_opt(c->r, c->root, "layer_types", DGL_JSON_ARRAY, &types);
    if (st != DGL_OK || !types)
        return st;
    if (dgl_json_count(types) != (size_t)d->layers)
        return dgl_json_fail(c->r, types, "%zu entries, but num_hidden_layers is %" PRId32,
                             dgl_json_count(types), d->layers);
    int i = 0;
    for (const struct dgl_json *t = dgl_json_first(types); t; t = dgl_json_next(t), i++) {
        char path[32];
        snprintf(path, sizeof(path), "layer_types[%d]", i);
        if (!dgl_str_eq(dgl_json_str(t), "full_attention"))
            return config_refuse(c, path, t, "\"full_attention\"");
    }
    return DGL_OK;
}

/* Hugging Face's default is a window, so silence is not consent. */
static enum dgl_status check_window(const struct config *c, const struct family *family)
{
    if (family->window_required && !dgl_json_get(c->root, "sliding_window"))
        return config_refuse(c, "sliding_window", NULL,
                             "null, written out (left out, this model_type has a window)");
    return DGL_OK;
}

enum dgl_status model_config_read(const struct config *c, struct model_desc *out)
{
    const struct family *family = NULL;
    enum dgl_status st = refuse_quantized(c);
    if (st == DGL_OK)
        st = read_family(c, &family);
    if (st != DGL_OK)
        return st;
    snprintf(out->family, sizeof(out->family), "%s", family->model_type);
    st = read_sizes(c, family, out);
    if (st == DGL_OK)
        st = check_sizes(c, out);
    if (st == DGL_OK)
        st = config_need_f64(c, "rms_norm_eps", 1e-30, 1.0, &out->norm_eps);
    if (st == DGL_OK)
        st = read_act(c, out);
    if (st == DGL_OK)
        st = read_rope(c, out);
    if (st == DGL_OK)
        st = check_layer_types(c, out);
    if (st == DGL_OK)
        st = check_window(c, family);
    if (st == DGL_OK)
        st = config_check_fields(c);
    if (st == DGL_OK)
        st = config_opt_bool(c, "tie_word_embeddings", &out->tied_head);
    out->attn_scale = 1.0 / sqrt((double)out->head_dim);
    return st;
}
