/*
 * config_alias.h: reads the fields of a model through one table of names. Files of different ages
 * have different names for a field (`rope_theta`, `rope_parameters.rope_theta`); the rest of the
 * loader uses only the first name. Two names with different values are an error. A null is like a
 * missing field.
 */
#ifndef DGL_LOADER_CONFIG_ALIAS_H
#define DGL_LOADER_CONFIG_ALIAS_H

#include "loader/desc/fields.h"

struct config {
    const struct dgl_log *log;
    const struct fields *fields;
    const char *prefix; /* prefix of every path: NULL, or "text_config." */
};

/* Place and value of a field. If the field is missing, `path` is its usual place. `value` may be
 * null. */
struct config_hit {
    struct field value;
    const char *path; /* "rope_parameters.rope_theta" */
};
enum dgl_status config_find(const struct config *c, const char *field, struct config_hit *hit);
/* Returns the value at a path, without looking at aliases. */
struct field config_get(const struct config *c, const char *path);

/* Returns the first name of the field at a path: the path itself if the table has no alias for it.
 * Borrowed from the table or from `path`. */
const char *config_field_of(const char *path);

/* Typed values. Return DGL_ERR_FORMAT for wrong types and values out of range: "NAME: PATH is 3.5,
 * wanted an integer from 1 to 4096". `opt` functions keep *inout if the field is missing. */
enum dgl_status config_need_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                                int64_t *out);
enum dgl_status config_opt_i64(const struct config *c, const char *field, int64_t min, int64_t max,
                               int64_t *inout);
enum dgl_status config_opt_f64(const struct config *c, const char *field, double min, double max,
                               double *inout);
enum dgl_status config_opt_bool(const struct config *c, const char *field, bool *inout);
enum dgl_status config_opt_list(const struct config *c, const char *field, struct field *out);

/* Returns the name of a field or path for messages: with the objects around it, and under the name
 * that it has in the user's file. */
struct dgl_printable config_printable(const struct config *c, const char *path);
/* Returns DGL_ERR_FORMAT: "NAME: PATH is FOUND, wanted WANTED". */
enum dgl_status config_fail_wanted(const struct config *c, const char *path,
                                   const struct field *found, const char *wanted);
/* Returns DGL_ERR_FORMAT: "NAME: PATH: ...". */
enum dgl_status config_fail(const struct config *c, const char *path, const char *fmt, ...)
    DGL_PRINTF(3, 4);
/* Returns DGL_ERR_UNSUPPORTED: "NAME: PATH is VALUE; supported: SUPPORTED". */
enum dgl_status config_refuse(const struct config *c, const char *path, const struct field *value,
                              const char *supported);

#endif
