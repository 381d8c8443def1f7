/* Layouts of matrices in packs: their sizes, the layout of an entry, and the view that presents all
 * of them by rows. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/quant/quant.h"
#include "loader/rdrr/rdrr_manifest.h"

/* ---- sizes ---- */

/* Block by block, as somebody would count them on paper. */
static uint64_t count_blocks(uint64_t rows, uint64_t cols, enum rdrr_layout layout)
{
    uint64_t blocks = 0;
    if (layout == RDRR_FLAT) {
        for (uint64_t at = 0; at < rows * cols; at += 256)
            blocks++;
        return blocks;
    }
    uint64_t lines = layout == RDRR_ROW ? rows : cols, len = layout == RDRR_ROW ? cols : rows;
    for (uint64_t line = 0; line < lines; line++)
        for (uint64_t at = 0; at < len; at += 256)
            blocks++;
    return blocks;
}

static void sizes_follow_from_shapes(void **state)
{
    (void)state;
    uint64_t rng = 3, bytes;
    for (int i = 0; i < 1000; i++) {
        uint64_t shape[] = {1 + test_rand(&rng) % 700, 1 + test_rand(&rng) % 700};
        for (int l = 0; l < RDRR_LAYOUTS; l++) {
            assert_true(rdrr_layout_bytes((enum rdrr_layout)l, DGL_Q4_K, 2, shape, &bytes));
            assert_int_equal(bytes, 144 * count_blocks(shape[0], shape[1], (enum rdrr_layout)l));
        }
    }
    uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    for (int l = 0; l < RDRR_LAYOUTS; l++)
        assert_false(rdrr_layout_bytes((enum rdrr_layout)l, DGL_Q4_K, 2, huge, &bytes));
    assert_false(rdrr_layout_bytes(RDRR_COLUMN, DGL_Q4_K, 3, (uint64_t[]){2, 256, 256}, &bytes));
}

/* ---- layouts of entries ---- */

struct entry {
    const char *name;
    enum dgl_dtype type;
    const char *json;
    bool says; /* the pack declares `pack` for block formats */
    enum rdrr_layout pack, floats;
    enum rdrr_layout want;
    uint64_t rows, cols;
    const char *refused;
};

