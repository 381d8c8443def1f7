/* Generated GLSL: the text of each directive, line numbers, and acceptance by a validator other
 * than the drivers. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "kernels/set/embedded.h"
#include "kernels/step.h"
#include "tests/support/kernel_sets.h"

static const char sample[] = "// Sums the rows of W.\n"
                             "//! NAME sample\n"
                             "//! OP matmul\n"
                             "//! VARIANT baseline\n"
                             "//! WHEN weight f16 f32\n"
                             "//! WHEN post store add none\n"
                             "//! BIND read uint W\n"
                             "//! BIND write vec4 Y\n"
                             "//! BIND readwrite int Z\n"
                             "//! PARAM uint row0\n"
                             "//! PARAM int shift\n"
                             "//! PARAM float eps\n"
                             "//! CONST K\n"
                             "//! CONST BIAS = -3\n"
                             "//! TUNE ROWS = 4 in 2 4\n"
                             "//! LOCAL 16 ROWS\n"
                             "//! GROUPS ceildiv(BAND, ROWS) T\n"
                             "//! LET PARTS = LOCAL_X * LOCAL_Y\n"
                             "//! LET SPARE = ROWS - 9\n"
                             "//! SHARED float part[PARTS]\n"
                             "//! SHARED uvec3 found\n"
                             "//! SHARED vec2 added[POST_add]\n"
                             "//! STEP read\n"
                             "//! LIB weight_{weight}\n"
                             "//! LIB twice\n"
                             "//! LIB weight_{weight} twice\n"
                             "void body(uvec3 group)\n"
                             "{\n"
                             "    uint lane = gl_LocalInvocationIndex;\n"
                             "    uint row = group.x * uint(ROWS) + group.y;\n"
                             "    part[lane] = twice(weight_at(row, 0u)) + eps + step_inv_temp;\n"
                             "    barrier();\n"
                             "    if (lane == 0u && row < uint(K + BIAS + shift) + step_pos) {\n"
                             "#if POST_add\n"
                             "        Z[row0 + row] += int(part[0]);\n"
                             "#else\n"
                             "        Y[row0 + row] = vec4(part[0]);\n"
                             "#endif\n"
                             "    }\n"
                             "}\n";

static const char stepper[] = "// Advances the step state.\n"
                              "//! NAME stepper\n"
                              "//! OP advance\n"
                              "//! VARIANT baseline\n"
                              "//! BIND readwrite uint STEP\n"
                              "//! BIND coherent uint SEEN\n"
                              "//! LOCAL 1\n"
                              "//! GROUPS 1\n"
                              "//! STEP write\n"
                              "void body(uvec3 group)\n"
                              "{\n"
                              "    if (group.x == 0u) {\n"
                              "        STEP[STEP_pos] += STEP[STEP_tokens];\n"
                              "        STEP[STEP_inv_temp] = floatBitsToUint(1.0);\n"
                              "    }\n"
                              "}\n";

static const char extended[] = "// Sums a subgroup.\n"
                               "//! NAME extended\n"
                               "//! OP sums\n"
                               "//! VARIANT subgroup\n"
                               "//! BIND readwrite float X\n"
                               "//! CONST W_STRIDE = 0\n"
                               "//! EXTENSION GL_KHR_shader_subgroup_arithmetic\n"
                               "//! LOCAL 32\n"
                               "//! GROUPS 1\n"
                               "void body(uvec3 group)\n"
                               "{\n"
                               "    X[group.x] = subgroupAdd(X[gl_LocalInvocationID.x]);\n"
                               "}\n";

static const char faulty[] = "// Does not compile: line 8 and line 2 of its lib.\n"
                             "//! NAME faulty\n"
                             "//! OP faulty\n"
                             "//! VARIANT baseline\n"
                             "//! LOCAL 1\n"
                             "//! GROUPS 1\n"
                             "//! LIB twice\n"
                             "float broken = nowhere;\n"
                             "void body(uvec3 group) {}\n";

static const char faulty_lib[] = "// Its second lib is wrong.\n"
                                 "//! NAME faulty_lib\n"
                                 "//! OP faulty_lib\n"
                                 "//! VARIANT baseline\n"
                                 "//! LOCAL 1\n"
                                 "//! GROUPS 1\n"
                                 "//! LIB twice\n"
                                 "//! LIB wrong\n"
                                 "void body(uvec3 group) {}\n";

static const char weight_f16[] =
    "float weight_at(uint row, uint k)\n{\n    return unpackHalf2x16(W[row + k]).x;\n}\n";
static const char weight_f32[] =
    "float weight_at(uint row, uint k)\n{\n    return uintBitsToFloat(W[row + k]);\n}\n";
static const char twice[] = "// Two\n//! LET TWO = 1 + 1\n//! SHARED ivec4 pair[TWO * "
                            "LOCAL_X]\nfloat twice(float x)\n{\n    return 2.0 * x;\n}\n";
static const char wrong[] = "// two\n// three\nfloat wrong = nowhere;\n";

#define ROW(path, text)                                                                            \
    {                                                                                              \
        path, text, sizeof(text) - 1                                                               \
    }
/* Takes the place of the library's own table. */
const struct kernel_embedded kernel_embedded[] = {
    ROW("sample.comp", sample),
    ROW("stepper.comp", stepper),
    ROW("extended.comp", extended),
    ROW("faulty.comp", faulty),
    ROW("faulty_lib.comp", faulty_lib),
    ROW("lib/weight_f16.glsl", weight_f16),
    ROW("lib/weight_f32.glsl", weight_f32),
    ROW("lib/twice.glsl", twice),
    ROW("lib/wrong.glsl", wrong),
    {NULL, NULL, 0},
};

