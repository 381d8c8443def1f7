/* Rotary embedding: the types of Hugging Face's modeling_rope_utils and their parameters. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "loader/desc/model_config.h"

#define MIN_FACTOR 1e-6
#define MAX_FACTOR 1e9

enum { MAX_CONTEXT = 1 << 27 };

struct rope_name {
    const char *name;
    enum rope_kind kind;
};

static const struct rope_name rope_names[] = {
    {"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"dynamic", ROPE_DYNAMIC},
    {"yarn", ROPE_YARN},       {"llama3", ROPE_LLAMA3}, {"longrope", ROPE_LONGROPE},
};
#define ROPE_SUPPORTED "\"default\", \"linear\", \"dynamic\", \"yarn\", \"llama3\", \"longrope\""

/* Phi-3's files called longrope by two other names first. */
static const struct rope_name phi3_names[] = {{"su", ROPE_LONGROPE}, {"yarn", ROPE_LONGROPE}};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static bool name_find(const struct rope_name *names, size_t count, struct dgl_str text,
                      enum rope_kind *out)
{
    for (size_t i = 0; i < count; i++) {
        if (dgl_str_eq(text, names[i].name)) {
            *out = names[i].kind;
            return true;
        }
    }
    return false;
}

static enum dgl_status read_kind(const struct config *c, const struct config_family *family,
                                 enum rope_kind *out)
{
    struct config_hit type;
    *out = ROPE_DEFAULT;
    enum dgl_status st = config_find(c, "rope_type", &type);
    if (st != DGL_OK)
        return st;
    const struct dgl_json *scaling = dgl_json_get(c->root, "rope_scaling");
    if (!type.value && dgl_json_count(scaling) > 0)
        return config_refuse(c, "rope_scaling", scaling, "null, or an object with a rope_type");
    struct dgl_str text = dgl_json_str(type.value);
    if (!type.value)
        return DGL_OK;
    if ((family->bit & FAMILY_PHI3) && name_find(phi3_names, COUNT(phi3_names), text, out))
        return DGL_OK;
    if (name_find(rope_names, COUNT(rope_names), text, out))
        return DGL_OK;
    return config_refuse(c, type.path, type.value, ROPE_SUPPORTED);
}

/* A parameter without which the type means nothing. */
static enum dgl_status need_f64(const struct config *c, const char *field, double min, double max,
                                double *out)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, field, &hit);
    if (st == DGL_OK && !hit.value)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT, "%s: %s is missing, but the rope_type needs it",
                        dgl_json_name(c->r.doc), config_shown(c, hit.path).text);
    return st == DGL_OK ? config_opt_f64(c, field, min, max, out) : st;
}

static enum dgl_status read_dims(const struct config *c, struct model_desc *d, int32_t *out)
{
    double part = 1.0;
    enum dgl_status st = config_opt_f64(c, "partial_rotary_factor", 1e-3, 1.0, &part);
    *out = (int32_t)(d->head_dim * part);
    if (st == DGL_OK && (*out < 2 || *out % 2 != 0))
        return dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED,
                        "%s: %s %g of %s %" PRId32 " is %" PRId32
                        " values; supported: even numbers from 2",
                        dgl_json_name(c->r.doc), config_shown(c, "partial_rotary_factor").text,
                        part, config_shown(c, "head_dim").text, d->head_dim, *out);
    return st;
}

static enum dgl_status read_original(const struct config *c, const struct model_desc *d,
                                     struct rope_desc *rope)
{
    int64_t original = d->context_max;
    enum dgl_status st = config_opt_i64(c, "rope_original_context", 1, MAX_CONTEXT, &original);
    rope->original_context = (int32_t)original;
    return st;
}

