/* GPT-OSS's experts seen as matrices: against the layouts written out value by value. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/quant/quant.h"
#include "loader/tensor/expert_view.h"

/* A source whose bytes are in memory. */
struct memory_source {
    uint8_t *bytes[8];
};

static enum dgl_status memory_read(void *impl, const struct dgl_log *log, size_t index,
                                   uint64_t offset, void *dst, size_t size)
{
    (void)log;
    memcpy(dst, ((struct memory_source *)impl)->bytes[index] + offset, size);
    return DGL_OK;
}

static void memory_destroy(void *impl)
{
    struct memory_source *m = impl;
    for (size_t i = 0; i < 8; i++)
        free(m->bytes[i]);
    free(m);
}

/* Fills every tensor with repeatable bytes. */
static struct tensor_source *memory_create(struct tensor_info *infos, size_t count)
{
    static const struct tensor_source_ops ops = {.read = memory_read, .destroy = memory_destroy};
    struct memory_source *m = dgl_new(struct memory_source);
    struct tensor_source *src = NULL;
    uint64_t seed = 7;
    for (size_t i = 0; i < count; i++) {
        infos[i].role = "other";
        assert_true(
            dgl_dtype_tensor_bytes(infos[i].dtype, infos[i].rank, infos[i].shape, &infos[i].bytes));
        m->bytes[i] = dgl_calloc(infos[i].bytes, 1);
        for (uint64_t b = 0; b < infos[i].bytes; b++)
            m->bytes[i][b] = (uint8_t)(test_rand(&seed) >> 32);
    }
    assert_int_equal(tensor_source_create(NULL, "memory", &ops, m, infos, count, &src), DGL_OK);
    return src;
}

static uint8_t *tensor_bytes(const struct tensor_source *src, const char *name)
{
    long index = tensor_source_find(src, name);
    assert_true(index >= 0);
    uint64_t bytes = tensor_source_at(src, (size_t)index)->bytes;
    uint8_t *out = dgl_calloc(bytes, 1);
    assert_int_equal(tensor_source_read(NULL, src, (size_t)index, 0, out, bytes), DGL_OK);
    return out;
}

/* Any part of a tensor equals that part of the whole tensor. */
static void check_parts(const struct tensor_source *src, const char *name, const uint8_t *whole)
{
    size_t index = (size_t)tensor_source_find(src, name);
    uint64_t bytes = tensor_source_at(src, index)->bytes, seed = 3;
    for (int i = 0; i < 200; i++) {
        uint64_t offset = test_rand(&seed) % bytes, size = test_rand(&seed) % (bytes - offset) + 1;
        size = i % 2 ? size : size % 40 + 1;
        if (size > bytes - offset)
            size = bytes - offset;
        uint8_t *part = dgl_calloc(size, 1);
        assert_int_equal(tensor_source_read(NULL, src, index, offset, part, size), DGL_OK);
        assert_memory_equal(part, whole + offset, size);
        free(part);
    }
}

