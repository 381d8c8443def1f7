/* Tokenizers through GGUF: published ones written as keys and read back must still encode and
 * decode as recorded. Inconsistent keys are refused. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/convert/gguf_export.h"
#include "loader/gguf/gguf_model.h"
#include "loader/gguf/gguf_turns.h"
#include "loader/gguf/gguf_vocab.h"
#include "loader/tokenizer/tokenizer.h"
#include "tests/support/gguf_build.h"
#include "tests/support/published.h"
#include "tests/support/token_vectors.h"

/* ---- round trips ---- */

/* The tokenizer of the file's lists, or of the text that packs get. */
static struct dgl_tokenizer *tokenizer_of(const char *path, bool text)
{
    char *json = NULL;
    size_t len = 0;
    struct dgl_tokenizer *tok = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    enum dgl_status status =
        text ? gguf_text_load(&log.log, &blob_files, path, NULL, "tokenizer.json", &json, &len)
             : gguf_tokenizer_load(&log.log, &blob_files, path, NULL, &tok);
    if (status == DGL_OK && text)
        status = tokenizer_create(&log.log, path, json, len, &tok);
    if (status != DGL_OK)
        fail_msg("%s", log.text);
    free(json);
    return tok;
}

/* A GGUF file that only contains the tokenizer of the folder `dir`. */
static enum dgl_status write_keys(const char *dir, const char *arch, int32_t max_id,
                                  const char *path)
{
    struct dgl_model_file model = {.path = (char *)(uintptr_t)dir};
    struct gguf_writer w = {0};
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    model.desc.vocab = max_id + 1;
    model.desc.bos_id = -1;
    char *json = dgl_path_join(dir, "tokenizer.json");
    assert_int_equal(
        dgl_file_slurp(NULL, json, 64u << 20, &model.tokenizer_json, &model.tokenizer_json_len),
        DGL_OK);
    gguf_put_str(&w, "general.architecture", dgl_str_of(arch));
    enum dgl_status status = gguf_export_vocab(&log.log, &model, &w);
    if (status == DGL_OK)
        status = gguf_writer_begin(&log.log, &w, path);
    if (status == DGL_OK)
        status = gguf_writer_commit(&w);
    assert_int_equal(log.errors, status != DGL_OK);
    gguf_writer_finish(&w);
    free(model.tokenizer_json);
    free(json);
    return status;
}

static void survives_a_round_trip(void **state)
{
    const struct published_tokenizer *row = *state;
    const char *dir = published_dir(row->name);
    struct token_vectors vectors;
    token_vectors_load(dir, &vectors);
    char *tmp = test_tmpdir(), *path = dgl_path_join(tmp, "t.gguf");
    bool phi3 = strcmp(row->name, "phi3-mini") == 0;
    assert_int_equal(write_keys(dir, phi3 ? "phi3" : "llama", tokenizer_max_id(vectors.tok), path),
                     row->in_gguf ? DGL_OK : DGL_ERR_UNSUPPORTED);
    for (int text = 0; text < 2 && row->in_gguf; text++) {
        tokenizer_destroy(&vectors.tok);
        vectors.tok = tokenizer_of(path, text);
        token_vectors_check_encode(&vectors);
        token_vectors_check_decode(&vectors);
    }
    token_vectors_finish(&vectors);
    free(path);
    test_tmpdir_remove(tmp);
}

/* ---- hand-made keys ---- */

static const char *const bpe_tokens[] = {"a", "b", "ab", "<s>", "<|im_end|>", "<|eot_id|>"};
static const int32_t bpe_types[] = {1, 1, 1, 3, 3, 4};
static const char *const bpe_merges[] = {"a b"};

static void bpe_keys(struct gguf_build *b)
{
    gb_str(b, "tokenizer.ggml.model", "gpt2");
    gb_str(b, "tokenizer.ggml.pre", "qwen2");
    gb_strs(b, "tokenizer.ggml.tokens", bpe_tokens, 6);
    gb_i32s(b, "tokenizer.ggml.token_type", bpe_types, 6);
    gb_strs(b, "tokenizer.ggml.merges", bpe_merges, 1);
}

/* U+2581 in octal, which ends after three digits. */
static const char *const spm_tokens[] = {"<unk>", "<s>", "</s>",          "\342\226\201", "a",
                                         "b",     "ab",  "\342\226\201a", "<0x41>"};
static const int32_t spm_types[] = {2, 3, 3, 1, 1, 1, 1, 1, 6};
static const float spm_scores[] = {0, 0, 0, -10, -11, -12, -1, -2, 0};

