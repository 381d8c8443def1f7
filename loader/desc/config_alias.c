/* The table of config names and look-ups through it. */
#include "loader/desc/config_alias.h"

#include <string.h>

#define MAX_NAMES 6

struct config_alias {
    const char *field;
    const char *names[MAX_NAMES]; /* paths, the usual one first */
};

/* Where the parameters of the rotation are: one dialect's object, the other's, or a part of it when
 * the layers differ. */
#define ROPE_NAMES(key)                                                                            \
    "rope_scaling." key, "rope_parameters." key, "rope_parameters.full_attention." key

static const struct config_alias config_aliases[] = {
    {"hidden_size", {"hidden_size", "n_embd"}},
    {"num_hidden_layers", {"num_hidden_layers", "n_layer"}},
    {"num_attention_heads", {"num_attention_heads", "n_head"}},
    {"intermediate_size", {"intermediate_size", "n_inner"}},
    {"max_position_embeddings", {"max_position_embeddings", "n_positions"}},
    {"hidden_act", {"hidden_act", "hidden_activation"}},
    {"num_experts", {"num_experts", "num_local_experts", "n_routed_experts"}},
    {"num_experts_per_tok", {"num_experts_per_tok", "experts_per_token"}},
    {"sliding_window", {"sliding_window", "sliding_window_size"}},
    {"dtype", {"dtype", "torch_dtype"}},
    {"rope_theta", {"rope_theta", ROPE_NAMES("rope_theta")}},
    {"rope_type",
     {ROPE_NAMES("rope_type"), "rope_scaling.type", "rope_parameters.type",
      "rope_parameters.full_attention.type"}},
    {"rope_factor", {ROPE_NAMES("factor")}},
    {"rope_original_context",
     {ROPE_NAMES("original_max_position_embeddings"), "original_max_position_embeddings"}},
    {"rope_low_freq", {ROPE_NAMES("low_freq_factor")}},
    {"rope_high_freq", {ROPE_NAMES("high_freq_factor")}},
    {"rope_beta_fast", {ROPE_NAMES("beta_fast")}},
    {"rope_beta_slow", {ROPE_NAMES("beta_slow")}},
    {"rope_attention_factor", {ROPE_NAMES("attention_factor")}},
    {"rope_mscale", {ROPE_NAMES("mscale")}},
    {"rope_mscale_all_dim", {ROPE_NAMES("mscale_all_dim")}},
    {"rope_truncate", {ROPE_NAMES("truncate")}},
    {"rope_short_factor", {ROPE_NAMES("short_factor")}},
    {"rope_long_factor", {ROPE_NAMES("long_factor")}},
    {"rope_local_theta", {"rope_local_base_freq", "rope_parameters.sliding_attention.rope_theta"}},
    {"rope_local_type",
     {"rope_parameters.sliding_attention.rope_type", "rope_parameters.sliding_attention.type"}},
    {"rope_local_factor", {"rope_parameters.sliding_attention.factor"}},
    {"partial_rotary_factor",
     {"partial_rotary_factor", ROPE_NAMES("partial_rotary_factor"), "rotary_pct"}},
};

static const struct config_alias *alias_of_field(const char *field)
{
    for (size_t i = 0; i < sizeof(config_aliases) / sizeof(config_aliases[0]); i++) {
        if (strcmp(config_aliases[i].field, field) == 0)
            return &config_aliases[i];
    }
    return NULL;
}

const char *config_field_of(const char *path)
{
    for (size_t i = 0; i < sizeof(config_aliases) / sizeof(config_aliases[0]); i++) {
        const struct config_alias *a = &config_aliases[i];
        for (size_t n = 0; n < MAX_NAMES && a->names[n]; n++) {
            if (strcmp(a->names[n], path) == 0)
                return a->field;
        }
    }
    return path;
}

/* Resolves one path; hit->value stays NULL when it is absent or null. */
static enum dgl_status path_find(const struct config *c, const char *path, struct config_hit *hit)
{
    *hit = (struct config_hit){.object = c->root, .key = path, .path = path};
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(hit->key, '.')) {
        char parent[64];
        size_t len = (size_t)(dot - hit->key);
        memcpy(parent, hit->key, len);
        parent[len] = 0;
        const struct dgl_json *object;
        enum dgl_status st = dgl_json_opt(c->r, hit->object, parent, DGL_JSON_OBJECT, &object);
        if (st != DGL_OK || !object)
            return st;
        hit->object = object;
        hit->key = dot + 1;
    }
    const struct dgl_json *value = dgl_json_get(hit->object, hit->key);
    hit->is_null = dgl_json_is(value, DGL_JSON_NULL);
    hit->value = hit->is_null ? NULL : value;
    return DGL_OK;
}

struct dgl_shown config_shown(const struct config *c, const char *path)
{
    struct dgl_buf full = {0};
    if (c->prefix)
        dgl_buf_puts(&full, c->prefix);
    dgl_buf_puts(&full, path);
    struct dgl_shown shown = dgl_json_path_shown(c->r.doc, full.failed ? path : full.p);
    dgl_buf_finish(&full);
    return shown;
}