static const struct kernel_var device[] = {{"HAS_GL_KHR_shader_subgroup_arithmetic", 1},
                                           {"SUBGROUP_SIZE", 32}};

/* The text of one kernel; `weight` and `post` are attributes of the request or NULL. Free it. */
static char *generate(const char *op, const char *weight, const char *post)
{
    struct kernel_request request = {.op = op, .consts = {{"K", 256}}, .num_consts = 1};
    struct kernel_set *set = loaded_set(NULL);
    struct kernel_choice choice;
    struct dgl_buf text = {0};
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    if (weight)
        request.attrs[request.num_attrs++] = (struct kernel_attr){"weight", weight};
    if (post)
        request.attrs[request.num_attrs++] = (struct kernel_attr){"post", post};
    if (kernel_choose(&log.log, set, &request, device, 2, &choice) != DGL_OK ||
        kernel_generate(&log.log, &choice, &text) != DGL_OK)
        fail_msg("%s", log.text);
    kernel_set_destroy(&set);
    return dgl_buf_take(&text);
}

/* ---- pieces of the text ---- */

struct piece_case {
    const char *name, *op, *weight, *post, *piece;
    bool absent; /* the piece must not be there */
};

static const struct piece_case pieces[] = {
    {"extension", "sums", NULL, NULL, "#extension GL_KHR_shader_subgroup_arithmetic : require\n",
     0},
    {"no extension", "matmul", "f16", "add", "#extension", 1},
    {"precision of floats", "matmul", "f16", "add", "precision highp float;\n", 0},
    {"precision of ints", "matmul", "f16", "add", "precision highp int;\n", 0},
    {"constant", "matmul", "f16", "add", "#define K 256\n", 0},
    {"negative constant by default", "matmul", "f16", "add", "#define BIAS (-3)\n", 0},
    {"tunable", "matmul", "f16", "add", "#define ROWS 4\n", 0},
    {"attribute that holds", "matmul", "f16", "add", "#define WEIGHT_f16 1\n", 0},
    {"attribute that does not hold", "matmul", "f16", "add", "#define WEIGHT_f32 0\n", 0},
    {"second attribute", "matmul", "f16", "add", "#define POST_add 1\n#define POST_none 0\n", 0},
    {"absent attribute", "matmul", "f16", NULL, "#define POST_add 0\n#define POST_none 1\n", 0},
    {"derived constants", "matmul", "f16", "add", "#define PARTS 64\n#define SPARE (-5)\n", 0},
    {"derived constant of a lib", "matmul", "f16", "add", "#define TWO 2\n", 0},
    {"shared memory of kernel and lib", "matmul", "f16", "add",
     "shared float part[64];\nshared uvec3 found;\nshared vec2 added[1];\nshared ivec4 pair[32];\n",
     0},
    {"shared array of no elements", "matmul", "f16", "store", "added", 1},
    {"no shared memory", "sums", NULL, NULL, "shared", 1},
    {"local size as symbols", "matmul", "f16", "add",
     "#define LOCAL_X 16\n#define LOCAL_Y 4\n#define LOCAL_Z 1\n", 0},
    {"local size", "matmul", "f16", "add",
     "layout(local_size_x = 16, local_size_y = 4, local_size_z = 1) in;\n", 0},
    {"buffer for reading", "matmul", "f16", "add",
     "layout(std430, binding = 0) readonly buffer Bind_W { uint W[]; };\n", 0},
    {"buffer for writing", "matmul", "f16", "add",
     "layout(std430, binding = 1) writeonly buffer Bind_Y { vec4 Y[]; };\n", 0},
    {"buffer for both", "matmul", "f16", "add",
     "layout(std430, binding = 2) buffer Bind_Z { int Z[]; };\n", 0},
    {"buffer that groups share", "advance", NULL, NULL,
     "layout(std430, binding = 1) coherent buffer Bind_SEEN { uint SEEN[]; };\n", 0},
    {"parameters", "matmul", "f16", "add",
     "layout(std140, binding = 0) uniform Params {\n    uint row0;\n    int shift;\n    float "
     "eps;\n};\n",
     0},
    {"no parameters", "advance", NULL, NULL, "Params", 1},
    {"step state for reading", "matmul", "f16", "add",
     "struct Step {\n    uint pos;\n    uint tokens;\n", 0},
    {"step state's floats", "matmul", "f16", "add", "    float inv_temp;\n", 0},
    {"step table", "matmul", "f16", "add",
     "layout(std140, binding = 1) uniform Steps {\n    uint pass_rows;\n", 0},
    {"state of the first row's sequence", "matmul", "f16", "add",
     "#define step_pos step_table[row_seq(step_row)].pos\n", 0},
    {"no step state", "sums", NULL, NULL, "Step", 1},
    {"step state for writing", "advance", NULL, NULL,
     "#define STEP_pos (step_base() + 4u)\n#define STEP_tokens (step_base() + 5u)\n", 0},
    {"step state for writing is no block", "advance", NULL, NULL, "uniform", 1},
    {"lib of the word", "matmul", "f16", "add",
     "#line 10001\nfloat weight_at(uint row, uint k)\n{\n    return unpackHalf2x16", 0},
    {"lib of another word", "matmul", "f32", "add",
     "#line 10001\nfloat weight_at(uint row, uint k)\n{\n    return uintBitsToFloat", 0},
    {"second lib", "matmul", "f16", "add", "#line 20004\nfloat twice", 0},
    {"line of the body", "matmul", "f16", "add", "#line 27\nvoid body(", 0},
    {"header left out", "matmul", "f16", "add", "Sums the rows", 1},
    {"directives left out", "matmul", "f16", "add", "//!", 1},
    {"main", "matmul", "f16", "add",
     "void main()\n{\n    body(uvec3(gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x, "
     "gl_WorkGroupID.y, 0u));\n}\n",
     0},
};

