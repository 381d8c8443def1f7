/* Choice of kernels: rules of the device, ranks, hints by layer, the user's files, reasons. The
 * built-in kernels are replaced by kernels of this file. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "kernels/kernels.h"
#include "kernels/set/embedded.h"
#include "tests/support/kernel_sets.h"

#define KERNEL(name, op, variant, lines)                                                           \
    "// Summary\n//! NAME " name "\n//! OP " op "\n//! VARIANT " variant "\n" lines                \
    "void body(uvec3 group)\n{\n}\n"
#define SMALL "//! LOCAL 64\n//! GROUPS 1\n"

#define BUILTIN(name, op, variant, lines)                                                          \
    {                                                                                              \
        name ".comp", KERNEL(name, op, variant, lines),                                            \
            sizeof(KERNEL(name, op, variant, lines)) - 1                                           \
    }

static const char big_lib[] = "//! LET ROOM = 1000 * SIZE\n//! SHARED vec4 room[ROOM]\n";
static const char small_lib[] = "//! SHARED vec2 pair[HALF_X]\n//! SHARED ivec3 tail\n";
static const char tail_lib[] = "//! LET LAST = SIZE + LOCAL_X\n";

/* Takes the place of the library's own table. */
const struct kernel_embedded kernel_embedded[] = {
    BUILTIN("mm", "matmul", "baseline",
            "//! WHEN weight f16 q4_k\n//! WHEN phase decode prefill\n//! CONST N K\n"
            "//! TUNE ROWS = SOFTWARE ? 1 : 4 in 1 2 4\n//! LOCAL 32 ROWS\n"
            "//! GROUPS ceildiv(BAND, ROWS) T\n//! SHARED float part[LOCAL_X]\n//! PREFER 10\n"),
    BUILTIN("mm_sub", "matmul", "gemv_subgroup",
            "//! WHEN weight f16\n//! WHEN phase decode\n//! CONST N K\n" SMALL
            "//! REQUIRE SUBGROUP_SIZE >= 8\n//! PREFER 20\n"
            "//! EXTENSION GL_KHR_shader_subgroup_arithmetic\n"),
    BUILTIN("mm_half", "matmul", "half",
            "//! WHEN weight f16\n//! WHEN phase decode\n" SMALL
            "//! PRECISION f16\n//! PREFER 99\n//! EXTENSION GL_f16\n"),
    BUILTIN("attn_stream", "attn_decode", "baseline streaming",
            "//! WHEN kv f16 f32\n" SMALL "//! CONST SPLITS = 1\n"),
    BUILTIN("attn_tiled", "attn_decode", "tiled_large",
            "//! WHEN kv f16\n//! LOCAL 128\n//! GROUPS 1\n//! SHARED vec4 tile[2048]\n//! PREFER "
            "30\n"),
    BUILTIN("attn_one", "attn_token", "subgroup",
            SMALL "//! CONST ROPE\n//! EXTENSION GL_KHR_shader_subgroup_arithmetic\n"),
    BUILTIN("attn_pre", "attn_prefill", "streaming tiled_large", SMALL),
    /* one kernel per rule of the device */
    BUILTIN("wide", "r_wide", "v", "//! LOCAL 129\n//! GROUPS 1\n"),
    BUILTIN("cube", "r_cube", "v", "//! LOCAL 16 16 16\n//! GROUPS 1\n"),
    BUILTIN("deep", "r_deep", "v", "//! LOCAL 1 1 65\n//! GROUPS 1\n"),
    BUILTIN("zero", "r_zero", "v", "//! CONST L\n//! LOCAL L\n//! GROUPS 1\n"),
    BUILTIN("shared", "r_shared", "v", SMALL "//! SHARED int a[4096]\n//! SHARED int b\n"),
    BUILTIN("lib_shared", "r_lib", "v",
            "//! WHEN w small big\n//! LET SIZE = 2 * HALF\n//! LOCAL 64\n//! LET HALF_X = LOCAL_X "
            "/ 2\n"
            "//! GROUPS SIZE\n//! SHARED float a[3]\n//! SHARED vec4 b[SIZE]\n//! SHARED uint "
            "c[W_big]\n"
            "//! LIB {w}_lib\n//! LIB tail\n//! TUNE HALF = 8 in 8 16\n//! REQUIRE HALF_X == 32\n"),
    BUILTIN("negative", "r_negative", "v", SMALL "//! CONST L\n//! SHARED float a[L]\n"),
    BUILTIN("let", "r_let", "v", SMALL "//! CONST L\n//! LET A = 8 / L\n"),
    {"lib/big_lib.glsl", big_lib, sizeof(big_lib) - 1},
    {"lib/small_lib.glsl", small_lib, sizeof(small_lib) - 1},
    {"lib/tail.glsl", tail_lib, sizeof(tail_lib) - 1},
    BUILTIN("binds", "r_binds", "v",
            SMALL "//! BIND read uint A\n//! BIND read uint B\n//! BIND read uint C\n"
                  "//! BIND read uint D\n//! BIND read uint E\n"),
    BUILTIN("require", "r_require", "v", SMALL "//! REQUIRE COMPUTE_UNITS > 2\n"),
    BUILTIN("divide", "r_divide", "v", SMALL "//! CONST L\n//! REQUIRE 8 / L\n"),
    BUILTIN("tune", "r_tune", "v", SMALL "//! CONST L\n//! TUNE A = L in 1 2 4\n"),
    BUILTIN("lanes", "r_lanes", "v",
            "//! EXTENSION GL_KHR_shader_subgroup_basic\n//! TUNE A = SUBGROUP_SIZE in 8 32\n"
            "//! LOCAL A\n//! GROUPS 1\n"),
    BUILTIN("attr", "r_attr", "v", SMALL "//! WHEN act none silu\n//! WHEN post glu\n"),
    BUILTIN("packed", "r_layout", "v", SMALL "//! WHEN weight q8_0 q4_k\n//! LAYOUT tiled\n"),
    BUILTIN("usual", "r_layout", "w", SMALL "//! WHEN weight q8_0 q4_k\n"),
    BUILTIN("equal_a", "r_equal", "v", SMALL "//! PREFER 5\n"),
    BUILTIN("equal_b", "r_equal", "w", SMALL "//! PREFER 5\n"),
    BUILTIN("rank", "r_rank", "v", SMALL "//! WHEN w a b\n//! PREFER W_a ? 10 : -10\n"),
    BUILTIN("rank_b", "r_rank", "w", SMALL),
    /* a tunable with a value that the minimum device cannot have, beside a kernel of lower rank */
    BUILTIN("sized", "r_sized", "v",
            "//! CONST N\n//! TUNE WG = 32 in 32 64 256\n//! TUNE ROWS = 1 in 1 2 4\n"
            "//! LOCAL WG\n//! GROUPS ceildiv(BAND, ROWS)\n//! PREFER 5\n"),
    BUILTIN("sized_low", "r_sized", "w", SMALL),
    /* registers */
    BUILTIN("regs_many", "r_regs", "many", SMALL "//! PREFER 20\n//! REGISTERS 100\n"),
    BUILTIN("regs_some", "r_regs", "some", SMALL "//! PREFER 10\n//! REGISTERS LOCAL_X + 16\n"),
    BUILTIN("regs_few", "r_regs", "few", SMALL "//! PREFER 5\n//! REGISTERS 40\n"),
    BUILTIN("regs_none", "r_regs", "none", SMALL),
    BUILTIN("regs_only", "r_regs_only", "v", SMALL "//! REGISTERS 100\n"),
    BUILTIN("regs_a", "r_regs_all", "v", SMALL "//! PREFER 1\n//! REGISTERS 70\n"),
    BUILTIN("regs_b", "r_regs_all", "w", SMALL "//! PREFER 2\n//! REGISTERS 90\n"),
    BUILTIN("regs_flow", "r_regs_flow", "v",
            SMALL "//! CONST L\n//! REGISTERS 9223372036854775807 + L\n"),
    BUILTIN("half_many", "matmul", "half",
            "//! WHEN weight f16\n//! WHEN phase prefill\n" SMALL
            "//! PRECISION f16\n//! PREFER 99\n//! REGISTERS 100\n"),
    {NULL, NULL, 0},
};

