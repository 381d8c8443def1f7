/* Texts with taint, and how values read as text. */
#include "loader/jinja/jinja_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_chars.h"

static void fill_taint(struct dgl_buf *taint, size_t len, bool data)
{
    static const uint8_t template_taint[64];
    uint8_t data_taint[64];
    memset(data_taint, JINJA_TAINT_DATA, sizeof(data_taint));
    for (size_t part; len; len -= part) {
        part = len < sizeof(data_taint) ? len : sizeof(data_taint);
        dgl_buf_append(taint, data ? data_taint : template_taint, part);
    }
}

/* Room within the limit, and taint per byte from here on if the new part differs. */
static bool prepare(struct jinja_run *run, struct jinja_text *text, size_t len, bool mixed,
                    bool data)
{
    if (len > run->limits.output_bytes - text->bytes.len)
        return jinja_error(run, "the template makes a text of more than %zu bytes",
                           run->limits.output_bytes);
    if (text->bytes.len == 0)
        text->data = data;
    if (!text->mixed && (mixed || data != text->data)) {
        fill_taint(&text->taint, text->bytes.len, text->data);
        text->mixed = true;
    }
    return jinja_step_bytes(run, len);
}

bool jinja_text_put(struct jinja_run *run, struct jinja_text *text, struct dgl_str part, bool data)
{
    if (part.len == 0)
        return true;
    if (!prepare(run, text, part.len, false, data))
        return false;
    dgl_buf_append(&text->bytes, part.p, part.len);
    if (text->mixed)
        fill_taint(&text->taint, part.len, data);
    return true;
}

bool jinja_text_add(struct jinja_run *run, struct jinja_text *text,
                    const struct jinja_value *string)
{
    if (!string->text.taint)
        return jinja_text_put(run, text, jinja_str(string), string->data);
    if (string->text.len == 0)
        return true;
    if (!prepare(run, text, string->text.len, true, string->data))
        return false;
    dgl_buf_append(&text->bytes, string->text.p, string->text.len);
    dgl_buf_append(&text->taint, string->text.taint, string->text.len);
    return true;
}

bool jinja_text_write_taint(const struct jinja_text *text, struct dgl_buf *out)
{
    if (text->mixed)
        dgl_buf_append(out, text->taint.p, text->taint.len);
    else
        fill_taint(out, text->bytes.len, text->data);
    return !out->failed;
}

bool jinja_text_end(struct jinja_run *run, struct jinja_text *text, bool ok,
                    struct jinja_value *out)
{
    size_t len = text->bytes.len;
    if (ok && (text->bytes.failed || text->taint.failed))
        ok = dgl_budget_fail_memory(&run->budget, len);
    char *copy = ok ? jinja_alloc(run, len + (text->mixed ? len : 0) + 1, 1) : NULL;
    if (copy) {
        *out = jinja_text_of((struct dgl_str){copy, len}, text->data);
        if (len)
            memcpy(copy, text->bytes.p, len);
        if (text->mixed) {
            memcpy(copy + len + 1, text->taint.p, len);
            out->text.taint = (const uint8_t *)copy + len + 1;
        }
    }
    dgl_buf_finish(&text->bytes);
    dgl_buf_finish(&text->taint);
    return copy != NULL;
}

/* Leaves the digits in `space`, as "%.*e" prints them; returns how many of them follow the point.
 */
static int shortest_digits(struct dgl_buf *space, double value)
{
    for (int digits = 0;; digits++) {
        double back;
        space->len = 0;
        dgl_buf_printf(space, "%.*e", digits, value);
        struct dgl_str text = {space->p, space->len};
        if (space->failed || digits == 16 || (dgl_parse_f64(text, &back) && back == value))
            return digits;
    }
}