static const struct entry entries[] = {
    {"rows of 1152", DGL_Q4_K, "\"shape\": [256, 1152], \"size\": 184320", false, 0, 0, RDRR_ROW,
     256, 1152, NULL},
    {"flat by size", DGL_Q4_K, "\"shape\": [256, 1152], \"size\": 165888", false, 0, 0, RDRR_FLAT,
     256, 1152, NULL},
    {"columns by size", DGL_Q4_K, "\"shape\": [300, 96], \"size\": 27648", false, 0, 0, RDRR_COLUMN,
     300, 96, NULL},
    {"columns said by the pack", DGL_Q4_K, "\"shape\": [512, 256], \"size\": 73728", true,
     RDRR_COLUMN, 0, RDRR_COLUMN, 512, 256, NULL},
    {"columns said by the entry", DGL_Q4_K,
     "\"shape\": [512, 256], \"size\": 73728, \"layout\": \"col\"", false, 0, 0, RDRR_COLUMN, 512,
     256, NULL},
    {"rows said by the entry, not by the pack", DGL_Q4_K,
     "\"shape\": [512, 256], \"size\": 73728, \"layout\": \"row\"", true, RDRR_COLUMN, 0, RDRR_ROW,
     512, 256, NULL},
    {"flat import in a pack of rows", DGL_Q4_K, "\"shape\": [256, 1152], \"size\": 165888", true,
     RDRR_ROW, 0, RDRR_FLAT, 256, 1152, NULL},
    {"flat, but of whole rows", DGL_Q4_K,
     "\"shape\": [512, 256], \"size\": 73728, \"layout\": \"packed\"", false, 0, 0, RDRR_ROW, 512,
     256, NULL},
    {"flat or columns, unsaid", DGL_Q4_K, "\"shape\": [256, 300], \"size\": 43200", false, 0, 0,
     RDRR_FLAT, 256, 300, NULL},
    {"flat or columns, said", DGL_Q4_K, "\"shape\": [256, 300], \"size\": 43200", true, RDRR_COLUMN,
     0, RDRR_COLUMN, 256, 300, NULL},
    {"columns in a pack of rows", DGL_Q4_K, "\"shape\": [300, 96], \"size\": 27648", true, RDRR_ROW,
     0, RDRR_ROW, 0, 0, "size is 27648"},
    {"no layout has the size", DGL_Q4_K, "\"shape\": [512, 256], \"size\": 73729", false, 0, 0,
     RDRR_ROW, 0, 0, "size is 73729, but shape [512, 256] of Q4_K_M needs 73728"},
    {"said layout has another size", DGL_Q4_K,
     "\"shape\": [256, 1152], \"size\": 184320, \"layout\": \"column\"", false, 0, 0, RDRR_ROW, 0,
     0, "needs 165888 in layout \"column\""},
    {"padded shape", DGL_Q4_K,
     "\"shape\": [256, 1280], \"originalShape\": [256, 1152], \"size\": 184320", false, 0, 0,
     RDRR_ROW, 256, 1152, NULL},
    {"shape padded by too much", DGL_Q4_K,
     "\"shape\": [256, 1536], \"originalShape\": [256, 1152], \"size\": 221184", false, 0, 0,
     RDRR_ROW, 0, 0, "originalShape is [256, 1152]"},
    {"turned blocks", DGL_Q4_K,
     "\"shape\": [96, 300], \"originalShape\": [300, 96], \"size\": 27648, \"layout\": \"column\"",
     false, 0, 0, RDRR_COLUMN, 300, 96, NULL},
    {"turned floats", DGL_F16,
     "\"shape\": [96, 300], \"originalShape\": [300, 96], \"size\": 57600, \"layout\": \"column\"",
     false, 0, 0, RDRR_COLUMN, 300, 96, NULL},
    {"turned floats under the model's shape", DGL_F16,
     "\"shape\": [300, 96], \"size\": 57600, \"layout\": \"column\"", false, 0, 0, RDRR_COLUMN, 300,
     96, NULL},
    {"turned floats by a flag", DGL_F16,
     "\"shape\": [300, 96], \"size\": 57600, \"weightsTransposed\": true", false, 0, 0, RDRR_COLUMN,
     300, 96, NULL},
    {"floats of a pack in columns", DGL_F16, "\"shape\": [300, 96], \"size\": 57600", false, 0,
     RDRR_COLUMN, RDRR_COLUMN, 300, 96, NULL},
    {"one dimension in columns", DGL_F16, "\"shape\": [300], \"size\": 600, \"layout\": \"column\"",
     false, 0, 0, RDRR_ROW, 0, 0, "layout \"column\" is for matrices"},
    {"one dimension in a pack in columns", DGL_F16, "\"shape\": [300], \"size\": 600", false, 0,
     RDRR_COLUMN, RDRR_ROW, 300, 0, NULL},
    {"reverse shape, but in rows", DGL_F16,
     "\"shape\": [96, 300], \"originalShape\": [300, 96], \"size\": 57600", false, 0, 0, RDRR_ROW,
     0, 0, "originalShape is [300, 96], but shape is [96, 300]"},
    {"original shape of another rank", DGL_F16,
     "\"shape\": [96, 300], \"originalShape\": [28800], \"size\": 57600", false, 0, 0, RDRR_ROW, 0,
     0, "originalShape is [28800]"},
    {"original shape of nothing", DGL_F16,
     "\"shape\": [96, 300], \"originalShape\": [], \"size\": 57600", false, 0, 0, RDRR_ROW, 0, 0,
     "originalShape: 0 dimensions"},
    {"original shape that is negative", DGL_F16,
     "\"shape\": [96, 300], \"originalShape\": [96, -300], \"size\": 57600", false, 0, 0, RDRR_ROW,
     0, 0, "originalShape"},
};

static void entry_has_its_layout(void **state)
{
    const struct entry *row = *state;
    struct dgl_buf text = {0};
    struct dgl_json_doc *doc = NULL;
    struct test_log log;
    struct rdrr_manifest m = {
        .says_block_layout = row->says, .block_layout = row->pack, .float_layout = row->floats};
    struct rdrr_tensor t = {.info = {.name = "t", .dtype = row->type, .role = "matmul"}};
    test_log_init(&log, DGL_LOG_ERROR);
    dgl_buf_printf(&text, "{%s}", row->json);
    assert_int_equal(dgl_json_parse(NULL, "m", text.p, text.len, &doc), DGL_OK);
    enum dgl_status status = rdrr_shape_parse((struct dgl_json_reader){.log = &log.log, .doc = doc},
                                              dgl_json_root(doc), &m, &t);
    if (row->refused) {
        assert_int_equal(status, DGL_ERR_FORMAT);
        assert_int_equal(log.errors, 1);
        assert_contains(log.text, row->refused);
    } else {
        if (status != DGL_OK)
            fail_msg("%s", log.text);
        assert_string_equal(rdrr_layout_name(t.layout), rdrr_layout_name(row->want));
        assert_int_equal(t.info.shape[0], row->rows);
        assert_int_equal(t.info.shape[1], row->cols);
    }
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
}

/* ---- the view ---- */

/* A tensor in memory. */
struct memory {
    unsigned char *bytes;
};

