/* Texts of kernels as parts of a larger program: which names change, and into what. */
#include "tests/support/test.h"

#include <string.h>

#include "kernels/phases.h"

struct rewrite {
    const char *name, *text, *want; /* want NULL: refused, and `bad` says because of what */
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
    static const char text[] = "uint a, b[K + 1];\nconst uint c = 1u;\nvec4 d;\nfloat e();\n"
                               "#if K\nfloat f;\n#endif\nuvec4 g[2];\nvoid h() { uint i; }\n";
    static const char *const want[][3] = {
        {"a", "uint", ""}, {"b", "uint", "K + 1"}, {"c", "", ""},       {"d", "vec4", ""},
        {"e", "", ""},     {"f", "", ""},          {"g", "uvec4", "2"}, {"h", "", ""},
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variables)};
    int failed = test_run_table("rewrites", test_rewrite, rewrites);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    return failed + test_run_table("bare names", test_bare, bares);
}
