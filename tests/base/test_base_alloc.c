/* Tests of memory exhaustion: each allocation of an operation fails once. The linker redirects
 * malloc and related functions to the functions below (tests/tests.mk). Allocations inside of
 * shared libraries are not redirected, so calls of cJSON and OpenSSL are made to fail instead. */
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/thread.h"

/* Number of allocations that still succeed; negative means no limit. */
static long countdown = -1;

static bool refuse(void)
{
    return countdown >= 0 && countdown-- == 0;
}

#include "tests/support/failing_alloc.h"

cJSON *__real_cJSON_ParseWithLengthOpts(const char *text, size_t len, const char **end,
                                        cJSON_bool terminated);
cJSON *__wrap_cJSON_ParseWithLengthOpts(const char *text, size_t len, const char **end,
                                        cJSON_bool terminated);
cJSON *__wrap_cJSON_ParseWithLengthOpts(const char *text, size_t len, const char **end,
                                        cJSON_bool terminated)
{
    return refuse() ? NULL : __real_cJSON_ParseWithLengthOpts(text, len, end, terminated);
}

EVP_MD_CTX *__real_EVP_MD_CTX_new(void);
EVP_MD_CTX *__wrap_EVP_MD_CTX_new(void);
EVP_MD_CTX *__wrap_EVP_MD_CTX_new(void)
{
    return refuse() ? NULL : __real_EVP_MD_CTX_new();
}

struct operation {
    const char *name;
    enum dgl_status (*run)(const struct dgl_log *log, const char *dir);
};

static enum dgl_status parse_json(const struct dgl_log *log, const char *dir)
{
    /* The object is large enough for an index of keys. The NUL causes a copy of the text. */
    static const char text[] =
        "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10,"
        "\"k\":11,\"l\":12,\"m\":13,\"n\":14,\"o\":15,\"p\":16,\"q\":17,\"r\":\"\\u0000\"}";
    struct dgl_json_doc *doc;
    (void)dir;
    enum dgl_status status = dgl_json_parse(log, "t.json", text, sizeof(text) - 1, &doc);
    assert_int_equal(doc != NULL, status == DGL_OK);
    dgl_json_destroy(&doc);
    return status;
}

static enum dgl_status load_json(const struct dgl_log *log, const char *dir)
{
    struct dgl_json_doc *doc;
    char path[4096];
    snprintf(path, sizeof(path), "%s/t.json", dir);
    enum dgl_status status = dgl_json_load(log, path, 1000, &doc);
    assert_int_equal(doc != NULL, status == DGL_OK);
    dgl_json_destroy(&doc);
    return status;
}

static enum dgl_status open_file(const struct dgl_log *log, const char *dir)
{
    struct dgl_file *file;
    char path[4096];
    snprintf(path, sizeof(path), "%s/t.json", dir);
    enum dgl_status status = dgl_file_open(log, path, &file);
    assert_int_equal(file != NULL, status == DGL_OK);
    dgl_file_close(&file);
    return status;
}

static enum dgl_status list_directory(const struct dgl_log *log, const char *dir)
{
    char **names;
    size_t count;
    enum dgl_status status = dgl_dir_list(log, dir, &names, &count);
    assert_int_equal(count, status == DGL_OK ? 1 : 0);
    dgl_names_free(names, count);
    return status;
}

static enum dgl_status make_directory(const struct dgl_log *log, const char *dir)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/sub", dir);
    enum dgl_status status = dgl_dir_make(log, path);
    assert_int_equal(dgl_path_is_dir(path), status == DGL_OK);
    dgl_dir_remove(path);
    return status;
}

static enum dgl_status write_file(const struct dgl_log *log, const char *dir)
{
    struct dgl_atomic_file *file;
    char path[4096];
    snprintf(path, sizeof(path), "%s/new", dir);
    enum dgl_status status = dgl_atomic_create(log, path, &file);
    assert_int_equal(file != NULL, status == DGL_OK);
    dgl_atomic_abort(&file);
    return status;
}

static const struct operation operations[] = {
    {"no memory: parse JSON", parse_json},
    {"no memory: load JSON", load_json},
    {"no memory: open a file", open_file},
    {"no memory: list a directory", list_directory},
    {"no memory: make a directory", make_directory},
    {"no memory: write a file", write_file},
};

/* Lets the first, second, ... allocation fail, until the operation succeeds. `make san` finds
 * leaks. */
