/* Models split over several GGUF files. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/gguf/gguf_split.h"
#include "tests/support/gguf_build.h"

struct split_case {
    const char *name;
    const char *files[2]; /* their names; NULL = not there */
    int no[2], count[2];
    int total; /* split.tensors.count, or 0 */
    enum dgl_status status;
    const char *part; /* of the message */
};

#define FIRST  "m-00001-of-00002.gguf"
#define SECOND "m-00002-of-00002.gguf"

static const struct split_case split_cases[] = {
    {"two parts", {FIRST, SECOND}, {0, 1}, {2, 2}, 2, DGL_OK, NULL},
    {"two parts without a total", {FIRST, SECOND}, {0, 1}, {2, 2}, 0, DGL_OK, NULL},
    {"second part is missing", {FIRST, NULL}, {0, 1}, {2, 2}, 2, DGL_ERR_IO, SECOND},
    {"first part has another name",
     {"m.gguf", SECOND},
     {0, 1},
     {2, 2},
     2,
     DGL_ERR_FORMAT,
     "00001-of-00002"},
    {"the second part is given",
     {FIRST, SECOND},
     {1, 1},
     {2, 2},
     2,
     DGL_ERR_FORMAT,
     "split.no is 1, wanted 0"},
    {"parts disagree about their number",
     {FIRST, SECOND},
     {0, 1},
     {2, 3},
     2,
     DGL_ERR_FORMAT,
     "split.count is 3"},
    {"total of tensors is wrong",
     {FIRST, SECOND},
     {0, 1},
     {2, 2},
     5,
     DGL_ERR_FORMAT,
     "split.tensors.count is 5"},
};

static void write_part(const char *dir, const struct split_case *row, int i)
{
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    gb_u32(&b, "split.no", (uint32_t)row->no[i]);
    gb_u32(&b, "split.count", (uint32_t)row->count[i]);
    if (row->total)
        gb_u32(&b, "split.tensors.count", (uint32_t)row->total);
    gb_matrix(&b, i ? "b.weight" : "a.weight", 0, 4, 10.0f * (float)i, 1);
    gb_finish(&b, &bytes);
    test_write_file(dir, row->files[i], bytes.p, bytes.len);
    dgl_buf_finish(&bytes);
}

static void opens_split_files(void **state)
{
    const struct split_case *row = *state;
    char *dir = test_tmpdir();
    struct gguf_set set = {0};
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    for (int i = 0; i < 2; i++) {
        if (row->files[i])
            write_part(dir, row, i);
    }
    char *path = dgl_path_join(dir, row->files[0]);
    assert_int_equal(gguf_set_open(&log.log, &blob_files, path, &set), row->status);
    if (row->part)
        assert_contains(log.text, row->part);
    if (row->status == DGL_OK) {
        struct tensor_source *src;
        float value = 0;
        assert_int_equal(gguf_set_source(&log.log, &set, &src), DGL_OK);
        assert_int_equal(tensor_source_count(src), 2);
        long b = tensor_source_find(src, "b.weight");
        assert_true(b >= 0);
        assert_int_equal(tensor_source_read(&log.log, src, (size_t)b, 8, &value, 4), DGL_OK);
        assert_true(value == 12.0f);
        tensor_source_destroy(&src);
    }
    gguf_set_close(&set);
    free(path);
    test_tmpdir_remove(dir);
}

static void tensors_of_one_name_in_two_parts_are_refused(void **state)
{
    static const struct split_case row = {"", {FIRST, SECOND}, {0, 1}, {2, 2}, 0, DGL_OK, NULL};
    (void)state;
    char *dir = test_tmpdir();
    struct gguf_set set;
    struct tensor_source *src;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    write_part(dir, &row, 0);
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    gb_u32(&b, "split.no", 1);
    gb_u32(&b, "split.count", 2);
    gb_matrix(&b, "a.weight", 0, 4, 0, 1);
    gb_finish(&b, &bytes);
    test_write_file(dir, SECOND, bytes.p, bytes.len);
    char *path = dgl_path_join(dir, FIRST);
    assert_int_equal(gguf_set_open(&log.log, &blob_files, path, &set), DGL_OK);
    assert_int_equal(gguf_set_source(&log.log, &set, &src), DGL_ERR_FORMAT);
    assert_contains(log.text, "a.weight occurs twice");
    free(path);
    dgl_buf_finish(&bytes);
    test_tmpdir_remove(dir);
}

/* Two parts have more tensors than a set may have; the third is not looked for any more. */
static void tensors_are_counted_part_by_part(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct gguf_set set;
    struct test_log log;
    static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf"};
    test_log_init(&log, DGL_LOG_ERROR);
    for (uint32_t part = 0; part < 2; part++) {
        struct gguf_build b = {0};
        struct dgl_buf bytes;
        gb_u32(&b, "split.no", part);
        gb_u32(&b, "split.count", 3);
        for (int i = 0; i < 50001; i++) {
            char name[32];
            snprintf(name, sizeof(name), "t%u.%d", part, i);
            gb_matrix(&b, name, 0, 1, 0, 1);
        }
        gb_finish(&b, &bytes);
        test_write_file(dir, names[part], bytes.p, bytes.len);
        dgl_buf_finish(&bytes);
    }
    char *path = dgl_path_join(dir, names[0]);
    const char *const parts[] = {"100002 tensors, at most 100000 are accepted"};
    assert_refusal(&log, gguf_set_open(&log.log, &blob_files, path, &set), DGL_ERR_FORMAT, parts);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(tensors_of_one_name_in_two_parts_are_refused),
        cmocka_unit_test(tensors_are_counted_part_by_part),
    };
    int failed = test_run_table("split files", opens_split_files, split_cases);
    return failed + cmocka_run_group_tests_name("names", cases, NULL, NULL);
}
