/* A validator of JSON Schema that reads the specification literally. */
#include "tests/support/schema_validator.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>
#include <pcre2.h>
#include <stdlib.h>

#include "tests/support/test.h"

static bool is(struct dgl_str text, const char *word)
{
    return text.len == strlen(word) && !memcmp(text.p, word, text.len);
}

/* --- values --- */

static double number(const struct dgl_json *value)
{
    return dgl_json_f64(value);
}

static bool equal(const struct dgl_json *a, const struct dgl_json *b)
{
    if (dgl_json_type(a) != dgl_json_type(b))
        return false;
    switch (dgl_json_type(a)) {
    case DGL_JSON_NULL:
        return true;
    case DGL_JSON_BOOL:
        return dgl_json_bool(a) == dgl_json_bool(b);
    case DGL_JSON_NUMBER:
        return number(a) == number(b);
    case DGL_JSON_STRING:
        return dgl_str_equal(dgl_json_str(a), dgl_json_str(b));
    case DGL_JSON_ARRAY:
    case DGL_JSON_OBJECT:
        if (dgl_json_count(a) != dgl_json_count(b))
            return false;
        for (const struct dgl_json *x = dgl_json_first(a), *y = dgl_json_first(b); x;
             x = dgl_json_next(x), y = dgl_json_next(y)) {
            const struct dgl_json *other = y;
            if (dgl_json_type(a) == DGL_JSON_OBJECT)
                other = dgl_json_get(b, dgl_json_key(x).p);
            if (!other || !equal(x, other))
                return false;
        }
        return true;
    }
    return false;
}

static bool has_type(const struct dgl_json *value, struct dgl_str type)
{
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
        return is(type, "null");
    case DGL_JSON_BOOL:
        return is(type, "boolean");
    case DGL_JSON_NUMBER:
        return is(type, "number") || (is(type, "integer") && number(value) == floor(number(value)));
    case DGL_JSON_STRING:
        return is(type, "string");
    case DGL_JSON_ARRAY:
        return is(type, "array");
    case DGL_JSON_OBJECT:
        return is(type, "object");
    }
    return false;
}

static bool matches(struct dgl_str pattern, struct dgl_str text)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern.p, pattern.len,
                                     PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF |
                                         PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS,
                                     &error, &at, NULL);
    if (!code)
        fail_msg("pattern %.*s: error %d at %zu", (int)pattern.len, pattern.p, error, at);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    int found = pcre2_match(code, (PCRE2_SPTR)text.p, text.len, 0, 0, data, NULL);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        fail_msg("pattern %.*s: error %d", (int)pattern.len, pattern.p, found);
    return found >= 0;
}

/* --- formats --- */

/* Reads exactly `digits` digits. */
static bool read_number(struct dgl_str *text, size_t digits, int *out)
{
    *out = 0;
    if (text->len < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)text->p[i]))
            return false;
        *out = *out * 10 + (text->p[i] - '0');
    }
    text->p += digits;
    text->len -= digits;
    return true;
}

static bool read_char(struct dgl_str *text, const char *set)
{
    if (!text->len || !strchr(set, text->p[0]))
        return false;
    text->p++;
    text->len--;
    return true;
}

static bool read_date(struct dgl_str *t)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!read_number(t, 4, &year) || !read_char(t, "-") || !read_number(t, 2, &month) ||
        !read_char(t, "-") || !read_number(t, 2, &day) || month < 1 || month > 12 || day < 1)
        return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= days[month - 1] + (month == 2 && leap);
}

static bool read_time(struct dgl_str *t)
{
    int hour, minute, second, digit;
    if (!read_number(t, 2, &hour) || !read_char(t, ":") || !read_number(t, 2, &minute) ||
        !read_char(t, ":") || !read_number(t, 2, &second) || hour > 23 || minute > 59 ||
        second > 59)
        return false;
    if (read_char(t, ".")) {
        if (!read_number(t, 1, &digit))
            return false;
        while (read_number(t, 1, &digit))
            ;
    }
    if (read_char(t, "Zz"))
        return true;
    return read_char(t, "+-") && read_number(t, 2, &hour) && read_char(t, ":") &&
           read_number(t, 2, &minute) && hour <= 23 && minute <= 59;
}

static bool is_host(struct dgl_str text)
{
    size_t label = 0;
    if (!text.len || text.len > 253)
        return false;
    for (size_t i = 0; i <= text.len; i++) {
        char c = i < text.len ? text.p[i] : '.';
        if (c == '.') {
            if (!label || label > 63 || text.p[i - 1] == '-')
                return false;
            label = 0;
            continue;
        }
        if (!isalnum((unsigned char)c) && (c != '-' || !label))
            return false;
        label++;
    }
    return true;
}

