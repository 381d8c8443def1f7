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

/* Phi-3's first files used two other names for longrope. */
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
    enum dgl_status status = config_find(c, "rope_type", &type);
    if (status != DGL_OK)
        return status;
    bool given = FIELD_IS_SET(type.value);
    struct field scaling = config_get(c, "rope_scaling");
    if (!given && scaling.count > 0)
        return config_refuse(c, "rope_scaling", &scaling, "null, or an object with a rope_type");
    if (!given ||
        ((family->bit & FAMILY_PHI3) &&
         name_find(phi3_names, COUNT(phi3_names), type.value.s, out)) ||
        name_find(rope_names, COUNT(rope_names), type.value.s, out))
        return DGL_OK;
    return config_refuse(c, type.path, &type.value, ROPE_SUPPORTED);
}

/* Reads a parameter that the type requires. */
static enum dgl_status need_f64(const struct config *c, const char *field, double min, double max,
                                double *out)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    if (status == DGL_OK && !FIELD_IS_SET(hit.value))
        return dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s is missing, but the rope_type needs it",
                        c->fields->name, config_printable(c, hit.path).text);
    return status == DGL_OK ? config_opt_f64(c, field, min, max, out) : status;
}

static enum dgl_status read_original(const struct config *c, const struct model_desc *d,
                                     struct rope_desc *rope)
{
    int64_t original = d->context_max;
    enum dgl_status status = config_opt_i64(c, "rope_original_context", 1, MAX_CONTEXT, &original);
    rope->original_context = (int32_t)original;
    return status;
}

/* A missing factor is the ratio of the contexts after and before stretching. */
static enum dgl_status read_stretch(const struct config *c, const struct model_desc *d,
                                    struct rope_desc *rope)
{
    enum dgl_status status = read_original(c, d, rope);
    rope->factor = (double)d->context_max / rope->original_context;
    return status == DGL_OK
               ? config_opt_f64(c, "rope_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor)
               : status;
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
    enum dgl_status status;
    TRY(read_stretch(c, d, rope));
    TRY(config_opt_f64(c, "rope_beta_fast", MIN_FACTOR, MAX_FACTOR, &rope->beta_fast));
    TRY(config_opt_f64(c, "rope_beta_slow", MIN_FACTOR, MAX_FACTOR, &rope->beta_slow));
    TRY(config_opt_bool(c, "rope_truncate", &rope->truncate));
    TRY(config_opt_f64(c, "rope_mscale", 0, MAX_FACTOR, &mscale));
    TRY(config_opt_f64(c, "rope_mscale_all_dim", 0, MAX_FACTOR, &mscale_all));
    if (rope->theta <= 1)
        return dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s is %g, but yarn needs more than 1",
                        c->fields->name, config_printable(c, "rope_theta").text, rope->theta);
    rope->scale = mscale != 0 && mscale_all != 0
                      ? yarn_mscale(rope->factor, mscale) / yarn_mscale(rope->factor, mscale_all)
                      : yarn_mscale(rope->factor, 1);
    status = config_opt_f64(c, "rope_attention_factor", 0, MAX_FACTOR, &rope->scale);
done:
    return status;
}

static enum dgl_status read_llama3(const struct config *c, const struct model_desc *d,
                                   struct rope_desc *rope)
{
    enum dgl_status status;
    TRY(need_f64(c, "rope_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor));
    TRY(need_f64(c, "rope_low_freq", MIN_FACTOR, MAX_FACTOR, &rope->low_freq));
    TRY(need_f64(c, "rope_high_freq", MIN_FACTOR, MAX_FACTOR, &rope->high_freq));
    TRY(read_original(c, d, rope));
    if (rope->high_freq <= rope->low_freq)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: high_freq_factor is %g, not above low_freq_factor %g", c->fields->name,
                        rope->high_freq, rope->low_freq);
done:
    return status;
}

/* `field` is a list of one positive number per pair. */
static enum dgl_status read_factors(const struct config *c, const char *field, int32_t pairs,
                                    double **out)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    if (status != DGL_OK)
        return status;
    if (hit.value.kind != FIELD_LIST)
        return config_refuse(c, hit.path, FIELD_IS_SET(hit.value) ? &hit.value : NULL,
                             "a list of one number per rotated pair");
    if (hit.value.count != (size_t)pairs)
        return config_fail(c, hit.path, "%zu entries, wanted one per rotated pair: %" PRId32,
                           hit.value.count, pairs);
    *out = dgl_new_array(double, (size_t)pairs);
    if (!*out)
        return dgl_fail_memory(c->log, field, (uint64_t)pairs * sizeof(**out));
    struct field v = field_first(&hit.value);
    for (int32_t i = 0; i < pairs; i++, v = field_next(&v)) {
        (*out)[i] = v.f;
        if (v.f >= MIN_FACTOR && v.f <= MAX_FACTOR)
            continue;
        char path[96];
        snprintf(path, sizeof(path), "%s[%" PRId32 "]", hit.path, i);
        return config_fail(c, path, "wanted a number from %g to %g", MIN_FACTOR, MAX_FACTOR);
    }
    return DGL_OK;
}

