/* Small tokenizers for cases that no published file has, and Unicode data, compared with the
 * results of the `tokenizers` package. All files are in tests/data/tokenizers. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/utf8.h"
#include "loader/regex/tok_regex.h"
#include "loader/text/tok_normal_form.h"
#include "loader/text/tok_unicode.h"
#include "tests/support/token_vectors.h"

#define ARCHIVE "tokenizers/synthetic+unicode.tar.gz"

/* ---- tokenizers ----------------------------------------------------------------------------- */

struct row {
    const char *name;
};
static const struct row rows[] = {
    {"bl-digits-punct-gpt2"},
    {"bl-gpt2-prefix_space-strip_flags"},
    {"bl-llama3-ignore_merges"},
    {"bl-llama3-no_ignore"},
    {"bl-qwen-nfc-normalized"},
    {"bl-sequence-digits-cjk"},
    {"bl-split-invert-removed"},
    {"optional-normalizers"},
    {"spm-byte_fallback-missing_bytes-fuse_unk"},
    {"spm-byte_fallback-missing_bytes-no_fuse"},
    {"spm-gemma"},
    {"spm-llama2-normalized_false"},
    {"spm-llama2-normalized_true"},
    {"spm-metaspace-always-split_false"},
    {"spm-metaspace-always-split_true"},
    {"spm-metaspace-first-split_false"},
    {"spm-metaspace-first-split_true"},
    {"spm-metaspace-never-split_false"},
    {"spm-metaspace-never-split_true"},
    {"spm-no_byte_fallback-fuse_unk"},
    {"spm-no_byte_fallback-no_fuse"},
    {"spm-no_unk_token"},
    {"unigram-byte_fallback"},
    {"unigram-metaspace"},
};

/* Tokenizers whose words do not depend on their neighbours. */
static const struct row word_rows[] = {
    {"bl-llama3-ignore_merges"},        {"bl-llama3-no_ignore"},
    {"bl-qwen-nfc-normalized"},         {"spm-gemma"},
    {"spm-metaspace-never-split_true"},
};

static void load(void **state, struct token_vectors *out)
{
    char inside[256];
    snprintf(inside, sizeof(inside), "_synthetic/%s", ((const struct row *)*state)->name);
    const char *dir = test_unpacked(ARCHIVE, inside);
    assert_non_null(dir);
    token_vectors_load(dir, out);
}

static void encodes_as_recorded(void **state)
{
    struct token_vectors vectors;
    load(state, &vectors);
    token_vectors_check_encode(&vectors);
    token_vectors_finish(&vectors);
}

static void decodes_as_recorded(void **state)
{
    struct token_vectors vectors;
    load(state, &vectors);
    token_vectors_check_decode(&vectors);
    token_vectors_finish(&vectors);
}

/* Appends a blank and some letters: some words repeat, and many have the same place in the cache of
 * words. */
static void append_word(uint64_t *seed, struct dgl_buf *text)
{
    size_t letters = 2 + test_rand(seed) % 6;
    dgl_buf_putc(text, ' ');
    for (size_t i = 0; i < letters; i++)
        dgl_buf_putc(text, "aehnt"[test_rand(seed) % 5]);
}

/* The words of one long text get the same ids as separate texts. */
static void words_of_long_texts_are_like_alone(void **state)
{
    enum { words = 20000 };
    struct token_vectors vectors;
    struct dgl_buf text = {0};
    struct token_ids whole = {0}, alone = {0};
    uint64_t seed = 5;
    load(state, &vectors);
    for (size_t i = 0; i < words; i++) {
        size_t start = text.len;
        append_word(&seed, &text);
        struct dgl_str word = {text.p + start, text.len - start};
        assert_int_equal(
            tokenizer_encode(NULL, vectors.tok, word, (struct encode_flags){0}, &alone), DGL_OK);
    }
    assert_int_equal(tokenizer_encode(NULL, vectors.tok, (struct dgl_str){text.p, text.len},
                                      (struct encode_flags){0}, &whole),
                     DGL_OK);
    assert_int_equal(whole.count, alone.count);
    for (size_t i = 0; i < whole.count; i++)
        assert_int_equal(whole.ids[i], alone.ids[i]);
    dgl_buf_finish(&text);
    free(whole.ids);
    free(alone.ids);
    token_vectors_finish(&vectors);
}

static void streams_as_recorded(void **state)
{
    struct token_vectors vectors;
    load(state, &vectors);
    token_vectors_check_stream(&vectors);
    token_vectors_finish(&vectors);
}

/* ---- Unicode -------------------------------------------------------------------------------- */

static struct dgl_json_doc *load_unicode(const char *file)
{
    char inside[256];
    struct test_log t;
    struct dgl_json_doc *doc = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    snprintf(inside, sizeof(inside), "_unicode/%s", file);
    const char *path = test_unpacked(ARCHIVE, inside);
    assert_non_null(path);
    if (dgl_json_load(&t.log, path, (size_t)64 << 20, &doc) != DGL_OK)
        fail_msg("%s", t.text);
    return doc;
}

