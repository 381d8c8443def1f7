/* Lib last_group, for any number of work groups: only the last group continues, it sees the writes
 * of all groups, and it restores the counter. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tests/support/kernel_bench.h"

/* Each group adds to its part, the last one of a counter sums up the parts. */
static const char text[] = "// Sums parts of other groups.\n"
                           "//! NAME sum_parts\n"
                           "//! OP read\n" // any operation will do
                           "//! VARIANT baseline\n"
                           "//! BIND coherent uint PARTS\n"
                           "//! BIND coherent uint ARRIVED\n"
                           "//! BIND readwrite uint SUMS // of each counter: sum, times\n"
                           "//! CONST COUNTERS = 1\n"
                           "//! CONST EACH = 1\n"
                           "//! CONST WG_SIZE = 1\n"
                           "//! LOCAL WG_SIZE\n"
                           "//! GROUPS COUNTERS * EACH\n"
                           "//! SHARED uint sum[LOCAL_X]\n"
                           "//! LIB arrival\n"
                           "//! LIB last_group\n"
                           "void body(uvec3 group)\n"
                           "{\n"
                           "    uint tid = gl_LocalInvocationID.x, each = uint(EACH);\n"
                           "    uint counter = group.x / each;\n"
                           "    if (counter >= uint(COUNTERS)) return;\n"
                           "    PARTS[group.x * uint(LOCAL_X) + tid] += group.x + tid + 1u;\n"
                           "    if (!last_group(counter, each)) return;\n"
                           "    sum[tid] = 0u;\n"
                           "    for (uint i = tid; i < each * uint(LOCAL_X); i += uint(LOCAL_X))\n"
                           "        sum[tid] += PARTS[counter * each * uint(LOCAL_X) + i];\n"
                           "    memoryBarrierShared(); barrier();\n"
                           "    if (tid == 0u) {\n"
                           "        uint all = 0u;\n"
                           "        for (int i = 0; i < LOCAL_X; i++)\n"
                           "            all += sum[i];\n"
                           "        SUMS[2u * counter] = all;\n"
                           "        SUMS[2u * counter + 1u]++;\n"
                           "    }\n"
                           "}\n";

struct row {
    const char *name;
    uint32_t counters, each, wg_size, repeats;
};

static const struct row rows[] = {
    {"one group", 1, 1, 32, 2},         {"two groups of one invocation", 1, 2, 1, 2},
    {"five counters", 5, 7, 32, 3},     {"many groups", 2, 700, 64, 2},
    {"wide groups", 3, 16, 128, 2},     {"more counters than groups each", 64, 2, 8, 2},
    {"a counter per group", 9, 1, 8, 2}};

static struct kernel_bench *bench;

static void last_group_sees_all_parts(void **state)
{
    const struct row *row = *state;
    size_t part = (size_t)row->each * row->wg_size, words = part * row->counters;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    uint32_t *parts = checked(dgl_new_array(uint32_t, words)), arrived[64] = {0}, sums[128] = {0};
    char why[BENCH_WHY];
    struct bench_case c = {.request.op = "read", .step.tokens = 1, .repeats = row->repeats};
    bench_const(&c, "COUNTERS", row->counters);
    bench_const(&c, "EACH", row->each);
    bench_const(&c, "WG_SIZE", row->wg_size);
    bench_inout(&c, "PARTS", parts, parts, words);
    bench_inout(&c, "ARRIVED", arrived, arrived, row->counters);
    bench_inout(&c, "SUMS", sums, sums, 2 * row->counters);
    if (kernel_bench_run(bench, "sum_parts", &c, why) != BENCH_RAN)
        fail_msg("%s: %s", row->name, why);
    for (uint32_t i = 0; i < row->counters; i++) {
        uint32_t want = 0, times = sums[2 * i + 1];
        for (size_t at = i * part; at < (i + 1) * part; at++) {
            size_t once = at / row->wg_size + at % row->wg_size + 1;
            want += parts[at];
            if (parts[at] != times * once)
                fail_msg("%s: part %zu is %u after %u times, expected %zu", row->name, at,
                         parts[at], times, times * once);
        }
        if (times < row->repeats + 1 || sums[2 * i] != want)
            fail_msg("%s: counter %u: sum %u, expected %u; %u times, at least %u expected",
                     row->name, i, sums[2 * i], want, times, row->repeats + 1);
        if (arrived[i] != 0)
            fail_msg("%s: counter %u is left at %u, expected 0", row->name, i, arrived[i]);
    }
    free(parts);
}

int main(void)
{
    bench = kernel_bench_create(false);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "sum_parts.comp");
    test_write_file(dir, "sum_parts.comp", text, strlen(text));
    if (bench && !kernel_bench_file(bench, checked(path)))
        return 1;
    int failures = test_run_table("last group", last_group_sees_all_parts, rows);
    kernel_bench_destroy(&bench);
    test_tmpdir_remove(dir);
    free(path);
    return failures;
}
