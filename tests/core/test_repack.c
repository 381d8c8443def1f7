/* Row layouts byte by byte: strides, padding, scales beside codes, and refusals. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/memory/repack.h"

static const struct weight_layout *layout(enum dgl_dtype type, const char *name)
{
    const struct weight_layout *found = weight_layout_find(type, name);
    assert_non_null(found);
    return found;
}

static void check_stride(enum dgl_dtype type, const char *name, uint64_t cols, uint64_t want)
{
    uint64_t words = UINT64_MAX;
    assert_true(weight_layout_stride(layout(type, name), cols, &words));
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
    repack_row(layout(DGL_F16, "native"), src, 3, dst);
    assert_int_equal(dst[0], 0x22221111u);
    assert_int_equal(dst[1], 0x3333u);
}

static void split_strides_round_up_to_blocks_and_16_bytes(void **state)
{
    (void)state;
    check_stride(DGL_Q8_0, "split", 256, 68);
    check_stride(DGL_Q8_0, "split", 4, 12); /* 8.5, rounded up to 16 bytes */
    check_stride(DGL_Q8_0, "split", 1152, 308);
    check_stride(DGL_Q8_0, "split", 2048, 544);
    check_stride(DGL_Q4_0, "split", 256, 36);
    check_stride(DGL_Q4_0, "split", 1152, 164);
    check_stride(DGL_Q5_0, "split", 1152, 200);
    check_stride(DGL_Q5_0, "split", 576, 100);
    check_stride(DGL_MXFP4, "split", 256, 36); /* 34, likewise */
    check_stride(DGL_MXFP4, "split", 512, 68);
    check_stride(DGL_MXFP4, "split", 2880, 384);
    check_stride(DGL_Q6_K, "split", 256, 56); /* 52.5, likewise */
    check_stride(DGL_Q6_K, "split", 2048, 420);
    check_stride(DGL_Q4_1, "split", 576, 92);
    check_stride(DGL_Q5_1, "split", 1152, 216);
    check_stride(DGL_IQ4_NL, "split", 2880, 408); /* 405, likewise */
    check_stride(DGL_IQ4_XS, "split", 2048, 272);
    check_stride(DGL_Q2_K, "split", 2048, 168);
    check_stride(DGL_Q3_K, "split", 2048, 224); /* 112 bytes of 110 */
    check_stride(DGL_Q4_K, "split", 260, 72);
    check_stride(DGL_Q5_K, "native", 1152, 220);
}

/* Kernels find the d of a row from its stride alone. */
static void strides_tell_how_many_blocks_there_are(void **state)
{
    (void)state;
    for (uint64_t blocks = 1; blocks <= 1024; blocks++) {
        uint64_t words = 0;
        assert_true(weight_layout_stride(layout(DGL_Q6_K, "split"), 256 * blocks, &words));
        assert_int_equal(words * 2 / 105, blocks);
    }
}

static void strides_that_overflow_are_refused(void **state)
{
    (void)state;
    uint64_t words = 7;
    assert_false(weight_layout_stride(layout(DGL_F32, "native"), UINT64_MAX / 2, &words));
    assert_false(weight_layout_stride(layout(DGL_Q8_0, "split"), UINT64_MAX - 3, &words));
    assert_int_equal(words, 7);
}

static void pairs_without_a_layout_are_refused(void **state)
{
    (void)state;
    assert_null(weight_layout_find(DGL_Q8_0, "native"));
    assert_null(weight_layout_find(DGL_Q5_K, "split"));
    assert_null(weight_layout_find(DGL_F16, ""));
    assert_null(weight_layout_find(DGL_U8, "native"));
    assert_null(weight_layout_find(DGL_Q6_K, "native"));
    assert_null(weight_layout_find(DGL_IQ4_NL, "native"));
    assert_null(weight_layout_find(DGL_I64, "native"));
    assert_null(weight_layout_find(DGL_F32, "planes"));
}

