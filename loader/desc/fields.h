/*
 * fields.h: named, typed values that describe a model, under the names of a Hugging Face
 * config.json ("rope_scaling.factor"), whatever file they come from. A JSON object serves as it
 * is. Readers of other files (gguf_config.c, rdrr_config.c) set fields one by one, each with the
 * words by which the user's file calls it: messages say these.
 */
#ifndef DGL_LOADER_FIELDS_H
#define DGL_LOADER_FIELDS_H

#include "core/base/json.h"
#include "core/base/mem.h"

enum field_kind {
    FIELD_ABSENT,
    FIELD_NULL,
    FIELD_BOOL,
    FIELD_INT, /* a whole number; 1.0 of a document is one too */
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
    struct dgl_str s;            /* STR, NUL-terminated; empty otherwise */
    size_t count;                /* LIST, OBJECT: members */
    const struct dgl_json *json; /* the value, where a document holds it */
    const struct field *items;   /* LIST that was set: its items; an item of one: its place */
    const char *origin;          /* of an id in eos_token_id that was set: what says so; static */
};
#define FIELD_IS_SET(field) ((field).kind > FIELD_NULL)
struct field field_i64(int64_t value);
struct field field_f64(double value);
struct field field_bool(bool value);
struct field field_str(const char *value);                /* borrowed */
struct field field_of_json(const struct dgl_json *value); /* NULL = absent */
/* The items of a list in turn; FIELD_ABSENT after the last. */
struct field field_first(const struct field *list);
struct field field_next(const struct field *item);
bool field_equal(const struct field *a, const struct field *b);
void field_write(struct dgl_json_writer *w, const struct field *value);

struct field_entry {
    const char *path, *where;
    struct field value;
};

/* `{.name, .base}` is a document's object; without base, fields to be set. */
struct fields {
    const char *name;            /* of the file, for messages; borrowed */
    const struct dgl_json *base; /* fields that were not set; NULL = none; borrowed */
    struct field_entry *entries;
    size_t count, cap;
    struct dgl_arena arena;
    bool failed; /* out of memory, sticky: set freely, test once */
};
void fields_finish(struct fields *fields);

/* `path` is static; so are the objects that "a.b" is in: never set themselves. Fields of one object
 * are set one after the other. `where` is copied; NULL = messages say the path. */
void fields_set(struct fields *fields, const char *path, struct field value, const char *where);
/* Items to fill in, [count]; NULL: out of memory. */
struct field *fields_set_list(struct fields *fields, const char *path, size_t count,
                              const char *where);
struct field fields_get(const struct fields *fields, const char *path);
/* Appends what the user's file calls the field at a path, which may end in "[3]". */
void fields_describe(const struct fields *fields, const char *path, struct dgl_buf *out);
/* Writes the config.json. */
void fields_write(const struct fields *fields, struct dgl_json_writer *w);

#endif
