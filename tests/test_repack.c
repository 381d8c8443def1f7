/* Row layouts byte by byte: strides, padding, scales beside codes, and what is refused. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/repack.h"
#include "loader/quant.h"

static void check_stride(enum dgl_dtype type, const char *layout, uint64_t cols, uint64_t want)
{
    uint64_t words = UINT64_MAX;
    assert_true(repack_stride(type, layout, cols, &words));
    assert_int_equal(words, want);
}

static void native_strides_are_the_file_rows(void **state)
{
    (void)state;
    check_stride(DGL_F32, "native", 36, 36);
    check_stride(DGL_F16, "native", 36, 18);
    check_stride(DGL_BF16, "native", 4, 2);
    check_stride(DGL_Q4_K, "native", 256, 36);
    check_stride(DGL_Q4_K, "native", 260, 72);
    check_stride(DGL_Q4_K, "native", 4, 36);
}

static void an_odd_row_is_rounded_up_to_words(void **state)
{
    (void)state;
    const uint16_t src[3] = {0x1111, 0x2222, 0x3333};
    uint32_t dst[2] = {0xAAAAAAAAu, 0xAAAAAAAAu};
    check_stride(DGL_F16, "native", 3, 2);
    assert_true(repack_row(DGL_F16, "native", src, 3, dst));
    assert_int_equal(dst[0], 0x22221111u);
    assert_int_equal(dst[1], 0x3333u);
}

static void split_strides_round_up_to_64_columns(void **state)
{
    (void)state;
    check_stride(DGL_Q8_0, "split", 64, 17);
    check_stride(DGL_Q8_0, "split", 4, 17);
    check_stride(DGL_Q8_0, "split", 65, 34);
    check_stride(DGL_Q8_0, "split", 2048, 544);
}

static void strides_that_overflow_are_refused(void **state)
{
    (void)state;
    uint64_t words = 7;
    assert_false(repack_stride(DGL_F32, "native", UINT64_MAX / 2, &words));
    assert_false(repack_stride(DGL_Q8_0, "split", UINT64_MAX - 3, &words));
    assert_int_equal(words, 7);
}

static void pairs_without_a_layout_are_refused(void **state)
{
    (void)state;
    uint64_t words;
    uint32_t dst[17];
    const uint8_t src[34] = {0};
    assert_false(repack_stride(DGL_Q8_0, "native", 32, &words));
    assert_false(repack_stride(DGL_Q4_K, "split", 256, &words));
    assert_false(repack_stride(DGL_F16, "", 32, &words));
    assert_false(repack_stride(DGL_U8, "native", 32, &words));
    assert_false(repack_stride(DGL_I64, "native", 32, &words));
    assert_false(repack_row(DGL_Q8_0, "native", src, 32, dst));
    assert_false(repack_row(DGL_F32, "planes", src, 4, dst));
}

static void native_rows_are_copied(void **state)
{
    (void)state;
    uint8_t src[288];
    uint32_t dst[73];
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(i * 7 + 3);
    dst[72] = 0xDEADBEEFu;
    assert_true(repack_row(DGL_Q4_K, "native", src, 260, dst));
    assert_memory_equal(dst, src, sizeof(src));
    assert_int_equal(dst[72], 0xDEADBEEFu);
}

/* 100 columns: three whole blocks and 4 values of a fourth; 128 columns in the packed row. */
static void split_takes_the_scales_out_of_the_blocks(void **state)
{
    (void)state;
    uint8_t src[4 * 34];
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(i + 1);
    uint32_t dst[35];
    memset(dst, 0xEE, sizeof(dst));
    assert_true(repack_row(DGL_Q8_0, "split", src, 100, dst));
    const uint8_t *codes = (const uint8_t *)dst, *scales = codes + 128;
    for (size_t c = 0; c < 128; c++)
        assert_int_equal(codes[c], c < 100 ? src[c / 32 * 34 + 2 + c % 32] : 0);
    for (size_t b = 0; b < 4; b++)
        assert_memory_equal(scales + 2 * b, src + 34 * b, 2);
    assert_int_equal(dst[34], 0xEEEEEEEEu);
}

static void split_keeps_the_values(void **state)
{
    (void)state;
    enum { COLS = 96 };
    float values[COLS], decoded[COLS];
    uint64_t seed = 11, bytes = 0;
    for (size_t i = 0; i < COLS; i++)
        values[i] = test_rand_float(&seed);
    assert_true(dgl_dtype_row_bytes(DGL_Q8_0, COLS, &bytes));
    uint8_t stored[3 * 34];
    assert_int_equal(bytes, sizeof(stored));
    assert_true(dgl_row_encode(DGL_Q8_0, values, COLS, stored));
    assert_true(dgl_row_decode(DGL_Q8_0, stored, COLS, decoded));
    uint32_t dst[34];
    assert_true(repack_row(DGL_Q8_0, "split", stored, COLS, dst));
    for (size_t c = 0; c < COLS; c++) {
        uint16_t half;
        memcpy(&half, (const uint8_t *)dst + 128 + c / 32 * 2, 2);
        float value = dgl_f16_to_f32(half) * (float)((const int8_t *)dst)[c];
        assert_near(value, decoded[c], 0.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_strides_are_the_file_rows),
        cmocka_unit_test(an_odd_row_is_rounded_up_to_words),
        cmocka_unit_test(split_strides_round_up_to_64_columns),
        cmocka_unit_test(strides_that_overflow_are_refused),
        cmocka_unit_test(pairs_without_a_layout_are_refused),
        cmocka_unit_test(native_rows_are_copied),
        cmocka_unit_test(split_takes_the_scales_out_of_the_blocks),
        cmocka_unit_test(split_keeps_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