static enum dgl_status memory_read(void *impl, const struct dgl_log *log, size_t index,
                                   uint64_t offset, void *dst, size_t size)
{
    (void)log;
    (void)index;
    memcpy(dst, ((struct memory *)impl)->bytes + offset, size);
    return DGL_OK;
}

static void memory_destroy(void *impl)
{
    (void)impl;
}

struct view_row {
    const char *name;
    enum rdrr_layout layout;
    enum dgl_dtype type;
    uint64_t rows, cols;
};

static const struct view_row view_rows[] = {
    {"columns of f16", RDRR_COLUMN, DGL_F16, 37, 91},
    {"columns of f32", RDRR_COLUMN, DGL_F32, 300, 5},
    {"columns of q4_k", RDRR_COLUMN, DGL_Q4_K, 300, 96},
    {"columns of q4_k, few rows", RDRR_COLUMN, DGL_Q4_K, 3, 700},
    {"columns of q6_k", RDRR_COLUMN, DGL_Q6_K, 513, 17},
    {"flat q4_k", RDRR_FLAT, DGL_Q4_K, 37, 96},
    {"flat q4_k, long rows", RDRR_FLAT, DGL_Q4_K, 3, 1152},
    {"flat q8_0", RDRR_FLAT, DGL_Q8_0, 5, 80},
};

/* Stores random values in the layout, one stored row at a time, and returns the expected values of
 * the matrix: [rows, cols]. */
static void matrix_make(const struct view_row *row, unsigned char *bytes, float *want)
{
    bool column = row->layout == RDRR_COLUMN;
    uint64_t lines = column ? row->cols : 1, len = column ? row->rows : row->rows * row->cols;
    uint64_t line_bytes, rng = 11;
    float *line = dgl_new_array(float, len);
    assert_non_null(line);
    assert_true(dgl_dtype_row_bytes(row->type, len, &line_bytes));
    for (uint64_t l = 0; l < lines; l++) {
        for (uint64_t i = 0; i < len; i++)
            line[i] = test_rand_float(&rng);
        assert_true(dgl_row_encode_fast(row->type, line, len, bytes + l * line_bytes));
        assert_true(dgl_row_decode(row->type, bytes + l * line_bytes, len, line));
        for (uint64_t i = 0; i < len; i++)
            want[column ? i * row->cols + l : i] = line[i];
    }
    free(line);
}

static float shown_value(enum dgl_dtype type, const unsigned char *bytes)
{
    float value;
    assert_true(dgl_row_decode(type, bytes, 1, &value));
    return value;
}

static void view_shows_rows(void **state)
{
    const struct view_row *row = *state;
    struct tensor_info info = {.name = "t",
                               .role = "matmul",
                               .dtype = row->type,
                               .rank = 2,
                               .shape = {row->rows, row->cols}};
    struct tensor_source *src = NULL;
    struct memory memory;
    uint64_t count = row->rows * row->cols, rng = 5;
    assert_true(rdrr_layout_bytes(row->layout, row->type, 2, info.shape, &info.bytes));
    memory.bytes = dgl_calloc(1, info.bytes);
    float *want = dgl_new_array(float, count);
    assert_true(memory.bytes && want);
    matrix_make(row, memory.bytes, want);
    static const struct tensor_source_ops ops = {.read = memory_read, .destroy = memory_destroy};
    assert_int_equal(tensor_source_create(NULL, "memory", &ops, &memory, &info, 1, &src), DGL_OK);
    assert_int_equal(rdrr_layout_wrap(NULL, &row->layout, &src), DGL_OK);
    const struct tensor_info *shown = tensor_source_at(src, 0);
    size_t value = dgl_dtype_get(shown->dtype)->block_bytes;
    assert_int_equal(shown->bytes, count * value);
    unsigned char *got = dgl_calloc(1, shown->bytes);
    assert_non_null(got);
    for (int i = 0; i < 40; i++) {
        uint64_t from = i ? test_rand(&rng) % shown->bytes : 0;
        uint64_t len = i ? 1 + test_rand(&rng) % (shown->bytes - from) : shown->bytes;
        memset(got, 0xee, shown->bytes);
        assert_int_equal(tensor_source_read(NULL, src, 0, from, got + from, len), DGL_OK);
        for (uint64_t v = (from + value - 1) / value; (v + 1) * value <= from + len; v++) {
            float half = dgl_f16_to_f32(dgl_f32_to_f16(want[v]));
            float exact = shown->dtype == row->type ? want[v] : half;
            if (shown_value(shown->dtype, got + v * value) != exact)
                fail_msg("value %d of a read at %d", (int)v, (int)from);
        }
    }
    tensor_source_destroy(&src);
    free(got);
    free(want);
    free(memory.bytes);
}

int main(void)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(sizes_follow_from_shapes)};
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    failures += test_run_table("entries", entry_has_its_layout, entries);
    return failures + test_run_table("views", view_shows_rows, view_rows);
}
