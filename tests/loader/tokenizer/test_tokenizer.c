/* Tokenizers: refusals and their messages, flags, limits, streaming and threads.
 * test_tokenizer_synthetic.c and test_tokenizer_real.c test exactness. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/thread.h"
#include "core/base/utf8.h"
#include "loader/tokenizer/tokenizer.h"

/* ---- helpers -------------------------------------------------------------------------------- */

#define MODEL_ABC                                                                                  \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\" "                  \
    "\":4},\"merges\":[\"a b\"]}"

static enum dgl_status create(const char *json, struct test_log *t, struct dgl_tokenizer **out)
{
    test_log_init(t, DGL_LOG_WARN);
    return tokenizer_create(&t->log, "tokenizer.json", json, strlen(json), out);
}

static struct dgl_tokenizer *must_create(const char *json)
{
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    if (create(json, &t, &tok) != DGL_OK)
        fail_msg("%s", t.text);
    return tok;
}

/* Compares with ids written as "1 2 3". */
static void expect_encoding(const struct dgl_tokenizer *tok, struct dgl_str text,
                            struct encode_flags flags, const char *want)
{
    struct token_ids ids = {0};
    struct dgl_buf got = {0};
    assert_int_equal(tokenizer_encode(NULL, tok, text, flags, &ids), DGL_OK);
    dgl_buf_puts(&got, "");
    for (size_t i = 0; i < ids.count; i++)
        dgl_buf_printf(&got, i ? " %d" : "%d", ids.ids[i]);
    assert_string_equal(got.p, want);
    dgl_buf_finish(&got);
    free(ids.ids);
}

static void expect_decoding(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                            bool skip_special, const char *want)
{
    struct dgl_buf got = {0};
    assert_int_equal(tokenizer_decode(NULL, tok, ids, count, skip_special, &got), DGL_OK);
    assert_string_equal(got.p ? got.p : "", want);
    dgl_buf_finish(&got);
}

/* ---- files that are refused ----------------------------------------------------------------- */

struct bad_row {
    const char *name, *json;
    enum dgl_status status;
    const char *message; /* a part of the one line that is logged */
};
#define WITH(part)  "{" MODEL_ABC "," part "}"
#define MODEL(part) "{\"model\":{\"type\":\"BPE\"," part "}}"
#define ADDED(part) WITH("\"added_tokens\":[" part "]")
#define SPLIT(part)                                                                                \
    WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":" part "}")
#define META(part) WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\"," part "}")
#define POST(part) WITH("\"post_processor\":{\"type\":\"TemplateProcessing\"," part "}")

