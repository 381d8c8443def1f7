/* DOPPLER's own form of tokenizer.json: synthetic tokenizers written in it keep their ids, and
 * inconsistent files are refused. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/tokenizer/tokenizer.h"
#include "tests/support/token_vectors.h"

#define ARCHIVE "tokenizers/synthetic+unicode.tar.gz"
#define MARK    "\342\226\201" /* U+2581 in octal, which ends after three digits */

/* ---- the form of a Hugging Face file --------------------------------------------------------- */

enum { MAX_TOKENS = 2000 };

struct form {
    const char *type, *model; /* model may be NULL */
    const char *bos, *eos, *unk;
    bool add_eos, add_prefix;
};

struct token {
    struct dgl_str text;
    double score;
    int type;
};

struct tokens {
    struct token items[MAX_TOKENS];
    size_t count;
};

static struct token *token_find(struct tokens *t, struct dgl_str left, struct dgl_str right)
{
    for (size_t i = 0; i < t->count; i++) {
        struct dgl_str text = t->items[i].text;
        if (text.len == left.len + right.len && memcmp(text.p, left.p, left.len) == 0 &&
            memcmp(text.p + left.len, right.p, right.len) == 0)
            return &t->items[i];
    }
    return NULL;
}

static void token_set(struct tokens *t, int64_t id, struct token token)
{
    assert_in_range(id, 0, MAX_TOKENS - 1);
    t->items[id] = token;
    if ((size_t)id >= t->count)
        t->count = (size_t)id + 1;
}

/* Both halves of a merge, whichever way the file spells it. */
static void merge_split(const struct dgl_json *merge, struct dgl_str *left, struct dgl_str *right)
{
    struct dgl_str both = dgl_json_str(merge);
    *left = dgl_json_str(dgl_json_at(merge, 0));
    *right = dgl_json_str(dgl_json_at(merge, 1));
    if (!dgl_json_is(merge, DGL_JSON_STRING))
        return;
    const char *blank = memchr(both.p, ' ', both.len);
    assert_non_null(blank);
    *left = (struct dgl_str){both.p, (size_t)(blank - both.p)};
    *right = (struct dgl_str){blank + 1, both.len - left->len - 1};
}

/* Scores decrease with the position of the first merge that makes a piece. */
static void score_by_merges(struct tokens *t, const struct dgl_json *merges)
{
    double rank = 0;
    for (const struct dgl_json *m = dgl_json_first(merges); m; m = dgl_json_next(m), rank++) {
        struct dgl_str left, right;
        merge_split(m, &left, &right);
        struct token *whole = token_find(t, left, right);
        assert_non_null(whole);
        if (whole->score < -1e5)
            whole->score = -rank;
    }
}

static void tokens_read(const struct dgl_json *root, const struct form *form, struct tokens *t)
{
    const struct dgl_json *model = dgl_json_get(root, "model"), *vocab;
    int64_t id = 0;
    *t = (struct tokens){0};
    vocab = dgl_json_get(model, "vocab");
    for (const struct dgl_json *v = dgl_json_first(vocab); v; v = dgl_json_next(v), id++) {
        bool pair = dgl_json_is(v, DGL_JSON_ARRAY);
        struct token token = {dgl_json_key(v), -1e6, 1};
        if (pair)
            token =
                (struct token){dgl_json_str(dgl_json_at(v, 0)), dgl_json_f64(dgl_json_at(v, 1)), 1};
        else
            assert_true(dgl_json_i64(v, &id));
        if (token.text.len == 6 && memcmp(token.text.p, "<0x", 3) == 0)
            token.type = 6;
        token_set(t, id, token);
    }
    vocab = dgl_json_get(root, "added_tokens");
    for (const struct dgl_json *v = dgl_json_first(vocab); v; v = dgl_json_next(v)) {
        struct token token = {dgl_json_str(dgl_json_get(v, "content")), 0, 4};
        assert_true(dgl_json_i64(dgl_json_get(v, "id"), &id));
        if (dgl_json_bool(dgl_json_get(v, "special")))
            token.type = form->unk && dgl_str_eq(token.text, form->unk) ? 2 : 3;
        token_set(t, id, token);
    }
    score_by_merges(t, dgl_json_get(model, "merges"));
}

