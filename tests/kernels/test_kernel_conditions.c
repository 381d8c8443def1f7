/* No generated text keeps a value from one `if` to the next of the same condition across a barrier
 * or an access to memory: Mesa's V3D compiler never finishes such a text (docs/driver-bugs.md). */
#include "tests/support/test.h"

#include <stdint.h>
#include <stdlib.h>

#include "tests/support/planned.h"
#include "tests/support/repeated_if.h"

/* ---- planted ---- */

#define TEXT(body)                                                                                 \
    "#version 310 es\nprecision highp float;\nlayout(local_size_x = 64) in;\n"                     \
    "layout(std430, binding = 0) buffer B { float b[]; };\nshared float sums[64];\n"               \
    "float kept(uint tid)\n{\n    return tid < 16u ? sums[tid] : 0.0;\n}\n"                        \
    "void main()\n{\n    uint tid = gl_LocalInvocationID.x;\n    sums[tid] = b[tid];\n"            \
    "    memoryBarrierShared(); barrier();\n    float s = 0.0;\n" body "}\n"
#define MEET "    memoryBarrierShared(); barrier();\n"

struct planted {
    const char *name, *body;
    int found;            /* places */
    unsigned line;        /* of the first one; 0: of no interest */
    const char *variable; /* NULL: of no interest */
};

static const struct planted planted[] = {
    {"repeated condition",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET "    if (tid < 16u) b[tid] = s;\n"), 1, 18,
     "s"},
    {"select",
     TEXT("    s = tid < 16u ? sums[tid] : 0.0;\n" MEET "    if (tid < 16u) b[tid] = s;\n"), 1, 18,
     NULL},
    {"in a function", TEXT("    s = kept(tid);\n" MEET "    if (tid < 16u) b[tid] = s;\n"), 1, 18,
     NULL},
    {"const bool",
     TEXT("    bool few = tid < 16u;\n    if (few) s = sums[tid];\n" MEET
          "    if (few) b[tid] = s;\n"),
     1, 18, "s"},
    {"negated",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET
          "    if (!(tid < 16u)) { } else { b[tid] = s; }\n"),
     1, 18, "s"},
    {"nested",
     TEXT("    if (b[0] > 0.0) {\n        if (tid < 16u) s = sums[tid];\n" MEET
          "        if (tid < 16u) b[tid] = s;\n    }\n"),
     1, 19, "s"},
    {"a store between",
     TEXT("    if (tid < 16u) s = sums[tid];\n    b[64u + tid] = 0.0;\n    if (tid < 16u) b[tid] = "
          "s;\n"),
     1, 18, "s"},
    {"two values, a store between their selects",
     TEXT("    float t = 0.0;\n    if (tid < 16u) {\n        s = sums[tid];\n"
          "        t = sums[tid + 1u];\n    }\n"
          "    s = tid < 16u ? exp(s) : 0.0;\n    b[tid] = s;\n"
          "    t = tid < 16u ? exp(t) : 0.0;\n    b[64u + tid] = t;\n"),
     1, 23, NULL},
    {"elements of an array in a short loop",
     TEXT("    float t[2];\n    for (int h = 0; h < 2; h++) t[h] = 0.0;\n"
          "    if (tid < 16u)\n        for (int h = 0; h < 2; h++) t[h] += sums[h];\n"
          "    for (int h = 0; h < 2; h++) {\n        if (tid < 16u) t[h] = exp(t[h]);\n"
          "        else t[h] = 0.0;\n        b[h * 64 + int(tid)] = t[h];\n    }\n"),
     1, 0, NULL},
    {"used without a condition",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET "    b[tid] = s;\n"), 0, 0, NULL},
    {"another condition",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET "    if (tid < 8u) b[tid] = s;\n"), 0, 0,
     NULL},
    {"used at once",
     TEXT("    if (tid < 16u) {\n        s = sums[tid];\n        b[tid] = s;\n    }\n" MEET), 0, 0,
     NULL},
};

static void planted_is_found(void **state)
{
    const struct planted *row = *state;
    struct repeated_if found[4] = {{0}};
    char why[512];
    if (!repeated_if_can_look())
        SKIP("glslangValidator or spirv-opt is not installed");
    const int count = repeated_if_look(row->body, found, 4, why);
    if (count != row->found)
        fail_msg("%s: %d places, wanted %d: %s", row->name, count, row->found,
                 count < 0 ? why : "");
    if (count > 0 && row->line)
        assert_int_equal(found[0].line, row->line);
    if (row->variable)
        assert_string_equal(found[0].variable, row->variable);
}

/* ---- plans ---- */

struct plan_case {
    const char *name, *config;
    enum made_device device;
};

static const struct plan_case plans[] = {
    {"llama-3.2-1b on the minimum", "tests/models/configs/llama-3.2-1b.json", MADE_MINIMUM},
    {"llama-3.2-1b on a GPU", "tests/models/configs/llama-3.2-1b.json", MADE_GPU},
    {"gemma-2-2b on the minimum", "tests/models/configs/gemma-2-2b.json", MADE_MINIMUM},
    {"gpt-oss-20b on the minimum", "tests/models/configs/gpt-oss-20b.json", MADE_MINIMUM},
    {"qwen3-0.6b on a Raspberry Pi", "tests/models/configs/qwen3-0.6b.json", MADE_PI},
    {"qwen3-30b-a3b on a GPU", "tests/models/configs/qwen3-30b-a3b.json", MADE_GPU},
};

/* Hashes of the texts that this run has found free of repeated conditions. */
static uint64_t clean[1024];
static size_t num_clean;

static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static int look_at(const struct kernel_use *use, const char *plan)
{
    struct repeated_if found[4];
    struct dgl_buf text = {0};
    char why[512];
    assert_int_equal(kernel_generate(NULL, &use->choice, &text), DGL_OK);
    const uint64_t hash = hash_of(text.p);
    for (size_t i = 0; i < num_clean; i++)
        if (clean[i] == hash) {
            dgl_buf_finish(&text);
            return 0;
        }
    const int count = repeated_if_look(text.p, found, 4, why);
    if (count == 0 && num_clean < sizeof(clean) / sizeof(clean[0]))
        clean[num_clean++] = hash;
    for (int i = 0; i < count && i < 4; i++)
        printf("# %s: %s, line %u: `%s` is kept to a second `if` over `%s`\n", plan,
               use->choice.kernel->name, found[i].line, found[i].variable, found[i].condition);
    /* Texts with extensions of one vendor are no business of glslang. */
    if (count < 0 && use->choice.kernel->num_extensions == 0)
        fail_msg("%s: %s cannot be read: %s", plan, use->choice.kernel->name, why);
    dgl_buf_finish(&text);
    return count > 0 ? count : 0;
}

static void plan_has_none(void **state)
{
    const struct plan_case *row = *state;
    struct kernel_set *set = NULL;
    struct planned p;
    int count = 0;
    if (!repeated_if_can_look())
        SKIP("glslangValidator or spirv-opt is not installed");
    assert_int_equal(kernel_set_create(NULL, dgl_kernels_params(.pack = NULL), &set), DGL_OK);
    planned_open(&p, &(struct shape_model_params){.config = row->config}, row->device, set);
    for (size_t i = 0; i < p.plan.kernels.count; i++)
        count += look_at(p.plan.kernels.uses[i], row->name);
    planned_close(&p);
    kernel_set_destroy(&set);
    assert_int_equal(count, 0);
}

int main(void)
{
    int failed = test_run_table("planted", planted_is_found, planted);
    return failed + test_run_table_sample("plans", plan_has_none, plans, 6);
}
