/*
 * Every rope_kv, attn_prefill and attn_decode kernel that this device can run, for both
 * types of cache: any ratio of heads to KV heads, odd head sizes, partial rotary, strides with NaN
 * between, a cache that is NaN where nothing was written. Turned keys and cached numbers are
 * compared bit for bit, so that decode and prefill agree. `PROGRAM bench HEADS KV_HEADS HEAD_DIM
 * POS TOKENS SPLITS` times them instead (f16 cache; TOKENS 0: decode).
 */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/attn_problem.h"

/* tokens = 0: decode. */
static const struct attn_shape shapes[] = {
    {4, 2, 64, 64, .pos = 0, .splits = 1},
    {4, 2, 64, 64, .pos = 200, .splits = 1},
    {8, 1, 16, 16, .pos = 7, .splits = 16},
    {5, 5, 80, 80, .pos = 33, .splits = 3},
    {5, 5, 80, 20, .pos = 1, .splits = 1},
    {8, 1, 16, 16, .pos = 255, .splits = 2},
    {7, 1, 32, 32, .pos = 256, .splits = 4},
    {3, 1, 96, 96, .pos = 70, .splits = 1, .loud = 30},
    {2, 2, 256, 256, .pos = 40, .splits = 2},
    {4, 1, 512, 256, .pos = 40, .splits = 2},
    {6, 2, 128, 64, .pos = 65, .splits = 64, .louder = true},
    {12, 2, 20, 20, .pos = 19, .splits = 2},
    {32, 8, 64, 64, .pos = 3000, .splits = 16},
    {6, 2, 24, 24, .pos = 600, .splits = 5},
    {16, 2, 40, 16, .pos = 400, .splits = 2},
    {18, 2, 64, 64, .pos = 515, .splits = 3},
    {4, 2, 64, 64, .tokens = 1, .pos = 0},
    {4, 2, 64, 64, .tokens = 64, .pos = 0, .pad = 4},
    {4, 2, 64, 64, .tokens = 7, .pos = 2000},
    {5, 5, 80, 80, .tokens = 33, .pos = 5, .pad = 8},
    {5, 5, 80, 20, .tokens = 2, .pos = 3},
    {8, 1, 16, 16, .tokens = 33, .pos = 250},
    {7, 1, 32, 32, .tokens = 7, .pos = 511},
    {3, 1, 96, 96, .tokens = 20, .pos = 0, .loud = 30},
    {2, 2, 256, 256, .tokens = 17, .pos = 3},
    {4, 1, 512, 256, .tokens = 17, .pos = 3},
    {6, 2, 128, 64, .tokens = 17, .pos = 100, .louder = true},
    {12, 2, 20, 20, .tokens = 7, .pos = 19, .pad = 4},
    {32, 8, 64, 64, .tokens = 2, .pos = 5},
};
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

enum { ROPE_KV, PREFILL, DECODE, TOKEN };
enum { SHARE = 4 }; /* of the rows in a sample */

static struct kernel_walk walks[] = {{"rope_kv", .excuses = {"EXTENSION", "SUBGROUP"}},
                                     {"attn_prefill", .excuses = {"EXTENSION", "SUBGROUP"}},
                                     {"attn_decode", .excuses = {"EXTENSION", "SUBGROUP"}},
                                     {"attn_token", .excuses = WALK_DEVICE_LACKS}};

static struct kernel_bench *benches[2]; /* the device as it is, and clamped to the minimums */

static void attention_agrees_with_doubles(void **state)
{
    const struct attn_row *row = *state;
    bool prefill = row->shape.tokens > 0;
    attn_run_all(row, benches[row->limits_min], &walks[prefill ? PREFILL : DECODE],
                 prefill ? attn_run_prefill : attn_run_decode);
    if (!prefill)
        attn_run_some(row, benches[row->limits_min], &walks[TOKEN], attn_run_token);
}

static void rope_and_cache_agree_bit_for_bit(void **state)
{
    const struct attn_row *row = *state;
    attn_run_all(row, benches[row->limits_min], &walks[ROPE_KV], attn_run_rope_kv);
}