static bool is_uuid(struct dgl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (i == 8 || i == 13 || i == 18 || i == 23 ? text.p[i] != '-'
                                                    : !isxdigit((unsigned char)text.p[i]))
            return false;
    return text.len == 36;
}

static bool is_email(struct dgl_str text)
{
    const char *at = memchr(text.p, '@', text.len);
    if (!at || at == text.p || at - text.p > 64 || text.p[0] == '.' || at[-1] == '.')
        return false;
    for (const char *p = text.p; p < at; p++)
        if ((unsigned char)*p <= ' ' || strchr("\"(),:;<>[\\]", *p) || (*p == '.' && p[1] == '.'))
            return false;
    return is_host((struct dgl_str){at + 1, text.len - (size_t)(at + 1 - text.p)});
}

static bool has_format(struct dgl_str text, struct dgl_str format)
{
    struct dgl_str t = text;
    char copy[200] = "", space[32];
    memcpy(copy, text.p, text.len < sizeof(copy) ? text.len : sizeof(copy) - 1);
    if (is(format, "date"))
        return read_date(&t) && !t.len;
    if (is(format, "time"))
        return read_time(&t) && !t.len;
    if (is(format, "date-time"))
        return read_date(&t) && read_char(&t, "Tt") && read_time(&t) && !t.len;
    if (is(format, "uuid"))
        return is_uuid(text);
    if (is(format, "ipv4"))
        return strlen(copy) == text.len && inet_pton(AF_INET, copy, space) == 1;
    if (is(format, "ipv6"))
        return strlen(copy) == text.len && inet_pton(AF_INET6, copy, space) == 1;
    if (is(format, "hostname"))
        return is_host(text);
    if (is(format, "email"))
        return is_email(text);
    if (is(format, "uri"))
        return matches(DGL_STR("^[a-zA-Z][a-zA-Z0-9+.-]*:[^\\s\"<>\\\\^`{|}]*$"), text) &&
               !matches(DGL_STR("%(?![0-9A-Fa-f]{2})"), text);
    if (is(format, "duration"))
        return matches(
            DGL_STR("^P(?=.)(\\d+W|(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=.)(\\d+H)?(\\d+M)?(\\d+S)?"
                    ")?)$"),
            text);
    return true;
}

/* --- schemas --- */

static const struct dgl_json *resolve(const struct dgl_json *root, struct dgl_str ref)
{
    const struct dgl_json *at = root;
    if (!ref.len || ref.p[0] != '#')
        fail_msg("cannot resolve %.*s", (int)ref.len, ref.p);
    for (size_t i = 1; i < ref.len && at;) {
        char token[200];
        size_t len = 0;
        for (i++; i < ref.len && ref.p[i] != '/'; i++) {
            char c = ref.p[i];
            if (c == '~')
                c = ref.p[++i] == '0' ? '~' : '/';
            token[len++] = c;
        }
        token[len] = '\0';
        at = dgl_json_is(at, DGL_JSON_ARRAY) ? dgl_json_at(at, (size_t)atoi(token))
                                             : dgl_json_get(at, token);
    }
    if (!at)
        fail_msg("cannot resolve %.*s", (int)ref.len, ref.p);
    return at;
}

struct validation {
    const struct dgl_json *root, *schema, *value;
};

/* Returns true if the root names draft 4, 6 or 7. */
static bool is_old(const struct dgl_json *root)
{
    return strstr(dgl_json_str(dgl_json_get(root, "$schema")).p, "/draft-0") != NULL;
}

/* Returns true if an old draft does not know the word. */
static bool is_new(const struct dgl_json *root, struct dgl_str word)
{
    const char *draft = dgl_json_str(dgl_json_get(root, "$schema")).p;
    if (is(word, "const") || is(word, "contains") || is(word, "propertyNames"))
        return strstr(draft, "/draft-04/") != NULL;
    return is_old(root) && (is(word, "prefixItems") || is(word, "dependentRequired") ||
                            is(word, "dependentSchemas"));
}

static size_t count_valid(const struct validation *v, const struct dgl_json *list)
{
    size_t count = 0;
    for (const struct dgl_json *s = dgl_json_first(list); s; s = dgl_json_next(s))
        count += !schema_validate(v->root, s, v->value);
    return count;
}

