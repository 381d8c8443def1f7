/* Tests over all kernels of an operation: run them, compare, and report those that did not run. */
#include "tests/support/kernel_walk.h"

#include "tests/support/test.h"

size_t kernel_walk_run(struct kernel_walk *walk, struct kernel_bench *bench, kernel_walk_fn one,
                       void *ctx)
{
    size_t ran = 0;
    const char *name;
    char why[BENCH_WHY];
    for (size_t i = 0; (name = kernel_bench_name(bench, walk->op, i)) != NULL; i++) {
        assert_true(i < WALK_MAX_KERNELS);
        if (walk->ran[i] && walk->only_missing) {
            ran++;
            continue;
        }
        enum bench_result result = one(ctx, name, why);
        if (result == BENCH_FAILED)
            fail_msg("%s: %s", name, why);
        if (result == BENCH_RAN) {
            walk->ran[i] = true;
            ran++;
        } else if (!strstr(why, ": WHEN ")) { /* this kernel does not serve the request */
            memcpy(walk->why[i], why, sizeof(why));
        }
    }
    return ran;
}

void kernel_walk_case(struct kernel_walk *walk, struct kernel_bench *bench, const char *name,
                      kernel_walk_fn one, void *ctx)
{
    if (kernel_walk_run(walk, bench, one, ctx) == 0)
        fail_msg("no kernel runs %s", name);
}

struct judging {
    struct kernel_bench *bench;
    const struct kernel_case *c;
};

static enum bench_result judge_one(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct judging *j = ctx;
    return kernel_bench_case(j->bench, kernel, j->c, why);
}

size_t kernel_walk_judge_some(struct kernel_walk *walk, struct kernel_bench *bench,
                              const struct kernel_case *c)
{
    return kernel_walk_run(walk, bench, judge_one, &(struct judging){bench, c});
}

void kernel_walk_judge(struct kernel_walk *walk, struct kernel_bench *bench, const char *name,
                       const struct kernel_case *c)
{
    if (!bench)
        SKIP("%s: no GLES device", name);
    kernel_walk_case(walk, bench, name, judge_one, &(struct judging){bench, c});
}

static bool is_excused(const struct kernel_walk *walk, const char *why)
{
    for (size_t i = 0; i < WALK_MAX_EXCUSES && walk->excuses[i]; i++)
        if (strstr(why, walk->excuses[i]))
            return true;
    return false;
}

/* Counts the kernels that never ran and have no excuse. */
static int missing(const struct kernel_walk *walk, const struct kernel_bench *bench, bool tell)
{
    int count = 0;
    const char *name;
    for (size_t i = 0; (name = kernel_bench_name(bench, walk->op, i)) != NULL; i++) {
        if (walk->ran[i])
            continue;
        if (tell)
            printf("# skip: %s: %s\n", name,
                   *walk->why[i] ? walk->why[i] : "no case ran it to its end");
        count += !is_excused(walk, walk->why[i]);
    }
    return count;
}

void kernel_walk_complete(struct kernel_walk *walks, size_t num_walks,
                          const struct kernel_bench *bench, const struct walk_table *table)
{
    if (!bench || !test_is_sample(NULL))
        return;
    for (size_t i = 0; i < num_walks; i++)
        walks[i].only_missing = true;
    for (size_t row = 0; row < table->count; row++) {
        int left = 0;
        for (size_t i = 0; i < num_walks; i++)
            left += missing(&walks[i], bench, false);
        if (left == 0)
            break;
        void *state = (void *)(uintptr_t)((const char *)table->rows + row * table->row_bytes);
        printf("# beyond the sample: %s\n", *(const char *const *)state);
        table->test(&state);
    }
    for (size_t i = 0; i < num_walks; i++)
        walks[i].only_missing = false;
}

void kernel_walk_check(const struct kernel_walk *walk, const struct kernel_bench *bench)
{
    if (!bench)
        SKIP("kernels of %s: no GLES device", walk->op);
    assert_non_null(kernel_bench_name(bench, walk->op, 0));
    assert_int_equal(missing(walk, bench, true), 0);
}
