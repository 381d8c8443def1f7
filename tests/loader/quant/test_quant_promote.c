/* Block formats in the types that they are promoted to: values equal bit for bit, for any codes and
 * scales. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "loader/quant/quant.h"

enum { MAX_VALUES = 256, MAX_BYTES = 512, ROUNDS = 300 };

struct row {
    const char *name;
    enum dgl_dtype type, promoted;
    int half_at[2]; /* offsets of the f16 scale and minimum in a block; -1 = absent */
};

static const struct row rows[] = {
    {"iq4_nl", DGL_IQ4_NL, DGL_Q8_0, {0, -1}},   {"q5_0", DGL_Q5_0, DGL_Q8_0, {0, -1}},
    {"q3_k", DGL_Q3_K, DGL_Q6_K, {108, -1}},     {"q4_1", DGL_Q4_1, DGL_AFFINE, {0, 2}},
    {"q5_1", DGL_Q5_1, DGL_AFFINE, {0, 2}},      {"q2_k", DGL_Q2_K, DGL_AFFINE, {80, 82}},
    {"iq4_xs", DGL_IQ4_XS, DGL_AFFINE, {0, -1}},
};

/* 0, the smallest and largest subnormal, ordinary ones of both signs, the largest. */
static const uint16_t halves[] = {0x0000, 0x8000, 0x0001, 0x03ff, 0x2e66,
                                  0xb5ec, 0x3c00, 0xbc00, 0x7bff};
#define NUM_HALVES (sizeof(halves) / sizeof(halves[0]))

static void put_halves(const struct row *row, uint8_t *block, size_t which)
{
    for (int i = 0; i < 2 && row->half_at[i] >= 0; i++) {
        uint16_t half = halves[(which + 3 * (size_t)i) % NUM_HALVES];
        memcpy(block + row->half_at[i], &half, sizeof(half));
    }
}

/* `cols` values of `block` are equal after widening, and memory after the row is not written. */
static void check_same(const struct row *row, const uint8_t *blocks, uint64_t cols)
{
    float want[MAX_VALUES], got[MAX_VALUES];
    uint8_t wide[MAX_BYTES];
    uint64_t bytes;
    assert_true(dgl_dtype_row_bytes(row->promoted, cols, &bytes));
    memset(wide, 0xa5, sizeof(wide));
    assert_true(dgl_row_promote(row->type, blocks, cols, wide));
    assert_int_equal(wide[bytes], 0xa5);
    assert_true(dgl_row_decode(row->type, blocks, cols, want));
    assert_true(dgl_row_decode(row->promoted, wide, cols, got));
    for (uint64_t i = 0; i < cols; i++)
        if (memcmp(&got[i], &want[i], sizeof(got[i])) != 0)
            fail_msg("%s: value %d of %d is %.9g, wanted %.9g", row->name, (int)i, (int)cols,
                     (double)got[i], (double)want[i]);
}

/* Every byte with every value: each code at each place, each scale; then all of them mixed. */
static void values_are_the_same(void **state)
{
    const struct row *row = *state;
    const struct dgl_dtype_traits *t = dgl_dtype_get(row->type);
    enum dgl_dtype promoted;
    uint8_t block[MAX_BYTES];
    uint64_t seed = 11;
    assert_true(dgl_dtype_promoted(row->type, &promoted));
    assert_int_equal(promoted, row->promoted);
    for (size_t byte = 0; byte < 256 + ROUNDS; byte++) {
        for (size_t which = 0; which < NUM_HALVES; which++) {
            for (uint32_t i = 0; i < t->block_bytes; i++)
                block[i] = (uint8_t)(byte < 256 ? byte : test_rand(&seed));
            put_halves(row, block, which);
            check_same(row, block, t->block);
        }
    }
}

/* Rows that end within a block have room for no more than their own blocks. */
static void padded_rows_stay_inside(void **state)
{
    const struct row *row = *state;
    const struct dgl_dtype_traits *t = dgl_dtype_get(row->type);
    uint8_t block[MAX_BYTES];
    uint64_t seed = 12;
    for (uint64_t cols = 4; cols < t->block; cols += 4) {
        for (uint32_t i = 0; i < t->block_bytes; i++)
            block[i] = (uint8_t)test_rand(&seed);
        put_halves(row, block, (size_t)cols);
        check_same(row, block, cols);
    }
}

static void types_with_kernels_are_not_widened(void **state)
{
    static const enum dgl_dtype types[] = {DGL_F32,   DGL_F16,   DGL_BF16, DGL_Q8_0,
                                           DGL_Q4_0,  DGL_Q4_K,  DGL_Q5_K, DGL_Q6_K,
                                           DGL_MXFP4, DGL_IQ3_S, DGL_TQ2_0};
    uint8_t block[MAX_BYTES] = {0}, wide[MAX_BYTES];
    enum dgl_dtype promoted;
    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        assert_false(dgl_dtype_promoted(types[i], &promoted));
        assert_false(dgl_row_promote(types[i], block, 32, wide));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(types_with_kernels_are_not_widened)};
    int failed = test_run_table("same values", values_are_the_same, rows);
    failed += test_run_table("padded rows", padded_rows_stay_inside, rows);
    return failed + cmocka_run_group_tests_name("others", tests, NULL, NULL);
}
