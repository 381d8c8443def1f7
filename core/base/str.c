/* Counted strings, number parsing, and the growing buffer. */
#include "core/base/str.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

struct dgl_str dgl_str_of(const char *text)
{
    return (struct dgl_str){text ? text : "", text ? strlen(text) : 0};
}

bool dgl_str_eq(struct dgl_str a, const char *b)
{
    size_t i = 0;
    while (i < a.len && b[i] != '\0' && a.p[i] == b[i]) /* most texts differ in their first bytes */
        i++;
    return i == a.len && b[i] == '\0';
}

bool dgl_str_equal(struct dgl_str a, struct dgl_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

int dgl_str_compare(struct dgl_str a, struct dgl_str b)
{
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len ? memcmp(a.p, b.p, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool dgl_str_starts(struct dgl_str text, const char *prefix)
{
    size_t len = strlen(prefix);
    return len <= text.len && (len == 0 || memcmp(text.p, prefix, len) == 0);
}

bool dgl_str_ends(struct dgl_str text, const char *suffix)
{
    size_t len = strlen(suffix);
    return len <= text.len && (len == 0 || memcmp(text.p + text.len - len, suffix, len) == 0);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct dgl_str dgl_str_trim(struct dgl_str text)
{
    while (text.len && is_blank(text.p[0])) {
        text.p++;
        text.len--;
    }
    while (text.len && is_blank(text.p[text.len - 1]))
        text.len--;
    return text;
}

bool dgl_str_split(struct dgl_str *rest, char sep, struct dgl_str *part)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->p, sep, rest->len);
    size_t len = end ? (size_t)(end - rest->p) : rest->len;
    size_t step = end ? len + 1 : len;
    *part = (struct dgl_str){rest->p, len};
    rest->p += step;
    rest->len -= step;
    return true;
}

bool dgl_parse_u64(struct dgl_str text, uint64_t max, uint64_t *out)
{
    if (text.len == 0)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.p[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.p[i] - '0'), &value))
            return false;
    }
    if (value > max)
        return false;
    *out = value;
    return true;
}

