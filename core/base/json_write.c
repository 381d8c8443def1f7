/* JSON writer: commas, indentation, escapes. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/utf8.h"

enum { max_depth = sizeof(((struct dgl_json_writer *)0)->need_comma) };

struct dgl_json_writer dgl_json_writer(struct dgl_buf *out, int indent)
{
    return (struct dgl_json_writer){.out = out, .indent = indent};
}

static void new_line(struct dgl_json_writer *w)
{
    if (w->indent == 0)
        return;
    dgl_buf_putc(w->out, '\n');
    for (int i = 0; i < w->depth * w->indent; i++)
        dgl_buf_putc(w->out, ' ');
}

/* Writes the separator between the previous value or key and the next one. */
static void separate(struct dgl_json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->need_comma[w->depth])
        dgl_buf_puts(w->out, w->indent ? "," : ", ");
    w->need_comma[w->depth] = true;
    if (w->depth)
        new_line(w);
}

static void open_container(struct dgl_json_writer *w, char bracket)
{
    separate(w);
    assert(w->depth + 1 < max_depth);
    dgl_buf_putc(w->out, bracket);
    w->depth++;
    w->need_comma[w->depth] = false;
}

static void close_container(struct dgl_json_writer *w, char bracket)
{
    assert(w->depth > 0 && !w->after_key);
    bool filled = w->need_comma[w->depth];
    w->depth--;
    if (filled)
        new_line(w);
    dgl_buf_putc(w->out, bracket);
}

void dgl_jw_object(struct dgl_json_writer *w)
{
    open_container(w, '{');
}

void dgl_jw_array(struct dgl_json_writer *w)
{
    open_container(w, '[');
}

void dgl_jw_end_object(struct dgl_json_writer *w)
{
    close_container(w, '}');
}

void dgl_jw_end_array(struct dgl_json_writer *w)
{
    close_container(w, ']');
}

/* Appends valid UTF-8. Escapes control characters and the characters that JSON requires. */
static void append_valid(struct dgl_buf *out, struct dgl_str text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    size_t start = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];
        /* Terminals act on U+0080 to U+009F as on ESC. The text is valid UTF-8, so C2 is always
         * followed by another byte. */
        bool c1 = c == 0xC2 && (unsigned char)text.p[i + 1] < 0xA0;
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !c1)
            continue;
        dgl_buf_append(out, text.p + start, i - start);
        if (c1)
            c = (unsigned char)text.p[++i]; /* its last byte is its number */
        const char *found = c ? strchr(plain, c) : NULL;
        if (found)
            dgl_buf_printf(out, "\\%c", letter[found - plain]);
        else
            dgl_buf_printf(out, "\\u%04x", c);
        start = i + 1;
    }
    dgl_buf_append(out, text.p + start, text.len - start);
}

static void append_quoted(struct dgl_buf *out, struct dgl_str text)
{
    dgl_buf_putc(out, '"');
    if (dgl_utf8_valid_prefix(text.p, text.len) == text.len) {
        append_valid(out, text);
    } else {
        struct dgl_buf repaired = {0};
        dgl_utf8_append_lossy(&repaired, text.p, text.len);
        append_valid(out, (struct dgl_str){repaired.p, repaired.len});
        out->failed |= repaired.failed;
        dgl_buf_finish(&repaired);
    }
    dgl_buf_putc(out, '"');
}

void dgl_jw_key_str(struct dgl_json_writer *w, struct dgl_str key)
{
    assert(w->depth > 0 && !w->after_key);
    separate(w);
    append_quoted(w->out, key);
    dgl_buf_puts(w->out, ": ");
    w->after_key = true;
}

void dgl_jw_key(struct dgl_json_writer *w, const char *key)
{
    dgl_jw_key_str(w, dgl_str_of(key));
}

void dgl_jw_str(struct dgl_json_writer *w, struct dgl_str text)
{
    separate(w);
    append_quoted(w->out, text);
}

void dgl_jw_cstr(struct dgl_json_writer *w, const char *text)
{
    if (text)
        dgl_jw_str(w, dgl_str_of(text));
    else
        dgl_jw_null(w);
}

