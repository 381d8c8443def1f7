/*
 * The one JSON reader and writer, and the only file that includes cJSON.
 * Reading is strict where cJSON is not: the whole text must be one value, keys are case-sensitive
 * and unique, numbers are finite, integers exact in 64 bits, nesting at most 64, values at most 5
 * million, text valid UTF-8.
 * Strings carry a length and keep U+0000. Errors name the file, where in it, and what was
 * found. Escaped surrogates without their other half are refused: no UTF-8 could hold them.
 */
#ifndef DGL_BASE_JSON_H
#define DGL_BASE_JSON_H

#include "core/base/printable.h"
#include "core/base/status.h"

enum dgl_json_type {
    DGL_JSON_NULL,
    DGL_JSON_BOOL,
    DGL_JSON_NUMBER,
    DGL_JSON_STRING,
    DGL_JSON_ARRAY,
    DGL_JSON_OBJECT
};

struct dgl_json_doc; /* owns every value below it; remembers `name` for messages */
struct dgl_json;     /* one value; borrowed from its document */

/* `name` names the text in messages, usually a path. */
enum dgl_status dgl_json_parse(const struct dgl_log *log, const char *name, const char *text,
                               size_t len, struct dgl_json_doc **out);
/* Slurp and parse; files above `max` bytes are refused. */
enum dgl_status dgl_json_load(const struct dgl_log *log, const char *path, size_t max,
                              struct dgl_json_doc **out);
void dgl_json_destroy(struct dgl_json_doc **doc);
const struct dgl_json *dgl_json_root(const struct dgl_json_doc *doc);
const char *dgl_json_name(const struct dgl_json_doc *doc);

enum dgl_json_type dgl_json_type(const struct dgl_json *value); /* NULL counts as DGL_JSON_NULL */
const char *dgl_json_type_name(enum dgl_json_type type);
bool dgl_json_is(const struct dgl_json *value,
                 enum dgl_json_type type); /* false for NULL pointers */
struct dgl_str
dgl_json_str(const struct dgl_json *value);        /* empty unless a string; NUL-terminated */
double dgl_json_f64(const struct dgl_json *value); /* 0 unless a number */
bool dgl_json_bool(const struct dgl_json *value);
/* False unless a whole number, "1.0" is one too, that fits; beyond 2^53 only when written as
 * digits. */
bool dgl_json_i64(const struct dgl_json *value, int64_t *out);
/* Written with a fraction or an exponent: tells 1.0 from 1 where the two differ. */
bool dgl_json_is_real(const struct dgl_json *value);
/* A number as it was written, where its double does not tell (1.0, 2e3, 2^53 and more); else empty
 * text. */
struct dgl_str dgl_json_spelling(const struct dgl_json *value);
size_t dgl_json_count(const struct dgl_json *value); /* children of an array or object */
/* Iteration in file order; a key is empty in arrays. */
const struct dgl_json *dgl_json_first(const struct dgl_json *value);
const struct dgl_json *dgl_json_next(const struct dgl_json *value);
struct dgl_str dgl_json_key(const struct dgl_json *value);
/* Exact key; NULL when absent or not an object. Linear, or hashed for large objects. */
const struct dgl_json *dgl_json_get(const struct dgl_json *object, const char *key);
/* Linear: loops use dgl_json_first and dgl_json_next. NULL beyond the end or when not an array. */
const struct dgl_json *dgl_json_at(const struct dgl_json *array, size_t index);

/* Typed fields of an object with messages: wrong types and values out of range are DGL_ERR_FORMAT
 * "NAME: PATH.key is 3.5, wanted an integer from 1 to 4096". */
struct dgl_json_reader {
    const struct dgl_log *log;
    const struct dgl_json_doc *doc;
};
enum dgl_status dgl_json_need(struct dgl_json_reader r, const struct dgl_json *object,
                              const char *key, enum dgl_json_type type,
                              const struct dgl_json **out); /* absent is an error */
