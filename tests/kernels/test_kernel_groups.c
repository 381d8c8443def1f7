/* Group counts: GROUPS with tokens and bands, and the fold of large counts over the third
 * dimension. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "tests/support/kernel_sets.h"

#define KERNEL(lines)                                                                              \
    "// Summary\n//! NAME g\n//! OP read\n//! VARIANT v\n//! LOCAL 1\n//! CONST N\n" lines         \
    "void body(uvec3 group)\n{\n}\n"

struct groups_case {
    const char *name;
    const char *lines;
    int64_t tokens, rows; /* rows -1: all in one band, N is 1000 */
    uint32_t max_x;
    uint32_t groups[3]; /* all 0: refused */
    const char *why;    /* NULL: not looked at */
};

static const struct groups_case groups[] = {
    {"constant", "//! GROUPS 7\n", 1, -1, 65535, {7, 1, 1}, NULL},
    {"tokens", "//! GROUPS T\n", 33, -1, 65535, {33, 1, 1}, NULL},
    {"two dimensions", "//! GROUPS N T\n", 3, -1, 65535, {1000, 3, 1}, NULL},
    {"band", "//! GROUPS ceildiv(BAND, 4)\n", 1, 101, 65535, {26, 1, 1}, NULL},
    {"band is N without bands", "//! GROUPS BAND\n", 1, -1, 65535, {1000, 1, 1}, NULL},
    {"all that x holds", "//! GROUPS T\n", 65535, -1, 65535, {65535, 1, 1}, NULL},
    {"one more than x holds", "//! GROUPS T\n", 65536, -1, 65535, {32768, 1, 2}, NULL},
    {"odd fold", "//! GROUPS T\n", 131071, -1, 65535, {43691, 1, 3}, NULL},
    {"fold beside y", "//! GROUPS T 5\n", 70000, -1, 65535, {35000, 5, 2}, NULL},
    {"larger x", "//! GROUPS T\n", 70000, -1, 2147483647, {70000, 1, 1}, NULL},
    {"small x", "//! GROUPS T\n", 10, -1, 3, {3, 1, 4}, NULL},
    {"most that folds", "//! GROUPS T\n", 65535LL * 65535, -1, 65535, {65535, 1, 65535}, NULL},
    {"more than folds",
     "//! GROUPS T\n",
     65535LL * 65535 + 1,
     -1,
     65535,
     {0, 0, 0},
     "GROUPS x comes to 4294836226 with T=4294836226: wanted 1 to 4294836225"},
    {"y too large",
     "//! GROUPS 1 T\n",
     65536,
     -1,
     65535,
     {0, 0, 0},
     "GROUPS y comes to 65536 with T=65536: wanted 1 to 65535"},
    {"no tokens",
     "//! GROUPS T\n",
     0,
     -1,
     65535,
     {0, 0, 0},
     "GROUPS x comes to 0 with T=0: wanted 1 to 4294836225"},
    {"negative",
     "//! GROUPS T - 5\n",
     1,
     -1,
     65535,
     {0, 0, 0},
     "GROUPS x comes to -4 with T=1: wanted 1 to"},
    {"division by zero",
     "//! GROUPS 4 / (T - 1)\n",
     1,
     -1,
     65535,
     {0, 0, 0},
     "GROUPS x cannot be evaluated: division by zero with T=1"},
    {"overflow",
     "//! GROUPS T * T\n",
     INT64_MAX,
     -1,
     65535,
     {0, 0, 0},
     "GROUPS x cannot be evaluated: overflow with T=9223372036854775807"},
    {"both at fault",
     "//! GROUPS N - 1000 N / (T - 1)\n",
     1,
     -1,
     65535,
     {0, 0, 0},
     "GROUPS x comes to 0 with N=1000: wanted 1 to 4294836225"},
    {"device without x",
     "//! GROUPS 1\n",
     1,
     -1,
     0,
     {0, 0, 0},
     "GROUPS x comes to 1: wanted 1 to 0"},
};