static const struct kernel_var big_gpu[] = {
    {"SUBGROUP_SIZE", 32}, {"SHARED_BYTES", 49152}, {"MAX_INVOCATIONS", 1024},
    {"MAX_LOCAL_X", 1024}, {"MAX_LOCAL_Y", 1024},   {"MAX_LOCAL_Z", 64},
    {"MAX_SSBO", 16},      {"COMPUTE_UNITS", 132},  {"HAS_GL_KHR_shader_subgroup_arithmetic", 1},
    {"HAS_GL_f16", 1}};
static const struct kernel_var software[] = {{"SOFTWARE", 1}, {"LLVMPIPE", 1}};

struct device {
    const struct kernel_var *properties;
    size_t count;
};
static const struct kernel_var few[] = {{"REGISTERS", 64}};
static const struct device minimum = {NULL, 0}, big = {big_gpu, sizeof(big_gpu) / sizeof(*big_gpu)},
                           soft = {software, 2}, few_registers = {few, 1};

/* Parses "op key=word key=word NAME:value", a request in one line. Uses static memory, which every
 * second call reuses. */
static struct kernel_request parse_request(const char *line)
{
    static char texts[2][256];
    static int calls;
    char *text = texts[calls++ % 2];
    struct kernel_request r = {0};
    char *save = NULL;
    snprintf(text, sizeof(texts[0]), "%s", line);
    r.op = strtok_r(text, " ", &save);
    for (char *word; (word = strtok_r(NULL, " ", &save));) {
        char *equals = strchr(word, '='), *colon = strchr(word, ':');
        if (equals) {
            *equals = '\0';
            r.attrs[r.num_attrs++] = (struct kernel_attr){word, equals + 1};
        } else if (colon) {
            *colon = '\0';
            r.consts[r.num_consts++] = (struct kernel_var){word, strtoll(colon + 1, NULL, 10)};
        }
    }
    return r;
}

/* Checks the choice, or the error message, for one request. `wanted` is the kernel's name and
 * `text` a part of its reason. If `wanted` is NULL, `text` is a part of the message. */
static void assert_choice_in(const struct kernel_set *set, const struct device *device,
                             const char *line, const char *wanted, const char *text)
{
    static struct kernel_choice choice;
    struct test_log log;
    const struct kernel_request request = parse_request(line);
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status =
        kernel_choose(&log.log, set, &request, device->properties, device->count, &choice);
    if (!wanted) {
        const bool of_text = strstr(text, ".comp:") != NULL; /* a line of a file is at fault */
        assert_int_equal(status, of_text ? DGL_ERR_KERNEL : DGL_ERR_UNSUPPORTED);
        assert_int_equal(log.errors, 1);
        assert_contains(log.text, text);
        return;
    }
    if (status != DGL_OK)
        fail_msg("%s", log.text);
    assert_string_equal(choice.kernel->name, wanted);
    assert_contains(choice.reason, text);
}

struct choose_case {
    const char *name;
    const struct device *device;
    const char *request;
    const char *wanted; /* kernel; NULL: refused */
    const char *text;   /* part of the reason or of the message */
};

/* The same with layers of hints. */
struct hint_case {
    struct choose_case c;
    const char *hints, *profile;   /* --kernel-hints, --kernel-profile */
    const char *pinned, *defaults; /* of the manifest */
};

#define F16    "matmul weight=f16 phase=decode N:100 K:64"
#define Q4K    "matmul weight=q4_k phase=decode N:100 K:64"
#define DECODE "attn_decode kv=f16"

#define PREFILL "matmul weight=f16 phase=prefill N:100 K:64"

static const struct choose_case plain[] = {
    /* registers */
    {"registers that suffice", &big, "r_regs", "regs_many", "preferred: 20 over regs_some (10)"},
    {"larger kernels rank below one that fits", &few_registers, "r_regs", "regs_few",
     "preferred: 5 over regs_none (0); regs_many (20) would spill: it needs 100 registers"},
    {"a kernel without rivals spills", &few_registers, "r_regs_only", "regs_only",
     "the only one that can run; it spills: it needs 100 registers, REGISTERS is 64"},
    {"all spill", &few_registers, "r_regs_all", "regs_b",
     "preferred: 2 over regs_a (1); it spills: it needs 90 registers, REGISTERS is 64"},
    {"registers that overflow", &big, "r_regs_flow L:1", NULL,
     "regs_flow: REGISTERS cannot be evaluated: overflow with L=1"},
    /* heuristics */
    {"highest rank", &big, F16, "mm_sub", "preferred: 20 over mm (10)"},
    {"what cannot run is passed over", &minimum, F16, "mm",
     "the only one that can run; passed over: mm_sub: EXTENSION GL_KHR_shader_subgroup_arithmetic "
     "is absent: the device has no subgroups"},
    {"only one serves", &big, Q4K, "mm", "the only one that can run"},
    {"other phase", &big, "matmul weight=f16 phase=prefill N:1 K:1", "mm", "the only one"},
    {"equal ranks", &big, "r_equal", "equal_a", "preferred: 5 over equal_b (5)"},
    {"rank by attribute", &big, "r_rank w=a", "rank", "10 over rank_b (0)"},
    {"rank by attribute, the other", &big, "r_rank w=b", "rank_b", "0 over rank (-10)"},
    /* attributes and constants */
    {"unknown operation", &big, "conv", NULL, "no kernel can run conv: none has that operation"},
    {"unknown word", &big, "matmul weight=q5 phase=decode N:1 K:1", NULL,
     "no kernel can run matmul weight=q5 phase=decode: mm: WHEN weight f16 q4_k, not q5"},
    {"absent attribute", &big, "matmul weight=f16 N:1 K:1", NULL,
     "mm: WHEN phase decode prefill, not none"},
    {"absent attribute that may be none", &big, "r_attr post=glu", "attr", ""},
    {"attribute of another word", &big, "r_attr post=glu act=gelu", NULL,
     "attr: WHEN act none silu, not gelu"},
    {"attribute that nobody mentions", &big, "r_attr post=glu x=y", "attr", ""},
    {"constant not given", &minimum, "matmul weight=f16 phase=decode N:1", NULL,
     "mm: CONST K is not given"},
    {"constant with a default", &minimum, DECODE, "attn_stream", "the only one"},
    /* how weights lie in memory */
    {"layout tiled", &big, "r_layout weight=q4_k layout=tiled", "packed", "the only one"},
    {"usual layout", &big, "r_layout weight=q4_k layout=split", "usual", "the only one"},
    {"usual layout of q8_0", &big, "r_layout weight=q8_0 layout=split", "usual", "the only one"},
    {"layout that nobody reads", &big, "r_layout weight=q8_0 layout=native", NULL,
     "packed: LAYOUT tiled, not native; usual: LAYOUT split, not native"},
    {"layout left open", &big, "r_layout weight=q8_0", "packed", "preferred: 0 over usual (0)"},
    /* rules of the device */
    {"side of the local size", &minimum, "r_wide", NULL,
     "wide: LOCAL_X is 129, MAX_LOCAL_X is 128"},
    {"product of the local size", &big, "r_cube", NULL,
     "cube: LOCAL has 4096 invocations or more, MAX_INVOCATIONS is 1024"},
    {"depth of the local size", &big, "r_deep", NULL, "deep: LOCAL_Z is 65, MAX_LOCAL_Z is 64"},
    {"local size of zero", &big, "r_zero L:0", NULL, "zero: LOCAL_X is 0"},
    {"negative local size", &big, "r_zero L:-1", NULL, "zero: LOCAL_X is -1"},
    {"shared memory of a lib", &minimum, "r_lib w=big", NULL,
     "lib_shared: SHARED is 256288, SHARED_BYTES is 16384"},
    {"array of less than no elements", &minimum, "r_negative L:-1", NULL,
     "negative: SHARED a has -1 elements"},
    {"array of no elements", &minimum, "r_negative L:0", "negative", ""},
    {"array of too many elements", &minimum, "r_negative L:99999999999", NULL,
     "negative: SHARED a has 99999999999 elements"},
    {"derived constant that cannot be evaluated", &minimum, "r_let L:0", NULL,
     "let: A cannot be evaluated: division by zero"},
    {"shared memory", &minimum, "r_shared", NULL, "shared: SHARED is 16388, SHARED_BYTES is 16384"},
    {"shared memory of a larger device", &big, "r_shared", "shared", ""},
    {"number of buffers", &minimum, "r_binds", NULL, "binds: it has 5 BINDs, MAX_SSBO is 4"},
    {"number of buffers of a larger device", &big, "r_binds", "binds", ""},
    {"REQUIRE", &minimum, "r_require", NULL, "require: REQUIRE COMPUTE_UNITS > 2"},
    {"REQUIRE on a larger device", &big, "r_require", "require", ""},
    {"division by zero", &big, "r_divide L:0", NULL,
     "divide: REQUIRE cannot be evaluated: division by zero with L=0"},
    {"tunable of an extension that is absent", &minimum, "r_lanes", NULL,
     "lanes: EXTENSION GL_KHR_shader_subgroup_basic is absent: the device has no subgroups"},
    {"preset that is no choice", &big, "r_tune L:3", NULL,
     "tune: TUNE A: the preset is 3 with L=3, which is not one of its choices"},
    {"preset that is a choice", &big, "r_tune L:4", "tune", ""},
};

