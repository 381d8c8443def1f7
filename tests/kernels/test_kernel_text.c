/* Kernel files: the syntax that the parser accepts, and the message of every fault. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/hash.h"
#include "kernels/format/kernel_format.h"

#define NEEDED                                                                                     \
    "//! NAME k\n//! OP matmul\n//! VARIANT baseline\n//! LOCAL 64\n//! GROUPS ceildiv(N, 64)\n"   \
    "//! CONST N\n"
#define BODY "void body(uvec3 group)\n{\n}\n"
/* A good file with more directives, and one with another body. */
#define WITH(lines)     "// Sums\n" NEEDED lines "\n" BODY
#define WITH_BODY(body) "// Sums\n" NEEDED body

static const char good[] =
    "// Sums rows.\n"
    "// More words,\n"
    "\n"
    "//! NAME sum_rows\n"
    "//! OP matmul\n"
    "//! VARIANT baseline streaming tiled_small\n"
    "//! WHEN weight q4_k q8_0\n"
    "//! WHEN phase decode\n"
    "//! BIND read uvec4 W // weights\n"
    "//! BIND write float Y\n"
    "// words between directives\n"
    "//! BIND readwrite uint STEP\n"
    "//! BIND coherent vec4 P\n"
    "//! PARAM uint row0\n"
    "//! PARAM int shift\n"
    "//! PARAM float eps\n"
    "//! CONST K N\n"
    "//! CONST SPLITS = 3\n"
    "//! CONST BIAS = -2\n"
    "//! TUNE ROWS = SOFTWARE ? 1 : 4 in 1 2 4\n"
    "//! TUNE LANES = 16 * ROWS in 16 32 64\n"
    "//! LOCAL LANES 2\n"
    "//! GROUPS ceildiv(BAND, ROWS) T\n"
    "//! LET HALF = LANES / 2\n"
    "//! LET BINS = HALF * LOCAL_Y\n"
    "//! SHARED vec4 part[BINS] // sums\n"
    "//! SHARED uint found\n"
    "//! REQUIRE K % 4 == 0\n"
    "//! REQUIRE SUBGROUP_SIZE >= 8 || SOFTWARE // or none\n"
    "//! EXTENSION GL_KHR_shader_subgroup_basic\n"
    "//! PREFER WEIGHT_q4_k ? 20 : 10\n"
    "//! PRECISION f16\n"
    "//! LAYOUT split\n"
    "//! TOLERANCE 2.5e-7\n"
    "//! LIB weight_{weight}\n"
    "//! LIB reduce\n"
    "//! STEP write\n"
    "\n"
    "#if WEIGHT_q4_k && PHASE_decode && SPLITS > 2 && HALF > 8 && !defined(OWN)\n"
    "#define OWN 1\n"
    "#endif\n"
    "void body(uvec3 group)\n"
    "{\n"
    "}\n";

struct parsed {
    struct dgl_arena arena;
    struct test_log log;
    struct kernel *kernel;
    enum dgl_status status;
};

static struct parsed *parse(const char *text, size_t len)
{
    struct parsed *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    test_log_init(&p->log, DGL_LOG_ERROR);
    p->status = kernel_parse(&p->log.log, &p->arena, "k.comp", text, len, &p->kernel);
    return p;
}

static void finish(struct parsed *p)
{
    dgl_arena_finish(&p->arena);
    free(p);
}

static struct parsed *parse_good(void)
{
    struct parsed *p = parse(good, strlen(good));
    if (p->status != DGL_OK)
        fail_msg("%s", p->log.text);
    return p;
}

static void good_file_has_names(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    assert_string_equal(p->kernel->name, "sum_rows");
    assert_string_equal(p->kernel->op, "matmul");
    assert_string_equal(p->kernel->variant, "baseline");
    assert_string_equal(p->kernel->aliases, "streaming tiled_small");
    assert_string_equal(p->kernel->summary, "Sums rows.");
    assert_string_equal(p->kernel->layout, "split");
    assert_true(p->kernel->f16);
    assert_true(p->kernel->writes_step);
    assert_false(p->kernel->uses_step);
    assert_true(p->kernel->tolerance == 2.5e-7);
    finish(p);
}

static void good_file_has_binds_and_params(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    const struct kernel *k = p->kernel;
    assert_int_equal(k->num_binds, 4);
    assert_string_equal(k->binds[0].name, "W");
    assert_string_equal(k->binds[0].type, "uvec4");
    assert_int_equal(k->binds[0].access, KERNEL_READ);
    assert_int_equal(k->binds[1].access, KERNEL_WRITE);
    assert_int_equal(k->binds[2].access, KERNEL_READ_WRITE);
    assert_false(k->binds[2].coherent);
    assert_int_equal(k->binds[3].access, KERNEL_READ_WRITE);
    assert_true(k->binds[3].coherent);
    assert_int_equal(k->num_params, 3);
    assert_int_equal(k->params[0].type, KERNEL_UINT);
    assert_int_equal(k->params[1].type, KERNEL_INT);
    assert_int_equal(k->params[2].type, KERNEL_FLOAT);
    assert_string_equal(k->params[2].name, "eps");
    finish(p);
}

static void good_file_has_constants_and_tunables(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    const struct kernel *k = p->kernel;
    assert_int_equal(k->num_consts, 4);
    assert_false(k->consts[0].has_preset);
    assert_true(k->consts[2].has_preset);
    assert_int_equal(k->consts[2].preset, 3);
    assert_int_equal(k->consts[3].preset, -2);
    assert_int_equal(k->num_tunes, 2);
    assert_string_equal(k->tunes[1].name, "LANES");
    assert_int_equal(k->tunes[1].num_choices, 3);
    assert_int_equal(k->tunes[1].choices[2], 64);
    finish(p);
}

static void good_file_has_attributes(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    const struct kernel *k = p->kernel;
    assert_int_equal(k->num_when, 2);
    assert_string_equal(k->when[0].key, "weight");
    assert_string_equal(k->when[0].words, "q4_k q8_0");
    assert_int_equal(k->num_flags, 3);
    assert_string_equal(k->flags[1].name, "WEIGHT_q8_0");
    assert_string_equal(k->flags[1].word, "q8_0");
    assert_string_equal(k->flags[2].name, "PHASE_decode");
    assert_int_equal(k->flags[2].when, 1);
    finish(p);
}

