/*
 * config_alias.h: the fields of a model read through one table of names. Files of different ages
 * call the same field differently (`rope_theta`, `rope_parameters.rope_theta`); the rest of the
 * loader only knows the first name. Two names that give different values are an error; null counts
 * as absent.
 */
#ifndef DGL_LOADER_CONFIG_ALIAS_H
#define DGL_LOADER_CONFIG_ALIAS_H

#include "loader/desc/fields.h"

struct config {
    const struct dgl_log *log;
    const struct fields *fields;
    const char *prefix; /* of every path: NULL, or "text_config." */
};

/* Where a field was found. When it is absent, `path` is its usual place; `value` may be null. */
struct config_hit {
    struct field value;
    const char *path; /* "rope_parameters.rope_theta" */
};
enum dgl_status config_find(const struct config *c, const char *field, struct config_hit *hit);
/* The value at a path as it is, aliases aside. */
struct field config_get(const struct config *c, const char *path);

/* The field that a path stands for: itself unless the table knows it as an alias. Borrowed from
 * the table or `path`. */
const char *config_field_of(const char *path);

/* Typed values; wrong types and values out of range are DGL_ERR_FORMAT "NAME: PATH is 3.5, wanted
 * an integer from 1 to 4096". `opt` keeps *inout when the field is absent. */
enum dgl_status config_need_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                                int64_t *out);
enum dgl_status config_opt_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                               int64_t *inout);
enum dgl_status config_opt_f64(const struct config *c, const char *field, double min, double max,
                               double *inout);
enum dgl_status config_opt_bool(const struct config *c, const char *field, bool *inout);
enum dgl_status config_opt_list(const struct config *c, const char *field, struct field *out);

/* What messages call a field, or what is at a path: with the object that it is in, under the name
 * that it has in the user's file. */
struct dgl_printable config_printable(const struct config *c, const char *path);
/* DGL_ERR_FORMAT: "NAME: PATH is FOUND, wanted WANTED". */
enum dgl_status config_fail_wanted(const struct config *c, const char *path,
                                   const struct field *found, const char *wanted);
/* DGL_ERR_FORMAT: "NAME: PATH: ...". */
enum dgl_status config_fail(const struct config *c, const char *path, const char *fmt, ...)
    DGL_PRINTF(3, 4);
/* DGL_ERR_UNSUPPORTED: "NAME: PATH is VALUE; supported: SUPPORTED". */
enum dgl_status config_refuse(const struct config *c, const char *path, const struct field *value,
                              const char *supported);

#endif
