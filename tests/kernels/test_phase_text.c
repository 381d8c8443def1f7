/* Texts of kernels as parts of a larger program: the names that change, and their replacements. */
#include "tests/support/test.h"

#include <string.h>

#include "kernels/phases.h"

struct rewrite {
    const char *name, *text, *want; /* want NULL: refused, and `bad` contains the reason */
    const char *bad;
};

/* `buf` is a buffer, `arr` an array of shared memory, `one` a single variable there, `K` a constant
 * and `rows` a parameter of the kernel. */
static const struct rewrite rewrites[] = {
    {"a function and its call", "uint f(uint i) { return i; }\nvoid body(uvec3 g) { f(1u); }\n",
     "uint P3_f(uint i) { return i; }\nvoid P3_body(uvec3 g) { P3_f(1u); }\n", NULL},
    {"locals keep their names", "void f() { uint a = 1u, b; a = b; }\n",
     "void P3_f() { uint a = 1u, b; a = b; }\n", NULL},
    {"variables, lists, arrays and constants of the file",
     "float a, b;\nuvec4 c[K];\nconst uint D = f(1u), E = 2u;\nfloat[4] h;\na b c D E h f\n",
     "float P3_a, P3_b;\nuvec4 P3_c[P3_K];\nconst uint P3_D = f(1u), P3_E = 2u;\n"
     "float[4] P3_h;\nP3_a P3_b P3_c P3_D P3_E P3_h f\n",
     NULL},
    {"a prototype", "float x(uint i);\nfloat y = x(0u);\n",
     "float P3_x(uint i);\nfloat P3_y = P3_x(0u);\n", NULL},
    {"macros, also in conditions", "#define A(x) ((x) + K)\n#if A(1) > 2 // so\nA(2)\n#endif\n",
     "#define P3_A(x) ((x) + P3_K)\n#if P3_A(1) > 2\nP3_A(2)\n#endif\n", NULL},
    {"a macro's name apart from its brackets", "#define A (1)\nA\n", "#define P3_A (1)\nP3_A\n",
     NULL},
    {"fields, and a name that is a variable too",
     "struct s { uint first, rows[K]; vec4 v; };\nuint first;\ns t;\nf(t.first + first + t.v.xy)\n",
     "struct P3_s { uint first, rows[P3_K]; vec4 v; };\nuint P3_first;\nP3_s P3_t;\n"
     "f(P3_t.first + P3_first + P3_t.v.xy)\n",
     NULL},
    {"an element of a buffer", "buf[a + 1u] = buf[b].x;\n",
     "V[at + uint(a + 1u)] = V[at + uint(b)].x;\n", NULL},
    {"an element within an element", "buf[arr[buf[i]] + c[j]]",
     "V[at + uint(S[8u + uint(V[at + uint(i)])] + c[j])]", NULL},
    {"a single shared variable", "one += 1u;\n", "S[4] += 1u;\n", NULL},
    {"a field called as a buffer", "a.buf", "a.buf", NULL},
    {"over several lines, numbers unchanged", "buf[a +\n  b] /* x\n */ c\n",
     "V[at + uint(a +\n b)] c\n", NULL},
    {"continued lines", "#define A(x) \\\n    buf[x] \\\n    + K\nA(1)\n",
     "#define P3_A(x) V[at + uint(x)] + P3_K\nP3_A(1)\n", NULL},
    {"numbers and operators stay together", "1.0e-5 + 0x1Fu << 2 >= a.x\n",
     "1.0e-5 + 0x1Fu << 2 >= a.x\n", NULL},
    {"a buffer by its name alone", "f(buf)", NULL, "buf"},
    {"the length of a buffer", "buf.length()", NULL, "buf"},
};

static void test_rewrite(void **state)
{
    const struct rewrite *row = *state;
    struct phase_names names = {.prefix = "P3_"};
    struct dgl_buf out = {0};
    struct dgl_str bad;
    phase_names_add(
        &names, (struct phase_name){.name = DGL_STR("buf"), .open = "V[at + uint(", .close = ")]"});
    phase_names_add(
        &names, (struct phase_name){.name = DGL_STR("arr"), .open = "S[8u + uint(", .close = ")]"});
    phase_names_add(&names,
                    (struct phase_name){.name = DGL_STR("one"), .open = "S[4]", .close = NULL});
    phase_names_add(&names, (struct phase_name){.name = DGL_STR("K")});
    phase_names_scan(&names, dgl_str_of(row->text));
    bool ok = phase_text_rewrite(&names, dgl_str_of(row->text), &out, &bad);
    assert_false(names.failed);
    if (row->want) {
        assert_true(ok);
        assert_string_equal(out.p, row->want);
    } else {
        assert_false(ok);
        assert_int_equal(bad.len, strlen(row->bad));
        assert_memory_equal(bad.p, row->bad, bad.len);
    }
    phase_names_finish(&names);
    dgl_buf_finish(&out);
}

