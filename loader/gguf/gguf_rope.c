/* Rotary embedding: keys below rope., and the tensors that hold factors per frequency. */
#include "loader/gguf/gguf_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/gguf/gguf_keys.h"

#define ROPE_FREQS         "rope_freqs.weight"
#define ROPE_FACTORS_LONG  "rope_factors_long.weight"
#define ROPE_FACTORS_SHORT "rope_factors_short.weight"

enum { MAX_CONTEXT = 1 << 27 };

struct rope_writer {
    const struct dgl_log *log;
    const struct gguf_model *m;
    struct dgl_json_writer *w;
    int64_t dims, context;
    double theta;
    struct dgl_str type; /* of scaling; empty = not said */
    double factor;       /* 0 = not said */
};

static void put_f64(struct rope_writer *r, const char *key, double value)
{
    dgl_jw_key(r->w, key);
    dgl_jw_f64(r->w, value);
}

/* [dims/2] factors; NULL in *out when the tensor is absent. */
static enum dgl_status factors_read(struct rope_writer *r, const char *name, float **out)
{
    long index = tensor_source_find(r->m->raw, name);
    *out = NULL;
    if (index < 0)
        return DGL_OK;
    const struct tensor_info *t = tensor_source_at(r->m->raw, (size_t)index);
    char shape[TENSOR_SHAPE_TEXT];
    if (t->dtype != DGL_F32 || t->rank != 1 || t->shape[0] != (uint64_t)r->dims / 2)
        return dgl_fail(r->log, DGL_ERR_FORMAT,
                        "%s: tensor %s is %s %s, wanted f32 [%" PRId64 "], half of the rotated "
                        "values",
                        r->m->file->name, name, dgl_dtype_get(t->dtype)->name,
                        tensor_shape_str(t->rank, t->shape, shape), r->dims / 2);
    float *factors = dgl_new_array(float, t->shape[0]);
    if (!factors)
        return dgl_fail_memory(r->log, name, t->bytes);
    enum dgl_status st =
        tensor_source_read(r->log, r->m->raw, (size_t)index, 0, factors, (size_t)t->bytes);
    for (uint64_t i = 0; i < t->shape[0] && st == DGL_OK; i++) {
        if (!isfinite(factors[i]) || factors[i] <= 0)
            st = dgl_fail(r->log, DGL_ERR_FORMAT,
                          "%s: value %" PRIu64 " of tensor %s is %g, wanted a positive factor",
                          r->m->file->name, i, name, (double)factors[i]);
    }
    if (st != DGL_OK) {
        free(factors);
        factors = NULL;
    }
    *out = factors;
    return st;
}

static void factors_put(struct rope_writer *r, const char *key, const float *factors)
{
    dgl_jw_key(r->w, key);
    dgl_jw_array(r->w);
    for (int64_t i = 0; i < r->dims / 2; i++)
        dgl_jw_f64(r->w, gguf_short_f64(factors[i]));
    dgl_jw_end_array(r->w);
}

/* Scaled by a factor; no type with a factor is linear. */
static bool is_scaled(const struct rope_writer *r)
{
    bool by_factor =
        r->type.len == 0 || dgl_str_eq(r->type, "linear") || dgl_str_eq(r->type, "yarn");
    return by_factor && r->factor != 0 && r->factor != 1;
}

/* What HF calls llama3 is in GGUF one factor per frequency: longrope with the same factors at every
 * length and without a factor on the attention is the same rotation. */
static enum dgl_status write_freqs(struct rope_writer *r, const float *freqs)
{
    if (is_scaled(r))
        return dgl_fail(r->log, DGL_ERR_UNSUPPORTED,
                        "%s: both tensor " ROPE_FREQS " and rope.scaling.type \"%s\" with factor "
                        "%g; supported: one of them",
                        r->m->file->name, r->type.len ? r->type.p : "linear", r->factor);
    dgl_jw_key(r->w, "rope_scaling");
    dgl_jw_object(r->w);
    dgl_jw_key(r->w, "rope_type");
    dgl_jw_cstr(r->w, "longrope");
    factors_put(r, "short_factor", freqs);
    factors_put(r, "long_factor", freqs);
    put_f64(r, "factor", 1);
    put_f64(r, "attention_factor", 1);
    dgl_jw_key(r->w, "original_max_position_embeddings");
    dgl_jw_i64(r->w, r->context);
    dgl_jw_end_object(r->w);
    return DGL_OK;
}