static void put_special(struct dgl_json_writer *w, struct tokens *t, const char *name,
                        const char *text)
{
    struct token *token = text ? token_find(t, dgl_str_of(text), DGL_STR("")) : NULL;
    dgl_jw_key(w, name);
    if (token)
        dgl_jw_i64(w, token - t->items);
    else
        dgl_jw_null(w);
}

static void put_merges(struct dgl_json_writer *w, const struct dgl_json *merges)
{
    dgl_jw_array(w);
    for (const struct dgl_json *m = dgl_json_first(merges); m; m = dgl_json_next(m)) {
        struct dgl_str left, right;
        struct dgl_buf both = {0};
        merge_split(m, &left, &right);
        dgl_buf_append(&both, left.p, left.len);
        dgl_buf_putc(&both, ' ');
        dgl_buf_append(&both, right.p, right.len);
        dgl_jw_str(w, (struct dgl_str){both.p, both.len});
        dgl_buf_finish(&both);
    }
    dgl_jw_end_array(w);
}

static void form_write(const struct dgl_json *root, const struct form *form, struct dgl_buf *out)
{
    struct tokens *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    tokens_read(root, form, t);
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "type", form->type);
    dgl_jw_field_cstr(&w, "model", form->model);
    dgl_jw_field_object(&w, "vocab");
    for (size_t i = 0; i < t->count; i++) {
        dgl_jw_key_str(&w, t->items[i].text);
        dgl_jw_u64(&w, i);
    }
    dgl_jw_end_object(&w);
    dgl_jw_field_u64(&w, "vocabSize", t->count);
    bool merges = form->model && strcmp(form->model, "gpt2") == 0;
    dgl_jw_key(&w, "merges");
    if (merges)
        put_merges(&w, dgl_json_get(dgl_json_get(root, "model"), "merges"));
    else
        dgl_jw_null(&w);
    dgl_jw_field_array(&w, "scores");
    for (size_t i = 0; i < t->count && !merges; i++)
        dgl_jw_f64(&w, t->items[i].score);
    dgl_jw_end_array(&w);
    dgl_jw_field_array(&w, "tokenTypes");
    for (size_t i = 0; i < t->count; i++)
        dgl_jw_i64(&w, t->items[i].type);
    dgl_jw_end_array(&w);
    dgl_jw_field_object(&w, "specialTokens");
    put_special(&w, t, "bos", form->bos);
    put_special(&w, t, "eos", form->eos);
    put_special(&w, t, "unk", form->unk);
    dgl_jw_end_object(&w);
    dgl_jw_field_bool(&w, "addEosToken", form->add_eos);
    dgl_jw_field_bool(&w, "addSpacePrefix", form->add_prefix);
    dgl_jw_end_object(&w);
    assert_false(out->failed);
    free(t);
}

/* ---- the ids of the source file ----------------------------------------------------------------
 */

struct synthetic_row {
    const char *name, *folder;
    struct form form;
    /* Merges of this file join blanks in another order than scores do. */
    bool skip_runs;
};
static const struct synthetic_row synthetic_rows[] = {
    {"SentencePiece BPE",
     "spm-gemma",
     {"bpe", NULL, "<s>", "</s>", "<unk>", .add_eos = false, .add_prefix = false},
     .skip_runs = true},
    {"SentencePiece BPE by the name of unigram",
     "spm-gemma",
     {"unigram", "llama", "<s>", "</s>", "<unk>", .add_eos = false, .add_prefix = false},
     .skip_runs = true},
    {"Unigram",
     "unigram-byte_fallback",
     {"unigram", NULL, "<s>", "</s>", "<unk>", .add_eos = false, .add_prefix = false},
     .skip_runs = false},
    {"Unigram of a T5",
     "unigram-byte_fallback",
     {"unigram", "t5", "<s>", "</s>", "<unk>", .add_eos = false, .add_prefix = false},
     .skip_runs = false},
};