static void good_file_has_rules(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    const struct kernel *k = p->kernel;
    assert_int_equal(k->num_require, 2);
    assert_string_equal(k->require_text[0], "K % 4 == 0");
    assert_string_equal(k->require_text[1], "SUBGROUP_SIZE >= 8 || SOFTWARE");
    assert_int_equal(k->num_extensions, 1);
    assert_string_equal(k->extensions[0], "GL_KHR_shader_subgroup_basic");
    assert_int_equal(k->num_libs, 2);
    assert_string_equal(k->libs[0].name, "weight_{weight}");
    assert_non_null(k->local[1]);
    assert_null(k->local[2]);
    assert_non_null(k->groups[1]);
    assert_non_null(k->prefer);
    finish(p);
}

static void good_file_has_derived_constants_and_shared_memory(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    const struct kernel_decls *d = &p->kernel->decls;
    assert_int_equal(d->num_lets, 2);
    assert_string_equal(d->lets[0].name, "HALF");
    assert_string_equal(d->lets[1].name, "BINS");
    assert_int_equal(d->lets[1].line, 25);
    assert_int_equal(p->kernel->num_lets_local, 0);
    assert_int_equal(d->num_shared, 2);
    assert_string_equal(d->shared[0].type, "vec4");
    assert_string_equal(d->shared[0].name, "part");
    assert_non_null(d->shared[0].count);
    assert_string_equal(d->shared[1].type, "uint");
    assert_string_equal(d->shared[1].name, "found");
    assert_null(d->shared[1].count);
    finish(p);
}

static void good_file_has_a_body(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    assert_int_equal(p->kernel->body_line, 39);
    assert_int_equal(strncmp(p->kernel->body, "#if WEIGHT_q4_k", 15), 0);
    finish(p);
}

static void good_file_has_the_hash_of_its_bytes(void **state)
{
    (void)state;
    struct parsed *p = parse_good();
    char wanted[65];
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, good, strlen(good), wanted));
    assert_string_equal(p->kernel->sha256, wanted);
    finish(p);
}

static void defaults_hold_when_left_out(void **state)
{
    (void)state;
    struct parsed *p = parse(WITH(""), strlen(WITH("")));
    assert_int_equal(p->status, DGL_OK);
    assert_true(p->kernel->tolerance == 1e-12);
    assert_string_equal(p->kernel->layout, "");
    assert_false(p->kernel->f16 || p->kernel->uses_step || p->kernel->writes_step);
    assert_null(p->kernel->prefer);
    assert_int_equal(p->kernel->decls.num_shared, 0);
    finish(p);
}

static void zero_byte_is_refused(void **state)
{
    (void)state;
    static const char text[] = "// Sums\n//! NAME k\0\n";
    struct parsed *p = parse(text, sizeof(text) - 1);
    assert_int_equal(p->status, DGL_ERR_KERNEL);
    assert_contains(p->log.text, "zero byte");
    finish(p);
}

struct text_case {
    const char *name, *text;
    const char *error; /* NULL: the file is good */
};

#define P4(x)  x "0, " x "1, " x "2, " x "3"
#define P16(x) P4(x "0") ", " P4(x "1") ", " P4(x "2") ", " P4(x "3")
#define P64    P16("p0") ", " P16("p1") ", " P16("p2") ", " P16("p3")

