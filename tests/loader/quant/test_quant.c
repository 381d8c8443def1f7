/* Halves and block formats: decoders bit for bit against vectors, properties that every encoder
 * keeps. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/str.h"
#include "loader/quant/quant.h"
#include "loader/quant/quant_block.h"

#define VECTORS "tests/data/vectors/quant_vectors.txt"

enum { Q8_0_BYTES = 34, Q4_K_BYTES = 144, MAX_ROW = 64 * Q8_0_BYTES };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- vectors ---- */

static size_t unhex(const char *text, uint8_t *out, size_t max)
{
    size_t len = 0;
    unsigned byte;
    while (len < max && sscanf(text + 2 * len, "%2x", &byte) == 1)
        out[len++] = (uint8_t)byte;
    return len;
}

/* Calls fn with the fields after the first word of every line that starts with `word`; returns
 * how many. */
static int each_vector(const char *word, void (*fn)(char *fields))
{
    char *text = NULL, *save = NULL;
    size_t len;
    int count = 0;
    assert_int_equal(dgl_file_slurp(NULL, VECTORS, 1 << 20, &text, &len), DGL_OK);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t n = strlen(word);
        if (strncmp(line, word, n) != 0 || line[n] != ' ')
            continue;
        fn(line + n + 1);
        count++;
    }
    free(text);
    return count;
}

static void check_block(char *fields)
{
    char *save = NULL, *type_name = strtok_r(fields, " ", &save);
    char *block_hex = strtok_r(NULL, " ", &save), *values_hex = strtok_r(NULL, " ", &save);
    uint8_t block[256], values[1024];
    float decoded[256];
    enum dgl_dtype type;
    assert_true(dgl_dtype_parse(type_name, strlen(type_name), &type));
    const struct dgl_dtype_traits *t = dgl_dtype_get(type);
    size_t count = t->block;
    assert_int_equal(unhex(block_hex, block, sizeof(block)), t->block_bytes);
    assert_int_equal(unhex(values_hex, values, sizeof(values)), 4 * count);
    assert_true(dgl_row_decode(type, block, count, decoded));
    for (size_t i = 0; i < count; i++) {
        float want;
        memcpy(&want, values + 4 * i, 4);
        if (bits_of(decoded[i]) != bits_of(want))
            fail_msg("%s value %zu is %.9g, wanted %.9g", type_name, i, decoded[i], want);
    }
}

static void decodes_blocks_as_ggml(void **state)
{
    (void)state;
    assert_int_equal(each_vector("block", check_block), 70);
}

static void check_half(char *fields)
{
    unsigned from, want;
    assert_int_equal(sscanf(fields, "%x %x", &from, &want), 2);
    unsigned got = dgl_f32_to_f16(float_of(from));
    if (got != want)
        fail_msg("float %08x became half %04x, wanted %04x", from, got, want);
}

static void check_bfloat(char *fields)
{
    unsigned from, want;
    assert_int_equal(sscanf(fields, "%x %x", &from, &want), 2);
    unsigned got = dgl_f32_to_bf16(float_of(from));
    if (got != want)
        fail_msg("float %08x became bfloat %04x, wanted %04x", from, got, want);
}

static void check_halves(char *fields)
{
    float *all = malloc(65536 * sizeof(*all));
    char hex[65];
    assert_non_null(all);
    for (uint32_t i = 0; i < 65536; i++) {
        float value = dgl_f16_to_f32((uint16_t)i);
        all[i] = isnan(value) ? 0 : value;
    }
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, all, 65536 * sizeof(*all), hex));
    free(all);
    assert_string_equal(hex, fields);
}

static void rounds_to_half_as_numpy(void **state)
{
    (void)state;
    assert_int_equal(each_vector("half", check_half), 94);
}

static void rounds_to_bfloat_as_gguf(void **state)
{
    (void)state;
    assert_true(each_vector("bfloat", check_bfloat) > 80);
}

