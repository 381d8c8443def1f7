/* Formatting of values by Python's % and str.format. */
#include "loader/jinja/jinja_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"

enum { max_precision = 1000 };

/* ---- padding ---- */

static bool pad(struct jinja_run *run, struct jinja_text *text, struct dgl_str fill, size_t count)
{
    if (count > run->limits.output_bytes)
        return jinja_fail_size(run);
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = jinja_text_put(run, text, fill.len ? fill : DGL_STR(" "), false);
    return ok;
}

/* Pads a value to the width of the spec. `head` (sign, "0x") stays before the padding of '='. */
static bool put_padded(struct jinja_run *run, struct jinja_text *text,
                       const struct jinja_format_spec *spec, struct dgl_str head,
                       const struct jinja_value *body, char align)
{
    size_t chars = jinja_char_count(head) + jinja_char_count(jinja_str(body));
    size_t room =
        spec->width > 0 && (uint64_t)spec->width > chars ? (size_t)spec->width - chars : 0;
    size_t before = align == '>' ? room : align == '^' ? room / 2 : 0;
    size_t between = align == '=' ? room : 0;
    return pad(run, text, spec->fill, before) && jinja_text_put(run, text, head, body->data) &&
           pad(run, text, spec->fill, between) && jinja_text_add(run, text, body) &&
           pad(run, text, spec->fill, room - before - between);
}

/* ---- digits ---- */

/* Prints a finite, non-negative float. */
static void put_float(struct dgl_buf *out, const struct jinja_format_spec *spec, double value)
{
    bool plain = spec->type == 0;
    if (plain && spec->precision < 0) {
        jinja_print_float(out, value);
        return;
    }
    /* This format always contains a flag. Without '#' it is '+', whose sign is skipped below. */
    const char format[] = {'%',
                           spec->alternate ? '#' : '+',
                           '.',
                           '*',
                           spec->type == '%' ? 'f' : plain ? 'g' : spec->type,
                           '\0'};
    struct dgl_buf digits = {0};
    dgl_buf_printf(&digits, format, spec->precision < 0 ? 6 : (int)spec->precision,
                   spec->type == '%' ? value * 100 : value);
    const char *text = digits.failed ? "" : digits.p;
    dgl_buf_puts(out, *text == '+' ? text + 1 : text);
    if (plain && !strpbrk(text, ".e"))
        dgl_buf_puts(out, ".0");
    if (spec->type == '%')
        dgl_buf_putc(out, '%');
    out->failed |= digits.failed;
    dgl_buf_finish(&digits);
}

static bool is_float_type(char type)
{
    return type && strchr("eEfFgG%", type);
}

static bool format_number(struct jinja_run *run, struct jinja_text *text,
                          const struct jinja_format_spec *spec, const struct jinja_value *value)
{
    bool real = value->type == JINJA_FLOAT || is_float_type(spec->type);
    bool negative = real ? signbit(jinja_real(value)) != 0 : jinja_integer(value) < 0;
    struct dgl_buf head = {0}, digits = {0}, grouped = {0};
    /* The sign and the "0x", "0o" or "0b". */
    if (negative || spec->sign)
        dgl_buf_putc(&head, negative ? '-' : spec->sign);
    if (spec->alternate && spec->type && strchr("boxX", spec->type)) {
        dgl_buf_putc(&head, '0');
        dgl_buf_putc(&head, spec->type);
    }
    if (!real) {
        uint64_t integer = (uint64_t)jinja_integer(value);
        integer = negative ? 0 - integer : integer;
        if (spec->type == 'x')
            dgl_buf_printf(&digits, "%" PRIx64, integer);
        else if (spec->type == 'X')
            dgl_buf_printf(&digits, "%" PRIX64, integer);
        else if (spec->type == 'o')
            dgl_buf_printf(&digits, "%" PRIo64, integer);
        else if (spec->type != 'b')
            dgl_buf_printf(&digits, "%" PRIu64, integer);
        else
            for (int bit = integer ? 63 - __builtin_clzll(integer) : 0; bit >= 0; bit--)
                dgl_buf_putc(&digits, integer >> bit & 1 ? '1' : '0');
    } else if (isfinite(jinja_real(value))) {
        put_float(&digits, spec, fabs(jinja_real(value)));
    } else {
        dgl_buf_puts(&digits, isnan(jinja_real(value)) ? "nan" : "inf");
    }
    /* Commas divide the integer part into groups of three digits. */
    size_t whole = digits.failed ? 0 : strspn(digits.p, "0123456789");
    for (size_t i = 0; spec->thousands && !digits.failed && i < digits.len; i++) {
        if (i && i < whole && (whole - i) % 3 == 0)
            dgl_buf_putc(&grouped, ',');
        dgl_buf_putc(&grouped, digits.p[i]);
    }
    struct dgl_buf *body = spec->thousands ? &grouped : &digits;
    struct jinja_value number = jinja_text_of((struct dgl_str){body->p, body->len}, value->data);
    bool ok = put_padded(run, text, spec, (struct dgl_str){head.p, head.len}, &number,
                         spec->align ? spec->align : '>');
    text->bytes.failed |= head.failed || digits.failed || grouped.failed;
    dgl_buf_finish(&head);
    dgl_buf_finish(&digits);
    dgl_buf_finish(&grouped);
    return ok;
}