/* One kernel with each value of a tunable of its groups: a bench of its own, since hints stay. */
static void run_work_group_sizes(const struct kernel *kernel, const struct kernel_tune *tune,
                                 const struct attn_row *row, attn_run_fn run)
{
    for (uint32_t i = 0; i < tune->num_choices; i++) {
        struct attn_problem p;
        char hint[128], why[BENCH_WHY];
        struct kernel_bench *bench = kernel_bench_create(false);
        assert_non_null(bench);
        snprintf(hint, sizeof(hint), "{\"tunes.%s.%s\": %d}", kernel->name, tune->name,
                 (int)tune->choices[i]);
        assert_true(kernel_bench_hint(bench, hint));
        attn_problem_init(&p, row, bench);
        enum bench_result result = run(&p, kernel->name, why);
        if (result == BENCH_FAILED)
            fail_msg("%s with %s %d: %s", kernel->name, tune->name, (int)tune->choices[i], why);
        if (result == BENCH_CANNOT)
            printf("# %s with %s %d: %s\n", kernel->name, tune->name, (int)tune->choices[i], why);
        attn_problem_finish(&p);
        kernel_bench_destroy(&bench);
    }
}

static void every_work_group_size_agrees(void **state)
{
    (void)state;
    static const struct attn_row decode = {
        "decode", {8, 2, 32, 16, .pos = 300, .splits = 3}, true, false};
    static const struct attn_row prefill = {
        "prefill", {8, 2, 32, 16, .tokens = 33, .pos = 30}, true, false};
    static const attn_run_fn run[] = {[ROPE_KV] = attn_run_rope_kv,
                                      [PREFILL] = attn_run_prefill,
                                      [DECODE] = attn_run_decode,
                                      [TOKEN] = attn_run_token};
    static const char *const names[] = {"KEY_SUBGROUPS", "MOST_HEADS", "DEPTH", "ROUNDS"};
    const char *name;
    if (!benches[0])
        SKIP("every_work_group_size_agrees: no GLES device");
    for (size_t op = 0; op < sizeof(walks) / sizeof(walks[0]); op++)
        for (size_t i = 0; (name = kernel_bench_name(benches[0], walks[op].op, i)) != NULL; i++) {
            const struct kernel *kernel = kernel_set_find(kernel_bench_set(benches[0]), name);
            uint32_t ran = 0;
            for (uint32_t t = 0; t < kernel->num_tunes; t++) {
                bool shapes_group = strcmp(kernel->tunes[t].name, "WG_SIZE") == 0 ||
                                    strcmp(kernel->tunes[t].name, "EACH") == 0;
                for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
                    shapes_group |= op == TOKEN && strcmp(kernel->tunes[t].name, names[n]) == 0;
                if (shapes_group)
                    run_work_group_sizes(kernel, &kernel->tunes[t],
                                         op >= DECODE ? &decode : &prefill, run[op]);
                ran += shapes_group;
            }
            assert_true(ran > 0);
        }
}

/* ---- rounding to f16 ------------------------------------------------------------------------- */

/* Numbers around every kind of boundary, through the cache of a model with one head and no turning
 * to speak of. */
static void rounding_to_half_is_to_nearest_even(void **state)
{
    (void)state;
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x00000001, 0x33000000, 0x33000001, 0x32ffffff, 0x33800000,
        0x33c00000, 0x33bfffff, 0x387fc000, 0x387fe000, 0x387fffff, 0x38800000, 0x38801000,
        0x38803000, 0x3f801000, 0x3f801001, 0x3f803000, 0xbf802fff, 0x477fefff, 0x477ff000,
        0x477fe000, 0x47800000, 0xff800000, 0x7f7fffff, 0x3555ffff, 0xb4a01234, 0x34400000};
    enum { COUNT = sizeof(bits) / sizeof(bits[0]) };
    struct attn_row row = {
        "rounding", {1, 1, 2 * COUNT - COUNT % 2 * 2, 4, .tokens = 1}, true, false};
    struct attn_problem p;
    char why[BENCH_WHY];
    if (!benches[0])
        SKIP("rounding_to_half_is_to_nearest_even: no GLES device");
    row.shape.head_dim = (COUNT + 3) / 4 * 4;
    attn_problem_init(&p, &row, benches[0]);
    memcpy(p.qkv + 2 * row.shape.head_dim, bits, sizeof(bits));
    memcpy(p.turned + 2 * row.shape.head_dim, bits, sizeof(bits));
    ref_attn_store(&p.ref, p.turned, 0, p.kv_after);
    if (attn_run_rope_kv(&p, "rope_kv", why) != BENCH_RAN)
        fail_msg("%s", why);
    attn_problem_finish(&p);
}

/* ---- timing ---------------------------------------------------------------------------------- */