static const struct hint_case hinted[] = {
    {{"a kernel that spills, by name", &few_registers, "r_regs", "regs_many",
      "hint variants.r_regs=regs_many (--kernel-hints); it spills: it needs 100 registers"},
     .hints = "{\"variants\":{\"r_regs\":\"regs_many\"}}"},
    {{"f16 that spills, by name", &few_registers, PREFILL, "half_many", "it spills: it needs 100"},
     .hints = "{\"variants\":{\"matmul\":\"half_many\"}}"},
    {{"f16 that fits", &big, PREFILL, "half_many", "hint computePrecision=f16"},
     .hints = "{\"computePrecision\":\"f16\"}"},
    {{"f16 that would spill", &few_registers, PREFILL, "mm",
      "hint computePrecision=f16 (--kernel-hints) does not apply here: half_many: it would spill: "
      "it needs 100 registers, REGISTERS is 64"},
     .hints = "{\"computePrecision\":\"f16\"}"},
    {{"f16 that would spill, strictly", &few_registers, PREFILL, NULL,
      "half_many: it would spill: it needs 100 registers, REGISTERS is 64; choose another value"},
     .hints = "{\"computePrecision\":\"f16\",\"strict\":true}"},
    /* the five hints */
    {{"attentionDecode by alias", &big, DECODE, "attn_stream",
      "hint attentionDecode=streaming (--kernel-hints)"},
     .hints = "{\"attentionDecode\":\"streaming\"}"},
    {{"attentionDecode auto", &big, DECODE, "attn_tiled", "preferred: 30"},
     .hints = "{\"attentionDecode\":\"auto\"}"},
    {{"attentionDecode that cannot run", &minimum, DECODE, NULL,
      "the hint attentionDecode=tiled_large (--kernel-hints) cannot be met for attn_decode kv=f16: "
      "attn_tiled: SHARED is 32768, SHARED_BYTES is 16384; choose another value or auto"},
     .hints = "{\"attentionDecode\":\"tiled_large\"}"},
    {{"attentionDecode of another cache", &big, "attn_decode kv=f32", NULL,
      "attn_tiled: WHEN kv f16, not f32"},
     .hints = "{\"attentionDecode\":\"tiled_large\"}"},
    {{"attentionDecode that nobody is", &big, DECODE, NULL,
      "no kernel of attn_decode is of that kind"},
     .hints = "{\"attentionDecode\":\"tiled_small\"}"},
    {{"attentionDecode of another operation, which the device lacks", &minimum, DECODE, NULL,
      "(--kernel-hints) cannot be met for attn_decode kv=f16: attn_one: EXTENSION "
      "GL_KHR_shader_subgroup_arithmetic is absent: the device has no subgroups; choose"},
     .hints = "{\"attentionDecode\":\"subgroup\"}"},
    {{"attentionDecode of another operation, switched off", &big, DECODE, NULL,
      ": attn_one: EXTENSION GL_KHR_shader_subgroup_arithmetic is switched off by the hint "
      "disableFeatures (--kernel-hints); choose"},
     .hints = "{\"attentionDecode\":\"subgroup\",\"disableFeatures\":[\"subgroups\"]}"},
    {{"attentionDecode of another operation", &big, DECODE, NULL,
      ": attn_one: for attn_token only; choose"},
     .hints = "{\"attentionDecode\":\"subgroup\"}"},
    {{"attentionDecode is not for prefill", &big, "attn_prefill", "attn_pre", "the only one"},
     .hints = "{\"attentionDecode\":\"tiled_small\"}"},
    {{"attentionPrefill", &big, "attn_prefill", "attn_pre", "hint attentionPrefill=streaming"},
     .hints = "{\"attentionPrefill\":\"streaming\"}"},
    {{"attentionPrefill is not for decode", &big, DECODE, "attn_tiled", "preferred"},
     .hints = "{\"attentionPrefill\":\"tiled_small\"}"},
    {{"f16Matmul", &big, F16, "mm_sub", "hint f16Matmul=gemv_subgroup"},
     .hints = "{\"f16Matmul\":\"gemv_subgroup\"}"},
    {{"f16Matmul without subgroups", &soft, F16, NULL,
      "mm_sub: EXTENSION GL_KHR_shader_subgroup_arithmetic is absent"},
     .hints = "{\"f16Matmul\":\"gemv_subgroup\"}"},
    {{"f16Matmul with subgroups switched off", &big, F16, NULL,
      "mm_sub: EXTENSION GL_KHR_shader_subgroup_arithmetic is switched off by the hint "
      "disableFeatures (--kernel-hints)"},
     .hints = "{\"f16Matmul\":\"gemv_subgroup\",\"disableFeatures\":[\"subgroups\"]}"},
    {{"f16Matmul is not for q4_k", &soft, Q4K, "mm", "the only one"},
     .hints = "{\"f16Matmul\":\"gemv_subgroup\"}"},
    {{"f16Matmul is not for prefill", &soft, "matmul weight=f16 phase=prefill N:1 K:1", "mm",
      "the only one"},
     .hints = "{\"f16Matmul\":\"gemv_subgroup\"}"},
    {{"q4kMatmul fused", &big, Q4K, "mm", "hint q4kMatmul=fused_q4k"},
     .hints = "{\"q4kMatmul\":\"fused_q4k\"}"},
    {{"q4kMatmul unpacked", &big, Q4K, NULL,
      "q4kMatmul=dequant_f16 (--kernel-hints) cannot be met for matmul weight=q4_k phase=decode: "
      "the weights are still packed"},
     .hints = "{\"q4kMatmul\":\"dequant_f16\"}"},
    {{"q4kMatmul unpacked is met by f16", &minimum, F16, "mm", "the only one"},
     .hints = "{\"q4kMatmul\":\"dequant_f16\"}"},
    {{"q4kMatmul gemv_subgroup", &big, Q4K, NULL, "mm_sub: WHEN weight f16, not q4_k"},
     .hints = "{\"q4kMatmul\":\"gemv_subgroup\"}"},
    {{"computePrecision f16", &big, F16, "mm_half", "hint computePrecision=f16"},
     .hints = "{\"computePrecision\":\"f16\"}"},
    {{"computePrecision f16 without support", &minimum, F16, "mm",
      "; hint computePrecision=f16 (--kernel-hints) does not apply here: mm_half: EXTENSION GL_f16 "
      "is absent"},
     .hints = "{\"computePrecision\":\"f16\"}"},
    {{"computePrecision f16 without support, strictly", &minimum, F16, NULL,
      "the hint computePrecision=f16 (--kernel-hints) cannot be met for matmul weight=f16 "
      "phase=decode: mm_half: EXTENSION GL_f16 is absent"},
     .hints = "{\"computePrecision\":\"f16\",\"strict\":true}"},
    {{"computePrecision f16 where no kernel has it", &big, Q4K, "mm", "the only one that can run"},
     .hints = "{\"computePrecision\":\"f16\"}"},
    {{"computePrecision f16 hides nothing where no kernel has it", &big, Q4K, "mm",
      "hint variants.matmul=mm (manifest)"},
     .hints = "{\"computePrecision\":\"f16\",\"strict\":true}",
     .defaults = "{\"variants\":{\"matmul\":\"mm\"}}"},
    {{"computePrecision f32", &big, F16, "mm_sub", "preferred"},
     .hints = "{\"computePrecision\":\"f32\"}"},
    {{"computePrecision f16 is about matmul", &minimum, DECODE, "attn_stream", "the only one"},
     .hints = "{\"computePrecision\":\"f16\"}"},
    {{"f16 kernel by its name", &big, F16, "mm_half", "hint variants.matmul=mm_half"},
     .hints = "{\"variants\":{\"matmul\":\"mm_half\"}}"},
    /* variants */
    {{"variant by name", &big, F16, "mm", "hint variants.matmul=mm (--kernel-hints)"},
     .hints = "{\"variants\":{\"matmul\":\"mm\"}}"},
    {{"variant by word", &big, F16, "mm", "hint variants.matmul/decode=baseline"},
     .hints = "{\"variants\":{\"matmul/decode\":\"baseline\"}}"},
    {{"variant of another word", &big, F16, "mm_sub", "preferred"},
     .hints = "{\"variants\":{\"matmul/prefill\":\"mm\"}}"},
    {{"variant of two words", &big, F16, "mm", "matmul/f16/decode"},
     .hints = "{\"variants\":{\"matmul/f16/decode\":\"mm\"}}"},
    {{"more words decide", &big, F16, "mm", "matmul/decode"},
     .hints = "{\"variants\":{\"matmul/decode\":\"mm\",\"matmul\":\"mm_sub\"}}"},
    {{"more words auto", &big, F16, "mm", "variants.matmul=mm"},
     .hints = "{\"variants\":{\"matmul/decode\":\"auto\",\"matmul\":\"mm\"}}"},
    {{"variant decides over the five", &big, DECODE, "attn_stream", "variants.attn_decode"},
     .hints =
         "{\"variants\":{\"attn_decode\":\"attn_stream\"},\"attentionDecode\":\"tiled_large\"}"},
    {{"variant that serves others says nothing", &big, Q4K, "mm",
      "hint variants.matmul=mm_sub (--kernel-hints) does not apply here: mm_sub: WHEN weight f16, "
      "not q4_k"},
     .hints = "{\"variants\":{\"matmul\":\"mm_sub\"}}"},
    {{"variant that cannot run", &minimum, F16, NULL,
      "the hint variants.matmul=mm_sub (--kernel-hints) cannot be met"},
     .hints = "{\"variants\":{\"matmul\":\"mm_sub\"}}"},
    /* layers */
    {{"profile that cannot be met", &minimum, F16, "mm",
      "(--kernel-profile fast) does not apply here: mm_sub: "},
     .profile = "fast"},
    {{"second hint of a profile that cannot be met", &minimum, F16, "mm",
      "; hint computePrecision=f16 (--kernel-profile fast) does not apply here: mm_half: "},
     .profile = "fast"},
    {{"profile that can be met", &big, "attn_prefill", "attn_pre",
      "hint attentionPrefill=tiled_large (--kernel-profile fast)"},
     .profile = "fast"},
    {{"profile with packed weights", &big, Q4K, "mm", "the weights are still packed"},
     .profile = "fast"},
    {{"defaults that cannot be met", &minimum, DECODE, "attn_stream",
      "hint attentionDecode=tiled_large (manifest) does not apply here: attn_tiled: SHARED"},
     .defaults = "{\"attentionDecode\":\"tiled_large\"}"},
    {{"defaults of another operation that cannot be met", &minimum, DECODE, "attn_stream",
      "hint attentionDecode=subgroup (manifest) does not apply here: attn_one: EXTENSION "
      "GL_KHR_shader_subgroup_arithmetic is absent"},
     .defaults = "{\"attentionDecode\":\"subgroup\"}"},
    {{"defaults that can be met", &big, DECODE, "attn_stream", "(manifest)"},
     .defaults = "{\"attentionDecode\":\"streaming\"}"},
    {{"pinned that cannot be met", &minimum, DECODE, NULL, "(manifest (pinned)) cannot be met"},
     .pinned = "{\"attentionDecode\":\"tiled_large\"}"},
    {{"pinned beats defaults", &big, DECODE, "attn_stream", "(manifest (pinned))"},
     .pinned = "{\"attentionDecode\":\"streaming\"}",
     .defaults = "{\"attentionDecode\":\"tiled_large\"}"},
    {{"profile beats pinned", &big, "attn_prefill", "attn_pre", "profile fast"},
     .profile = "fast",
     .pinned = "{\"attentionPrefill\":\"streaming\"}"},
    {{"hints beat profile", &big, DECODE, "attn_tiled", "(--kernel-hints)"},
     .hints = "{\"attentionDecode\":\"tiled_large\"}",
     .profile = "fast"},
    {{"auto above hides what is below", &big, DECODE, "attn_tiled", "preferred"},
     .hints = "{\"attentionDecode\":\"auto\"}",
     .pinned = "{\"attentionDecode\":\"streaming\"}"},
    {{"higher layer beats more words", &big, DECODE, "attn_stream", "attentionDecode=streaming"},
     .hints = "{\"attentionDecode\":\"streaming\"}",
     .pinned = "{\"variants\":{\"attn_decode/f16\":\"attn_tiled\"}}"},
};