static void text_holds_piece(void **state)
{
    const struct piece_case *c = *state;
    char *text = generate(c->op, c->weight, c->post);
    if (c->absent)
        assert_null(strstr(text, c->piece));
    else
        assert_contains(text, c->piece);
    free(text);
}

static void version_comes_first(void **state)
{
    (void)state;
    char *text = generate("matmul", "f16", "add");
    assert_int_equal(strncmp(text, "#version 310 es\n", 16), 0);
    free(text);
}

static void equal_requests_give_equal_texts(void **state)
{
    (void)state;
    char *a = generate("matmul", "f16", "add"), *b = generate("matmul", "f16", "add");
    char *c = generate("matmul", "f16", "store");
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    free(a);
    free(b);
    free(c);
}

static void step_indices_are_those_of_the_structure(void **state)
{
    (void)state;
    char *text = generate("advance", NULL, NULL), line[64];
#define X(glsl, c, field)                                                                          \
    snprintf(line, sizeof(line), "#define STEP_" #field " (step_base() + %zuu)\n",                 \
             offsetof(struct dgl_step_table, seq[0].field) / 4);                                   \
    assert_contains(text, line);
    DGL_STEP_FIELDS(X)
#undef X
    free(text);
}

/* The choice contains the libs: the text depends on the choice alone. */
static void text_has_the_libs_of_the_choice(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    struct kernel_choice choice;
    struct dgl_buf text = {0};
    struct kernel_request request = {.op = "matmul",
                                     .attrs = {{"weight", "f16"}},
                                     .num_attrs = 1,
                                     .consts = {{"K", 256}},
                                     .num_consts = 1};
    assert_int_equal(kernel_choose(NULL, set, &request, NULL, 0, &choice), DGL_OK);
    request.attrs[0].word = "q9";
    assert_int_equal(kernel_generate(NULL, &choice, &text), DGL_OK);
    const char *unpacks = strstr(text.p, "unpackHalf2x16");
    assert_non_null(unpacks);
    assert_null(strstr(unpacks + 1, "unpackHalf2x16")); /* two LIB lines name that lib */
    dgl_buf_finish(&text);
    kernel_set_destroy(&set);
}

