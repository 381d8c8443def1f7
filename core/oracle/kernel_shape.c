/* Parses sizes and completes them with typical values. */
#include "core/oracle/kernel_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/oracle/op_problem.h"
#include "kernels/format/kernel_format.h"
#include "kernels/set/kernel_fit.h"

/* The caller cannot set constants that follow from others. */
static const char *find_const(const struct op_rule *rule, const struct kernel *kernel,
                              const char *name)
{
    const size_t len = strlen(name);
    if ((len > 7 && strcmp(name + len - 7, "_STRIDE") == 0) || strcmp(name, "BIAS_AT") == 0 ||
        strcmp(name, "COLUMNS") == 0)
        return NULL;
    for (uint32_t i = 0; i < OP_MAX_CONSTS && rule->typical.consts[i].name; i++)
        if (strcmp(rule->typical.consts[i].name, name) == 0)
            return rule->typical.consts[i].name;
    for (uint32_t i = 0; i < kernel->num_consts; i++)
        if (strcmp(kernel->consts[i].name, name) == 0)
            return kernel->consts[i].name;
    return NULL;
}

const char *kernel_shape_weight(const struct kernel *kernel, size_t i)
{
    const struct op_rule *rule = op_rule_find(kernel->op);
    const struct op_attr *attr = rule ? op_attr_find(rule, "weight") : NULL;
    const char *words[OP_MAX_WORDS];
    return attr && i < op_attr_served(kernel, attr, words) ? words[i] : NULL;
}

bool kernel_shape_has(const char *text, const char *key)
{
    struct dgl_str rest = dgl_str_of(text), item;
    const size_t len = strlen(key);
    while (dgl_str_split(&rest, ',', &item))
        if (item.len > len && memcmp(item.p, key, len) == 0 && item.p[len] == '=')
            return true;
    return false;
}

/* "KEY=VALUE", NUL-terminated. */
static enum dgl_status read_item(const struct dgl_log *log, const struct op_rule *rule, char *item,
                                 struct kernel_shape *s)
{
    char *value = strchr(item, '=');
    int64_t number;
    if (!value)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "shape: '%s' is not KEY=VALUE",
                        DGL_PRINTABLE(item));
    *value++ = '\0';
    const struct op_attr *attr = op_attr_find(rule, item);
    if (attr) {
        const char *word = op_attr_word(attr, dgl_str_of(value));
        if (!word && strcmp(value, "none") != 0)
            return dgl_fail(log, DGL_ERR_INVALID_ARG, "shape: %s=%s is none of %s's words", item,
                            DGL_PRINTABLE(value), rule->op);
        request_set(&s->c.request, attr->key, word);
        return DGL_OK;
    }
    uint32_t *field = !strcmp(item, "tokens") ? &s->c.tokens
                      : !strcmp(item, "pos")  ? &s->c.pos
                      : !strcmp(item, "rows") ? &s->c.rows
                                              : NULL;
    const char *name = field ? item : find_const(rule, s->kernel, item);
    if (!name)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "shape: %s has no attribute and no size '%s' (docs/operations.md)",
                        rule->op, DGL_PRINTABLE(item));
    const int64_t most = field == &s->c.tokens ? DGL_STEP_ROWS : KERNEL_SHAPE_MAX;
    const int64_t least = field == &s->c.tokens ? 1 : 0;
    if (!dgl_parse_i64(dgl_str_of(value), least, most, &number))
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "shape: %s=%s is not a number from %d to %lld",
                        name, DGL_PRINTABLE(value), (int)least, (long long)most);
    if (field)
        *field = (uint32_t)number;
    else
        request_set_const(&s->c.request, name, number);
    return DGL_OK;
}

/* The text as attributes and constants; constants that it leaves out are typical. Refuses
 * impossible sizes: zero, or too large to address. */