static void groups_are_counted_and_folded(void **state)
{
    const struct groups_case *c = *state;
    const struct kernel_request request = {.op = "read", .consts = {{"N", 1000}}, .num_consts = 1};
    char *dir = test_tmpdir(), text[1024];
    uint32_t got[3] = {0, 0, 0};
    snprintf(text, sizeof(text), KERNEL("%s"), c->lines);
    test_write_file(dir, "g.comp", text, strlen(text));
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1));
    struct kernel_choice choice;
    assert_int_equal(kernel_choose(NULL, set, &request, NULL, 0, &choice), DGL_OK);
    const int64_t rows = c->rows < 0 ? 1000 : c->rows;
    bool ok = kernel_groups_band(&choice, c->tokens, rows, c->max_x, got);
    assert_int_equal(ok, c->groups[0] != 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(got[i], c->groups[i]);
    if (c->why) {
        char why[192];
        kernel_groups_refusal(&choice, c->tokens, rows, c->max_x, why);
        assert_contains(why, c->why);
    }
    kernel_set_destroy(&set);
    test_tmpdir_remove(dir);
}

struct active_case {
    const char *name;
    const char *lines; /* LOCAL is 8 */
    int64_t tokens, rows;
    uint32_t max_x;
    uint64_t launched, active; /* both 0: refused */
};

static const struct active_case actives[] = {
    {"all of GROUPS without a line", "//! GROUPS T\n", 3, 0, 65535, 24, 24},
    {"not what folding adds", "//! GROUPS T\n", 7, 0, 3, 72, 56},
    {"as the line says", "//! GROUPS ceildiv(BAND, 8)\n//! ACTIVE BAND\n", 1, 9, 65535, 16, 9},
    {"two dimensions", "//! GROUPS 2 T\n//! ACTIVE 2 * T * 5\n", 3, 0, 65535, 48, 30},
    {"never more than all", "//! GROUPS T\n//! ACTIVE 100\n", 1, 0, 65535, 8, 8},
    {"none", "//! GROUPS T\n//! ACTIVE 0\n", 1, 0, 65535, 8, 0},
    {"negative", "//! GROUPS T\n//! ACTIVE T - 5\n", 1, 0, 65535, 0, 0},
    {"division by zero", "//! GROUPS T\n//! ACTIVE 1 / (T - 1)\n", 1, 0, 65535, 0, 0},
    {"no groups", "//! GROUPS T - 1\n//! ACTIVE 1\n", 1, 0, 65535, 0, 0},
};

static void invocations_with_work_are_counted(void **state)
{
    const struct active_case *c = *state;
    const struct kernel_request request = {.op = "read", .consts = {{"N", 1000}}, .num_consts = 1};
    char *dir = test_tmpdir(), text[1024];
    uint64_t launched = 0, active = 0;
    snprintf(text, sizeof(text),
             "// Summary\n//! NAME g\n//! OP read\n//! VARIANT v\n//! LOCAL 8\n%s"
             "void body(uvec3 group)\n{\n}\n",
             c->lines);
    test_write_file(dir, "g.comp", text, strlen(text));
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1));
    struct kernel_choice choice;
    assert_int_equal(kernel_choose(NULL, set, &request, NULL, 0, &choice), DGL_OK);
    bool ok = kernel_invocations(&choice, c->tokens, c->rows, c->max_x, &launched, &active);
    if (ok != (c->launched != 0) || (ok && (launched != c->launched || active != c->active)))
        fail_msg("%s: %d, %llu launched and %llu active; wanted %llu and %llu", c->name, ok,
                 (unsigned long long)launched, (unsigned long long)active,
                 (unsigned long long)c->launched, (unsigned long long)c->active);
    kernel_set_destroy(&set);
    test_tmpdir_remove(dir);
}

int main(void)
{
    int failures = test_run_table("kernel_groups", groups_are_counted_and_folded, groups);
    return failures + test_run_table("active", invocations_with_work_are_counted, actives);
}
