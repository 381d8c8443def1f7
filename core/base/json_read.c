/* Typed fields of JSON objects, and messages with the path of a value. */
#include <inttypes.h>

#include "core/base/json.h"

const char *dgl_json_type_name(enum dgl_json_type type)
{
    switch (type) {
    case DGL_JSON_NULL:
        return "null";
    case DGL_JSON_BOOL:
        return "true or false";
    case DGL_JSON_NUMBER:
        return "a number";
    case DGL_JSON_STRING:
        return "a string";
    case DGL_JSON_ARRAY:
        return "an array";
    case DGL_JSON_OBJECT:
        return "an object";
    }
    return "nothing known";
}

/* Appends the keys and indices on the way from `from` to `target`, depth first. Leaves `path`
 * unchanged if `target` is not below `from`. This walks the whole tree, but only failures use
 * it. */
static bool append_path(struct dgl_buf *path, const struct dgl_json *from,
                        const struct dgl_json *target)
{
    if (from == target)
        return true;
    bool object = dgl_json_is(from, DGL_JSON_OBJECT);
    size_t index = 0, len = path->len;
    for (const struct dgl_json *child = dgl_json_first(from); child;
         child = dgl_json_next(child), index++) {
        if (child != target && !dgl_json_first(child))
            continue;
        if (object && len)
            dgl_buf_putc(path, '.');
        if (object)
            dgl_buf_puts(path, DGL_PRINTABLE_STR(dgl_json_key(child)));
        else
            dgl_buf_printf(path, "[%zu]", index);
        if (append_path(path, child, target))
            return true;
        path->len = len;
    }
    return false;
}

/* "NAME: PATH"; PATH of the root is empty. */
static void append_place(struct dgl_buf *out, const struct dgl_json_doc *doc,
                         const struct dgl_json *value, const char *key)
{
    struct dgl_buf path = {0};
    if (value)
        append_path(&path, dgl_json_root(doc), value);
    if (key && path.len)
        dgl_buf_putc(&path, '.');
    if (key)
        dgl_buf_puts(&path, key);
    dgl_buf_puts(out, dgl_json_name(doc));
    dgl_buf_puts(out, ": ");
    dgl_buf_append(out, path.p, path.len);
    dgl_buf_finish(&path);
}

enum dgl_status dgl_json_fail(struct dgl_json_reader r, const struct dgl_json *value,
                              const char *fmt, ...)
{
    struct dgl_buf line = {0};
    append_place(&line, r.doc, value, NULL);
    if (value && value != dgl_json_root(r.doc))
        dgl_buf_puts(&line, ": ");
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&line, fmt, args);
    va_end(args);
    dgl_fail(r.log, DGL_ERR_FORMAT, "%s", line.failed ? fmt : line.p);
    dgl_buf_finish(&line);
    return DGL_ERR_FORMAT;
}

static void append_found(struct dgl_buf *out, const struct dgl_json *value)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
    case DGL_JSON_BOOL:
    case DGL_JSON_NUMBER:
        dgl_jw_value(&w, value);
        break;
    case DGL_JSON_STRING:
        dgl_buf_putc(out, '"');
        dgl_buf_puts(out, DGL_PRINTABLE_STR(dgl_json_str(value)));
        dgl_buf_putc(out, '"');
        break;
    case DGL_JSON_ARRAY:
        dgl_buf_printf(out, "an array of %zu", dgl_json_count(value));
        break;
    case DGL_JSON_OBJECT:
        dgl_buf_printf(out, "an object with %zu key%s", dgl_json_count(value),
                       dgl_json_count(value) == 1 ? "" : "s");
        break;
    }
}

/* Reports "NAME: PATH.key is FOUND, wanted WANTED". A NULL value is reported as missing. */
static enum dgl_status fail_field(struct dgl_json_reader r, const struct dgl_json *object,
                                  const char *key, const struct dgl_json *value, const char *wanted)
{
    struct dgl_buf line = {0};
    append_place(&line, r.doc, object, key);
    dgl_buf_puts(&line, object == dgl_json_root(r.doc) && !key ? "is " : " is ");
    if (value)
        append_found(&line, value);
    else
        dgl_buf_puts(&line, "missing");
    dgl_fail(r.log, DGL_ERR_FORMAT, "%s, wanted %s", line.failed ? dgl_json_name(r.doc) : line.p,
             wanted);
    dgl_buf_finish(&line);
    return DGL_ERR_FORMAT;
}

enum dgl_status dgl_json_fail_wanted(struct dgl_json_reader r, const struct dgl_json *value,
                                     const char *wanted)
{
    return fail_field(r, value, NULL, value, wanted);
}

enum dgl_status dgl_json_need(struct dgl_json_reader r, const struct dgl_json *object,
                              const char *key, enum dgl_json_type type, const struct dgl_json **out)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    *out = NULL;
    if (!dgl_json_is(value, type))
        return fail_field(r, object, key, value, dgl_json_type_name(type));
    *out = value;
    return DGL_OK;
}

static bool is_absent(const struct dgl_json *object, const char *key)
{
    return dgl_json_type(dgl_json_get(object, key)) == DGL_JSON_NULL;
}

enum dgl_status dgl_json_opt(struct dgl_json_reader r, const struct dgl_json *object,
                             const char *key, enum dgl_json_type type, const struct dgl_json **out)
{
    *out = NULL;
    return is_absent(object, key) ? DGL_OK : dgl_json_need(r, object, key, type, out);
}

enum dgl_status dgl_json_need_i64(struct dgl_json_reader r, const struct dgl_json *object,
                                  const char *key, int64_t min, int64_t max, int64_t *out)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    int64_t number;
    if (dgl_json_i64(value, &number) && number >= min && number <= max) {
        *out = number;
        return DGL_OK;
    }
    struct dgl_buf text = {0};
    dgl_buf_printf(&text, "an integer from %" PRId64 " to %" PRId64, min, max);
    enum dgl_status status = fail_field(r, object, key, value, text.failed ? "an integer" : text.p);
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status dgl_json_opt_i64(struct dgl_json_reader r, const struct dgl_json *object,
                                 const char *key, int64_t min, int64_t max, int64_t *inout)
{
    if (is_absent(object, key))
        return DGL_OK;
    return dgl_json_need_i64(r, object, key, min, max, inout);
}

enum dgl_status dgl_json_opt_f64(struct dgl_json_reader r, const struct dgl_json *object,
                                 const char *key, double min, double max, double *inout)
{
    if (is_absent(object, key))
        return DGL_OK;
    const struct dgl_json *value = dgl_json_get(object, key);
    double number = dgl_json_f64(value);
    if (dgl_json_is(value, DGL_JSON_NUMBER) && number >= min && number <= max) {
        *inout = number;
        return DGL_OK;
    }
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, "a number from ");
    dgl_buf_f64(&text, min);
    dgl_buf_puts(&text, " to ");
    dgl_buf_f64(&text, max);
    enum dgl_status status = fail_field(r, object, key, value, text.failed ? "a number" : text.p);
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status dgl_json_opt_bool(struct dgl_json_reader r, const struct dgl_json *object,
                                  const char *key, bool *inout)
{
    const struct dgl_json *value;
    enum dgl_status status = dgl_json_opt(r, object, key, DGL_JSON_BOOL, &value);
    if (status == DGL_OK && value)
        *inout = dgl_json_bool(value);
    return status;
}
