/* Tokenizers designed to run for a very long time: each ends within its limits of time and memory,
 * with the result or with one line that names the limit. Every case runs in a separate process,
 * whose time and memory are measured. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/text/tok_hash.h"
#include "loader/tokenizer/tok_trie.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/tokenizer.h"

enum { text_bytes = 200000, long_token = 50000, max_seconds = 10, max_kib = 1 << 20 };

#if defined(__SANITIZE_ADDRESS__)
enum { sanitized = 1 };
#elif defined(__has_feature)
enum { sanitized = __has_feature(address_sanitizer) };
#else
enum { sanitized = 0 };
#endif

#define BPE                                                                                        \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \" \": 2, \"x\": 3}, "         \
    "\"merges\": []}"
#define TOKEN(id, flags) "{\"id\": " id ", \"content\": \"@\", " flags "}"
#define REPLACE                                                                                    \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "                                   \
    "\"content\": \"@\"}"
#define SPLIT(regex)                                                                               \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}, \"behavior\": \"Isolated\"}"

static const struct row {
    const char *name;
    /* tokenizer.json: `before`, then `times` copies of `part` separated by commas, then `after`.
     * The first @ of each is replaced by `fill_times` copies of `fill` and by `fill_end`. */
    const char *before, *part, *after;
    int times;
    const char *fill;
    int fill_times;
    const char *fill_end;
    const char *text;   /* over and over */
    const char *wanted; /* part of the error; NULL: it is encoded, */
    size_t ids;         /* to so many ids */
} rows[] = {
    {"twelve Replace that grow", "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [",
     REPLACE, "]}, " BPE "}", 12, "a", 10, "", "a", "bytes of memory", 0},
    {"Prepend before every part",
     "{\"added_tokens\": [{\"id\": 1, \"content\": \"b\"}], \"normalizer\": {\"type\": "
     "\"Prepend\", \"prepend\": \"@\"}, ",
     BPE, "}", 1, "x", long_token, "", "ab", "bytes of memory", 0},
    {"a long added token", "{\"added_tokens\": [" TOKEN("4", "\"special\": true") "], ", BPE, "}",
     1, "a", long_token, "b", "a", "steps", 0},
    {"a long piece of Unigram",
     "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"a\", -1], "
     "[\"@\", -2]]}}",
     "", "", 0, "a", long_token, "b", "a", "steps", 0},
    {"a look ahead at every place", "{\"pre_tokenizer\": " SPLIT("a(?=.*y)") ", ", BPE, "}", 1, "",
     0, "", "a", "steps", 0},
    {"20,000 pre-tokenizers", "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [",
     SPLIT("a|b"), "]}, " BPE "}", 20000, "", 0, "", "ab", "more than 64 steps", 0},
    {"20,000 normalizers", "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [",
     "{\"type\": \"NFC\"}", "]}, " BPE "}", 20000, "", 0, "", "ab", "more than 64 steps", 0},
    {"20,000 decoders", "{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [",
     "{\"type\": \"Fuse\"}", "]}, " BPE "}", 20000, "", 0, "", "ab", "more than 64 steps", 0},
    {"ids around a text",
     "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"special_tokens\": {\"S\": "
     "{\"ids\": [0]}}, \"single\": [{\"Sequence\": {\"id\": \"A\"}}, ",
     "{\"SpecialToken\": {\"id\": \"S\"}}", "]}, " BPE "}", 20000, "", 0, "", "a",
     "more than 1024 ids", 0},
    {"blanks that swallow blanks to their left",
     "{\"added_tokens\": [{\"id\": 2, \"content\": \" \", \"lstrip\": true}], ", BPE, "}", 1, "", 0,
     "", " ", NULL, text_bytes},
    {"blanks that swallow blanks to their right",
     "{\"added_tokens\": [{\"id\": 2, \"content\": \" \", \"rstrip\": true}], ", BPE, "}", 1, "", 0,
     "", " ", NULL, text_bytes},
    {"words that swallow blanks on both sides",
     "{\"added_tokens\": [{\"id\": 1, \"content\": \"b\", \"lstrip\": true, \"rstrip\": true}], ",
     BPE, "}", 1, "", 0, "", "         b", NULL, text_bytes / 10},
    {"a long run without pieces", "{", BPE, "}", 1, "", 0, "", "a", NULL, text_bytes},
};