/* ---- a validator that is no driver ---- */

/* Runs glslangValidator on the text. Returns its exit code, and its output in `out`. Skips the case
 * if it is not installed. */
static int validate(const char *glsl, char *out, size_t size)
{
    if (system("command -v glslangValidator > /dev/null 2>&1") != 0)
        SKIP("glslangValidator is not installed");
    char *dir = test_tmpdir(), command[512];
    test_write_file(dir, "x.comp", glsl, strlen(glsl));
    snprintf(command, sizeof(command), "glslangValidator -S comp %s/x.comp", dir);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(out, 1, size - 1, pipe);
    out[len] = '\0';
    int code = pclose(pipe);
    test_tmpdir_remove(dir);
    return code;
}

static const struct piece_case valid[] = {
    {.name = "f16 weights, add", .op = "matmul", .weight = "f16", .post = "add"},
    {.name = "f32 weights, store", .op = "matmul", .weight = "f32", .post = "store"},
    {.name = "f32 weights, no post", .op = "matmul", .weight = "f32"},
    {.name = "step state for writing", .op = "advance"},
    {.name = "subgroup extension", .op = "sums"},
};

static void text_is_valid(void **state)
{
    const struct piece_case *c = *state;
    char *text = generate(c->op, c->weight, c->post), out[4096];
    int code = validate(text, out, sizeof(out));
    if (code != 0)
        fail_msg("%s\n%s", out, text);
    free(text);
}

static void messages_name_the_line_of_the_file(void **state)
{
    (void)state;
    char *text = generate("faulty", NULL, NULL), out[4096];
    assert_int_not_equal(validate(text, out, sizeof(out)), 0);
    assert_contains(out, "ERROR: 0:8: 'nowhere'");
    free(text);
}

static void messages_name_the_line_of_the_lib(void **state)
{
    (void)state;
    char *text = generate("faulty_lib", NULL, NULL), out[4096];
    assert_int_not_equal(validate(text, out, sizeof(out)), 0);
    assert_contains(out, "ERROR: 0:20003: 'nowhere'");
    free(text);
}

/* ---- messages of drivers ---- */

struct words_row {
    const char *name;
    const char *op, *words;
    const char *error;      /* end of the one error line, from the path's last part on */
    const char *notices[4]; /* that follow */
};

#define NOT_COMPILED(more) " (kernel sample does not compile" more ")\n"
#define SUM_LINE           "   31 |     part[lane] = twice(weight_at(row, 0u)) + eps"

