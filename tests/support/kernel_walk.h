/* kernel_walk.h: a test over all kernels of an operation. Each kernel runs on the same case and is
 * checked. At the end, every kernel that this device can run must have run. */
#ifndef DGL_TESTS_KERNEL_WALK_H
#define DGL_TESTS_KERNEL_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/kernel_bench.h"
#include "tests/support/test.h"

#define WALK_MAX_KERNELS 64
#define WALK_MAX_EXCUSES 5

/* All that a device may lack. */
#define WALK_DEVICE_LACKS                                                                          \
    {                                                                                              \
        "EXTENSION", "SUBGROUP", "MAX_", "REQUIRE SOFTWARE", "SHARED_BYTES"                        \
    }

/* The kernels of an operation that ran, and the reasons of those that did not. */
struct kernel_walk {
    const char *op;
    /* Parts of the reasons for which this device may lack a kernel. If it is empty, the device must
     * run all kernels. */
    const char *excuses[WALK_MAX_EXCUSES];
    bool only_missing; /* kernels that ran are not run again */
    bool ran[WALK_MAX_KERNELS];
    char why[WALK_MAX_KERNELS][BENCH_WHY]; /* last reason not to run a request that it serves */
};

/* Runs one kernel on a case; fails the test when its results are wrong. */
typedef enum bench_result (*kernel_walk_fn)(void *ctx, const char *kernel, char why[BENCH_WHY]);

/* Calls `one` with each kernel of the operation and returns the number of kernels that ran. The
 * test fails if a kernel did not run without an excuse. */
size_t kernel_walk_run(struct kernel_walk *walk, struct kernel_bench *bench, kernel_walk_fn one,
                       void *ctx);
/* The same for a case that some kernel must be able to run. */
void kernel_walk_case(struct kernel_walk *walk, struct kernel_bench *bench, const char *name,
                      kernel_walk_fn one, void *ctx);
/* The same with a case of core/oracle; `one` checks it. */
void kernel_walk_judge(struct kernel_walk *walk, struct kernel_bench *bench, const char *name,
                       const struct kernel_case *c);
size_t kernel_walk_judge_some(struct kernel_walk *walk, struct kernel_bench *bench,
                              const struct kernel_case *c);
/* The table of a test that may have run only a sample. */
struct walk_table {
    CMUnitTestFunction test;
    const void *rows;
    size_t count, row_bytes;
};
/* After a sample: runs kernels that it missed on rows of the whole table, until all have run.
 * `walks` are those that the test fills. Does nothing after a complete run. */
void kernel_walk_complete(struct kernel_walk *walks, size_t num_walks,
                          const struct kernel_bench *bench, const struct walk_table *table);
/* Fails if a kernel of the operation never ran and has no excuse; prints the reasons. Skips the
 * running case without a bench. */
void kernel_walk_check(const struct kernel_walk *walk, const struct kernel_bench *bench);

#endif