static const struct bad_row bad_rows[] = {
    {"empty file", "", DGL_ERR_FORMAT, "tokenizer.json"},
    {"truncated", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,", DGL_ERR_FORMAT,
     "tokenizer.json"},
    {"an array", "[1]", DGL_ERR_FORMAT, "an array"},
    {"no model", "{\"version\":\"1.0\"}", DGL_ERR_FORMAT, "model"},
    {"unknown version", WITH("\"version\":\"2.0\""), DGL_ERR_UNSUPPORTED, "2.0"},
    {"model is a number", "{\"model\":3}", DGL_ERR_FORMAT, "model"},
    {"model type WordPiece", "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}",
     DGL_ERR_UNSUPPORTED, "WordPiece"},
    {"model without type", "{\"model\":{\"vocab\":{\"a\":0}}}", DGL_ERR_UNSUPPORTED, "model type"},
    {"no vocabulary", MODEL("\"merges\":[]"), DGL_ERR_FORMAT, "model.vocab"},
    {"empty vocabulary", MODEL("\"vocab\":{},\"merges\":[]"), DGL_ERR_FORMAT, "empty"},
    {"vocabulary is a list", MODEL("\"vocab\":[],\"merges\":[]"), DGL_ERR_FORMAT, "model.vocab"},
    {"negative id", MODEL("\"vocab\":{\"a\":-1},\"merges\":[]"), DGL_ERR_FORMAT, "vocab.a"},
    {"id with a fraction", MODEL("\"vocab\":{\"a\":1.5},\"merges\":[]"), DGL_ERR_FORMAT, "vocab.a"},
    {"huge id", MODEL("\"vocab\":{\"a\":4294967296},\"merges\":[]"), DGL_ERR_FORMAT, "16777215"},
    {"id is a string", MODEL("\"vocab\":{\"a\":\"0\"},\"merges\":[]"), DGL_ERR_FORMAT, "vocab.a"},
    {"an id twice", MODEL("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), DGL_ERR_FORMAT,
     "already belongs to \"a\""},
    {"a token twice", MODEL("\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]"), DGL_ERR_FORMAT, "a"},
    {"no merges", MODEL("\"vocab\":{\"a\":0}"), DGL_ERR_FORMAT, "model.merges"},
    {"merge of an unknown left side", MODEL("\"vocab\":{\"a\":0,\"xa\":1},\"merges\":[\"x a\"]"),
     DGL_ERR_FORMAT, "merges \"x\""},
    {"merge of an unknown right side",
     MODEL("\"vocab\":{\"a\":0,\"ax\":1},\"merges\":[[\"a\",\"x\"]]"), DGL_ERR_FORMAT,
     "merges \"x\""},
    {"merge into an unknown token", MODEL("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]"),
     DGL_ERR_FORMAT, "makes \"ab\""},
    {"merge of three", MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]"), DGL_ERR_FORMAT,
     "merges[0]"},
    {"merge of one", MODEL("\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]"), DGL_ERR_FORMAT,
     "merges[0]"},
    {"merge is a number", MODEL("\"vocab\":{\"a\":0},\"merges\":[7]"), DGL_ERR_FORMAT, "merges[0]"},
    {"dropout", MODEL("\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]"), DGL_ERR_UNSUPPORTED,
     "dropout"},
    {"subword prefix",
     MODEL("\"continuing_subword_prefix\":\"##\",\"vocab\":{\"a\":0},\"merges\":[]"),
     DGL_ERR_UNSUPPORTED, "##"},
    {"word suffix", MODEL("\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0},\"merges\":[]"),
     DGL_ERR_UNSUPPORTED, "</w>"},
    {"Unigram entry without score", "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
     DGL_ERR_FORMAT, "vocab[0]"},
    {"Unigram unk_id beyond the end",
     "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",-1]]}}", DGL_ERR_FORMAT,
     "unk_id"},
    {"added token without content", ADDED("{\"id\":5}"), DGL_ERR_FORMAT, "content"},
    {"added token without id", ADDED("{\"content\":\"x\"}"), DGL_ERR_FORMAT, "id"},
    {"added token with a negative id", ADDED("{\"id\":-5,\"content\":\"x\"}"), DGL_ERR_FORMAT,
     "-5"},
    {"added token with a huge id", ADDED("{\"id\":99999999999,\"content\":\"x\"}"), DGL_ERR_FORMAT,
     "99999999999"},
    {"added tokens with one id", ADDED("{\"id\":5,\"content\":\"x\"},{\"id\":5,\"content\":\"y\"}"),
     DGL_ERR_FORMAT, "\"x\" and \"y\" both have id 5"},
    {"added token flag is text", ADDED("{\"id\":5,\"content\":\"x\",\"special\":\"yes\"}"),
     DGL_ERR_FORMAT, "special"},
    {"normalizer Precompiled", WITH("\"normalizer\":{\"type\":\"Precompiled\"}"),
     DGL_ERR_UNSUPPORTED, "Precompiled"},
    {"normalizer in a sequence",
     WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
          "\"BertNormalizer\"}]}"),
     DGL_ERR_UNSUPPORTED, "BertNormalizer"},
    {"normalizer without type", WITH("\"normalizer\":{}"), DGL_ERR_FORMAT, "normalizer.type"},
    {"pre-tokenizer UnicodeScripts", WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"),
     DGL_ERR_UNSUPPORTED, "UnicodeScripts"},
    {"decoder WordPiece", WITH("\"decoder\":{\"type\":\"WordPiece\"}"), DGL_ERR_UNSUPPORTED,
     "WordPiece"},
    {"post-processor BertProcessing", WITH("\"post_processor\":{\"type\":\"BertProcessing\"}"),
     DGL_ERR_UNSUPPORTED, "BertProcessing"},
    {"unknown behavior",
     WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Glued\",\"pattern\":{\"String\":"
          "\"a\"}}"),
     DGL_ERR_UNSUPPORTED, "Glued"},
    {"pattern of both kinds", SPLIT("{\"String\":\"a\",\"Regex\":\"a\"}"), DGL_ERR_FORMAT,
     "pattern"},
    {"pattern of no kind", SPLIT("{}"), DGL_ERR_FORMAT, "pattern"},
    {"pattern with a back reference", SPLIT("{\"Regex\":\"(a)\\\\1\"}"), DGL_ERR_UNSUPPORTED,
     "back reference"},
    {"pattern that is no pattern", SPLIT("{\"Regex\":\"(a\"}"), DGL_ERR_UNSUPPORTED,
     "closing parenthesis"},
    {"pattern with an unknown property", SPLIT("{\"Regex\":\"\\\\p{Klingon}\"}"),
     DGL_ERR_UNSUPPORTED, "property"},
    {"mark of two characters", META("\"replacement\":\"__\""), DGL_ERR_FORMAT, "one character"},
    {"unknown scheme", META("\"replacement\":\"_\",\"prepend_scheme\":\"last\""), DGL_ERR_FORMAT,
     "last"},
    {"old and new scheme contradict",
     META("\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"add_prefix_space\":false"),
     DGL_ERR_FORMAT, "contradicts"},
    {"template with an unknown token",
     POST("\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},"
          "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{}"),
     DGL_ERR_FORMAT, "x"},
    {"template with an id beyond the vocabulary",
     POST("\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":\"A\"}}],"
          "\"special_tokens\":{\"x\":{\"ids\":[5]}}"),
     DGL_ERR_FORMAT, "from 0 to 4"},
    {"template without the text", POST("\"single\":[],\"special_tokens\":{}"), DGL_ERR_UNSUPPORTED,
     "never"},
    {"template with the text twice",
     POST("\"single\":[{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_"
          "tokens\":{}"),
     DGL_ERR_UNSUPPORTED, "more often"},
    {"template with another text",
     POST("\"single\":[{\"Sequence\":{\"id\":\"B\"}}],\"special_tokens\":{}"), DGL_ERR_FORMAT,
     "single[0]"},
};

