/* The tokenizer part of core/dopplergl.h: sources of a tokenizer, and ownership. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"

static const char json[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]},"
    "\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],"
    "\"decoder\":{\"type\":\"Fuse\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
    "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
    "\"special_tokens\":{\"<s>\":{\"ids\":[3]}}}}";

static struct dgl_tokenizer *load(const char *path)
{
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    if (dgl_tokenizer_load(&t.log, path, &tok) != DGL_OK)
        fail_msg("%s", t.text);
    return tok;
}

static void expect_refused(const char *path, enum dgl_status status, const char *message)
{
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(dgl_tokenizer_load(&t.log, path, &tok), status);
    assert_null(tok);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, message);
}

static void loads_a_file_or_its_folder(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "tokenizer.json");
    test_write_file(dir, "tokenizer.json", json, sizeof(json) - 1);
    struct dgl_tokenizer *from_file = load(path), *from_dir = load(dir);
    dgl_tokenizer_destroy(&from_file);
    dgl_tokenizer_destroy(&from_dir);
    assert_null(from_file);
    dgl_tokenizer_destroy(&from_file);
    dgl_tokenizer_destroy(NULL);
    free(path);
    test_tmpdir_remove(dir);
}

static void says_what_is_wrong_with_a_path(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "tokenizer.json");
    test_write_file(dir, "tokenizer.json", "{", 1);
    expect_refused(path, DGL_ERR_FORMAT, path);
    expect_refused(dir, DGL_ERR_FORMAT, path);
    expect_refused(NULL, DGL_ERR_INVALID_ARG, "NULL");
    free(path);
    test_tmpdir_remove(dir);
}

static void results_belong_to_the_caller(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    test_write_file(dir, "tokenizer.json", json, sizeof(json) - 1);
    struct dgl_tokenizer *tok = load(dir);
    int32_t *ids = NULL;
    size_t count = 0, len = 0;
    char *text = NULL;
    assert_int_equal(
        dgl_encode(NULL, tok, "ab<s>b", 6, dgl_encode_params(.add_special = true), &ids, &count),
        DGL_OK);
    assert_int_equal(count, 4);
    assert_int_equal(ids[0], 3);
    assert_int_equal(ids[1], 2);
    assert_int_equal(dgl_decode(NULL, tok, ids, count, true, &text, &len), DGL_OK);
    assert_int_equal(len, 3);
    assert_string_equal(text, "abb");
    dgl_free(text);
    dgl_free(ids);
    assert_int_equal(
        dgl_encode(NULL, tok, "<s>", 3, dgl_encode_params(.no_parse_special = true), &ids, &count),
        DGL_OK);
    assert_int_equal(count, 0);
    assert_non_null(ids);
    assert_int_equal(dgl_decode(NULL, tok, ids, count, false, &text, &len), DGL_OK);
    assert_int_equal(len, 0);
    assert_string_equal(text, "");
    dgl_free(text);
    dgl_free(ids);
    dgl_free(NULL);
    dgl_tokenizer_destroy(&tok);
    test_tmpdir_remove(dir);
}

/* A tokenizer that has no token for most characters, and claims to have one for unknown ones. */
static const char no_unknown[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"<unk>\"}}";

struct bad_text {
    const char *name, *json, *text, *source, *message;
};

static const struct bad_text bad_texts[] = {
    {"not UTF-8", json, "a\xFF", NULL, "the text is not UTF-8: byte 0xff at offset 1"},
    {"not UTF-8, with a name", json, "a\xFF", "line 3", "line 3: the text is not UTF-8"},
    {"no token", no_unknown, "ab", NULL, "unknown token \"<unk>\" is not in its vocabulary"},
    {"no token, with a name", no_unknown, "ab", "x.txt", "x.txt: the text has a character without"},
};

/* One line, and no memory to free. */
static void bad_text_is_explained(void **state)
{
    const struct bad_text *row = *state;
    const struct dgl_encode_params params = {.source = row->source};
    struct test_log t;
    char *dir = test_tmpdir();
    test_write_file(dir, "tokenizer.json", row->json, strlen(row->json));
    struct dgl_tokenizer *tok = load(dir);
    for (int with_log = 1; with_log >= 0; with_log--) {
        int32_t *ids = (int32_t[]){1};
        size_t count = 1;
        test_log_init(&t, DGL_LOG_TRACE);
        assert_int_equal(dgl_encode(with_log ? &t.log : NULL, tok, row->text, strlen(row->text),
                                    &params, &ids, &count),
                         DGL_ERR_INVALID_ARG);
        assert_null(ids);
        assert_int_equal(count, 0);
        assert_int_equal(t.errors, with_log);
        assert_contains(t.text, with_log ? row->message : "");
    }
    dgl_tokenizer_destroy(&tok);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_a_file_or_its_folder),
        cmocka_unit_test(says_what_is_wrong_with_a_path),
        cmocka_unit_test(results_belong_to_the_caller),
    };
    int failures = test_run_table("tokenizer API bad texts", bad_text_is_explained, bad_texts);
    return failures + cmocka_run_group_tests_name("tokenizer API", tests, NULL, NULL);
}
