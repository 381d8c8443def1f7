/*
 * The JSON reader and writer. Only its sources include cJSON.
 *
 * Reading is stricter than cJSON: the text must be exactly one value, keys are case-sensitive and
 * unique, numbers are finite, integers are exact in 64 bits, nesting is at most 64, there are at
 * most 5 million values, and the text is valid UTF-8.
 *
 * Strings have a length and may contain U+0000. Errors name the file, the position and the text
 * found there. Unpaired escaped surrogates are refused, because UTF-8 cannot represent them.
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

struct dgl_json_doc; /* owns all its values; keeps `name` for messages */
struct dgl_json;     /* one value; borrowed from its document */

/* `name` names the text in messages, usually a path. */
enum dgl_status dgl_json_parse(const struct dgl_log *log, const char *name, const char *text,
                               size_t len, struct dgl_json_doc **out);
/* The same, but at most `most_values` values. A value takes about 200 bytes of memory, beside its
 * text. */
enum dgl_status dgl_json_parse_most(const struct dgl_log *log, const char *name, const char *text,
                                    size_t len, size_t most_values, struct dgl_json_doc **out);
/* Reads and parses a file. Files above `max` bytes are refused. */
enum dgl_status dgl_json_load(const struct dgl_log *log, const char *path, size_t max,
                              struct dgl_json_doc **out);
void dgl_json_destroy(struct dgl_json_doc **doc);
const struct dgl_json *dgl_json_root(const struct dgl_json_doc *doc);
const char *dgl_json_name(const struct dgl_json_doc *doc);

enum dgl_json_type dgl_json_type(const struct dgl_json *value); /* NULL is DGL_JSON_NULL */
const char *dgl_json_type_name(enum dgl_json_type type);
bool dgl_json_is(const struct dgl_json *value,
                 enum dgl_json_type type); /* false for NULL pointers */
struct dgl_str
dgl_json_str(const struct dgl_json *value);        /* empty unless a string; NUL-terminated */
double dgl_json_f64(const struct dgl_json *value); /* 0 unless a number */
bool dgl_json_bool(const struct dgl_json *value);
/* Returns false unless the value is a whole number in range; 1.0 is whole too. Beyond 2^53 the
 * number must be written as plain digits. */
bool dgl_json_i64(const struct dgl_json *value, int64_t *out);
/* Returns true if the number was written with a fraction or an exponent (1.0, not 1). */
bool dgl_json_is_real(const struct dgl_json *value);
/* Returns the original text of a number if its double loses information (1.0, 2e3, 2^53 and above),
 * else an empty text. */
struct dgl_str dgl_json_spelling(const struct dgl_json *value);
size_t dgl_json_count(const struct dgl_json *value); /* children of an array or object */
/* Iterates in file order. Keys in arrays are empty. */
const struct dgl_json *dgl_json_first(const struct dgl_json *value);
const struct dgl_json *dgl_json_next(const struct dgl_json *value);
struct dgl_str dgl_json_key(const struct dgl_json *value);
/* Finds a key by exact match. Returns NULL if it is absent or `object` is not an object. The search
 * is linear, or hashed in large objects. */
const struct dgl_json *dgl_json_get(const struct dgl_json *object, const char *key);
/* Returns an array element by linear search; in loops use dgl_json_first() and dgl_json_next().
 * Returns NULL if the index is out of range or `array` is not an array. */
const struct dgl_json *dgl_json_at(const struct dgl_json *array, size_t index);

/* Reads typed fields of an object and reports errors. A wrong type or a value out of range is
 * DGL_ERR_FORMAT: "NAME: PATH.key is 3.5, wanted an integer from 1 to 4096". */
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
/* Fails with "NAME: PATH is FOUND, wanted WANTED". */
enum dgl_status dgl_json_fail_wanted(struct dgl_json_reader r, const struct dgl_json *value,
                                     const char *wanted);
/* Fails with DGL_ERR_FORMAT. The message starts with "NAME: PATH: ", or with "NAME: " for the root.
 * Finding PATH searches the whole document, so use it for failures only. */
enum dgl_status dgl_json_fail(struct dgl_json_reader r, const struct dgl_json *value,
                              const char *fmt, ...) DGL_PRINTF(3, 4);

/* JSON writer. Appends to a buffer and adds commas, indentation and escapes. Misuse is an assertion
 * failure. */
struct dgl_json_writer {
    struct dgl_buf *out;
    int indent; /* spaces per level; 0 writes one line */
    int depth;
    bool need_comma[96], after_key; /* a parsed value of 64 levels fits inside of others */
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
void dgl_jw_f64(struct dgl_json_writer *w, double value); /* infinity and NaN are written as null */
void dgl_jw_bool(struct dgl_json_writer *w, bool value);
void dgl_jw_null(struct dgl_json_writer *w);
void dgl_jw_raw(struct dgl_json_writer *w, const char *json); /* must have this layout */
/* The same calls with a key, for the fields of an object. */
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
/* Copies a parsed value. The order of keys is kept. */
void dgl_jw_value(struct dgl_json_writer *w, const struct dgl_json *value);

#endif
