/* Integer expressions of kernel directives: values, precedence, faults. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "kernels/format/kernel_format.h"

static const struct kernel_var vars[] = {
    {"K", 2048},        {"N", 1000},          {"ROWS", 4},     {"ZERO", 0}, {"NEG", -7},
    {"BIG", INT64_MAX}, {"SMALL", INT64_MIN}, {"SOFTWARE", 1}, {"T", 33},   {"HAS_GL_KHR_x", 1}};
#define NUM_VARS (sizeof(vars) / sizeof(*vars))

struct expr_case {
    const char *text;
    int64_t value;
    const char *error; /* parse error or evaluation error; NULL = the expression has the value */
    const char *rest;  /* text after the expression; NULL = the parser reads everything */
};

static const struct expr_case cases[] = {
    {"0", 0, NULL, NULL},
    {"42", 42, NULL, NULL},
    {" 42 ", 42, NULL, NULL},
    {"9223372036854775807", INT64_MAX, NULL, NULL},
    {"K", 2048, NULL, NULL},
    {"K+N", 3048, NULL, NULL},
    {"1 + 2 * 3", 7, NULL, NULL},
    {"(1 + 2) * 3", 9, NULL, NULL},
    {"10 - 3 - 2", 5, NULL, NULL},
    {"100 / 5 / 2", 10, NULL, NULL},
    {"7 % 4 * 2", 6, NULL, NULL},
    {"-7 / 2", -3, NULL, NULL},
    {"-7 % 2", -1, NULL, NULL},
    {"NEG / 2", -3, NULL, NULL},
    {"- -3", 3, NULL, NULL},
    {"--3", 3, NULL, NULL},
    {"-K + 1", -2047, NULL, NULL},
    {"2 * -3", -6, NULL, NULL},
    {"!0", 1, NULL, NULL},
    {"!5", 0, NULL, NULL},
    {"!!5", 1, NULL, NULL},
    {"!ZERO && 1", 1, NULL, NULL},
    {"1 < 2", 1, NULL, NULL},
    {"2 < 2", 0, NULL, NULL},
    {"2 <= 2", 1, NULL, NULL},
    {"3 > 2", 1, NULL, NULL},
    {"2 >= 3", 0, NULL, NULL},
    {"2 == 2", 1, NULL, NULL},
    {"2 != 2", 0, NULL, NULL},
    {"2 != 3", 1, NULL, NULL},
    {"1 + 1 == 2", 1, NULL, NULL},
    {"1 < 2 == 1", 1, NULL, NULL},
    {"3 && 4", 1, NULL, NULL},
    {"3 && 0", 0, NULL, NULL},
    {"0 || 4", 1, NULL, NULL},
    {"0 || 0", 0, NULL, NULL},
    {"1 || 0 && 0", 1, NULL, NULL},
    {"(1 || 0) && 0", 0, NULL, NULL},
    {"1 ? 2 : 3", 2, NULL, NULL},
    {"0 ? 2 : 3", 3, NULL, NULL},
    {"0 ? 1 : 0 ? 2 : 3", 3, NULL, NULL},
    {"1 ? 0 ? 4 : 5 : 6", 5, NULL, NULL},
    {"SOFTWARE ? 1 : ROWS", 1, NULL, NULL},
    {"1 + 1 ? 2 : 3", 2, NULL, NULL},
    {"min(3, 5)", 3, NULL, NULL},
    {"min(5, 3)", 3, NULL, NULL},
    {"max(3, 5)", 5, NULL, NULL},
    {"max(NEG, min(K, N))", 1000, NULL, NULL},
    {"ceildiv(N, ROWS)", 250, NULL, NULL},
    {"ceildiv(T, ROWS)", 9, NULL, NULL},
    {"ceildiv(32, 8)", 4, NULL, NULL},
    {"ceildiv(0, 8)", 0, NULL, NULL},
    {"ceildiv(NEG, 2)", -3, NULL, NULL},
    {"ceildiv(7, -2)", -3, NULL, NULL},
    {"ceildiv(NEG, -2)", 4, NULL, NULL},
    {"HAS_GL_KHR_x", 1, NULL, NULL},
    {"HAS_GL_absent", 0, NULL, NULL},
    {"HAS_GL_absent ? 5 : 6", 6, NULL, NULL},
    /* evaluation must skip operands that do not matter */
    {"ZERO && K / ZERO", 0, NULL, NULL},
    {"1 || K / ZERO", 1, NULL, NULL},
    {"ZERO ? K / ZERO : 8", 8, NULL, NULL},
    {"1 ? 8 : NOWHERE", 8, NULL, NULL},
    /* several expressions side by side */
    {"64 1", 64, NULL, "1"},
    {"N (T)", 1000, NULL, "(T)"},
    {"ceildiv(N, 4) T", 250, NULL, "T"},
    {"8 in 1 2", 8, NULL, "in 1 2"},
    {"K - 1 2", 2047, NULL, "2"},
    /* faults of evaluation */
    {"K / ZERO", 0, "division by zero", NULL},
    {"K % ZERO", 0, "division by zero", NULL},
    {"ceildiv(K, ZERO)", 0, "division by zero", NULL},
    {"BIG + 1", 0, "overflow", NULL},
    {"SMALL - 1", 0, "overflow", NULL},
    {"BIG * 2", 0, "overflow", NULL},
    {"-SMALL", 0, "overflow", NULL},
    {"SMALL / -1", 0, "overflow", NULL},
    {"SMALL % -1", 0, "overflow", NULL},
    {"NOWHERE + 1", 0, "NOWHERE", NULL},
    {"1 && NOWHERE", 0, "NOWHERE", NULL},
    {"BIG + 1 < 0", 0, "overflow", NULL},
    /* faults of the text */
    {"", 0, "expected a number", NULL},
    {"+ 1", 0, "expected a number", NULL},
    {"1 +", 0, "expected a number", NULL},
    {"(1", 0, "expected ')'", NULL},
    {"()", 0, "expected a number", NULL},
    {"1 ? 2", 0, "expected ':'", NULL},
    {"1 ? : 3", 0, "expected a number", NULL},
    {"min", 0, "expected '('", NULL},
    {"min(1)", 0, "expected ','", NULL},
    {"min(1, 2", 0, "expected ')'", NULL},
    {"min(1, 2, 3)", 0, "expected ')'", NULL},
    {"9223372036854775808", 0, "does not fit 64 bits", NULL},
    {"12u", 0, "without a suffix", NULL},
    {"0x10", 0, "without a suffix", NULL},
    {"= 3", 0, "expected a number", NULL},
    {"3 < ", 0, "expected a number", NULL},
    {"&& 1", 0, "expected a number", NULL},
};

