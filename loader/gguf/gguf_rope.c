/* Rotary embedding: keys "rope.*" and the tensors with factors per frequency. */
#include "loader/gguf/gguf_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/gguf/gguf_keys.h"

#define ROPE_FREQS         "rope_freqs.weight"
#define ROPE_FACTORS_LONG  "rope_factors_long.weight"
#define ROPE_FACTORS_SHORT "rope_factors_short.weight"

enum { MAX_CONTEXT = 1 << 27 };

struct rope_reader {
    const struct dgl_log *log;
    const struct gguf_model *m;
    struct fields *out;
    int64_t dims, context;
    double theta;
    struct dgl_str type; /* type of scaling, or empty */
    double factor;       /* 0 = absent */
};

/* Sets a field of rope_scaling. `suffix` is NULL if files have no key for it. */
static void put(const struct rope_reader *r, const char *path, struct field value,
                const char *suffix)
{
    char key[GGUF_ARCH_KEY_TEXT];
    fields_set(r->out, path, value, suffix ? gguf_arch_key(r->m->arch, suffix, key) : NULL);
}

/* Reads [dims/2] factors. *out is NULL if the tensor is absent. */
static enum dgl_status factors_read(struct rope_reader *r, const char *name, float **out)
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
    enum dgl_status status;
    TRY(tensor_source_read(r->log, r->m->raw, (size_t)index, 0, factors, (size_t)t->bytes));
    for (uint64_t i = 0; i < t->shape[0]; i++) {
        if (!isfinite(factors[i]) || factors[i] <= 0)
            TRY(dgl_fail(r->log, DGL_ERR_FORMAT,
                         "%s: value %" PRIu64 " of tensor %s is %g, wanted a positive factor",
                         r->m->file->name, i, name, (double)factors[i]));
    }
    *out = factors;
    factors = NULL;
done:
    free(factors);
    return status;
}

static void factors_put(const struct rope_reader *r, const char *path, const float *factors,
                        const char *tensor)
{
    char where[64];
    snprintf(where, sizeof(where), "tensor %s", tensor);
    struct field *items = fields_set_list(r->out, path, (size_t)r->dims / 2, where);
    for (int64_t i = 0; items && i < r->dims / 2; i++)
        items[i] = field_f64(gguf_short_f64(factors[i]));
}

/* Returns true if positions are scaled by a factor. A factor without a type is linear. */
static bool is_scaled(const struct rope_reader *r)
{
    bool by_factor =
        r->type.len == 0 || dgl_str_eq(r->type, "linear") || dgl_str_eq(r->type, "yarn");
    return by_factor && r->factor != 0 && r->factor != 1;
}

static enum dgl_status read_longrope(struct rope_reader *r)
{
    static const char context_key[] = "rope.scaling.original_context_length";
    float *short_f = NULL, *long_f = NULL;
    int64_t original = r->context;
    double attn = 1;
    enum dgl_status status;
    TRY(factors_read(r, ROPE_FACTORS_SHORT, &short_f));
    TRY(factors_read(r, ROPE_FACTORS_LONG, &long_f));
    if (!short_f || !long_f)
        TRY(dgl_fail(
            r->log, DGL_ERR_FORMAT,
            "%s: tensor %s is missing, wanted f32 [%" PRId64 "], half of the rotated values",
            r->m->file->name, short_f ? ROPE_FACTORS_LONG : ROPE_FACTORS_SHORT, r->dims / 2));
    TRY(gguf_arch_i64(r->log, r->m, context_key, MAX_CONTEXT, &original));
    TRY(gguf_arch_f64(r->log, r->m, "rope.scaling.attn_factor", &attn));
    put(r, "original_max_position_embeddings", field_i64(original), context_key);
    put(r, "rope_scaling.rope_type", field_str("longrope"), "rope.scaling.type");
    factors_put(r, "rope_scaling.short_factor", short_f, ROPE_FACTORS_SHORT);
    factors_put(r, "rope_scaling.long_factor", long_f, ROPE_FACTORS_LONG);
    put(r, "rope_scaling.attention_factor", field_f64(attn), "rope.scaling.attn_factor");
    put(r, "rope_scaling.original_max_position_embeddings", field_i64(original), context_key);
done:
    free(short_f);
    free(long_f);
    return status;
}

