/* No generated kernel source keeps a value from one `if` to a second `if` with the same condition,
 * with a barrier or an access to memory between them. Mesa's V3D compiler never finishes such a
 * source (docs/driver-bugs.md). The program compiles nothing with a GPU's driver. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "core/model/text_list.h"
#include "tests/support/family.h"
#include "tests/support/planned.h"
#include "tests/support/repeated_if.h"
#include "tests/support/tiny_engine.h"

/* ---- planted ---- */

#define TEXT(body)                                                                                 \
    "#version 310 es\nprecision highp float;\nlayout(local_size_x = 64) in;\n"                     \
    "layout(std430, binding = 0) buffer B { float b[]; };\nshared float sums[64]; shared uint "    \
    "count;\n"                                                                                     \
    "float kept(uint tid)\n{\n    return tid < 16u ? sums[tid] : 0.0;\n}\n"                        \
    "void main()\n{\n    uint tid = gl_LocalInvocationID.x;\n    sums[tid] = b[tid];\n"            \
    "    memoryBarrierShared(); barrier();\n    float s = 0.0;\n" body "}\n"
#define MEET "    memoryBarrierShared(); barrier();\n"

struct planted {
    const char *name, *body;
    int found;
    unsigned line; /* of the second `if`; 0 if it does not matter */
};

static const struct planted planted[] = {
    {"repeated condition",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET "    if (tid < 16u) b[tid] = s;\n"), 1, 18},
    {"select",
     TEXT("    s = tid < 16u ? sums[tid] : 0.0;\n" MEET "    if (tid < 16u) b[tid] = s;\n"), 1, 18},
    {"in a function", TEXT("    s = kept(tid);\n" MEET "    if (tid < 16u) b[tid] = s;\n"), 1, 18},
    {"const bool",
     TEXT("    bool few = tid < 16u;\n    if (few) s = sums[tid];\n" MEET
          "    if (few) b[tid] = s;\n"),
     1, 18},
    {"negated",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET
          "    if (!(tid < 16u)) { } else { b[tid] = s; }\n"),
     1, 18},
    {"nested",
     TEXT("    if (b[0] > 0.0) {\n        if (tid < 16u) s = sums[tid];\n" MEET
          "        if (tid < 16u) b[tid] = s;\n    }\n"),
     1, 19},
    {"a store between",
     TEXT("    if (tid < 16u) s = sums[tid];\n    b[64u + tid] = 0.0;\n    if (tid < 16u) b[tid] = "
          "s;\n"),
     1, 18},
    {"two values, a store between their selects",
     TEXT("    float t = 0.0;\n    if (tid < 16u) {\n        s = sums[tid];\n"
          "        t = sums[tid + 1u];\n    }\n"
          "    s = tid < 16u ? exp(s) : 0.0;\n    b[tid] = s;\n"
          "    t = tid < 16u ? exp(t) : 0.0;\n    b[64u + tid] = t;\n"),
     1, 23},
    {"elements of an array in a short loop",
     TEXT("    float t[2];\n    for (int h = 0; h < 2; h++) t[h] = 0.0;\n"
          "    if (tid < 16u)\n        for (int h = 0; h < 2; h++) t[h] += sums[h];\n"
          "    for (int h = 0; h < 2; h++) {\n        if (tid < 16u) t[h] = exp(t[h]);\n"
          "        else t[h] = 0.0;\n        b[h * 64 + int(tid)] = t[h];\n    }\n"),
     1, 0},
    /* Reduced from old versions of three kernels that V3D's compiler never finished. The last read
     * of shared memory is needed: spirv-opt removes stores that are never read. */
    {"moe_router: the sum of 16 shares is stored behind a barrier",
     TEXT("    if (tid < 16u)\n        for (int i = 0; i < 4; i++) {\n"
          "            uint piece = 16u * uint(i) + tid;\n"
          "            s += piece < 50u ? sums[piece] : 0.0;\n        }\n" MEET
          "    if (tid < 16u)\n        sums[tid] = s;\n" MEET "    b[tid] = sums[0];\n"),
     1, 22},
    {"sample_next: places of a list are reserved if there are any",
     TEXT("    uint mine = uint(b[tid] > 0.0) + uint(b[64u + tid] > 0.0);\n"
          "    uint slot = mine != 0u ? atomicAdd(count, mine) : 0u;\n" MEET
          "    if (mine != 0u)\n        for (int n = 0; n < 2; n++)\n"
          "            if (b[uint(n) * 64u + tid] > 0.0) sums[slot++] = b[tid];\n" MEET
          "    b[tid] = sums[0];\n"),
     1, 19},
    {"moe_prefill_wide: one thread of a tile adds the parts, then stores the tile",
     TEXT("    uvec3 place = uvec3(tid % 4u, tid / 4u % 4u, tid / 16u);\n"
          "    for (uint part = 1u; part < 2u; part++) {\n"
          "        if (place.z == part) sums[tid] = s;\n" MEET
          "        if (place.z == 0u) s += sums[tid + 16u];\n" MEET "    }\n"
          "    if (place.z == 0u)\n        for (uint t = 0u; t < 2u; t++)\n"
          "            if (place.y + t < 3u) b[64u * t + tid] = s;\n"),
     1, 23},
    {"used without a condition",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET "    b[tid] = s;\n"), 0, 0},
    {"another condition",
     TEXT("    if (tid < 16u) s = sums[tid];\n" MEET "    if (tid < 8u) b[tid] = s;\n"), 0, 0},
    {"used at once",
     TEXT("    if (tid < 16u) {\n        s = sums[tid];\n        b[tid] = s;\n    }\n" MEET), 0, 0},
};

