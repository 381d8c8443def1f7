/* The table of config names and lookups through it. */
#include "loader/desc/config_alias.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAMES 6

struct config_alias {
    const char *field;
    const char *names[MAX_NAMES]; /* paths, the usual one first */
};

/* Possible objects with the parameters of the rotation: of the older dialect, of the newer one, and
 * of a layer type in the newer one. */
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

struct field config_get(const struct config *c, const char *path)
{
    char full[192];
    if (!c->prefix)
        return fields_get(c->fields, path);
    snprintf(full, sizeof(full), "%s%s", c->prefix, path);
    return fields_get(c->fields, full);
}

struct dgl_printable config_printable(const struct config *c, const char *path)
{
    const struct config_alias *alias = alias_of_field(path);
    for (size_t n = 0; alias && n < MAX_NAMES && alias->names[n]; n++) {
        if (FIELD_IS_SET(config_get(c, alias->names[n]))) {
            path = alias->names[n];
            break;
        }
    }
    struct dgl_buf full = {0}, text = {0};
    dgl_buf_printf(&full, "%s%s", c->prefix ? c->prefix : "", path);
    fields_describe(c->fields, full.failed ? path : full.p, &text);
    struct dgl_printable shown = dgl_printable(dgl_str_of(text.failed ? path : text.p));
    dgl_buf_finish(&full);
    dgl_buf_finish(&text);
    return shown;
}

/* Prints a value as JSON. */
static struct dgl_printable value_printable(const struct field *value)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    if (value && value->kind != FIELD_ABSENT)
        field_write(&w, value);
    struct dgl_printable shown =
        dgl_printable(text.p ? (struct dgl_str){text.p, text.len} : DGL_STR("missing"));
    dgl_buf_finish(&text);
    return shown;
}

enum dgl_status config_fail_wanted(const struct config *c, const char *path,
                                   const struct field *found, const char *wanted)
{
    struct dgl_buf text = {0};
    if (found->kind == FIELD_LIST)
        dgl_buf_printf(&text, "an array of %zu", found->count);
    else if (found->kind == FIELD_OBJECT)
        dgl_buf_printf(&text, "an object with %zu key%s", found->count,
                       found->count == 1 ? "" : "s");
    else if (found->kind == FIELD_STR)
        dgl_buf_printf(&text, "\"%s\"", DGL_PRINTABLE_STR(found->s));
    else
        dgl_buf_puts(&text, value_printable(found).text);
    enum dgl_status status =
        dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s is %s, wanted %s", c->fields->name,
                 config_printable(c, path).text, text.p ? text.p : "?", wanted);
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status config_fail(const struct config *c, const char *path, const char *fmt, ...)
{
    struct dgl_buf text = {0};
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&text, fmt, args);
    va_end(args);
    enum dgl_status status = dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s: %s", c->fields->name,
                                      config_printable(c, path).text, text.p ? text.p : fmt);
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status config_refuse(const struct config *c, const char *path, const struct field *value,
                              const char *supported)
{
    return dgl_fail(c->log, DGL_ERR_UNSUPPORTED, "%s: %s is %s; supported: %s", c->fields->name,
                    config_printable(c, path).text, value_printable(value).text, supported);
}

enum dgl_status config_find(const struct config *c, const char *field, struct config_hit *hit)
{
    const struct config_alias *alias = alias_of_field(field);
    const struct config_alias itself = {field, {field}};
    enum dgl_status status = DGL_OK;
    if (!alias)
        alias = &itself;
    *hit = (struct config_hit){.path = alias->names[0]};
    for (size_t n = 0; n < MAX_NAMES && alias->names[n]; n++) {
        struct config_hit next = {config_get(c, alias->names[n]), alias->names[n]};
        /* All parents of a path must be objects. */
        for (const char *dot = strchr(next.path, '.'); dot; dot = strchr(dot + 1, '.')) {
            char parent[128];
            snprintf(parent, sizeof(parent), "%.*s", (int)(dot - next.path), next.path);
            struct field object = config_get(c, parent);
            if (!FIELD_IS_SET(object))
                break;
            if (object.kind != FIELD_OBJECT)
                return config_fail_wanted(c, parent, &object, "an object");
        }
        bool known = FIELD_IS_SET(hit->value), found = FIELD_IS_SET(next.value);
        if (!known && next.value.kind == FIELD_NULL)
            hit->value = next.value; /* null, under the usual name */
        else if (!known && found)
            *hit = next;
        else if (found && !field_equal(&hit->value, &next.value))
            TRY(dgl_fail(c->log, DGL_ERR_FORMAT,
                         "%s: %s is %s and %s is %s, but both mean the same: remove one of them",
                         c->fields->name, config_printable(c, hit->path).text,
                         value_printable(&hit->value).text, config_printable(c, next.path).text,
                         value_printable(&next.value).text));
    }
done:
    return status;
}

static enum dgl_status take_i64(const struct config *c, const struct config_hit *hit, int64_t min,
                                int64_t max, int64_t *out)
{
    char wanted[80];
    snprintf(wanted, sizeof(wanted), "an integer from %" PRId64 " to %" PRId64, min, max);
    if (hit->value.kind != FIELD_INT || hit->value.i < min || hit->value.i > max)
        return config_fail_wanted(c, hit->path, &hit->value, wanted);
    *out = hit->value.i;
    return DGL_OK;
}

enum dgl_status config_need_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                                int64_t *out)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    return status == DGL_OK ? take_i64(c, &hit, min, max, out) : status;
}

enum dgl_status config_opt_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                               int64_t *inout)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    return status == DGL_OK && FIELD_IS_SET(hit.value) ? take_i64(c, &hit, min, max, inout)
                                                       : status;
}

enum dgl_status config_opt_f64(const struct config *c, const char *field, double min, double max,
                               double *inout)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    if (status != DGL_OK || !FIELD_IS_SET(hit.value))
        return status;
    bool number = hit.value.kind == FIELD_INT || hit.value.kind == FIELD_REAL;
    if (number && hit.value.f >= min && hit.value.f <= max) {
        *inout = hit.value.f;
        return DGL_OK;
    }
    struct dgl_buf wanted = {0};
    dgl_buf_puts(&wanted, "a number from ");
    dgl_buf_f64(&wanted, min);
    dgl_buf_puts(&wanted, " to ");
    dgl_buf_f64(&wanted, max);
    status = config_fail_wanted(c, hit.path, &hit.value, wanted.p ? wanted.p : "a number");
    dgl_buf_finish(&wanted);
    return status;
}

enum dgl_status config_opt_bool(const struct config *c, const char *field, bool *inout)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    if (status != DGL_OK || !FIELD_IS_SET(hit.value))
        return status;
    if (hit.value.kind != FIELD_BOOL)
        return config_fail_wanted(c, hit.path, &hit.value, dgl_json_type_name(DGL_JSON_BOOL));
    *inout = hit.value.b;
    return DGL_OK;
}

enum dgl_status config_opt_list(const struct config *c, const char *field, struct field *out)
{
    struct config_hit hit;
    enum dgl_status status = config_find(c, field, &hit);
    *out = (struct field){0};
    if (status != DGL_OK || !FIELD_IS_SET(hit.value))
        return status;
    if (hit.value.kind != FIELD_LIST)
        return config_fail_wanted(c, hit.path, &hit.value, dgl_json_type_name(DGL_JSON_ARRAY));
    *out = hit.value;
    return DGL_OK;
}
