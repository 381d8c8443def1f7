/* The kernels of attn_merge against doubles, and those of copy word for word: NaN where results go
 * and in the parts that are empty, guard words around all buffers. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/support/kernel_walk.h"
#include "core/oracle/ref_ops.h"

#define EMPTY_MAX (-1e30f)

/* Which parts of a head hold keys. */
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
    float sinks[32];
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

/* ---- attn_merge -------------------------------------------------------------------------- */

static bool is_empty(const struct merge_row *row, uint32_t head, uint32_t split)
{
    switch (row->parts) {
    case SOME_EMPTY:
        return (head + split) % 2 == 1;
    case ONE_LEFT:
        return split != (head + 1) % row->splits;
    default:
        return false;
    }
}

/* P as attn_decode leaves it. Scores of even heads lie about 500, of odd ones about -500, and those
 * of every third split so far below that they weigh nothing. */
static void fill_parts(const struct merge_row *row, float *p, size_t words, uint64_t *seed)
{
    size_t count = (size_t)row->heads * row->splits;
    ref_fill(p, words, seed);
    for (size_t i = 0; i < count; i++) {
        uint32_t head = (uint32_t)(i / row->splits), split = (uint32_t)(i % row->splits);
        float *ml = p + count * row->head_dim + 2 * i;
        ml[0] += (head % 2 ? -500.0f : 500.0f) - (split % 3 == 2 ? 200.0f : 0.0f);
        ml[1] = 1.0f + fabsf(ml[1]);
        if (is_empty(row, head, split)) {
            ml[0] = EMPTY_MAX;
            ml[1] = 0.0f;
            for (uint32_t d = 0; d < row->head_dim; d++)
                p[i * row->head_dim + d] = NAN;
        }
    }
}

/* Sinks about as high as the highest score of their head: neither they nor the keys weigh nothing.
 */
static void fill_sinks(const struct merge_row *row, const float *p, uint64_t *seed)
{
    const float *ml = p + (size_t)row->heads * row->splits * row->head_dim;
    for (uint32_t head = 0; head < row->heads; head++) {
        float top = EMPTY_MAX;
        for (uint32_t split = 0; split < row->splits; split++)
            top = fmaxf(top, ml[2 * ((size_t)head * row->splits + split)]);
        all.sinks[head] = top + 2.0f * test_rand_float(seed);
    }
}

/* The same sums in doubles, which take an empty part for zeros. */
static void expect(const struct merge_row *row, const float *p, size_t words, double *want)
{
    float *clean = checked(dgl_new_array(float, words));
    for (size_t i = 0; i < words; i++)
        clean[i] = isnan(p[i]) ? 0.0f : p[i];
    ref_merge(clean, row->heads, row->splits, row->head_dim, row->sinks ? all.sinks : NULL, want);
    free(clean);
}

struct merging {
    const struct merge_row *row;
    size_t words;
    float *p;
    double *want;
};

static void check_heads(const struct merging *m, const char *kernel, const float *got)
{
    double limit = kernel_set_find(kernel_bench_set(all.bench), kernel)->tolerance;
    for (uint32_t head = 0; head < m->row->heads; head++) {
        size_t at = (size_t)head * m->row->head_dim;
        double nmse = test_nmse(got + at, m->want + at, m->row->head_dim);
        if (!(nmse <= limit))
            fail_msg("%s: head %u: NMSE %.3g, at most %.3g allowed; first value %.9g, "
                     "expected %.17g",
                     kernel, head, nmse, limit, (double)got[at], m->want[at]);
    }
}

static enum bench_result merge_on(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct merging *m = ctx;
    const struct merge_row *row = m->row;
    size_t width = (size_t)row->heads * row->head_dim;
    float *got = checked(dgl_new_array(float, width));
    struct bench_case c = {.request.op = "attn_merge", .step.tokens = 1};
    bench_const(&c, "HEADS", row->heads);
    bench_const(&c, "HEAD_DIM", row->head_dim);
    bench_const(&c, "SPLITS", row->splits);
    bench_attr(&c, "sinks", row->sinks ? "head" : "none");
    bench_in(&c, "P", m->p, m->words);
    if (row->sinks)
        bench_in(&c, "S", all.sinks, row->heads);
    bench_out(&c, "O", got, width);
    enum bench_result result = kernel_bench_run(all.bench, kernel, &c, why);
    if (result == BENCH_RAN)
        check_heads(m, kernel, got);
    free(got);
    return result;
}