static enum dgl_status read_longrope(const struct config *c, const struct model_desc *d,
                                     struct rope_desc *rope)
{
    enum dgl_status status;
    TRY(read_stretch(c, d, rope));
    TRY(read_factors(c, "rope_short_factor", rope->dims / 2, &rope->short_factor));
    TRY(read_factors(c, "rope_long_factor", rope->dims / 2, &rope->long_factor));
    if (rope->factor > 1 && rope->original_context < 2)
        return dgl_fail(
            c->log, DGL_ERR_FORMAT, "%s: %s is %" PRId32 ", wanted 2 or more", c->fields->name,
            config_printable(c, "original_max_position_embeddings").text, rope->original_context);
    if (rope->factor > 1)
        rope->scale = sqrt(1 + log(rope->factor) / log((double)rope->original_context));
    status = config_opt_f64(c, "rope_attention_factor", 0, MAX_FACTOR, &rope->scale);
done:
    return status;
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
    enum dgl_status status = config_opt_f64(c, "rope_local_theta", 1e-3, 1e15, &rope->theta);
    if (status == DGL_OK)
        status = config_find(c, "rope_local_type", &type);
    if (status != DGL_OK || !FIELD_IS_SET(type.value) || dgl_str_eq(type.value.s, "default"))
        return status;
    if (!dgl_str_eq(type.value.s, "linear"))
        return config_refuse(c, type.path, &type.value, "\"default\", \"linear\"");
    rope->kind = ROPE_LINEAR;
    return need_f64(c, "rope_local_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor);
}

enum dgl_status config_rope_read(const struct config *c, const struct config_family *family,
                                 struct model_desc *out)
{
    static const char *const layer_types[] = {"full_attention", "sliding_attention"};
    struct rope_desc *rope = &out->rope[ROPE_GLOBAL];
    double part = 1.0;
    *rope = (struct rope_desc){.theta = family->theta, .scale = 1.0, .factor = 1.0};
    enum dgl_status status;
    /* Only families with different kinds of layers have parameters by layer type. */
    for (size_t i = 0; i < COUNT(layer_types) && family->local_theta == 0; i++) {
        char path[64];
        snprintf(path, sizeof(path), "rope_parameters.%s", layer_types[i]);
        struct field nested = config_get(c, path);
        if (FIELD_IS_SET(nested))
            return config_refuse(c, path, &nested, "one set of parameters for all layers");
    }
    TRY(read_kind(c, family, &rope->kind));
    TRY(config_opt_f64(c, "partial_rotary_factor", 1e-3, 1.0, &part));
    rope->dims = (int32_t)(out->head_dim * part);
    if (rope->dims < 2 || rope->dims % 2 != 0)
        return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                        "%s: %s %g of %s %" PRId32 " is %" PRId32
                        " values; supported: even numbers from 2",
                        c->fields->name, config_printable(c, "partial_rotary_factor").text, part,
                        config_printable(c, "head_dim").text, out->head_dim, rope->dims);
    TRY(config_opt_f64(c, "rope_theta", 1e-3, 1e15, &rope->theta));

    /* GPT-OSS stretches even if its file has no parameters. */
    bool bare =
        config_get(c, "rope_scaling").count == 0 && config_get(c, "rope_parameters").count == 0;
    if (bare && (family->bit & FAMILY_GPT_OSS)) {
        rope->kind = ROPE_YARN;
        rope->factor = 32;
        rope->original_context = 4096;
        rope->beta_fast = 32;
        rope->beta_slow = 1;
        rope->scale = yarn_mscale(rope->factor, 1);
    } else if (rope->kind == ROPE_LINEAR) {
        TRY(need_f64(c, "rope_factor", MIN_FACTOR, MAX_FACTOR, &rope->factor));
    } else if (rope->kind == ROPE_DYNAMIC) {
        rope->original_context = out->context_max;
        TRY(need_f64(c, "rope_factor", 1, MAX_FACTOR, &rope->factor));
    } else if (rope->kind == ROPE_YARN) {
        TRY(read_yarn(c, out, rope));
    } else if (rope->kind == ROPE_LLAMA3) {
        TRY(read_llama3(c, out, rope));
    } else if (rope->kind == ROPE_LONGROPE) {
        TRY(read_longrope(c, out, rope));
    }
    if (family->local_theta > 0)
        TRY(read_local(c, family, out));

    /* Dynamic NTK works beyond the trained length, and yarn's length follows from its factor. Files
     * of the other types have theirs in max_position_embeddings. */
    double context = floor(rope->original_context * rope->factor);
    if ((rope->kind == ROPE_DYNAMIC || rope->kind == ROPE_YARN) && context > out->context_max)
        out->context_max = context < MAX_CONTEXT ? (int32_t)context : MAX_CONTEXT;
done:
    return status;
}
