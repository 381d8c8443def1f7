/* Tokenizers of converted models: tokens without a row in the embedding, and kinds that are not
 * implemented. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/tokenizer/tokenizer.h"
#include "tests/support/convert_fixture.h"

#define PIECES "\"a\":0,\"<s>\":1,\"b\":2,\"c\":3,\"ab\":4,\"d\":5,\"<x>\":6,\"abc\":7}"
#define BYTE_LEVEL                                                                                 \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
#define ADDED(id, content) "{\"id\":" id ",\"content\":\"" content "\",\"special\":true}"
#define MERGES             "\"merges\":[\"a b\",\"ab c\"]"

/* Ids 0 to 5 have a row. `post` is the post-processor, `unk` the unk_token. */
#define BPE(post, unk)                                                                             \
    "{\"version\":\"1.0\",\"added_tokens\":[" ADDED("1", "<s>") "," ADDED(                         \
        "6", "<x>") "],\"normalizer\":null,\"pre_tokenizer\":" BYTE_LEVEL                          \
                    ",\"post_processor\":" post ",\"decoder\":" BYTE_LEVEL                         \
                    ",\"model\":{\"type\":\"BPE\",\"unk_token\":" unk ",\"vocab\":{" PIECES        \
                    "," MERGES "}}"
#define PIECE(id) "{\"SpecialToken\":{\"id\":\"" id "\",\"type_id\":0}}"
#define TEXT      "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define ENTRY(name, id, text)                                                                      \
    "\"" name "\":{\"id\":\"" name "\",\"ids\":[" id "],\"tokens\":[\"" text "\"]}"
#define AROUND                                                                                     \
    "{\"type\":\"TemplateProcessing\",\"single\":[" PIECE("<s>") "," TEXT "," PIECE(               \
        "end") "],\"pair\":[],\"special_tokens\":{" ENTRY("<s>", "1", "<s>") "," ENTRY("end", "6", \
                                                                                       "<x>") "}}"
#define NAMES "{\"bos_token\":\"<s>\",\"pad_token\":\"<x>\",\"extra_special_tokens\":[\"<x>\"]}"

#define DOPPLER(rest)                                                                              \
    "{\"type\":\"bpe\",\"model\":\"gpt2\",\"vocab\":{" PIECES ",\"vocabSize\":8,\"tokenTypes\":"   \
    "[1,3,1,1,1,1,3,1]," MERGES ",\"specialTokens\":{" rest "}"
#define SCORED(model, rest)                                                                        \
    "{\"type\":\"unigram\",\"model\":\"" model                                                     \
    "\",\"vocab\":{\"<unk>\":0,\"<s>\":1,\"\\u2581\":2,"                                           \
    "\"a\":3,\"ab\":4,\"b\":5,\"<x>\":6,\"\\u2581ab\":7},\"vocabSize\":8,\"scores\":"              \
    "[0,0,-5,-6,-1,-7,0,-0.5],\"tokenTypes\":[2,3,1,1,1,1,3,1],\"specialTokens\":{" rest "}}"

struct rowless {
    const char *name, *tokenizer, *config;
    const char *text, *ids; /* of the converted model, with the ids around a text */
    bool to_gguf;
    const char *bos; /* bos_token_id of config.json, or NULL */
};

static const struct rowless rowless[] = {
    {"added token and merge", BPE("null", "null"), NAMES, "abcd", "4,3,5", true, "1"},
    {"post-processor", BPE(AROUND, "null"), NAMES, "abcd", "1,4,3,5", true, "1"},
    {"bos_token_id", BPE(AROUND, "null"), NAMES, "abcd", "1,4,3,5", true, "6"},
    {"sequence of post-processors",
     BPE("{\"type\":\"Sequence\",\"processors\":[" BYTE_LEVEL "," AROUND "]}", "null"), "{}",
     "abcd", "1,4,3,5", true, "1"},
    {"unk_token", BPE("null", "\"<x>\""), "{}", "abcd", "4,3,5", true, "1"},
    {"unk_id",
     "{\"added_tokens\":[],\"model\":{\"type\":\"Unigram\",\"unk_id\":6,\"vocab\":[[\"a\",-1],"
     "[\"b\",-2],[\"ab\",-1.5],[\"c\",-3],[\"d\",-3],[\"e\",-3],[\"<x>\",0],[\"abc\",-1]]}}",
     "{}", "abcd", "2,3,4", false, NULL},
    {"DOPPLER: beginning", DOPPLER("\"bos\":6,\"eos\":1}"), "{}", "abcd", "4,3,5", true, "1"},
    {"DOPPLER: end", DOPPLER("\"bos\":1,\"eos\":6},\"addBosToken\":true,\"addEosToken\":true"),
     "{}", "abcd", "1,4,3,5", true, "1"},
    {"DOPPLER: SentencePiece", SCORED("llama", "\"unk\":0,\"bos\":1,\"pad\":6"), "{}", "ab",
     "1,2,4", true, "1"},
    {"DOPPLER: Unigram", SCORED("t5", "\"unk\":0,\"bos\":1,\"pad\":6"), "{}", "ab", "1,2,4", false,
     NULL},
};