static const struct text_case cases[] = {
    /* good */
    {"plain file", WITH(""), NULL},
    {"CRLF lines",
     "// S\r\n//! NAME k\r\n//! OP o\r\n//! VARIANT v\r\n//! LOCAL 1\r\n//! GROUPS 1\r\nvoid "
     "body(uvec3 g) {}\r\n",
     NULL},
    {"no newline at the end", "// S\n" NEEDED "void body(uvec3 g) {}", NULL},
    {"blank lines and indentation", "// S\n\n   //! PREFER 3  \n" NEEDED BODY, NULL},
    {"local size of three", WITH("//! SHARED int a[LOCAL_X * LOCAL_Y * LOCAL_Z]"), NULL},
    {"every type of shared memory",
     WITH("//! SHARED float a[N]\n//! SHARED vec2 b[N]\n//! SHARED vec3 c[N]\n//! SHARED vec4 "
          "d[N]\n//! SHARED uint e[N]\n//! SHARED uvec2 f[N]\n//! SHARED uvec3 g[N]\n//! SHARED "
          "uvec4 h[N]\n//! SHARED int i[N]\n//! SHARED ivec2 j[N]\n//! SHARED ivec3 k[N]\n//! "
          "SHARED ivec4 l[N]"),
     NULL},
    {"blanks in SHARED", WITH("//! SHARED  float  a [ N + 1 ]  // remark"), NULL},
    {"LET above LOCAL and in it",
     "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! TUNE A = 8 in 8\n//! LET B = 2 * A\n//! LOCAL "
     "B\n//! LET C = LOCAL_X + B\n//! GROUPS C\n" BODY,
     NULL},
    {"LET in SHARED, REQUIRE, PREFER above it",
     WITH("//! SHARED int a[B]\n//! REQUIRE B\n//! PREFER B\n//! LET B = 2"), NULL},
    {"LET in #if", WITH_BODY("//! LET B = N > 2 ? 1 : 0\n#if B\n#endif\n" BODY), NULL},
    {"entry over several lines", WITH_BODY("void\nbody /* x */ (\nuvec3 g) {}\n"), NULL},
    {"own #define in #if", WITH_BODY("#define A 1\n#if A\n#endif\n" BODY), NULL},
    {"include guard", WITH_BODY("#ifndef A\n#define A\n#endif\n" BODY), NULL},
    {"forbidden names in comments",
     WITH_BODY("// main layout\n/* gl_WorkGroupID\n#version */\n" BODY), NULL},
    {"names that hold forbidden ones", WITH_BODY("int mainly, layouts, my_main;\n" BODY), NULL},
    {"undeclared symbol outside #if", WITH_BODY("#define A B\n" BODY), NULL},
    {"#if over two lines", WITH_BODY("#if N > 1 && \\\n  LOCAL_X > 1\n#endif\n" BODY), NULL},
    {"extension's symbol", WITH_BODY("//! EXTENSION GL_x\n#ifdef GL_x\n#endif\n" BODY), NULL},
    {"step indices",
     WITH_BODY("//! STEP write\n//! BIND readwrite uint STEP\n#if STEP_pos\n#endif\n" BODY), NULL},
    {"a step index with STEP readwrite",
     WITH_BODY("//! STEP readwrite\n//! BIND readwrite uint STEP\n#if STEP_pos\n#endif\n" BODY),
     NULL},
    {"TUNE preset by a constant", WITH("//! TUNE A = N > 3 ? 1 : 2 in 1 2"), NULL},
    {"negative choices", WITH("//! TUNE A = -1 in -1 0 1"), NULL},
    /* the file as a whole */
    {"empty file", "", "k.comp:1: the file is empty: a kernel begins with a // comment"},
    {"file of blank lines", "\n \r\n\t\n", "k.comp:1: the file is empty"},
    {"byte order mark", "\xef\xbb\xbf" WITH(""),
     "k.comp:1: the file begins with a byte order mark"},
    {"UTF-16", "\xff\xfe/", "k.comp:1: the file begins as UTF-16 does"},
    {"comment that stays open", WITH_BODY(BODY "/* main\n"),
     "k.comp:11:1: the comment that begins here is never closed"},
    {"comment that swallows the body", WITH_BODY("int x; /* y\n" BODY),
     "k.comp:8:8: the comment that begins here is never closed"},
    {"comment that ends with the file", WITH_BODY(BODY "/* x */"), NULL},
    {"comment of half an end", WITH_BODY(BODY "/* x *"), "k.comp:11:1: the comment"},
    {"#if that stays open", WITH_BODY("#if N\n#ifdef N\n#endif\n" BODY),
     "k.comp:8:2: #if without #endif"},
    {"#ifndef that stays open in #if", WITH_BODY("#if N\n#ifndef N\n" BODY "#endif"),
     "#if without #endif"},
    {"#endif without #if", WITH_BODY("#if N\n#endif\n#endif\n" BODY),
     "k.comp:10:2: #endif without #if"},
    {"#else without #if", WITH_BODY(BODY "# else\n"), "k.comp:11:3: #else without #if"},
    {"#elif without #if", WITH_BODY("#elif N\n" BODY), "k.comp:8:2: #elif without #if"},
    {"all parts of an #if", WITH_BODY("#if N > 1\n#elif N\n#else\n#endif\n" BODY), NULL},
    {"no summary", "//! NAME k\n", "k.comp:1: the first line must be a // comment"},
    {"code first", "void body(uvec3 g) {}\n", "k.comp:1: the first line must be a // comment"},
    {"empty summary", "//\n" NEEDED BODY, "k.comp:1: the summary in the first line is empty"},
    {"missing NAME", "// S\n//! OP o\n//! VARIANT v\n//! LOCAL 1\n//! GROUPS 1\n" BODY,
     "k.comp:6: the directive //! NAME is missing"},
    {"missing OP", "// S\n//! NAME k\n//! VARIANT v\n//! LOCAL 1\n//! GROUPS 1\n" BODY,
     "k.comp:6: the directive //! OP is missing"},
    {"missing VARIANT", "// S\n//! NAME k\n//! OP o\n//! LOCAL 1\n//! GROUPS 1\n" BODY,
     "k.comp:6: the directive //! VARIANT is missing"},
    {"missing LOCAL", "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! GROUPS 1\n" BODY,
     "k.comp:6: the directive //! LOCAL is missing"},
    {"LOCAL of nothing",
     "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! LOCAL 8 0\n//! GROUPS 1\n" BODY,
     "k.comp:5: LOCAL: a size of 0; wanted 1 or more"},
    {"LOCAL of nothing for some device",
     "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! LOCAL SOFTWARE ? -1 : 8\n//! GROUPS 1\n" BODY,
     "k.comp:5: LOCAL: a size of -1; wanted 1 or more"},
    {"missing GROUPS", "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! LOCAL 1\n" BODY,
     "k.comp:6: the directive //! GROUPS is missing"},
    {"missing body", "// S\n" NEEDED, "the body is missing"},
    {"directive after the body began", WITH_BODY(BODY "//! PREFER 1\n"),
     "k.comp:11: a directive after the body began on line 8"},
    {"unknown directive", WITH("//! PREFERS 3"),
     "k.comp:8:5: 'PREFERS' is not a directive; there are NAME OP"},
    {"directive in small letters", WITH("//! prefer 3"), "'prefer' is not a directive"},
    {"directive without a name", WITH("//!"), "k.comp:8: a directive is missing"},
    {"duplicate NAME", WITH("//! NAME j"), "k.comp:8: NAME is given twice"},
    {"duplicate LOCAL", WITH("//! LOCAL 1"), "LOCAL is given twice"},
    {"duplicate PREFER", WITH("//! PREFER 1\n//! PREFER 2"), "k.comp:9: PREFER is given twice"},
    {"duplicate REGISTERS", WITH("//! REGISTERS 1\n//! REGISTERS 2"), "REGISTERS is given twice"},
    {"duplicate STEP", WITH("//! STEP read\n//! STEP read"), "STEP is given twice"},
    /* words */
    {"NAME in capitals", "// S\n//! NAME Kernel\n",
     "k.comp:2:10: NAME: 'Kernel' may hold only a to z"},
    {"NAME without a word", "// S\n//! NAME\n", "k.comp:2: NAME: the kernel's name is missing"},
    {"NAME with two words", "// S\n//! NAME a b\n", "NAME: 'b' is one word too many"},
    {"NAME too long",
     "// S\n//! NAME aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
     "is longer than 63 characters"},
    {"OP without a word", "// S\n//! OP\n", "OP: the operation is missing"},
    {"OP with a dash", "// S\n//! OP a-b\n", "'a-b' may hold only"},
    {"VARIANT without a word", "// S\n//! VARIANT\n", "the variant is missing"},
    {"VARIANT with an alias twice", "// S\n//! VARIANT v a a\n", "VARIANT: 'a' is given twice"},
    {"WHEN without a key", WITH("//! WHEN"), "WHEN: the attribute's key is missing"},
    {"WHEN without a word", WITH("//! WHEN weight"), "WHEN: a word that weight may be is missing"},
    {"WHEN with a word twice", WITH("//! WHEN weight f16 f16"), "WHEN: 'f16' is given twice"},
    {"WHEN with a key twice", WITH("//! WHEN kv f16\n//! WHEN kv f32"),
     "k.comp:9: WHEN: the key kv is given twice"},
    {"two WHEN that define one name", WITH("//! WHEN a b_c\n//! WHEN a_b c"), NULL},
    {"WHEN defines a constant's name", WITH("//! WHEN a b\n//! CONST A_b"),
     "the name A_b is also what WHEN a b defines"},
    {"LAYOUT without a word", WITH("//! LAYOUT"), "LAYOUT: the layout is missing"},
    {"PRECISION unknown", WITH("//! PRECISION f64"), "PRECISION: 'f64' is not one of f32, f16"},
    {"REGISTERS without an expression", WITH("//! REGISTERS"), "k.comp:8"},
    {"REGISTERS half an expression", WITH("//! REGISTERS 4 *"), "k.comp:8"},
    {"REGISTERS of an unknown name", WITH("//! REGISTERS 4 * BOGUS"), "BOGUS"},
    {"REGISTERS too large", WITH("//! REGISTERS 9223372036854775808"), "k.comp:8"},
    {"TOLERANCE not a number", WITH("//! TOLERANCE small"),
     "TOLERANCE: 'small' is not a number above 0"},
    {"TOLERANCE of zero", WITH("//! TOLERANCE 0"), "TOLERANCE: '0' is not a number above 0"},
    {"STEP unknown", WITH("//! STEP both"), "STEP: 'both' is not one of read, write, readwrite"},
    {"STEP readwrite without its buffer", WITH("//! STEP readwrite"),
     "needs the line //! BIND readwrite uint STEP"},
    {"STEP write without its buffer", WITH("//! STEP write"),
     "needs the line //! BIND readwrite uint STEP"},
    {"STEP write with a buffer for reading", WITH("//! STEP write\n//! BIND read uint STEP"),
     "needs the line //! BIND readwrite uint STEP"},
    {"STEP buffer without STEP write", WITH("//! BIND readwrite uint STEP"),
     "the name STEP is for kernels that say STEP write"},
    {"EXTENSION of another form", WITH("//! EXTENSION KHR_x"),
     "EXTENSION: 'KHR_x' is not the name of an extension"},
    {"EXTENSION twice", WITH("//! EXTENSION GL_x\n//! EXTENSION GL_x"),
     "EXTENSION: GL_x is given twice"},
    {"five EXTENSIONs",
     WITH("//! EXTENSION GL_a\n//! EXTENSION GL_b\n//! EXTENSION GL_c\n//! EXTENSION GL_d\n//! "
          "EXTENSION GL_e"),
     "k.comp:12: EXTENSION: more than 4"},
    /* binds and parameters */
    {"BIND access unknown", WITH("//! BIND in uint W"),
     "BIND: 'in' is not one of read, write, readwrite, coherent"},
    {"BIND type unknown", WITH("//! BIND read half W"),
     "BIND: the type 'half' is not one of uint int float"},
    {"BIND type too long", WITH("//! BIND read aaaaaaaaaaaaaaaaaaaaaaaaaaaaa W"),
     "is not one of uint int float"},
    {"BIND of vec3", WITH("//! BIND read vec3 W"), "the type 'vec3' is not one of"},
    {"BIND without a name", WITH("//! BIND read uint"), "BIND: the name is missing"},
    {"BIND without a type", WITH("//! BIND read"), "BIND: the element type is missing"},
    {"BIND alone", WITH("//! BIND"), "BIND: read, write, readwrite or coherent is missing"},
    {"BIND with brackets", WITH("//! BIND read uint W[]"), "BIND: 'W[]' is not an identifier"},
    {"BIND name twice", WITH("//! BIND read uint W\n//! BIND read uint W"),
     "BIND: the name W is declared twice"},
    {"nine BINDs",
     WITH("//! BIND read uint A\n//! BIND read uint B\n//! BIND read uint C\n//! BIND read uint "
          "D\n//! BIND read uint E\n//! BIND read uint F\n//! BIND read uint G\n//! BIND read uint "
          "H\n//! BIND read uint I"),
     "k.comp:16: BIND: more than 8"},
    {"PARAM type unknown", WITH("//! PARAM vec4 x"),
     "PARAM: the type 'vec4' is not one of uint, int, float"},
    {"PARAM without a name", WITH("//! PARAM uint"), "PARAM: the name is missing"},
    {"PARAM name of a BIND", WITH("//! BIND read uint W\n//! PARAM uint W"),
     "k.comp:9: PARAM: the name W is declared twice"},
    {"PARAM reserved gl_", WITH("//! PARAM uint gl_x"), "PARAM: the name gl_x is reserved"},
    {"PARAM reserved step_", WITH("//! PARAM uint step_pos"), "the name step_pos is reserved"},
    {"PARAM with two underscores", WITH("//! PARAM uint a__b"), "the name a__b is reserved"},
    {"PARAM too long", WITH("//! PARAM uint aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
     "is longer than 31 characters"},
    /* constants and tunables */
    {"CONST without a name", WITH("//! CONST"), "CONST: a name is missing"},
    {"CONST name of a tunable", WITH("//! TUNE A = 1 in 1\n//! CONST A"),
     "CONST: the name A is declared twice"},
    {"CONST name of a device property", WITH("//! CONST SOFTWARE"),
     "the name SOFTWARE is reserved"},
    {"CONST named T", WITH("//! CONST T"), "the name T is reserved"},
    {"CONST named BAND", WITH("//! CONST BAND"), "the name BAND is reserved"},
    {"CONST named LOCAL_X", WITH("//! CONST LOCAL_X"), "the name LOCAL_X is reserved"},
    {"CONST default not a number", WITH("//! CONST A = K"), "CONST: 'K' is not a 32-bit integer"},
    {"CONST default missing", WITH("//! CONST A ="), "CONST: an integer is missing"},
    {"CONST default too large", WITH("//! CONST A = 99999999999"), "is not a 32-bit integer"},
    {"CONST after a default", WITH("//! CONST A = 1 B"), "CONST: 'B' is one word too many"},
    {"CONST begins with =", WITH("//! CONST = 1"), "CONST: '=' is not an identifier"},
    {"TUNE without =", WITH("//! TUNE A 1 in 1"), "TUNE: expected '=' after A"},
    {"TUNE without in", WITH("//! TUNE A = 1"), "TUNE: 'in' and the choices is missing"},
    {"TUNE with another word", WITH("//! TUNE A = 1 of 1 2"),
     "TUNE: expected 'in' and the choices at 'of'"},
    {"TUNE without choices", WITH("//! TUNE A = 1 in"), "TUNE: an integer is missing"},
    {"TUNE choice not a number", WITH("//! TUNE A = 1 in 1 two"),
     "TUNE: 'two' is not a 32-bit integer"},
    {"TUNE preset not a choice", WITH("//! TUNE B = 1 in 1\n//! TUNE A = 3 in 1 2 4"),
     "k.comp:9: TUNE A: the preset 3 is not one of its choices"},
    {"TUNE preset not a choice for some sizes", WITH("//! TUNE A = N > 99999 ? 7 : 4 in 4 8"),
     "k.comp:8: TUNE A: the preset 7 is not one of its choices"},
    {"TUNE preset not a choice in a second branch",
     WITH("//! TUNE A = N > 9 ? 4 : N > 5 ? 8 : 3 * 5 in 4 8"),
     "k.comp:8: TUNE A: the preset 15 is not one of its choices"},
    {"TUNE preset by a comparison", WITH("//! TUNE A = N > 9 in 1 2"),
     "k.comp:8: TUNE A: the preset 0 is not one of its choices"},
    {"TUNE preset that a branch never has", WITH("//! TUNE A = 1 > 2 ? N > 3 ? 5 : 6 : 4 in 4 8"),
     NULL},
    {"TUNE preset that is computed", WITH("//! TUNE A = N > 9 ? N / 2 : min(N, 4) in 4 8"), NULL},
    {"TUNE preset of a later tunable", WITH("//! TUNE A = B in 1\n//! TUNE B = 1 in 1"),
     "k.comp:8: TUNE: the name B is not known here"},
    {"TUNE preset of itself", WITH("//! TUNE A = A in 1"), "the name A is not known here"},
    {"TUNE with a choice twice", WITH("//! TUNE A = 1 in 1 2 1"),
     "k.comp:8: TUNE: the choice 1 is given twice"},
    {"TUNE with 17 choices", WITH("//! TUNE A = 1 in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"),
     "TUNE: more than 16"},
    /* expressions */
    {"expression cut short", WITH("//! PREFER 1 +"),
     "k.comp:8: PREFER: expected a number, a name or '(' at ''"},
    {"expression with a comma", WITH("//! PREFER 1, 2"), "PREFER: ',' is one word too many"},
    {"expression with a stray word", WITH("//! PREFER 1 2"), "PREFER: '2' is one word too many"},
    {"REQUIRE of an unknown name", WITH("//! REQUIRE M > 1"),
     "k.comp:8: REQUIRE: the name M is not known here"},
    {"REQUIRE of T", WITH("//! REQUIRE T > 1"), "the name T is not known here"},
    {"LOCAL of T", "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! LOCAL T\n//! GROUPS 1\n" BODY,
     "k.comp:5: LOCAL: the name T is not known here"},
    {"LOCAL of LOCAL_X",
     "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! LOCAL LOCAL_X\n//! GROUPS 1\n" BODY,
     "LOCAL: the name LOCAL_X is not known here"},
    {"LOCAL of four", "// S\n//! LOCAL 1 2 3 4\n", "k.comp:2:17: LOCAL: '4' is one word too many"},
    {"GROUPS of three", "// S\n//! GROUPS 1 2 3\n", "GROUPS: '3' is one word too many"},
    {"LOCAL without a number", "// S\n//! LOCAL\n", "LOCAL: expected a number"},
    {"PREFER of an absent word", WITH("//! WHEN weight f16\n//! PREFER WEIGHT_q4_k"),
     "the name WEIGHT_q4_k is not known here"},
    {"17 REQUIREs",
     WITH("//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE "
          "1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! "
          "REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1\n//! REQUIRE 1"),
     "k.comp:24: REQUIRE: more than 16"},
    /* libs */
    {"CHUNK", WITH("//! CHUNK kv"), "k.comp:8: CHUNK is called LIB now: write //! LIB kv"},
    {"LIB without a name", WITH("//! LIB"), "LIB: the lib's name is missing"},
    {"LIB with a path", WITH("//! LIB ../x"), "LIB: '../x' may hold only"},
    {"LIB with a key that WHEN lacks", WITH("//! WHEN kv f16\n//! LIB w_{weight}"),
     "k.comp:9: LIB: no WHEN line has the key weight"},
    {"LIB with two keys", WITH("//! WHEN a b\n//! LIB w_{a}_{a}"),
     "has more than one {key}, or half of one"},
    {"LIB with two names of different keys",
     WITH("//! WHEN a b\n//! WHEN c d\n//! LIB w_{a} w_{c}"),
     "'w_{a}' and 'w_{c}' have different keys"},
    {"LIB with three names", WITH("//! LIB u v w"), "LIB"},
    {"LIB with half a key", WITH("//! LIB w_{a"), "has more than one {key}, or half of one"},
    /* derived constants */
    {"LET without a name", WITH("//! LET"), "k.comp:8: LET: the name is missing"},
    {"LET without =", WITH("//! LET A 1"), "LET: expected '=' after A"},
    {"LET without an expression", WITH("//! LET A ="), "LET: expected a number, a name or '('"},
    {"LET with two expressions", WITH("//! LET A = 1 2"), "LET: '2' is one word too many"},
    {"LET of a later LET", WITH("//! LET A = B\n//! LET B = 1"),
     "k.comp:8: LET: the name B is not known here"},
    {"LET of itself", WITH("//! LET A = A"), "LET: the name A is not known here"},
    {"LET of T", WITH("//! LET A = T"), "LET: the name T is not known here"},
    {"LET of LOCAL_X above LOCAL",
     "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! LET A = LOCAL_X\n//! LOCAL 1\n//! GROUPS "
     "1\n" BODY,
     "k.comp:5: LET: the name LOCAL_X is not known here"},
    {"LOCAL of a LET below it",
     "// S\n//! NAME k\n//! OP o\n//! VARIANT v\n//! LOCAL A\n//! LET A = 1\n//! GROUPS 1\n" BODY,
     "k.comp:5: LOCAL: the name A is not known here"},
    {"TUNE of a LET", WITH("//! LET A = 1\n//! TUNE B = A in 1"),
     "k.comp:9: TUNE: the name A is not known here"},
    {"LET name of a constant", WITH("//! LET N = 1"), "LET: the name N is declared twice"},
    {"LET name twice", WITH("//! LET A = 1\n//! LET A = 1"),
     "k.comp:9: LET: the name A is declared twice"},
    {"LET name of a tunable", WITH("//! TUNE A = 1 in 1\n//! LET A = 1"),
     "LET: the name A is declared twice"},
    {"LET name of a word of WHEN", WITH("//! WHEN a b\n//! LET A_b = 1"),
     "the name A_b is also what WHEN a b defines"},
    {"LET reserved", WITH("//! LET LOCAL_X = 1"), "LET: the name LOCAL_X is reserved"},
    {"BIND name of a LET", WITH("//! LET W = 1\n//! BIND read uint W"),
     "BIND: the name W is declared twice"},
    {"33 LETs",
     WITH("//! LET A0 = 1\n//! LET A1 = 1\n//! LET A2 = 1\n//! LET A3 = 1\n//! LET A4 = 1\n//! LET "
          "A5 = 1\n//! LET A6 = 1\n//! LET A7 = 1\n//! LET A8 = 1\n//! LET A9 = 1\n//! LET B0 = "
          "1\n//! LET B1 = 1\n//! LET B2 = 1\n//! LET B3 = 1\n//! LET B4 = 1\n//! LET B5 = 1\n//! "
          "LET B6 = 1\n//! LET B7 = 1\n//! LET B8 = 1\n//! LET B9 = 1\n//! LET C0 = 1\n//! LET C1 "
          "= 1\n//! LET C2 = 1\n//! LET C3 = 1\n//! LET C4 = 1\n//! LET C5 = 1\n//! LET C6 = "
          "1\n//! LET C7 = 1\n//! LET C8 = 1\n//! LET C9 = 1\n//! LET D0 = 1\n//! LET D1 = 1\n//! "
          "LET D2 = 1"),
     "k.comp:40: LET: more than 32"},
    /* shared memory */
    {"SHARED in bytes", WITH("//! SHARED 4 * LOCAL_X"),
     "k.comp:8:12: SHARED: '4' is not one of float vec2 vec3 vec4 uint uvec2 uvec3 uvec4 int ivec2 "
     "ivec3 ivec4; a number of bytes is no longer given: write //! SHARED type name[elements]"},
    {"SHARED in bytes by a name", WITH("//! SHARED N"), "SHARED: 'N' is not one of float"},
    {"SHARED of bool", WITH("//! SHARED bool a[4]"), "SHARED: 'bool' is not one of float"},
    {"SHARED of a long type", WITH("//! SHARED aaaaaaaaaaaaaaaa a"), "is not one of float vec2"},
    {"SHARED without a type", WITH("//! SHARED"), "SHARED: the type is missing"},
    {"SHARED without a name", WITH("//! SHARED float"), "SHARED: the name is missing"},
    {"SHARED with brackets only", WITH("//! SHARED float [4]"), "SHARED: the name is missing"},
    {"SHARED with a bad name", WITH("//! SHARED float a-b"), "SHARED: 'a-b' is not an identifier"},
    {"SHARED without elements", WITH("//! SHARED float a[]"),
     "SHARED: expected a number, a name or '(' at ']'"},
    {"SHARED that is not closed", WITH("//! SHARED float a[4"),
     "SHARED: expected ']' after the elements of a"},
    {"SHARED with a second name", WITH("//! SHARED float a[4] b"),
     "SHARED: 'b' is one word too many"},
    {"SHARED with two dimensions", WITH("//! SHARED float a[4][4]"),
     "SHARED: '[4]' is one word too many"},
    {"SHARED of an unknown name", WITH("//! SHARED float a[M]"),
     "k.comp:8: SHARED: the name M is not known here"},
    {"SHARED of T", WITH("//! SHARED float a[T]"), "SHARED: the name T is not known here"},
    {"SHARED name twice", WITH("//! SHARED float a\n//! SHARED float a"),
     "k.comp:9: SHARED: the name a is declared twice"},
    {"SHARED name of a LET", WITH("//! LET A = 1\n//! SHARED float A"),
     "SHARED: the name A is declared twice"},
    {"SHARED name of a PARAM", WITH("//! PARAM uint p\n//! SHARED float p"),
     "SHARED: the name p is declared twice"},
    {"SHARED name in an expression", WITH("//! SHARED float a\n//! REQUIRE a"),
     "REQUIRE: the name a is not known here"},
    {"SHARED reserved", WITH("//! SHARED float gl_x"), "SHARED: the name gl_x is reserved"},
    /* bodies */
    {"no entry", WITH_BODY("void bodies(uvec3 g) {}\n"),
     "k.comp:8: the body lacks void body(uvec3 group)"},
    {"entry of another type", WITH_BODY("void body(uint g) {}\n"),
     "the body lacks void body(uvec3 group)"},
    {"entry of another type further down", WITH_BODY("int x;\n\nvoid body(uvec2 g) {}\n"),
     "k.comp:10: the body lacks void body(uvec3 group)"},
    {"beginning of another type", WITH_BODY(BODY "void begin(uint g) {}\n"),
     "k.comp:11: begin is not void begin(uvec3 group): nothing would call it"},
    {"beginning that returns a number", WITH_BODY(BODY "\nint begin(uvec3 g) { return 1; }\n"),
     "k.comp:12: begin is not void begin(uvec3 group): nothing would call it"},
    {"beginning that returns an array", WITH_BODY(BODY "int[1] begin(uvec3 g) { return x; }\n"),
     "k.comp:11: begin is not void begin(uvec3 group): nothing would call it"},
    {"beginning with another parameter", WITH_BODY(BODY "void begin(uvec3 g, int x) {}\n"),
     "k.comp:11: begin is not void begin(uvec3 group): nothing would call it"},
    {"body that returns a number", WITH_BODY("#define A 1\nint body(uvec3 group) { return A; }\n"),
     "k.comp:9: the body lacks void body(uvec3 group)"},
    {"body with another parameter", WITH_BODY("void body(uvec3 group, uint more) {}\n"),
     "k.comp:8: the body lacks void body(uvec3 group)"},
    {"body with a parameter without a name", WITH_BODY("void body(uvec3) {}\n"), NULL},
    {"a call of what is no beginning",
     WITH_BODY("#define begin(x) (x)\nfloat one() { return begin(1.0); }\n" BODY), NULL},
    {"LET of a word of GLSL", WITH("//! LET float = 1"), "k.comp:8: LET: the name float is a word"},
    {"CONST of a word of GLSL", WITH("//! CONST in = 1"), "CONST: the name in is a word of GLSL"},
    {"PARAM of a word of GLSL", WITH("//! PARAM uint sample"),
     "PARAM: the name sample is a word of GLSL"},
    {"beginning of another type beside the right one",
     WITH_BODY(BODY "void begin(uint g) {}\nvoid begin(uvec3 g) { begin(g.x); }\n"), NULL},
    {"entry in a comment only", WITH_BODY("/* void body(uvec3 g) {} */ int x;\n"),
     "the body lacks void body(uvec3 group)"},
    {"gl_WorkGroupID", WITH_BODY("int x;\nuint y() { return gl_WorkGroupID.x; }\n" BODY),
     "k.comp:9:19: gl_WorkGroupID may not appear here: use the parameter"},
    {"gl_NumWorkGroups", WITH_BODY("uint y() { return gl_NumWorkGroups.x; }\n" BODY),
     "gl_NumWorkGroups may not appear here"},
    {"gl_GlobalInvocationID", WITH_BODY("uint y() { return gl_GlobalInvocationID.x; }\n" BODY),
     "gl_GlobalInvocationID may not appear here"},
    {"main", WITH_BODY(BODY "void main() {}\n"), "k.comp:11:6: main may not appear here"},
    {"layout", WITH_BODY("layout(local_size_x = 1) in;\n" BODY),
     "k.comp:8:1: layout may not appear here"},
    {"buffer", WITH_BODY("buffer Foo { uint foo[]; };\n" BODY),
     "k.comp:8:1: buffer may not appear here: declare it with //! BIND access type name"},
    {"qualified buffer", WITH_BODY("readonly buffer Foo { uint foo[]; };\n" BODY),
     "k.comp:8:10: buffer may not appear here"},
    {"uniform block", WITH_BODY("uniform Bar { uint bar; };\n" BODY),
     "k.comp:8:1: uniform may not appear here: declare it with //! PARAM type name"},
    {"sampler", WITH_BODY("uniform highp sampler2D image;\n" BODY),
     "k.comp:8:1: uniform may not appear here"},
    {"buffer by a macro", WITH_BODY("#define B buffer\nB Foo { uint foo[]; };\n" BODY),
     "k.comp:8:11: buffer may not appear here"},
    {"buffer in a comment and a longer name",
     WITH_BODY("/* buffer uniform */ uint buffers, uniform_x;\n" BODY), NULL},
    {"shared in the body", WITH_BODY("int x;\nshared float a[4];\n" BODY),
     "k.comp:9:1: shared may not appear here: declare it with //! SHARED type name[elements]"},
    {"#version", WITH_BODY("#version 310 es\n" BODY), "k.comp:8:2: #version may not appear here"},
    {"# version", WITH_BODY("  #  version 310 es\n" BODY), "#version may not appear here"},
    {"#extension", WITH_BODY("#extension GL_x : enable\n" BODY),
     "#extension may not appear here: the generator writes it for each //! EXTENSION"},
    {"#line", WITH_BODY("#line 3\n" BODY), "#line may not appear here"},
    {"#line over two lines", WITH_BODY("#li\\\nne 3\n" BODY),
     "k.comp:8: #line may not appear here"},
    {"#line over three lines", WITH_BODY("\\\n#\\\r\nline 3\n" BODY),
     "k.comp:10:1: #line may not appear here"},
    {"#version over many lines", WITH_BODY("#v\\\ner\\\nsion 310 es\n" BODY),
     "#version may not appear here"},
    {"main over two lines", WITH_BODY(BODY "void ma\\\nin() {}\n"), "main may not appear here"},
    {"a comment over two lines", WITH_BODY("int x; // \\\n main\n" BODY "// \\\n main"), NULL},
    {"lines after continued ones", WITH_BODY("int \\\nx\\\n;\nvoid main() {}\n" BODY),
     "k.comp:11:6: main may not appear here"},
    {"joined words", WITH_BODY("#define A(x, y) x##y\n" BODY),
     "k.comp:8:1: ## may not appear here"},
    {"a macro of 64 parameters", WITH_BODY("#define A(" P64 ") p0\n" BODY), NULL},
    {"a macro of 65 parameters", WITH_BODY("int x;\n#define A(" P64 ", q) q\n" BODY),
     "k.comp:9:2: a macro has at most 64 parameters"},
    {"a macro of 65 parameters over two lines", WITH_BODY("#def\\\nine A(" P64 "\\\n, q) q\n" BODY),
     "a macro has at most 64 parameters"},
    {"a macro whose text has many commas", WITH_BODY("#define A (" P64 ", " P64 ")\n" BODY), NULL},
    {"#if of an unknown symbol", WITH_BODY("int x;\n#if WEIGTH_q4_k\n#endif\n" BODY),
     "k.comp:9:5: kernel k does not declare the symbol WEIGTH_q4_k"},
    {"#ifdef of an unknown symbol", WITH_BODY("#ifdef M\n#endif\n" BODY),
     "does not declare the symbol M"},
    {"#ifndef of an unknown symbol", WITH_BODY("#ifndef M\n#endif\n" BODY),
     "does not declare the symbol M"},
    {"#elif of an unknown symbol", WITH_BODY("#if N\n#elif M\n#endif\n" BODY),
     "k.comp:9:7: kernel k does not declare the symbol M"},
    {"#if of a symbol after a comment", WITH_BODY("/* a\nb */ #if M\n#endif\n" BODY),
     "k.comp:9:10: kernel k does not declare the symbol M"},
    {"#if of a parameter", WITH_BODY("//! PARAM uint p\n#if p\n#endif\n" BODY),
     "does not declare the symbol p"},
    {"step index without STEP write", WITH_BODY("#if STEP_pos\n#endif\n" BODY),
     "does not declare the symbol STEP_pos"},
};

static void file_gives_message(void **state)
{
    const struct text_case *c = *state;
    struct parsed *p = parse(c->text, strlen(c->text));
    if (!c->error) {
        if (p->status != DGL_OK)
            fail_msg("%s", p->log.text);
        assert_non_null(p->kernel);
    } else {
        assert_int_equal(p->status, DGL_ERR_KERNEL);
        assert_contains(p->log.text, c->error);
        assert_int_equal(p->log.errors, 1);
        assert_null(p->kernel);
    }
    finish(p);
}

/* ---- size ---- */

/* The maximum number of #define and #if lines in a file: symbols are looked up in a table, without
 * searching the text. */
static void many_conditions_take_linear_time(void **state)
{
    (void)state;
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, "// S\n" NEEDED);
    for (int i = 0; i < 25000; i++)
        dgl_buf_printf(&text, "#define A%x 1\n", i);
    for (int i = 0; i < 25000; i++)
        dgl_buf_printf(&text, "#if A%x\n#endif\n", i);
    dgl_buf_puts(&text, BODY);
    assert_in_range(text.len, 700000, 1 << 20);
    clock_t start = clock();
    struct parsed *p = parse(text.p, text.len);
    assert_at_most((double)(clock() - start) / CLOCKS_PER_SEC, 5);
    if (p->status != DGL_OK)
        fail_msg("%s", p->log.text);
    finish(p);
    dgl_buf_finish(&text);
}