static void file_is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    assert_int_equal(create(row->json, &t, &tok), row->status);
    assert_null(tok);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, "tokenizer.json");
    assert_contains(t.text, row->message);
}

static void every_prefix_of_a_file_is_refused(void **state)
{
    (void)state;
    static const char json[] =
        WITH("\"added_tokens\":[{\"id\":5,\"content\":\"<x>\"}],\"decoder\":{\"type\":\"Fuse\"}");
    struct dgl_tokenizer *tok = NULL;
    for (size_t len = 0; len + 1 < sizeof(json); len++) {
        assert_int_not_equal(tokenizer_create(NULL, "t", json, len, &tok), DGL_OK);
        assert_null(tok);
    }
    assert_int_equal(tokenizer_create(NULL, "t", json, sizeof(json) - 1, &tok), DGL_OK);
    tokenizer_destroy(&tok);
}

static void sequences_nest_only_so_deep(void **state)
{
    (void)state;
    static const char *const keys[] = {"normalizer", "pre_tokenizer", "decoder", "post_processor"};
    static const char *const lists[] = {"normalizers", "pretokenizers", "decoders", "processors"};
    for (size_t i = 0; i < 4; i++) {
        struct dgl_buf json = {0};
        struct test_log t;
        struct dgl_tokenizer *tok = NULL;
        dgl_buf_printf(&json, "{" MODEL_ABC ",\"%s\":", keys[i]);
        for (int depth = 0; depth < 20; depth++)
            dgl_buf_printf(&json, "{\"type\":\"Sequence\",\"%s\":[", lists[i]);
        for (int depth = 0; depth < 20; depth++)
            dgl_buf_puts(&json, "]}");
        dgl_buf_puts(&json, "}");
        assert_int_equal(create(json.p, &t, &tok), DGL_ERR_FORMAT);
        assert_contains(t.text, "deep");
        dgl_buf_finish(&json);
    }
}

