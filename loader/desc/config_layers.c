/* What differs from layer to layer: windows, rotations, experts. */
#include <inttypes.h>
#include <stdio.h>

#include "loader/desc/model_config.h"

/* The fields that the rules of windows refer to. */
struct window_fields {
    int64_t window; /* 0 = none */
    int64_t from, pattern;
};

static enum dgl_status read_window_fields(const struct config *c,
                                          const struct config_family *family,
                                          struct window_fields *out)
{
    bool on = !family->window_switch;
    struct config_hit hit;
    *out = (struct window_fields){
        .window = family->window, .from = 28, .pattern = family->window_pattern};
    enum dgl_status st = DGL_OK;
    if (family->window_rule == WINDOW_NEVER) {
        out->window = 0;
        return DGL_OK;
    }
    if (family->window_switch)
        st = config_opt_bool(c, "use_sliding_window", &on);
    if (st == DGL_OK)
        st = config_find(c, "sliding_window", &hit);
    if (st == DGL_OK && hit.is_null)
        out->window = 0;
    if (st == DGL_OK)
        st = config_opt_i64(c, "sliding_window", 1, INT32_MAX, &out->window);
    if (st == DGL_OK && family->window_rule == WINDOW_FROM)
        st = config_opt_i64(c, "max_window_layers", 0, INT32_MAX, &out->from);
    if (st == DGL_OK && (family->bit & FAMILY_GEMMA3))
        st = config_opt_i64(c, "sliding_window_pattern", 1, INT32_MAX, &out->pattern);
    if (!on)
        out->window = 0;
    return st;
}

static bool has_window(const struct config_family *family, const struct window_fields *w,
                       const struct model_desc *d, int32_t layer)
{
    switch (family->window_rule) {
    case WINDOW_NEVER:
        break;
    case WINDOW_EVERY:
        return w->window > 0;
    case WINDOW_FROM:
        return w->window > 0 && layer >= w->from;
    case WINDOW_PATTERN:
        return (layer + 1) % w->pattern != 0;
    case WINDOW_NO_ROPE:
        return w->window > 0 && d->layer[layer].rope == ROPE_NONE;
    }
    return false;
}

/* One entry of layer_types, which goes before any rule. */
static enum dgl_status type_has_window(const struct config *c, const struct config_family *family,
                                       const struct dgl_json *type, int32_t layer, bool *out)
{
    char path[32];
    snprintf(path, sizeof(path), "layer_types[%" PRId32 "]", layer);
    *out = dgl_str_eq(dgl_json_str(type), "sliding_attention");
    bool known = dgl_str_eq(dgl_json_str(type), "full_attention") ||
                 (*out && family->window_rule != WINDOW_NEVER);
    if (known)
        return DGL_OK;
    return config_refuse(c, path, type,
                         family->window_rule == WINDOW_NEVER
                             ? "\"full_attention\""
                             : "\"full_attention\", \"sliding_attention\"");
}

static enum dgl_status set_window(const struct config *c, const struct window_fields *w,
                                  struct model_desc *d, int32_t layer)
{
    if (w->window == 0)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT,
                        "%s: layer %" PRId32 " is a sliding_attention layer, but %s is null or "
                        "switched off",
                        dgl_json_name(c->r.doc), layer, config_shown(c, "sliding_window").text);
    /* A window as long as the longest text is none: Phi-3.5 writes twice the context. */
    d->layer[layer].window = w->window < d->context_max ? (int32_t)w->window : 0;
    return DGL_OK;
}

static enum dgl_status read_windows(const struct config *c, const struct config_family *family,
                                    struct model_desc *d)
{
    const struct dgl_json *types, *type;
    struct window_fields w;
    enum dgl_status st = read_window_fields(c, family, &w);
    if (st == DGL_OK)
        st = dgl_json_opt(c->r, c->root, "layer_types", DGL_JSON_ARRAY, &types);
    if (st != DGL_OK)
        return st;
    if (types && dgl_json_count(types) != (size_t)d->layers)
        return dgl_json_fail(c->r, types, "%zu entries, but %s is %" PRId32, dgl_json_count(types),
                             config_shown(c, "num_hidden_layers").text, d->layers);
    type = dgl_json_first(types);
    for (int32_t i = 0; i < d->layers && st == DGL_OK; i++) {
        bool window = has_window(family, &w, d, i);
        if (type)
            st = type_has_window(c, family, type, i, &window);
        if (st == DGL_OK && window)
            st = set_window(c, &w, d, i);
        /* The layers with a window are those that turn by the local theta. */
        if (window && family->local_theta > 0)
            d->layer[i].rope = ROPE_LOCAL;
        type = type ? dgl_json_next(type) : NULL;
    }
    return st;
}

/* no_rope_layers: 1 = the layer rotates, 0 = it does not. */
static enum dgl_status read_no_rope(const struct config *c, struct model_desc *d)
{
    const struct dgl_json *list;
    int64_t interval = 4;
    enum dgl_status st = config_opt_i64(c, "no_rope_layer_interval", 1, INT32_MAX, &interval);
    if (st == DGL_OK)
        st = dgl_json_opt(c->r, c->root, "no_rope_layers", DGL_JSON_ARRAY, &list);
    if (st != DGL_OK)
        return st;
    if (list && dgl_json_count(list) != (size_t)d->layers)
        return dgl_json_fail(c->r, list, "%zu entries, but %s is %" PRId32, dgl_json_count(list),
                             config_shown(c, "num_hidden_layers").text, d->layers);
    const struct dgl_json *v = dgl_json_first(list);
    for (int32_t i = 0; i < d->layers; i++) {
        int64_t rotates = (i + 1) % interval != 0;
        if (v && (!dgl_json_i64(v, &rotates) || rotates < 0 || rotates > 1))
            return dgl_json_fail(c->r, v, "neither 0 nor 1");
        if (!rotates)
            d->layer[i].rope = ROPE_NONE;
        v = v ? dgl_json_next(v) : NULL;
    }
    return DGL_OK;
}

enum dgl_status config_layers_read(const struct config *c, const struct config_family *family,
                                   struct model_desc *out)
{
    enum dgl_status st = DGL_OK;
    for (int32_t i = 0; i < out->layers; i++)
        out->layer[i].rope = ROPE_GLOBAL;
    if (family->bit & FAMILY_SMOLLM3)
        st = read_no_rope(c, out);
    if (st == DGL_OK)
        st = read_windows(c, family, out);
    return st == DGL_OK ? config_sparse_read(c, family, out) : st;
}