static const struct words_row words[] = {
    {"Mesa",
     "matmul",
     "0:31(15): error: no function with name 'twice'\n",
     "sample.comp:31:18: no function with name 'twice'" NOT_COMPILED(""),
     {SUM_LINE, "      |                  ^\n"}},
    {"Mesa, no word of the line",
     "matmul",
     "0:31(5): error: operands to arithmetic must be numeric",
     "sample.comp:31:5: operands to arithmetic must be numeric" NOT_COMPILED(""),
     {SUM_LINE, "      |     ^\n"}},
    {"Mesa's preprocessor",
     "matmul",
     "0:34(1): preprocessor error: syntax error",
     "sample.comp:34:1: syntax error" NOT_COMPILED(""),
     {"   34 | #if POST_add\n"}},
    {"NVIDIA",
     "matmul",
     "0(31) : error C1503: undefined variable \"eps\"\n",
     "sample.comp:31:46: undefined variable \"eps\"" NOT_COMPILED(""),
     {SUM_LINE}},
    {"ARM",
     "matmul",
     "0:31: L0002: Undeclared variable 'lane'\n",
     "sample.comp:31:10: Undeclared variable 'lane'" NOT_COMPILED(""),
     {SUM_LINE}},
    {"glslang, Adreno",
     "matmul",
     "ERROR: 0:31: 'lane' : undeclared identifier\nERROR: 1 errors.  No code "
     "generated.",
     "sample.comp:31:10: 'lane' : undeclared identifier" NOT_COMPILED(""),
     {SUM_LINE}},
    {"columns with a colon",
     "matmul",
     "ERROR: 0:31:5: 'x' : undeclared identifier",
     "sample.comp:31:5: 'x' : undeclared identifier" NOT_COMPILED(""),
     {SUM_LINE}},
    {"no column at all",
     "matmul",
     "ERROR: 0:31: something is wrong",
     "sample.comp:31: something is wrong" NOT_COMPILED(""),
     {SUM_LINE}},
    {"a lib",
     "matmul",
     "0:20006(12): error: `x' undeclared",
     "twice.glsl:6:18: `x' undeclared" NOT_COMPILED(""),
     {"    6 |     return 2.0 * x;\n"}},
    {"what directives become",
     "matmul",
     "0:40001(1): error: bad precision",
     "generated:1:1: bad precision" NOT_COMPILED(""),
     {"    1 | precision highp float;\n"}},
    {"beyond the end of the file",
     "matmul",
     "0:47(2): error: syntax error, unexpected end of file",
     "sample.comp:40: syntax error, unexpected end of file" NOT_COMPILED(""),
     {"   40 | }\n"}},
    {"several, warnings left out",
     "matmul",
     "0:30(3): warning: `row' used uninitialized\n0:31(5): error: `lane' undeclared\n"
     "0:33(9): error: `K' undeclared\n",
     "sample.comp:31:10: `lane' undeclared" NOT_COMPILED(", the first of 2 errors"),
     {SUM_LINE, "sample.comp:33:34: `K' undeclared\n", "   33 |     if (lane == 0u"}},
    {"the same one twice",
     "matmul",
     "0:31(5): error: `lane' undeclared\n0:31(5): error: `lane' undeclared\n",
     "sample.comp:31:10: `lane' undeclared" NOT_COMPILED(""),
     {SUM_LINE}},
    {"words without a place",
     "matmul",
     "Compile failed.\n\n  Too many registers \n",
     "sample.comp: kernel sample does not compile: Compile failed. | Too many registers\n",
     {NULL}},
    {"no words",
     "matmul",
     "",
     "kernel sample does not compile: the driver gives no reason\n",
     {NULL}},
    {"a name at line 0",
     "matmul",
     "0:0(0): error: Read from write-only variable `Y'\n",
     "sample.comp:8:21: Read from write-only variable `Y'" NOT_COMPILED(""),
     {"    8 | //! BIND write vec4 Y\n"}},
    {"the linker of Mesa",
     "matmul",
     "error: unresolved reference to function `weight_at'\n",
     "f16.glsl:1:7: unresolved reference to function `weight_at' (kernel sample does not link)\n",
     {"      |       ^\n"}},
    {"a linker that names a place",
     "matmul",
     "0(31) : error C3002: call to undefined function \"twice\"\n",
     "sample.comp:31:18: call to undefined function \"twice\" (kernel sample does not link)\n",
     {SUM_LINE}},
    {"a linker about no function",
     "matmul",
     "error: the driver's limit `MAX_COMPUTE' is passed\n",
     "sample.comp: kernel sample does not link: the driver's limit `MAX_COMPUTE' is passed\n",
     {NULL}},
};

