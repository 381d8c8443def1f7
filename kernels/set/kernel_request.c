/* Requests as text, and the patterns by which hints match requests. */
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

/* Names of constants begin with a capital letter, names of attributes do not. */
static bool is_const(struct dgl_str name)
{
    return name.len && name.p[0] >= 'A' && name.p[0] <= 'Z';
}

bool kernel_part_split(struct dgl_str part, struct dgl_str *key, struct dgl_str *value)
{
    const char *equals = part.len ? memchr(part.p, '=', part.len) : NULL;
    *key = (struct dgl_str){part.p, equals ? (size_t)(equals - part.p) : 0};
    *value = equals ? (struct dgl_str){equals + 1, part.len - key->len - 1} : part;
    return equals;
}

static bool part_holds(const struct kernel_request *request, struct dgl_str part)
{
    struct dgl_str key, value;
    const bool keyed = kernel_part_split(part, &key, &value);
    int64_t number;
    for (uint32_t i = 0; keyed && is_const(key) && i < request->num_consts; i++)
        if (dgl_str_eq(key, request->consts[i].name))
            return dgl_parse_i64(value, INT64_MIN, INT64_MAX, &number) &&
                   number == request->consts[i].value;
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (keyed ? dgl_str_eq(key, request->attrs[i].key)
                  : dgl_str_eq(value, request->attrs[i].word))
            return dgl_str_eq(value, request->attrs[i].word);
    return keyed && !is_const(key) && dgl_str_eq(value, "none");
}

bool kernel_request_matches(const struct kernel_request *request, struct dgl_str pattern)
{
    struct dgl_str part;
    bool matches = dgl_str_split(&pattern, '/', &part) && dgl_str_eq(part, request->op);
    while (matches && dgl_str_split(&pattern, '/', &part))
        matches = part_holds(request, part);
    return matches;
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

bool kernel_part_is_valid(struct dgl_str part)
{
    struct dgl_str key, value;
    int64_t number;
    const bool keyed = kernel_part_split(part, &key, &value);
    return keyed && is_const(key)
               ? is_name(key) && dgl_parse_i64(value, INT64_MIN, INT64_MAX, &number)
               : (!keyed || is_name(key)) && is_name(value);
}

bool kernel_part_is_known(const struct kernel_set *set, struct dgl_str op, struct dgl_str part)
{
    struct dgl_str key, value;
    const bool keyed = kernel_part_split(part, &key, &value);
    char word[64];
    bool known = dgl_str_eq(key, "layout"), any_words = true;
    int64_t number;
    snprintf(word, sizeof(word), "%.*s", (int)value.len, value.p);
    /* Plans use more values of `columns` than WHEN lines list. */
    const bool any = strcmp(word, "none") == 0 ||
                     (dgl_str_eq(key, "columns") && dgl_parse_i64(value, 1, INT32_MAX, &number));
    for (size_t i = 0; i < kernel_set_count(set) && !known; i++) {
        const struct kernel *k = kernel_set_at(set, i);
        any_words = any_words && (!dgl_str_eq(op, k->op) || k->num_when == 0);
        for (uint32_t c = 0; keyed && c < k->num_consts; c++)
            known = known || dgl_str_eq(key, k->consts[c].name);
        for (uint32_t w = 0; w < k->num_when; w++)
            known = known || (keyed ? dgl_str_eq(key, k->when[w].key) &&
                                          (any || kernel_word_in(k->when[w].words, word))
                                    : kernel_word_in(k->when[w].words, word));
    }
    return known || any_words;
}

void kernel_op_words(const struct kernel_set *set, struct dgl_str op, bool consts,
                     struct dgl_buf *out)
{
    struct dgl_buf keys = {0};
    struct dgl_str rest, key, word;
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        const uint32_t count = consts ? k->num_consts : k->num_when;
        for (uint32_t w = 0; w < count && dgl_str_eq(op, k->op); w++)
            dgl_buf_add_word(consts ? out : &keys, 0,
                             dgl_str_of(consts ? k->consts[w].name : k->when[w].key));
    }
    rest = (struct dgl_str){keys.p, keys.len};
    while (kernel_word_next(&rest, &key)) {
        dgl_buf_printf(out, "%s%.*s ", key.p == keys.p ? "" : "; ", (int)key.len, key.p);
        const size_t start = out->len;
        for (size_t i = 0; i < kernel_set_count(set); i++) {
            const struct kernel *k = kernel_set_at(set, i);
            for (uint32_t w = 0; w < k->num_when && dgl_str_eq(op, k->op); w++) {
                struct dgl_str words = dgl_str_of(k->when[w].words);
                while (dgl_str_eq(key, k->when[w].key) && kernel_word_next(&words, &word))
                    dgl_buf_add_word(out, start, word);
            }
        }
    }
    dgl_buf_finish(&keys);
}

/* ---- buffers and parameters of an operation -------------------------------------------------- */

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