static enum dgl_status write_longrope(struct rope_writer *r)
{
    float *short_f = NULL, *long_f = NULL;
    int64_t original = r->context;
    double attn = 1;
    enum dgl_status st = factors_read(r, ROPE_FACTORS_SHORT, &short_f);
    if (st == DGL_OK)
        st = factors_read(r, ROPE_FACTORS_LONG, &long_f);
    if (st == DGL_OK && (!short_f || !long_f))
        st = dgl_fail(
            r->log, DGL_ERR_FORMAT,
            "%s: tensor %s is missing, wanted f32 [%" PRId64 "], half of the rotated values",
            r->m->file->name, short_f ? ROPE_FACTORS_LONG : ROPE_FACTORS_SHORT, r->dims / 2);
    if (st == DGL_OK)
        st = gguf_arch_i64(r->log, r->m, "rope.scaling.original_context_length", MAX_CONTEXT,
                           &original);
    if (st == DGL_OK)
        st = gguf_arch_f64(r->log, r->m, "rope.scaling.attn_factor", &attn);
    if (st == DGL_OK) {
        dgl_jw_key(r->w, "original_max_position_embeddings");
        dgl_jw_i64(r->w, original);
        dgl_jw_key(r->w, "rope_scaling");
        dgl_jw_object(r->w);
        dgl_jw_key(r->w, "rope_type");
        dgl_jw_cstr(r->w, "longrope");
        factors_put(r, "short_factor", short_f);
        factors_put(r, "long_factor", long_f);
        put_f64(r, "attention_factor", attn);
        dgl_jw_key(r->w, "original_max_position_embeddings");
        dgl_jw_i64(r->w, original);
        dgl_jw_end_object(r->w);
    }
    free(short_f);
    free(long_f);
    return st;
}

static enum dgl_status write_yarn(struct rope_writer *r)
{
    int64_t original = r->context;
    double fast = 32, slow = 1, attn = 0, extra = 1;
    enum dgl_status st =
        gguf_arch_i64(r->log, r->m, "rope.scaling.original_context_length", MAX_CONTEXT, &original);
    if (st == DGL_OK)
        st = gguf_arch_f64(r->log, r->m, "rope.scaling.yarn_beta_fast", &fast);
    if (st == DGL_OK)
        st = gguf_arch_f64(r->log, r->m, "rope.scaling.yarn_beta_slow", &slow);
    if (st == DGL_OK)
        st = gguf_arch_f64(r->log, r->m, "rope.scaling.yarn_attn_factor", &attn);
    if (st == DGL_OK)
        st = gguf_arch_f64(r->log, r->m, "rope.scaling.attn_factor", &extra);
    if (st == DGL_OK && extra != 1)
        st = dgl_fail(r->log, DGL_ERR_UNSUPPORTED,
                      "%s: %s.rope.scaling.attn_factor is %g with yarn; supported: 1",
                      r->m->file->name, r->m->arch->name, extra);
    dgl_jw_key(r->w, "rope_scaling");
    dgl_jw_object(r->w);
    dgl_jw_key(r->w, "rope_type");
    dgl_jw_cstr(r->w, "yarn");
    put_f64(r, "factor", r->factor);
    put_f64(r, "beta_fast", fast);
    put_f64(r, "beta_slow", slow);
    if (attn > 0)
        put_f64(r, "attention_factor", attn);
    if (r->m->arch->family == GGUF_GPT_OSS) { /* the model's own config says so, GGUF cannot */
        dgl_jw_key(r->w, "truncate");
        dgl_jw_bool(r->w, false);
    }
    dgl_jw_key(r->w, "original_max_position_embeddings");
    dgl_jw_i64(r->w, original);
    dgl_jw_end_object(r->w);
    return st;
}

static void write_linear(struct rope_writer *r)
{
    dgl_jw_key(r->w, "rope_scaling");
    dgl_jw_object(r->w);
    dgl_jw_key(r->w, "rope_type");
    dgl_jw_cstr(r->w, "linear");
    put_f64(r, "factor", r->factor);
    dgl_jw_end_object(r->w);
}

/* Silence would mean the default of the family's class in Hugging Face, which is YaRN for GPT-OSS;
 * in GGUF it means none. */