static void spm_keys(struct gguf_build *b)
{
    gb_str(b, "tokenizer.ggml.model", "llama");
    gb_strs(b, "tokenizer.ggml.tokens", spm_tokens, 9);
    gb_i32s(b, "tokenizer.ggml.token_type", spm_types, 9);
    gb_f32s(b, "tokenizer.ggml.scores", spm_scores, 9);
}

/* Keys, the file written from them, and the result of reading it. */
struct keys {
    struct gguf_build b;
    struct dgl_buf bytes;
    struct gguf_file file;
    struct vocab_lists v;
};

/* Fails unless the status is `want` and the message contains `part` (NULL: any message). */
static void keys_read(struct keys *k, enum dgl_status want, const char *part)
{
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    gb_finish(&k->b, &k->bytes);
    struct gguf_input in = {
        .name = "t.gguf", .bytes = (const uint8_t *)k->bytes.p, .size = k->bytes.len};
    assert_int_equal(gguf_file_parse(&log.log, &in, &k->file), DGL_OK);
    assert_int_equal(gguf_vocab_read(&log.log, &k->file, &k->v), want);
    if (part)
        assert_contains(log.text, part);
}

static void keys_finish(struct keys *k)
{
    vocab_lists_finish(&k->v);
    gguf_file_finish(&k->file);
    dgl_buf_finish(&k->bytes);
}

static void scores_decide_which_pieces_join(void **state)
{
    (void)state;
    struct keys k = {0};
    struct dgl_tokenizer *tok;
    struct token_ids ids = {0};
    spm_keys(&k.b);
    gb_bool(&k.b, "tokenizer.ggml.add_bos_token", false);
    keys_read(&k, DGL_OK, NULL);
    assert_int_equal(tokenizer_create_lists(NULL, &k.v, &tok), DGL_OK);
    assert_int_equal(tokenizer_encode(NULL, tok, DGL_STR("ab"),
                                      (struct encode_flags){.add_special = true}, &ids),
                     DGL_OK);
    /* "ab" has a better score than "_a": the blank stays alone. */
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[0], 3);
    assert_int_equal(ids.ids[1], 6);
    free(ids.ids);
    tokenizer_destroy(&tok);
    keys_finish(&k);
}

/* Lists that are fine as lists, and make no tokenizer. */
struct bad_lists {
    const char *name;
    const char *tokens[3], *merge;
    const char *said;
};
static const struct bad_lists bad_lists[] = {
    {"token twice", {"a", "b", "a"}, "a b", "t.gguf: tokens 0 and 2 are both \"a\""},
    {"merge of one token", {"a", "b", "ab"}, "ab", "t.gguf: merges[1]: a merge is"},
    {"merge of three", {"a", "b", "ab"}, "a b c", "t.gguf: merges[1]: a merge is"},
    {"side that is no token",
     {"a", "b", "ab"},
     "a c",
     "t.gguf: merges[1]: merges \"c\", which is not in the vocabulary"},
    {"result that is no token",
     {"a", "b", "ab"},
     "b a",
     "t.gguf: merges[1]: makes \"ba\", which is not in the vocabulary"},
};

static void lists_are_refused(void **state)
{
    const struct bad_lists *row = *state;
    const char *const merges[] = {"#version: 0.2", row->merge};
    struct keys k = {0};
    struct test_log log;
    struct dgl_tokenizer *tok;
    test_log_init(&log, DGL_LOG_ERROR);
    gb_str(&k.b, "tokenizer.ggml.model", "gpt2");
    gb_str(&k.b, "tokenizer.ggml.pre", "qwen2");
    gb_strs(&k.b, "tokenizer.ggml.tokens", row->tokens, 3);
    gb_strs(&k.b, "tokenizer.ggml.merges", merges, 2);
    keys_read(&k, DGL_OK, NULL);
    assert_int_equal(tokenizer_create_lists(&log.log, &k.v, &tok), DGL_ERR_FORMAT);
    assert_null(tok);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, row->said);
    keys_finish(&k);
}

static void stops_have_their_origin(void **state)
{
    (void)state;
    struct keys k = {0};
    struct dgl_stop_id stops[8];
    size_t count = 0;
    bpe_keys(&k.b);
    gb_u32(&k.b, "tokenizer.ggml.eos_token_id", 3);
    gb_u32(&k.b, "tokenizer.ggml.eom_token_id", 2);
    keys_read(&k, DGL_OK, NULL);
    assert_int_equal(gguf_turns_stops(NULL, &k.v, UINT64_MAX, stops, 8, &count), DGL_OK);
    assert_int_equal(count, 4);
    assert_int_equal(stops[0].id, 2);
    assert_string_equal(stops[0].origin, "tokenizer.ggml.eom_token_id");
    assert_int_equal(stops[1].id, 3);
    assert_string_equal(stops[1].origin, "tokenizer.ggml.eos_token_id");
    /* Found by their texts: <|eot_id|> is no control token in this file. */
    assert_int_equal(stops[2].id, 4);
    assert_string_equal(stops[2].origin, "name of a turn end");
    assert_int_equal(stops[3].id, 5);
    assert_string_equal(stops[3].origin, "name of a turn end");
    keys_finish(&k);
}

