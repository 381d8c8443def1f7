/* "..." % values: printf-like formatting. */
#include <math.h>
#include <string.h>

#include "loader/jinja/jinja_format.h"

struct formatter {
    struct jinja_run *run;
    struct jinja_text text;
    const struct jinja_value *format;
    size_t pos; /* in the format */
    const struct jinja_value *values;
    size_t next; /* of the values */
};

static bool next_value(struct formatter *f, struct jinja_value *out)
{
    bool tuple = f->values->type == JINJA_TUPLE;
    size_t count = tuple ? f->values->list->count : 1;
    if (f->next >= count)
        return jinja_error(f->run, "not enough arguments for format string");
    *out = tuple ? f->values->list->items[f->next] : *f->values;
    f->next++;
    return true;
}

static char peek(const struct formatter *f)
{
    return f->pos < f->format->text.len ? f->format->text.p[f->pos] : '\0';
}

/* "(name)" of a value in a dict. */
static bool named_value(struct formatter *f, struct jinja_value *out)
{
    struct dgl_str rest = {f->format->text.p + f->pos + 1, f->format->text.len - f->pos - 1};
    const char *end = memchr(rest.p, ')', rest.len);
    if (!end)
        return jinja_error(f->run, "incomplete format key");
    if (f->values->type != JINJA_DICT)
        return jinja_error(f->run, "format requires a mapping");
    struct jinja_value *found,
        key = jinja_text_of((struct dgl_str){rest.p, (size_t)(end - rest.p)}, false);
    if (!jinja_dict_find(f->run, f->values->dict, &key, &found))
        return false;
    if (!found)
        return jinja_error(f->run, "a format string names a key that is not there");
    *out = *found;
    f->pos += key.text.len + 2;
    return true;
}

/* Digits, or '*' for the next value. */
static bool scan_number(struct formatter *f, int64_t *out)
{
    struct jinja_value value;
    if (peek(f) == '*') {
        f->pos++;
        if (!next_value(f, &value))
            return false;
        if (!jinja_is_integral(&value))
            return jinja_error(f->run, "* wants int");
        *out = jinja_integer(&value);
        return true;
    }
    *out = 0;
    for (; peek(f) >= '0' && peek(f) <= '9'; f->pos++) {
        if (*out > INT32_MAX)
            return jinja_error(f->run, "width or precision of a format is too big");
        *out = *out * 10 + (peek(f) - '0');
    }
    return true;
}

static void scan_flags(struct formatter *f, struct jinja_format_spec *spec)
{
    bool left = false, zero = false;
    for (;; f->pos++) {
        char flag = peek(f);
        if (flag == '-')
            left = true;
        else if (flag == '0')
            zero = true;
        else if (flag == '+' || (flag == ' ' && !spec->sign))
            spec->sign = flag;
        else if (flag == '#')
            spec->alternate = true;
        else if (flag != ' ')
            break;
    }
    if (zero && !left)
        spec->fill = DGL_STR("0");
    spec->align = left ? '<' : zero ? '=' : '>';
}

/* Flags, width, precision and the letter. */
static bool scan_spec(struct formatter *f, struct jinja_format_spec *spec)
{
    *spec = (struct jinja_format_spec){.precision = -1};
    scan_flags(f, spec);
    if (!scan_number(f, &spec->width))
        return false;
    if (spec->width < 0) {
        spec->align = '<';
        spec->width = spec->width == INT64_MIN ? INT64_MAX : -spec->width;
    }
    if (peek(f) == '.') {
        f->pos++;
        if (!scan_number(f, &spec->precision))
            return false;
        spec->precision = spec->precision < 0 ? 0 : spec->precision;
    }
    while (peek(f) && strchr("hlL", peek(f)))
        f->pos++;
    spec->type = peek(f);
    if (!spec->type)
        return jinja_error(f->run, "incomplete format");
    f->pos++;
    return true;
}

