/* The filter tojson: JSON as Python's json.dumps prints it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"

struct writer {
    struct jinja_run *run;
    struct jinja_text text;
    bool ascii, sort, multiline;
    struct jinja_value indent, item_separator, key_separator;
    size_t level;
};

static bool write_value(struct writer *w, const struct jinja_value *value);

static bool put(struct writer *w, struct dgl_str part, bool data)
{
    return jinja_text_put(w->run, &w->text, part, data);
}

/* ---- strings ---- */

/* Escapes of JSON. Mode: 1 escapes all characters outside of ASCII. */
static size_t json_escape(uint32_t cp, int ascii, char out[jinja_escape_max])
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = cp && cp < 0x80 ? strchr(plain, (int)cp) : NULL;
    if (found)
        return (size_t)snprintf(out, jinja_escape_max, "\\%c", letters[found - plain]);
    if (cp >= 0x20 && (cp < 0x7F || !ascii))
        return 0;
    if (cp < 0x10000)
        return (size_t)snprintf(out, jinja_escape_max, "\\u%04x", (unsigned)cp);
    return (size_t)snprintf(out, jinja_escape_max, "\\u%04x\\u%04x",
                            (unsigned)(0xD800 + ((cp - 0x10000) >> 10)),
                            (unsigned)(0xDC00 + ((cp - 0x10000) & 0x3FF)));
}

static bool write_text(struct writer *w, const struct jinja_value *value)
{
    return put(w, DGL_STR("\""), value->data) &&
           jinja_text_add_escaped(w->run, &w->text, value, json_escape, w->ascii) &&
           put(w, DGL_STR("\""), value->data);
}

/* Writes a key. Numbers and constants become strings. */
static bool write_key(struct writer *w, const struct jinja_value *key)
{
    if (jinja_is_text(key))
        return write_text(w, key);
    if (key->type != JINJA_NONE && !jinja_is_number(key))
        return jinja_error(w->run, "keys must be str, int, float, bool or None, not %s",
                           jinja_type_name(key));
    return put(w, DGL_STR("\""), key->data) && write_value(w, key) &&
           put(w, DGL_STR("\""), key->data);
}

/* ---- lists and dicts ---- */

/* Line breaks and indentation have the taint of the list or dict, like its brackets. */
static bool new_line(struct writer *w, bool data)
{
    if (!w->multiline)
        return true;
    bool ok = put(w, DGL_STR("\n"), data);
    for (size_t i = 0; ok && i < w->level; i++)
        ok = put(w, jinja_str(&w->indent), data);
    return ok;
}

/* Writes the separator and line break before an element. */
static bool begin_item(struct writer *w, size_t index, bool data)
{
    return (index == 0 || put(w, jinja_str(&w->item_separator), data)) && new_line(w, data);
}

static bool write_list(struct writer *w, const struct jinja_value *value)
{
    const struct jinja_list *list = value->list;
    if (list->count == 0)
        return put(w, DGL_STR("[]"), value->data);
    bool ok = put(w, DGL_STR("["), value->data);
    w->level++;
    for (size_t i = 0; ok && i < list->count; i++)
        ok = begin_item(w, i, value->data) && write_value(w, &list->items[i]);
    w->level--;
    return ok && new_line(w, value->data) && put(w, DGL_STR("]"), value->data);
}

static bool write_dict(struct writer *w, const struct jinja_value *value)
{
    const struct jinja_value path = jinja_int(0);
    const struct jinja_dict *dict = value->dict;
    struct jinja_value pairs, sorted;
    if (dict->count == 0)
        return put(w, DGL_STR("{}"), value->data);
    if (w->sort && (!jinja_dict_pairs(w->run, dict, JINJA_LIST, &pairs) ||
                    !jinja_sort(w->run, &pairs, &path, true, false, &sorted)))
        return false;
    bool ok = put(w, DGL_STR("{"), value->data);
    w->level++;
    for (size_t i = 0; ok && i < dict->count; i++) {
        const struct jinja_value *pair = w->sort ? sorted.list->items[i].list->items : NULL;
        ok = begin_item(w, i, value->data) && write_key(w, pair ? pair : &dict->entries[i].key) &&
             put(w, jinja_str(&w->key_separator), value->data) &&
             write_value(w, pair ? pair + 1 : &dict->entries[i].value);
    }
    w->level--;
    return ok && new_line(w, value->data) && put(w, DGL_STR("}"), value->data);
}

static bool write_value(struct writer *w, const struct jinja_value *value)
{
    bool ok;
    if (!jinja_enter(w->run))
        return false;
    switch (value->type) {
    case JINJA_NONE:
        ok = put(w, DGL_STR("null"), value->data);
        break;
    case JINJA_BOOL:
        ok = put(w, dgl_str_of(value->boolean ? "true" : "false"), value->data);
        break;
    case JINJA_FLOAT:
        if (!isfinite(value->real)) {
            ok = put(w,
                     dgl_str_of(isnan(value->real) ? "NaN"
                                : value->real < 0  ? "-Infinity"
                                                   : "Infinity"),
                     value->data);
            break;
        }
        /* fall through */
    case JINJA_INT:
        ok = jinja_text_add_repr(w->run, &w->text, value);
        break;
    case JINJA_STRING:
        ok = write_text(w, value);
        break;
    case JINJA_LIST:
    case JINJA_TUPLE:
        ok = write_list(w, value);
        break;
    case JINJA_DICT:
        ok = write_dict(w, value);
        break;
    default:
        ok = jinja_error(w->run, "Object of type %s is not JSON serializable",
                         jinja_type_name(value));
    }
    jinja_leave(w->run);
    return ok && jinja_step(w->run, 1);
}

/* ---- the filter ---- */

bool jinja_filter_tojson(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *separators = &in->arg[2];
    struct writer w = {.run = in->run,
                       .ascii = jinja_arg_truth(in, 0, false),
                       .multiline = jinja_arg_given(in, 1),
                       .sort = jinja_arg_truth(in, 3, false),
                       .key_separator = jinja_literal(": ")};
    w.item_separator = jinja_literal(w.multiline ? "," : ", ");
    if (w.multiline && !jinja_blanks(in->run, &in->arg[1], 0, &w.indent))
        return false;
    if (jinja_arg_given(in, 2)) {
        if (!jinja_is_sequence(separators) || separators->list->count != 2 ||
            !jinja_is_text(&separators->list->items[0]) ||
            !jinja_is_text(&separators->list->items[1]))
            return jinja_error(in->run, "separators must be two strings");
        w.item_separator = separators->list->items[0];
        w.key_separator = separators->list->items[1];
    }
    bool ok = write_value(&w, &in->self);
    return jinja_text_end(in->run, &w.text, ok, out);
}