static void reads_all_halves_as_numpy(void **state)
{
    (void)state;
    assert_int_equal(each_vector("halves", check_halves), 1);
}

/* ---- halves ---- */

static void every_half_survives_a_round_trip(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float value = dgl_f16_to_f32((uint16_t)i);
        if (!isnan(value))
            assert_int_equal(dgl_f32_to_f16(value), i);
    }
}

static void every_bfloat_survives_a_round_trip(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float value = dgl_bf16_to_f32((uint16_t)i);
        if (!isnan(value))
            assert_int_equal(dgl_f32_to_bf16(value), i);
    }
}

static void nan_stays_quiet_nan(void **state)
{
    (void)state;
    static const uint32_t nans[] = {0x7fc00000, 0x7f800001, 0xffffffff, 0xff800001};
    for (size_t i = 0; i < 4; i++) {
        float nan_value = float_of(nans[i]);
        assert_true(isnan(dgl_f16_to_f32(dgl_f32_to_f16(nan_value))));
        assert_true(isnan(dgl_bf16_to_f32(dgl_f32_to_bf16(nan_value))));
        assert_int_equal(dgl_f32_to_f16(nan_value) & 0x200, 0x200);
        assert_int_equal(dgl_f32_to_bf16(nan_value) & 0x40, 0x40);
        assert_int_equal(dgl_f32_to_f16(nan_value) >> 15, nans[i] >> 31);
    }
    assert_int_equal(bits_of(dgl_f16_to_f32(0x7c01)), 0x7fc02000);
}

static void subnormal_floats_round_to_bfloat(void **state)
{
    (void)state;
    assert_int_equal(dgl_f32_to_bf16(float_of(0x00008000)), 0x0000); /* tie, to even */
    assert_int_equal(dgl_f32_to_bf16(float_of(0x00008001)), 0x0001);
    assert_int_equal(dgl_f32_to_bf16(float_of(0x00018000)), 0x0002);
}

static void types_without_codec_are_refused(void **state)
{
    (void)state;
    float value = 1;
    uint8_t bytes[8] = {0};
    assert_false(dgl_row_decode(DGL_U8, bytes, 1, &value));
    assert_false(dgl_row_encode(DGL_I64, &value, 1, bytes));
}

/* ---- packing ---- */

static void q4_k_codes_survive_packing(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int round = 0; round < 200; round++) {
        struct k_codes in = {.d = (uint16_t)test_rand(&seed), .dmin = (uint16_t)test_rand(&seed)},
                       out = {0};
        uint8_t block[Q4_K_BYTES];
        for (int i = 0; i < K_SUBS; i++) {
            in.sc[i] = (int8_t)(test_rand(&seed) % 64);
            in.m[i] = (int8_t)(test_rand(&seed) % 64);
        }
        for (int i = 0; i < K_VALUES; i++)
            in.q[i] = (int8_t)(test_rand(&seed) % 16);
        q4_k_pack(&in, block);
        q4_k_unpack(block, &out);
        assert_memory_equal(&in, &out, sizeof(in));
    }
}

static void q5_k_codes_survive_packing(void **state)
{
    (void)state;
    uint64_t seed = 40;
    for (int round = 0; round < 200; round++) {
        struct k_codes in = {.d = (uint16_t)test_rand(&seed), .dmin = (uint16_t)test_rand(&seed)};
        struct k_codes out = {0};
        uint8_t block[MAX_ROW];
        for (int i = 0; i < K_SUBS; i++) {
            in.sc[i] = (int8_t)(test_rand(&seed) % 64);
            in.m[i] = (int8_t)(test_rand(&seed) % 64);
        }
        for (int i = 0; i < K_VALUES; i++)
            in.q[i] = (int8_t)(test_rand(&seed) % 32);
        q5_k_pack(&in, block);
        q5_k_unpack(block, &out);
        assert_memory_equal(&in, &out, sizeof(in));
    }
}