/* In GPT-OSS's format <|end|> ends a message, but not the answer. */
static void end_of_a_message_is_no_stop_in_harmony(void **state)
{
    static const char *const tokens[] = {"a", "<|end|>", "<|return|>", "<|call|>"};
    static const int32_t types[] = {1, 3, 3, 3};
    (void)state;
    struct keys k = {0};
    struct dgl_stop_id stops[8];
    size_t count = 0;
    gb_str(&k.b, "tokenizer.ggml.model", "gpt2");
    gb_str(&k.b, "tokenizer.ggml.pre", "gpt-4o");
    gb_strs(&k.b, "tokenizer.ggml.tokens", tokens, 4);
    gb_i32s(&k.b, "tokenizer.ggml.token_type", types, 4);
    gb_strs(&k.b, "tokenizer.ggml.merges", bpe_merges, 0);
    keys_read(&k, DGL_OK, NULL);
    assert_int_equal(gguf_turns_stops(NULL, &k.v, UINT64_MAX, stops, 8, &count), DGL_OK);
    assert_int_equal(count, 2);
    assert_int_equal(stops[0].id, 2);
    assert_int_equal(stops[1].id, 3);
    keys_finish(&k);
}

/* As llama.cpp cuts without a name: marks, words, then groups of three digits. */
static void missing_pre_is_the_default(void **state)
{
    static const char *const tokens[] = {"1", "2", "3", "4", "12", "123", "34", "!", "a", "a!"};
    static const char *const merges[] = {"1 2", "12 3", "3 4", "a !"};
    static const char *const names[] = {NULL, "default"};
    static const int32_t want[] = {5, 3, 8, 7};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct keys k = {0};
        struct test_log log;
        struct dgl_tokenizer *tok = NULL;
        struct token_ids ids = {0};
        test_log_init(&log, DGL_LOG_WARN);
        gb_str(&k.b, "tokenizer.ggml.model", "gpt2");
        if (names[i])
            gb_str(&k.b, "tokenizer.ggml.pre", names[i]);
        gb_strs(&k.b, "tokenizer.ggml.tokens", tokens, 10);
        gb_strs(&k.b, "tokenizer.ggml.merges", merges, 4);
        gb_finish(&k.b, &k.bytes);
        struct gguf_input in = {
            .name = "t.gguf", .bytes = (const uint8_t *)k.bytes.p, .size = k.bytes.len};
        assert_int_equal(gguf_file_parse(&log.log, &in, &k.file), DGL_OK);
        assert_int_equal(gguf_vocab_read(&log.log, &k.file, &k.v), DGL_OK);
        if (names[i])
            assert_string_equal(log.text, "");
        else
            assert_contains(log.text, "tokenizer.ggml.pre is missing: \"default\" is used");
        assert_int_equal(tokenizer_create_lists(&log.log, &k.v, &tok), DGL_OK);
        assert_int_equal(
            tokenizer_encode(NULL, tok, DGL_STR("1234a!"), (struct encode_flags){0}, &ids), DGL_OK);
        assert_int_equal(ids.count, 4);
        assert_memory_equal(ids.ids, want, sizeof(want));
        free(ids.ids);
        tokenizer_destroy(&tok);
        keys_finish(&k);
    }
}

static void templates_keep_their_names(void **state)
{
    (void)state;
    struct keys k = {0};
    struct dgl_buf json = {0};
    bpe_keys(&k.b);
    gb_u32(&k.b, "tokenizer.ggml.bos_token_id", 3);
    gb_str(&k.b, "tokenizer.chat_template", "plain");
    gb_str(&k.b, "tokenizer.chat_template.tool_use", "tools");
    keys_read(&k, DGL_OK, NULL);
    assert_int_equal(gguf_tokenizer_config_write(NULL, &k.file, &k.v, &json), DGL_OK);
    assert_contains(json.p, "\"bos_token\": \"<s>\"");
    assert_contains(json.p, "\"name\": \"default\",\n      \"template\": \"plain\"");
    assert_contains(json.p, "\"name\": \"tool_use\",\n      \"template\": \"tools\"");
    dgl_buf_finish(&json);
    keys_finish(&k);
}