static void settings_without_effect_are_told(void **state)
{
    (void)state;
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    assert_int_equal(create(WITH("\"truncation\":{\"max_length\":8},\"padding\":null"), &t, &tok),
                     DGL_OK);
    assert_contains(t.text, "truncation");
    tokenizer_destroy(&tok);
}

/* ---- ids ------------------------------------------------------------------------------------ */

static void vocabulary_may_have_holes(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = must_create(MODEL("\"vocab\":{\"a\":7,\"b\":1000},\"merges\":[]"));
    static const int32_t ids[] = {7, 8, 1000, -1, 1001, INT32_MAX, INT32_MIN};
    assert_int_equal(tokenizer_max_id(tok), 1000);
    expect_encoding(tok, DGL_STR("ba"), (struct encode_flags){0}, "1000 7");
    expect_decoding(tok, ids, 7, false, "a b"); /* without a decoder, blanks join tokens */
    tokenizer_destroy(&tok);
}

static void added_tokens_follow_the_vocabulary(void **state)
{
    (void)state;
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    assert_int_equal(create(ADDED("{\"id\":90,\"content\":\"<x>\",\"special\":true},"
                                  "{\"id\":91,\"content\":\"ab\"},{\"id\":92,\"content\":\"<y>\"}"),
                            &t, &tok),
                     DGL_OK);
    assert_contains(t.text, "\"<x>\" has id 5, not 90");
    assert_contains(t.text, "\"ab\" has id 3, not 91");
    expect_encoding(tok, DGL_STR("a<x>ab<y>"), (struct encode_flags){0}, "0 5 3 6");
    assert_int_equal(tokenizer_max_id(tok), 6);
    assert_true(tokenizer_is_special(tok, 5));
    assert_false(tokenizer_is_special(tok, 6));
    assert_false(tokenizer_is_special(tok, 0));
    assert_false(tokenizer_is_special(tok, -1));
    assert_false(tokenizer_is_special(tok, 7));
    tokenizer_destroy(&tok);
}

static void old_files_do_not_name_the_model(void **state)
{
    (void)state;
    struct dgl_tokenizer *bpe = must_create(
        "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"#version: 0.2\","
        "\"a b\"]}}");
    struct dgl_tokenizer *unigram =
        must_create("{\"model\":{\"vocab\":[[\"a\",-1],[\"b\",-1],[\"ab\",-1.5]]}}");
    expect_encoding(bpe, DGL_STR("aab"), (struct encode_flags){0}, "0 2");
    expect_encoding(unigram, DGL_STR("aab"), (struct encode_flags){0}, "0 2");
    tokenizer_destroy(&bpe);
    tokenizer_destroy(&unigram);
}

/* ---- encoding ------------------------------------------------------------------------------- */

static void flags_decide_about_special_tokens(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = must_create(
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"<\":0,\"s\":1,\">\":2,\"a\":3,\"t\":4},"
        "\"merges\":[]},\"added_tokens\":["
        "{\"id\":5,\"content\":\"<s>\",\"special\":true},{\"id\":6,\"content\":\"<t>\"}],"
        "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},"
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
        "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"e\"}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[5]},\"e\":{\"ids\":[4,6]}}}]}}");
    struct dgl_str text = DGL_STR("<s>a<t>");
    expect_encoding(tok, text, (struct encode_flags){0}, "5 3 6");
    expect_encoding(tok, text, (struct encode_flags){.add_special = true}, "5 5 3 6 4 6");
    expect_encoding(tok, text, (struct encode_flags){.no_parse_special = true}, "0 1 2 3 6");
    expect_encoding(tok, DGL_STR(""), (struct encode_flags){0}, "");
    expect_encoding(tok, (struct dgl_str){0}, (struct encode_flags){.add_special = true}, "5 4 6");
    tokenizer_destroy(&tok);
}