/* ---- libs ---- */

struct lib_case {
    const char *name, *text;
    const char *error; /* NULL: the lib is good */
};

#define LIB_KERNEL                                                                                 \
    "//! WHEN kv f16\n//! TUNE LANES = 8 in 8\n//! LET HALF = 4\n//! SHARED float part[HALF]\n"

static const struct lib_case libs[] = {
    {"no directives", "float x() { return 1.0; }\n", NULL},
    {"empty", "", NULL},
    {"comments only", "// Nothing.\n", NULL},
    {"directives only", "// Nothing.\n//! LET A = 1\n", NULL},
    {"constants, tunables, LETs, local size and words of the kernel",
     "// S\n//! LET A = N + LANES + HALF + LOCAL_X + KV_f16 + SOFTWARE\n//! LET B = A\n//! SHARED "
     "vec2 bins[A + B]\n#if A && B && HALF\n#endif\n",
     NULL},
    {"directive of kernels", "// S\n//! TUNE A = 1 in 1\n",
     "l.glsl:2:5: 'TUNE' is not a directive of libs; there are LET SHARED LIB"},
    {"a lib that needs another", "//! LIB loop_end\n",
     "k.comp:1: lib l needs lib loop_end: add //! LIB loop_end above //! LIB l"},
    {"a lib that needs one of a key", "//! LIB weight_{weight}\n",
     "l.glsl:1:9: LIB: 'weight_{weight}' may hold only a to z, 0 to 9 and _"},
    {"directive after the body", "int x;\n//! LET A = 1\n",
     "l.glsl:2: a directive after the body began on line 1"},
    {"LET of a later LET", "//! LET A = B\n//! LET B = 1\n",
     "l.glsl:1: LET: kernel k does not declare the name B"},
    {"SHARED of an unknown name", "\n//! SHARED float a[M]\n",
     "l.glsl:2: SHARED: kernel k does not declare the name M"},
    {"SHARED of T", "//! SHARED float a[T]\n", "SHARED: kernel k does not declare the name T"},
    {"LET name twice", "//! LET A = 1\n//! LET A = 2\n",
     "l.glsl:2: LET: the name A is declared twice"},
    {"LET name of the kernel's constant", "//! LET N = 1\n",
     "l.glsl:1: LET: kernel k declares the name N too"},
    {"LET name of the kernel's LET", "//! LET HALF = 1\n", "kernel k declares the name HALF too"},
    {"LET name of the kernel's word", "//! LET KV_f16 = 1\n",
     "kernel k declares the name KV_f16 too"},
    {"SHARED name of the kernel's", "//! SHARED float part\n",
     "l.glsl:1: SHARED: kernel k declares the name part too"},
    {"shared in the text", "// S\nshared float a;\n", "l.glsl:2:1: shared may not appear here"},
    {"#if of an unknown symbol", "//! LET A = 1\n#if A\n#endif\n#if M\n#endif\n",
     "l.glsl:4:5: kernel k does not declare the symbol M"},
    {"comment that stays open", "// S\nint x;\n/* y\n",
     "l.glsl:3:1: the comment that begins here is never closed"},
    {"#if that stays open", "#if N\nint x;\n", "l.glsl:1:2: #if without #endif"},
    {"#endif of another text", "int x;\n#endif\n", "l.glsl:2:2: #endif without #if"},
    {"beginning of a lib", "// S\nvoid begin(uvec3 group)\n{\n}\n",
     "l.glsl:2: void begin(uvec3 group) belongs into the kernel"},
    {"byte order mark", "\xef\xbb\xbf// S\n", "l.glsl:1: the file begins with a byte order mark"},
    {"SHARED in bytes", "//! SHARED 4\n", "l.glsl:1:12: SHARED: '4' is not one of float"},
};