/* %d takes the whole part of a float; %x takes integers only. */
static bool to_integer(struct formatter *f, char type, struct jinja_value *value)
{
    if (!jinja_is_number(value) || (value->type == JINJA_FLOAT && type != 'd'))
        return jinja_error(f->run, "%%%c format: a%s is required, not %s", type,
                           type == 'd' ? " real number" : "n integer", jinja_type_name(value));
    if (value->type != JINJA_FLOAT)
        return true;
    if (!(fabs(value->real) < 0x1p63))
        return jinja_error(f->run, "cannot convert a float to an integer");
    bool data = value->data;
    *value = jinja_int((int64_t)value->real);
    value->data = data;
    return true;
}

static bool put_repr(struct formatter *f, struct jinja_format_spec *spec,
                     const struct jinja_value *value)
{
    struct jinja_text text = {0};
    struct jinja_value repr;
    bool ok = jinja_text_add_repr(f->run, &text, value);
    spec->type = 's';
    return jinja_text_end(f->run, &text, ok, &repr) &&
           jinja_format_value(f->run, &f->text, spec, &repr);
}

static bool convert(struct formatter *f, struct jinja_format_spec *spec, struct jinja_value *value)
{
    if (strchr("iu", spec->type))
        spec->type = 'd';
    if (strchr("ra", spec->type))
        return put_repr(f, spec, value);
    if (spec->type == 'c' && jinja_is_text(value))
        spec->type = 's';
    if (strchr("doxX", spec->type) && !to_integer(f, spec->type, value))
        return false;
    if (strchr("eEfFgG", spec->type) && !jinja_is_number(value))
        return jinja_error(f->run, "must be real number, not %s", jinja_type_name(value));
    if (!strchr("sdoxXeEfFgGc", spec->type))
        return jinja_error(f->run, "unsupported format character '%c'", spec->type);
    if (spec->type == 's' && spec->fill.len) { /* zeros are for numbers */
        spec->fill = (struct dgl_str){0};
        spec->align = '>';
    }
    return jinja_format_value(f->run, &f->text, spec, value);
}

/* One conversion, from behind its '%'. */
static bool format_one(struct formatter *f)
{
    struct jinja_format_spec spec;
    struct jinja_value value = {0};
    if (peek(f) == '%') {
        f->pos++;
        return jinja_text_put(f->run, &f->text, DGL_STR("%"), false);
    }
    if (peek(f) == '(' && !named_value(f, &value))
        return false;
    if (!scan_spec(f, &spec))
        return false;
    if (value.type == JINJA_ABSENT && !next_value(f, &value))
        return false;
    return convert(f, &spec, &value);
}

static bool format_all(struct formatter *f)
{
    while (f->pos < f->format->text.len) {
        const char *start = f->format->text.p + f->pos;
        const char *sign = memchr(start, '%', f->format->text.len - f->pos);
        size_t len = sign ? (size_t)(sign - start) : f->format->text.len - f->pos;
        struct jinja_value plain = jinja_slice_bytes(f->format, f->pos, len);
        if (!jinja_text_add(f->run, &f->text, &plain))
            return false;
        f->pos += len + (sign ? 1 : 0);
        if (sign && !format_one(f))
            return false;
    }
    return true;
}

bool jinja_format_percent(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *values, struct jinja_value *out)
{
    struct formatter f = {.run = run, .format = format, .values = values};
    bool ok = format_all(&f);
    /* Python takes whatever can be subscripted for a mapping, and lets it be left over. */
    bool mapping =
        values->type == JINJA_DICT || values->type == JINJA_LIST || values->type == JINJA_UNDEFINED;
    size_t count = values->type == JINJA_TUPLE ? values->list->count : 1;
    if (ok && !mapping && f.next < count)
        ok = jinja_error(run, "not all arguments converted during string formatting");
    return jinja_text_end(run, &f.text, ok, out);
}