static void q6_k_codes_survive_packing(void **state)
{
    (void)state;
    uint64_t seed = 41;
    for (int round = 0; round < 200; round++) {
        struct k_codes in = {.d = 0x3c00}; /* 1 */
        uint8_t block[MAX_ROW];
        float values[K_VALUES];
        for (int i = 0; i < K_VALUES / 16; i++)
            in.sc[i] = (int8_t)test_rand(&seed);
        for (int i = 0; i < K_VALUES; i++)
            in.q[i] = (int8_t)(test_rand(&seed) % 64 - 32);
        q6_k_pack(&in, block);
        assert_true(dgl_row_decode(DGL_Q6_K, block, K_VALUES, values));
        for (int i = 0; i < K_VALUES; i++)
            assert_float_equal(values[i], (float)(in.sc[i / 16] * in.q[i]), 0.0f);
    }
}

/* ---- encoders: shapes of data ---- */

static const enum dgl_dtype encoders[] = {
    DGL_Q4_K, DGL_Q5_K, DGL_Q6_K, DGL_Q8_0, DGL_Q4_0,   DGL_MXFP4,  DGL_Q2_K,
    DGL_Q3_K, DGL_Q4_1, DGL_Q5_0, DGL_Q5_1, DGL_IQ4_NL, DGL_IQ4_XS,
};
#define NUM_ENCODERS (sizeof(encoders) / sizeof(encoders[0]))

struct shape {
    const char *name;
    void (*fill)(uint64_t *seed, float *x, size_t count);
    double max[NUM_ENCODERS]; /* NMSE, in the order of `encoders` */
};

static void fill_normal(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 0.02f * test_rand_float(seed);
}

static void fill_positive(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 5.0f + 0.2f * fabsf(test_rand_float(seed));
}

static void fill_negative(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = -5.0f - 0.2f * fabsf(test_rand_float(seed));
}

static void fill_plus_constant(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 0.375f;
    (void)seed;
}

static void fill_minus_constant(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = -0.375f;
    (void)seed;
}

static void fill_outlier(uint64_t *seed, float *x, size_t count)
{
    fill_normal(seed, x, count);
    x[test_rand(seed) % count] = 100.0f;
}

static void fill_lone_value(uint64_t *seed, float *x, size_t count)
{
    memset(x, 0, count * sizeof(*x));
    x[test_rand(seed) % count] = -0.7f;
}

static void fill_huge(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 1e5f * test_rand_float(seed);
}

static void fill_tiny(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 1e-5f * test_rand_float(seed);
}

static void fill_mixed_scales(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = ldexpf(test_rand_float(seed), (int)(i / 32 % 8) - 8);
}

static void fill_two_levels(uint64_t *seed, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = test_rand(seed) % 2 ? 0.5f : -0.25f;
}

/* Formats without a minimum are less precise for values far from zero. Values beyond f16 exceed the
 * minimum of q4_1 and q5_1, and the smallest halves are too coarse for the scales of iq4_xs. */