static struct dgl_json_doc *json_load(const char *dir)
{
    char path[4096];
    struct dgl_json_doc *doc = NULL;
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    assert_int_equal(dgl_json_load(NULL, path, (size_t)1 << 24, &doc), DGL_OK);
    return doc;
}

static const char *folder_of(const char *name)
{
    char inside[256];
    snprintf(inside, sizeof(inside), "_synthetic/%s", name);
    const char *dir = test_unpacked(ARCHIVE, inside);
    assert_non_null(dir);
    return dir;
}

static struct dgl_tokenizer *form_load(const struct dgl_json *root, const struct form *form)
{
    struct test_log log;
    struct dgl_buf text = {0};
    struct dgl_tokenizer *tok = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    form_write(root, form, &text);
    if (tokenizer_create(&log.log, "t", text.p, text.len, &tok) != DGL_OK)
        fail_msg("%s", log.text);
    dgl_buf_finish(&text);
    return tok;
}

/* Encodes every text of the vectors by both; those with runs of blanks only if so wanted.
 */
static void expect_same_ids(const struct token_vectors *vectors, const struct dgl_tokenizer *want,
                            const struct dgl_tokenizer *got, bool skip_runs)
{
    const struct dgl_json *all = dgl_json_root(vectors->texts);
    size_t compared = 0;
    for (const struct dgl_json *c = dgl_json_first(all); c; c = dgl_json_next(c)) {
        struct dgl_str text = dgl_json_str(dgl_json_get(c, "text"));
        struct encode_flags flags = {.add_special = true};
        struct token_ids a = {0}, b = {0};
        if (skip_runs && text.len && strstr(text.p, "  "))
            continue;
        assert_int_equal(tokenizer_encode(NULL, want, text, flags, &a), DGL_OK);
        assert_int_equal(tokenizer_encode(NULL, got, text, flags, &b), DGL_OK);
        for (size_t i = 0; i < a.count && i < b.count; i++)
            if (a.ids[i] != b.ids[i])
                fail_msg("\"%s\": id %zu is %d, wanted %d", text.p, i, b.ids[i], a.ids[i]);
        if (a.count != b.count)
            fail_msg("\"%s\": %zu ids, wanted %zu", text.p, b.count, a.count);
        compared++;
        free(a.ids);
        free(b.ids);
    }
    assert_true(compared > dgl_json_count(all) / 2);
}

static void gives_the_same_ids(void **state)
{
    const struct synthetic_row *row = *state;
    struct token_vectors vectors;
    const char *dir = folder_of(row->folder);
    token_vectors_load(dir, &vectors);
    struct dgl_json_doc *doc = json_load(dir);
    struct dgl_tokenizer *got = form_load(dgl_json_root(doc), &row->form);
    expect_same_ids(&vectors, vectors.tok, got, row->skip_runs);
    tokenizer_destroy(&got);
    dgl_json_destroy(&doc);
    token_vectors_finish(&vectors);
}

/* The same file, but cutting texts into words as GPT-2 does. */
static struct dgl_tokenizer *gpt2_load(const struct dgl_json *root)
{
    struct dgl_buf text = {0};
    struct dgl_tokenizer *tok = NULL;
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_object(&w);
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        dgl_jw_key_str(&w, dgl_json_key(v));
        if (!dgl_str_eq(dgl_json_key(v), "pre_tokenizer")) {
            dgl_jw_value(&w, v);
            continue;
        }
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "type", "ByteLevel");
        dgl_jw_field_bool(&w, "add_prefix_space", false);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_object(&w);
    assert_int_equal(tokenizer_create(NULL, "t", text.p, text.len, &tok), DGL_OK);
    dgl_buf_finish(&text);
    return tok;
}

static void byte_level_is_that_of_gpt2(void **state)
{
    static const struct form form = {"bpe", "gpt2", "<|bos|>", "<|eos|>", .add_eos = true};
    (void)state;
    struct token_vectors vectors;
    const char *dir = folder_of("bl-llama3-no_ignore");
    token_vectors_load(dir, &vectors);
    struct dgl_json_doc *doc = json_load(dir);
    struct dgl_tokenizer *want = gpt2_load(dgl_json_root(doc));
    struct dgl_tokenizer *got = form_load(dgl_json_root(doc), &form);
    expect_same_ids(&vectors, want, got, false);
    tokenizer_destroy(&want);
    tokenizer_destroy(&got);
    dgl_json_destroy(&doc);
    token_vectors_finish(&vectors);
}