void jinja_print_float(struct dgl_buf *out, double value)
{
    if (!isfinite(value)) {
        dgl_buf_puts(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    struct dgl_buf space = {0};
    int digits = shortest_digits(&space, value);
    const char *mark = space.failed ? NULL : strchr(space.p, 'e');
    int exponent = mark ? (int)strtol(mark + 1, NULL, 10) : 0;
    if (exponent < -4 || exponent >= 16)
        dgl_buf_puts(out, space.p ? space.p : "");
    else
        dgl_buf_printf(out, "%.*f", digits > exponent + 1 ? digits - exponent : 1, value);
    out->failed |= space.failed;
    dgl_buf_finish(&space);
}

static bool put_cstr(struct jinja_run *run, struct jinja_text *text, const char *part, bool data)
{
    return jinja_text_put(run, text, dgl_str_of(part), data);
}

static bool put_number(struct jinja_run *run, struct jinja_text *text,
                       const struct jinja_value *value)
{
    struct dgl_buf space = {0};
    if (value->type == JINJA_INT)
        dgl_buf_printf(&space, "%" PRId64, value->integer);
    else
        jinja_print_float(&space, value->real);
    bool ok = jinja_text_put(run, text, (struct dgl_str){space.p, space.len}, value->data);
    text->bytes.failed |= space.failed;
    dgl_buf_finish(&space);
    return ok;
}

/* What repr() writes for a character that it does not print as it is; 0: it does. */
static size_t repr_escape(uint32_t cp, char quote, char out[16])
{
    static const char plain[] = "\n\r\t", letters[] = "nrt";
    const char *found = cp && cp < 0x80 ? strchr(plain, (int)cp) : NULL;
    const char *fmt = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
    if (found)
        return (size_t)snprintf(out, 16, "\\%c", letters[found - plain]);
    if (cp == '\\' || cp == (uint32_t)quote)
        return (size_t)snprintf(out, 16, "\\%c", (int)cp);
    return jinja_is_printable(cp) ? 0 : (size_t)snprintf(out, 16, fmt, (unsigned)cp);
}

static bool add_quoted(struct jinja_run *run, struct jinja_text *text,
                       const struct jinja_value *string)
{
    struct dgl_str s = jinja_str(string);
    bool single = memchr(s.p ? s.p : "", '\'', s.len), twice = memchr(s.p ? s.p : "", '"', s.len);
    char quote[2] = {single && !twice ? '"' : '\'', '\0'}, escaped[16];
    bool ok = put_cstr(run, text, quote, string->data);
    size_t start = 0, pos = 0;
    while (ok && pos < s.len) {
        uint32_t cp;
        size_t len = dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        size_t escape = repr_escape(cp, quote[0], escaped);
        if (escape) {
            struct jinja_value before = jinja_slice_bytes(string, start, pos - start);
            bool data = jinja_byte_is_data(string, pos);
            ok = jinja_text_add(run, text, &before) &&
                 jinja_text_put(run, text, (struct dgl_str){escaped, escape}, data);
            start = pos + len;
        }
        pos += len;
    }
    struct jinja_value rest = jinja_slice_bytes(string, start, s.len - start);
    return ok && jinja_text_add(run, text, &rest) && put_cstr(run, text, quote, string->data);
}

static bool add_items(struct jinja_run *run, struct jinja_text *text,
                      const struct jinja_value *value)
{
    const struct jinja_list *list = value->list;
    bool tuple = value->type == JINJA_TUPLE;
    bool ok = true;
    if (value->type == JINJA_VIEW)
        ok = put_cstr(run, text, list->label, value->data) && put_cstr(run, text, "(", value->data);
    ok = ok && put_cstr(run, text, tuple ? "(" : "[", value->data);
    for (size_t i = 0; ok && i < list->count; i++)
        ok = (i == 0 || put_cstr(run, text, ", ", value->data)) &&
             jinja_text_add_repr(run, text, &list->items[i]);
    if (ok && tuple && list->count == 1)
        ok = put_cstr(run, text, ",", value->data);
    ok = ok && put_cstr(run, text, tuple ? ")" : "]", value->data);
    return ok && (value->type != JINJA_VIEW || put_cstr(run, text, ")", value->data));
}

static bool add_entries(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_value *value)
{
    bool ok = put_cstr(run, text, "{", value->data);
    for (size_t i = 0; ok && i < value->dict->count; i++) {
        const struct jinja_entry *entry = &value->dict->entries[i];
        ok = (i == 0 || put_cstr(run, text, ", ", value->data)) &&
             jinja_text_add_repr(run, text, &entry->key) &&
             put_cstr(run, text, ": ", value->data) &&
             jinja_text_add_repr(run, text, &entry->value);
    }
    return ok && put_cstr(run, text, "}", value->data);
}

static bool add_range(struct jinja_run *run, struct jinja_text *text,
                      const struct jinja_value *value)
{
    char space[96];
    if (value->range.step == 1)
        snprintf(space, sizeof(space), "range(%" PRId64 ", %" PRId64 ")", value->range.start,
                 value->range.stop);
    else
        snprintf(space, sizeof(space), "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                 value->range.start, value->range.stop, value->range.step);
    return put_cstr(run, text, space, value->data);
}

static bool add_repr(struct jinja_run *run, struct jinja_text *text,
                     const struct jinja_value *value)
{
    switch (value->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        return put_cstr(run, text, "Undefined", false);
    case JINJA_NONE:
        return put_cstr(run, text, "None", value->data);
    case JINJA_BOOL:
        return put_cstr(run, text, value->boolean ? "True" : "False", value->data);
    case JINJA_INT:
    case JINJA_FLOAT:
        return put_number(run, text, value);
    case JINJA_STRING:
        return add_quoted(run, text, value);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return add_items(run, text, value);
    case JINJA_DICT:
        return add_entries(run, text, value);
    case JINJA_NAMESPACE:
        return put_cstr(run, text, "<Namespace ", false) && add_entries(run, text, value) &&
               put_cstr(run, text, ">", false);
    case JINJA_RANGE:
        return add_range(run, text, value);
    case JINJA_GENERATOR:
    case JINJA_FUNCTION:
    case JINJA_MACRO:
    case JINJA_LOOP:
    case JINJA_CYCLER:
        break;
    }
    return put_cstr(run, text, "<", false) && put_cstr(run, text, jinja_type_name(value), false) &&
           put_cstr(run, text, ">", false);
}

bool jinja_text_add_repr(struct jinja_run *run, struct jinja_text *text,
                         const struct jinja_value *value)
{
    if (!jinja_enter(run))
        return false;
    bool ok = jinja_step(run, 1) && add_repr(run, text, value);
    jinja_leave(run);
    return ok;
}

bool jinja_text_add_str(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_value *value)
{
    if (value->type == JINJA_STRING)
        return jinja_text_add(run, text, value);
    if (value->type == JINJA_UNDEFINED)
        return true;
    return jinja_text_add_repr(run, text, value);
}

bool jinja_to_text(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out)
{
    if (value->type == JINJA_STRING) {
        *out = *value;
        return true;
    }
    struct jinja_text text = {0};
    bool ok = jinja_text_add_str(run, &text, value);
    return jinja_text_end(run, &text, ok, out);
}