static const struct shape shapes[] = {
    {"normal",
     fill_normal,
     {9e-3, 2e-3, 5e-4, 5e-5, 1.2e-2, 2e-2, 1.0e-1, 3.3e-2, 9.2e-3, 2.5e-3, 1.9e-3, 7.8e-3,
      7.8e-3}},
    {"all positive", /* min/max without a floor at 0 loses the offset: 1.0 */
     fill_positive,
     {5e-4, 1e-4, 2e-4, 2e-5, 2e-3, 4e-2, 8.3e-4, 8.3e-4, 4.5e-6, 3.5e-4, 1.9e-6, 8.2e-4, 8.3e-4}},
    {"all negative",
     fill_negative,
     {1e-4, 1e-4, 2e-4, 2e-5, 2e-3, 4e-2, 7.6e-5, 8.3e-4, 4.4e-6, 3.5e-4, 1.8e-6, 8.2e-4, 8.3e-4}},
    {"constant above zero",
     fill_plus_constant,
     {1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1.1e-6, 1.0e-6, 1.0e-6, 1.0e-6, 1.0e-6, 1.0e-6, 1.0e-6}},
    {"constant below zero",
     fill_minus_constant,
     {1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1.1e-6, 1.0e-6, 1.0e-6, 1.0e-6, 1.0e-6, 1.0e-6, 1.0e-6}},
    {"one outlier",
     fill_outlier,
     {1e-3, 1e-3, 1e-3, 1e-4, 1e-3, 2e-2, 1.7e-5, 1.7e-5, 3.2e-6, 3.0e-6, 3.1e-6, 2.6e-3, 2.6e-3}},
    {"one value among zeros",
     fill_lone_value,
     {1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 2e-2, 1.1e-6, 1.0e-6, 7.3e-6, 1.0e-6, 2.3e-6, 2.5e-3, 2.5e-3}},
    {"beyond f16",
     fill_huge,
     {9e-3, 2e-3, 5e-4, 5e-5, 1.2e-2, 2e-2, 1.0e-1, 3.3e-2, 2.4e-1, 2.5e-3, 2.4e-1, 7.8e-3,
      7.8e-3}},
    {"near the smallest halves",
     fill_tiny,
     {2e-2, 2e-2, 4e-2, 5e-3, 2e-2, 2e-2, 1.0e-1, 3.3e-2, 9.8e-3, 2.5e-3, 1.9e-3, 1.5e-2, 3.5e-1}},
    {"sub-blocks of different scale",
     fill_mixed_scales,
     {9e-3, 2e-3, 5e-4, 5e-5, 1.2e-2, 4e-2, 1.2e-1, 3.3e-2, 8.8e-3, 2.4e-3, 1.9e-3, 7.8e-3,
      7.8e-3}},
    {"two levels",
     fill_two_levels,
     {1e-5, 1e-5, 1e-4, 2e-5, 1e-4, 1e-6, 1.1e-6, 1.0e-6, 1.1e-6, 1.0e-6, 1.2e-6, 9.1e-5, 9.1e-5}},
};

static double row_nmse(enum dgl_dtype type, const float *x, size_t cols)
{
    uint8_t row[MAX_ROW];
    float back[2048];
    double wide[2048];
    assert_true(cols <= 2048);
    assert_true(dgl_row_encode(type, x, cols, row));
    assert_true(dgl_row_decode(type, row, cols, back));
    for (size_t i = 0; i < cols; i++)
        wide[i] = (double)x[i];
    return test_nmse(back, wide, cols);
}

static void shape_is_kept(void **state)
{
    const struct shape *shape = *state;
    static const size_t lengths[] = {256, 1, 31, 33, 64, 255, 257, 300, 768, 1152};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint64_t seed = 100 + i;
        float x[1152];
        shape->fill(&seed, x, lengths[i]);
        for (size_t e = 0; e < NUM_ENCODERS; e++) {
            double nmse = row_nmse(encoders[e], x, lengths[i]);
            if (!(nmse <= shape->max[e]))
                fail_msg("%s, %zu values as %s: NMSE %g, at most %g", shape->name, lengths[i],
                         dgl_dtype_get(encoders[e])->name, nmse, shape->max[e]);
        }
    }
}

/* ---- encoders: properties ---- */

static void zeros_encode_to_zero_bytes(void **state)
{
    (void)state;
    float x[300] = {0};
    uint8_t row[10 * Q8_0_BYTES], zero[sizeof(row)] = {0};
    assert_true(dgl_row_encode(DGL_Q4_K, x, 300, row));
    assert_memory_equal(row, zero, 2 * Q4_K_BYTES);
    assert_true(dgl_row_encode(DGL_Q8_0, x, 300, row));
    assert_memory_equal(row, zero, 10 * Q8_0_BYTES);
}