static void request_gives_kernel(void **state)
{
    const struct choose_case *c = *state;
    struct kernel_set *set = loaded_set(NULL);
    assert_choice_in(set, c->device, c->request, c->wanted, c->text);
    kernel_set_destroy(&set);
}

static void hints_give_kernel(void **state)
{
    const struct hint_case *h = *state;
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.hints = h->hints, .profile = h->profile));
    struct kernel_set *with = NULL;
    assert_int_equal(kernel_set_with_manifest(
                         NULL, set,
                         &(const struct kernel_manifest_hints){"pack", h->defaults, h->pinned},
                         &with),
                     DGL_OK);
    assert_choice_in(with, h->c.device, h->c.request, h->c.wanted, h->c.text);
    kernel_set_destroy(&with);
    kernel_set_destroy(&set);
}

/* ---- f16 for a whole model ---- */

/* Two steps of a model, with computePrecision=f16 among the hints. */
struct model_case {
    const char *name;
    const struct device *device;
    const char *requests[2], *wanted[2]; /* and the kernels that serve them */
    const char *hints, *profile;
    const char *refused; /* part of the message for the model, or NULL */
};

#define CANNOT                                                                                     \
    "the hint computePrecision=f16 (--kernel-hints) cannot be met for any product of the model: "

static const struct model_case models[] = {
    {"f16 of one product",
     &big,
     {F16, Q4K},
     {"mm_half", "mm"},
     "{\"computePrecision\":\"f16\"}",
     NULL,
     NULL},
    {"f16 of one product, strictly",
     &big,
     {F16, Q4K},
     {"mm_half", "mm"},
     "{\"computePrecision\":\"f16\",\"strict\":true}",
     NULL,
     NULL},
    {"f16 that the device lacks",
     &minimum,
     {Q4K, F16},
     {"mm", "mm"},
     "{\"computePrecision\":\"f16\"}",
     NULL,
     CANNOT "mm_half: EXTENSION GL_f16 is absent; choose"},
    {"f16 of a profile that the device lacks",
     &minimum,
     {Q4K, F16},
     {"mm", "mm"},
     NULL,
     "fast",
     NULL},
    {"f16 of no product",
     &big,
     {Q4K, DECODE},
     {"mm", "attn_tiled"},
     "{\"computePrecision\":\"f16\"}",
     NULL,
     CANNOT "no kernel of PRECISION f16 is for one; choose"},
    {"f16 of a profile and of no product",
     &big,
     {Q4K, DECODE},
     {"mm", "attn_tiled"},
     NULL,
     "fast",
     NULL},
    {"f16 that a hint for fewer steps beats",
     &big,
     {F16, Q4K},
     {"mm", "mm"},
     "{\"computePrecision\":\"f16\",\"variants\":{\"matmul\":\"mm\"}}",
     NULL,
     NULL},
    {"no f16", &minimum, {F16, Q4K}, {"mm", "mm"}, "{\"computePrecision\":\"f32\"}", NULL, NULL},
};