static void append_code_points(struct dgl_buf *out, const struct dgl_json *array)
{
    size_t count;
    int32_t *cps = token_ids_of(array, &count);
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        dgl_buf_append(out, bytes, dgl_utf8_encode((uint32_t)cps[i], bytes));
    }
    free(cps);
}

static void normal_form_c_is_that_of_unicode_9(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = load_unicode("nfc_vectors.json");
    uint32_t *cps = NULL;
    size_t cap = 0, cases = 0;
    const struct dgl_json *c = dgl_json_first(dgl_json_root(doc));
    for (; c; c = dgl_json_next(c), cases++) {
        struct dgl_buf text = {0}, want = {0}, got = {0};
        append_code_points(&text, dgl_json_get(c, "cps"));
        append_code_points(&want, dgl_json_get(c, "nfc"));
        assert_true(tok_normal_form(TOK_NFC, (struct tainted_text){.text = {text.p, text.len}},
                                    &cps, &cap, &got, NULL));
        if (got.len != want.len || memcmp(got.p, want.p, want.len) != 0)
            fail_msg("NFC of \"%s\" is \"%s\", want \"%s\"", text.p, got.p, want.p);
        dgl_buf_finish(&text);
        dgl_buf_finish(&want);
        dgl_buf_finish(&got);
    }
    assert_int_equal(cases, 2000);
    free(cps);
    dgl_json_destroy(&doc);
}

/* Recorded from the `tokenizers` package 0.23.3. */
static void characters_newer_than_unicode_9_are_inert(void **state)
{
    (void)state;
    static const struct {
        enum tok_normal_form form;
        const char *text, *want;
    } cases[] = {
        {TOK_NFC, "\uac00\u11a7\u11a8", "\uac00\u11a7\u11a8"},
        {TOK_NFKC, "\u3279\u11a7", "\ud0c0\u11a7"},
        {TOK_NFC, "e\u0898\u0301", "e\u0898\u0301"},
        {TOK_NFC, "e\u0301\u0323\u0898\u0323\u0301", "\u1eb9\u0301\u0898\u0323\u0301"},
        {TOK_NFD, "\u1e69\u0897\u0307\u0323", "s\u0323\u0307\u0897\u0323\u0307"},
        {TOK_NFC, "\U00011935\U00011930", "\U00011935\U00011930"},
        {TOK_NFD, "\U00011938", "\U00011938"},
        {TOK_NFKC, "\u32ff\ufb01", "\u32fffi"},
        {TOK_NFKD, "\U0001f16c\U0001f16b", "\U0001f16cMD"},
        {TOK_NFC, "\U000105d2\u0307", "\U000105d2\u0307"},
        {TOK_NFC, "\u0344\u0300\u0345\u0323", "\u0323\u0308\u0301\u0300\u0345"},
    };
    uint32_t *cps = NULL;
    size_t cap = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dgl_buf got = {0};
        assert_true(tok_normal_form(cases[i].form,
                                    (struct tainted_text){.text = dgl_str_of(cases[i].text)}, &cps,
                                    &cap, &got, NULL));
        assert_string_equal(got.p, cases[i].want);
        dgl_buf_finish(&got);
    }
    free(cps);
}

/* The properties of the package's Rust library, which may be newer than those of utf8proc. */
static void lower_case_is_that_of_unicode_17(void **state)
{
    (void)state;
    static const uint32_t upper[] = {0x1C89, 0xA7CB, 0xA7DC, 0x10D50, 0x16EA0, 0x1E9E, 0x3A3, 'A'};
    static const uint32_t lower[] = {0x1C8A, 0x264, 0x19B, 0x10D70, 0x16EBB, 0xDF, 0x3C3, 'a'};
    uint32_t out[2];
    for (size_t i = 0; i < sizeof(upper) / sizeof(upper[0]); i++) {
        assert_int_equal(tok_lowercase(upper[i], out), 1);
        assert_int_equal(out[0], lower[i]);
    }
    assert_int_equal(tok_lowercase(0x130, out), 2);
    assert_int_equal(out[1], 0x307);
}

/* One character is matched after the other; `member` has a byte per code point. */
static void check_block(const struct tok_regex *regex, struct tok_regex_scratch *scratch,
                        const uint8_t *member, uint32_t first, uint32_t last)
{
    struct dgl_buf text = {0};
    struct tok_spans spans = {0};
    size_t wanted = 0, matches = 0;
    for (uint32_t cp = first; cp <= last; cp++) {
        char bytes[4];
        if (cp >= 0xD800 && cp <= 0xDFFF)
            continue;
        dgl_buf_append(&text, bytes, dgl_utf8_encode(cp, bytes));
        wanted += member[cp];
    }
    struct dgl_budget budget = test_budget(NULL, UINT64_MAX);
    assert_int_equal(
        tok_regex_find(&budget, regex, scratch, (struct dgl_str){text.p, text.len}, &spans),
        DGL_OK);
    for (size_t i = 0; i < spans.count; i++) {
        uint32_t cp;
        if (!spans.items[i].match)
            continue;
        dgl_utf8_decode(text.p + spans.items[i].start, 4, &cp);
        if (!member[cp])
            fail_msg("U+%04X is a match", cp);
        matches++;
    }
    if (matches != wanted)
        fail_msg("%zu matches from U+%04X to U+%04X, want %zu", matches, first, last, wanted);
    free(spans.items);
    dgl_buf_finish(&text);
}