static void put_filled(struct dgl_buf *out, const struct row *row, const char *text)
{
    const char *at = strchr(text, '@');
    dgl_buf_append(out, text, at ? (size_t)(at - text) : strlen(text));
    for (int i = 0; at && i < row->fill_times; i++)
        dgl_buf_puts(out, row->fill);
    if (at) {
        dgl_buf_puts(out, row->fill_end);
        dgl_buf_puts(out, at + 1);
    }
}

/* In the child: loads the tokenizer, encodes the text and writes the answer to the pipe. */
struct answer {
    enum dgl_status status;
    int errors;
    size_t ids;
    char text[sizeof(((struct test_log *)0)->text)];
};

static void encode(const struct row *row, struct answer *answer)
{
    struct test_log t;
    struct dgl_buf json = {0}, text = {0};
    struct dgl_tokenizer *tok = NULL;
    struct token_ids ids = {0};
    test_log_init(&t, DGL_LOG_ERROR);
    put_filled(&json, row, row->before);
    for (int i = 0; i < row->times; i++) {
        dgl_buf_puts(&json, i ? ", " : "");
        put_filled(&json, row, row->part);
    }
    put_filled(&json, row, row->after);
    while (text.len < text_bytes)
        dgl_buf_puts(&text, row->text);
    answer->status = tokenizer_create(&t.log, "T", json.p, json.len, &tok);
    if (answer->status == DGL_OK)
        answer->status = tokenizer_encode(&t.log, tok, (struct dgl_str){text.p, text.len},
                                          (struct encode_flags){0}, &ids);
    answer->ids = ids.count;
    answer->errors = t.errors;
    memcpy(answer->text, t.text, sizeof(t.text));
    tokenizer_destroy(&tok);
    free(ids.ids);
    dgl_buf_finish(&json);
    dgl_buf_finish(&text);
}

static void ends_in_time(void **state)
{
    const struct row *row = *state;
    struct answer answer = {0};
    struct rusage used;
    int pipes[2], how;
    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        encode(row, &answer);
        _exit(write(pipes[1], &answer, sizeof(answer)) == sizeof(answer) ? 0 : 1);
    }
    close(pipes[1]);
    ssize_t got = read(pipes[0], &answer, sizeof(answer));
    close(pipes[0]);
    assert_int_equal(wait4(child, &how, 0, &used), child);
    assert_int_equal(how, 0);
    assert_int_equal(got, sizeof(answer));
    assert_at_most((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec), max_seconds);
    if (!sanitized)
        assert_at_most((double)used.ru_maxrss, max_kib);
    if (row->wanted) {
        assert_int_not_equal(answer.status, DGL_OK);
        assert_int_equal(answer.errors, 1);
        assert_contains(answer.text, row->wanted);
    } else {
        assert_int_equal(answer.status, DGL_OK);
        assert_int_equal(answer.ids, row->ids);
    }
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* A decoder that grows without end is stopped in both functions. The output until then is a prefix.
 */
static void decoders_end(void **state)
{
    (void)state;
    static const char grow[] = "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
                               "\"content\": \"aaaaaaaaaa\"}";
    struct test_log t;
    struct dgl_buf json = {0}, text = {0};
    struct dgl_tokenizer *tok = NULL;
    struct detokenizer *d = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    dgl_buf_puts(&json, "{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [");
    for (int i = 0; i < 12; i++)
        dgl_buf_printf(&json, "%s%s", i ? ", " : "", grow);
    dgl_buf_puts(&json, "]}, " BPE "}");
    assert_int_equal(tokenizer_create(&t.log, "T", json.p, json.len, &tok), DGL_OK);
    const int32_t ids[] = {1, 0, 1};
    const char *const parts[] = {"decoding needs more than", "bytes of memory"};
    assert_refusal(&t, tokenizer_decode(&t.log, tok, ids, 3, false, &text), DGL_ERR_UNSUPPORTED,
                   parts);
    dgl_buf_finish(&text);
    test_log_clear(&t);
    assert_int_equal(detokenizer_create(&t.log, tok, false, &d), DGL_OK);
    assert_int_equal(detokenizer_push(d, 1, &text), DGL_OK);
    assert_refusal(&t, detokenizer_push(d, 0, &text), DGL_ERR_UNSUPPORTED, parts);
    assert_int_equal(detokenizer_push(d, 1, &text), DGL_ERR_UNSUPPORTED);
    assert_int_equal(detokenizer_flush(d, &text), DGL_ERR_UNSUPPORTED);
    assert_int_equal(t.errors, 1);
    assert_string_equal(text.p, "b");
    detokenizer_destroy(&d);
    tokenizer_destroy(&tok);
    dgl_buf_finish(&json);
    dgl_buf_finish(&text);
}