/* ---- small files ----------------------------------------------------------------------------- */

#define VOCAB         "\"vocab\":{\"<s>\":0,\"a\":1,\"b\":2,\"ab\":3},\"vocabSize\":4"
#define BOS           "\"specialTokens\":{\"bos\":0}"
#define MERGES        "\"merges\":[\"a b\"]"
#define BPE(part)     "{\"type\":\"bpe\",\"model\":\"gpt2\"," VOCAB "," MERGES "," part "}"
#define UNIGRAM(part) "{\"type\":\"unigram\"," VOCAB ",\"scores\":[0,-2,-2.5,-1.5]," part "}"

struct small_row {
    const char *name, *json, *text, *want; /* ids as "1 2" */
};
static const struct small_row small_rows[] = {
    {"begins with bos by default", BPE(BOS), "ab", "0 3"},
    {"without bos", BPE(BOS ",\"addBosToken\":false"), "ab", "3"},
    {"with eos", BPE("\"specialTokens\":{\"bos\":0,\"eos\":2},\"addEosToken\":true"), "a", "0 1 2"},
    {"special tokens by their roles where there are no types", BPE(BOS), "a<s>b", "0 1 0 2"},
    {"types win over roles", BPE(BOS ",\"tokenTypes\":[1,1,1,1]"), "<s>", "0"},
    {"flags of null are defaults", BPE(BOS ",\"addBosToken\":null,\"tokenTypes\":null"), "b",
     "0 2"},
    {"Unigram takes the best sum", UNIGRAM(BOS ",\"addSpacePrefix\":false"), "abba", "0 3 2 1"},
    {"BPE without merges goes by scores",
     "{\"type\":\"bpe\"," VOCAB ",\"merges\":null,\"scores\":[0,-2,-2,-9]," BOS
     ",\"addSpacePrefix\":false}",
     "abb", "0 3 2"},
    {"a blank in front by default",
     "{\"type\":\"bpe\",\"vocab\":{\"" MARK "\":0,\"a\":1,\"" MARK
     "a\":2},\"vocabSize\":3,\"scores\":[-1,-1,-1],\"addBosToken\":false}",
     "a a", "2 2"},
    {"a blank in front of Unigram's text",
     "{\"type\":\"unigram\",\"vocab\":{\"" MARK "\":0,\"a\":1,\"" MARK
     "a\":2},\"vocabSize\":3,\"scores\":[-1,-1,-1],\"addBosToken\":false}",
     "aa a", "2 1 2"},
    {"a blank that Unigram's text begins with",
     "{\"type\":\"unigram\",\"vocab\":{\"" MARK "\":0,\"a\":1,\"" MARK
     "a\":2},\"vocabSize\":3,\"scores\":[-1,-1,-1],\"addBosToken\":false}",
     " a  a", "2 0 2"},
    {"pieces of Unigram that span words",
     "{\"type\":\"unigram\",\"vocab\":{\"" MARK "\":0,\"a\":1,\"a" MARK
     "a\":2},\"vocabSize\":3,\"scores\":[-1,-1,-1],\"addBosToken\":false}",
     "a a", "0 2"},
    {"ids without a token",
     "{\"type\":\"bpe\",\"vocab\":{\"a\":5,\"b\":1,\"ab\":3},\"vocabSize\":9,\"merges\":[\"a b\"],"
     "\"addBosToken\":false}",
     "aab", "5 3"},
};

static void small_file_encodes(void **state)
{
    const struct small_row *row = *state;
    struct test_log log;
    struct dgl_tokenizer *tok = NULL;
    struct token_ids ids = {0};
    struct dgl_buf got = {0};
    test_log_init(&log, DGL_LOG_ERROR);
    if (tokenizer_create(&log.log, "t", row->json, strlen(row->json), &tok) != DGL_OK)
        fail_msg("%s", log.text);
    assert_int_equal(tokenizer_encode(NULL, tok, dgl_str_of(row->text),
                                      (struct encode_flags){.add_special = true}, &ids),
                     DGL_OK);
    for (size_t i = 0; i < ids.count; i++)
        dgl_buf_printf(&got, i ? " %d" : "%d", ids.ids[i]);
    assert_string_equal(got.p ? got.p : "", row->want);
    dgl_buf_finish(&got);
    free(ids.ids);
    tokenizer_destroy(&tok);
}