static bool check_properties(const struct validation *v)
{
    const struct dgl_json *properties = dgl_json_get(v->schema, "properties"),
                          *patterns = dgl_json_get(v->schema, "patternProperties"),
                          *others = dgl_json_get(v->schema, "additionalProperties"),
                          *names = dgl_json_get(v->schema, "propertyNames"), *s;
    for (const struct dgl_json *m = dgl_json_first(v->value); m; m = dgl_json_next(m)) {
        bool evaluated = false;
        for (s = dgl_json_first(properties); s; s = dgl_json_next(s))
            if (dgl_str_equal(dgl_json_key(s), dgl_json_key(m))) {
                evaluated = true;
                if (schema_validate(v->root, s, m))
                    return false;
            }
        for (s = dgl_json_first(patterns); s; s = dgl_json_next(s))
            if (matches(dgl_json_key(s), dgl_json_key(m))) {
                evaluated = true;
                if (schema_validate(v->root, s, m))
                    return false;
            }
        if (!evaluated && others && schema_validate(v->root, others, m))
            return false;
        if (names) {
            struct dgl_buf text = {0};
            struct dgl_json_doc *doc;
            struct dgl_json_writer w = dgl_json_writer(&text, 0);
            dgl_jw_str(&w, dgl_json_key(m));
            assert_int_equal(dgl_json_parse(NULL, "name", text.p, text.len, &doc), DGL_OK);
            bool ok = !schema_validate(v->root, names, dgl_json_root(doc));
            dgl_json_destroy(&doc);
            dgl_buf_finish(&text);
            if (!ok)
                return false;
        }
    }
    return true;
}

static bool check_items(const struct validation *v)
{
    const struct dgl_json *items = dgl_json_get(v->schema, "items"),
                          *prefix = is_old(v->root) ? NULL : dgl_json_get(v->schema, "prefixItems");
    if (dgl_json_is(items, DGL_JSON_ARRAY)) {
        prefix = items;
        items = dgl_json_get(v->schema, "additionalItems");
    }
    const struct dgl_json *next = dgl_json_first(prefix);
    for (const struct dgl_json *i = dgl_json_first(v->value); i; i = dgl_json_next(i)) {
        const struct dgl_json *schema = next ? next : items;
        if (schema && schema_validate(v->root, schema, i))
            return false;
        next = next ? dgl_json_next(next) : NULL;
    }
    return true;
}

static bool check_required(const struct validation *v, const struct dgl_json *list)
{
    for (const struct dgl_json *n = dgl_json_first(list); n; n = dgl_json_next(n))
        if (!dgl_json_get(v->value, dgl_json_str(n).p))
            return false;
    return true;
}

/* Checks the three kinds of dependencies: lists of names, and schemas. */
static bool check_dependencies(const struct validation *v, const struct dgl_json *map)
{
    for (const struct dgl_json *d = dgl_json_first(map); d; d = dgl_json_next(d)) {
        if (!dgl_json_get(v->value, dgl_json_key(d).p))
            continue;
        if (dgl_json_is(d, DGL_JSON_ARRAY) ? !check_required(v, d)
                                           : schema_validate(v->root, d, v->value) != NULL)
            return false;
    }
    return true;
}

static bool check_if(const struct validation *v, const struct dgl_json *condition)
{
    const char *word = schema_validate(v->root, condition, v->value) ? "else" : "then";
    const struct dgl_json *schema = dgl_json_get(v->schema, word);
    return !schema || !schema_validate(v->root, schema, v->value);
}

static bool in_list(const struct validation *v, const struct dgl_json *list)
{
    for (const struct dgl_json *item = dgl_json_first(list); item; item = dgl_json_next(item))
        if (equal(item, v->value))
            return true;
    return false;
}

static bool check_type(const struct validation *v, const struct dgl_json *type)
{
    if (dgl_json_is(type, DGL_JSON_STRING))
        return has_type(v->value, dgl_json_str(type));
    for (const struct dgl_json *t = dgl_json_first(type); t; t = dgl_json_next(t))
        if (has_type(v->value, dgl_json_str(t)))
            return true;
    return false;
}

static bool check_number(const struct validation *v, struct dgl_str key, const struct dgl_json *w,
                         bool *known)
{
    double x = number(v->value), bound = number(w);
    bool low = dgl_json_bool(dgl_json_get(v->schema, "exclusiveMinimum")),
         high = dgl_json_bool(dgl_json_get(v->schema, "exclusiveMaximum")),
         old = dgl_json_is(w, DGL_JSON_BOOL), is_number = dgl_json_is(v->value, DGL_JSON_NUMBER);
    *known = true;
    if (is(key, "minimum"))
        return !is_number || (low ? x > bound : x >= bound);
    if (is(key, "maximum"))
        return !is_number || (high ? x < bound : x <= bound);
    if (is(key, "exclusiveMinimum"))
        return !is_number || old || x > bound;
    if (is(key, "exclusiveMaximum"))
        return !is_number || old || x < bound;
    if (is(key, "multipleOf")) {
        double quotient = x / bound;
        return !is_number || fabs(quotient - round(quotient)) < 1e-6 * fmax(1, fabs(quotient));
    }
    *known = false;
    return true;
}

