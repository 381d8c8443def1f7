/* Values laid out by a format specification: signs, digits, padding. */
#include "loader/jinja/jinja_format.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_chars.h"

enum { max_precision = 1000 };

/* ---- padding ---- */

static bool pad(struct jinja_run *run, struct jinja_text *text, struct dgl_str fill, size_t count)
{
    if (count > run->limits.output_bytes)
        return jinja_error(run, "the template makes a text of more than %zu bytes",
                           run->limits.output_bytes);
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = jinja_text_put(run, text, fill.len ? fill : DGL_STR(" "), false);
    return ok;
}

/* `head` is what stays in front of the padding of '='. */
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

static void put_integer(struct dgl_buf *out, uint64_t value, char type)
{
    if (type == 'x')
        dgl_buf_printf(out, "%" PRIx64, value);
    else if (type == 'X')
        dgl_buf_printf(out, "%" PRIX64, value);
    else if (type == 'o')
        dgl_buf_printf(out, "%" PRIo64, value);
    else if (type != 'b')
        dgl_buf_printf(out, "%" PRIu64, value);
    else
        for (int bit = value ? 63 - __builtin_clzll(value) : 0; bit >= 0; bit--)
            dgl_buf_putc(out, value >> bit & 1 ? '1' : '0');
}

/* Finite, not negative. */
static void put_float(struct dgl_buf *out, const struct jinja_format_spec *spec, double value)
{
    bool plain = spec->type == 0;
    if (plain && spec->precision < 0) {
        jinja_print_float(out, value);
        return;
    }
    /* A '+' that is skipped below, so that there is always one flag. */
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

/* Commas into the whole part, from the right. */
static void group_thousands(struct dgl_buf *out, struct dgl_str digits)
{
    size_t whole = 0;
    while (whole < digits.len && digits.p[whole] >= '0' && digits.p[whole] <= '9')
        whole++;
    for (size_t i = 0; i < digits.len; i++) {
        if (i && i < whole && (whole - i) % 3 == 0)
            dgl_buf_putc(out, ',');
        dgl_buf_putc(out, digits.p[i]);
    }
}

static bool is_integer_type(char type)
{
    return type && strchr("dnboxXc", type);
}

static bool is_float_type(char type)
{
    return type && strchr("eEfFgG%", type);
}

/* Sign, then "0x" and the like. */
static void put_head(struct dgl_buf *out, const struct jinja_format_spec *spec, bool negative)
{
    if (negative)
        dgl_buf_putc(out, '-');
    else if (spec->sign)
        dgl_buf_putc(out, spec->sign);
    if (spec->alternate && spec->type && strchr("boxX", spec->type)) {
        dgl_buf_putc(out, '0');
        dgl_buf_putc(out, spec->type);
    }
}

static void put_digits(struct dgl_buf *out, const struct jinja_format_spec *spec,
                       const struct jinja_value *value, bool real)
{
    if (!real) {
        int64_t integer = jinja_integer(value);
        put_integer(out, integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer, spec->type);
        return;
    }
    double size = fabs(jinja_real(value));
    if (isfinite(size))
        put_float(out, spec, size);
    else
        dgl_buf_puts(out, isnan(size) ? "nan" : "inf");
}

static bool format_number(struct jinja_run *run, struct jinja_text *text,
                          const struct jinja_format_spec *spec, const struct jinja_value *value)
{
    bool real = value->type == JINJA_FLOAT || is_float_type(spec->type);
    bool negative = real ? signbit(jinja_real(value)) != 0 : jinja_integer(value) < 0;
    struct dgl_buf head = {0}, digits = {0}, grouped = {0};
    put_head(&head, spec, negative);
    put_digits(&digits, spec, value, real);
    if (spec->thousands && !digits.failed)
        group_thousands(&grouped, (struct dgl_str){digits.p, digits.len});
    struct dgl_buf *body = spec->thousands ? &grouped : &digits;
    struct jinja_value number = jinja_text_of((struct dgl_str){body->p, body->len}, value->data);
    bool ok = put_padded(run, text, spec, (struct dgl_str){head.p, head.len}, &number,
                         spec->align ? spec->align : '>');
    text->bytes.failed |= head.failed || body->failed;
    dgl_buf_finish(&head);
    dgl_buf_finish(&digits);
    dgl_buf_finish(&grouped);
    return ok;
}

static bool format_char(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_format_spec *spec, const struct jinja_value *value)
{
    char space[4];
    int64_t cp = jinja_integer(value);
    if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return jinja_error(run, "%%c arg not in range(0x110000)");
    struct dgl_str self = {space, dgl_utf8_encode((uint32_t)cp, space)};
    struct jinja_value body = jinja_text_of(self, value->data);
    return put_padded(run, text, spec, (struct dgl_str){0}, &body, spec->align ? spec->align : '<');
}

bool jinja_format_value(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_format_spec *spec, const struct jinja_value *value)
{
    if (spec->precision > max_precision)
        return jinja_error(run, "a precision of more than %d digits", max_precision);
    bool number = value->type == JINJA_BOOL ? spec->type && spec->type != 's'
                                            : jinja_is_number(value) && spec->type != 's';
    if (number && spec->type == 'c' && jinja_is_integral(value))
        return format_char(run, text, spec, value);
    if (number && (spec->type == 0 || is_float_type(spec->type) ||
                   (is_integer_type(spec->type) && jinja_is_integral(value))))
        return format_number(run, text, spec, value);
    if (spec->type && spec->type != 's')
        return jinja_error(run, "Unknown format code '%c' for object of type '%s'", spec->type,
                           jinja_type_name(value));
    struct jinja_value body;
    if (!jinja_to_text(run, value, &body))
        return false;
    if (spec->precision >= 0)
        body = jinja_slice_bytes(&body, 0,
                                 jinja_char_offset(jinja_str(&body), (size_t)spec->precision));
    return put_padded(run, text, spec, (struct dgl_str){0}, &body,
                      spec->align && spec->align != '=' ? spec->align : '<');
}
