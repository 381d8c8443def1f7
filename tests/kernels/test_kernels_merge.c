/* The kernels of attn_merge compared with doubles, and those of copy compared word for word: NaN in
 * the result buffer and in empty parts, guard words around all buffers. */
#include "tests/support/test.h"

#include "tests/support/kernel_walk.h"

/* The parts of a head that contain keys: kernel_case.variant. */
enum parts { FULL, SOME_EMPTY, ONE_LEFT, NUM_PARTS };
static const char *const parts_names[] = {"full", "some_empty", "one_left"};

static const uint32_t heads_tried[] = {1, 4, 5, 32};
static const uint32_t splits_tried[] = {2, 3, 8, 32};
static const uint32_t head_dims_tried[] = {16, 64, 80, 96, 256};
#define NUM_MERGES (4 * 4 * 5 * NUM_PARTS)

static const uint32_t copy_units[] = {1, 127, 512, 513, 100003};
static const uint32_t copy_each[] = {1, 2, 4, 8}; /* values of the kernel's TUNE EACH */
#define NUM_COPIES (5 * 4)

struct merge_row {
    const char *name;
    uint32_t heads, splits, head_dim;
    uint32_t split_threads; /* value of the kernel's TUNE SPLIT_THREADS */
    enum parts parts;
    bool sinks;
};

struct copy_row {
    const char *name;
    uint32_t units, each;
};

static struct {
    struct kernel_bench *bench;
    struct kernel_walk merge, copy, read;
    struct merge_row merges[NUM_MERGES];
    struct copy_row copies[NUM_COPIES];
    char merge_names[NUM_MERGES][56], copy_names[NUM_COPIES][48];
} all = {.merge.op = "attn_merge", .copy.op = "copy", .read.op = "read"};

static void hint(const char *tune, uint32_t value)
{
    char json[80];
    snprintf(json, sizeof(json), "{\"tunes.%s\": %u}", tune, value);
    assert_true(kernel_bench_hint(all.bench, json));
}

static void merges_agree_with_doubles(void **state)
{
    const struct merge_row *row = *state;
    struct kernel_case c = {
        .request.op = "attn_merge", .variant = row->parts, .seed = row->heads * row->splits};
    if (!all.bench)
        SKIP("%s: no GLES device", row->name);
    hint("attn_merge.SPLIT_THREADS", row->split_threads);
    request_set(&c.request, "sinks", row->sinks ? "head" : "none");
    request_set_const(&c.request, "HEADS", row->heads);
    request_set_const(&c.request, "HEAD_DIM", row->head_dim);
    request_set_const(&c.request, "SPLITS", row->splits);
    if (kernel_walk_judge_some(&all.merge, all.bench, &c) == 0)
        SKIP("%s: more invocations or shared memory than this device has", row->name);
}

static void copies_are_exact(void **state)
{
    const struct copy_row *row = *state;
    const struct kernel_case c = {.request.op = "copy", .rows = row->units};
    if (!all.bench)
        SKIP("%s: no GLES device", row->name);
    hint("copy_words.EACH", row->each);
    kernel_walk_judge(&all.copy, all.bench, row->name, &c);
}

static const uint32_t read_rows[] = {1, 127, 2049, 100003};

static void sums_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++)
        kernel_walk_judge(&all.read, all.bench, "read",
                          &(struct kernel_case){.request.op = "read", .rows = read_rows[i]});
    kernel_walk_check(&all.read, all.bench);
}

/* ---- all of them ------------------------------------------------------------------------- */

static void every_kernel_was_tested(void **state)
{
    (void)state;
    kernel_walk_complete(&all.merge, 1, all.bench,
                         &(struct walk_table){merges_agree_with_doubles, all.merges, NUM_MERGES,
                                              sizeof(all.merges[0])});
    kernel_walk_check(&all.merge, all.bench);
    kernel_walk_check(&all.copy, all.bench);
}

static void name_merges(void)
{
    for (size_t i = 0; i < NUM_MERGES; i++) {
        struct merge_row *row = &all.merges[i];
        size_t shape = i / NUM_PARTS;
        *row = (struct merge_row){.name = all.merge_names[i],
                                  .heads = heads_tried[shape / 20],
                                  .splits = splits_tried[shape / 5 % 4],
                                  .head_dim = head_dims_tried[shape % 5],
                                  .split_threads = 1u << shape % 4,
                                  .parts = (enum parts)(i % NUM_PARTS),
                                  .sinks = shape % 2 == 1};
        snprintf(all.merge_names[i], sizeof(all.merge_names[i]), "merge_h%u_s%u_d%u_threads%u_%s%s",
                 row->heads, row->splits, row->head_dim, row->split_threads,
                 parts_names[row->parts], row->sinks ? "_sinks" : "");
    }
}

static void name_copies(void)
{
    for (size_t i = 0; i < NUM_COPIES; i++) {
        struct copy_row *row = &all.copies[i];
        *row = (struct copy_row){all.copy_names[i], copy_units[i / 4], copy_each[i % 4]};
        snprintf(all.copy_names[i], sizeof(all.copy_names[i]), "copy_%u_each%u", row->units,
                 row->each);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(sums_are_exact),
                                        cmocka_unit_test(every_kernel_was_tested)};
    name_merges();
    name_copies();
    all.bench = kernel_bench_create(false);
    int failures = test_run_table_sample("merge", merges_agree_with_doubles, all.merges, 3);
    failures += test_run_table("copy", copies_are_exact, all.copies);
    failures += cmocka_run_group_tests_name("kernels", others, NULL, NULL);
    kernel_bench_destroy(&all.bench);
    return failures;
}