static void write_default(struct rope_writer *r)
{
    dgl_jw_key(r->w, "rope_scaling");
    dgl_jw_object(r->w);
    dgl_jw_key(r->w, "rope_type");
    dgl_jw_cstr(r->w, "default");
    dgl_jw_end_object(r->w);
}

/* The type is one of ours and has the factor that it cannot be without. */
static enum dgl_status check_type(const struct rope_writer *r)
{
    static const struct {
        const char *name;
        bool factor;
    } types[] = {
        {"", false}, {"none", false}, {"longrope", false}, {"linear", true}, {"yarn", true}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (!dgl_str_eq(r->type, types[i].name))
            continue;
        if (types[i].factor && r->factor <= 0)
            return dgl_fail(r->log, DGL_ERR_FORMAT,
                            "%s: %s.rope.scaling.type is \"%s\", and rope.scaling.factor is %g "
                            "or missing; wanted a factor above 0",
                            r->m->file->name, r->m->arch->name, types[i].name, r->factor);
        return DGL_OK;
    }
    return dgl_fail(r->log, DGL_ERR_UNSUPPORTED,
                    "%s: %s.rope.scaling.type is \"%s\"; supported: none, linear, yarn, "
                    "longrope",
                    r->m->file->name, r->m->arch->name, DGL_SHOWN_STR(r->type));
}

static enum dgl_status write_scaling(struct rope_writer *r)
{
    float *freqs = NULL;
    enum dgl_status st = check_type(r);
    if (st == DGL_OK)
        st = factors_read(r, ROPE_FREQS, &freqs);
    if (st != DGL_OK)
        return st;
    if (freqs) {
        st = write_freqs(r, freqs);
        free(freqs);
        return st;
    }
    if (dgl_str_eq(r->type, "longrope") || tensor_source_find(r->m->raw, ROPE_FACTORS_SHORT) >= 0)
        return write_longrope(r);
    if (dgl_str_eq(r->type, "yarn"))
        return write_yarn(r);
    if (is_scaled(r))
        write_linear(r);
    else
        write_default(r);
    return DGL_OK;
}

enum dgl_status gguf_rope_write(const struct dgl_log *log, const struct gguf_model *model,
                                struct dgl_json_writer *w)
{
    struct rope_writer r = {.log = log, .m = model, .w = w, .dims = model->head_dim};
    char key[GGUF_ARCH_KEY_TEXT];
    r.theta = 10000;
    enum dgl_status st = gguf_arch_f64(log, model, "rope.freq_base", &r.theta);
    if (st == DGL_OK)
        st = gguf_arch_i64(log, model, "rope.dimension_count", model->head_dim, &r.dims);
    if (st == DGL_OK && (r.dims < 2 || r.dims % 2 != 0))
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is %" PRId64 "; supported: even numbers from 2 to %" PRId32,
                        model->file->name, gguf_arch_key(model->arch, "rope.dimension_count", key),
                        r.dims, model->head_dim);
    if (st == DGL_OK)
        st = gguf_arch_i64(log, model, "context_length", MAX_CONTEXT, &r.context);
    if (st == DGL_OK)
        st = gguf_arch_f64(log, model, "rope.scale_linear", &r.factor);
    if (st == DGL_OK)
        st = gguf_arch_f64(log, model, "rope.scaling.factor", &r.factor);
    double local = model->arch->family == GGUF_GEMMA3 ? 10000 : r.theta;
    if (st == DGL_OK)
        st = gguf_arch_f64(log, model, "rope.freq_base_swa", &local);
    if (st == DGL_OK && model->arch->family != GGUF_GEMMA3 && local != r.theta)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is %g and rope.freq_base is %g; supported for this architecture: "
                        "both the same",
                        model->file->name, gguf_arch_key(model->arch, "rope.freq_base_swa", key),
                        local, r.theta);
    if (st == DGL_OK)
        st = gguf_opt_str((struct gguf_reader){log, model->file},
                          gguf_arch_key(model->arch, "rope.scaling.type", key), &r.type);
    if (st != DGL_OK)
        return st;
    put_f64(&r, "rope_theta", r.theta);
    if (model->arch->family == GGUF_GEMMA3)
        put_f64(&r, "rope_local_base_freq", local);
    if (r.dims != model->head_dim)
        put_f64(&r, "partial_rotary_factor", (double)r.dims / model->head_dim);
    return write_scaling(&r);
}
