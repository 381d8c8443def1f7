/* The ids that end an answer, each with the file that lists it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "loader/desc/model_config.h"
#include "loader/tensor/model_files.h"

#define FROM_BOTH FILE_CONFIG ", " FILE_GENERATION_CONFIG

enum dgl_status stop_ids_add(const struct dgl_log *log, const char *name, int32_t id,
                             const char *origin, struct model_desc *d)
{
    size_t at = 0;
    while (at < d->num_stop_ids && d->stop_ids[at].id < id)
        at++;
    if (at < d->num_stop_ids && d->stop_ids[at].id == id) {
        if (strcmp(d->stop_ids[at].origin, FILE_CONFIG) == 0 &&
            strcmp(origin, FILE_GENERATION_CONFIG) == 0)
            d->stop_ids[at].origin = FROM_BOTH;
        return DGL_OK;
    }
    if (d->num_stop_ids == MODEL_MAX_STOP_IDS)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: more than %d stop ids", name, MODEL_MAX_STOP_IDS);
    for (size_t i = d->num_stop_ids; i > at; i--)
        d->stop_ids[i] = d->stop_ids[i - 1];
    d->stop_ids[at] = (struct dgl_stop_id){id, origin};
    d->num_stop_ids++;
    return DGL_OK;
}

/* Reports an id without a row, such as that of a new token, or -1: no text contains it. */
static void rowless_report(const struct config *c, const char *path, int64_t id,
                           const struct model_desc *d)
{
    dgl_warn(c->log, "%s: %s: is %" PRId64 ", but %s is %" PRId32 ": the id is left out",
             c->fields->name, config_printable(c, path).text, id,
             config_printable(c, "vocab_size").text, d->vocab);
}

static enum dgl_status stop_add(const struct config *c, const char *path, const struct field *value,
                                const char *origin, struct model_desc *d)
{
    if (value->kind != FIELD_INT)
        return config_fail(c, path, "is %s, wanted an id",
                           dgl_json_type_name(dgl_json_type(value->json)));
    if (value->i < 0 || value->i >= d->vocab) {
        rowless_report(c, path, value->i, d);
        return DGL_OK;
    }
    return stop_ids_add(c->log, c->fields->name, (int32_t)value->i,
                        value->origin ? value->origin : origin, d);
}

/* eos_token_id: null, an id, or an array of ids. */
static enum dgl_status stops_read(const struct config *c, const char *origin, struct model_desc *d)
{
    struct field eos = config_get(c, "eos_token_id");
    enum dgl_status status = DGL_OK;
    if (!FIELD_IS_SET(eos))
        return DGL_OK;
    if (eos.kind != FIELD_LIST)
        return stop_add(c, "eos_token_id", &eos, origin, d);
    size_t i = 0;
    for (struct field v = field_first(&eos); v.kind != FIELD_ABSENT; v = field_next(&v)) {
        char path[48];
        snprintf(path, sizeof(path), "eos_token_id[%zu]", i++);
        TRY(stop_add(c, path, &v, origin, d));
    }
done:
    return status;
}

enum dgl_status stop_ids_read(const struct config *c, const struct fields *generation_config,
                              struct model_desc *out)
{
    /* Multimodal checkpoints have their ids outside of text_config, inside of it, or both. */
    const struct config places[] = {*c, {c->log, c->fields, "text_config."}};
    const struct config generation = {.log = c->log, .fields = generation_config};
    enum dgl_status status;
    int64_t bos = -1;
    for (int i = 0; i < 2; i++) {
        TRY(config_opt_i64(&places[i], "bos_token_id", -1, INT32_MAX, &bos));
        if (bos >= out->vocab) {
            rowless_report(&places[i], "bos_token_id", bos, out);
            bos = -1;
        }
        TRY(stops_read(&places[i], FILE_CONFIG, out));
    }
    out->bos_id = (int32_t)bos;
    if (generation_config)
        TRY(stops_read(&generation, FILE_GENERATION_CONFIG, out));
done:
    return status;
}
