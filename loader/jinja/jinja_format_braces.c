/* "...".format(...): replacement fields in braces. */
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_format.h"

struct formatter {
    struct jinja_run *run;
    struct jinja_text text;
    const struct jinja_call *call;
    size_t next; /* the positional argument that "{}" takes */
};

static bool fail_field(struct formatter *f, const char *what)
{
    return jinja_error(f->run, "%s", what);
}

/* Cuts `text` at the first of `separators`; the separator stays in front of the rest. */
static struct dgl_str take_until(struct dgl_str *text, const char *separators)
{
    size_t len = 0;
    while (len < text->len && !strchr(separators, text->p[len] ? text->p[len] : '?'))
        len++;
    struct dgl_str part = {text->p, len};
    *text = (struct dgl_str){text->p + len, text->len - len};
    return part;
}

/* The argument that the first part of a field's name stands for. */
static bool find_argument(struct formatter *f, struct dgl_str name, struct jinja_value *out)
{
    uint64_t index = f->next;
    if (name.len == 0)
        f->next++;
    if (name.len == 0 || dgl_parse_u64(name, UINT32_MAX, &index)) {
        if (index >= f->call->num_args)
            return fail_field(f, "Replacement index out of range for positional args tuple");
        *out = f->call->args[index];
        return true;
    }
    for (size_t i = 0; i < f->call->num_named; i++) {
        struct dgl_str other = f->call->named[i].name;
        if (other.len == name.len && memcmp(other.p, name.p, name.len) == 0) {
            *out = f->call->named[i].value;
            return true;
        }
    }
    return fail_field(f, "a replacement field names an argument that is not there");
}

/* ".name" and "[key]" behind it. */
static bool find_part(struct formatter *f, struct dgl_str *path, struct jinja_value *value)
{
    struct jinja_value owner = *value;
    bool item = path->p[0] == '[';
    *path = (struct dgl_str){path->p + 1, path->len - 1};
    struct dgl_str name = take_until(path, item ? "]" : ".[");
    if (!item)
        return jinja_get_attribute(f->run, &owner, name, value);
    if (path->len == 0)
        return fail_field(f, "Missing ']' in format string");
    *path = (struct dgl_str){path->p + 1, path->len - 1};
    int64_t index;
    struct jinja_value key = jinja_text_of(name, false);
    if (dgl_parse_i64(name, 0, INT64_MAX, &index))
        key = jinja_int(index);
    return jinja_get_item(f->run, &owner, &key, value);
}

static bool take_digits(struct dgl_str *text, int64_t *out)
{
    struct dgl_str digits = *text;
    size_t len = 0;
    while (len < text->len && text->p[len] >= '0' && text->p[len] <= '9')
        len++;
    digits.len = len;
    *text = (struct dgl_str){text->p + len, text->len - len};
    return len == 0 || dgl_parse_i64(digits, 0, INT32_MAX, out);
}

static bool take_char(struct dgl_str *text, const char *set, char *out)
{
    if (text->len == 0 || !text->p[0] || !strchr(set, text->p[0]))
        return false;
    *out = text->p[0];
    *text = (struct dgl_str){text->p + 1, text->len - 1};
    return true;
}

/* "[[fill]align][sign][#][0][width][,][.precision][type]" */
static bool parse_spec(struct formatter *f, struct dgl_str text, struct jinja_format_spec *spec)
{
    static const char aligns[] = "<>^=";
    char c;
    uint32_t cp;
    *spec = (struct jinja_format_spec){.precision = -1};
    size_t fill = text.len ? dgl_utf8_decode(text.p, text.len, &cp) : 0;
    if (fill && fill < text.len && text.p[fill] && strchr(aligns, text.p[fill])) {
        spec->fill = (struct dgl_str){text.p, fill};
        text = (struct dgl_str){text.p + fill, text.len - fill};
    }
    take_char(&text, aligns, &spec->align);
    if (take_char(&text, "+- ", &c))
        spec->sign = c == '-' ? '\0' : c;
    spec->alternate = take_char(&text, "#", &c);
    if (take_char(&text, "0", &c) && !spec->align) {
        spec->fill = DGL_STR("0");
        spec->align = '=';
    }
    bool ok = take_digits(&text, &spec->width);
    spec->thousands = take_char(&text, ",", &c);
    if (take_char(&text, ".", &c)) {
        spec->precision = 0;
        ok = ok && take_digits(&text, &spec->precision);
    }
    take_char(&text, "sdnboxXceEfFgG%", &spec->type);
    return (ok && text.len == 0) || fail_field(f, "Invalid format specifier");
}

/* What "!r" and "!s" make of a value before it is laid out. */
static bool convert(struct formatter *f, char conversion, struct jinja_value *value)
{
    struct jinja_text text = {0};
    bool ok = conversion == 's' ? jinja_text_add_str(f->run, &text, value)
                                : jinja_text_add_repr(f->run, &text, value);
    return jinja_text_end(f->run, &text, ok, value);
}

static bool format_field(struct formatter *f, struct dgl_str field)
{
    struct dgl_str path = take_until(&field, "!:"), name = take_until(&path, ".[");
    struct jinja_value value;
    struct jinja_format_spec spec;
    char conversion = '\0';
    if (!find_argument(f, name, &value))
        return false;
    while (path.len) {
        if (!find_part(f, &path, &value))
            return false;
    }
    if (field.len && field.p[0] == '!') {
        field = (struct dgl_str){field.p + 1, field.len - 1};
        if (!take_char(&field, "rsa", &conversion) || (field.len && field.p[0] != ':'))
            return fail_field(f, "expected ':' after conversion specifier");
    }
    if (field.len)
        field = (struct dgl_str){field.p + 1, field.len - 1};
    return (!conversion || convert(f, conversion, &value)) && parse_spec(f, field, &spec) &&
           jinja_format_value(f->run, &f->text, &spec, &value);
}

bool jinja_format_braces(struct jinja_run *run, const struct jinja_value *format,
                         const struct jinja_call *call, struct jinja_value *out)
{
    struct formatter f = {.run = run, .call = call};
    struct dgl_str rest = jinja_str(format);
    bool ok = true;
    while (ok && rest.len) {
        struct jinja_value plain = jinja_part(format, take_until(&rest, "{}"));
        ok = jinja_text_add(run, &f.text, &plain);
        if (!ok || !rest.len)
            break;
        char brace = rest.p[0];
        rest = (struct dgl_str){rest.p + 1, rest.len - 1};
        if (rest.len && rest.p[0] == brace) {
            plain = jinja_part(format, (struct dgl_str){rest.p, 1});
            ok = jinja_text_add(run, &f.text, &plain);
            rest = (struct dgl_str){rest.p + 1, rest.len - 1};
            continue;
        }
        struct dgl_str field = take_until(&rest, "{}");
        if (brace == '}' || !rest.len || rest.p[0] != '}')
            ok = fail_field(&f, brace == '}' ? "Single '}' encountered in format string"
                                : rest.len   ? "nested replacement fields are not supported"
                                             : "expected '}' before end of string");
        else
            ok = format_field(&f, field);
        if (rest.len)
            rest = (struct dgl_str){rest.p + 1, rest.len - 1};
    }
    return jinja_text_end(run, &f.text, ok, out);
}