static void planted_is_found(void **state)
{
    const struct planted *row = *state;
    struct repeated_if first;
    char why[REPEATED_IF_WHY];
    if (!repeated_if_can_look())
        SKIP("glslangValidator or spirv-opt is not installed");
    const int count = repeated_if_look(row->body, &first, why);
    if (count != row->found)
        fail_msg("%s: %d places, wanted %d: %s", row->name, count, row->found,
                 count < 0 ? why : "");
    if (row->line)
        assert_int_equal(first.second_line, row->line);
    /* The message quotes both lines. */
    if (count > 0 && (!first.source[0] || !first.second_source[0]))
        fail_msg("%s: lines %u and %u are \"%s\" and \"%s\"", row->name, first.line,
                 first.second_line, first.source, first.second_source);
}

/* ---- sources ---- */

struct source {
    char name[64]; /* of the kernel */
    char *glsl;
    int found;
    struct repeated_if first;
    char why[REPEATED_IF_WHY];
};

struct sources {
    struct source *all;
    size_t count, cap;
};

/* Hashes of the sources that this run has examined. */
static uint64_t examined[4096];
static size_t num_examined;

static void sources_add(struct sources *s, const char *name, const char *glsl)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = glsl; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (size_t i = 0; i < num_examined; i++)
        if (examined[i] == hash)
            return;
    assert_true(num_examined < sizeof(examined) / sizeof(examined[0]));
    examined[num_examined++] = hash;
    assert_true(dgl_grow((void **)&s->all, &s->cap, s->count + 1, sizeof(*s->all)));
    struct source *source = &s->all[s->count++];
    *source = (struct source){.glsl = checked(strdup(glsl))};
    snprintf(source->name, sizeof(source->name), "%s", name);
}

static enum dgl_status look(void *ctx, size_t i)
{
    struct source *source = &((struct sources *)ctx)->all[i];
    source->found = repeated_if_look(source->glsl, &source->first, source->why);
    return DGL_OK;
}