static bool check_count(const struct validation *v, struct dgl_str key, const struct dgl_json *w,
                        bool *known)
{
    struct dgl_str text = dgl_json_str(v->value);
    size_t length = 0;
    bool string = dgl_json_is(v->value, DGL_JSON_STRING),
         object = dgl_json_is(v->value, DGL_JSON_OBJECT),
         array = dgl_json_is(v->value, DGL_JSON_ARRAY);
    double count = (double)dgl_json_count(v->value), bound = number(w);
    for (size_t i = 0; i < text.len; i++)
        length += ((unsigned char)text.p[i] & 0xC0) != 0x80;
    *known = true;
    if (is(key, "minLength"))
        return !string || (double)length >= bound;
    if (is(key, "maxLength"))
        return !string || (double)length <= bound;
    if (is(key, "minItems"))
        return !array || count >= bound;
    if (is(key, "maxItems"))
        return !array || count <= bound;
    if (is(key, "minProperties"))
        return !object || count >= bound;
    if (is(key, "maxProperties"))
        return !object || count <= bound;
    *known = false;
    return true;
}

/* Checks one keyword. */
static bool check(const struct validation *v, struct dgl_str key, const struct dgl_json *w)
{
    static const char *const notes[] = {"$schema",  "$id",
                                        "$defs",    "definitions",
                                        "title",    "description",
                                        "default",  "examples",
                                        "$comment", "additionalItems",
                                        "$anchor",  "then",
                                        "else",     "unevaluatedProperties"};
    bool known, string = dgl_json_is(v->value, DGL_JSON_STRING),
                object = dgl_json_is(v->value, DGL_JSON_OBJECT),
                array = dgl_json_is(v->value, DGL_JSON_ARRAY);
    bool ok = check_number(v, key, w, &known);
    if (known)
        return ok;
    ok = check_count(v, key, w, &known);
    if (known)
        return ok;
    if (is(key, "type"))
        return check_type(v, w);
    if (is(key, "enum"))
        return in_list(v, w);
    if (is(key, "const"))
        return equal(w, v->value);
    if (is(key, "$ref"))
        return !schema_validate(v->root, resolve(v->root, dgl_json_str(w)), v->value);
    if (is(key, "allOf"))
        return count_valid(v, w) == dgl_json_count(w);
    if (is(key, "anyOf"))
        return count_valid(v, w) > 0;
    if (is(key, "oneOf"))
        return count_valid(v, w) == 1;
    if (is(key, "not"))
        return schema_validate(v->root, w, v->value) != NULL;
    if (is(key, "if"))
        return check_if(v, w);
    if (is(key, "dependencies") || is(key, "dependentRequired") || is(key, "dependentSchemas"))
        return !object || check_dependencies(v, w);
    if (is(key, "pattern"))
        return !string || matches(dgl_json_str(w), dgl_json_str(v->value));
    if (is(key, "format"))
        return !string || has_format(dgl_json_str(v->value), dgl_json_str(w));
    if (is(key, "required"))
        return !object || check_required(v, w);
    if (is(key, "properties") || is(key, "patternProperties") || is(key, "additionalProperties") ||
        is(key, "propertyNames"))
        return !object || check_properties(v);
    if (is(key, "items") || is(key, "prefixItems"))
        return !array || check_items(v);
    for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++)
        if (is(key, notes[i]))
            return true;
    fail_msg("the validator does not know %.*s", (int)key.len, key.p);
    return false;
}

const char *schema_validate(const struct dgl_json *root, const struct dgl_json *schema,
                            const struct dgl_json *value)
{
    struct validation v = {root, schema, value};
    if (dgl_json_is(schema, DGL_JSON_BOOL))
        return dgl_json_bool(schema) ? NULL : "false";
    const struct dgl_json *ref = dgl_json_get(schema, "$ref");
    if (ref && is_old(root)) /* its siblings are ignored */
        return check(&v, dgl_json_key(ref), ref) ? NULL : "$ref";
    for (const struct dgl_json *w = dgl_json_first(schema); w; w = dgl_json_next(w))
        if (!is_new(root, dgl_json_key(w)) && !check(&v, dgl_json_key(w), w))
            return dgl_json_key(w).p;
    return NULL;
}