static enum dgl_status read_yarn(struct rope_reader *r)
{
    int64_t original = r->context;
    double fast = 32, slow = 1, attn = 0, extra = 1;
    enum dgl_status status;
    TRY(gguf_arch_i64(r->log, r->m, "rope.scaling.original_context_length", MAX_CONTEXT,
                      &original));
    TRY(gguf_arch_f64(r->log, r->m, "rope.scaling.yarn_beta_fast", &fast));
    TRY(gguf_arch_f64(r->log, r->m, "rope.scaling.yarn_beta_slow", &slow));
    TRY(gguf_arch_f64(r->log, r->m, "rope.scaling.yarn_attn_factor", &attn));
    TRY(gguf_arch_f64(r->log, r->m, "rope.scaling.attn_factor", &extra));
    if (extra != 1)
        TRY(dgl_fail(r->log, DGL_ERR_UNSUPPORTED,
                     "%s: %s.rope.scaling.attn_factor is %g with yarn; supported: 1",
                     r->m->file->name, r->m->arch->name, extra));
    put(r, "rope_scaling.rope_type", field_str("yarn"), "rope.scaling.type");
    put(r, "rope_scaling.factor", field_f64(r->factor), "rope.scaling.factor");
    put(r, "rope_scaling.beta_fast", field_f64(fast), "rope.scaling.yarn_beta_fast");
    put(r, "rope_scaling.beta_slow", field_f64(slow), "rope.scaling.yarn_beta_slow");
    if (attn > 0)
        put(r, "rope_scaling.attention_factor", field_f64(attn), "rope.scaling.yarn_attn_factor");
    if (r->m->arch->family == GGUF_GPT_OSS) /* as in its config; GGUF has no key */
        put(r, "rope_scaling.truncate", field_bool(false), NULL);
    put(r, "rope_scaling.original_max_position_embeddings", field_i64(original),
        "rope.scaling.original_context_length");
done:
    return status;
}

static enum dgl_status read_scaling(struct rope_reader *r)
{
    static const struct {
        const char *name;
        bool factor; /* required */
    } types[] = {
        {"", false}, {"none", false}, {"longrope", false}, {"linear", true}, {"yarn", true}};
    float *freqs = NULL;
    size_t i = 0, count = sizeof(types) / sizeof(types[0]);
    while (i < count && !dgl_str_eq(r->type, types[i].name))
        i++;
    if (i == count)
        return dgl_fail(r->log, DGL_ERR_UNSUPPORTED,
                        "%s: %s.rope.scaling.type is \"%s\"; supported: none, linear, yarn, "
                        "longrope",
                        r->m->file->name, r->m->arch->name, DGL_PRINTABLE_STR(r->type));
    if (types[i].factor && r->factor <= 0)
        return dgl_fail(r->log, DGL_ERR_FORMAT,
                        "%s: %s.rope.scaling.type is \"%s\", and rope.scaling.factor is %g or "
                        "missing; wanted a factor above 0",
                        r->m->file->name, r->m->arch->name, types[i].name, r->factor);
    enum dgl_status status = factors_read(r, ROPE_FREQS, &freqs);
    if (status != DGL_OK)
        return status;
    /* GGUF stores the llama3 scaling of Hugging Face as one factor per frequency. The same rotation
     * is longrope with equal factors at every length and an attention factor of 1. */
    if (freqs && is_scaled(r)) {
        free(freqs);
        return dgl_fail(r->log, DGL_ERR_UNSUPPORTED,
                        "%s: both tensor " ROPE_FREQS " and rope.scaling.type \"%s\" with factor "
                        "%g; supported: one of them",
                        r->m->file->name, r->type.len ? r->type.p : "linear", r->factor);
    }
    if (freqs) {
        put(r, "rope_scaling.rope_type", field_str("longrope"), NULL);
        factors_put(r, "rope_scaling.short_factor", freqs, ROPE_FREQS);
        factors_put(r, "rope_scaling.long_factor", freqs, ROPE_FREQS);
        put(r, "rope_scaling.factor", field_f64(1), NULL);
        put(r, "rope_scaling.attention_factor", field_f64(1), NULL);
        put(r, "rope_scaling.original_max_position_embeddings", field_i64(r->context),
            "context_length");
        free(freqs);
        return DGL_OK;
    }
    if (dgl_str_eq(r->type, "longrope") || tensor_source_find(r->m->raw, ROPE_FACTORS_SHORT) >= 0)
        return read_longrope(r);
    if (dgl_str_eq(r->type, "yarn"))
        return read_yarn(r);
    /* An absent field would mean the family's default in Hugging Face, which is YaRN for GPT-OSS.
     * In GGUF it means no scaling. */
    bool linear = is_scaled(r);
    put(r, "rope_scaling.rope_type", field_str(linear ? "linear" : "default"), "rope.scaling.type");
    if (linear)
        put(r, "rope_scaling.factor", field_f64(r->factor), "rope.scaling.factor");
    return DGL_OK;
}