static void f16_is_refused_for_a_model_without_it(void **state)
{
    const struct model_case *c = *state;
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.hints = c->hints, .profile = c->profile));
    struct kernel_request requests[2];
    static struct kernel_choice choices[2];
    const struct kernel_step steps[2] = {{&requests[0], &choices[0]}, {&requests[1], &choices[1]}};
    struct test_log log;
    test_log_init(&log, DGL_LOG_NOTICE);
    for (int i = 0; i < 2; i++) {
        requests[i] = parse_request(c->requests[i]);
        assert_int_equal(kernel_choose(&log.log, set, &requests[i], c->device->properties,
                                       c->device->count, &choices[i]),
                         DGL_OK);
        assert_string_equal(choices[i].kernel->name, c->wanted[i]);
    }
    assert_int_equal(kernel_set_check_unused(&log.log, set, steps, 2, false),
                     c->refused ? DGL_ERR_UNSUPPORTED : DGL_OK);
    if (c->refused)
        assert_contains(log.text, c->refused);
    else
        assert_string_equal(log.text, "");
    kernel_set_destroy(&set);
}

/* ---- kernels that a user adds ---- */

struct added_case {
    const char *name;
    const char *lines; /* of the added kernel mm_user */
    const char *request;
    const char *hints, *profile, *config;
    const char *wanted, *text;
};

static const struct added_case added[] = {
    {"added kernel wins", SMALL, F16, NULL, NULL, NULL, "mm_user", "file "},
    {"added kernel with a low rank wins", SMALL "//! PREFER -5\n", F16, NULL, NULL, NULL, "mm_user",
     "file "},
    {"added kernel beats the config file", SMALL, F16, NULL, NULL,
     "{\"variants\":{\"matmul\":\"mm\"}}", "mm_user", "file "},
    {"profile beats an added kernel", SMALL, F16, NULL, "fast", NULL, "mm_sub", "profile fast"},
    {"hint beats an added kernel", SMALL, F16, "{\"variants\":{\"matmul\":\"mm\"}}", NULL, NULL,
     "mm", "hint"},
    {"config file decides what it does not serve", SMALL "//! WHEN weight q4_k\n", F16, NULL, NULL,
     "{\"variants\":{\"matmul\":\"mm\"}}", "mm", "hint"},
    {"added kernel serves others", SMALL "//! WHEN weight q4_k\n", F16, NULL, NULL, NULL, "mm_sub",
     "preferred"},
    {"added kernel of f16 waits for the hint", SMALL "//! PRECISION f16\n", F16, NULL, NULL, NULL,
     "mm_sub", "preferred"},
    {"added kernel of f16 beats the config file's hint", SMALL "//! PRECISION f16\n", F16, NULL,
     NULL, "{\"computePrecision\":\"f16\"}", "mm_user", "file "},
    {"added kernel of f16 by its PREFER", SMALL "//! PRECISION f16\n//! PREFER 100\n", F16,
     "{\"computePrecision\":\"f16\"}", NULL, NULL, "mm_user", "hint computePrecision=f16"},
    {"added kernel that cannot run", SMALL "//! REQUIRE K > 64\n//! CONST K\n", F16, NULL, NULL,
     NULL, NULL, "no kernel of the given files can run matmul weight=f16 phase=decode: mm_user ("},
    {"added kernel that cannot run beside a hint", SMALL "//! REQUIRE 0\n", F16,
     "{\"variants\":{\"matmul\":\"mm\"}}", NULL, NULL, "mm", "hint"},
};

static void added_kernel_ranks_between_config_and_profile(void **state)
{
    const struct added_case *c = *state;
    char *dir = test_tmpdir(), text[1024];
    snprintf(text, sizeof(text), KERNEL("mm_user", "matmul", "mine", "%s"), c->lines);
    test_write_file(dir, "mm_user.comp", text, strlen(text));
    char *config = c->config ? dgl_path_join(dir, "config.json") : NULL;
    if (config)
        test_write_file(dir, "config.json", c->config, strlen(c->config));
    struct kernel_set *set = loaded_set(
        dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1, .hints = c->hints,
                           .profile = c->profile, .config_file = config));
    assert_choice_in(set, &big, c->request, c->wanted, c->text);
    kernel_set_destroy(&set);
    free(config);
    test_tmpdir_remove(dir);
}

/* Built-in kernels that other kernels of the operation outrank, or could replace. */
static const struct replaced_case {
    const char *name;
    const char *lines; /* of the kernel mm */
    const struct device *device;
    const char *hints; /* may be NULL */
    const char *wanted, *text;
} replaced[] = {
    {"it keeps its place", SMALL "//! PREFER 10\n", &big, NULL, "mm_sub",
     "preferred: 20 over mm (10)"},
    {"what a device lacks passes it over", "//! LOCAL 99999\n//! GROUPS 1\n", &big, NULL, "mm_sub",
     "mm.comp): LOCAL_X is 99999, MAX_LOCAL_X is 1024"},
    {"what it leaves out passes it over",
     "//! CONST K\n//! LOCAL K - 64\n//! GROUPS 1\n//! REQUIRE K > 64\n", &big, NULL, "mm_sub",
     "mm.comp): LOCAL_X is 0 with K=64, wanted 1 or more"},
    {"its own arithmetic is an error", "//! CONST K\n//! LOCAL K - 64\n//! GROUPS 1\n", &big, NULL,
     NULL, "mm.comp:6: LOCAL_X is 0 with K=64, wanted 1 or more (kernel mm for matmul weight=f16"},
    {"behind tunables and LETs too",
     "//! TUNE A = SOFTWARE ? 1 : 2 in 1 2\n//! LET B = 2 - A\n//! LOCAL 32\n//! GROUPS 1\n"
     "//! SHARED float c[1 / B]\n",
     &big, NULL, NULL,
     "mm.comp:9: c cannot be evaluated: division by zero with B=0 (kernel mm for"},
    {"whatever a tunable's preset follows from",
     "//! TUNE A = MAX_INVOCATIONS > 512 ? 2 : 1 in 1 2\n//! LOCAL A - A\n//! GROUPS 1\n", &big,
     NULL, NULL, "mm.comp:6: LOCAL_X is 0 with A=2, wanted 1 or more (kernel mm for"},
    {"a limit of the device is none of it",
     "//! LET A = SHARED_BYTES - 99999\n//! LOCAL 32\n//! GROUPS 1\n//! SHARED float c[A]\n", &big,
     NULL, "mm_sub", "mm.comp): SHARED c has -50847 elements with A=-50847"},
    {"nor are values that a hint asks for",
     "//! TUNE A = 2 in 1 2\n//! LET B = 1 / (A - 1)\n//! LOCAL 32\n//! GROUPS 1\n//! PREFER 30\n",
     &big, "{\"tunes\":{\"mm.A\":1}}", NULL,
     "the hint tunes.mm.A=1 (--kernel-hints) cannot be met for matmul"},
    {"a hint for another kernel asks for no other",
     "//! LOCAL 1 - 1 * LLVMPIPE - 1\n//! GROUPS 1\n", &big,
     "{\"variants\":{\"matmul\":\"mm_sub\"}}", "mm_sub", "hint"},
};

static void replaced_kernel_is_judged_by_its_text(void **state)
{
    const struct replaced_case *c = *state;
    char *dir = test_tmpdir(), text[1024];
    snprintf(text, sizeof(text), KERNEL("mm", "matmul", "baseline", "%s"), c->lines);
    test_write_file(dir, "mm.comp", text, strlen(text));
    struct kernel_set *set = loaded_set(
        dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1, .hints = c->hints));
    assert_choice_in(set, c->device, F16, c->wanted, c->text);
    kernel_set_destroy(&set);
    test_tmpdir_remove(dir);
}

/* ---- contents of a choice ---- */

static const struct kernel_var *find(const struct kernel_choice *choice, const char *name)
{
    for (uint32_t i = 0; i < choice->num_vars; i++)
        if (strcmp(choice->vars[i].name, name) == 0)
            return &choice->vars[i];
    fail_msg("%s is not among the variables", name);
    return NULL;
}

static void choose(const struct kernel_set *set, const struct device *device, const char *line,
                   struct kernel_choice *out)
{
    const struct kernel_request request = parse_request(line);
    assert_int_equal(kernel_choose(NULL, set, &request, device->properties, device->count, out),
                     DGL_OK);
}