struct bad_row {
    const char *name, *json;
    enum dgl_status status;
    const char *message; /* a part of the one line that is logged */
};
#define TYPED(type, part) "{\"type\":\"" type "\"," part "}"
static const struct bad_row bad_rows[] = {
    {"no type", "{" VOCAB "}", DGL_ERR_FORMAT, "type"},
    {"unknown type", TYPED("wordpiece", VOCAB), DGL_ERR_UNSUPPORTED, "type is \"wordpiece\""},
    {"unknown model", TYPED("bpe", "\"model\":\"rwkv\"," VOCAB ",\"merges\":[\"a b\"]"),
     DGL_ERR_UNSUPPORTED, "model is \"rwkv\""},
    {"Unigram of a byte-level model",
     TYPED("unigram", "\"model\":\"gpt2\"," VOCAB ",\"scores\":[0,0,0,0]"), DGL_ERR_UNSUPPORTED,
     "model is \"gpt2\""},
    {"byte level without merges", TYPED("bpe", "\"model\":\"gpt2\"," VOCAB), DGL_ERR_FORMAT,
     "merges is missing"},
    {"neither merges nor scores", TYPED("bpe", VOCAB ",\"merges\":[],\"scores\":null"),
     DGL_ERR_FORMAT, "scores is missing"},
    {"Unigram without scores", TYPED("unigram", VOCAB), DGL_ERR_FORMAT, "scores is missing"},
    {"no vocabSize", TYPED("bpe", "\"vocab\":{\"a\":0},\"merges\":[\"a b\"]"), DGL_ERR_FORMAT,
     "vocabSize"},
    {"vocabSize of nothing",
     TYPED("bpe", "\"vocab\":{\"a\":0},\"vocabSize\":0,\"merges\":[\"a b\"]"), DGL_ERR_FORMAT,
     "vocabSize"},
    {"vocabSize beyond all ids",
     TYPED("bpe", "\"vocab\":{\"a\":0},\"vocabSize\":99999999,\"merges\":[\"a b\"]"),
     DGL_ERR_FORMAT, "99999999"},
    {"vocab is a list", TYPED("bpe", "\"vocab\":[\"a\"],\"vocabSize\":1,\"merges\":[\"a b\"]"),
     DGL_ERR_FORMAT, "vocab"},
    {"an id of vocabSize", TYPED("bpe", "\"vocab\":{\"a\":1},\"vocabSize\":1,\"merges\":[\"a b\"]"),
     DGL_ERR_FORMAT, "from 0 to 0"},
    {"an id below zero", TYPED("bpe", "\"vocab\":{\"a\":-1},\"vocabSize\":1,\"merges\":[\"a b\"]"),
     DGL_ERR_FORMAT, "vocab.a"},
    {"an id with a fraction",
     TYPED("bpe", "\"vocab\":{\"a\":0.5},\"vocabSize\":1,\"merges\":[\"a b\"]"), DGL_ERR_FORMAT,
     "vocab.a"},
    {"an id that is text",
     TYPED("bpe", "\"vocab\":{\"a\":\"0\"},\"vocabSize\":1,\"merges\":[\"a b\"]"), DGL_ERR_FORMAT,
     "vocab.a"},
    {"an id twice",
     TYPED("bpe", "\"vocab\":{\"a\":0,\"b\":0},\"vocabSize\":2,\"merges\":[\"a b\"]"),
     DGL_ERR_FORMAT, "already belongs to \"a\""},
    {"a gap in a Unigram vocabulary",
     TYPED("unigram", "\"vocab\":{\"a\":0},\"vocabSize\":2,\"scores\":[0,0]"), DGL_ERR_FORMAT,
     "no token of id 1"},
    {"too few scores", TYPED("unigram", VOCAB ",\"scores\":[0,0]"), DGL_ERR_FORMAT,
     "scores has 2 elements, but vocabSize is 4"},
    {"a score that is text", TYPED("unigram", VOCAB ",\"scores\":[0,\"1\",0,0]"), DGL_ERR_FORMAT,
     "scores[1]"},
    {"too many types", BPE(BOS ",\"tokenTypes\":[1,1,1,1,1]"), DGL_ERR_FORMAT,
     "tokenTypes has 5 elements, but vocabSize is 4"},
    {"an unknown type of tokens", BPE(BOS ",\"tokenTypes\":[1,1,7,1]"), DGL_ERR_FORMAT,
     "tokenTypes[2]"},
    {"a merge that is a list", TYPED("bpe", VOCAB ",\"merges\":[[\"a\",\"b\"]]," BOS),
     DGL_ERR_FORMAT, "merges[0]"},
    {"a merge of one", TYPED("bpe", VOCAB ",\"merges\":[\"a\"]," BOS), DGL_ERR_FORMAT, "merges[0]"},
    {"a merge into an unknown token", TYPED("bpe", VOCAB ",\"merges\":[\"b a\"]," BOS),
     DGL_ERR_FORMAT, "\"ba\""},
    {"bos is wanted and not there", BPE("\"specialTokens\":{\"bos\":null}"), DGL_ERR_FORMAT,
     "addBosToken is not set to false, but specialTokens has no bos"},
    {"bos is asked for and not there", BPE("\"addBosToken\":true"), DGL_ERR_FORMAT,
     "addBosToken is true, but specialTokens has no bos"},
    {"eos is asked for and not there", BPE(BOS ",\"addEosToken\":true"), DGL_ERR_FORMAT,
     "addEosToken is true, but specialTokens has no eos"},
    {"bos beyond the vocabulary", BPE("\"specialTokens\":{\"bos\":4}"), DGL_ERR_FORMAT, "bos"},
    {"bos is no token",
     TYPED("bpe", "\"vocab\":{\"a\":0,\"b\":1,\"ab\":3},\"vocabSize\":4,\"merges\":[\"a b\"],"
                  "\"specialTokens\":{\"bos\":2}"),
     DGL_ERR_FORMAT, "specialTokens.bos is 2"},
    {"specialTokens is a list", BPE("\"specialTokens\":[0]"), DGL_ERR_FORMAT, "specialTokens"},
    {"a flag that is a number", BPE(BOS ",\"addBosToken\":1"), DGL_ERR_FORMAT, "addBosToken"},
};

