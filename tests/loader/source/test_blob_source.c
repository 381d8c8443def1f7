/* A second blob_source, in memory, from which every form of a model loads. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/gguf/gguf_model.h"
#include "loader/hf/hf_model.h"
#include "loader/rdrr/rdrr_reader.h"
#include "tests/support/memory_source.h"
#include "tests/support/tiny_model.h"

#define ROOT                                                                                       \
    "store/model" /* folder of the files in memory; there is no such folder in the file system */

/* ---- the file system ---- */

static void absent_differs_from_failed(void **state)
{
    static const struct {
        const char *name; /* in the folder */
        enum dgl_entry entry;
        const char *said; /* by opening it */
    } rows[] = {
        {"there", DGL_ENTRY_FILE, NULL},
        {"absent", DGL_ENTRY_NONE, "absent"},
        {"there/below", DGL_ENTRY_NONE, "below"},
        {"folder", DGL_ENTRY_FOLDER, "a directory"},
    };
    (void)state;
    char *dir = test_tmpdir();
    test_write_file(dir, "there", "abc", 3);
    char *folder = dgl_path_join(dir, "folder");
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct test_log log;
        struct blob blob;
        enum dgl_entry entry;
        char *path = dgl_path_join(dir, rows[i].name);
        test_log_init(&log, DGL_LOG_ERROR);
        assert_int_equal(blob_find(&log.log, &blob_files, path, &entry), DGL_OK);
        assert_int_equal(entry, rows[i].entry);
        enum dgl_status status = blob_open(&log.log, &blob_files, path, NULL, &blob);
        assert_int_equal(status, rows[i].said ? DGL_ERR_IO : DGL_OK);
        if (rows[i].said)
            assert_contains(log.text, rows[i].said);
        blob_close(&blob);
        assert_null(blob.source);
        free(path);
    }
    char too_long[300] = "";
    enum dgl_entry entry;
    memset(too_long, 'x', sizeof(too_long) - 1);
    assert_int_equal(blob_find(NULL, &blob_files, too_long, &entry), DGL_ERR_IO);
    free(folder);
    test_tmpdir_remove(dir);
}

/* ---- models ---- */

enum form { PACK, GGUF, SAFETENSORS };
struct form_case {
    const char *name;
    enum form form;
    int files; /* of safetensors */
};
static const struct form_case form_cases[] = {
    {"pack", PACK, 0},
    {"GGUF", GGUF, 0},
    {"safetensors, one file", SAFETENSORS, 1},
    {"safetensors with an index", SAFETENSORS, 3},
};

static void model_write(const char *dir, const struct form_case *row)
{
    struct tiny_llama m = tiny_llama_default();
    const struct tiny_pack pack = tiny_pack_default();
    m.files = row->form == SAFETENSORS ? row->files : 1;
    if (row->form == PACK) {
        tiny_pack_write(dir, &pack);
    } else if (row->form == SAFETENSORS) {
        tiny_llama_write(dir, &m);
    } else {
        struct dgl_convert_result result = {.size = sizeof(result)};
        char *from = test_tmpdir(), *to = dgl_path_join(dir, "model.gguf");
        tiny_llama_write(from, &m);
        const struct dgl_convert_params params = {.in = from, .out = to};
        assert_int_equal(dgl_convert(NULL, &params, &result), DGL_OK);
        test_tmpdir_remove(from);
        free(to);
    }
}

static enum dgl_status tensors_open(const struct dgl_log *log, const struct dgl_source *source,
                                    const char *dir, enum form form, struct tensor_source **out)
{
    struct rdrr_pack *pack = NULL;
    struct gguf_parts parts = {0};
    enum dgl_status status;
    *out = NULL;
    if (form == SAFETENSORS)
        return hf_tensors_open(log, source, dir, out);
    if (form == PACK) {
        status = rdrr_pack_open(log, source, dir, &pack);
        return status == DGL_OK ? rdrr_tensors_open(log, pack, out) : status;
    }
    char *path = dgl_path_join(dir, "model.gguf");
    assert_true(gguf_has_magic(source, path));
    status = gguf_model_open(log, source, path, NULL, &parts);
    free(path);
    *out = parts.tensors;
    parts.tensors = NULL;
    gguf_parts_finish(&parts);
    return status;
}

/* Returns all bytes of all tensors, concatenated; free(). */
static char *tensor_bytes(const struct tensor_source *src, size_t *len)
{
    char *bytes = NULL;
    *len = 0;
    for (size_t i = 0; i < tensor_source_count(src); i++) {
        size_t size = (size_t)tensor_source_at(src, i)->bytes;
        bytes = checked(realloc(bytes, *len + size));
        assert_int_equal(tensor_source_read(NULL, src, i, 0, bytes + *len, size), DGL_OK);
        *len += size;
    }
    return bytes;
}

static void loads_from_memory(void **state)
{
    const struct form_case *row = *state;
    struct tensor_source *src;
    struct memory_source store;
    struct test_log log;
    size_t want_len, have_len;
    char *dir = test_tmpdir();
    test_log_init(&log, DGL_LOG_ERROR);
    model_write(dir, row);
    assert_int_equal(tensors_open(NULL, &blob_files, dir, row->form, &src), DGL_OK);
    char *want = tensor_bytes(src, &want_len);
    tensor_source_destroy(&src);
    memory_source_move(&store, ROOT, dir);

    assert_int_equal(tensors_open(&log.log, &store.source, ROOT, row->form, &src), DGL_OK);
    char *have = tensor_bytes(src, &have_len);
    assert_int_equal(have_len, want_len);
    assert_memory_equal(have, want, want_len);
    assert_true((store.hashes > 0) == (row->form == PACK));
    tensor_source_destroy(&src);
    free(have);
    free(want);
    memory_source_finish(&store);
}

static void source_failure_is_not_absence(void **state)
{
    static const struct {
        enum form form;
        const char *broken;
    } rows[] = {
        {PACK, "generation_config.json"}, /* listed */
        {PACK, "tokenizer.json"},         /* not listed, so it must be absent */
        {SAFETENSORS, HF_INDEX},
        {SAFETENSORS, HF_SINGLE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct form_case form = {"", rows[i].form, 1};
        const char *const parts[] = {"cannot tell whether there is", rows[i].broken};
        struct tensor_source *src;
        struct memory_source store;
        struct test_log log;
        char *dir = test_tmpdir();
        test_log_init(&log, DGL_LOG_ERROR);
        model_write(dir, &form);
        memory_source_move(&store, ROOT, dir);
        store.broken = rows[i].broken;
        enum dgl_status status = tensors_open(&log.log, &store.source, ROOT, rows[i].form, &src);
        assert_refusal(&log, status, DGL_ERR_IO, parts);
        memory_source_finish(&store);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(absent_differs_from_failed),
        cmocka_unit_test(source_failure_is_not_absence),
    };
    int failed = test_run_table("forms", loads_from_memory, form_cases);
    return failed + cmocka_run_group_tests_name("failures", cases, NULL, NULL);
}