static void time_kernel(const struct attn_problem *p, const char *op, const char *kernel)
{
    struct bench_case c;
    char why[BENCH_WHY];
    uint32_t arrived[ATTN_MAX_HEADS] = {0};
    size_t results = (size_t)p->s.heads * p->s.splits * (p->s.head_dim + 2);
    attn_describe(p, op, &c);
    bench_in(&c, "QKV", p->qkv, p->qkv_words);
    bench_in(&c, "KV", p->kv_after, p->kv_words);
    bench_out(&c, "P", NULL, results);
    bench_out(&c, "O", NULL, (size_t)p->tokens * p->o_stride);
    bench_out(&c, "PARTS", NULL, (results + 3) / 4 * 4);
    bench_in(&c, "ARRIVED", arrived, ATTN_MAX_HEADS);
    c.repeats = 100;
    c.streamed = "KV";
    if (kernel_bench_run(p->bench, kernel, &c, why) == BENCH_RAN)
        printf("%s: best %.1f us, median %.1f us, device's timer %.1f us, in a plan %.1f us\n",
               kernel, c.best_us, c.median_us, c.gpu_us, c.stream_us);
    else
        printf("%s\n", why);
}

static int time_kernels(char **args)
{
    static const char *const ops[2][2] = {{"attn_decode", "attn_token"},
                                          {"rope_kv", "attn_prefill"}};
    uint32_t n[6];
    for (int i = 0; i < 6; i++)
        n[i] = (uint32_t)strtoul(args[i], NULL, 10);
    const struct attn_row row = {
        "bench",
        {n[0], n[1], n[2], n[2], .pos = n[3], .tokens = n[4], .splits = n[5]},
        true,
        false};
    struct attn_problem p;
    const char *name;
    attn_problem_init(&p, &row, benches[0]);
    for (int op = 0; op < 2; op++)
        for (size_t i = 0;
             ops[n[4] > 0][op] && (name = kernel_bench_name(p.bench, ops[n[4] > 0][op], i)) != NULL;
             i++)
            time_kernel(&p, ops[n[4] > 0][op], name);
    attn_problem_finish(&p);
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static char names[NUM_SHAPES * 3][96];
static struct attn_row rows[NUM_SHAPES * 3];

/* An f16 cache for every shape, f32 for every sixth, the minimal device where heads are turned
 * in part. Not all of it: every program costs a driver that compiles on the CPU a second. */
static size_t name_rows(void)
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_SHAPES * 3; i++) {
        const struct attn_shape *s = &shapes[i / 3];
        bool kv_f16 = i % 3 != 1, limits_min = i % 3 == 2;
        if ((!kv_f16 && i / 3 % 6 != 1) || (limits_min && s->rope_dims == s->head_dim))
            continue;
        snprintf(names[count], sizeof(names[0]), "%s_%s_h%u_%u_d%u_r%u_t%u_pos%u_s%u%s",
                 s->tokens ? "prefill" : "decode", kv_f16 ? "f16" : "f32", s->heads, s->kv_heads,
                 s->head_dim, s->rope_dims, s->tokens ? s->tokens : 1, s->pos, s->splits,
                 limits_min ? "_limits_min" : "");
        rows[count] = (struct attn_row){names[count], *s, kv_f16, limits_min};
        count++;
    }
    return count;
}

static void every_kernel_was_tested(void **state)
{
    (void)state;
    struct walk_table attention = {attention_agrees_with_doubles, rows, name_rows(),
                                   sizeof(rows[0])};
    struct walk_table rope = attention;
    rope.test = rope_and_cache_agree_bit_for_bit;
    kernel_walk_complete(&walks[PREFILL], 3, benches[0], &attention);
    kernel_walk_complete(&walks[ROPE_KV], 1, benches[0], &rope);
    for (size_t op = 0; op < sizeof(walks) / sizeof(walks[0]); op++)
        kernel_walk_check(&walks[op], benches[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest last[] = {cmocka_unit_test(rounding_to_half_is_to_nearest_even),
                                      cmocka_unit_test(every_work_group_size_agrees),
                                      cmocka_unit_test(every_kernel_was_tested)};
    size_t count = name_rows();
    benches[0] = kernel_bench_create(false);
    if (benches[0] && argc == 8 && strcmp(argv[1], "bench") == 0) {
        int status = time_kernels(argv + 2);
        kernel_bench_destroy(&benches[0]);
        return status;
    }
    benches[1] = kernel_bench_create(true);
    int failures = test_run_rows_sample("attention", attention_agrees_with_doubles, rows, count,
                                        sizeof(rows[0]), SHARE);
    failures += test_run_rows_sample("rope", rope_and_cache_agree_bit_for_bit, rows, count,
                                     sizeof(rows[0]), SHARE);
    failures += cmocka_run_group_tests_name("coverage", last, NULL, NULL);
    kernel_bench_destroy(&benches[0]);
    kernel_bench_destroy(&benches[1]);
    return failures;
}