enum dgl_status dgl_json_opt(struct dgl_json_reader r, const struct dgl_json *object,
                             const char *key, enum dgl_json_type type,
                             const struct dgl_json **out); /* absent or null gives NULL */
enum dgl_status dgl_json_need_i64(struct dgl_json_reader r, const struct dgl_json *object,
                                  const char *key, int64_t min, int64_t max, int64_t *out);
enum dgl_status dgl_json_opt_i64(struct dgl_json_reader r, const struct dgl_json *object,
                                 const char *key, int64_t min, int64_t max,
                                 int64_t *inout); /* absent or null keeps *inout */
enum dgl_status dgl_json_opt_f64(struct dgl_json_reader r, const struct dgl_json *object,
                                 const char *key, double min, double max, double *inout);
enum dgl_status dgl_json_opt_bool(struct dgl_json_reader r, const struct dgl_json *object,
                                  const char *key, bool *inout);
/* "NAME: PATH is FOUND, wanted WANTED", as the typed fields say it. */
enum dgl_status dgl_json_fail_wanted(struct dgl_json_reader r, const struct dgl_json *value,
                                     const char *wanted);
/* Fails with DGL_ERR_FORMAT; the message starts "NAME: PATH: ", for the root "NAME: ". PATH is
 * searched from the root on: for failures only. */
enum dgl_status dgl_json_fail(struct dgl_json_reader r, const struct dgl_json *value,
                              const char *fmt, ...) DGL_PRINTF(3, 4);

/* Writer: appends to a builder, keeps commas and indentation, escapes strings; misuse is an
 * assertion. */
struct dgl_json_writer {
    struct dgl_buf *out;
    int indent; /* spaces per level; 0 = one line */
    int depth;
    bool need_comma[64], after_key;
};
struct dgl_json_writer dgl_json_writer(struct dgl_buf *out, int indent);
void dgl_jw_object(struct dgl_json_writer *w);
void dgl_jw_array(struct dgl_json_writer *w);
void dgl_jw_end_object(struct dgl_json_writer *w);
void dgl_jw_end_array(struct dgl_json_writer *w);
void dgl_jw_key(struct dgl_json_writer *w, const char *key);
void dgl_jw_key_str(struct dgl_json_writer *w, struct dgl_str key);
void dgl_jw_str(struct dgl_json_writer *w, struct dgl_str text); /* invalid UTF-8 becomes U+FFFD */
void dgl_jw_cstr(struct dgl_json_writer *w, const char *text);   /* NULL gives null */
void dgl_jw_i64(struct dgl_json_writer *w, int64_t value);
void dgl_jw_u64(struct dgl_json_writer *w, uint64_t value);
void dgl_jw_f64(struct dgl_json_writer *w, double value); /* not finite gives null */
void dgl_jw_bool(struct dgl_json_writer *w, bool value);
void dgl_jw_null(struct dgl_json_writer *w);
void dgl_jw_raw(struct dgl_json_writer *w, const char *json); /* a value in this writer's form */
/* The same with a key: fields of an object. */
void dgl_jw_field_object(struct dgl_json_writer *w, const char *key);
void dgl_jw_field_array(struct dgl_json_writer *w, const char *key);
void dgl_jw_field_str(struct dgl_json_writer *w, const char *key, struct dgl_str text);
void dgl_jw_field_cstr(struct dgl_json_writer *w, const char *key, const char *text);
void dgl_jw_field_i64(struct dgl_json_writer *w, const char *key, int64_t value);
void dgl_jw_field_u64(struct dgl_json_writer *w, const char *key, uint64_t value);
void dgl_jw_field_f64(struct dgl_json_writer *w, const char *key, double value);
void dgl_jw_field_bool(struct dgl_json_writer *w, const char *key, bool value);
void dgl_jw_field_null(struct dgl_json_writer *w, const char *key);
void dgl_jw_field_raw(struct dgl_json_writer *w, const char *key, const char *json);
/* Copies a parsed value (key order kept). */
void dgl_jw_value(struct dgl_json_writer *w, const struct dgl_json *value);

#endif