static void words_case(void **state)
{
    const struct words_row *row = *state;
    const bool linking = strstr(row->error, "does not link");
    struct kernel_set *set = loaded_set(NULL);
    struct kernel_choice choice;
    struct dgl_buf text = {0};
    struct test_log log;
    const struct kernel_request request = {.op = row->op,
                                           .attrs = {{"weight", "f16"}, {"post", "add"}},
                                           .num_attrs = 2,
                                           .consts = {{"K", 256}},
                                           .num_consts = 1};
    test_log_init(&log, DGL_LOG_NOTICE);
    assert_int_equal(kernel_choose(NULL, set, &request, NULL, 0, &choice), DGL_OK);
    assert_int_equal(kernel_generate(NULL, &choice, &text), DGL_OK);
    assert_int_equal(kernel_fail_program(&log.log, &choice, (struct dgl_str){text.p, text.len},
                                         linking, row->words),
                     DGL_ERR_KERNEL);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, row->error);
    for (size_t i = 0; i < 4 && row->notices[i]; i++)
        assert_contains(log.text, row->notices[i]);
    assert_null(strstr(log.text, "uninitialized"));
    dgl_buf_finish(&text);
    kernel_set_destroy(&set);
}

/* ---- messages of drivers about texts that are not built in ---- */

#define OWN_KERNEL(line5, line7, line10)                                                           \
    "// One.\n//! NAME sample\n//! OP matmul\n//! VARIANT baseline\n" line5                        \
    "\n//! LOCAL 1\n" line7 "\nvoid body(uvec3 group)\n{\n" line10 "\n}\n"
#define OWN_TWICE(line4, line5)                                                                    \
    "// Two\n//! LET TWO = 1\n//! SHARED int pair[TWO]\n" line4 "\n" line5 "\n"
#define AT_USE "(at kernels/sample.comp:31; kernel sample does not compile"