static void zeros_decode_to_zeros(void **state)
{
    (void)state;
    for (size_t e = 0; e < NUM_ENCODERS; e++) {
        float x[300] = {0}, back[300];
        uint8_t row[MAX_ROW];
        assert_true(dgl_row_encode(encoders[e], x, 300, row));
        assert_true(dgl_row_decode(encoders[e], row, 300, back));
        for (int i = 0; i < 300; i++)
            assert_int_equal(bits_of(back[i]), 0);
    }
}

/* Values below the smallest half become zero in formats with an f16 scale. No value becomes
 * infinite or NaN. */
static void denormal_values_vanish(void **state)
{
    (void)state;
    float x[256], back[256];
    uint8_t row[MAX_ROW];
    uint64_t seed = 9;
    for (int i = 0; i < 256; i++)
        x[i] = float_of((uint32_t)(test_rand(&seed) % 0x7fffff));
    for (size_t e = 0; e < NUM_ENCODERS; e++) {
        assert_true(dgl_row_encode(encoders[e], x, 256, row));
        assert_true(dgl_row_decode(encoders[e], row, 256, back));
        for (int i = 0; i < 256; i++)
            assert_true(encoders[e] == DGL_MXFP4 ? isfinite(back[i]) : back[i] == 0);
    }
}

static void too_large_values_saturate(void **state)
{
    (void)state;
    static const float large[] = {3e38f, 1e30f, INFINITY, NAN};
    for (size_t k = 0; k < 4 * NUM_ENCODERS; k++) {
        enum dgl_dtype type = encoders[k / 4];
        float x[256], back[256];
        uint8_t row[MAX_ROW];
        for (int i = 0; i < 256; i++)
            x[i] = i % 3 ? large[k % 4] : -large[k % 4];
        assert_true(dgl_row_encode(type, x, 256, row));
        assert_true(dgl_row_decode(type, row, 256, back));
        for (int i = 0; i < 256; i++)
            if (!isfinite(back[i]))
                fail_msg("%s makes %g of %g", dgl_dtype_get(type)->name, (double)back[i],
                         (double)x[i]);
    }
}

/* Blocks of values as large as the limit, of either sign: no value is cut. Codes of -8 to 7 and
 * -4 to 3 reach 7/8 and 3/4 of it on the other side. */
static void values_at_the_limit_are_kept(void **state)
{
    (void)state;
    enum { ALL_PLUS, ALL_MINUS, BOTH, ONE_PLUS, ONE_MINUS, PATTERNS };
    static const float signs[PATTERNS][2] = {{1, 1}, {-1, -1}, {1, -1}, {1, 0}, {-1, 0}};
    for (size_t k = 0; k < PATTERNS * NUM_ENCODERS; k++) {
        const enum dgl_dtype type = encoders[k / PATTERNS];
        const size_t pattern = k % PATTERNS;
        const double limit = dgl_row_limit(type);
        float x[256], back[256];
        uint8_t row[MAX_ROW];
        for (size_t i = 0; i < 256; i++)
            x[i] = (float)limit * signs[pattern][pattern < ONE_PLUS ? i % 2 : i != 5];
        for (int fast = 0; fast < 2; fast++) {
            assert_true((fast ? dgl_row_encode_fast : dgl_row_encode)(type, x, 256, row));
            assert_true(dgl_row_decode(type, row, 256, back));
            for (size_t i = 0; i < 256; i++) {
                const double error = fabs((double)back[i] - (double)x[i]) / limit;
                if (!(error <= 0.17))
                    fail_msg("%s, pattern %zu, fast %d: value %zu is %g, wanted %g",
                             dgl_dtype_get(type)->name, pattern, fast, i, (double)back[i],
                             (double)x[i]);
            }
        }
    }
}