static void check_output(struct fixture *f, const char *path, const struct rowless *row)
{
    struct token_ids ids = {0};
    struct dgl_buf got = {0};
    struct dgl_model_file *file = open_model(path);
    if (model_file_load_tokenizer(&f->log.log, file, true) != DGL_OK)
        fail_msg("%s", f->log.text);
    assert_true(tokenizer_max_id(file->tok) < file->desc.vocab);
    assert_int_equal(tokenizer_encode(&f->log.log, file->tok, dgl_str_of(row->text),
                                      (struct encode_flags){.add_special = true}, &ids),
                     DGL_OK);
    for (size_t i = 0; i < ids.count; i++)
        dgl_buf_printf(&got, "%s%d", i ? "," : "", (int)ids.ids[i]);
    assert_string_equal(got.p ? got.p : "", row->ids);
    dgl_buf_finish(&got);
    free(ids.ids);
    model_file_close(&file);
}

static const char old_tokens[] = "{\"<s>\": 1, \"<y>\": 8}";

static void fixture_write_tokenizer(struct fixture *f, const char *tokenizer, const char *config)
{
    f->tiny.vocab = 6;
    fixture_write(f);
    test_write_file(f->in, "tokenizer.json", tokenizer, strlen(tokenizer));
    test_write_file(f->in, "tokenizer_config.json", config, strlen(config));
    test_write_file(f->in, "added_tokens.json", old_tokens, sizeof(old_tokens) - 1);
}

static void tokens_without_a_row_are_left_out(void **state)
{
    const struct rowless *row = *state;
    void *holder = NULL;
    fixture_setup(&holder);
    struct fixture *f = holder;
    char *gguf = dgl_path_join(f->dir, "out.gguf"), bos[64];
    snprintf(bos, sizeof(bos), "\"bos_token_id\": %s", row->bos ? row->bos : "0");
    fixture_write_tokenizer(f, row->tokenizer, row->config);
    if (row->bos)
        tiny_file_replace(f->in, "config.json", "\"bos_token_id\": 0", bos);
    f->log.log.level = DGL_LOG_NOTICE;
    assert_converts(f, f->in, f->out, NULL);
    assert_contains(f->log.text, "at or above vocab_size 6 are left out of the output: <x>, ");
    check_output(f, f->out, row);
    char *text = read_text(f->out, "tokenizer.json");
    assert_null(strstr(text, "<x>"));
    free(text);
    text = read_text(f->out, "added_tokens.json");
    assert_null(strstr(text, "<y>"));
    free(text);
    if (row->to_gguf) {
        assert_converts(f, f->in, gguf, NULL);
        check_output(f, gguf, row);
    }
    free(gguf);
    fixture_teardown(&holder);
}

/* ---- what a GGUF file cannot say ---- */

#define POST(single, special)                                                                      \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single                                         \
    "],\"pair\":[],\"special_tokens\":{" special "}}"
#define END ENTRY("end", "4", "ab")

struct wrapped {
    const char *name, *post, *config;
    const char *ids; /* of "cd" in the GGUF file; NULL: it is refused */
    const char *said;
};