/* A factor that is left out is the ratio of the contexts after and before stretching. */
static enum dgl_status read_stretch(const struct config *c, const struct model_desc *d,
                                    struct rope_desc *rope)
{
    enum dgl_status st = read_original(c, d, rope);
    rope->factor = (double)d->context_max / rope->original_context;
    return st == DGL_OK ? config_opt_f64(c, "rope_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor)
                        : st;
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static enum dgl_status read_yarn(const struct config *c, const struct model_desc *d,
                                 struct rope_desc *rope)
{
    double mscale = 0, mscale_all = 0;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = true;
    enum dgl_status st = read_stretch(c, d, rope);
    if (st == DGL_OK)
        st = config_opt_f64(c, "rope_beta_fast", MIN_FACTOR, MAX_FACTOR, &rope->beta_fast);
    if (st == DGL_OK)
        st = config_opt_f64(c, "rope_beta_slow", MIN_FACTOR, MAX_FACTOR, &rope->beta_slow);
    if (st == DGL_OK)
        st = config_opt_bool(c, "rope_truncate", &rope->truncate);
    if (st == DGL_OK)
        st = config_opt_f64(c, "rope_mscale", 0, MAX_FACTOR, &mscale);
    if (st == DGL_OK)
        st = config_opt_f64(c, "rope_mscale_all_dim", 0, MAX_FACTOR, &mscale_all);
    if (st != DGL_OK)
        return st;
    if (rope->theta <= 1)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT, "%s: %s is %g, but yarn needs more than 1",
                        dgl_json_name(c->r.doc), config_shown(c, "rope_theta").text, rope->theta);
    rope->scale = mscale != 0 && mscale_all != 0
                      ? yarn_mscale(rope->factor, mscale) / yarn_mscale(rope->factor, mscale_all)
                      : yarn_mscale(rope->factor, 1);
    return config_opt_f64(c, "rope_attention_factor", 0, MAX_FACTOR, &rope->scale);
}

static enum dgl_status read_llama3(const struct config *c, const struct model_desc *d,
                                   struct rope_desc *rope)
{
    enum dgl_status st = need_f64(c, "rope_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor);
    if (st == DGL_OK)
        st = need_f64(c, "rope_low_freq", MIN_FACTOR, MAX_FACTOR, &rope->low_freq);
    if (st == DGL_OK)
        st = need_f64(c, "rope_high_freq", MIN_FACTOR, MAX_FACTOR, &rope->high_freq);
    if (st == DGL_OK)
        st = read_original(c, d, rope);
    if (st == DGL_OK && rope->high_freq <= rope->low_freq)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT,
                        "%s: high_freq_factor is %g, not above low_freq_factor %g",
                        dgl_json_name(c->r.doc), rope->high_freq, rope->low_freq);
    return st;
}

/* `field` is a list of one positive number per pair. */
static enum dgl_status read_factors(const struct config *c, const char *field, int32_t pairs,
                                    double **out)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, field, &hit);
    if (st != DGL_OK)
        return st;
    if (!dgl_json_is(hit.value, DGL_JSON_ARRAY))
        return config_refuse(c, hit.path, hit.value, "a list of one number per rotated pair");
    if (dgl_json_count(hit.value) != (size_t)pairs)
        return dgl_json_fail(c->r, hit.value, "%zu entries, wanted one per rotated pair: %" PRId32,
                             dgl_json_count(hit.value), pairs);
    *out = dgl_new_array(double, (size_t)pairs);
    if (!*out)
        return dgl_fail_memory(c->r.log, field, (uint64_t)pairs * sizeof(**out));
    size_t i = 0;
    for (const struct dgl_json *v = dgl_json_first(hit.value); v; v = dgl_json_next(v), i++) {
        (*out)[i] = dgl_json_f64(v);
        if (!((*out)[i] >= MIN_FACTOR && (*out)[i] <= MAX_FACTOR))
            return dgl_json_fail(c->r, v, "wanted a number from %g to %g", MIN_FACTOR, MAX_FACTOR);
    }
    return DGL_OK;
}

static enum dgl_status read_longrope(const struct config *c, const struct model_desc *d,
                                     struct rope_desc *rope)
{
    enum dgl_status st = read_stretch(c, d, rope);
    if (st == DGL_OK)
        st = read_factors(c, "rope_short_factor", rope->dims / 2, &rope->short_factor);
    if (st == DGL_OK)
        st = read_factors(c, "rope_long_factor", rope->dims / 2, &rope->long_factor);
    if (st != DGL_OK)
        return st;
    if (rope->factor > 1 && rope->original_context < 2)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT, "%s: %s is %" PRId32 ", wanted 2 or more",
                        dgl_json_name(c->r.doc),
                        config_shown(c, "original_max_position_embeddings").text,
                        rope->original_context);
    if (rope->factor > 1)
        rope->scale = sqrt(1 + log(rope->factor) / log((double)rope->original_context));
    return config_opt_f64(c, "rope_attention_factor", 0, MAX_FACTOR, &rope->scale);
}