/* Examines the sources on all processors, frees them, and fails the case if one has the pattern. */
static void sources_check(struct sources *s, const char *where)
{
    int failures = 0;
    dgl_parallel_for(0, s->count, look, s);
    printf("# %s: %zu sources that no earlier case has\n", where, s->count);
    for (size_t i = 0; i < s->count; i++) {
        const struct source *source = &s->all[i];
        const struct repeated_if *first = &source->first;
        if (source->found > 0)
            printf("# %s: %s: line %u, `%s`, has the condition of line %u, `%s`, and alone uses a "
                   "value of it\n",
                   where, source->name, first->second_line, first->second_source, first->line,
                   first->source);
        else if (source->found < 0)
            printf("# %s: %s: cannot be read: %s\n", where, source->name, source->why);
        failures += source->found != 0;
        free(source->glsl);
    }
    free(s->all);
    assert_int_equal(failures, 0);
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

static void plan_has_none(void **state)
{
    const struct plan_case *row = *state;
    struct sources sources = {0};
    struct kernel_set *set = NULL;
    struct planned p;
    if (!repeated_if_can_look())
        SKIP("glslangValidator or spirv-opt is not installed");
    assert_int_equal(kernel_set_create(NULL, dgl_kernels_params(.pack = NULL), &set), DGL_OK);
    planned_open(&p, &(struct shape_model_params){.config = row->config}, row->device, set);
    for (size_t i = 0; i < p.plan.kernels.count; i++) {
        const struct kernel_choice *choice = &p.plan.kernels.uses[i]->choice;
        struct dgl_buf text = {0};
        assert_int_equal(kernel_generate(NULL, choice, &text), DGL_OK);
        sources_add(&sources, choice->kernel->name, text.p);
        dgl_buf_finish(&text);
    }
    planned_close(&p);
    kernel_set_destroy(&set);
    sources_check(&sources, row->name);
}

/* ---- models, with the limits of a Raspberry Pi ---- */

struct model_case {
    const char *name;
    const char *family; /* NULL: the bundled model */
    int part;           /* 0: the plan. 1 to NUM_PARTS: a part of the cases of `kernels check` */
};

static const struct model_case models[] = {
    {"bundled model", .family = NULL},
    {"llama3", .family = "llama3"},
    {"llama2-f16", .family = "llama2-f16"},
    {"llama-linear-f32", .family = "llama-linear-f32"},
    {"mistral", .family = "mistral"},
    {"qwen2", .family = "qwen2"},
    {"qwen2-yarn", .family = "qwen2-yarn"},
    {"qwen3", .family = "qwen3"},
    {"gemma2", .family = "gemma2"},
    {"gemma3", .family = "gemma3"},
    {"phi3", .family = "phi3"},
    {"phi3-longrope", .family = "phi3-longrope"},
    {"olmo2", .family = "olmo2"},
    {"granite", .family = "granite"},
    {"smollm3", .family = "smollm3"},
    {"mixtral", .family = "mixtral"},
    {"qwen3-moe", .family = "qwen3-moe"},
    {"gpt-oss-mxfp4", .family = "gpt-oss-mxfp4"},
};

/* These cases do not depend on the model. */
static const struct model_case parts[] = {
    {"kernels check, part 1", .part = 1}, {"kernels check, part 2", .part = 2},
    {"kernels check, part 3", .part = 3}, {"kernels check, part 4", .part = 4},
    {"kernels check, part 5", .part = 5}, {"kernels check, part 6", .part = 6},
};
#define NUM_PARTS (sizeof(parts) / sizeof(parts[0]))

static void model_has_none(void **state)
{
    const struct model_case *row = *state;
    const struct dgl_model_params params = {.path = row->family ? family_dir(row->family)
                                                                : BUNDLED_MODEL,
                                            .executor = DGL_EXECUTOR_DISPATCH,
                                            .hash_weights = DGL_HASH_NEVER,
                                            .no_tuned = true};
    struct text_list list = {0};
    struct sources sources = {0};
    struct dgl_device *dev = NULL;
    struct test_log log;
    struct gl_saved saved;
    if (!repeated_if_can_look())
        SKIP("glslangValidator or spirv-opt is not installed");
    test_log_init(&log, DGL_LOG_WARN);
    if (dgl_device_create(&log.log,
                          dgl_device_params(.select = "any", .limits = "v3d", .cache_dir = ""),
                          &dev) != DGL_OK)
        fail_msg("%s", log.text);
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    struct dgl_model *m = checked(calloc(1, sizeof(*m)));
    enum dgl_status status = model_plan(m, dev, &params);
    if (status == DGL_OK)
        status =
            row->part ? text_list_add_all(&list, m->shard) : text_list_add_plan(&list, m->shard);
    for (size_t i = 0; i < list.count; i++)
        if (!row->part || i % NUM_PARTS == (size_t)row->part - 1)
            sources_add(&sources, list.texts[i].name, list.texts[i].source);
    text_list_finish(&list);
    model_destroy(m);
    device_leave(dev, &saved);
    dgl_device_destroy(&dev);
    if (status != DGL_OK)
        fail_msg("%s", log.text);
    sources_check(&sources, row->name);
}

/* ---- a folder ---- */

/* DOPPLERGL_TEST_TEXTS: a folder that `kernels check --compile-only -o` wrote. */
static void test_folder(void **state)
{
    const char *folder = getenv("DOPPLERGL_TEST_TEXTS");
    struct sources sources = {0};
    (void)state;
    if (!folder)
        SKIP("DOPPLERGL_TEST_TEXTS names no folder of sources");
    DIR *dir = checked(opendir(folder));
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".comp") != 0)
            continue;
        char *path = checked(dgl_path_join(folder, entry->d_name)), *glsl = NULL;
        size_t len = 0;
        assert_int_equal(dgl_file_slurp(NULL, path, SIZE_MAX, &glsl, &len), DGL_OK);
        sources_add(&sources, entry->d_name, glsl);
        free(glsl);
        free(path);
    }
    closedir(dir);
    sources_check(&sources, folder);
}

int main(void)
{
    const struct CMUnitTest folder[] = {cmocka_unit_test(test_folder)};
    int failed = test_run_table("planted", planted_is_found, planted);
    failed += test_run_table_sample("plans", plan_has_none, plans, 6);
    failed += test_run_table_sample("models", model_has_none, models, 6);
    failed += test_run_table_sample("parts", model_has_none, parts, 6);
    return failed + cmocka_run_group_tests(folder, NULL, NULL);
}
