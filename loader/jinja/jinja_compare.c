/* Equality, order and membership. */
#include <string.h>

#include "loader/jinja/jinja_chars.h"
#include "loader/jinja/jinja_ops.h"

static bool same_text(const struct jinja_value *a, const struct jinja_value *b)
{
    return a->text.len == b->text.len &&
           (a->text.len == 0 || memcmp(a->text.p, b->text.p, a->text.len) == 0);
}

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a,
                        const struct jinja_list *b, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count && i < b->count; i++) {
        if (!jinja_equal(run, &a->items[i], &b->items[i], out))
            return false;
    }
    return true;
}

static bool equal_dicts(struct jinja_run *run, const struct jinja_dict *a,
                        const struct jinja_dict *b, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        struct jinja_value *other;
        if (!jinja_dict_find(run, b, &a->entries[i].key, &other))
            return false;
        *out = other != NULL;
        if (other && !jinja_equal(run, &a->entries[i].value, other, out))
            return false;
    }
    return true;
}

static bool equal_ranges(const struct jinja_value *a, const struct jinja_value *b)
{
    size_t count = jinja_range_count(a);
    return count == jinja_range_count(b) &&
           (count == 0 ||
            (a->range.start == b->range.start && (count == 1 || a->range.step == b->range.step)));
}

static bool equal_same_type(struct jinja_run *run, const struct jinja_value *a,
                            const struct jinja_value *b, bool *out)
{
    switch (a->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        *out = true;
        return true;
    case JINJA_STRING:
        *out = same_text(a, b);
        return jinja_step_bytes(run, *out ? a->text.len : 0);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return equal_lists(run, a->list, b->list, out);
    case JINJA_DICT:
        return equal_dicts(run, a->dict, b->dict, out);
    case JINJA_RANGE:
        *out = equal_ranges(a, b);
        return true;
    default:
        *out = a->list == b->list; /* the same object */
        return true;
    }
}

bool jinja_equal(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 bool *out)
{
    *out = false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = jinja_is_integral(a) && jinja_is_integral(b) ? jinja_integer(a) == jinja_integer(b)
                                                            : jinja_real(a) == jinja_real(b);
        return true;
    }
    if (a->type != b->type)
        return true;
    if (!jinja_enter(run))
        return false;
    bool ok = jinja_step(run, 1) && equal_same_type(run, a, b, out);
    jinja_leave(run);
    return ok;
}

static int sign_of(double a, double b)
{
    return (a > b) - (a < b);
}

static int order_texts(const struct jinja_value *a, const struct jinja_value *b)
{
    size_t len = a->text.len < b->text.len ? a->text.len : b->text.len;
    int order = len ? memcmp(a->text.p, b->text.p, len) : 0;
    return order ? order : (a->text.len > b->text.len) - (a->text.len < b->text.len);
}

static bool order_lists(struct jinja_run *run, const char *sign, const struct jinja_list *a,
                        const struct jinja_list *b, int *out)
{
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        bool equal;
        if (!jinja_equal(run, &a->items[i], &b->items[i], &equal))
            return false;
        if (!equal)
            return jinja_order(run, sign, &a->items[i], &b->items[i], out);
    }
    *out = (a->count > b->count) - (a->count < b->count);
    return true;
}

bool jinja_order(struct jinja_run *run, const char *sign, const struct jinja_value *a,
                 const struct jinja_value *b, int *out)
{
    if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a->type == JINJA_UNDEFINED ? a : b);
    if (jinja_is_integral(a) && jinja_is_integral(b)) {
        int64_t x = jinja_integer(a), y = jinja_integer(b);
        *out = (x > y) - (x < y);
        return true;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = sign_of(jinja_real(a), jinja_real(b));
        return true;
    }
    if (jinja_is_text(a) && jinja_is_text(b)) {
        *out = order_texts(a, b);
        return jinja_step_bytes(run, a->text.len);
    }
    if (a->type != b->type || !jinja_is_sequence(a))
        return jinja_error(run, "'%s' not supported between instances of '%s' and '%s'", sign,
                           jinja_type_name(a), jinja_type_name(b));
    if (!jinja_enter(run))
        return false;
    bool ok = order_lists(run, sign, a->list, b->list, out);
    jinja_leave(run);
    return ok;
}

bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *out)
{
    *out = false;
    if (container->type == JINJA_STRING) {
        if (!jinja_is_text(item))
            return jinja_error(run, "'in <string>' requires string as left operand, not %s",
                               jinja_type_name(item));
        *out = jinja_find(jinja_str(container), jinja_str(item), 0) != SIZE_MAX;
        return jinja_step_bytes(run, container->text.len);
    }
    if (container->type == JINJA_DICT) {
        struct jinja_value *found;
        if (!jinja_is_hashable(item))
            return jinja_error(run, "unhashable type: '%s'", jinja_type_name(item));
        bool ok = jinja_dict_find(run, container->dict, item, &found);
        *out = ok && found;
        return ok;
    }
    if (!jinja_can_iterate(container))
        return jinja_error(run, "argument of type '%s' is not iterable",
                           jinja_type_name(container));
    struct jinja_iter iter;
    struct jinja_value candidate;
    bool ok = jinja_iter_init(run, container, &iter);
    while (ok && !*out && jinja_iter_next(&iter, &candidate))
        ok = jinja_step(run, 1) && jinja_equal(run, &candidate, item, out);
    return ok;
}

bool jinja_compare(struct jinja_run *run, enum jinja_cmp cmp, const struct jinja_value *a,
                   const struct jinja_value *b, bool *out)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    int order = 0;
    bool ok;
    if (cmp == JINJA_CMP_EQ || cmp == JINJA_CMP_NE) {
        ok = jinja_equal(run, a, b, out);
        *out ^= cmp == JINJA_CMP_NE;
        return ok;
    }
    if (cmp == JINJA_CMP_IN || cmp == JINJA_CMP_NOT_IN) {
        ok = jinja_contains(run, b, a, out);
        *out ^= cmp == JINJA_CMP_NOT_IN;
        return ok;
    }
    ok = jinja_order(run, signs[cmp], a, b, &order);
    *out = cmp == JINJA_CMP_LT   ? order < 0
           : cmp == JINJA_CMP_LE ? order <= 0
           : cmp == JINJA_CMP_GT ? order > 0
                                 : order >= 0;
    return ok;
}