/* All code points as one text, and in blocks: texts without newer characters use another form of
 * the pattern. */
static void classes_of_expressions_are_those_of_unicode_16(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = load_unicode("onig_classes.json");
    struct tok_regex_scratch *scratch = tok_regex_scratch_create();
    assert_non_null(scratch);
    const struct dgl_json *c = dgl_json_first(dgl_json_root(doc));
    for (; c; c = dgl_json_next(c)) {
        struct tok_regex *regex = NULL;
        uint8_t *member = calloc(0x110000, 1);
        assert_non_null(member);
        for (const struct dgl_json *r = dgl_json_first(c); r; r = dgl_json_next(r))
            for (uint32_t cp = (uint32_t)dgl_json_f64(dgl_json_at(r, 0));
                 cp <= dgl_json_f64(dgl_json_at(r, 1)); cp++)
                member[cp] = 1;
        assert_int_equal(tok_regex_create(NULL, "class", dgl_json_key(c), &regex), DGL_OK);
        check_block(regex, scratch, member, 0, 0x10FFFF);
        for (uint32_t block = 0; block < 0x110000; block += 256)
            check_block(regex, scratch, member, block, block + 255);
        tok_regex_destroy(&regex);
        free(member);
    }
    tok_regex_scratch_destroy(&scratch);
    dgl_json_destroy(&doc);
}

static void check_pieces(const struct tok_regex *regex, struct tok_regex_scratch *scratch,
                         const struct dgl_json *c)
{
    struct tok_spans spans = {0};
    struct dgl_str text = dgl_json_str(dgl_json_get(c, "text"));
    const struct dgl_json *piece = dgl_json_first(dgl_json_get(c, "pieces"));
    struct dgl_budget budget = test_budget(NULL, UINT64_MAX);
    assert_int_equal(tok_regex_find(&budget, regex, scratch, text, &spans), DGL_OK);
    for (size_t i = 0; i < spans.count; i++) {
        struct tok_span span = spans.items[i];
        if (span.start == span.end)
            continue;
        struct dgl_str want = dgl_json_str(piece);
        if (want.len != span.end - span.start || memcmp(want.p, text.p + span.start, want.len) != 0)
            fail_msg("text \"%s\": piece \"%.*s\", want \"%s\"", text.p,
                     (int)(span.end - span.start), text.p + span.start, want.p);
        piece = dgl_json_next(piece);
    }
    assert_null(piece);
    free(spans.items);
}

struct pattern_row {
    const char *name;
};
static const struct pattern_row pattern_rows[] = {
    {"gpt2"}, {"llama3"}, {"qwen2"}, {"o200k"}, {"tekken"}};

static void published_pattern_cuts_as_recorded(void **state)
{
    struct dgl_json_doc *doc = load_unicode("pretok.json");
    const char *name = ((const struct pattern_row *)*state)->name;
    const struct dgl_json *set = dgl_json_get(dgl_json_root(doc), name);
    struct tok_regex *regex = NULL;
    struct tok_regex_scratch *scratch = tok_regex_scratch_create();
    assert_non_null(set);
    assert_non_null(scratch);
    assert_int_equal(tok_regex_create(NULL, name, dgl_json_str(dgl_json_get(set, "regex")), &regex),
                     DGL_OK);
    const struct dgl_json *c = dgl_json_first(dgl_json_get(set, "cases"));
    for (; c; c = dgl_json_next(c))
        check_pieces(regex, scratch, c);
    tok_regex_scratch_destroy(&scratch);
    tok_regex_destroy(&regex);
    dgl_json_destroy(&doc);
}

int main(void)
{
    const struct CMUnitTest unicode[] = {
        cmocka_unit_test(normal_form_c_is_that_of_unicode_9),
        cmocka_unit_test(characters_newer_than_unicode_9_are_inert),
        cmocka_unit_test(lower_case_is_that_of_unicode_17),
        cmocka_unit_test(classes_of_expressions_are_those_of_unicode_16),
    };
    /* The checked-in files have the same structure as the test data outside of the project. */
    setenv("DOPPLERGL_TEST_DATA", "tests/data", 1);
    int failed = test_run_table("encode", encodes_as_recorded, rows);
    failed += test_run_table("decode", decodes_as_recorded, rows);
    failed += test_run_table("stream", streams_as_recorded, rows);
    failed += test_run_table("long texts", words_of_long_texts_are_like_alone, word_rows);
    failed += cmocka_run_group_tests_name("Unicode", unicode, NULL, NULL);
    return failed + test_run_table("patterns", published_pattern_cuts_as_recorded, pattern_rows);
}