/* A sub-block that only contains padding is zero. Memory after the row has no influence. */
static void padding_is_zero_and_has_no_influence(void **state)
{
    (void)state;
    float x[512];
    uint8_t a[2 * Q4_K_BYTES], b[2 * Q4_K_BYTES];
    uint64_t seed = 5;
    fill_negative(&seed, x, 512);
    assert_true(dgl_row_encode(DGL_Q4_K, x, 300, a));
    for (int i = 300; i < 512; i++)
        x[i] = 1e9f;
    assert_true(dgl_row_encode(DGL_Q4_K, x, 300, b));
    assert_memory_equal(a, b, sizeof(a));
    struct k_codes codes;
    q4_k_unpack(a + Q4_K_BYTES, &codes);
    for (int s = 2; s < K_SUBS; s++) {
        assert_int_equal(codes.sc[s], 0);
        assert_int_equal(codes.m[s], 0);
    }
    for (int i = 64; i < K_VALUES; i++)
        assert_int_equal(codes.q[i], 0);
}

static void padding_does_not_cost_precision(void **state)
{
    (void)state;
    uint64_t seed = 6;
    float x[256];
    fill_negative(&seed, x, 256);
    assert_at_most(row_nmse(DGL_Q4_K, x, 40),
                   1e-4); /* zeros in the range would cost 100 times more */
}

/* Doubling every value doubles d and dmin and changes no code. */
static void q4_k_scales_with_powers_of_two(void **state)
{
    (void)state;
    uint64_t seed = 7;
    float x[256];
    uint8_t a[Q4_K_BYTES], b[Q4_K_BYTES];
    fill_normal(&seed, x, 256);
    assert_true(dgl_row_encode(DGL_Q4_K, x, 256, a));
    for (int i = 0; i < 256; i++)
        x[i] *= 2;
    assert_true(dgl_row_encode(DGL_Q4_K, x, 256, b));
    assert_memory_equal(a + 4, b + 4, Q4_K_BYTES - 4);
    assert_int_equal(load_u16(a) + 0x400, load_u16(b));
    assert_int_equal(load_u16(a + 2) + 0x400, load_u16(b + 2));
}

/* Values that a block can store exactly are almost unchanged: converting twice loses almost no
 * precision. */
static void encoding_again_loses_next_to_nothing(void **state)
{
    (void)state;
    uint64_t seed = 8;
    for (int round = 0; round < 20; round++) {
        float x[256], once[256];
        uint8_t row[8 * Q8_0_BYTES];
        fill_normal(&seed, x, 256);
        assert_true(dgl_row_encode(DGL_Q4_K, x, 256, row));
        assert_true(dgl_row_decode(DGL_Q4_K, row, 256, once));
        assert_at_most(row_nmse(DGL_Q4_K, once, 256), 2e-4);
        assert_true(dgl_row_encode(DGL_Q8_0, x, 256, row));
        assert_true(dgl_row_decode(DGL_Q8_0, row, 256, once));
        assert_at_most(row_nmse(DGL_Q8_0, once, 256), 1e-6);
    }
}

/* Plain min/max scaling, as the simplest correct encoder would do it. */
static double minmax_error(const float *x)
{
    double a[8], b[8], amax = 0, bmax = 0, error = 0;
    for (int s = 0; s < 8; s++) {
        float lo = 0, hi = -INFINITY; /* in doubles GCC 12 for arm64 fails internally */
        for (int i = 0; i < 32; i++) {
            lo = fminf(lo, x[32 * s + i]);
            hi = fmaxf(hi, x[32 * s + i]);
        }
        a[s] = ((double)hi - (double)lo) / 15;
        b[s] = -(double)lo;
        amax = fmax(amax, a[s]);
        bmax = fmax(bmax, b[s]);
    }
    double d = (double)dgl_f16_to_f32(dgl_f32_to_f16((float)(amax / 63)));
    double dmin = (double)dgl_f16_to_f32(dgl_f32_to_f16((float)(bmax / 63)));
    for (int i = 0; i < 256; i++) {
        double scale = d * nearbyint(a[i / 32] / d);
        double min = dmin > 0 ? dmin * nearbyint(b[i / 32] / dmin) : 0;
        double q = scale > 0 ? fmin(fmax(nearbyint(((double)x[i] + min) / scale), 0), 15) : 0;
        double rest = (double)x[i] - (scale * q - min);
        error += rest * rest;
    }
    return error;
}