static void encoding_appends(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = must_create("{" MODEL_ABC "}");
    struct token_ids ids = {0};
    assert_int_equal(tokenizer_encode(NULL, tok, DGL_STR("ab"), (struct encode_flags){0}, &ids),
                     DGL_OK);
    assert_int_equal(tokenizer_encode(NULL, tok, DGL_STR("c"), (struct encode_flags){0}, &ids),
                     DGL_OK);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[0], 3);
    assert_int_equal(ids.ids[1], 2);
    free(ids.ids);
    tokenizer_destroy(&tok);
}

static void invalid_utf8_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct dgl_str texts[] = {
        {"ab\xFF", 3}, {"ab\xC3", 3}, {"ab\xED\xA0\x80", 5}, {"ab\xC0\x80", 4}};
    struct dgl_tokenizer *tok = must_create("{" MODEL_ABC "}");
    for (size_t i = 0; i < 4; i++) {
        struct test_log t;
        struct token_ids ids = {0};
        test_log_init(&t, DGL_LOG_ERROR);
        assert_int_equal(tokenizer_encode(&t.log, tok, texts[i], (struct encode_flags){0}, &ids),
                         DGL_ERR_INVALID_ARG);
        assert_int_equal(t.errors, 1);
        assert_contains(t.text, "offset 2");
        assert_int_equal(ids.count, 0);
        free(ids.ids);
    }
    tokenizer_destroy(&tok);
}

static void nul_characters_survive(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = must_create(
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0000\":0,\"a\":1,\"\\u0000a\":2,\"b\":3},"
        "\"merges\":[\"\\u0000 a\"]},\"decoder\":{\"type\":\"Fuse\"}}");
    static const int32_t ids[] = {3, 2, 0, 1};
    struct dgl_buf got = {0};
    expect_encoding(tok, DGL_STR("b\0a\0b"), (struct encode_flags){0}, "3 2 0 3");
    assert_int_equal(tokenizer_decode(NULL, tok, ids, 4, false, &got), DGL_OK);
    assert_int_equal(got.len, 5);
    assert_memory_equal(got.p, "b\0a\0a", 5);
    dgl_buf_finish(&got);
    tokenizer_destroy(&tok);
}

static void unknown_characters_without_token_are_dropped_or_refused(void **state)
{
    (void)state;
    struct dgl_tokenizer *drops = must_create("{" MODEL_ABC "}");
    struct dgl_tokenizer *refuses =
        must_create(MODEL("\"unk_token\":\"<unk>\",\"vocab\":{\"a\":0},\"merges\":[]"));
    struct test_log t;
    struct token_ids ids = {0};
    test_log_init(&t, DGL_LOG_ERROR);
    expect_encoding(drops, DGL_STR("axb"), (struct encode_flags){0}, "3"); /* a and b meet */
    assert_int_equal(
        tokenizer_encode(&t.log, refuses, DGL_STR("ax"), (struct encode_flags){0}, &ids),
        DGL_ERR_INVALID_ARG);
    assert_contains(t.text, "<unk>");
    free(ids.ids);
    tokenizer_destroy(&drops);
    tokenizer_destroy(&refuses);
}

/* ---- cost ----------------------------------------------------------------------------------- */

/* A vocabulary where 2^n times "a" is a token for every n up to 7. */
static struct dgl_tokenizer *create_powers(void)
{
    struct dgl_buf json = {0}, merges = {0};
    dgl_buf_puts(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"b\":8");
    char run[129];
    memset(run, 'a', sizeof(run));
    for (int n = 0; n < 8; n++) {
        dgl_buf_printf(&json, ",\"%.*s\":%d", 1 << n, run, n);
        if (n > 0)
            dgl_buf_printf(&merges, n > 1 ? ",\"%.*s %.*s\"" : "\"%.*s %.*s\"", 1 << (n - 1), run,
                           1 << (n - 1), run);
    }
    dgl_buf_printf(&json, "},\"merges\":[%s]}}", merges.p);
    struct dgl_tokenizer *tok = must_create(json.p);
    dgl_buf_finish(&json);
    dgl_buf_finish(&merges);
    return tok;
}

