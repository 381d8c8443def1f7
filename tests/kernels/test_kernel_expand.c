/* Macros that expand to more text than a driver survives are refused before the driver sees them.
 * Macros of realistic size are accepted. */
#include "tests/support/test.h"

#include "kernels/format/kernel_format.h"

#define DOUBLES                                                                                    \
    "#define A0 x+x\n#define A1 A0+A0\n#define A2 A1+A1\n#define A3 A2+A2\n#define A4 A3+A3\n"     \
    "#define A5 A4+A4\n#define A6 A5+A5\n#define A7 A6+A6\n#define A8 A7+A7\n#define A9 A8+A8\n"
#define MORE                                                                                       \
    "#define B0 A9;A9;\n#define B1 B0 B0\n#define B2 B1 B1\n#define B3 B2 B2\n#define B4 B3 B3\n"  \
    "#define B5 B4 B4\n#define B6 B5 B5\n#define B7 B6 B6\n#define B8 B7 B7\n#define B9 B8 B8\n"

#define BOMB "int y = A9+A9+A9+A9+A9;\n"

static const struct row {
    const char *name;
    const char *before, *part, *after;
    int times;          /* of `part`; each bracket that it opens is closed at the end */
    const char *wanted; /* part of the error; NULL: the text is accepted */
} rows[] = {
    {"nothing", "", "", "", 0, NULL},
    {"a thousand doublings deep in one statement", DOUBLES "int y = A9;\n", "", "", 0, NULL},
    {"sixteen thousand", DOUBLES "int y = A9+A9+A9+A9;\n", "", "", 0, NULL},
    {"a large statement", DOUBLES "int y = A9+A9+A9+A9+A9;\n", "", "", 0,
     "k.comp:11: a statement has more than 10000 words"},
    {"many statements", DOUBLES MORE "B7\n", "", "", 0, NULL},
    {"a large text", DOUBLES MORE "B9\n", "", "", 0,
     "k.comp:21: the text has more than 1000000 words"},
    {"the line of the file", DOUBLES "#line 300\nint a;\nint y = A9+A9+A9+A9+A9;\n", "", "", 0,
     "k.comp:301: a statement"},
    {"a bomb in a condition", DOUBLES "#if A9+A9+A9+A9+A9\n#endif\n", "", "", 0,
     "the condition of an #if has more than 10000 words"},
    {"a bomb behind a condition", "#if 0\n#define A0 1\n#else\n" DOUBLES "#endif\nA9+A9+A9+A9+A9",
     "", "", 0, "a statement has"},
    {"a bomb that is defined again", DOUBLES "#if 0\n#define A9 1\n#endif\nint y = A9+A9+A9+A9+A9;",
     "", "", 0, "a statement has"},
    {"a bomb of arguments", "#define F(x) x+x\nint y = F(F(F(F(F(F(F(F(F(F(F(F(F(F(1", "",
     "))))))))))))));\n", 0, "a statement has"},
    {"a bomb of names",
     "#define F(g, x) g(g, x) g(g, x)\n#define G(g, x) x+x+x+x+x+x+x+x\n"
     "#define H(x) G(G, G(G, G(G, G(G, G(G, x)))))\nint y = H(1);\n",
     "", "", 0, "a statement has"},
    {"a macro that names itself", "#define A A+A\n#define F(x) F(x)+F(x)\nint y = A+F(A);\n", "",
     "", 0, NULL},
    {"two macros that name each other",
     "#define A B+B\n#define B A+A\n#define F(x) G(x)+G(x)\n#define G(x) F(x)+F(x)\nint y = "
     "A+F(B);\n",
     "", "", 0, NULL},
    {"a call over lines", "#define F(x) x+x\nint y = F\n(\n1\n)\n;\n", "", "", 0, NULL},
    {"a call without end", "#define F(x) x+x\nint y = F(1\n", "", "", 0, NULL},
    {"a name of a macro without a call", "#define F(x) x+x\nint F;\n", "", "", 0, NULL},
    {"too few arguments, and too many", "#define F(x, y) x+y\nint y = F(1) F(1, 2, 3) F();\n", "",
     "", 0, NULL},
    {"a call of many arguments", "#define F(x) x\nint y = F(1", ", 1", ");\n", 4000, NULL},
    {"nested calls", "#define F(x) (x)\nint y = ", "F(", "1", 99, NULL},
    {"calls that are nested too deep", "#define F(x) (x)\nint y = ", "F(", "1", 5000,
     "nested more than 100 deep"},
    {"a condition in twenty thousand parentheses", "#if ", "(", "1\n#endif\n", 20000,
     "k.comp:1: the condition of an #if has more than 10000 words"},
    {"a sum of a hundred thousand", "int y = 1", "+1", ";\n", 100000, "a statement has"},
    {"a hundred thousand statements", "void f() { ", "y+=1;", "}\n", 100000, NULL},
    {"a bomb in any branch of a condition",
     "#define N 2\n" DOUBLES "#if N == 2\nint a;\n#else\n" BOMB "#endif\n", "", "", 0,
     "a statement has"},
    {"the largest of several definitions", "#if 0\n" DOUBLES "#else\n#define A9 1\n#endif\n" BOMB,
     "", "", 0, "a statement has"},
    {"definitions that are not added up", "", "#define A 1+1\n", "int y = A;\n", 8000, NULL},
    {"statements that only some definitions end",
     "#if 0\n#define END ;\n#else\n#define END\n#endif\nint y = 1", "+1 END", ";\n", 6000,
     "a statement has"},
    {"a bomb behind a name for its macro",
     "#define F(x) x+x\n#define G F\nint y = G(G(G(G(G(G(G(G(G(G(G(G(G(G(1", "",
     "))))))))))))));\n", 0, "a statement has"},
    {"a call that ends outside of its macro", "#define F(x) x+x\n#define G F(1\nint y = G);\n", "",
     "", 0, "the call of F in a macro has no end there"},
    {"uses of a name with many definitions", "", "#define A\nA\n", "", 20000,
     "more than 100000000 steps"},
    {"a macro with many definitions", "", "#define A A\n", "int A;", 80000, NULL},
};

static void is_counted(void **state)
{
    const struct row *row = *state;
    struct dgl_buf text = {0};
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    dgl_buf_puts(&text, row->before);
    for (int i = 0; i < row->times; i++)
        dgl_buf_puts(&text, row->part);
    dgl_buf_puts(&text, row->after);
    for (int i = 0; strchr(row->part, '(') && i < row->times; i++)
        dgl_buf_puts(&text, ")");
    clock_t start = clock();
    enum dgl_status status =
        kernel_expand_check(&t.log, "k.comp", (struct dgl_str){text.p, text.len});
    assert_at_most((double)(clock() - start) / CLOCKS_PER_SEC, 10);
    const char *const parts[] = {row->wanted};
    if (row->wanted)
        assert_refusal(&t, status, DGL_ERR_KERNEL, parts);
    else if (status != DGL_OK)
        fail_msg("%s", t.text);
    dgl_buf_finish(&text);
}

int main(void)
{
    return test_run_table("macros", is_counted, rows);
}