/* The lib beside a kernel that has the names of LIB_KERNEL. */
static void lib_gives_message(void **state)
{
    const struct lib_case *c = *state;
    const struct kernel_lib file = {.name = "l", .path = "l.glsl"};
    struct kernel_lib *lib = NULL;
    struct parsed *p = parse(WITH(LIB_KERNEL), strlen(WITH(LIB_KERNEL)));
    if (p->status != DGL_OK)
        fail_msg("%s", p->log.text);
    enum dgl_status status =
        kernel_lib_parse(&p->log.log, &p->arena, &file, c->text, strlen(c->text), &lib);
    if (status == DGL_OK)
        status = kernel_lib_check(&p->log.log, p->kernel, lib);
    if (!c->error) {
        if (status != DGL_OK)
            fail_msg("%s", p->log.text);
    } else {
        assert_int_equal(status, DGL_ERR_KERNEL);
        assert_contains(p->log.text, c->error);
        assert_int_equal(p->log.errors, 1);
    }
    finish(p);
}

static void lib_with_a_zero_byte_is_refused(void **state)
{
    (void)state;
    const struct kernel_lib file = {.name = "l", .path = "l.glsl"};
    struct kernel_lib *lib = NULL;
    struct parsed *p = parse_good();
    assert_int_equal(kernel_lib_parse(&p->log.log, &p->arena, &file, "int\0x", 5, &lib),
                     DGL_ERR_KERNEL);
    assert_null(lib);
    assert_contains(p->log.text, "zero byte");
    finish(p);
}