static enum dgl_status read_parameters(const struct config *c, const struct model_desc *d,
                                       struct rope_desc *rope)
{
    switch (rope->kind) {
    case ROPE_DEFAULT:
        break;
    case ROPE_LINEAR:
        return need_f64(c, "rope_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor);
    case ROPE_DYNAMIC:
        rope->original_context = d->context_max;
        return need_f64(c, "rope_factor", 1, MAX_FACTOR, &rope->factor);
    case ROPE_YARN:
        return read_yarn(c, d, rope);
    case ROPE_LLAMA3:
        return read_llama3(c, d, rope);
    case ROPE_LONGROPE:
        return read_longrope(c, d, rope);
    }
    return DGL_OK;
}

static enum dgl_status read_local(const struct config *c, const struct config_family *family,
                                  struct model_desc *out)
{
    struct rope_desc *rope = &out->rope[ROPE_LOCAL];
    struct config_hit type;
    *rope = (struct rope_desc){.theta = family->local_theta,
                               .dims = out->rope[ROPE_GLOBAL].dims,
                               .scale = 1.0,
                               .factor = 1.0};
    enum dgl_status st = config_opt_f64(c, "rope_local_theta", 1e-3, 1e15, &rope->theta);
    if (st == DGL_OK)
        st = config_find(c, "rope_local_type", &type);
    if (st != DGL_OK || !type.value || dgl_str_eq(dgl_json_str(type.value), "default"))
        return st;
    if (!dgl_str_eq(dgl_json_str(type.value), "linear"))
        return config_refuse(c, type.path, type.value, "\"default\", \"linear\"");
    rope->kind = ROPE_LINEAR;
    return need_f64(c, "rope_local_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor);
}

/* Parameters by layer type belong to families whose layers differ. */
static enum dgl_status check_nesting(const struct config *c, const struct config_family *family)
{
    static const char *const types[] = {"full_attention", "sliding_attention"};
    const struct dgl_json *parameters = dgl_json_get(c->root, "rope_parameters");
    for (size_t i = 0; i < COUNT(types) && family->local_theta == 0; i++) {
        char path[64];
        const struct dgl_json *nested = dgl_json_get(parameters, types[i]);
        snprintf(path, sizeof(path), "rope_parameters.%s", types[i]);
        if (nested && !dgl_json_is(nested, DGL_JSON_NULL))
            return config_refuse(c, path, nested, "one set of parameters for all layers");
    }
    return DGL_OK;
}

/* Dynamic NTK goes on beyond the trained length, and yarn's length follows from its factor; the
 * others say theirs in max_position_embeddings. */
static void stretch_context(struct model_desc *d)
{
    const struct rope_desc *rope = &d->rope[ROPE_GLOBAL];
    if (rope->kind != ROPE_DYNAMIC && rope->kind != ROPE_YARN)
        return;
    double context = floor(rope->original_context * rope->factor);
    if (context > d->context_max)
        d->context_max = context < MAX_CONTEXT ? (int32_t)context : MAX_CONTEXT;
}

/* GPT-OSS stretches even when its file says nothing. */
static bool is_bare_gpt_oss(const struct config *c, const struct config_family *family)
{
    const struct dgl_json *scaling = dgl_json_get(c->root, "rope_scaling");
    const struct dgl_json *parameters = dgl_json_get(c->root, "rope_parameters");
    return (family->bit & FAMILY_GPT_OSS) && dgl_json_count(scaling) == 0 &&
           dgl_json_count(parameters) == 0;
}

static void set_gpt_oss(struct rope_desc *rope)
{
    rope->kind = ROPE_YARN;
    rope->factor = 32;
    rope->original_context = 4096;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->scale = yarn_mscale(rope->factor, 1);
}

enum dgl_status config_rope_read(const struct config *c, const struct config_family *family,
                                 struct model_desc *out)
{
    struct rope_desc *rope = &out->rope[ROPE_GLOBAL];
    *rope = (struct rope_desc){.theta = family->theta, .scale = 1.0, .factor = 1.0};
    enum dgl_status st = check_nesting(c, family);
    if (st == DGL_OK)
        st = read_kind(c, family, &rope->kind);
    if (st == DGL_OK)
        st = read_dims(c, out, &rope->dims);
    if (st == DGL_OK)
        st = config_opt_f64(c, "rope_theta", 1e-3, 1e15, &rope->theta);
    if (st == DGL_OK && is_bare_gpt_oss(c, family))
        set_gpt_oss(rope);
    else if (st == DGL_OK)
        st = read_parameters(c, out, rope);
    if (st == DGL_OK && family->local_theta > 0)
        st = read_local(c, family, out);
    if (st == DGL_OK)
        stretch_context(out);
    return st;
}