static void check_operation(void **state)
{
    const struct operation *op = *state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    char *dir = test_tmpdir();
    test_write_file(dir, "t.json", "{\"a\":[1]}", 9);
    for (long n = 0;; n++) {
        assert_true(n < 1000);
        test_log_clear(&t);
        countdown = n;
        enum dgl_status status = op->run(&t.log, dir);
        bool reached = countdown < 0;
        countdown = -1;
        assert_int_equal(status, reached ? DGL_ERR_NO_MEMORY : DGL_OK);
        assert_int_equal(t.errors, reached ? 1 : 0);
        if (!reached) {
            assert_true(n > 0);
            break;
        }
        assert_contains(t.text, "out of memory");
    }
    test_tmpdir_remove(dir);
}

static void buffer_remembers_that_it_failed(void **state)
{
    (void)state;
    struct dgl_buf buf = {0};
    dgl_buf_puts(&buf, "kept");
    countdown = 0;
    for (int i = 0; i < 100; i++)
        dgl_buf_puts(&buf, "lost?");
    countdown = -1;
    assert_true(buf.failed);
    assert_memory_equal(buf.p, "kept", 4);
    assert_null(dgl_buf_take(&buf));
}

static void buffer_that_cannot_begin_gives_null(void **state)
{
    (void)state;
    struct dgl_buf buf = {0};
    countdown = 0;
    assert_null(dgl_buf_take(&buf));
    countdown = 0;
    dgl_buf_printf(&buf, "%d", 12345);
    countdown = -1;
    assert_true(buf.failed);
    dgl_buf_finish(&buf);
    countdown = 0;
    assert_null(dgl_path_join("a", "b"));
    countdown = -1;
}

static void writer_passes_the_failure_on(void **state)
{
    (void)state;
    for (long n = 0; n < 2; n++) {
        struct dgl_buf out = {0};
        struct dgl_json_writer w = dgl_json_writer(&out, 0);
        countdown = n;
        dgl_jw_str(&w, DGL_STR("needs a repaired copy \xFF"));
        countdown = -1;
        assert_true(out.failed);
        dgl_buf_finish(&out);
    }
}

static void arena_gives_null_and_stays_usable(void **state)
{
    (void)state;
    struct dgl_arena arena = {0};
    countdown = 0;
    assert_null(dgl_arena_alloc(&arena, 10));
    assert_non_null(dgl_arena_alloc(&arena, 10));
    countdown = 0;
    assert_null(dgl_arena_alloc(&arena, 1 << 20));
    countdown = 0;
    assert_null(dgl_arena_strndup(&arena, "x", 1 << 16));
    countdown = -1;
    assert_non_null(dgl_arena_printf(&arena, "%d", 5));
    dgl_arena_finish(&arena);
}

static void hashes_cannot_be_created(void **state)
{
    (void)state;
    char hex[65];
    for (int kind = DGL_HASH_SHA256; kind <= DGL_HASH_BLAKE3; kind++) {
        countdown = 0;
        assert_null(dgl_hash_create((enum dgl_hash_kind)kind));
        countdown = 0;
        assert_false(dgl_hash_bytes((enum dgl_hash_kind)kind, "x", 1, hex));
    }
    countdown = 1;
    assert_null(dgl_hash_create(DGL_HASH_SHA256));
    countdown = -1;
}

static void log_line_is_not_lost(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    countdown = 0;
    assert_int_equal(dgl_fail(&t.log, DGL_ERR_IO, "cannot open %s", "x"), DGL_ERR_IO);
    countdown = -1;
    assert_string_equal(t.text, "cannot open %s\n");
}

static enum dgl_status count_call(void *ctx, size_t index)
{
    (void)index;
    atomic_fetch_add((atomic_int *)ctx, 1);
    return DGL_OK;
}

static void parallel_for_works_without_helpers(void **state)
{
    (void)state;
    atomic_int calls = 0;
    countdown = 0;
    assert_int_equal(dgl_parallel_for(4, 100, count_call, &calls), DGL_OK);
    countdown = -1;
    assert_int_equal(calls, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_remembers_that_it_failed),
        cmocka_unit_test(buffer_that_cannot_begin_gives_null),
        cmocka_unit_test(writer_passes_the_failure_on),
        cmocka_unit_test(arena_gives_null_and_stays_usable),
        cmocka_unit_test(hashes_cannot_be_created),
        cmocka_unit_test(log_line_is_not_lost),
        cmocka_unit_test(parallel_for_works_without_helpers),
    };
    return cmocka_run_group_tests_name("no memory", tests, NULL, NULL) +
           test_run_table("operations without memory", check_operation, operations);
}
