/* Checks a text against the JSON grammar. cJSON accepts more than the standard and stops at the
 * first NUL. */
#include "core/base/json_scan.h"

#include <string.h>

#include "core/base/utf8.h"

enum { json_max_plain_digits = 15 }; /* whole numbers up to this many digits are exact as doubles */

struct scanner {
    const char *start, *p, *end;
    struct json_scan *result;
    int depth;
    size_t most_values;
    bool in_object[json_max_depth];
};

static bool scan_fail(struct scanner *s, const char *at, const char *wanted)
{
    s->result->offset = (size_t)(at - s->start);
    s->result->wanted = wanted;
    return false;
}

/* Returns the next byte, or NUL at the end. A NUL inside of the text is invalid JSON as well. */
static char peek(const struct scanner *s)
{
    return s->p < s->end ? *s->p : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(struct scanner *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

/* Returns the value of four hexadecimal digits at s->p, or -1 if they are invalid. */
static int hex4(const struct scanner *s)
{
    int value = 0;
    if (s->end - s->p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = dgl_hex_value(s->p[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool scan_escape(struct scanner *s)
{
    s->p++;
    char c = peek(s);
    if (c == '\0' || !strchr("\"\\/bfnrtu", c))
        return scan_fail(s, s->p, "one of \"\\/bfnrtu after a backslash");
    s->p++;
    if (c != 'u')
        return true;
    int unit = hex4(s);
    if (unit < 0)
        return scan_fail(s, s->p, "four hexadecimal digits");
    s->p += 4;
    if (unit == 0)
        s->result->nul_escapes++;
    if (unit < 0xD800 || unit > 0xDFFF)
        return true;
    if (unit < 0xDC00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
        s->p += 2;
        int low = hex4(s);
        s->p += 4;
        if (low >= 0xDC00 && low <= 0xDFFF)
            return true;
    }
    return scan_fail(s, s->p, "a pair of surrogates, a high one and then a low one");
}

static bool scan_string(struct scanner *s)
{
    s->p++;
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p;
        if (c == '\\') {
            if (!scan_escape(s))
                return false;
        } else if (c == '"') {
            s->p++;
            return true;
        } else if (c < 0x20) {
            return scan_fail(s, s->p, "control characters in strings to be escaped");
        } else {
            s->p++;
        }
    }
    return scan_fail(s, s->p, "a closing quotation mark");
}

static bool scan_digits(struct scanner *s)
{
    if (!is_digit(peek(s)))
        return scan_fail(s, s->p, "a digit");
    while (is_digit(peek(s)))
        s->p++;
    return true;
}

bool json_is_real(struct dgl_str number)
{
    for (size_t i = 0; i < number.len; i++)
        if (number.p[i] == '.' || number.p[i] == 'e' || number.p[i] == 'E')
            return true;
    return false;
}

static bool scan_number(struct scanner *s)
{
    const char *start = s->p;
    if (peek(s) == '-')
        s->p++;
    if (peek(s) == '0') {
        s->p++;
        if (is_digit(peek(s)))
            return scan_fail(s, s->p, "no digit after a leading 0");
    } else if (!scan_digits(s)) {
        return false;
    }
    if (peek(s) == '.') {
        s->p++;
        if (!scan_digits(s))
            return false;
    }
    bool exponent = peek(s) == 'e' || peek(s) == 'E';
    if (exponent) {
        s->p++;
        if (peek(s) == '+' || peek(s) == '-')
            s->p++;
        if (!scan_digits(s))
            return false;
    }
    struct dgl_str number = {start, (size_t)(s->p - start)};
    s->result->spelled |= json_is_real(number) || number.len > json_max_plain_digits;
    if (number.len > json_max_number_len)
        return scan_fail(s, start, "a number of at most 63 characters");
    double value;
    if (exponent && !dgl_parse_f64(number, &value))
        return scan_fail(s, start, "a number that a double can hold");
    return true;
}

static bool scan_word(struct scanner *s, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(s->end - s->p) < len || memcmp(s->p, word, len) != 0)
        return scan_fail(s, s->p, "true, false or null");
    s->p += len;
    return true;
}

static bool scan_key(struct scanner *s)
{
    skip_blanks(s);
    if (peek(s) != '"')
        return scan_fail(s, s->p, "a key in quotation marks");
    if (!scan_string(s))
        return false;
    skip_blanks(s);
    if (peek(s) != ':')
        return scan_fail(s, s->p, "':' after the key");
    s->p++;
    return true;
}

/* Scans an opening bracket. An empty container is a complete value; otherwise its first value
 * follows. */
static bool scan_open(struct scanner *s, bool object, bool *want_value)
{
    if (s->depth == json_max_depth)
        return scan_fail(s, s->p, "nesting of at most 64 levels");
    s->p++;
    skip_blanks(s);
    if (peek(s) == (object ? '}' : ']')) {
        s->p++;
        *want_value = false;
        return true;
    }
    s->in_object[s->depth++] = object;
    return !object || scan_key(s);
}

static bool scan_value(struct scanner *s, bool *want_value)
{
    char c = peek(s);
    if (++s->result->values > s->most_values)
        return scan_fail(s, s->p, "fewer values");
    if (c == '{' || c == '[')
        return scan_open(s, c == '{', want_value);
    *want_value = false;
    switch (c) {
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        if (c == '-' || is_digit(c))
            return scan_number(s);
        return scan_fail(s, s->p, "a value");
    }
}

/* Scans the text after a value inside of a container: a comma, or the end of the container. */
static bool scan_separator(struct scanner *s, bool *want_value)
{
    bool object = s->in_object[s->depth - 1];
    char c = peek(s);
    if (c == (object ? '}' : ']')) {
        s->p++;
        s->depth--;
        return true;
    }
    if (c != ',')
        return scan_fail(s, s->p, object ? "',' or '}'" : "',' or ']'");
    s->p++;
    *want_value = true;
    return !object || scan_key(s);
}

bool json_scan(const char *text, size_t len, size_t most_values, struct json_scan *scan)
{
    struct scanner s = {
        .start = text, .p = text, .end = text + len, .result = scan, .most_values = most_values};
    *scan = (struct json_scan){0};
    size_t valid = dgl_utf8_valid_prefix(text, len);
    if (valid != len)
        return scan_fail(&s, text + valid, "valid UTF-8");
    bool want_value = true;
    while (want_value || s.depth) {
        skip_blanks(&s);
        if (want_value ? !scan_value(&s, &want_value) : !scan_separator(&s, &want_value))
            return false;
    }
    skip_blanks(&s);
    return s.p == s.end || scan_fail(&s, s.p, "nothing after the value");
}

size_t json_replace_nuls(const char *text, size_t len, char *out)
{
    size_t put = 0;
    for (size_t i = 0; i < len;) {
        if (text[i] != '\\') {
            out[put++] = text[i++];
        } else if (text[i + 1] == 'u' && memcmp(text + i + 2, "0000", 4) == 0) {
            out[put++] = (char)0xC0;
            out[put++] = (char)0x80;
            i += 6;
        } else {
            out[put++] = text[i++];
            out[put++] = text[i++];
        }
    }
    return put;
}

struct dgl_str json_next_number(const char *text, size_t len, size_t *at)
{
    size_t i = *at;
    while (i < len && text[i] != '-' && !is_digit(text[i])) {
        if (text[i++] != '"')
            continue;
        while (text[i] != '"')
            i += text[i] == '\\' ? 2 : 1;
        i++;
    }
    size_t start = i;
    while (i < len && (is_digit(text[i]) || strchr("+-.eE", text[i])))
        i++;
    *at = i;
    return (struct dgl_str){text + start, i - start};
}