static void long_runs_take_no_quadratic_time(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = create_powers();
    const size_t len = 1 << 20; /* 10^12 steps if it were quadratic */
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'a', len);
    struct token_ids ids = {0};
    uint64_t start = dgl_now_ns();
    assert_int_equal(
        tokenizer_encode(NULL, tok, (struct dgl_str){text, len}, (struct encode_flags){0}, &ids),
        DGL_OK);
    assert_at_most((double)(dgl_now_ns() - start) * 1e-9, 30);
    assert_int_equal(ids.count, len / 128);
    for (size_t i = 0; i < ids.count; i++)
        assert_int_equal(ids.ids[i], 7);
    free(ids.ids);
    free(text);
    tokenizer_destroy(&tok);
}

/* The same text merged as one long piece, and as short pieces, separated by a character that does
 * not merge. */
static void long_and_short_pieces_merge_alike(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = create_powers();
    for (size_t len = 1; len < 200; len++) {
        char text[420];
        memset(text, 'a', sizeof(text));
        text[len] = 'b';
        struct token_ids once = {0}, twice = {0};
        struct dgl_str part = {text, len}, both = {text, 2 * len + 1};
        assert_int_equal(tokenizer_encode(NULL, tok, part, (struct encode_flags){0}, &once),
                         DGL_OK);
        assert_int_equal(tokenizer_encode(NULL, tok, both, (struct encode_flags){0}, &twice),
                         DGL_OK);
        assert_int_equal(twice.count, 2 * once.count + 1);
        assert_memory_equal(once.ids, twice.ids, once.count * sizeof(int32_t));
        assert_int_equal(twice.ids[once.count], 8);
        assert_memory_equal(once.ids, twice.ids + once.count + 1, once.count * sizeof(int32_t));
        free(once.ids);
        free(twice.ids);
    }
    tokenizer_destroy(&tok);
}

/* 200,000 combining taint in the worst order. */
static void taint_are_ordered_in_linear_time(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = must_create(
        "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
        "\"\\u0301\":1,\"\\u0323\":2},\"merges\":[]}}");
    const size_t pairs = 100000;
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, "b");
    for (size_t i = 0; i < pairs; i++)
        dgl_buf_puts(&text, "\xCC\x81\xCC\xA3");
    struct token_ids ids = {0};
    uint64_t start = dgl_now_ns();
    assert_int_equal(tokenizer_encode(NULL, tok, (struct dgl_str){text.p, text.len},
                                      (struct encode_flags){0}, &ids),
                     DGL_OK);
    assert_at_most((double)(dgl_now_ns() - start) * 1e-9, 10);
    /* The first U+0323 joins the b, which then has no token. */
    assert_int_equal(ids.count, 2 * pairs - 1);
    assert_int_equal(ids.ids[0], 2);
    assert_int_equal(ids.ids[ids.count - 1], 1);
    free(ids.ids);
    dgl_buf_finish(&text);
    tokenizer_destroy(&tok);
}

/* ---- decoding and streams ------------------------------------------------------------------- */