static void choice_holds_constants_tunables_and_properties(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    struct kernel_choice choice;
    choose(set, &soft, "matmul weight=q4_k phase=decode N:100 K:64 OTHER:5", &choice);
    assert_int_equal(choice.num_consts, 2);
    assert_int_equal(choice.num_tunes, 1);
    assert_string_equal(choice.vars[0].name, "N");
    assert_int_equal(choice.vars[0].value, 100);
    assert_string_equal(choice.vars[2].name, "ROWS");
    assert_int_equal(choice.vars[2].value, 1);
    assert_int_equal(find(&choice, "SHARED_BYTES")->value, 16384);
    assert_int_equal(find(&choice, "LLVMPIPE")->value, 1);
    assert_int_equal(find(&choice, "WEIGHT_q4_k")->value, 1);
    assert_int_equal(find(&choice, "WEIGHT_f16")->value, 0);
    assert_int_equal(find(&choice, "LOCAL_X")->value, 32);
    assert_int_equal(choice.local[1], 1);
    kernel_set_destroy(&set);
}

/* The kernel's and its libs', each with the values of the same variables. */
static void choice_holds_lets_and_shared_memory(void **state)
{
    (void)state;
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.hints = "{\"tunes\":{\"lib_shared.HALF\":16}}"));
    struct kernel_choice choice;
    choose(set, &minimum, "r_lib w=small", &choice);
    assert_int_equal(choice.num_lets, 3);
    assert_string_equal(choice.vars[choice.num_consts + choice.num_tunes].name, "SIZE");
    assert_int_equal(find(&choice, "SIZE")->value, 32);
    assert_int_equal(find(&choice, "HALF_X")->value, 32);
    assert_int_equal(find(&choice, "LAST")->value, 96);
    assert_string_equal(choice.libs[0]->name, "small_lib");
    assert_string_equal(choice.libs[1]->name, "tail");
    assert_int_equal(choice.num_shared, 4);
    assert_string_equal(choice.shared[0].decl->name, "a");
    assert_int_equal(choice.shared[1].count, 32);
    assert_string_equal(choice.shared[2].decl->name, "pair");
    assert_int_equal(choice.shared[3].count, 1);
    /* 3 floats, 4 bytes between, 32 vec4, 32 vec2, a vec3 counted as a vec4 */
    assert_int_equal(choice.shared_bytes, 16 + 512 + 256 + 16);
    kernel_set_destroy(&set);
}

static void tune_hint_sets_the_tunable(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(dgl_kernels_params(.hints = "{\"tunes\":{\"mm.ROWS\":2}}"));
    struct kernel_choice choice;
    choose(set, &soft, Q4K, &choice);
    assert_int_equal(find(&choice, "ROWS")->value, 2);
    assert_int_equal(choice.local[1], 2);
    kernel_set_destroy(&set);
}

/* ---- tunables by request and by layer ---- */

#define QKV  "r_sized phase=decode weight=q4_k N:2048"
#define HEAD "r_sized phase=decode weight=q4_k N:128256"

struct tune_case {
    const char *name;
    const struct device *device;
    const char *request;
    const char *defaults, *tuner, *pinned, *config, *hints; /* NULL: the layer is empty */
    const char *wanted; /* "KERNEL WG ORIGIN ROWS ORIGIN", or part of the message */
    bool refused;
    const char *note; /* part of it, or NULL */
};

#define TUNES(text) "{\"tunes\":{" text "}}"