static void q4_k_beats_minmax_on_every_block(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 200; round++) {
        float x[256], back[256];
        uint8_t row[Q4_K_BYTES];
        double error = 0;
        fill_normal(&seed, x, 256);
        assert_true(dgl_row_encode(DGL_Q4_K, x, 256, row));
        assert_true(dgl_row_decode(DGL_Q4_K, row, 256, back));
        for (int i = 0; i < 256; i++)
            error += (double)(x[i] - back[i]) * (double)(x[i] - back[i]);
        assert_at_most(error, 0.95 * minmax_error(x));
    }
}

static void q8_0_is_never_worse_than_one_division(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (int round = 0; round < 500; round++) {
        float x[32], back[32], amax = 0;
        uint8_t row[Q8_0_BYTES];
        double error = 0, plain = 0;
        fill_normal(&seed, x, 32);
        for (int i = 0; i < 32; i++)
            amax = fmaxf(amax, fabsf(x[i]));
        double d = (double)dgl_f16_to_f32(dgl_f32_to_f16(amax / 127));
        assert_true(dgl_row_encode(DGL_Q8_0, x, 32, row));
        assert_true(dgl_row_decode(DGL_Q8_0, row, 32, back));
        for (int i = 0; i < 32; i++) {
            double rest = (double)x[i] - d * nearbyint((double)x[i] / (double)(amax / 127));
            plain += rest * rest;
            error += (double)(x[i] - back[i]) * (double)(x[i] - back[i]);
            assert_true((int8_t)row[2 + i] >= -127);
        }
        assert_at_most(error, plain * (1 + 1e-6));
    }
}

static void super_scales_are_never_negative(void **state)
{
    (void)state;
    uint64_t seed = 13;
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        float x[256];
        uint8_t row[Q4_K_BYTES];
        shapes[s].fill(&seed, x, 256);
        assert_true(dgl_row_encode(DGL_Q4_K, x, 256, row));
        assert_int_equal(load_u16(row) & 0x8000, 0);
        assert_int_equal(load_u16(row + 2) & 0x8000, 0);
    }
}

/* The same bytes on every compiler and processor: hash of the encoding of fixed data. */
static void encodings_are_the_same_everywhere(void **state)
{
    (void)state;
    static const char *const hashes[NUM_ENCODERS] = {
        "b14b696204196856a287b402180c43102dbc8ae4e9d2ee40a8b8dbb680ff64e4",
        "b2329b37a487ecac9156fe45579c851712c5e39c79b4b458fe51381374d91706",
        "52a95a2c5eafd1056d630a847d44cda7e13a678978a044c028eaab9f881c4000",
        "da5e80aa13741518bdbd1f4f6881b9078a1272cb7c86abbf7a092ec2465f2a79",
        "1a470a899639e8c017ee4ee3d8dbf2202775b9286a762b78e74ff030ad495134",
        "5e6c04f29570611ba47deaa21dc7136929a0a3897a512230684171dcb8f6b719",
        "e309689222eedbff35403e84f2fd32f9fd1b9f7c200763de614620a90accef77",
        "e0ca3d8a8cae31ab4e44ad3bd770657b8115afc7c2405721884482cdae151202",
        "25b837701bf2cc55c21dd0f1c57af257ca99ac8d2009698d6663f8936891b8f0",
        "e5384bc38ee3119fd7c9cdcecc61f6848e286bf8fa3a03e60f0b37dc430fa364",
        "15e900504cbb5a4f880d2cb9f76b6a8d6627792bf4ae9095b60b48ec597b6369",
        "b08b2434b3a67b7eeb3222dfa5dc78b30ae9f8806f51e770d620d3bf22d8af25",
        "9597681b9292289d21bcd7ae27a100b8363fa5399d660ab6057cc51138728d8a",
    };
    float x[2048];
    uint8_t row[MAX_ROW];
    char hex[65];
    uint64_t seed = 14, bytes = 0;
    fill_mixed_scales(&seed, x, 1024);
    fill_normal(&seed, x + 1024, 1024);
    for (size_t e = 0; e < NUM_ENCODERS; e++) {
        assert_true(dgl_dtype_row_bytes(encoders[e], 2048, &bytes));
        assert_true(dgl_row_encode(encoders[e], x, 2048, row));
        assert_true(dgl_hash_bytes(DGL_HASH_SHA256, row, bytes, hex));
        assert_string_equal(hex, hashes[e]);
    }
}