void dgl_jw_i64(struct dgl_json_writer *w, int64_t value)
{
    separate(w);
    dgl_buf_printf(w->out, "%" PRId64, value);
}

void dgl_jw_u64(struct dgl_json_writer *w, uint64_t value)
{
    separate(w);
    dgl_buf_printf(w->out, "%" PRIu64, value);
}

void dgl_jw_f64(struct dgl_json_writer *w, double value)
{
    separate(w);
    if (isfinite(value))
        dgl_buf_f64(w->out, value);
    else
        dgl_buf_puts(w->out, "null");
}

void dgl_jw_bool(struct dgl_json_writer *w, bool value)
{
    separate(w);
    dgl_buf_puts(w->out, value ? "true" : "false");
}

void dgl_jw_null(struct dgl_json_writer *w)
{
    dgl_jw_raw(w, "null");
}

void dgl_jw_raw(struct dgl_json_writer *w, const char *json)
{
    separate(w);
    dgl_buf_puts(w->out, json);
}

void dgl_jw_value(struct dgl_json_writer *w, const struct dgl_json *value)
{
    const bool object = dgl_json_type(value) == DGL_JSON_OBJECT;
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
        dgl_jw_null(w);
        break;
    case DGL_JSON_BOOL:
        dgl_jw_bool(w, dgl_json_bool(value));
        break;
    case DGL_JSON_NUMBER:
        if (dgl_json_spelling(value).len)
            dgl_jw_raw(w, dgl_json_spelling(value).p);
        else
            dgl_jw_f64(w, dgl_json_f64(value));
        break;
    case DGL_JSON_STRING:
        dgl_jw_str(w, dgl_json_str(value));
        break;
    case DGL_JSON_ARRAY:
    case DGL_JSON_OBJECT:
        open_container(w, object ? '{' : '[');
        for (const struct dgl_json *child = dgl_json_first(value); child;
             child = dgl_json_next(child)) {
            if (object)
                dgl_jw_key_str(w, dgl_json_key(child));
            dgl_jw_value(w, child);
        }
        close_container(w, object ? '}' : ']');
        break;
    }
}

/* ---- fields ---------------------------------------------------------------------------------- */

void dgl_jw_field_object(struct dgl_json_writer *w, const char *key)
{
    dgl_jw_key(w, key);
    dgl_jw_object(w);
}

void dgl_jw_field_array(struct dgl_json_writer *w, const char *key)
{
    dgl_jw_key(w, key);
    dgl_jw_array(w);
}

void dgl_jw_field_str(struct dgl_json_writer *w, const char *key, struct dgl_str text)
{
    dgl_jw_key(w, key);
    dgl_jw_str(w, text);
}

void dgl_jw_field_cstr(struct dgl_json_writer *w, const char *key, const char *text)
{
    dgl_jw_key(w, key);
    dgl_jw_cstr(w, text);
}

void dgl_jw_field_i64(struct dgl_json_writer *w, const char *key, int64_t value)
{
    dgl_jw_key(w, key);
    dgl_jw_i64(w, value);
}

void dgl_jw_field_u64(struct dgl_json_writer *w, const char *key, uint64_t value)
{
    dgl_jw_key(w, key);
    dgl_jw_u64(w, value);
}

void dgl_jw_field_f64(struct dgl_json_writer *w, const char *key, double value)
{
    dgl_jw_key(w, key);
    dgl_jw_f64(w, value);
}

void dgl_jw_field_bool(struct dgl_json_writer *w, const char *key, bool value)
{
    dgl_jw_key(w, key);
    dgl_jw_bool(w, value);
}

void dgl_jw_field_null(struct dgl_json_writer *w, const char *key)
{
    dgl_jw_key(w, key);
    dgl_jw_null(w);
}

void dgl_jw_field_raw(struct dgl_json_writer *w, const char *key, const char *json)
{
    dgl_jw_key(w, key);
    dgl_jw_raw(w, json);
}