static const struct tune_case tunes[] = {
    {"presets", &big, QKV, .wanted = "sized 32 default 1 default"},
    {"one kernel everywhere", &big, QKV, .hints = TUNES("\"sized.WG\":64"),
     .wanted = "sized 64 --kernel-hints 1 default"},
    {"by operation", &big, QKV, .hints = TUNES("\"r_sized\":{\"sized.WG\":64}"),
     .wanted = "sized 64 --kernel-hints 1 default"},
    {"by word", &big, QKV, .hints = TUNES("\"r_sized/decode\":{\"sized.WG\":64}"),
     .wanted = "sized 64 --kernel-hints 1 default"},
    {"by another word", &big, QKV, .hints = TUNES("\"r_sized/prefill\":{\"sized.WG\":64}"),
     .wanted = "sized 32 default 1 default"},
    {"by attribute", &big, QKV, .hints = TUNES("\"r_sized/weight=q4_k\":{\"sized.WG\":64}"),
     .wanted = "sized 64 --kernel-hints 1 default"},
    {"by another attribute", &big, QKV, .hints = TUNES("\"r_sized/act=q4_k\":{\"sized.WG\":64}"),
     .wanted = "sized 32 default 1 default"},
    {"by an absent attribute", &big, QKV, .hints = TUNES("\"r_sized/act=none\":{\"sized.WG\":64}"),
     .wanted = "sized 64 --kernel-hints 1 default"},
    {"by shape", &big, QKV,
     .hints = TUNES("\"r_sized/N=2048\":{\"sized.WG\":64},\"r_sized/N=128256\":{\"sized.WG\":256}"),
     .wanted = "sized 64 --kernel-hints 1 default"},
    {"by shape, the other", &big, HEAD,
     .hints = TUNES("\"r_sized/N=2048\":{\"sized.WG\":64},\"r_sized/N=128256\":{\"sized.WG\":256}"),
     .wanted = "sized 256 --kernel-hints 1 default"},
    {"by a constant that there is not", &big, QKV,
     .hints = TUNES("\"r_sized/K=2048\":{\"sized.WG\":64}"),
     .wanted = "sized 32 default 1 default"},
    {"more parts decide", &big, QKV,
     .hints = TUNES("\"r_sized/decode/N=2048\":{\"sized.WG\":64},"
                    "\"r_sized/decode\":{\"sized.WG\":32,\"sized.ROWS\":2},\"sized.WG\":256"),
     .wanted = "sized 64 --kernel-hints 2 --kernel-hints"},
    {"a higher layer beats more parts", &big, QKV,
     .tuner = TUNES("\"r_sized/N=2048\":{\"sized.WG\":64}"), .config = TUNES("\"sized.WG\":256"),
     .wanted = "sized 256 CONFIG 1 default"},
    {"auto hides lower layers", &big, QKV, .tuner = TUNES("\"r_sized/N=2048\":{\"sized.WG\":64}"),
     .hints = TUNES("\"sized.WG\":\"auto\""), .wanted = "sized 32 default 1 default"},
    {"tuner beats a manifest's defaults", &big, QKV, .defaults = TUNES("\"sized.WG\":256"),
     .tuner = TUNES("\"sized.WG\":64"), .wanted = "sized 64 tuner 1 default"},
    {"pinned beats the tuner", &big, QKV, .pinned = TUNES("\"sized.WG\":256"),
     .tuner = TUNES("\"sized.WG\":64"), .wanted = "sized 256 manifest (pinned) 1 default"},
    {"each tunable has its layer", &big, QKV, .defaults = TUNES("\"sized.ROWS\":4"),
     .tuner = TUNES("\"sized.WG\":64"), .wanted = "sized 64 tuner 4 manifest"},
    {"tuner that does not fit", &minimum, QKV, .tuner = TUNES("\"sized.WG\":256,\"sized.ROWS\":4"),
     .wanted = "sized 32 default 1 default",
     .note = "tunables of sized (tuner) do not apply here: LOCAL_X is 256, MAX_LOCAL_X is 128"},
    {"tuner that does not fit beside a hint", &minimum, QKV, .tuner = TUNES("\"sized.WG\":256"),
     .hints = TUNES("\"sized.ROWS\":2"), .wanted = "sized 32 default 2 --kernel-hints",
     .note = "tunables of sized (tuner)"},
    {"defaults that do not fit", &minimum, QKV, .defaults = TUNES("\"sized.WG\":256"),
     .wanted = "sized 32 default 1 default", .note = "tunables of sized (manifest)"},
    {"tuner of a kernel that is gone", &big, QKV,
     .tuner = TUNES("\"gone.WG\":64,\"sized.COLS\":1,\"sized.WG\":7,\"r_gone\":{\"sized.WG\":64},"
                    "\"r_sized/N=\":{\"sized.WG\":64},\"sized.ROWS\":2"),
     .wanted = "sized 32 default 2 tuner"},
    {"hint that does not fit", &minimum, QKV, .hints = TUNES("\"sized.WG\":256"), .refused = true,
     .wanted =
         "the hint tunes.sized.WG=256 (--kernel-hints) cannot be met for r_sized phase=decode "
         "weight=q4_k: sized: LOCAL_X is 256, MAX_LOCAL_X is 128; choose another value or auto"},
    {"pinned that does not fit", &minimum, QKV,
     .pinned = TUNES("\"r_sized/N=2048\":{\"sized.WG\":256}"), .refused = true,
     .wanted = "the hint tunes.r_sized/N=2048.sized.WG=256 (manifest (pinned)) cannot"},
    {"hint that does not fit another shape", &minimum, HEAD,
     .hints = TUNES("\"r_sized/N=2048\":{\"sized.WG\":256}"),
     .wanted = "sized 32 default 1 default"},
    {"hint that does not fit a kernel that is not taken", &minimum, QKV,
     .hints = "{\"variants\":{\"r_sized\":\"sized_low\"},\"tunes\":{\"sized.WG\":256}}",
     .wanted = "sized_low"},
    /* work groups */
    {"work group of one side", &big, QKV, .hints = "{\"workgroupOverrides\":{\"sized\":[64]}}",
     .wanted = "sized 64 --kernel-hints 1 default"},
    {"work group of three sides", &big, QKV,
     .defaults = "{\"workgroupOverrides\":{\"sized\":[256,1,1]}}",
     .wanted = "sized 256 manifest 1 default"},
    {"work group that it has anyway", &big, QKV,
     .hints = "{\"workgroupOverrides\":{\"sized\":[32]}}", .wanted = "sized 32 default 1 default"},
    {"work group auto", &big, QKV, .hints = "{\"workgroupOverrides\":{\"sized\":\"auto\"}}",
     .defaults = "{\"workgroupOverrides\":{\"sized\":[64]}}",
     .wanted = "sized 32 default 1 default"},
    {"work group of another kernel", &big, QKV,
     .hints = "{\"workgroupOverrides\":{\"sized_low\":[32]}}",
     .wanted = "sized 32 default 1 default"},
    {"work group that no tunable gives", &big, QKV,
     .hints = "{\"workgroupOverrides\":{\"sized\":[48]}}", .refused = true,
     .wanted = "the hint workgroupOverrides.sized=48 (--kernel-hints) cannot be met for r_sized "
               "phase=decode weight=q4_k: sized: no two of its tunables give it the work groups of "
               "workgroupOverrides.sized=48"},
    {"work group that a tunable that was asked for forbids", &big, QKV,
     .hints = "{\"workgroupOverrides\":{\"sized\":[64]},\"tunes\":{\"sized.WG\":32}}",
     .refused = true,
     .wanted = "the hint tunes.sized.WG=32 (--kernel-hints), workgroupOverrides.sized=64"},
    {"work group that the device lacks", &minimum, QKV,
     .pinned = "{\"workgroupOverrides\":{\"sized\":[256]}}", .refused = true,
     .wanted = "workgroupOverrides.sized=256 (manifest (pinned)) cannot be met"},
    {"work group of the defaults that the device lacks", &minimum, QKV,
     .defaults = "{\"workgroupOverrides\":{\"sized\":[256]}}",
     .wanted = "sized 32 default 1 default", .note = "tunables of sized (manifest) do not apply"},
    {"columns", &minimum, Q4K, .hints = "{\"colsPerWorkgroup\":2}",
     .wanted = "mm 2 --kernel-hints"},
    {"columns that it has anyway", &minimum, Q4K, .hints = "{\"colsPerWorkgroup\":4}",
     .wanted = "mm 4 default"},
    {"columns of another operation", &minimum, QKV, .hints = "{\"colsPerWorkgroup\":4}",
     .wanted = "sized 32 default 1 default"},
    {"columns of prefill", &minimum, "matmul weight=q4_k phase=prefill N:8 K:8",
     .hints = "{\"colsPerWorkgroup\":2}", .wanted = "mm 4 default"},
    {"columns that no kernel has", &minimum, Q4K, .hints = "{\"colsPerWorkgroup\":3}",
     .refused = true,
     .wanted = "the hint colsPerWorkgroup=3 (--kernel-hints) cannot be met for matmul"},
    {"columns that a lower kernel has", &big, F16, .hints = "{\"colsPerWorkgroup\":2}",
     .wanted = "mm 2 --kernel-hints"},
    {"columns of the defaults that none has", &minimum, Q4K, .defaults = "{\"colsPerWorkgroup\":3}",
     .wanted = "mm 4 default", .note = "tunables of mm (manifest) do not apply"},
    /* features */
    {"no subgroups", &big, F16, .hints = "{\"disableFeatures\":[\"subgroups\"]}",
     .wanted = "mm 4 default"},
    {"an extension less", &big, F16,
     .pinned = "{\"disableFeatures\":[\"shader-f16\",\"GL_KHR_shader_subgroup_arithmetic\"]}",
     .wanted = "mm 4 default"},
    {"another extension less", &big, F16, .hints = "{\"disableFeatures\":[\"GL_f16\"]}",
     .wanted = "mm_sub"},
    {"no feature less", &big, F16, .hints = "{\"disableFeatures\":[]}",
     .pinned = "{\"disableFeatures\":[\"subgroups\"]}", .wanted = "mm_sub"},
    {"tuned variant by request", &big, QKV,
     .tuner = "{\"variants\":{\"r_sized/N=2048\":\"sized_low\"}}", .wanted = "sized_low"},
    {"tuned variant of another request", &big, HEAD,
     .tuner = "{\"variants\":{\"r_sized/N=2048\":\"sized_low\"}}",
     .wanted = "sized 32 default 1 default"},
};

/* One more layer, in place of *set. */
static void add_layer(struct kernel_set **set, enum kernel_layer layer, const char *origin,
                      const char *json)
{
    struct kernel_set *next = NULL;
    if (!json)
        return;
    assert_int_equal(kernel_set_with_hints(NULL, *set, layer, origin, json, &next), DGL_OK);
    kernel_set_destroy(set);
    *set = next;
}

static void tunables_have_value_and_origin(void **state)
{
    const struct tune_case *c = *state;
    struct kernel_set *set = loaded_set(dgl_kernels_params(.hints = c->hints));
    const struct kernel_request request = parse_request(c->request);
    struct kernel_choice choice;
    struct test_log log;
    char text[256];
    add_layer(&set, KERNEL_LAYER_CONFIG, "CONFIG", c->config);
    add_layer(&set, KERNEL_LAYER_TUNER, "tuner", c->tuner);
    add_layer(&set, KERNEL_LAYER_MANIFEST, "manifest", c->defaults);
    add_layer(&set, KERNEL_LAYER_PINNED, "manifest (pinned)", c->pinned);
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status =
        kernel_choose(&log.log, set, &request, c->device->properties, c->device->count, &choice);
    if (c->refused) {
        assert_int_equal(status, DGL_ERR_UNSUPPORTED);
        assert_contains(log.text, c->wanted);
    } else if (status != DGL_OK) {
        fail_msg("%s", log.text);
    } else {
        int len = snprintf(text, sizeof(text), "%s", choice.kernel->name);
        for (uint32_t i = 0; i < choice.num_tunes; i++)
            len += snprintf(text + len, sizeof(text) - (size_t)len, " %lld %s",
                            (long long)choice.vars[choice.num_consts + i].value,
                            choice.tune_rule[i] ? choice.tune_rule[i]->origin : "default");
        assert_string_equal(text, c->wanted);
        if (c->note)
            assert_contains(choice.skipped[0].text, c->note);
        else
            assert_int_equal(choice.num_skipped, 0);
    }
    kernel_set_destroy(&set);
}

/* A key that a tuner stores matches the requests of both the plan and the placement. */
static void key_of_a_request_matches_it(void **state)
{
    (void)state;
    const struct kernel_request request =
        parse_request("matmul weight=q4_k layout=split phase=decode N:2048 W_STRIDE:36 K:-1");
    struct dgl_buf key = {0}, hints = {0};
    kernel_request_key(&request, &key);
    assert_string_equal(key.p, "matmul/weight=q4_k/phase=decode/N=2048/K=-1");
    dgl_buf_printf(&hints, TUNES("\"%s\":{\"mm.ROWS\":2}"), key.p);
    struct kernel_set *set = loaded_set(NULL);
    struct kernel_choice choice;
    add_layer(&set, KERNEL_LAYER_TUNER, "tuner", hints.p);
    choose(set, &big, "matmul weight=q4_k phase=decode N:2048 W_STRIDE:72 K:-1", &choice);
    assert_int_equal(find(&choice, "ROWS")->value, 2);
    assert_contains(choice.reason, "; ROWS=2 (tuner)");
    choose(set, &big, "matmul weight=q4_k phase=decode N:2049 W_STRIDE:72 K:-1", &choice);
    assert_int_equal(find(&choice, "ROWS")->value, 4);
    kernel_set_destroy(&set);
    dgl_buf_finish(&key);
    dgl_buf_finish(&hints);
}