static const char byte_level[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0120b\":1,\"\\u00e2\":2,\"\\u0124\":3,"
    "\"\\u00ac\":4,\"\\u0100\":5},\"merges\":[]},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"added_tokens\":[{\"id\":6,\"content\":\"<end>\",\"special\":true},"
    "{\"id\":7,\"content\":\"\\u4e2d\"}]}";
static const char byte_fallback[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u2581b\":1,\"<0xE2>\":2,\"<0x82>\":3,"
    "\"<0xAC>\":4,\"<0x00>\":5},\"merges\":[]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"added_tokens\":[{\"id\":6,\"content\":\"<end>\",\"special\":true}]}";

struct stream_row {
    const char *name, *json;
    bool skip_special;
    int32_t ids[8];
    size_t count;
    const char *steps; /* output after each id and after the end, separated by '|' */
};
static const struct stream_row stream_rows[] = {
    {"plain tokens come at once", byte_level, false, {0, 1, 0}, 3, "a|a b|a ba|a ba"},
    {"a character waits for its last byte",
     byte_level,
     false,
     {0, 2, 3, 4, 0},
     5,
     "a|a|a|a\u20ac|a\u20aca|a\u20aca"},
    {"half a character at the end is one U+FFFD", byte_level, false, {0, 2, 3}, 3, "a|a|a|a\uFFFD"},
    {"half a character in the middle", byte_level, false, {2, 3, 0}, 3, "||\uFFFDa|\uFFFDa"},
    {"a continuation byte alone", byte_level, false, {4, 0}, 2, "\uFFFD|\uFFFDa|\uFFFDa"},
    {"tokens outside of the alphabet are text",
     byte_level,
     false,
     {0, 7, 6},
     3,
     "a|a\u4e2d|a\u4e2d<end>|a\u4e2d<end>"},
    {"special tokens are left out", byte_level, true, {6, 0, 6}, 3, "|a|a|a"},
    {"special tokens do not break a character",
     byte_level,
     true,
     {2, 6, 3, 4},
     4,
     "|||\u20ac|\u20ac"},
    {"ids without a token are left out", byte_level, false, {99, 0, -1}, 3, "|a|a|a"},
    {"nothing", byte_level, false, {0}, 0, ""},
    {"the first blank goes", byte_fallback, false, {1, 1}, 2, "b|b b|b b"},
    {"only one blank goes", byte_fallback, false, {0, 1}, 2, "a|a b|a b"},
    {"a run of bytes is text as a whole",
     byte_fallback,
     false,
     {2, 3, 4, 0},
     4,
     "|||\u20aca|\u20aca"},
    {"a run of bytes at the end", byte_fallback, false, {0, 2, 3, 4}, 4, "a|a|a|a|a\u20ac"},
    {"every byte of a damaged run is U+FFFD",
     byte_fallback,
     false,
     {2, 3, 4, 2, 0},
     5,
     "||||\uFFFD\uFFFD\uFFFD\uFFFDa|\uFFFD\uFFFD\uFFFD\uFFFDa"},
};

static void stream_shows_what_is_certain(void **state)
{
    const struct stream_row *row = *state;
    struct dgl_tokenizer *tok = must_create(row->json);
    struct detokenizer *d = NULL;
    detokenizer_create(NULL, tok, row->skip_special, &d);
    struct dgl_buf out = {0}, steps = {0};
    assert_non_null(d);
    dgl_buf_puts(&out, "");
    dgl_buf_puts(&steps, "");
    for (size_t i = 0; i < row->count; i++) {
        detokenizer_push(d, row->ids[i], &out);
        dgl_buf_printf(&steps, "%s|", out.p);
    }
    detokenizer_flush(d, &out);
    dgl_buf_puts(&steps, out.p);
    assert_string_equal(steps.p, row->steps);
    expect_decoding(tok, row->ids, row->count, row->skip_special, out.p);
    dgl_buf_finish(&out);
    dgl_buf_finish(&steps);
    detokenizer_destroy(&d);
    tokenizer_destroy(&tok);
}

static void stream_starts_anew_after_the_end(void **state)
{
    (void)state;
    struct dgl_tokenizer *tok = must_create(byte_fallback);
    struct detokenizer *d = NULL;
    detokenizer_create(NULL, tok, false, &d);
    struct dgl_buf out = {0};
    assert_non_null(d);
    for (int i = 0; i < 2; i++) {
        detokenizer_push(d, 1, &out); /* " b": its blank is dropped only at the start of a text */
        detokenizer_push(d, 2, &out);
        detokenizer_flush(d, &out);
    }
    assert_string_equal(out.p, "b\uFFFDb\uFFFD");
    dgl_buf_finish(&out);
    detokenizer_destroy(&d);
    assert_null(d);
    detokenizer_destroy(&d);
    tokenizer_destroy(&tok);
}

/* Random ids: at every moment the stream is a prefix of the decoded whole. */
static void stream_is_a_prefix_of_the_whole(void **state)
{
    (void)state;
    static const char *const files[] = {byte_level, byte_fallback};
    uint64_t seed = 5;
    for (int round = 0; round < 400; round++) {
        struct dgl_tokenizer *tok = must_create(files[round % 2]);
        struct detokenizer *d = NULL;
        detokenizer_create(NULL, tok, false, &d);
        struct dgl_buf out = {0}, whole = {0};
        int32_t ids[40];
        assert_non_null(d);
        for (size_t i = 0; i < 40; i++)
            ids[i] = (int32_t)(test_rand(&seed) % 8);
        assert_int_equal(tokenizer_decode(NULL, tok, ids, 40, false, &whole), DGL_OK);
        for (size_t i = 0; i < 40; i++) {
            detokenizer_push(d, ids[i], &out);
            assert_true(out.len <= whole.len);
            if (out.len)
                assert_memory_equal(out.p, whole.p, out.len);
        }
        detokenizer_flush(d, &out);
        assert_int_equal(out.len, whole.len);
        dgl_buf_finish(&out);
        dgl_buf_finish(&whole);
        detokenizer_destroy(&d);
        tokenizer_destroy(&tok);
    }
}

/* ---- threads -------------------------------------------------------------------------------- */

struct shared_work {
    const struct dgl_tokenizer *tok;
    struct token_ids results[16];
};

static enum dgl_status encode_one(void *ctx, size_t index)
{
    struct shared_work *work = ctx;
    struct dgl_str text = DGL_STR("a b ab 123 we've  \xC3\xA9\n");
    for (int i = 0; i < 50; i++) {
        work->results[index].count = 0;
        enum dgl_status status = tokenizer_encode(NULL, work->tok, text, (struct encode_flags){0},
                                                  &work->results[index]);
        if (status != DGL_OK)
            return status;
    }
    return DGL_OK;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    struct shared_work work = {0};
    struct dgl_tokenizer *tok = must_create(
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[\"a b\"]},\"normalizer\":{\"type\":\"NFKD\"},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}}");
    work.tok = tok;
    assert_int_equal(dgl_parallel_for(4, 16, encode_one, &work), DGL_OK);
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(work.results[i].count, work.results[0].count);
        assert_memory_equal(work.results[i].ids, work.results[0].ids,
                            work.results[0].count * sizeof(int32_t));
    }
    for (size_t i = 0; i < 16; i++)
        free(work.results[i].ids);
    tokenizer_destroy(&tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prefix_of_a_file_is_refused),
        cmocka_unit_test(sequences_nest_only_so_deep),
        cmocka_unit_test(settings_without_effect_are_told),
        cmocka_unit_test(vocabulary_may_have_holes),
        cmocka_unit_test(added_tokens_follow_the_vocabulary),
        cmocka_unit_test(old_files_do_not_name_the_model),
        cmocka_unit_test(flags_decide_about_special_tokens),
        cmocka_unit_test(encoding_appends),
        cmocka_unit_test(invalid_utf8_is_refused_with_its_place),
        cmocka_unit_test(nul_characters_survive),
        cmocka_unit_test(unknown_characters_without_token_are_dropped_or_refused),
        cmocka_unit_test(long_runs_take_no_quadratic_time),
        cmocka_unit_test(long_and_short_pieces_merge_alike),
        cmocka_unit_test(taint_are_ordered_in_linear_time),
        cmocka_unit_test(stream_starts_anew_after_the_end),
        cmocka_unit_test(stream_is_a_prefix_of_the_whole),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    int failed = test_run_table("refused files", file_is_refused, bad_rows);
    failed += cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
    return failed + test_run_table("streams", stream_shows_what_is_certain, stream_rows);
}