bool jinja_format_value(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_format_spec *spec, const struct jinja_value *value)
{
    struct jinja_value body;
    char space[4];
    if (spec->precision > max_precision)
        return jinja_error(run, "the precision exceeds %d digits", max_precision);
    bool number = value->type == JINJA_BOOL ? spec->type && spec->type != 's'
                                            : jinja_is_number(value) && spec->type != 's';
    if (number && spec->type == 'c' && jinja_is_integral(value)) {
        int64_t cp = jinja_integer(value);
        if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
            return jinja_error(run, "%%c arg not in range(0x110000)");
        body = jinja_text_of((struct dgl_str){space, dgl_utf8_encode((uint32_t)cp, space)},
                             value->data);
        return put_padded(run, text, spec, (struct dgl_str){0}, &body,
                          spec->align ? spec->align : '<');
    }
    if (number && (spec->type == 0 || is_float_type(spec->type) ||
                   (strchr("dnboxXc", spec->type) && jinja_is_integral(value))))
        return format_number(run, text, spec, value);
    if (spec->type && spec->type != 's')
        return jinja_error(run, "Unknown format code '%c' for object of type '%s'", spec->type,
                           jinja_type_name(value));
    if (!jinja_to_text(run, value, &body))
        return false;
    if (spec->precision >= 0)
        body = jinja_slice_bytes(&body, 0,
                                 jinja_char_offset(jinja_str(&body), (size_t)spec->precision));
    return put_padded(run, text, spec, (struct dgl_str){0}, &body,
                      spec->align && spec->align != '=' ? spec->align : '<');
}

/* ---- "..." % values ---- */

struct percent {
    struct jinja_run *run;
    struct jinja_text text;
    const struct jinja_value *format;
    size_t pos; /* position in the format */
    const struct jinja_value *values;
    size_t next; /* next value of a tuple */
};

static bool next_value(struct percent *f, struct jinja_value *out)
{
    bool tuple = f->values->type == JINJA_TUPLE;
    size_t count = tuple ? f->values->list->count : 1;
    if (f->next >= count)
        return jinja_error(f->run, "not enough arguments for format string");
    *out = tuple ? f->values->list->items[f->next] : *f->values;
    f->next++;
    return true;
}

static char peek(const struct percent *f)
{
    return f->pos < f->format->text.len ? f->format->text.p[f->pos] : '\0';
}

/* Reads "(name)" and finds the value in the dict. */
static bool named_value(struct percent *f, struct jinja_value *out)
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
        return jinja_error(f->run, "a key of the format string is missing");
    *out = *found;
    f->pos += key.text.len + 2;
    return true;
}

/* Reads digits, or takes the next value for '*'. */
static bool scan_number(struct percent *f, int64_t *out)
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