static struct dgl_shown value_shown(const struct dgl_json *value)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    if (value)
        dgl_jw_value(&w, value);
    struct dgl_shown shown =
        dgl_shown(value ? (struct dgl_str){text.p, text.len} : DGL_STR("missing"));
    dgl_buf_finish(&text);
    return shown;
}

static bool same_text(struct dgl_str a, struct dgl_str b)
{
    return a.len == b.len && memcmp(a.p, b.p, a.len) == 0;
}

/* Numbers by value: 10000 and 1e4 are one. Members in the same order. */
static bool values_equal(const struct dgl_json *a, const struct dgl_json *b)
{
    if (dgl_json_type(a) != dgl_json_type(b) || dgl_json_count(a) != dgl_json_count(b) ||
        dgl_json_f64(a) != dgl_json_f64(b) || dgl_json_bool(a) != dgl_json_bool(b) ||
        !same_text(dgl_json_str(a), dgl_json_str(b)))
        return false;
    bool equal = true;
    a = dgl_json_first(a);
    for (b = dgl_json_first(b); b && equal; b = dgl_json_next(b), a = dgl_json_next(a))
        equal = same_text(dgl_json_key(a), dgl_json_key(b)) && values_equal(a, b);
    return equal;
}

static enum dgl_status refuse_contradiction(const struct config *c, const struct config_hit *a,
                                            const struct config_hit *b)
{
    return dgl_fail(c->r.log, DGL_ERR_FORMAT,
                    "%s: %s is %s and %s is %s, but both mean the same: remove one of them",
                    dgl_json_name(c->r.doc), config_shown(c, a->path).text,
                    value_shown(a->value).text, config_shown(c, b->path).text,
                    value_shown(b->value).text);
}

enum dgl_status config_find(const struct config *c, const char *field, struct config_hit *hit)
{
    const struct config_alias *alias = alias_of_field(field);
    if (!alias)
        return path_find(c, field, hit);
    *hit = (struct config_hit){.object = c->root, .key = field, .path = alias->names[0]};
    for (size_t n = 0; n < MAX_NAMES && alias->names[n]; n++) {
        struct config_hit next;
        enum dgl_status st = path_find(c, alias->names[n], &next);
        if (st != DGL_OK)
            return st;
        if (!next.value && !hit->value)
            hit->is_null |= next.is_null;
        if (!next.value)
            continue;
        if (!hit->value)
            *hit = next;
        else if (!values_equal(hit->value, next.value))
            return refuse_contradiction(c, hit, &next);
    }
    return DGL_OK;
}

enum dgl_status config_need_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                                int64_t *out)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, field, &hit);
    return st == DGL_OK ? dgl_json_need_i64(c->r, hit.object, hit.key, min, max, out) : st;
}

enum dgl_status config_opt_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                               int64_t *inout)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, field, &hit);
    return st == DGL_OK ? dgl_json_opt_i64(c->r, hit.object, hit.key, min, max, inout) : st;
}

enum dgl_status config_need_f64(const struct config *c, const char *field, double min, double max,
                                double *out)
{
    struct config_hit hit;
    const struct dgl_json *value;
    enum dgl_status st = config_find(c, field, &hit);
    if (st == DGL_OK)
        st = dgl_json_need(c->r, hit.object, hit.key, DGL_JSON_NUMBER, &value);
    return st == DGL_OK ? dgl_json_opt_f64(c->r, hit.object, hit.key, min, max, out) : st;
}

enum dgl_status config_opt_f64(const struct config *c, const char *field, double min, double max,
                               double *inout)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, field, &hit);
    return st == DGL_OK ? dgl_json_opt_f64(c->r, hit.object, hit.key, min, max, inout) : st;
}

enum dgl_status config_opt_bool(const struct config *c, const char *field, bool *inout)
{
    struct config_hit hit;
    enum dgl_status st = config_find(c, field, &hit);
    return st == DGL_OK ? dgl_json_opt_bool(c->r, hit.object, hit.key, inout) : st;
}

enum dgl_status config_opt_str(const struct config *c, const char *field, const char **out)
{
    struct config_hit hit;
    const struct dgl_json *value = NULL;
    *out = NULL;
    enum dgl_status st = config_find(c, field, &hit);
    if (st == DGL_OK)
        st = dgl_json_opt(c->r, hit.object, hit.key, DGL_JSON_STRING, &value);
    if (st == DGL_OK && value)
        *out = dgl_json_str(value).p;
    return st;
}

enum dgl_status config_refuse(const struct config *c, const char *path,
                              const struct dgl_json *value, const char *supported)
{
    return dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED, "%s: %s is %s; supported: %s",
                    dgl_json_name(c->r.doc), config_shown(c, path).text, value_shown(value).text,
                    supported);
}