static void expr_has_value(void **state)
{
    const struct expr_case *c = *state;
    struct dgl_arena arena = {0};
    struct dgl_str rest = dgl_str_of(c->text);
    const struct kernel_expr *expr = NULL;
    const char *error = NULL;
    int64_t value = 0;
    bool ok = kernel_expr_parse(&arena, &rest, &expr, &error) &&
              kernel_expr_eval(expr, vars, NUM_VARS, &value, &error);
    if (c->error) {
        assert_false(ok);
        assert_contains(error, c->error);
    } else {
        if (!ok)
            fail_msg("'%s' fails: %s", c->text, error);
        if (value != c->value)
            fail_msg("'%s' is %lld, not %lld", c->text, (long long)value, (long long)c->value);
        assert_string_equal(rest.p, c->rest ? c->rest : "");
    }
    dgl_arena_finish(&arena);
}

/* Returns `count` times `part`, then `end`. */
static char *repeated(const char *part, int count, const char *end)
{
    struct dgl_buf buf = {0};
    for (int i = 0; i < count; i++)
        dgl_buf_puts(&buf, part);
    dgl_buf_puts(&buf, end);
    return dgl_buf_take(&buf);
}

static void assert_parse_error(char *text, const char *wanted)
{
    struct dgl_arena arena = {0};
    struct dgl_str rest = dgl_str_of(text);
    const struct kernel_expr *expr = NULL;
    const char *error = NULL;
    assert_false(kernel_expr_parse(&arena, &rest, &expr, &error));
    assert_contains(error, wanted);
    dgl_arena_finish(&arena);
    free(text);
}

static void nesting_is_limited(void **state)
{
    (void)state;
    assert_parse_error(repeated("(", 100000, "1"), "nested too deeply");
    assert_parse_error(repeated("!", 100000, "1"), "nested too deeply");
    assert_parse_error(repeated("1?", 100000, "1"), "nested too deeply");
}

static void length_is_limited(void **state)
{
    (void)state;
    assert_parse_error(repeated("1+", 100000, "1"), "too long");
}

static void depth_is_given_back(void **state)
{
    (void)state;
    struct dgl_arena arena = {0};
    char *text = repeated("(1) + ", 60, "1");
    struct dgl_str rest = dgl_str_of(text);
    const struct kernel_expr *expr = NULL;
    const char *error = NULL;
    int64_t value = 0;
    assert_true(kernel_expr_parse(&arena, &rest, &expr, &error));
    assert_true(kernel_expr_eval(expr, NULL, 0, &value, &error));
    assert_int_equal(value, 61);
    dgl_arena_finish(&arena);
    free(text);
}

int main(void)
{
    static const struct CMUnitTest limits[] = {
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(length_is_limited),
        cmocka_unit_test(depth_is_given_back),
    };
    int failed = test_run_table("kernel_expr", expr_has_value, cases);
    return failed + cmocka_run_group_tests_name("kernel_expr_limits", limits, NULL, NULL);
}