/* A file of mine/, and the place in the message instead of the driver's place. */
static const struct given_row {
    const char *name;
    const char *path, *text, *words;
    const char *error, *notice; /* the whole error; NULL: no notice at all */
} given[] = {
    {"a name in a lib's macro", "mine/twice.glsl",
     OWN_TWICE("#define PLUS(x) ((x) + sun)", "#define twice(x) \\\n    PLUS(2.0 * (x))"),
     "0:31(40): error: `sun' undeclared", "mine/twice.glsl:4:24: `sun' undeclared " AT_USE ")\n",
     "    4 | #define PLUS(x) ((x) + sun)\n      |                        ^\n"},
    {"in each expansion of it", "mine/twice.glsl",
     OWN_TWICE("#define PLUS(x) ((x) + sun)", "#define twice(x) PLUS(PLUS(x))"),
     "0:31(40): error: `sun' undeclared\n0:31(50): error: `sun' undeclared\n",
     "mine/twice.glsl:4:24: `sun' undeclared " AT_USE ", the first of 2 errors)\n",
     "    4 | #define PLUS(x) ((x) + sun)\n      |                        ^\n"},
    {"another word about one place", "mine/twice.glsl",
     OWN_TWICE("#define PLUS(x) ((x) + sun)", "#define twice(x) PLUS(2.0 * (x))"),
     "0:31(40): error: `sun' undeclared\n0:31(40): error: wrong type\n",
     "mine/twice.glsl:4:24: `sun' undeclared " AT_USE ", the first of 2 errors)\n",
     "mine/twice.glsl:5: wrong type (at kernels/sample.comp:31)\n"},
    {"no name, a macro in a macro", "mine/twice.glsl",
     OWN_TWICE("#define PLUS(x) ((x) + )", "#define twice(x) PLUS(2.0 * (x))"),
     "0:31(40): error: syntax error, unexpected ')'",
     "mine/twice.glsl:5:16: syntax error, unexpected ')' " AT_USE ")\n",
     "    5 | #define twice(x) PLUS(2.0 * (x))\n"},
    {"no name, a macro of one line", "mine/twice.glsl",
     OWN_TWICE("", "#define twice(x) (2.0 * (x) + )"),
     "0:31(40): error: syntax error, unexpected ')'",
     "mine/twice.glsl:5:16: syntax error, unexpected ')' " AT_USE ")\n",
     "    5 | #define twice(x) (2.0 * (x) + )\n"},
    {"a function of other parameters", "mine/twice.glsl",
     OWN_TWICE("// twice()", "float twice(int x) { return 2.0; }"),
     "0:31(18): error: no matching function for call to `twice(float)'",
     "mine/twice.glsl:5: no matching function for call to `twice(float)' " AT_USE ")\n",
     "    5 | float twice(int x) { return 2.0; }\n"},
    {"a function that is gone", "mine/twice.glsl",
     OWN_TWICE("", "float thrice(float x) { return 3.0 * x; }"),
     "0:31(18): error: no function with name 'twice'",
     "mine/twice.glsl: at kernels/sample.comp:31:18: no function with name 'twice' (kernel sample "
     "does not compile)\n",
     SUM_LINE},
    {"words without a place", "mine/twice.glsl",
     OWN_TWICE("", "float twice(float x) { return x; }"), "Too many registers",
     "mine/twice.glsl: kernel sample does not compile: Too many registers\n", NULL},
    {"a line of the lib", "mine/twice.glsl", OWN_TWICE("", "float twice(float x) { return sun; }"),
     "0:20005(31): error: `sun' undeclared",
     "mine/twice.glsl:5:31: `sun' undeclared (kernel sample does not compile)\n",
     "    5 | float twice(float x) { return sun; }\n"},
    {"a macro of the kernel", "mine/sample.comp",
     OWN_KERNEL("//! GROUPS 1", "#define SUM sun", "    float a = SUM;"),
     "0(10) : error C1503: undefined variable \"sun\"",
     "mine/sample.comp:10: undefined variable \"sun\" (kernel sample does not compile)\n",
     "   10 |     float a = SUM;\n"},
    {"an argument of a macro", "mine/sample.comp",
     OWN_KERNEL("//! GROUPS 1", "#define SUM(x) (x)", "    float a = SUM(sun);"),
     "0:10(15): error: `sun' undeclared",
     "mine/sample.comp:10:19: `sun' undeclared (kernel sample does not compile)\n",
     "   10 |     float a = SUM(sun);\n"},
    {"a directive", "mine/sample.comp",
     OWN_KERNEL("//! PARAM float taken", "//! GROUPS 1", "    float a = 1.0;"),
     "ERROR: 0:10008: 'taken' : Reserved word",
     "mine/sample.comp:5:17: 'taken' : Reserved word (at generated:8; kernel sample does not "
     "compile)\n",
     "    5 | //! PARAM float taken\n"},
    {"a function of a lib without a body", "mine/twice.glsl",
     OWN_TWICE("// twice()", "float twice(float x);"),
     "error: unresolved reference to function `twice'\n",
     "mine/twice.glsl:5:7: unresolved reference to function `twice' (kernel sample does not "
     "link)\n",
     "    5 | float twice(float x);\n      |       ^\n"},
    {"its declaration after a macro with it", "mine/twice.glsl",
     OWN_TWICE("#define TWO_OF(x) (twice(x))", "float twice(float x);"),
     "error: unresolved reference to function `twice'\n",
     "mine/twice.glsl:5:7: unresolved reference to function `twice' (kernel sample does not "
     "link)\n",
     "    5 | float twice(float x);\n"},
    {"a function of a kernel without a body", "mine/sample.comp",
     OWN_KERNEL("//! GROUPS 1", "float sun(float x);", "    float a = sun(1.0);"),
     "error: unresolved reference to function `sun'\n",
     "mine/sample.comp:7:7: unresolved reference to function `sun' (kernel sample does not "
     "link)\n",
     "    7 | float sun(float x);\n"},
    {"recursion, which no line is told of", "mine/sample.comp",
     OWN_KERNEL("//! GROUPS 1", "float sun(float x)\n{\n    return sun(x);\n}",
                "    float a = sun(1.0);"),
     "0:0(0): error: function `float sun(float)' has static recursion\n",
     "mine/sample.comp:9:12: function `float sun(float)' has static recursion (kernel sample does "
     "not compile)\n",
     "    9 |     return sun(x);\n"},
    {"recursion by way of another", "mine/sample.comp",
     OWN_KERNEL("//! GROUPS 1",
                "float sun(float x);\nfloat moon(float x) { return sun(x); }\n"
                "float sun(float x) { return moon(x); }",
                "    float a = sun(1.0);"),
     "0:0(0): error: function `float sun(float)' has static recursion\n"
     "0:0(0): error: function `float moon(float)' has static recursion\n",
     "mine/sample.comp:8:30: function `float sun(float)' has static recursion (kernel sample does "
     "not compile, the first of 2 errors)\n",
     "    9 | float sun(float x) { return moon(x); }\n"},
    {"a name of what the generator writes", "mine/sample.comp",
     OWN_KERNEL("//! GROUPS 1", "//! LET local_size_x = 1", "    float a = 1.0;"),
     "0:10007(8): error: syntax error, unexpected INTCONSTANT",
     "mine/sample.comp:7: syntax error, unexpected INTCONSTANT (at generated:7; kernel sample does "
     "not compile)\n",
     "    7 | //! LET local_size_x = 1\n"},
    {"a linker about nothing of the file", "mine/twice.glsl",
     OWN_TWICE("", "float twice(float x) { return x; }"), "error: too many uniforms\n",
     "mine/twice.glsl: kernel sample does not link: too many uniforms\n", NULL},
};