/* Reads flags, width, precision and type. */
static bool scan_spec(struct percent *f, struct jinja_format_spec *spec)
{
    bool left = false, zero = false;
    *spec = (struct jinja_format_spec){.precision = -1};
    for (char flag; (flag = peek(f)) && strchr("-0+ #", flag); f->pos++) {
        left |= flag == '-';
        zero |= flag == '0';
        spec->alternate |= flag == '#';
        if (flag == '+' || (flag == ' ' && !spec->sign))
            spec->sign = flag;
    }
    if (zero && !left)
        spec->fill = DGL_STR("0");
    spec->align = left ? '<' : zero ? '=' : '>';
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

static bool convert_value(struct percent *f, struct jinja_format_spec *spec,
                          struct jinja_value *value)
{
    if (strchr("iu", spec->type))
        spec->type = 'd';
    if (strchr("ra", spec->type)) {
        struct jinja_text text = {0};
        bool ok = jinja_text_add_repr(f->run, &text, value);
        spec->type = 's';
        return jinja_text_end(f->run, &text, ok, value) &&
               jinja_format_value(f->run, &f->text, spec, value);
    }
    if (spec->type == 'c' && jinja_is_text(value))
        spec->type = 's';
    if (strchr("doxX", spec->type)) { /* %d truncates floats; the others require an integer */
        bool real = value->type == JINJA_FLOAT, data = value->data;
        if (!jinja_is_number(value) || (real && spec->type != 'd'))
            return jinja_error(f->run, "%%%c format: a%s is required, not %s", spec->type,
                               spec->type == 'd' ? " real number" : "n integer",
                               jinja_type_name(value));
        if (real && !(fabs(value->real) < 0x1p63))
            return jinja_error(f->run, "cannot convert a float to an integer");
        if (real)
            *value = jinja_int((int64_t)value->real);
        value->data = data;
    }
    if (strchr("eEfFgG", spec->type) && !jinja_is_number(value))
        return jinja_error(f->run, "must be real number, not %s", jinja_type_name(value));
    if (!strchr("sdoxXeEfFgGc", spec->type))
        return jinja_error(f->run, "unsupported format character '%c'", spec->type);
    if (spec->type == 's' && spec->fill.len) { /* only numbers are padded with zeros */
        spec->fill = (struct dgl_str){0};
        spec->align = '>';
    }
    return jinja_format_value(f->run, &f->text, spec, value);
}

/* Formats one conversion. The position is after its '%'. */
static bool format_one(struct percent *f)
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
    return convert_value(f, &spec, &value);
}

bool jinja_format_percent(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *values, struct jinja_value *out)
{
    struct percent f = {.run = run, .format = format, .values = values};
    bool ok = true;
    while (ok && f.pos < format->text.len) {
        const char *start = format->text.p + f.pos;
        const char *sign = memchr(start, '%', format->text.len - f.pos);
        size_t len = sign ? (size_t)(sign - start) : format->text.len - f.pos;
        struct jinja_value plain = jinja_slice_bytes(format, f.pos, len);
        f.pos += len + (sign ? 1 : 0);
        ok = jinja_text_add(run, &f.text, &plain) && (!sign || format_one(&f));
    }
    /* In Python, every value with elements counts as a mapping, and mappings may have unused
     * values. */
    bool mapping =
        values->type == JINJA_DICT || values->type == JINJA_LIST || values->type == JINJA_UNDEFINED;
    size_t count = values->type == JINJA_TUPLE ? values->list->count : 1;
    if (ok && !mapping && f.next < count)
        ok = jinja_error(run, "not all arguments converted during string formatting");
    return jinja_text_end(run, &f.text, ok, out);
}

/* ---- "...".format(...) ---- */

struct braces {
    struct jinja_run *run;
    struct jinja_text text;
    const struct jinja_call *call;
    size_t next; /* index of the positional argument for "{}" */
};

static bool fail_field(struct braces *f, const char *what)
{
    return jinja_error(f->run, "%s", what);
}

/* Removes and returns the start of `text`, up to the first of `separators`. */
static struct dgl_str take_until(struct dgl_str *text, const char *separators)
{
    size_t len = 0;
    while (len < text->len && !strchr(separators, text->p[len] ? text->p[len] : '?'))
        len++;
    struct dgl_str part = {text->p, len};
    *text = (struct dgl_str){text->p + len, text->len - len};
    return part;
}

/* Finds the argument that a field names. */
static bool find_argument(struct braces *f, struct dgl_str name, struct jinja_value *out)
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
    const struct jinja_value *named = jinja_find_named(f->call, name);
    if (!named)
        return fail_field(f, "a replacement field names a missing argument");
    *out = *named;
    return true;
}

/* Reads one ".name" or "[key]" of a field and replaces *value by that attribute or element. */
static bool find_part(struct braces *f, struct dgl_str *path, struct jinja_value *value)
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

/* Parses "[[fill]align][sign][#][0][width][,][.precision][type]". */
static bool parse_spec(struct braces *f, struct dgl_str text, struct jinja_format_spec *spec)
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

static bool format_field(struct braces *f, struct dgl_str field)
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
    if (conversion) {
        struct jinja_text text = {0};
        bool ok = conversion == 's' ? jinja_text_add_str(f->run, &text, &value)
                                    : jinja_text_add_repr(f->run, &text, &value);
        if (!jinja_text_end(f->run, &text, ok, &value))
            return false;
    }
    return parse_spec(f, field, &spec) && jinja_format_value(f->run, &f->text, &spec, &value);
}

bool jinja_format_braces(struct jinja_run *run, const struct jinja_value *format,
                         const struct jinja_call *call, struct jinja_value *out)
{
    struct braces f = {.run = run, .call = call};
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