/* Which variables of a file's scope can be given a value, and of which type. */
static void test_variables(void **state)
{
    (void)state;
    static const char text[] =
        "uint a, b[K + 1];\nconst uint c = 1u, k[1] = uint[1](2u);\nvec4 d;\nfloat e();\n"
        "#if K\nfloat f;\n#endif\nuvec4 g[2];\nvoid h() { uint i; }\n";
    static const char *const want[][3] = {
        {"a", "uint", ""}, {"b", "uint", "K + 1"}, {"c", "", ""},
        {"k", "", "1"},    {"d", "vec4", ""},      {"e", "", ""},
        {"f", "", ""},     {"g", "uvec4", "2"},    {"h", "", ""},
    };
    struct phase_names names = {.prefix = "P3_"};
    phase_names_scan(&names, DGL_STR(text));
    assert_int_equal(names.count, sizeof(want) / sizeof(*want));
    for (size_t i = 0; i < names.count; i++)
        if (!dgl_str_eq(names.names[i].name, want[i][0]) ||
            !dgl_str_eq(names.names[i].type, want[i][1]) ||
            !dgl_str_eq(names.names[i].count, want[i][2]))
            fail_msg("name %zu: %.*s of type %.*s, elements %.*s; wanted %s %s %s", i,
                     (int)names.names[i].name.len, names.names[i].name.p,
                     (int)names.names[i].type.len, names.names[i].type.p,
                     (int)names.names[i].count.len, names.names[i].count.p, want[i][0], want[i][1],
                     want[i][2]);
    phase_names_finish(&names);
}

/* Constants of a text, also by constants. */
static void test_constants(void **state)
{
    (void)state;
    static const char text[] = "#define N (4 / 2)\n#define SEVERAL 1\n#define SEVERAL 2\n"
                               "const int M = N * 3, L = f(N);\n"
                               "#define phase_constant0 N * M\n#define phase_constant1\n"
                               "#define phase_constant2 L\n#define phase_constant3 SEVERAL\n"
                               "#define phase_constant4 uint(M) + 1u\n#define phase_constant9 5\n"
                               "#define LATE f(N)\n#define LATE 4\n#define SEVERAL 1\n"
                               "#define phase_constant5 LATE\n#define phase_constant6 SEVERAL\n";
    static const int64_t want[] = {12, 0, 0, 0, 7, 0, 0, 0};
    int64_t values[8];
    assert_true(phase_constants(DGL_STR(text), values, 8));
    for (size_t i = 0; i < 8; i++)
        if (values[i] != want[i])
            fail_msg("constant %zu is %lld, wanted %lld", i, (long long)values[i],
                     (long long)want[i]);
}

struct unroll {
    const char *name, *text, *want; /* want NULL: the text as it is */
};