/* A kernel of the persistent executor gets the common local size, unless the user requested another
 * size. */
static void resize_leaves_what_was_asked_for(void **state)
{
    (void)state;
    const struct kernel_request request = parse_request(QKV);
    struct kernel_set *set = loaded_set(NULL);
    struct kernel_choice choice, other;
    choose(set, &big, QKV, &choice);
    assert_true(
        kernel_choice_resize(set, &request, big.properties, big.count, &choice, 64, &other));
    assert_int_equal(other.local[0], 64);
    add_layer(&set, KERNEL_LAYER_TUNER, "tuner", TUNES("\"sized.WG\":256"));
    choose(set, &big, QKV, &choice);
    assert_true(
        kernel_choice_resize(set, &request, big.properties, big.count, &choice, 64, &other));
    add_layer(&set, KERNEL_LAYER_FLAG, "flag", TUNES("\"sized.WG\":256"));
    choose(set, &big, QKV, &choice);
    assert_false(
        kernel_choice_resize(set, &request, big.properties, big.count, &choice, 64, &other));
    kernel_set_destroy(&set);
}

/* ---- texts of a program ---- */

struct origin_case {
    const char *name;
    const char *kernel, *lib, *tail; /* texts that replace the built-in ones; NULL: they do not */
    const char *origin;              /* file names, " + " between them */
    bool same;                       /* the hash is that of the built-in texts */
};

/* Texts with CRLF are made from the built-in ones by the case. */
static const char crlf[] = "CRLF";

static const struct origin_case origins[] = {
    {"built in", NULL, NULL, NULL, "builtin", true},
    {"lib", NULL, "// Mine.\n//! SHARED vec2 pair[HALF_X]\n//! SHARED ivec3 tail\n", NULL,
     "small_lib.glsl", false},
    {"two libs", NULL, small_lib, "//! LET LAST = SIZE + LOCAL_X\n\n", "small_lib.glsl + tail.glsl",
     false},
    {"lib of the same text", NULL, NULL, tail_lib, "tail.glsl", true},
    {"kernel and lib with CRLF", crlf, crlf, crlf, "lib_shared.comp + small_lib.glsl + tail.glsl",
     true},
};

/* `text` with every LF as CRLF; free(). */
static char *with_crlf(const char *text)
{
    struct dgl_buf out = {0};
    for (; *text; text++) {
        if (*text == '\n')
            dgl_buf_putc(&out, '\r');
        dgl_buf_putc(&out, *text);
    }
    return dgl_buf_take(&out);
}

static const char *builtin_text(const char *path)
{
    const struct kernel_embedded *e = kernel_embedded;
    while (strcmp(e->path, path) != 0)
        e++;
    return e->text;
}

static void origin_and_hash_cover_all_texts(void **state)
{
    const struct origin_case *c = *state;
    const struct {
        const char *text, *name, *builtin;
    } files[] = {{c->kernel, "lib_shared.comp", "lib_shared.comp"},
                 {c->lib, "small_lib.glsl", "lib/small_lib.glsl"},
                 {c->tail, "tail.glsl", "lib/tail.glsl"}};
    char *dir = test_tmpdir(), all[4096] = "", want[65], is[65];
    const char *dirs[] = {dir};
    struct dgl_buf origin = {0}, names = {0};
    struct kernel_choice choice;
    size_t num_files = 0;
    for (size_t i = 0; i < 3; i++) {
        const char *builtin = builtin_text(files[i].builtin);
        char *text = files[i].text == crlf ? with_crlf(builtin) : NULL;
        const char *own = text ? text : files[i].text;
        if (own)
            test_write_file(dir, files[i].name, own, strlen(own));
        num_files += own != NULL;
        strcat(all, own && !text ? own : builtin);
        free(text);
    }
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.dirs = dirs, .num_dirs = num_files ? 1 : 0));
    choose(set, &minimum, "r_lib w=small", &choice);
    kernel_choice_origin(&choice, &origin);
    struct dgl_str rest = {origin.p, origin.len}, word;
    while (dgl_str_split(&rest, ' ', &word)) {
        while (memchr(word.p, '/', word.len))
            word = (struct dgl_str){word.p + 1, word.len - 1};
        dgl_buf_printf(&names, "%s%.*s", names.len ? " " : "", (int)word.len, word.p);
    }
    assert_string_equal(names.p, c->origin);
    /* The same hash as `cat` of the files and sha256sum. */
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, all, strlen(all), want));
    assert_true(kernel_choice_sha256(&choice, is));
    assert_string_equal(is, want);
    struct kernel_set *builtin = loaded_set(NULL);
    choose(builtin, &minimum, "r_lib w=small", &choice);
    assert_true(kernel_choice_sha256(&choice, want));
    assert_int_equal(strcmp(is, want) == 0, c->same);
    kernel_set_destroy(&set);
    kernel_set_destroy(&builtin);
    dgl_buf_finish(&origin);
    dgl_buf_finish(&names);
    test_tmpdir_remove(dir);
}

static void comments_do_not_change_the_hash(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"int x; // y\n", "int x;\n", true},
        {"/* a\n b */ int x;\n\n\nint y;\n", "  int x;\nint y; /**/\n", true},
        {"#line 7\nint x;\n", "#line 9\nint x;\n", true},
        {"#line 7\nint x;\n", "int x;\n", true},
        {"a/**/b;\n", "a b;\n", true},
        {"a/**/b;\n", "ab;\n", false},
        {"int x;\n", "int y;\n", false},
        {"#define F(x) x\n", "#define F (x) x\n", false},
        {"#define A 1\nint x;\n", "#define A 1 int x;\n", false},
        {"#define A 1 \\\n + 2\n", "#define A 1  + 2\n", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char a[65], b[65];
        assert_true(kernel_source_sha256(dgl_str_of(cases[i].a), a));
        assert_true(kernel_source_sha256(dgl_str_of(cases[i].b), b));
        if ((strcmp(a, b) == 0) != cases[i].same)
            fail_msg("case %zu: \"%s\" has %s, \"%s\" has %s", i, cases[i].a, a, cases[i].b, b);
    }
}

static void too_many_facts_are_refused(void **state)
{
    (void)state;
    static struct kernel_var properties[KERNEL_MAX_PROPERTIES + 1];
    struct kernel_set *set = loaded_set(NULL);
    struct kernel_choice choice;
    struct test_log log;
    const struct kernel_request request = parse_request("r_equal");
    for (size_t i = 0; i < KERNEL_MAX_PROPERTIES + 1; i++)
        properties[i].name = "HAS_x";
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(
        kernel_choose(&log.log, set, &request, properties, KERNEL_MAX_PROPERTIES + 1, &choice),
        DGL_ERR_INVALID_ARG);
    assert_contains(log.text, "65 device properties");
    kernel_set_destroy(&set);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(choice_holds_constants_tunables_and_properties),
        cmocka_unit_test(choice_holds_lets_and_shared_memory),
        cmocka_unit_test(tune_hint_sets_the_tunable),
        cmocka_unit_test(key_of_a_request_matches_it),
        cmocka_unit_test(resize_leaves_what_was_asked_for),
        cmocka_unit_test(comments_do_not_change_the_hash),
        cmocka_unit_test(too_many_facts_are_refused),
    };
    int failed = test_run_table("kernel_choose", request_gives_kernel, plain);
    failed += test_run_table("kernel_origin", origin_and_hash_cover_all_texts, origins);
    failed += test_run_table("kernel_tunes", tunables_have_value_and_origin, tunes);
    failed += test_run_table("kernel_hinted", hints_give_kernel, hinted);
    failed += test_run_table("kernel_model", f16_is_refused_for_a_model_without_it, models);
    failed += test_run_table("kernel_added", added_kernel_ranks_between_config_and_profile, added);
    failed += test_run_table("kernel_replaced", replaced_kernel_is_judged_by_its_text, replaced);
    return failed + cmocka_run_group_tests_name("kernel_choice", tests, NULL, NULL);
}