static enum dgl_status read_text(const struct dgl_log *log, const struct op_rule *rule,
                                 const struct kernel *kernel, const char *text,
                                 struct kernel_shape *out)
{
    static const char may_be_zero[] = "ROPE_DIMS WINDOW SOFTCAP SCALED X_LAST LEVEL";
    enum dgl_status status = DGL_OK;
    char *save = NULL;
    *out = (struct kernel_shape){.kernel = kernel, .c.request.op = kernel->op};
    if (text && strlen(text) >= sizeof(out->text))
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "shape: longer than %d bytes",
                        (int)sizeof(out->text) - 1);
    snprintf(out->text, sizeof(out->text), "%s", text ? text : "");
    for (char *item = strtok_r(out->text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        TRY(read_item(log, rule, item, out)); /* leaves the key of it */
        if (save && kernel_shape_has(save, item))
            return dgl_fail(log, DGL_ERR_INVALID_ARG, "shape: %s is given twice", item);
    }
    for (uint32_t i = 0; i < OP_MAX_CONSTS && rule->typical.consts[i].name; i++)
        request_default(&out->c.request, rule->typical.consts[i].name,
                        rule->typical.consts[i].value);
    uint64_t product = out->c.tokens ? out->c.tokens : 1;
    for (uint32_t i = 0; i < out->c.request.num_consts; i++) {
        const struct kernel_var *v = &out->c.request.consts[i];
        if (v->value == 0 && !kernel_word_in(may_be_zero, v->name))
            return dgl_fail(log, DGL_ERR_INVALID_ARG, "shape: %s=0 leaves nothing to compute",
                            v->name);
        product *= v->value > 0 ? (uint64_t)v->value : 1;
        if (product > 1ull << 40)
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "shape: the sizes multiply to more than 2^40: no device holds that");
    }
done:
    return status;
}

enum dgl_status kernel_shape_check(const struct dgl_log *log, const struct kernel *kernel,
                                   const char *text)
{
    const struct op_rule *rule = op_rule_find(kernel->op);
    struct kernel_shape *shape = dgl_new(struct kernel_shape);
    enum dgl_status status = DGL_OK;
    if (!shape)
        return dgl_fail_memory(log, kernel->name, sizeof(*shape));
    if (rule)
        status = read_text(log, rule, kernel, text, shape);
    free(shape);
    return status;
}

enum dgl_status kernel_shape_fit(struct kernel_judge *judge, const struct kernel *kernel,
                                 const char *text, const char *weight, struct kernel_shape *out,
                                 bool *fits, char why[192])
{
    const struct op_rule *rule = op_rule_find(kernel->op);
    *fits = false;
    why[0] = '\0';
    if (!rule) {
        snprintf(why, 192, "no operation is called %s", kernel->op);
        return DGL_OK;
    }
    enum dgl_status status = read_text(kernel_judge_log(judge), rule, kernel, text, out);
    if (status != DGL_OK)
        return status;
    struct kernel_case *c = &out->c;
    if (weight && request_is(&c->request, "weight", "none"))
        request_set(&c->request, "weight", weight);
    for (const struct op_attr *a = rule->attrs; a < rule->attrs + OP_MAX_ATTRS && a->key; a++) {
        const char *words[OP_MAX_WORDS];
        if (request_is(&c->request, a->key, "none") && strcmp(a->key, "columns") != 0)
            request_set(&c->request, a->key, op_attr_served(kernel, a, words) ? words[0] : NULL);
    }
    if (!kernel_shape_has(text, "pos"))
        c->pos = rule->typical.pos;
    c->variant = rule->typical.variant;
    /* Without a number of tokens: as many as the kernel may get. */
    uint32_t tokens = c->tokens ? c->tokens : rule->typical.tokens;
    const struct kernel_case given = *c;
    for (; status == DGL_OK && tokens >= 1 && !*fits; tokens /= 2) {
        *c = given;
        c->tokens = tokens;
        *fits = kernel_judge_fit(judge, kernel, c, &out->choice, why);
        if (given.tokens)
            break;
    }
    if (status == DGL_OK && !*fits && !why[0])
        snprintf(why, 192, "no plan asks for these words together");
    out->load = (struct kernel_load){.tokens = c->tokens, .pos = c->pos, .rows = c->rows};
    return status;
}