static void pairs_become_blocks(void **state)
{
    (void)state;
    static const float values[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    struct tensor_info infos[] = {
        {.name = "a.norm", .dtype = DGL_F32, .rank = 1, .shape = {5}},
        {.name = "m.experts.x_blocks", .dtype = DGL_U8, .rank = 4, .shape = {3, 10, 2, 16}},
        {.name = "m.experts.x_scales", .dtype = DGL_U8, .rank = 3, .shape = {3, 10, 2}},
    };
    struct tensor_source *src = memory_create(infos, 3);
    uint8_t *nibbles = tensor_bytes(src, "m.experts.x_blocks");
    uint8_t *scales = tensor_bytes(src, "m.experts.x_scales");
    uint8_t *norm = tensor_bytes(src, "a.norm");
    assert_int_equal(expert_view_wrap(NULL, &src), DGL_OK);
    assert_int_equal(tensor_source_count(src), 2);
    const struct tensor_info *t =
        tensor_source_at(src, (size_t)tensor_source_find(src, "m.experts.x.weight"));
    assert_int_equal(t->dtype, DGL_MXFP4);
    assert_int_equal(t->rank, 3);
    assert_int_equal(t->shape[0], 3);
    assert_int_equal(t->shape[1], 10);
    assert_int_equal(t->shape[2], 64);
    assert_string_equal(t->role, "expert");
    uint8_t *joined = tensor_bytes(src, "m.experts.x.weight");
    for (size_t row = 0; row < 30; row++) {
        float got[64];
        assert_true(dgl_row_decode(DGL_MXFP4, joined + row * 34, 64, got));
        for (size_t i = 0; i < 64; i++) {
            size_t block = row * 2 + i / 32;
            int code = nibbles[block * 16 + i % 32 / 2] >> (i % 2 * 4) & 15;
            double want = values[code] * __builtin_ldexp(1.0, scales[block] - 127);
            if (scales[block] < 2 || scales[block] > 250)
                continue; /* beyond the range of a float */
            assert_near(got[i], want, 0);
        }
    }
    check_parts(src, "m.experts.x.weight", joined);
    uint8_t *norm_seen = tensor_bytes(src, "a.norm");
    assert_memory_equal(norm_seen, norm, 20);
    free(norm_seen);
    free(norm);
    free(joined);
    free(scales);
    free(nibbles);
    tensor_source_destroy(&src);
}

static void float_experts_are_turned(void **state)
{
    (void)state;
    struct tensor_info infos[] = {
        {.name = "mlp.experts.down_proj", .dtype = DGL_BF16, .rank = 3, .shape = {3, 6, 10}},
        {.name = "mlp.experts.down_proj_bias", .dtype = DGL_BF16, .rank = 2, .shape = {3, 10}},
    };
    struct tensor_source *src = memory_create(infos, 2);
    uint16_t *stored = (uint16_t *)(void *)tensor_bytes(src, "mlp.experts.down_proj");
    assert_int_equal(expert_view_wrap(NULL, &src), DGL_OK);
    assert_true(tensor_source_find(src, "mlp.experts.down_proj_bias") >= 0);
    const struct tensor_info *t =
        tensor_source_at(src, (size_t)tensor_source_find(src, "mlp.experts.down_proj.weight"));
    assert_int_equal(t->shape[1], 10);
    assert_int_equal(t->shape[2], 6);
    uint8_t *bytes = tensor_bytes(src, "mlp.experts.down_proj.weight");
    const uint16_t *turned = (const uint16_t *)(const void *)bytes;
    for (int e = 0; e < 3; e++)
        for (int r = 0; r < 10; r++)
            for (int c = 0; c < 6; c++)
                assert_int_equal(turned[(e * 10 + r) * 6 + c], stored[(e * 6 + c) * 10 + r]);
    check_parts(src, "mlp.experts.down_proj.weight", bytes);
    free(bytes);
    free(stored);
    tensor_source_destroy(&src);
}

/* Larger than one read. */
static void large_tensors_come_in_pieces(void **state)
{
    (void)state;
    struct tensor_info infos[] = {
        {.name = "mlp.experts.down_proj", .dtype = DGL_F32, .rank = 3, .shape = {2, 900, 1500}},
        {.name = "y_blocks", .dtype = DGL_U8, .rank = 4, .shape = {2, 700, 5, 16}},
        {.name = "y_scales", .dtype = DGL_U8, .rank = 3, .shape = {2, 700, 5}},
    };
    struct tensor_source *src = memory_create(infos, 3);
    uint32_t *stored = (uint32_t *)(void *)tensor_bytes(src, "mlp.experts.down_proj");
    assert_int_equal(expert_view_wrap(NULL, &src), DGL_OK);
    uint8_t *bytes = tensor_bytes(src, "mlp.experts.down_proj.weight");
    const uint32_t *turned = (const uint32_t *)(const void *)bytes;
    for (size_t e = 0; e < 2; e++)
        for (size_t r = 0; r < 1500; r++)
            for (size_t c = 0; c < 900; c++)
                if (turned[(e * 1500 + r) * 900 + c] != stored[(e * 900 + c) * 1500 + r])
                    fail_msg("expert %zu, row %zu, column %zu differs", e, r, c);
    uint8_t *joined = tensor_bytes(src, "y.weight");
    check_parts(src, "y.weight", joined);
    free(joined);
    free(bytes);
    free(stored);
    tensor_source_destroy(&src);
}

static void others_are_left_alone(void **state)
{
    (void)state;
    struct tensor_info infos[] = {
        {.name = "mlp.experts.0.down_proj.weight", .dtype = DGL_BF16, .rank = 2, .shape = {4, 6}},
        {.name = "lonely_scales", .dtype = DGL_U8, .rank = 1, .shape = {4}},
    };
    struct tensor_source *src = memory_create(infos, 2), *before = src;
    assert_int_equal(expert_view_wrap(NULL, &src), DGL_OK);
    assert_ptr_equal(src, before);
    tensor_source_destroy(&src);
}

struct bad_pair {
    const char *name;
    struct tensor_info blocks, scales;
    const char *part;
};

static const struct bad_pair bad_pairs[] = {
    {"no scales",
     {.name = "x_blocks", .dtype = DGL_U8, .rank = 4, .shape = {2, 4, 2, 16}},
     {.name = "y", .dtype = DGL_U8, .rank = 3, .shape = {2, 4, 2}},
     "x_scales is missing"},
    {"blocks of floats",
     {.name = "x_blocks", .dtype = DGL_F32, .rank = 4, .shape = {2, 4, 2, 16}},
     {.name = "x_scales", .dtype = DGL_U8, .rank = 3, .shape = {2, 4, 2}},
     "not an MXFP4 pair"},
    {"blocks of 8 bytes",
     {.name = "x_blocks", .dtype = DGL_U8, .rank = 4, .shape = {2, 4, 2, 8}},
     {.name = "x_scales", .dtype = DGL_U8, .rank = 3, .shape = {2, 4, 2}},
     "[2, 4, 2, 8]"},
    {"fewer scales",
     {.name = "x_blocks", .dtype = DGL_U8, .rank = 4, .shape = {2, 4, 2, 16}},
     {.name = "x_scales", .dtype = DGL_U8, .rank = 3, .shape = {2, 3, 2}},
     "[2, 3, 2]"},
    {"flat scales",
     {.name = "x_blocks", .dtype = DGL_U8, .rank = 4, .shape = {2, 4, 2, 16}},
     {.name = "x_scales", .dtype = DGL_U8, .rank = 1, .shape = {16}},
     "not an MXFP4 pair"},
};

static void bad_pairs_are_refused(void **state)
{
    const struct bad_pair *row = *state;
    struct tensor_info infos[] = {row->blocks, row->scales};
    struct tensor_source *src = memory_create(infos, 2);
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(expert_view_wrap(&log.log, &src), DGL_ERR_FORMAT);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, "memory: tensor");
    assert_contains(log.text, row->part);
    tensor_source_destroy(&src);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(pairs_become_blocks),
        cmocka_unit_test(float_experts_are_turned),
        cmocka_unit_test(large_tensors_come_in_pieces),
        cmocka_unit_test(others_are_left_alone),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    return failures + test_run_table("pairs refused", bad_pairs_are_refused, bad_pairs);
}