static void native_rows_are_copied(void **state)
{
    (void)state;
    uint8_t src[288];
    uint32_t dst[73];
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(i * 7 + 3);
    dst[72] = 0xDEADBEEFu;
    repack_row(layout(DGL_Q4_K, "native"), src, 260, dst);
    assert_memory_equal(dst, src, sizeof(src));
    assert_int_equal(dst[72], 0xDEADBEEFu);
}

struct split_row {
    const char *name;
    enum dgl_dtype type;
    uint32_t cols;
    uint32_t planes[3][2]; /* offset in a block of the file, bytes */
};
static const struct split_row split_rows[] = {
    {"q8_0 of 100", DGL_Q8_0, 100, {{2, 32}, {0, 2}}},
    {"q8_0 of 1152", DGL_Q8_0, 1152, {{2, 32}, {0, 2}}},
    {"q4_0 of 36", DGL_Q4_0, 36, {{2, 16}, {0, 2}}},
    {"q4_0 of 1152", DGL_Q4_0, 1152, {{2, 16}, {0, 2}}},
    {"q5_0 of 100", DGL_Q5_0, 100, {{6, 16}, {2, 4}, {0, 2}}},
    {"q5_0 of 1152", DGL_Q5_0, 1152, {{6, 16}, {2, 4}, {0, 2}}},
    {"q5_1 of 100", DGL_Q5_1, 100, {{8, 16}, {0, 8}}},
    {"q4_1 of 100", DGL_Q4_1, 100, {{4, 16}, {0, 4}}},
    {"iq4_nl of 2880", DGL_IQ4_NL, 2880, {{2, 16}, {0, 2}}},
    {"iq4_xs of 1152", DGL_IQ4_XS, 1152, {{8, 128}, {0, 8}}},
    {"q2_k of 1152", DGL_Q2_K, 1152, {{16, 64}, {0, 16}, {80, 4}}},
    {"mxfp4 of 32", DGL_MXFP4, 32, {{1, 16}, {0, 1}}},
    {"mxfp4 of 2880", DGL_MXFP4, 2880, {{1, 16}, {0, 1}}},
    {"q6_k of 80", DGL_Q6_K, 80, {{0, 208}, {208, 2}}},
    {"q6_k of 1152", DGL_Q6_K, 1152, {{0, 208}, {208, 2}}},
};

/* The fifth bits of q5_0 and q5_1: bit 4 w + b becomes bit 8 b + w. */
static void spread_fifths(uint8_t bits[4])
{
    uint8_t to[4] = {0};
    for (unsigned w = 0; w < 8; w++)
        for (unsigned b = 0; b < 4; b++)
            to[b] = (uint8_t)(to[b] | (bits[(4 * w + b) / 8] >> (4 * w + b) % 8 & 1) << w);
    memcpy(bits, to, 4);
}

/* One field of all blocks after the other, zeros up to 16 bytes, and no further bytes. */
static void split_takes_the_fields_out_of_the_blocks(void **state)
{
    const struct split_row *row = *state;
    const struct dgl_dtype_traits *t = dgl_dtype_get(row->type);
    uint8_t src[4096], want[4096] = {0}, *to = want;
    uint32_t dst[1025];
    uint64_t words = 0, seed = row->cols;
    const size_t blocks = (row->cols + t->block - 1) / t->block;
    assert_true(weight_layout_stride(layout(row->type, "split"), row->cols, &words));
    assert_true(words <= 1024);
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(test_rand(&seed) >> 32);
    for (int p = 0; p < 3; p++)
        for (size_t b = 0; b < blocks; b++, to += row->planes[p][1]) {
            memcpy(to, src + b * t->block_bytes + row->planes[p][0], row->planes[p][1]);
            if (row->type == DGL_Q5_0 && p == 1)
                spread_fifths(to);
            if (row->type == DGL_Q5_1 && p == 1)
                spread_fifths(to + 4);
        }
    memset(dst, 0xEE, sizeof(dst));
    repack_row(layout(row->type, "split"), src, row->cols, dst);
    assert_memory_equal(dst, want, 4 * words);
    assert_int_equal(dst[words], 0xEEEEEEEEu);
}

