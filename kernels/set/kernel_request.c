/* Requests in words, and the patterns of hints that are for some requests only. */
#include "kernels/set/kernel_request.h"

#include <string.h>

const char *kernel_request_word(const struct kernel_request *request, const char *key)
{
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (strcmp(request->attrs[i].key, key) == 0)
            return request->attrs[i].word;
    return "none";
}

void kernel_request_describe(const struct kernel_request *request, struct dgl_buf *out)
{
    dgl_buf_puts(out, request->op);
    for (uint32_t i = 0; i < request->num_attrs; i++)
        dgl_buf_printf(out, " %s=%s", request->attrs[i].key, request->attrs[i].word);
}

void kernel_request_key(const struct kernel_request *request, struct dgl_buf *out)
{
    dgl_buf_puts(out, request->op);
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (strcmp(request->attrs[i].key, "layout") != 0)
            dgl_buf_printf(out, "/%s=%s", request->attrs[i].key, request->attrs[i].word);
    for (uint32_t i = 0; i < request->num_consts; i++)
        if (strcmp(request->consts[i].name, "W_STRIDE") != 0)
            dgl_buf_printf(out, "/%s=%lld", request->consts[i].name,
                           (long long)request->consts[i].value);
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* Names of constants begin with a capital, those of attributes do not. */
static bool is_const(struct dgl_str name)
{
    return name.len && name.p[0] >= 'A' && name.p[0] <= 'Z';
}

/* Splits `key=value`; false: `part` is a word alone. */
static bool split_equals(struct dgl_str part, struct dgl_str *key, struct dgl_str *value)
{
    const char *equals = part.len ? memchr(part.p, '=', part.len) : NULL;
    if (!equals)
        return false;
    *key = (struct dgl_str){part.p, (size_t)(equals - part.p)};
    *value = (struct dgl_str){equals + 1, part.len - key->len - 1};
    return true;
}

static bool part_holds(const struct kernel_request *request, struct dgl_str part)
{
    struct dgl_str key, value;
    int64_t number;
    if (!split_equals(part, &key, &value)) {
        for (uint32_t i = 0; i < request->num_attrs; i++)
            if (dgl_str_eq(part, request->attrs[i].word))
                return true;
        return false;
    }
    if (is_const(key)) {
        for (uint32_t i = 0; i < request->num_consts; i++)
            if (dgl_str_eq(key, request->consts[i].name))
                return dgl_parse_i64(value, INT64_MIN, INT64_MAX, &number) &&
                       number == request->consts[i].value;
        return false;
    }
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (dgl_str_eq(key, request->attrs[i].key))
            return dgl_str_eq(value, request->attrs[i].word);
    return dgl_str_eq(value, "none");
}

int kernel_request_match(const struct kernel_request *request, const char *pattern)
{
    struct dgl_str rest = dgl_str_of(pattern), part;
    int parts = 1;
    if (!dgl_str_split(&rest, '/', &part) || !dgl_str_eq(part, request->op))
        return 0;
    for (; dgl_str_split(&rest, '/', &part); parts++)
        if (!part_holds(request, part))
            return 0;
    return parts;
}

/* One or more of [A-Za-z0-9_]. */
static bool is_name(struct dgl_str text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    for (size_t i = 0; i < text.len; i++)
        if (!memchr(letters, text.p[i], sizeof(letters) - 1))
            return false;
    return text.len > 0;
}

bool kernel_pattern_check(const char *pattern, struct dgl_str *bad)
{
    struct dgl_str rest = dgl_str_of(pattern), key, value;
    int64_t number;
    *bad = (struct dgl_str){"", 0};
    dgl_str_split(&rest, '/', bad);
    if (!is_name(*bad))
        return false;
    while (dgl_str_split(&rest, '/', bad)) {
        bool ok = is_name(*bad);
        if (split_equals(*bad, &key, &value))
            ok =
                is_name(key) && (is_const(key) ? dgl_parse_i64(value, INT64_MIN, INT64_MAX, &number)
                                               : is_name(value));
        if (!ok)
            return false;
    }
    return true;
}
