/* The ids that end an answer, each with the file that said so. */
#include <inttypes.h>
#include <stdlib.h>

#include "loader/desc/model_config.h"

#define FROM_CONFIG     "config.json"
#define FROM_GENERATION "generation_config.json"
#define FROM_BOTH       "config.json, generation_config.json"

/* Inserts in ascending order; an id that is there already gets both origins. */
static enum dgl_status stop_add(struct dgl_json_reader r, const struct dgl_json *value, int32_t id,
                                const char *origin, struct model_desc *d)
{
    size_t at = 0;
    while (at < d->num_stop_ids && d->stop_ids[at].id < id)
        at++;
    if (at < d->num_stop_ids && d->stop_ids[at].id == id) {
        if (d->stop_ids[at].origin != origin)
            d->stop_ids[at].origin = FROM_BOTH;
        return DGL_OK;
    }
    if (d->num_stop_ids == MODEL_MAX_STOP_IDS)
        return dgl_json_fail(r, value, "more than %d stop ids", MODEL_MAX_STOP_IDS);
    for (size_t i = d->num_stop_ids; i > at; i--)
        d->stop_ids[i] = d->stop_ids[i - 1];
    d->stop_ids[at] = (struct dgl_stop_id){id, origin};
    d->num_stop_ids++;
    return DGL_OK;
}

static enum dgl_status stop_read(struct dgl_json_reader r, const struct dgl_json *value,
                                 const char *origin, struct model_desc *d)
{
    int64_t id;
    if (!dgl_json_i64(value, &id))
        return dgl_json_fail(r, value, "is %s, wanted an id",
                             dgl_json_type_name(dgl_json_type(value)));
    if (id < 0 || id >= d->vocab)
        return dgl_json_fail(r, value, "is %" PRId64 ", but %s is %" PRId32, id,
                             dgl_json_path_shown(r.doc, "vocab_size").text, d->vocab);
    return stop_add(r, value, (int32_t)id, origin, d);
}

/* eos_token_id: null, an id, or an array of ids. */
static enum dgl_status stops_read(struct dgl_json_reader r, const struct dgl_json *root,
                                  const char *origin, struct model_desc *d)
{
    const struct dgl_json *eos = dgl_json_get(root, "eos_token_id");
    if (!eos || dgl_json_is(eos, DGL_JSON_NULL))
        return DGL_OK;
    if (!dgl_json_is(eos, DGL_JSON_ARRAY))
        return stop_read(r, eos, origin, d);
    for (const struct dgl_json *v = dgl_json_first(eos); v; v = dgl_json_next(v)) {
        enum dgl_status st = stop_read(r, v, origin, d);
        if (st != DGL_OK)
            return st;
    }
    return DGL_OK;
}

/* Checkpoints that also see write their ids outside, or inside, or both. */
static enum dgl_status config_ids_read(const struct config *c, struct model_desc *out)
{
    int64_t bos = out->bos_id;
    enum dgl_status st = config_opt_i64(c, "bos_token_id", 0, out->vocab - 1, &bos);
    out->bos_id = (int32_t)bos;
    return st == DGL_OK ? stops_read(c->r, c->root, FROM_CONFIG, out) : st;
}

enum dgl_status stop_ids_read(const struct config *c, const struct dgl_json_doc *generation_config,
                              struct model_desc *out)
{
    const struct dgl_json *text = dgl_json_get(c->root, "text_config");
    const struct config inner = {.r = c->r, .root = text};
    out->bos_id = -1;
    enum dgl_status st = config_ids_read(c, out);
    if (st == DGL_OK && dgl_json_is(text, DGL_JSON_OBJECT))
        st = config_ids_read(&inner, out);
    if (st != DGL_OK || !generation_config)
        return st;
    struct dgl_json_reader r = {.log = c->r.log, .doc = generation_config};
    return stops_read(r, dgl_json_root(generation_config), FROM_GENERATION, out);
}