static void bad_file_is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct test_log log;
    struct dgl_tokenizer *tok = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status = tokenizer_create(&log.log, "t", row->json, strlen(row->json), &tok);
    if (status != row->status)
        fail_msg("status %d, wanted %d: %s", (int)status, (int)row->status, log.text);
    assert_null(tok);
    assert_contains(log.text, row->message);
}

/* The form does not name the pattern. A warning is needed because a wrong pattern gives wrong ids.
 */
static void byte_level_warns_of_its_pattern(void **state)
{
    static const char json[] = BPE(BOS);
    (void)state;
    struct test_log log;
    struct dgl_tokenizer *tok = NULL;
    test_log_init(&log, DGL_LOG_WARN);
    assert_int_equal(tokenizer_create(&log.log, "t", json, strlen(json), &tok), DGL_OK);
    assert_contains(log.text, "GPT-2's pattern");
    tokenizer_destroy(&tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_is_that_of_gpt2),
        cmocka_unit_test(byte_level_warns_of_its_pattern),
    };
    /* The checked-in files have the same structure as the test data outside of the project. */
    setenv("DOPPLERGL_TEST_DATA", "tests/data", 1);
    int failed = test_run_table("same ids", gives_the_same_ids, synthetic_rows);
    failed += test_run_table("small files", small_file_encodes, small_rows);
    failed += test_run_table("refused files", bad_file_is_refused, bad_rows);
    return failed + cmocka_run_group_tests_name("DOPPLER's form", tests, NULL, NULL);
}