/* CVE-2025-49847, CVE-2025-52566: lengths of tokens beyond 31 bits, ids below zero. */
static void add_id_beyond(struct gguf_build *b)
{
    bpe_keys(b);
    gb_u32(b, "tokenizer.ggml.bos_token_id", 6);
}

static void add_id_negative(struct gguf_build *b)
{
    bpe_keys(b);
    gb_u32(b, "tokenizer.ggml.eos_token_id", 0x80000000u);
}

static void add_pre_unknown(struct gguf_build *b)
{
    bpe_keys(b);
    b->keys.len = 0;
    b->num_keys = 0;
    gb_str(b, "tokenizer.ggml.model", "gpt2");
    gb_str(b, "tokenizer.ggml.pre", "martian");
}

static void add_kind_unknown(struct gguf_build *b)
{
    gb_str(b, "tokenizer.ggml.model", "bert");
}

static void add_no_tokens(struct gguf_build *b)
{
    gb_str(b, "tokenizer.ggml.model", "llama");
}

static void add_no_merges(struct gguf_build *b)
{
    gb_str(b, "tokenizer.ggml.model", "gpt2");
    gb_str(b, "tokenizer.ggml.pre", "qwen2");
    gb_strs(b, "tokenizer.ggml.tokens", bpe_tokens, 6);
}

static void add_types_short(struct gguf_build *b)
{
    add_no_merges(b);
    gb_i32s(b, "tokenizer.ggml.token_type", bpe_types, 5);
}

static void add_scores_short(struct gguf_build *b)
{
    gb_str(b, "tokenizer.ggml.model", "llama");
    gb_strs(b, "tokenizer.ggml.tokens", spm_tokens, 9);
    gb_f32s(b, "tokenizer.ggml.scores", spm_scores, 8);
}

static void add_token_not_text(struct gguf_build *b)
{
    static const char *const tokens[] = {"a", "\xc3"};
    gb_str(b, "tokenizer.ggml.model", "gpt2");
    gb_str(b, "tokenizer.ggml.pre", "qwen2");
    gb_strs(b, "tokenizer.ggml.tokens", tokens, 2);
}

struct bad_keys {
    const char *name;
    void (*add)(struct gguf_build *b);
    enum dgl_status status;
    const char *part;
};
static const struct bad_keys bad_keys[] = {
    {"id beyond the list", add_id_beyond, DGL_OK,
     "t.gguf: tokenizer.ggml.bos_token_id is 6, but tokenizer.ggml.tokens has 6 tokens: "
     "the id is left out"},
    {"CVE-2025-52566: id that is negative as an int32", add_id_negative, DGL_OK,
     "eos_token_id is 2147483648, but tokenizer.ggml.tokens has 6 tokens: the id is left out"},
    {"pre-tokenizer is unknown", add_pre_unknown, DGL_ERR_UNSUPPORTED,
     "\"martian\"; supported: gpt-2"},
    {"kind is unknown", add_kind_unknown, DGL_ERR_UNSUPPORTED, "\"bert\""},
    {"tokens are missing", add_no_tokens, DGL_ERR_FORMAT, "tokens is missing"},
    {"merges are missing", add_no_merges, DGL_ERR_FORMAT, "merges is missing"},
    {"types are too few", add_types_short, DGL_ERR_FORMAT, "token_type has 5"},
    {"scores are too few", add_scores_short, DGL_ERR_FORMAT, "scores has 8"},
    {"token is not text", add_token_not_text, DGL_ERR_FORMAT, "tokens[1]"},
};

static void refuses_or_leaves_out(void **state)
{
    const struct bad_keys *row = *state;
    struct keys k = {0};
    row->add(&k.b);
    keys_read(&k, row->status, row->part);
    if (row->status == DGL_OK)
        assert_true(k.v.bos < 0 && k.v.eos < 0);
    keys_finish(&k);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(scores_decide_which_pieces_join),
        cmocka_unit_test(stops_have_their_origin),
        cmocka_unit_test(end_of_a_message_is_no_stop_in_harmony),
        cmocka_unit_test(missing_pre_is_the_default),
        cmocka_unit_test(templates_keep_their_names),
    };
    int failed = test_run_table("round trip", survives_a_round_trip, published_tokenizers);
    failed += test_run_table("bad keys", refuses_or_leaves_out, bad_keys);
    failed += test_run_table("bad lists", lists_are_refused, bad_lists);
    return failed + cmocka_run_group_tests_name("keys", cases, NULL, NULL);
}