static const struct unroll unrolls[] = {
    {"a statement", "for (int i = 0; i < 2; i++) a[i] = 1u;\n",
     "{ { const int i = 0; a[i] = 1u; } { const int i = 1; a[i] = 1u; } }\n"},
    {"a block, and what follows", "x();\nfor (int i = 1; i < 2; i++) {\n    a(i);\n}\ny();\n",
     "x();\n{ { const int i = 1; {\n    a(i);\n} } }\ny();\n"},
    {"a step", "for (int i = 0; i < 5; i += 3) a(i);",
     "{ { const int i = 0; a(i); } { const int i = 3; a(i); } }"},
    {"no round", "if (b)\n    for (int i = 1; i < 1; i++) a(i);\nelse c();",
     "if (b)\n    { }\nelse c();"},
    {"branches and loops are one statement",
     "for (int i = 0; i < 1; i++)\n  if (a) b(); else while (c) { d(); }\ne();",
     "{ { const int i = 0; \n  if (a) b(); else while (c) { d(); } } }\ne();"},
    {"macros, numbers and constants",
     "#define N (4 / 2)\nconst uint M = 8u / uint(N);\nconst int L = int(M) - N - 1;\n"
     "for (int i = 0; i < L; i++) a(i);",
     "#define N (4 / 2)\nconst uint M = 8u / uint(N);\nconst int L = int(M) - N - 1;\n"
     "{ { const int i = 0; a(i); } }"},
    {"a list of constants",
     "const int N = min(8, max(1, 3 / 4)), M = N * 2, L = f(M);\nfor (int i = 1; i < M; i++) a(i);",
     "const int N = min(8, max(1, 3 / 4)), M = N * 2, L = f(M);\n{ { const int i = 1; a(i); } }"},
    {"in a macro, over several lines",
     "#define F(x) \\\n  for (int i = 0; i < 1; i++) \\\n    x[i] = 0;\nF(b)",
     "#define F(x)   { { const int i = 0; x[i] = 0; } }\nF(b)"},
    {"loops in loops", "for (int i = 0; i < 2; i++) for (int j = 0; j < 1; j++) a[i][j] = 0;",
     "{ { const int i = 0; { { const int j = 0; a[i][j] = 0; } } }"
     " { const int i = 1; { { const int j = 0; a[i][j] = 0; } } } }"},
    {"a loop of another kind around one",
     "for (uint k = 0u; k < m; k++) { for (int i = 0; i < 1; i++) a(i); if (k > n) break; }",
     "for (uint k = 0u; k < m; k++) { { { const int i = 0; a(i); } } if (k > n) break; }"},
    {"a comparison is no assignment", "for (int i = 0; i < 1; i++) a(i == b, c + i, i - 1);",
     "{ { const int i = 0; a(i == b, c + i, i - 1); } }"},
    {"a counter of type uint", "for (uint i = 1u; i < 3u; i++) a(i);",
     "{ { const uint i = 1u; a(i); } { const uint i = 2u; a(i); } }"},
    {"doubled, up to and with", "for (uint i = 1u; i <= 4u; i *= 2u) a(i);",
     "{ { const uint i = 1u; a(i); } { const uint i = 2u; a(i); } { const uint i = 4u; a(i); } }"},
    {"halved", "for (uint i = uint(4 / 2); i > 0u; i /= 2u) a(i);",
     "{ { const uint i = 2u; a(i); } { const uint i = 1u; a(i); } }"},
    {"halved, down to and with", "for (int i = 4; i >= 2; i /= 2) a(i);",
     "{ { const int i = 4; a(i); } { const int i = 2; a(i); } }"},
    {"halved without end", "for (uint i = 4u; i >= 0u; i /= 2u) a(i);", NULL},
    {"more rounds than a uint gets", "for (uint i = 0u; i < 17u; i++) a(i);", NULL},
    {"below zero", "for (uint i = 0u - 1u; i < 2u; i++) a(i);", NULL},
    {"a bound that is no constant", "int n = 3;\nfor (int i = 0; i < n; i++) a(i);", NULL},
    {"a macro with two values",
     "#if A\n#define N 2\n#else\n#define N 3\n#endif\nfor (int i = 0; i < N; i++) a(i);", NULL},
    {"a macro with arguments", "#define N(x) 2\nfor (int i = 0; i < N(1); i++) a(i);", NULL},
    {"a constant of a function", "void f() { const int N = 2; for (int i = 0; i < N; i++) a(i); }",
     NULL},
    {"another step", "for (int i = 3; i > 0; i--) a(i);", NULL},
    {"another comparison", "for (int i = 0; i != 3; i++) a(i);", NULL},
    {"two conditions", "for (int i = 0; i < 3 && b; i++) a(i);", NULL},
    {"a body that breaks", "for (int i = 0; i < 3; i++) { if (b) break; a(i); }", NULL},
    {"a body that continues", "for (int i = 0; i < 3; i++) { if (b) continue; a(i); }", NULL},
    {"a body that counts", "for (int i = 0; i < 3; i++) { i += 1; a(i); }", NULL},
    {"a body that counts by one", "for (int i = 0; i < 3; i++) { a(++i); }", NULL},
    {"a body that sets the counter", "for (int i = 0; i < 3; i++) { i = 2; }", NULL},
    {"too many rounds", "for (int i = 0; i < 65; i++) a(i);", NULL},
    {"a step of nothing", "for (int i = 0; i < 3; i += 0) a(i);", NULL},
    {"an open bracket", "for (int i = 0; i < 2; i++", NULL},
    {"no body", "for (int i = 0; i < 1; i++)", NULL},
    {"nothing", "", NULL},
};

static void test_unroll(void **state)
{
    const struct unroll *row = *state;
    struct dgl_buf out = {0};
    assert_true(phase_unroll(dgl_str_of(row->text), &out));
    assert_string_equal(out.p ? out.p : "", row->want ? row->want : row->text);
    dgl_buf_finish(&out);
}

/* Loops in loops of a user's kernel do not fill the memory. */
static void test_unroll_is_bounded(void **state)
{
    (void)state;
    struct dgl_buf text = {0}, out = {0};
    for (int i = 0; i < 40; i++)
        dgl_buf_puts(&text, "for (int i = 0; i < 64; i++) {\n");
    dgl_buf_puts(&text, "a(i);\n");
    for (int i = 0; i < 40; i++)
        dgl_buf_puts(&text, "}\n");
    assert_true(phase_unroll((struct dgl_str){text.p, text.len}, &out));
    if (out.len > 32u << 20)
        fail_msg("%zu bytes became %zu", text.len, out.len);
    dgl_buf_finish(&text);
    dgl_buf_finish(&out);
}

struct bare {
    const char *name, *text;
    bool want;
};

static const struct bare bares[] = {
    {"elements only", "arr[1] = arr[arr[2]];", false},
    {"an argument", "SUM(arr, 4)", true},
    {"another's field", "a.arr + arr[1]", false},
    {"a longer name", "arrays + my_arr", false},
    {"a variable of a function", "float arr = 1.0;", true},
    {"nothing", "", false},
};

static void test_bare(void **state)
{
    const struct bare *row = *state;
    assert_int_equal(phase_text_has_bare(dgl_str_of(row->text), "arr"), row->want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variables),
                                       cmocka_unit_test(test_constants),
                                       cmocka_unit_test(test_unroll_is_bounded)};
    int failed = test_run_table("rewrites", test_rewrite, rewrites);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    failed += test_run_table("unrolled loops", test_unroll, unrolls);
    return failed + test_run_table("bare names", test_bare, bares);
}