enum dgl_status gguf_rope_read(const struct dgl_log *log, const struct gguf_model *model,
                               struct fields *out)
{
    struct rope_reader r = {.log = log, .m = model, .out = out, .dims = model->head_dim};
    char key[GGUF_ARCH_KEY_TEXT];
    r.theta = 10000;
    enum dgl_status status;
    TRY(gguf_arch_f64(log, model, "rope.freq_base", &r.theta));
    TRY(gguf_arch_i64(log, model, "rope.dimension_count", model->head_dim, &r.dims));
    if (r.dims < 2 || r.dims % 2 != 0)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is %" PRId64 "; supported: even numbers from 2 to %" PRId32,
                        model->file->name, gguf_arch_key(model->arch, "rope.dimension_count", key),
                        r.dims, model->head_dim);
    if (r.dims != model->head_dim && model->arch->family != GGUF_PHI3)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: %s is %" PRId64 "; supported: %" PRId32,
                        model->file->name, gguf_arch_key(model->arch, "rope.dimension_count", key),
                        r.dims, model->head_dim);
    TRY(gguf_arch_i64(log, model, "context_length", MAX_CONTEXT, &r.context));
    TRY(gguf_arch_f64(log, model, "rope.scale_linear", &r.factor));
    TRY(gguf_arch_f64(log, model, "rope.scaling.factor", &r.factor));
    double local = model->arch->family == GGUF_GEMMA3 ? 10000 : r.theta;
    TRY(gguf_arch_f64(log, model, "rope.freq_base_swa", &local));
    if (model->arch->family != GGUF_GEMMA3 && local != r.theta)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is %g and rope.freq_base is %g; supported for this architecture: "
                        "both the same",
                        model->file->name, gguf_arch_key(model->arch, "rope.freq_base_swa", key),
                        local, r.theta);
    TRY(gguf_opt_str((struct gguf_reader){.log = log, .file = model->file},
                     gguf_arch_key(model->arch, "rope.scaling.type", key), &r.type));
    put(&r, "rope_theta", field_f64(r.theta), "rope.freq_base");
    if (model->arch->family == GGUF_GEMMA3)
        put(&r, "rope_local_base_freq", field_f64(local), "rope.freq_base_swa");
    if (r.dims != model->head_dim)
        put(&r, "partial_rotary_factor", field_f64((double)r.dims / model->head_dim),
            "rope.dimension_count");
    status = read_scaling(&r);
done:
    return status;
}
