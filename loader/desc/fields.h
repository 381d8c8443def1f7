/*
 * fields.h: named, typed values that describe a model, under the names of a Hugging Face
 * config.json ("rope_scaling.factor"). A JSON object is used as it is. Readers of other files
 * (gguf_config.c, rdrr_config.c) set fields one by one, each with its name in the user's file, for
 * messages.
 */
#ifndef DGL_LOADER_FIELDS_H
#define DGL_LOADER_FIELDS_H

#include "core/base/json.h"
#include "core/base/mem.h"

enum field_kind {
    FIELD_ABSENT,
    FIELD_NULL,
    FIELD_BOOL,
    FIELD_INT, /* an integer; 1.0 of a document is one too */
    FIELD_REAL,
    FIELD_STR,
    FIELD_LIST,
    FIELD_OBJECT
};

struct field {
    enum field_kind kind;
    bool b;
    int64_t i;                   /* INT */
    double f;                    /* INT, REAL */
    struct dgl_str s;            /* STR, NUL-terminated; empty for other kinds */
    size_t count;                /* LIST, OBJECT: number of members */
    const struct dgl_json *json; /* the value in its document, if it comes from one */
    const struct field *items;   /* of a list that was set; of its items: their place */
    const char *origin;          /* origin of an id in eos_token_id that was set; static */
};
#define FIELD_IS_SET(field) ((field).kind > FIELD_NULL)
struct field field_i64(int64_t value);
struct field field_f64(double value);
struct field field_bool(bool value);
struct field field_str(const char *value);                /* borrowed */
struct field field_of_json(const struct dgl_json *value); /* NULL = absent */
/* Return the items of a list in order, then FIELD_ABSENT. */
struct field field_first(const struct field *list);
struct field field_next(const struct field *item);
bool field_equal(const struct field *a, const struct field *b);
void field_write(struct dgl_json_writer *w, const struct field *value);

struct field_entry {
    const char *path, *where;
    struct field value;
};

/* `{.name, .base}` is the object of a document. Without base, all fields are set one by one. */
struct fields {
    const char *name;            /* name of the file, for messages; borrowed */
    const struct dgl_json *base; /* object with the fields that were not set, or NULL; borrowed */
    struct field_entry *entries;
    size_t count, cap;
    struct dgl_arena arena;
    bool failed; /* out of memory; sticky: set freely, test once */
};
void fields_finish(struct fields *fields);

/* Sets a field. `path` is static. The object of a path "a.b" is never set itself, and its fields
 * are set one after the other. `where` is the name in messages and is copied; NULL = `path`. */
void fields_set(struct fields *fields, const char *path, struct field value, const char *where);
/* Returns [count] items to fill in. Returns NULL if memory is exhausted. */
struct field *fields_set_list(struct fields *fields, const char *path, size_t count,
                              const char *where);
/* Returns the field at a path: a field that was set, else the member of `base`. A path with set
 * fields below it is a FIELD_OBJECT with their number. */
struct field fields_get(const struct fields *fields, const char *path);
/* Appends the name in the user's file of the field at a path, which may end in "[3]". */
void fields_describe(const struct fields *fields, const char *path, struct dgl_buf *out);
/* Writes all fields as a config.json. */
void fields_write(const struct fields *fields, struct dgl_json_writer *w);

#endif
