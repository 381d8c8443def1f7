/* Tests: what stands behind "is". */
#include <string.h>

#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_ops.h"
#include "loader/jinja/jinja_string.h"

static bool answer(struct jinja_value *out, bool yes)
{
    *out = jinja_bool(yes);
    return true;
}

#define TYPE_TEST(name, condition)                                                                 \
    static bool test_##name(struct jinja_run *run, struct jinja_invocation *in,                    \
                            struct jinja_value *out)                                               \
    {                                                                                              \
        const struct jinja_value *value = &in->self;                                               \
        (void)run;                                                                                 \
        return answer(out, condition);                                                             \
    }

TYPE_TEST(defined, value->type != JINJA_UNDEFINED)
TYPE_TEST(undefined, value->type == JINJA_UNDEFINED)
TYPE_TEST(none, value->type == JINJA_NONE)
TYPE_TEST(boolean, value->type == JINJA_BOOL)
TYPE_TEST(true, value->type == JINJA_BOOL && value->boolean)
TYPE_TEST(false, value->type == JINJA_BOOL && !value->boolean)
TYPE_TEST(integer, value->type == JINJA_INT)
TYPE_TEST(float, value->type == JINJA_FLOAT)
TYPE_TEST(number, jinja_is_number(value))
TYPE_TEST(string, jinja_is_text(value))
TYPE_TEST(mapping, value->type == JINJA_DICT)
TYPE_TEST(iterable, jinja_can_iterate(value))
TYPE_TEST(escaped, jinja_is_text(value) && value->safe)
TYPE_TEST(sequence, jinja_is_text(value) || jinja_is_sequence(value) || value->type == JINJA_DICT ||
                        value->type == JINJA_RANGE || value->type == JINJA_UNDEFINED)
TYPE_TEST(callable, value->type == JINJA_FUNCTION || value->type == JINJA_MACRO ||
                        value->type == JINJA_LOOP || value->type == JINJA_UNDEFINED ||
                        (value->type == JINJA_CYCLER && !value->cycler->list))

#undef TYPE_TEST

/* ---- comparisons ---- */

static bool compare(struct jinja_run *run, struct jinja_invocation *in, enum jinja_cmp cmp,
                    struct jinja_value *out)
{
    bool holds;
    return jinja_compare(run, cmp, &in->self, &in->arg[0], &holds) && answer(out, holds);
}

#define COMPARISON(name, cmp)                                                                      \
    static bool test_##name(struct jinja_run *run, struct jinja_invocation *in,                    \
                            struct jinja_value *out)                                               \
    {                                                                                              \
        return compare(run, in, (cmp), out);                                                       \
    }

COMPARISON(eq, JINJA_CMP_EQ)
COMPARISON(ne, JINJA_CMP_NE)
COMPARISON(lt, JINJA_CMP_LT)
COMPARISON(le, JINJA_CMP_LE)
COMPARISON(gt, JINJA_CMP_GT)
COMPARISON(ge, JINJA_CMP_GE)
COMPARISON(in, JINJA_CMP_IN)

#undef COMPARISON

static bool test_sameas(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *a = &in->self, *b = &in->arg[0];
    bool same = a->type == b->type;
    if (same && jinja_is_sequence(a))
        same = a->list == b->list;
    else if (same && a->type == JINJA_DICT)
        same = a->dict == b->dict;
    else if (same)
        return jinja_equal(run, a, b, &same) && answer(out, same);
    return answer(out, same);
}

/* ---- numbers ---- */

static bool rest_of_division(struct jinja_run *run, const struct jinja_value *value,
                             struct jinja_value divisor, bool *zero)
{
    struct jinja_value rest;
    if (jinja_is_text(value))
        return jinja_error(run, "not all arguments converted during string formatting");
    if (!jinja_arithmetic(run, JINJA_OP_MOD, value, &divisor, &rest))
        return false;
    *zero = !jinja_truth(&rest);
    return true;
}

static bool test_even(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    bool even;
    return rest_of_division(run, &in->self, jinja_int(2), &even) && answer(out, even);
}

/* value % 2 == 1: 1.5 is neither odd nor even. */
static bool test_odd(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    bool even;
    if (!rest_of_division(run, &in->self, jinja_int(2), &even))
        return false;
    double rest = jinja_real(&in->self);
    return answer(out, !even && (jinja_is_integral(&in->self) || rest == (double)(int64_t)rest));
}

static bool test_divisibleby(struct jinja_run *run, struct jinja_invocation *in,
                             struct jinja_value *out)
{
    bool zero;
    return rest_of_division(run, &in->self, in->arg[0], &zero) && answer(out, zero);
}

/* ---- texts ---- */

/* Whether changing the case changes nothing, and there is a case at all. */
static bool has_case(struct jinja_run *run, const struct jinja_value *value,
                     enum jinja_casing casing, struct jinja_value *out)
{
    struct jinja_value text, same, other;
    if (!jinja_to_text(run, value, &text) || !jinja_change_case(run, &text, casing, &same) ||
        !jinja_change_case(run, &text, casing == JINJA_UPPER ? JINJA_LOWER : JINJA_UPPER, &other))
        return false;
    bool kept, changed;
    if (!jinja_equal(run, &text, &same, &kept) || !jinja_equal(run, &text, &other, &changed))
        return false;
    return answer(out, kept && !changed);
}

static bool test_lower(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return has_case(run, &in->self, JINJA_LOWER, out);
}

static bool test_upper(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return has_case(run, &in->self, JINJA_UPPER, out);
}

static bool test_filter(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    (void)run;
    return answer(out, jinja_is_text(&in->self) && jinja_find_filter(jinja_str(&in->self)));
}

static bool test_test(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    (void)run;
    return answer(out, jinja_is_text(&in->self) && jinja_find_test(jinja_str(&in->self)));
}

const struct jinja_builtin jinja_tests[] = {
    {"defined", test_defined, ""},
    {"undefined", test_undefined, ""},
    {"none", test_none, ""},
    {"boolean", test_boolean, ""},
    {"true", test_true, ""},
    {"false", test_false, ""},
    {"integer", test_integer, ""},
    {"float", test_float, ""},
    {"number", test_number, ""},
    {"string", test_string, ""},
    {"mapping", test_mapping, ""},
    {"iterable", test_iterable, ""},
    {"sequence", test_sequence, ""},
    {"callable", test_callable, ""},
    {"escaped", test_escaped, ""},
    {"sameas", test_sameas, "other!"},
    {"==", test_eq, "other!"},
    {"eq", test_eq, "other!"},
    {"equalto", test_eq, "other!"},
    {"!=", test_ne, "other!"},
    {"ne", test_ne, "other!"},
    {"<", test_lt, "other!"},
    {"lt", test_lt, "other!"},
    {"lessthan", test_lt, "other!"},
    {"<=", test_le, "other!"},
    {"le", test_le, "other!"},
    {">", test_gt, "other!"},
    {"gt", test_gt, "other!"},
    {"greaterthan", test_gt, "other!"},
    {">=", test_ge, "other!"},
    {"ge", test_ge, "other!"},
    {"in", test_in, "seq!"},
    {"even", test_even, ""},
    {"odd", test_odd, ""},
    {"divisibleby", test_divisibleby, "num!"},
    {"lower", test_lower, ""},
    {"upper", test_upper, ""},
    {"filter", test_filter, ""},
    {"test", test_test, ""},
    {NULL, NULL, NULL},
};