static const struct wrapped wrapped[] = {
    {"bos_token", POST(PIECE("<s>") "," TEXT, ENTRY("<s>", "1", "<s>")), NAMES, "1,3,5", NULL},
    {"another token before", POST(PIECE("end") "," TEXT, END), NAMES, "4,3,5",
     "bos_token is <s>, but texts begin with ab, which is bos_token_id of the GGUF file"},
    {"another token after", POST(TEXT "," PIECE("end"), END),
     "{\"bos_token\":\"<s>\",\"eos_token\":\"<s>\"}", "3,5,4",
     "eos_token is <s>, but texts end with ab, which is eos_token_id of the GGUF file"},
    {"several tokens before",
     POST(PIECE("<s>") "," PIECE("end") "," TEXT, END "," ENTRY("<s>", "1", "<s>")), NAMES, NULL,
     "a post-processor with several tokens before a text cannot be said"},
    {"an entry of several ids", POST(TEXT "," PIECE("two"), ENTRY("two", "4,5", "ab")), NAMES, NULL,
     "a post-processor with several tokens after a text cannot be said"},
    {"a token that absorbs blanks", "null",
     "{\"added_tokens_decoder\":{\"1\":{\"content\":\"<s>\",\"rstrip\":true}}}", "3,5",
     "a GGUF file cannot say that tokens absorb blanks or are whole words (lstrip, rstrip, "
     "single_word); texts with these have other ids: <s>"},
};

static void gguf_files_wrap_texts_alike(void **state)
{
    const struct wrapped *row = *state;
    void *holder = NULL;
    fixture_setup(&holder);
    struct fixture *f = holder;
    struct dgl_buf tokenizer = {0};
    char *gguf = dgl_path_join(f->dir, "out.gguf");
    dgl_buf_printf(&tokenizer, BPE("%s", "null"), row->post);
    fixture_write_tokenizer(f, tokenizer.p, row->config);
    tiny_file_replace(f->in, "config.json", "\"bos_token_id\": 0", "\"bos_token_id\": 1");
    const enum dgl_status status = convert(f, .out = gguf);
    assert_int_equal(status, row->ids ? DGL_OK : DGL_ERR_UNSUPPORTED);
    if (row->said)
        assert_contains(f->log.text, row->said);
    else
        assert_int_equal(f->log.len, 0);
    if (row->ids)
        check_output(f, gguf, &(struct rowless){.text = "cd", .ids = row->ids});
    dgl_buf_finish(&tokenizer);
    free(gguf);
    fixture_teardown(&holder);
}

/* ---- kinds that are not implemented ---- */

struct unknown {
    const char *name, *tokenizer, *why;
};

static const struct unknown unknown[] = {
    {"WordPiece",
     "{\"added_tokens\":[],\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":"
     "{\"a\":0}}}",
     "WordPiece"},
    {"a normalizer",
     "{\"added_tokens\":[],\"normalizer\":{\"type\":\"Odd\"},\"model\":{\"type\":\"BPE\","
     "\"vocab\":{\"a\":0},\"merges\":[]}}",
     "Odd"},
    {"DOPPLER: model", "{\"type\":\"bpe\",\"model\":\"bert\",\"vocab\":{\"a\":0},\"vocabSize\":1}",
     "bert"},
};

static void unknown_kinds_are_copied(void **state)
{
    const struct unknown *row = *state;
    void *holder = NULL;
    fixture_setup(&holder);
    struct fixture *f = holder;
    char *gguf = dgl_path_join(f->dir, "out.gguf");
    fixture_write_tokenizer(f, row->tokenizer, "{}");
    f->log.log.level = DGL_LOG_WARN;
    assert_converts(f, f->in, f->out, NULL);
    assert_int_equal(f->log.errors, 0);
    assert_contains(f->log.text, row->why);
    assert_contains(f->log.text, "the tokenizer is copied as it is");
    assert_same_file(f->in, f->out, "tokenizer.json");
    assert_same_file(f->in, f->out, "added_tokens.json");
    assert_same_values(f->out, f->in);
    struct dgl_model_file *file = open_model(f->out);
    test_log_clear(&f->log);
    assert_int_equal(model_file_load_tokenizer(&f->log.log, file, false), DGL_OK);
    assert_contains(f->log.text, row->why);
    assert_contains(f->log.text, "the model is used without its tokenizer, so prompts are ids");
    assert_null(file->tok);
    assert_false(file->info.has_tokenizer);
    model_file_close(&file);
    test_log_clear(&f->log);
    assert_int_equal(convert(f, .out = gguf), DGL_ERR_UNSUPPORTED);
    assert_int_equal(f->log.errors, 1);
    assert_contains(f->log.text, row->why);
    free(gguf);
    fixture_teardown(&holder);
}

int main(void)
{
    int failed = test_run_table("without a row", tokens_without_a_row_are_left_out, rowless);
    failed += test_run_table("around texts", gguf_files_wrap_texts_alike, wrapped);
    return failed + test_run_table("unknown kinds", unknown_kinds_are_copied, unknown);
}