bool dgl_parse_i64(struct dgl_str text, int64_t min, int64_t max, int64_t *out)
{
    bool negative = text.len && text.p[0] == '-';
    if (negative) {
        text.p++;
        text.len--;
    }
    uint64_t size, limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    if (!dgl_parse_u64(text, limit, &size))
        return false;
    /* Subtract from -1, so that INT64_MIN is computed without exceeding INT64_MAX. */
    int64_t value = negative && size ? -1 - (int64_t)(size - 1) : (int64_t)size;
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* Accepts [-] digits [. digits] [e [+-] digits], with a digit on at least one side of the point.
 * Blanks, hexadecimal, "inf" and "nan" are refused, although strtod() accepts them. */
static bool is_decimal(struct dgl_str text)
{
    size_t i = 0, digits = 0;
    if (i < text.len && text.p[i] == '-')
        i++;
    for (; i < text.len && is_digit(text.p[i]); i++)
        digits++;
    if (i < text.len && text.p[i] == '.')
        i++;
    for (; i < text.len && is_digit(text.p[i]); i++)
        digits++;
    if (digits == 0)
        return false;
    if (i < text.len && (text.p[i] == 'e' || text.p[i] == 'E')) {
        i++;
        if (i < text.len && (text.p[i] == '+' || text.p[i] == '-'))
            i++;
        if (i == text.len)
            return false;
        while (i < text.len && is_digit(text.p[i]))
            i++;
    }
    return i == text.len;
}

bool dgl_parse_bytes(struct dgl_str text, uint64_t min, uint64_t max, uint64_t *out)
{
    const char last = text.len ? text.p[text.len - 1] : '\0';
    const int shift = last == 'K' ? 10 : last == 'M' ? 20 : last == 'G' ? 30 : 0;
    uint64_t number;
    text.len -= shift > 0;
    if (!dgl_parse_u64(text, max >> shift, &number) || number << shift < min)
        return false;
    *out = number << shift;
    return true;
}

int dgl_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* glibc's C locale is a constant: newlocale() neither allocates memory nor fails. */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool dgl_parse_f64(struct dgl_str text, double *out)
{
    char space[512];
    if (text.len >= sizeof(space) || !is_decimal(text))
        return false;
    memcpy(space, text.p, text.len);
    space[text.len] = '\0';
    double value = strtod_l(space, NULL, c_locale());
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

bool dgl_buf_reserve(struct dgl_buf *buf, size_t len)
{
    size_t need;
    if (buf->failed)
        return false;
    if (__builtin_add_overflow(buf->len, len, &need) || need == SIZE_MAX ||
        !dgl_grow((void **)&buf->p, &buf->cap, need + 1, 1))
        buf->failed = true;
    return !buf->failed;
}

void dgl_buf_append(struct dgl_buf *buf, const void *bytes, size_t len)
{
    if (!dgl_buf_reserve(buf, len))
        return;
    if (len)
        memcpy(buf->p + buf->len, bytes, len);
    buf->len += len;
    buf->p[buf->len] = '\0';
}

void dgl_buf_puts(struct dgl_buf *buf, const char *text)
{
    dgl_buf_append(buf, text, strlen(text));
}

void dgl_buf_add_word(struct dgl_buf *buf, size_t start, struct dgl_str word)
{
    struct dgl_str rest = {buf->p ? buf->p + start : "", buf->len - start}, item;
    while (rest.len && dgl_str_split(&rest, ' ', &item))
        if (dgl_str_equal(item, word))
            return;
    dgl_buf_printf(buf, "%s%.*s", buf->len > start ? " " : "", (int)word.len, word.p);
}

void dgl_buf_putc(struct dgl_buf *buf, char c)
{
    dgl_buf_append(buf, &c, 1);
}

void dgl_buf_printf(struct dgl_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(buf, fmt, args);
    va_end(args);
}

void dgl_buf_vprintf(struct dgl_buf *buf, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    /* %f and %g use the decimal point of the calling thread's locale. */
    locale_t before = uselocale(c_locale());
    int len = vsnprintf(NULL, 0, fmt, args);
    if (len < 0)
        buf->failed = true;
    if (len >= 0 && dgl_buf_reserve(buf, (size_t)len)) {
        vsnprintf(buf->p + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    uselocale(before);
    va_end(again);
}

void dgl_buf_f64(struct dgl_buf *buf, double value)
{
    char space[40];
    locale_t before = uselocale(c_locale());
    /* 15 digits survive the conversion text -> double -> text. 17 digits survive double -> text ->
     * double. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(space, sizeof(space), "%.*g", digits, value);
        if (strtod(space, NULL) == value)
            break;
    }
    uselocale(before);
    dgl_buf_puts(buf, space);
}

void dgl_buf_f32(struct dgl_buf *buf, float value)
{
    char space[40];
    locale_t before = uselocale(c_locale());
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(space, sizeof(space), "%.*g", digits, (double)value);
        if (strtof(space, NULL) == value)
            break;
    }
    uselocale(before);
    dgl_buf_puts(buf, space);
}

char *dgl_buf_take(struct dgl_buf *buf)
{
    dgl_buf_append(buf, "", 0); /* an empty text needs its NUL too */
    char *text = buf->failed ? NULL : buf->p;
    if (!text)
        free(buf->p);
    *buf = (struct dgl_buf){0};
    return text;
}

void dgl_buf_finish(struct dgl_buf *buf)
{
    free(buf->p);
    *buf = (struct dgl_buf){0};
}

void dgl_buf_base64(struct dgl_buf *buf, const void *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i += 3) {
        const unsigned b = i + 1 < len ? p[i + 1] : 0, c = i + 2 < len ? p[i + 2] : 0;
        const unsigned bits = (unsigned)p[i] << 16 | b << 8 | c;
        dgl_buf_putc(buf, digits[bits >> 18]);
        dgl_buf_putc(buf, digits[bits >> 12 & 63]);
        dgl_buf_putc(buf, i + 1 < len ? digits[bits >> 6 & 63] : '=');
        dgl_buf_putc(buf, i + 2 < len ? digits[bits & 63] : '=');
    }
}

struct dgl_size_text dgl_size_text(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    /* Use one decimal below 10, except ".0". 1024 KiB after rounding is printed in the next
     * unit. */
    if (value >= 1023.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    double tenths = floor(value * 10 + 0.5);
    struct dgl_size_text out;
    if (unit == 0 || tenths >= 100 || fmod(tenths, 10) == 0)
        snprintf(out.text, sizeof(out.text), "%.0f %s", value, units[unit]);
    else /* "%.1f" would print the decimal point of the locale */
        snprintf(out.text, sizeof(out.text), "%d.%d %s", (int)tenths / 10, (int)tenths % 10,
                 units[unit]);
    return out;
}

void dgl_buf_bytes(struct dgl_buf *buf, uint64_t bytes)
{
    dgl_buf_puts(buf, DGL_BYTES(bytes));
}