/* Each field of a q4_k block, decoded as in docs/formats.md, is at the place given in
 * docs/operations.md. */
static void split_q4_k_has_scales_and_codes_by_group(void **state)
{
    (void)state;
    enum { COLS = 700, BLOCKS = 3 };
    uint8_t src[BLOCKS * 144];
    uint32_t dst[BLOCKS * 36 + 1];
    uint64_t words = 0, seed = 5;
    assert_true(weight_layout_stride(layout(DGL_Q4_K, "split"), COLS, &words));
    assert_int_equal(words, BLOCKS * 36);
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(test_rand(&seed) >> 32);
    dst[words] = 0xEEEEEEEEu;
    repack_row(layout(DGL_Q4_K, "split"), src, COLS, dst);
    assert_int_equal(dst[words], 0xEEEEEEEEu);
    const uint8_t *codes = (const uint8_t *)dst, *heads = codes + BLOCKS * 128;
    for (unsigned b = 0; b < BLOCKS; b++) {
        const uint8_t *block = src + b * 144, *packed = block + 4, *head = heads + b * 16;
        assert_memory_equal(head, block, 4);
        for (unsigned j = 0; j < 8; j++) {
            unsigned sc = packed[j] & 63u, m = packed[(j + 4) % 12] & 63u;
            if (j >= 4) {
                sc = (packed[j + 4] & 15u) | (unsigned)packed[j - 4] >> 6 << 4;
                m = (unsigned)packed[j + 4] >> 4 | (unsigned)packed[j] >> 6 << 4;
            }
            assert_int_equal(head[4 + j], sc | (m & 3u) << 6);
            assert_int_equal((unsigned)head[12 + j % 4] >> (j < 4 ? 0 : 4) & 15u, m >> 2);
            for (unsigned i = 0; i < 32; i++) {
                unsigned byte = block[16 + j / 2 * 32 + i], code = j % 2 ? byte >> 4 : byte & 15u;
                unsigned to = codes[b * 128 + j * 16 + i % 16];
                assert_int_equal(i < 16 ? to & 15u : to >> 4, code);
            }
        }
    }
}

/* Low bits, third bits, scales and d, in 112 bytes. */
static void split_q3_k_is_words(void **state)
{
    (void)state;
    uint8_t src[220], want[224] = {0};
    uint32_t dst[57];
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(i * 7 + 3);
    for (size_t b = 0; b < 2; b++) {
        memcpy(want + 112 * b, src + 110 * b + 32, 64);
        memcpy(want + 112 * b + 64, src + 110 * b, 32);
        memcpy(want + 112 * b + 96, src + 110 * b + 96, 14);
    }
    dst[56] = 0xEEEEEEEEu;
    repack_row(layout(DGL_Q3_K, "split"), src, 260, dst);
    assert_memory_equal(dst, want, sizeof(want));
    assert_int_equal(dst[56], 0xEEEEEEEEu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_strides_are_the_file_rows),
        cmocka_unit_test(an_odd_row_is_rounded_up_to_words),
        cmocka_unit_test(split_strides_round_up_to_blocks_and_16_bytes),
        cmocka_unit_test(strides_tell_how_many_blocks_there_are),
        cmocka_unit_test(strides_that_overflow_are_refused),
        cmocka_unit_test(pairs_without_a_layout_are_refused),
        cmocka_unit_test(native_rows_are_copied),
        cmocka_unit_test(split_q4_k_has_scales_and_codes_by_group),
        cmocka_unit_test(split_q3_k_is_words),
    };
    int failed = test_run_table("split", split_takes_the_fields_out_of_the_blocks, split_rows);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