static void given_case(void **state)
{
    const struct given_row *row = *state;
    const bool linking = strstr(row->error, "does not link");
    const char *const dirs[] = {"mine"};
    const struct dgl_kernel_text file = {row->path, row->text, strlen(row->text)};
    struct kernel_set *set = loaded_set(
        &(struct dgl_kernels_params){.dirs = dirs, .num_dirs = 1, .texts = &file, .num_texts = 1});
    struct kernel_choice choice;
    struct dgl_buf text = {0};
    struct test_log log;
    const struct kernel_request request = {.op = "matmul",
                                           .attrs = {{"weight", "f16"}, {"post", "add"}},
                                           .num_attrs = 2,
                                           .consts = {{"K", 256}},
                                           .num_consts = 1};
    test_log_init(&log, DGL_LOG_NOTICE);
    assert_int_equal(kernel_choose(NULL, set, &request, NULL, 0, &choice), DGL_OK);
    assert_int_equal(kernel_generate(NULL, &choice, &text), DGL_OK);
    assert_int_equal(kernel_fail_program(&log.log, &choice, (struct dgl_str){text.p, text.len},
                                         linking, row->words),
                     DGL_ERR_KERNEL);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, row->error);
    assert_ptr_equal(strstr(log.text, row->error), log.text);
    if (row->notice)
        assert_contains(log.text, row->notice);
    else
        assert_string_equal(log.text, row->error);
    dgl_buf_finish(&text);
    kernel_set_destroy(&set);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_comes_first),
        cmocka_unit_test(equal_requests_give_equal_texts),
        cmocka_unit_test(step_indices_are_those_of_the_structure),
        cmocka_unit_test(text_has_the_libs_of_the_choice),
        cmocka_unit_test(messages_name_the_line_of_the_file),
        cmocka_unit_test(messages_name_the_line_of_the_lib),
    };
    int failed = test_run_table("kernel_gen_pieces", text_holds_piece, pieces);
    failed += test_run_table("kernel_gen_valid", text_is_valid, valid);
    failed += test_run_table("kernel_gen_words", words_case, words);
    failed += test_run_table("kernel_gen_given", given_case, given);
    return failed + cmocka_run_group_tests_name("kernel_gen", tests, NULL, NULL);
}
