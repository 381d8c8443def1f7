/* Every rope_kv, attn_prefill and attn_decode kernel that this device can run, for both types of
 * cache: any ratio of heads to KV heads, odd head sizes, partial rotary, strides with NaN in the
 * gaps, a cache that is NaN where it was not written. Rotated keys and cached numbers are compared
 * bit for bit, so that decode and prefill agree. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/op_problem.h"
#include "core/oracle/ref_attn.h"
#include "tests/support/attn_case.h"

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
    struct kernel_bench *bench = benches[row->limits_min];
    attn_judge(row, bench, &walks[row->shape.tokens > 0 ? PREFILL : DECODE]);
    const struct kernel_case whole = attn_case(row, "attn_token");
    if (row->shape.tokens == 0)
        kernel_walk_judge_some(&walks[TOKEN], bench, &whole);
}

static void rope_and_cache_agree_bit_for_bit(void **state)
{
    const struct attn_row *row = *state;
    attn_judge(row, benches[row->limits_min], &walks[ROPE_KV]);
}

/* Runs one kernel with each value of a tunable of its groups. Each value needs a separate bench,
 * because hints stay. */
static void run_work_group_sizes(const struct kernel *kernel, const struct kernel_tune *tune,
                                 const struct kernel_case *c)
{
    for (uint32_t i = 0; i < tune->num_choices; i++) {
        char hint[128], why[BENCH_WHY];
        struct kernel_bench *bench = checked(kernel_bench_create(false));
        snprintf(hint, sizeof(hint), "{\"tunes.%s.%s\": %d}", kernel->name, tune->name,
                 (int)tune->choices[i]);
        assert_true(kernel_bench_hint(bench, hint));
        enum bench_result result = kernel_bench_case(bench, kernel->name, c, why);
        if (result == BENCH_FAILED)
            fail_msg("%s with %s %d: %s", kernel->name, tune->name, (int)tune->choices[i], why);
        if (result == BENCH_CANNOT)
            printf("# %s with %s %d: %s\n", kernel->name, tune->name, (int)tune->choices[i], why);
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
    static const char *const names[] = {"KEY_PARTS",   "MOST_HEADS", "DEPTH",    "ROUNDS",
                                        "UNIT_GROUPS", "SUBGROUPS",  "OWN_ROWS", "AHEAD"};
    const char *name;
    if (!benches[0])
        SKIP("every_work_group_size_agrees: no GLES device");
    for (size_t op = 0; op < sizeof(walks) / sizeof(walks[0]); op++)
        for (size_t i = 0; (name = kernel_bench_name(benches[0], walks[op].op, i)) != NULL; i++) {
            const struct kernel *kernel = kernel_set_find(kernel_bench_set(benches[0]), name);
            const struct kernel_case c = attn_case(op >= DECODE ? &decode : &prefill, walks[op].op);
            uint32_t ran = 0;
            for (uint32_t t = 0; t < kernel->num_tunes; t++) {
                bool shapes_group = strcmp(kernel->tunes[t].name, "WG_SIZE") == 0 ||
                                    strcmp(kernel->tunes[t].name, "EACH") == 0;
                for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
                    shapes_group |= strcmp(kernel->tunes[t].name, names[n]) == 0;
                if (shapes_group)
                    run_work_group_sizes(kernel, &kernel->tunes[t], &c);
                ran += shapes_group;
            }
            assert_true(ran > 0);
        }
}

/* ---- rounding to f16 ------------------------------------------------------------------------- */

/* Numbers of tokens around every kind of boundary, through the cache of a model with one head and
 * almost no rotation. */
static void rounding_to_half_is_to_nearest_even(void **state)
{
    (void)state;
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x00000001, 0x33000000, 0x33000001, 0x32ffffff, 0x33800000,
        0x33c00000, 0x33bfffff, 0x387fc000, 0x387fe000, 0x387fffff, 0x38800000, 0x38801000,
        0x38803000, 0x3f801000, 0x3f801001, 0x3f803000, 0xbf802fff, 0x477fefff, 0x477ff000,
        0x477fe000, 0x47800000, 0xff800000, 0x7f7fffff, 0x3555ffff, 0xb4a01234, 0x34400000};
    enum { COUNT = sizeof(bits) / sizeof(bits[0]) };
    const uint32_t dim = (COUNT + 3) / 4 * 4; /* q, k and v of one head */
    struct attn_row row = {"rounding", {1, 1, dim, 4, .tokens = 1}, true, false};
    struct kernel_case c = attn_case(&row, "rope_kv");
    struct problem p = {.seed = 1};
    char why[BENCH_WHY];
    double worst = 0;
    if (!benches[0])
        SKIP("rounding_to_half_is_to_nearest_even: no GLES device");
    op_rule_find("rope_kv")->make(&p, &c);
    assert_false(p.failed);
    struct problem_buffer *qkv = problem_buffer(&p, "QKV"), *kv = problem_buffer(&p, "KV");
    uint32_t *before = checked(dgl_new_array(uint32_t, qkv->words));
    uint32_t *after = checked(dgl_new_array(uint32_t, qkv->words));
    uint32_t *cache = checked(dgl_new_array(uint32_t, kv->words));
    memcpy(before, qkv->before, 4 * qkv->words);
    memcpy(after, qkv->want_words, 4 * qkv->words);
    memcpy(cache, kv->want_words, 4 * kv->words);
    memcpy(before + 2 * dim, bits, sizeof(bits));
    memcpy(after + 2 * dim, bits, sizeof(bits));
    for (size_t i = 0; i < COUNT; i++) { /* in a page, all keys come before the values */
        const size_t at = (2 * (size_t)p.pages[0] + 1) * DGL_KV_PAGE * dim + i;
        float x;
        memcpy(&x, &bits[i], 4);
        cache[at / 2] &= ~(0xffffu << at % 2 * 16);
        cache[at / 2] |= (uint32_t)ref_half(x) << at % 2 * 16;
    }
    qkv->before = before;
    qkv->want_words = after;
    kv->want_words = cache;
    if (kernel_bench_solve(benches[0], "rope_kv", &p, why) != BENCH_RAN ||
        !problem_check(&p, 1e-13, &worst, why))
        fail_msg("%s", why);
    free(before);
    free(after);
    free(cache);
    problem_finish(&p);
}

/* ---- names ----------------------------------------------------------------------------------- */

static char names[NUM_SHAPES * 3][96];
static struct attn_row rows[NUM_SHAPES * 3];

/* An f16 cache for every shape, f32 for every sixth, and the minimal device for partial rotation.
 * Not all combinations: each program costs a second on drivers that compile on the CPU. */
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

int main(void)
{
    const struct CMUnitTest last[] = {cmocka_unit_test(rounding_to_half_is_to_nearest_even),
                                      cmocka_unit_test(every_work_group_size_agrees),
                                      cmocka_unit_test(every_kernel_was_tested)};
    size_t count = name_rows();
    benches[0] = kernel_bench_create(false);
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
