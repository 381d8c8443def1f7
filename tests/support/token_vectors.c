/* Comparisons of a tokenizer with recorded encodings and decodings. */
#include "tests/support/token_vectors.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/utf8.h"
#include "tests/support/test.h"

#define MAX_FILE ((size_t)256 << 20)

static struct dgl_json_doc *load_json(const char *dir, const char *name)
{
    char path[4096];
    struct test_log t;
    struct dgl_json_doc *doc = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (dgl_path_exists(path) && dgl_json_load(&t.log, path, MAX_FILE, &doc) != DGL_OK)
        fail_msg("%s", t.text);
    return doc;
}

void token_vectors_load(const char *dir, struct token_vectors *out)
{
    char path[4096], *json = NULL;
    size_t len = 0;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    *out = (struct token_vectors){0};
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    if (dgl_file_slurp(&t.log, path, MAX_FILE, &json, &len) != DGL_OK ||
        tokenizer_create(&t.log, path, json, len, &out->tok) != DGL_OK)
        fail_msg("%s", t.text);
    free(json);
    out->texts = load_json(dir, "vectors.json");
    out->decodes = load_json(dir, "decode.json");
    assert_non_null(out->texts);
}

void token_vectors_finish(struct token_vectors *vectors)
{
    tokenizer_destroy(&vectors->tok);
    dgl_json_destroy(&vectors->texts);
    dgl_json_destroy(&vectors->decodes);
}

int32_t *token_ids_of(const struct dgl_json *array, size_t *count)
{
    int32_t *ids = calloc(dgl_json_count(array) + 1, sizeof(*ids));
    assert_non_null(ids);
    *count = 0;
    for (const struct dgl_json *v = dgl_json_first(array); v; v = dgl_json_next(v)) {
        int64_t id;
        assert_true(dgl_json_i64(v, &id));
        ids[(*count)++] = (int32_t)id;
    }
    return ids;
}

/* ---- printing differences -------------------------------------------------------------------- */

static void print_text(const char *what, struct dgl_str text)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_str(&w, text);
    print_error("%s: %s\n", what, out.p);
    dgl_buf_finish(&out);
}

static void print_ids(const char *what, const int32_t *ids, size_t count)
{
    struct dgl_buf out = {0};
    for (size_t i = 0; i < count; i++)
        dgl_buf_printf(&out, " %d", ids[i]);
    print_error("%s:%s\n", what, out.p ? out.p : "");
    dgl_buf_finish(&out);
}

static void expect_text(struct dgl_str want, const struct dgl_buf *got, const int32_t *ids,
                        size_t count, const char *how)
{
    if (want.len == got->len && (want.len == 0 || memcmp(want.p, got->p, want.len) == 0))
        return;
    print_ids("ids", ids, count);
    print_text("want", want);
    print_text("got", (struct dgl_str){got->p, got->len});
    fail_msg("%s differs", how);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static void expect_ids(const struct token_vectors *v, struct dgl_str text,
                       const struct dgl_json *want, bool add_special)
{
    struct test_log t;
    struct token_ids got = {0};
    size_t count;
    int32_t *ids = token_ids_of(want, &count);
    test_log_init(&t, DGL_LOG_ERROR);
    if (tokenizer_encode(&t.log, v->tok, text, (struct encode_flags){.add_special = add_special},
                         &got) != DGL_OK)
        fail_msg("%s", t.text);
    if (got.count != count || (count && memcmp(got.ids, ids, count * sizeof(*ids)) != 0)) {
        print_text("text", text);
        print_ids("want", ids, count);
        print_ids("got", got.ids, got.count);
        fail_msg("the encoding %s special tokens differs", add_special ? "with" : "without");
    }
    free(ids);
    free(got.ids);
}

void token_vectors_check_encode(const struct token_vectors *vectors)
{
    const struct dgl_json *all = dgl_json_root(vectors->texts);
    assert_true(dgl_json_count(all) > 0);
    for (const struct dgl_json *c = dgl_json_first(all); c; c = dgl_json_next(c)) {
        struct dgl_str text = dgl_json_str(dgl_json_get(c, "text"));
        expect_ids(vectors, text, dgl_json_get(c, "ids"), false);
        expect_ids(vectors, text, dgl_json_get(c, "ids_special"), true);
    }
}

/* ---- decoding -------------------------------------------------------------------------------- */

typedef void (*decode_fn)(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                          bool skip_special, struct dgl_buf *out);

static void decode_at_once(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                           bool skip_special, struct dgl_buf *out)
{
    assert_int_equal(tokenizer_decode(NULL, tok, ids, count, skip_special, out), DGL_OK);
}

static void decode_as_stream(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                             bool skip_special, struct dgl_buf *out)
{
    struct detokenizer *d = NULL;
    detokenizer_create(NULL, tok, skip_special, &d);
    assert_non_null(d);
    for (size_t i = 0; i < count; i++) {
        size_t before = out->len;
        detokenizer_push(d, ids[i], out);
        assert_false(out->failed);
        if (out->len > before)
            assert_int_equal(dgl_utf8_valid_prefix(out->p + before, out->len - before),
                             out->len - before);
    }
    detokenizer_flush(d, out);
    detokenizer_destroy(&d);
}

static void expect_decoded(const struct token_vectors *v, const struct dgl_json *c,
                           const char *field, bool skip_special, decode_fn decode, const char *how)
{
    size_t count;
    int32_t *ids = token_ids_of(dgl_json_get(c, "ids"), &count);
    struct dgl_buf got = {0};
    decode(v->tok, ids, count, skip_special, &got);
    expect_text(dgl_json_str(dgl_json_get(c, field)), &got, ids, count, how);
    dgl_buf_finish(&got);
    free(ids);
}

static void check_decodings(const struct token_vectors *v, decode_fn decode, const char *how)
{
    const struct dgl_json *c;
    for (c = dgl_json_first(dgl_json_root(v->texts)); c; c = dgl_json_next(c))
        expect_decoded(v, c, "decoded", false, decode, how);
    if (!v->decodes)
        return;
    for (c = dgl_json_first(dgl_json_root(v->decodes)); c; c = dgl_json_next(c)) {
        expect_decoded(v, c, "decoded", false, decode, how);
        expect_decoded(v, c, "decoded_skip_special", true, decode, how);
    }
}

void token_vectors_check_decode(const struct token_vectors *vectors)
{
    check_decodings(vectors, decode_at_once, "the decoding");
}

void token_vectors_check_stream(const struct token_vectors *vectors)
{
    check_decodings(vectors, decode_as_stream, "the decoding token by token");
}
