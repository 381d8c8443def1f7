/* Requests in words, and the patterns of hints that are for some requests only. */
#include "kernels/set/kernel_request.h"

#include <stdio.h>
#include <string.h>

#include "kernels/format/kernel_format.h"

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

bool kernel_part_split(struct dgl_str part, struct dgl_str *key, struct dgl_str *value)
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
    if (!kernel_part_split(part, &key, &value)) {
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

/* Whether some WHEN line has the word, under the key if that is not empty; without a word, whether
 * one has the key. */
static bool is_attribute(const struct kernel_set *set, struct dgl_str key, const char *word)
{
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        for (uint32_t w = 0; w < k->num_when; w++)
            if ((key.len == 0 || dgl_str_eq(key, k->when[w].key)) &&
                (!word || kernel_word_in(k->when[w].words, word)))
                return true;
    }
    return false;
}

static bool is_known_const(const struct kernel_set *set, struct dgl_str name)
{
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        for (uint32_t c = 0; c < k->num_consts; c++)
            if (dgl_str_eq(name, k->consts[c].name))
                return true;
    }
    return false;
}

/* "KEY WORD WORD": all words of the key in kernels of the operation, each once. */
static void put_words(const struct kernel_set *set, struct dgl_str op, const char *key, bool more,
                      struct dgl_buf *out)
{
    dgl_buf_printf(out, "%s%s", more ? "; " : "", key);
    const size_t start = out->len;
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        for (uint32_t w = 0; w < k->num_when && dgl_str_eq(op, k->op); w++) {
            struct dgl_str words = dgl_str_of(k->when[w].words), word;
            while (strcmp(k->when[w].key, key) == 0 && kernel_word_next(&words, &word)) {
                char one[64];
                snprintf(one, sizeof(one), "%.*s", (int)word.len, word.p);
                if (!out->failed && !kernel_word_in(out->p + start, one))
                    dgl_buf_printf(out, " %s", one);
            }
        }
    }
}

/* Kernels without WHEN lines serve requests of any words. */
static bool has_words(const struct kernel_set *set, struct dgl_str op)
{
    for (size_t i = 0; i < kernel_set_count(set); i++)
        if (dgl_str_eq(op, kernel_set_at(set, i)->op) && kernel_set_at(set, i)->num_when > 0)
            return true;
    return false;
}

bool kernel_pattern_known(const struct kernel_set *set, const char *pattern, struct dgl_str *bad)
{
    struct dgl_str rest = dgl_str_of(pattern), key, value;
    dgl_str_split(&rest, '/', bad); /* the operation */
    if (!has_words(set, *bad))
        return true;
    while (dgl_str_split(&rest, '/', bad)) {
        char word[64];
        key = DGL_STR("");
        value = *bad;
        if (kernel_part_split(*bad, &key, &value) &&
            (is_const(key) ? is_known_const(set, key) : dgl_str_eq(key, "layout")))
            continue;
        /* Plans have more numbers of columns than WHEN lines name. */
        int64_t number;
        if (dgl_str_eq(key, "columns") && is_attribute(set, key, NULL) &&
            dgl_parse_i64(value, 1, INT32_MAX, &number))
            continue;
        snprintf(word, sizeof(word), "%.*s", (int)value.len, value.p);
        if (is_const(key) ||
            (!is_attribute(set, key, word) &&
             !(key.len && strcmp(word, "none") == 0 && is_attribute(set, key, NULL))))
            return false;
    }
    return true;
}

/* "phase decode prefill; weight f32 f16" of the kernels of the operation. */
void kernel_op_words(const struct kernel_set *set, struct dgl_str op, struct dgl_buf *out)
{
    const size_t start = out->len;
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        for (uint32_t w = 0; w < k->num_when && dgl_str_eq(op, k->op); w++) {
            bool told = false;
            for (size_t j = 0; j < i && !told; j++) {
                const struct kernel *other = kernel_set_at(set, j);
                for (uint32_t v = 0; v < other->num_when && dgl_str_eq(op, other->op); v++)
                    told |= strcmp(other->when[v].key, k->when[w].key) == 0;
            }
            if (!told)
                put_words(set, op, k->when[w].key, out->len > start, out);
        }
    }
}

void kernel_op_consts(const struct kernel_set *set, struct dgl_str op, struct dgl_buf *out)
{
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        for (uint32_t c = 0; c < k->num_consts && dgl_str_eq(op, k->op); c++)
            if (!out->p || !kernel_word_in(out->p, k->consts[c].name))
                dgl_buf_printf(out, "%s%s", out->len ? " " : "", k->consts[c].name);
    }
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
        if (kernel_part_split(*bad, &key, &value))
            ok =
                is_name(key) && (is_const(key) ? dgl_parse_i64(value, INT64_MIN, INT64_MAX, &number)
                                               : is_name(value));
        if (!ok)
            return false;
    }
    return true;
}

/* ---- what an operation gives its kernels ----------------------------------------------------- */

bool kernel_is_supplied(const struct kernel *kernel, const struct kernel_supply *supply,
                        char why[512])
{
    static const char *const types[] = {
        [KERNEL_UINT] = "uint", [KERNEL_INT] = "int", [KERNEL_FLOAT] = "float"};
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        const char *name = kernel->binds[i].name;
        if (supply->has_buffer(supply->priv, name))
            continue;
        snprintf(why, 512, "%.300s:%u: BIND %s: operation %s has no such buffer", kernel->path,
                 (unsigned)kernel->binds[i].line, name, supply->op);
        return false;
    }
    for (uint32_t i = 0; i < kernel->num_params; i++) {
        const struct kernel_param *param = &kernel->params[i];
        const unsigned line = param->line;
        bool is_float;
        if (!supply->has_param(supply->priv, param->name, &is_float)) {
            snprintf(why, 512, "%.300s:%u: PARAM %s: operation %s has no such parameter",
                     kernel->path, line, param->name, supply->op);
            return false;
        }
        if (is_float != (param->type == KERNEL_FLOAT)) {
            snprintf(why, 512, "%.300s:%u: PARAM %s is %s, operation %s gives a %s", kernel->path,
                     line, param->name, types[param->type], supply->op,
                     is_float ? "float" : "uint");
            return false;
        }
    }
    return true;
}