/* ---- markup of templates ---- */

/* A template of 200,000 bytes that begin a token at each place, or that are searched for each of
 * 20,000 tokens of normal forms. */
static void search_in_a_template_ends(void **state)
{
    static const char *const parts[] = {"searching the template for tokens takes more than",
                                        "steps"};
    static const struct {
        int tokens, fill;
        bool normalized;
    } hostile[] = {{1, long_token, false}, {20000, 1, true}};
    char *text = checked(malloc(text_bytes));
    (void)state;
    memset(text, 'a', text_bytes);
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        struct test_log t;
        struct dgl_buf json = {0};
        struct dgl_tokenizer *tok = NULL;
        uint8_t *markup = NULL;
        test_log_init(&t, DGL_LOG_ERROR);
        dgl_buf_puts(&json, "{\"added_tokens\": [");
        for (int k = 0; k < hostile[i].tokens; k++) {
            dgl_buf_printf(&json, "%s{\"id\": %d, \"normalized\": %s, \"content\": \"",
                           k ? ", " : "", k, hostile[i].normalized ? "true" : "false");
            for (int at = 0; at < hostile[i].fill; at++)
                dgl_buf_putc(&json, 'a');
            dgl_buf_printf(&json, "b%d\"}", k);
        }
        dgl_buf_puts(&json, "], " BPE "}");
        assert_int_equal(tokenizer_create(&t.log, "T", json.p, json.len, &tok), DGL_OK);
        assert_refusal(
            &t, tokenizer_find_markup(&t.log, tok, (struct dgl_str){text, text_bytes}, &markup),
            DGL_ERR_UNSUPPORTED, parts);
        free(markup);
        tokenizer_destroy(&tok);
        dgl_buf_finish(&json);
    }
    free(text);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static bool always(void *priv)
{
    (void)priv;
    return true;
}

static void encoding_is_cancelled(void **state)
{
    (void)state;
    static const char json[] = "{\"pre_tokenizer\": " SPLIT("a(?=.*y)") ", " BPE "}";
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    struct token_ids ids = {0};
    char *text = checked(malloc(text_bytes));
    test_log_init(&t, DGL_LOG_ERROR);
    memset(text, 'a', text_bytes);
    assert_int_equal(tokenizer_create(&t.log, "T", json, sizeof(json) - 1, &tok), DGL_OK);
    t.log.cancelled = always;
    assert_int_equal(tokenizer_encode(&t.log, tok, (struct dgl_str){text, text_bytes},
                                      (struct encode_flags){0}, &ids),
                     DGL_ERR_CANCELLED);
    assert_int_equal(t.errors, 0); /* who cancels knows why */
    assert_int_equal(ids.count, 0);
    free(ids.ids);
    free(text);
    tokenizer_destroy(&tok);
}

/* Keys that collide under one seed do not under the next, so a file cannot choose them. */
static void tables_have_seeds_of_their_own(void **state)
{
    (void)state;
    struct tok_vocab vocabs[2] = {0};
    struct tok_trie tries[2] = {0};
    for (int i = 0; i < 2; i++) {
        assert_true(tok_vocab_add(&vocabs[i], dgl_str_of("a"), 0));
        assert_true(tok_trie_add(&tries[i], dgl_str_of("a"), 0));
    }
    assert_int_not_equal(vocabs[0].seed, vocabs[1].seed);
    assert_int_not_equal(tries[0].seed, tries[1].seed);
    assert_int_not_equal(tok_hash_bytes("a token", 7, vocabs[0].seed),
                         tok_hash_bytes("a token", 7, vocabs[1].seed));
    for (int i = 0; i < 2; i++) {
        tok_vocab_finish(&vocabs[i]);
        tok_trie_finish(&tries[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoders_end), cmocka_unit_test(search_in_a_template_ends),
        cmocka_unit_test(encoding_is_cancelled), cmocka_unit_test(tables_have_seeds_of_their_own)};
    return test_run_table("hostile tokenizers", ends_in_time, rows) +
           cmocka_run_group_tests_name("decoding and cancelling", tests, NULL, NULL);
}