/* Without the search the format is still correct and the error small. */
static void fast_encodings_are_close(void **state)
{
    (void)state;
    float x[2048], back[2048];
    double wide[2048];
    uint8_t row[MAX_ROW];
    uint64_t seed = 15;
    fill_normal(&seed, x, 2048);
    for (size_t i = 0; i < 2048; i++)
        wide[i] = (double)x[i];
    for (size_t e = 0; e < NUM_ENCODERS; e++) {
        double best = row_nmse(encoders[e], x, 2048);
        assert_true(dgl_row_encode_fast(encoders[e], x, 2048, row));
        assert_true(dgl_row_decode(encoders[e], row, 2048, back));
        double nmse = test_nmse(back, wide, 2048);
        if (!(nmse >= best && nmse <= 1.5 * best))
            fail_msg("%s: NMSE %g fast, %g with the search", dgl_dtype_get(encoders[e])->name, nmse,
                     best);
    }
}

int main(void)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(decodes_blocks_as_ggml),
        cmocka_unit_test(rounds_to_half_as_numpy),
        cmocka_unit_test(rounds_to_bfloat_as_gguf),
        cmocka_unit_test(reads_all_halves_as_numpy),
        cmocka_unit_test(every_half_survives_a_round_trip),
        cmocka_unit_test(every_bfloat_survives_a_round_trip),
        cmocka_unit_test(nan_stays_quiet_nan),
        cmocka_unit_test(subnormal_floats_round_to_bfloat),
        cmocka_unit_test(types_without_codec_are_refused),
        cmocka_unit_test(q4_k_codes_survive_packing),
        cmocka_unit_test(q5_k_codes_survive_packing),
        cmocka_unit_test(q6_k_codes_survive_packing),
        cmocka_unit_test(zeros_decode_to_zeros),
        cmocka_unit_test(fast_encodings_are_close),
        cmocka_unit_test(zeros_encode_to_zero_bytes),
        cmocka_unit_test(denormal_values_vanish),
        cmocka_unit_test(too_large_values_saturate),
        cmocka_unit_test(values_at_the_limit_are_kept),
        cmocka_unit_test(padding_is_zero_and_has_no_influence),
        cmocka_unit_test(padding_does_not_cost_precision),
        cmocka_unit_test(q4_k_scales_with_powers_of_two),
        cmocka_unit_test(encoding_again_loses_next_to_nothing),
        cmocka_unit_test(q4_k_beats_minmax_on_every_block),
        cmocka_unit_test(q8_0_is_never_worse_than_one_division),
        cmocka_unit_test(super_scales_are_never_negative),
        cmocka_unit_test(encodings_are_the_same_everywhere),
    };
    int failed = test_run_table("shapes", shape_is_kept, shapes);
    return failed + cmocka_run_group_tests_name("quant", cases, NULL, NULL);
}
