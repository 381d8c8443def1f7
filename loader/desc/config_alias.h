/*
 * config_alias.h: a config.json read through one table of names. Files of different ages call the
 * same field differently (`rope_theta`, `rope_parameters.rope_theta`); the rest of the loader only
 * knows the first name. Two names that give different values are an error; null counts as absent.
 */
#ifndef DGL_LOADER_CONFIG_ALIAS_H
#define DGL_LOADER_CONFIG_ALIAS_H

#include "core/base/json.h"

struct config {
    struct dgl_json_reader r;
    const struct dgl_json *root;
    const char *prefix; /* of paths in messages: NULL, or "text_config." */
};

/* Where a field was found. When it is absent, `value` is NULL and the rest names its usual
 * place. */
struct config_hit {
    const struct dgl_json *value;
    bool is_null;                  /* absent, but written out as null */
    const struct dgl_json *object; /* that holds it */
    const char *key;               /* inside `object` */
    const char *path;              /* from the root: "rope_parameters.rope_theta" */
};
enum dgl_status config_find(const struct config *c, const char *field, struct config_hit *hit);

/* The field that a path stands for: itself unless the table knows it as an alias. Borrowed from
 * the table or `path`. */
const char *config_field_of(const char *path);

/* Typed values, with the messages of json.h. `opt` keeps *inout when the field is absent. */
enum dgl_status config_need_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                                int64_t *out);
enum dgl_status config_opt_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                               int64_t *inout);
enum dgl_status config_need_f64(const struct config *c, const char *field, double min, double max,
                                double *out);
enum dgl_status config_opt_f64(const struct config *c, const char *field, double min, double max,
                               double *inout);
enum dgl_status config_opt_bool(const struct config *c, const char *field, bool *inout);
/* *out borrows from the document; NULL when absent. */
enum dgl_status config_opt_str(const struct config *c, const char *field, const char **out);

/* What messages call the field at a path: with the object that it is in, or under the name that it
 * has in the file that the config was made of. */
struct dgl_shown config_shown(const struct config *c, const char *path);

/* DGL_ERR_UNSUPPORTED: "NAME: PATH is VALUE; supported: SUPPORTED". `value` may be NULL
 * (missing). */
enum dgl_status config_refuse(const struct config *c, const char *path,
                              const struct dgl_json *value, const char *supported);

#endif
