/* Numbers and string literals, as Python reads them. */
#include "loader/jinja/jinja_literal.h"

#include <math.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_chars.h"

/* Longer numbers are refused: no double needs that many digits. */
enum { max_number_bytes = 400 };

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return 99;
}

/* Digits of `base` with single '_' between them, from `pos` on; returns where they end, `pos` when
 * there are none. */
static size_t skip_digits(struct dgl_str text, size_t pos, int base)
{
    size_t end = pos;
    for (size_t i = pos; i < text.len; i++) {
        if (digit_value(text.p[i]) < base)
            end = i + 1;
        else if (text.p[i] != '_' || i == pos || text.p[i - 1] == '_')
            break;
    }
    return end;
}

/* The base of a "0x", "0o" or "0b" in front; 10 without. */
static int prefix_base(struct dgl_str text)
{
    if (text.len < 2 || text.p[0] != '0')
        return 10;
    switch (text.p[1] | 0x20) {
    case 'x':
        return 16;
    case 'o':
        return 8;
    case 'b':
        return 2;
    default:
        return 10;
    }
}

static bool digits_to_integer(struct dgl_str text, int base, bool negative, int64_t *out)
{
    int64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '_')
            continue;
        int digit = digit_value(text.p[i]);
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

size_t jinja_scan_integer(struct dgl_str text, int64_t *out)
{
    int base = prefix_base(text);
    size_t start = base == 10 ? 0 : 2;
    if (base != 10 && text.len > 2 && text.p[2] == '_')
        start = 3; /* "0x_ff" */
    size_t end = skip_digits(text, start, base);
    if (end == start && base != 10) { /* "0x" is a zero and a name */
        base = 10;
        start = 0;
        end = 1;
    }
    struct dgl_str digits = {text.p + start, end - start};
    return end > start && digits_to_integer(digits, base, false, out) ? end : 0;
}

size_t jinja_scan_float(struct dgl_str text, double *out)
{
    char space[max_number_bytes];
    size_t end = skip_digits(text, 0, 10), whole = end;
    if (end == 0)
        return 0;
    if (end + 1 < text.len && text.p[end] == '.' && digit_value(text.p[end + 1]) < 10)
        end = skip_digits(text, end + 1, 10);
    if (end < text.len && (text.p[end] == 'e' || text.p[end] == 'E')) {
        size_t digits = end + 1;
        if (digits < text.len && (text.p[digits] == '+' || text.p[digits] == '-'))
            digits++;
        size_t exponent_end = skip_digits(text, digits, 10);
        end = exponent_end > digits ? exponent_end : end;
    }
    if (end == whole || end > sizeof(space))
        return 0;
    size_t len = 0;
    for (size_t i = 0; i < end; i++) {
        if (text.p[i] != '_')
            space[len++] = text.p[i];
    }
    return dgl_parse_f64((struct dgl_str){space, len}, out) ? end : 0;
}

bool jinja_parse_integer(struct dgl_str text, int base, int64_t *out)
{
    text = jinja_strip(text, JINJA_STRIP_BOTH);
    bool negative = text.len && text.p[0] == '-';
    if (text.len && (negative || text.p[0] == '+'))
        text = (struct dgl_str){text.p + 1, text.len - 1};
    int written = prefix_base(text);
    if (written != 10 && (base == 0 || base == written)) {
        text = (struct dgl_str){text.p + 2, text.len - 2};
        base = written;
    } else if (base == 0) {
        base = 10;
    }
    if (base < 2 || base > 36 || text.len == 0 || skip_digits(text, 0, base) != text.len)
        return false;
    return digits_to_integer(text, base, negative, out);
}

static bool is_word(struct dgl_str text, const char *word)
{
    if (text.len != strlen(word))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if ((text.p[i] | 0x20) != word[i])
            return false;
    }
    return true;
}

bool jinja_parse_float(struct dgl_str text, double *out)
{
    char space[max_number_bytes];
    text = jinja_strip(text, JINJA_STRIP_BOTH);
    if (text.len && text.p[0] == '+')
        text = (struct dgl_str){text.p + 1, text.len - 1};
    bool negative = text.len && text.p[0] == '-';
    struct dgl_str size = {text.p + negative, text.len - negative};
    bool infinite = is_word(size, "inf") || is_word(size, "infinity");
    if (infinite || is_word(size, "nan")) {
        *out = infinite ? (negative ? -INFINITY : INFINITY) : NAN;
        return true;
    }
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool between = i && i + 1 < text.len && digit_value(text.p[i - 1]) < 10 &&
                       digit_value(text.p[i + 1]) < 10;
        if (text.p[i] == '_' && between)
            continue;
        if (len == sizeof(space))
            return false;
        space[len++] = text.p[i];
    }
    return dgl_parse_f64((struct dgl_str){space, len}, out);
}

/* Exactly `count` hexadecimal digits. */
static bool scan_hex(struct dgl_str body, size_t pos, size_t count, uint32_t *cp)
{
    if (count > body.len - pos)
        return false;
    *cp = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = digit_value(body.p[pos + i]);
        if (digit >= 16)
            return false;
        *cp = *cp << 4 | (uint32_t)digit;
    }
    return true;
}

static size_t octal_length(struct dgl_str body, size_t pos, uint32_t *cp)
{
    size_t len = 0;
    *cp = 0;
    while (len < 3 && pos + len < body.len && digit_value(body.p[pos + len]) < 8)
        *cp = *cp << 3 | (uint32_t)digit_value(body.p[pos + len++]);
    return len;
}

/* The code point of an escape whose letter is at `pos`; returns the length of the escape behind the
 * backslash, 0 when it means itself. */
static size_t scan_escape(struct dgl_str body, size_t pos, uint32_t *cp, const char **fault)
{
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    char c = body.p[pos];
    const char *found = strchr(letters, c);
    if (found && c) {
        *cp = (uint32_t)meanings[found - letters];
        return 1;
    }
    if (digit_value(c) < 8)
        return octal_length(body, pos, cp);
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
        if (c == 'N')
            *fault = "character names (\\N{...}) are not known, write \\uXXXX";
        return 0;
    }
    if (!scan_hex(body, pos + 1, digits, cp))
        *fault = "truncated \\x, \\u or \\U escape";
    else if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp <= 0xDFFF))
        *fault = "an escape is no character";
    return digits + 1;
}

size_t jinja_unescape(struct dgl_str body, char *out, const char **fault)
{
    size_t len = 0;
    for (size_t i = 0; i < body.len && !*fault; i++) {
        if (body.p[i] != '\\' || i + 1 == body.len) {
            out[len++] = body.p[i];
            continue;
        }
        uint32_t cp = 0;
        if (body.p[i + 1] == '\n') {
            i++;
            continue;
        }
        size_t escape = scan_escape(body, i + 1, &cp, fault);
        if (escape == 0)
            out[len++] = '\\';
        else if (!*fault)
            len += dgl_utf8_encode(cp, out + len);
        i += escape;
    }
    return len;
}