static void merges_agree_with_doubles(void **state)
{
    const struct merge_row *row = *state;
    size_t width = (size_t)row->heads * row->head_dim;
    struct merging m = {row, width * row->splits + 2 * (size_t)row->heads * row->splits, NULL,
                        NULL};
    uint64_t seed = m.words;
    if (!all.bench)
        SKIP("%s: no GLES device", row->name);
    hint("attn_merge.SPLIT_THREADS", row->split_threads);
    m.p = checked(dgl_new_array(float, m.words));
    m.want = checked(dgl_new_array(double, width));
    fill_parts(row, m.p, m.words, &seed);
    fill_sinks(row, m.p, &seed);
    expect(row, m.p, m.words, m.want);
    size_t ran = kernel_walk_run(&all.merge, all.bench, merge_on, &m);
    free(m.p);
    free(m.want);
    if (ran == 0)
        SKIP("%s: more invocations or shared memory than this device has", row->name);
}

/* ---- copy -------------------------------------------------------------------------------- */

struct copying {
    const struct copy_row *row;
    size_t words, beyond; /* what lies beyond must not be copied */
    uint32_t *from;
};

static enum bench_result copy_on(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct copying *k = ctx;
    uint32_t *to = checked(dgl_new_array(uint32_t, k->words));
    struct bench_case c = {.request.op = "copy", .step.tokens = 1, .band = k->row->units};
    bench_uint(&c, "rows", k->row->units);
    bench_in(&c, "SRC", k->from, k->words + k->beyond);
    bench_out(&c, "DST", to, k->words);
    enum bench_result result = kernel_bench_run(all.bench, kernel, &c, why);
    if (result == BENCH_RAN)
        assert_memory_equal(to, k->from, 4 * k->words);
    free(to);
    return result;
}

static void copies_are_exact(void **state)
{
    const struct copy_row *row = *state;
    struct copying k = {row, 4 * (size_t)row->units, 64, NULL};
    uint64_t seed = row->units;
    if (!all.bench)
        SKIP("%s: no GLES device", row->name);
    hint("copy_words.EACH", row->each);
    k.from = checked(dgl_new_array(uint32_t, k.words + k.beyond));
    for (size_t i = 0; i < k.words + k.beyond; i++)
        k.from[i] = (uint32_t)test_rand(&seed);
    kernel_walk_case(&all.copy, all.bench, row->name, copy_on, &k);
    free(k.from);
}

/* ---- read -------------------------------------------------------------------------------- */

static const uint32_t read_rows[] = {1, 127, 2049, 100003};
#define MOST_GROUPS 4096

/* The sums of all groups together are the sum of all words, each counted once. */
static enum bench_result read_on(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const uint32_t units = *(const uint32_t *)ctx;
    uint64_t seed = units;
    uint32_t *from = checked(dgl_new_array(uint32_t, 4 * (size_t)units + 64)), want = 0, got = 0;
    uint32_t *sums = checked(dgl_new_array(uint32_t, MOST_GROUPS));
    struct bench_case c = {.request.op = "read", .step.tokens = 1, .band = units};
    for (size_t i = 0; i < 4 * (size_t)units + 64; i++) {
        from[i] = (uint32_t)test_rand(&seed);
        want += i < 4 * (size_t)units ? from[i] : 0;
    }
    bench_uint(&c, "rows", units);
    bench_in(&c, "SRC", from, 4 * (size_t)units + 64);
    bench_inout(&c, "DST", sums, sums, MOST_GROUPS);
    enum bench_result result = kernel_bench_run(all.bench, kernel, &c, why);
    for (size_t i = 0; i < MOST_GROUPS; i++)
        got += sums[i];
    free(from);
    free(sums);
    if (result == BENCH_RAN)
        assert_int_equal(got, want);
    return result;
}

static void sums_are_exact(void **state)
{
    (void)state;
    if (!all.bench)
        SKIP("no GLES device");
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++)
        kernel_walk_case(&all.read, all.bench, "read", read_on, (void *)(uintptr_t)&read_rows[i]);
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
