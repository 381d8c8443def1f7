/* The table of config names and look-ups through it. */
#include "loader/config_alias.h"

#include <string.h>

#define MAX_NAMES 5

struct config_alias {
    const char *field;
    const char *names[MAX_NAMES]; /* paths, the usual one first; at most one '.' */
};

static const struct config_alias config_aliases[] = {
    {"hidden_size", {"hidden_size", "n_embd"}},
    {"num_hidden_layers", {"num_hidden_layers", "n_layer"}},
    {"num_attention_heads", {"num_attention_heads", "n_head"}},
    {"intermediate_size", {"intermediate_size", "n_inner"}},
    {"max_position_embeddings", {"max_position_embeddings", "n_positions"}},
    {"hidden_act", {"hidden_act", "hidden_activation"}},
    {"num_experts", {"num_experts", "num_local_experts", "n_routed_experts"}},
    {"num_experts_per_tok", {"num_experts_per_tok", "experts_per_token"}},
    {"dtype", {"dtype", "torch_dtype"}},
    {"rope_theta", {"rope_theta", "rope_parameters.rope_theta", "rope_scaling.rope_theta"}},
    {"rope_type",
     {"rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type",
      "rope_parameters.type"}},
    {"partial_rotary_factor",
     {"partial_rotary_factor", "rope_parameters.partial_rotary_factor",
      "rope_scaling.partial_rotary_factor", "rotary_pct"}},
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
    const char *dot = strchr(path, '.');
    if (dot) {
        char parent[64];
        size_t len = (size_t)(dot - path);
        memcpy(parent, path, len);
        parent[len] = 0;
        const struct dgl_json *object;
        enum dgl_status st = dgl_json_opt(c->r, c->root, parent, DGL_JSON_OBJECT, &object);
        if (st != DGL_OK || !object)
            return st;
        hit->object = object;
        hit->key = dot + 1;
    }
    const struct dgl_json *value = dgl_json_get(hit->object, hit->key);
    hit->value = dgl_json_is(value, DGL_JSON_NULL) ? NULL : value;
    return DGL_OK;
}

static void value_text(const struct dgl_json *value, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    if (value)
        dgl_jw_value(&w, value);
    else
        dgl_buf_puts(out, "missing");
}

static bool values_equal(const struct dgl_json *a, const struct dgl_json *b)
{
    struct dgl_buf x = {0}, y = {0};
    value_text(a, &x);
    value_text(b, &y);
    bool equal = !x.failed && !y.failed && x.len == y.len && memcmp(x.p, y.p, x.len) == 0;
    dgl_buf_finish(&x);
    dgl_buf_finish(&y);
    return equal;
}

static enum dgl_status refuse_contradiction(const struct config *c, const struct config_hit *a,
                                            const struct config_hit *b)
{
    struct dgl_buf x = {0}, y = {0};
    value_text(a->value, &x);
    value_text(b->value, &y);
    enum dgl_status st =
        dgl_fail(c->r.log, DGL_ERR_FORMAT,
                 "%s: %s is %s and %s is %s, but both mean the same: remove one of them",
                 dgl_json_name(c->r.doc), a->path, x.p ? x.p : "?", b->path, y.p ? y.p : "?");
    dgl_buf_finish(&x);
    dgl_buf_finish(&y);
    return st;
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
    struct dgl_buf text = {0};
    value_text(value, &text);
    enum dgl_status st = dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED, "%s: %s is %s; supported: %s",
                                  dgl_json_name(c->r.doc), path, text.p ? text.p : "?", supported);
    dgl_buf_finish(&text);
    return st;
}
