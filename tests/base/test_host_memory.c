/* Tests of available memory, computed from /proc/meminfo and cgroup limits of simulated
 * machines. */
#include "core/base/host_memory.h"

#include <stdlib.h>

#include "tests/support/fake_tree.h"
#include "tests/support/test.h"

#define MIB (1ull << 20)

/* 4096 MiB in total, 3072 MiB available */
#define MEMINFO                                                                                    \
    {                                                                                              \
        "proc/meminfo", "MemTotal:        4194304 kB\nMemFree:          102400 kB\n"               \
                        "MemAvailable:    3145728 kB\nBuffers:              10 kB\n"               \
    }
#define V1 "sys/fs/cgroup/memory"
#define V2 "sys/fs/cgroup"

struct row {
    const char *name;
    struct fake_file files[12];
    uint64_t total, available, budget;
    bool limited;
    const char *source;
};

static const struct row rows[] = {
    {"no cgroup", {MEMINFO}, 4096 * MIB, 3072 * MIB, 2304 * MIB, false, "/proc/meminfo"},
    {"nothing is known", {{NULL, NULL}}, 0, 0, 0, false, "unknown"},
    {"a file of meminfo that is none",
     {{"proc/meminfo", "MemTotal: many kB\nMemAvailable: -5 kB\nMemAvailable:\n\n"}},
     0,
     0,
     0,
     false,
     "unknown"},
    {"a number that is beyond 64 bits in bytes",
     {{"proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 18446744073709551615 kB\n"}},
     4096 * 1024,
     0,
     0,
     false,
     "unknown"},
    {"version 2, a limit",
     {MEMINFO,
      {"proc/self/cgroup", "0::/user/app\n"},
      {V2 "/user/app/memory.max", "1073741824\n"},
      {V2 "/user/app/memory.current", "268435456\n"},
      {V2 "/user/app/memory.stat", "anon 1\n"}},
     1024 * MIB,
     768 * MIB,
     576 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"version 2, pages of files are taken back",
     {MEMINFO,
      {"proc/self/cgroup", "0::/app\n"},
      {V2 "/app/memory.max", "1073741824\n"},
      {V2 "/app/memory.current", "1000000000\n"},
      {V2 "/app/memory.stat", "file 99\ninactive_file 463129088\nactive_file 268435456\n"}},
     1024 * MIB,
     768 * MIB,
     576 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"version 2, memory.high is the lower one",
     {MEMINFO,
      {"proc/self/cgroup", "0::/app\n"},
      {V2 "/app/memory.max", "max\n"},
      {V2 "/app/memory.high", "536870912\n"},
      {V2 "/app/memory.current", "0\n"}},
     512 * MIB,
     512 * MIB,
     384 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"version 2, no limit",
     {MEMINFO,
      {"proc/self/cgroup", "0::/app\n"},
      {V2 "/app/memory.max", "max\n"},
      {V2 "/app/memory.high", "max\n"},
      {V2 "/app/memory.current", "100000000\n"}},
     4096 * MIB,
     3072 * MIB,
     2304 * MIB,
     false,
     "/proc/meminfo"},
    {"nested, the outer one leaves less",
     {MEMINFO,
      {"proc/self/cgroup", "0::/a/b/c\n"},
      {V2 "/a/b/c/memory.max", "2147483648\n"},
      {V2 "/a/b/c/memory.current", "0\n"},
      {V2 "/a/b/memory.max", "max\n"},
      {V2 "/a/b/memory.current", "0\n"},
      {V2 "/a/memory.max", "1073741824\n"},
      {V2 "/a/memory.current", "1006632960\n"}},
     1024 * MIB,
     64 * MIB,
     48 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"a container of version 2 sees its own at the root",
     {MEMINFO,
      {"proc/self/cgroup", "0::/\n"},
      {V2 "/memory.max", "1073741824\n"},
      {V2 "/memory.current", "0\n"}},
     1024 * MIB,
     1024 * MIB,
     768 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"a path outside of the namespace",
     {MEMINFO,
      {"proc/self/cgroup", "0::/../other\n"},
      {V2 "/memory.max", "1073741824\n"},
      {V2 "/memory.current", "0\n"}},
     1024 * MIB,
     1024 * MIB,
     768 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"version 1, nested",
     {MEMINFO,
      {"proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n"},
      {V1 "/a/b/memory.limit_in_bytes", "9223372036854771712\n"},
      {V1 "/a/b/memory.usage_in_bytes", "0\n"},
      {V1 "/a/memory.limit_in_bytes", "1073741824\n"},
      {V1 "/a/memory.usage_in_bytes", "536870912\n"},
      {V1 "/a/memory.stat", "inactive_file 1\ntotal_inactive_file 268435456\n"}},
     1024 * MIB,
     768 * MIB,
     576 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"version 1 in a container: the path is the host's",
     {MEMINFO,
      {"proc/self/cgroup", "4:memory:/docker/0123\n"},
      {V1 "/memory.limit_in_bytes", "1073741824\n"},
      {V1 "/memory.usage_in_bytes", "0\n"}},
     1024 * MIB,
     1024 * MIB,
     768 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"version 2 beside version 1",
     {MEMINFO,
      {"proc/self/cgroup", "1:cpu:/\n0::/app\n"},
      {V2 "/unified/app/memory.max", "1073741824\n"},
      {V2 "/unified/app/memory.current", "0\n"}},
     1024 * MIB,
     1024 * MIB,
     768 * MIB,
     true,
     "/proc/meminfo, cgroup limit"},
    {"more is used than the limit allows",
     {MEMINFO,
      {"proc/self/cgroup", "0::/app\n"},
      {V2 "/app/memory.max", "1073741824\n"},
      {V2 "/app/memory.current", "1073741825\n"}},
     1024 * MIB,
     1,
     1,
     true,
     "/proc/meminfo, cgroup limit"},
    {"a limit that is no number",
     {MEMINFO,
      {"proc/self/cgroup", "0::/app\n\n0\n::\n"},
      {V2 "/app/memory.max", "-1\n"},
      {V2 "/app/memory.current", "0\n"}},
     4096 * MIB,
     3072 * MIB,
     2304 * MIB,
     false,
     "/proc/meminfo"},
    {"a limit above what the machine has",
     {MEMINFO,
      {"proc/self/cgroup", "0::/app\n"},
      {V2 "/app/memory.max", "8589934592\n"},
      {V2 "/app/memory.current", "0\n"}},
     4096 * MIB,
     3072 * MIB,
     2304 * MIB,
     false,
     "/proc/meminfo"},
};

static void host_memory_case(void **state)
{
    const struct row *row = *state;
    char *root = test_tmpdir();
    fake_tree_write(root, row->files);
    const struct dgl_host_memory memory = dgl_host_memory_under(root);
    test_tmpdir_remove(root);
    assert_int_equal(memory.total_bytes, row->total);
    assert_int_equal(memory.available_bytes, row->available);
    assert_int_equal(dgl_host_memory_budget(&memory), row->budget);
    assert_int_equal(memory.limited, row->limited);
    assert_string_equal(dgl_host_memory_source(&memory), row->source);
}

static void this_machine_has_memory(void **state)
{
    (void)state;
    const struct dgl_host_memory memory = dgl_host_memory();
    assert_in_range(memory.total_bytes, 64 * MIB, 1ull << 50);
    assert_in_range(memory.available_bytes, 1, memory.total_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(this_machine_has_memory)};
    int failures = test_run_table("host memory", host_memory_case, rows);
    return failures + cmocka_run_group_tests_name("this host's memory", tests, NULL, NULL);
}