/* Every prefix of a valid file is valid or causes one message. */
static void cut_files_never_crash(void **state)
{
    (void)state;
    for (size_t len = 0; len < strlen(good); len++) {
        char *text = strndup(good, len);
        struct parsed *p = parse(text, len);
        assert_int_equal(p->log.errors, p->status == DGL_OK ? 0 : 1);
        finish(p);
        free(text);
    }
}

/* One byte replaced anywhere: no crash, at most one message. */
static void changed_files_never_crash(void **state)
{
    (void)state;
    static const char bytes[] = "{}()=\n/ \xff#0";
    uint64_t seed = 42;
    for (int i = 0; i < 3000; i++) {
        char *text = strdup(good);
        text[test_rand(&seed) % strlen(good)] = bytes[test_rand(&seed) % (sizeof(bytes) - 1)];
        struct parsed *p = parse(text, strlen(good));
        assert_int_equal(p->log.errors, p->status == DGL_OK ? 0 : 1);
        finish(p);
        free(text);
    }
}

int main(void)
{
    static const struct CMUnitTest whole[] = {
        cmocka_unit_test(good_file_has_names),
        cmocka_unit_test(good_file_has_binds_and_params),
        cmocka_unit_test(good_file_has_constants_and_tunables),
        cmocka_unit_test(good_file_has_attributes),
        cmocka_unit_test(good_file_has_rules),
        cmocka_unit_test(good_file_has_derived_constants_and_shared_memory),
        cmocka_unit_test(good_file_has_a_body),
        cmocka_unit_test(good_file_has_the_hash_of_its_bytes),
        cmocka_unit_test(defaults_hold_when_left_out),
        cmocka_unit_test(zero_byte_is_refused),
        cmocka_unit_test(lib_with_a_zero_byte_is_refused),
        cmocka_unit_test(many_conditions_take_linear_time),
        cmocka_unit_test(cut_files_never_crash),
        cmocka_unit_test(changed_files_never_crash),
    };
    int failed = test_run_table("kernel_text", file_gives_message, cases);
    failed += test_run_table("kernel_text_libs", lib_gives_message, libs);
    return failed + cmocka_run_group_tests_name("kernel_text_whole", whole, NULL, NULL);
}
