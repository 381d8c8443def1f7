/* Files of the wild that other software reads: one command for each, with its output. The models
 * are in the shared test data, with a README each that says how the expected result is known. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"

#define MODELS      "cases/models.tar.xz"
#define GENERATE(n) "generate", "--device", "any", "--temp", "0", "-n", n, "-p", "x\n", "-m"
#define MODEL       "@model@" /* replaced by the path of the model */
#define HELLO       "@hello@" /* replaced by the path of a conversation */

struct case_row {
    const char *name;
    const char *model; /* in the archive */
    const char *args[16];
    const char *out; /* all of standard output; NULL = any */
    const char *has; /* part of standard output, or NULL */
    const char *err; /* part of standard error; NULL = it has no warning */
};

#define EOS   "hf-eos-only-in-tokenizer-config/model"
#define TURNS "gguf-turn-end-not-control/"

static const struct case_row rows[] = {
    {"turn end of type control", TURNS "type3.gguf", {GENERATE("8"), MODEL}, "Hi you", NULL, NULL},
    {"turn end of type user-defined",
     TURNS "type4.gguf",
     {GENERATE("8"), MODEL},
     "Hi you",
     NULL,
     "warning: "},
    {"turn end of type normal",
     TURNS "type1.gguf",
     {GENERATE("8"), MODEL},
     "Hi you",
     NULL,
     "<end_of_turn> (id 260, type 1): read as control tokens, by their names"},
    {"origin of a turn end",
     TURNS "type1.gguf",
     {"inspect", "-m", MODEL},
     NULL,
     "stop id    260 <end_of_turn> (name of a turn end)",
     "warning: "},
    {"turn end of type normal in a text",
     TURNS "type1.gguf",
     {"tokenize", "-m", MODEL, "-p", "<end_of_turn>"},
     "260\n",
     NULL,
     "warning: "},
    {"index beside model.safetensors",
     "stale-index-beside-single-file/model",
     {GENERATE("2"), MODEL},
     "Hi you",
     NULL,
     NULL},
    {"index beside model.safetensors is named",
     "stale-index-beside-single-file/model",
     {"inspect", "-m", MODEL},
     NULL,
     "lm_head",
     "model.safetensors.index.json beside it is left out"},
    {"id at vocab_size",
     "tokenizer-id-at-vocab-size/model",
     {GENERATE("2"), MODEL},
     "Hi you",
     NULL,
     "ids without a row there: <image_soft_token> (264)"},
    {"eos_token of tokenizer_config.json",
     EOS,
     {"inspect", "-m", MODEL},
     NULL,
     "stop id    260 <end_of_turn> (tokenizer_config.json)",
     NULL},
    {"eos_token of tokenizer_config.json ends an answer",
     EOS,
     {"generate", "--device", "any", "--temp", "0", "-n", "8", "-p", "x\n", "-m", MODEL},
     "Hi you",
     NULL,
     "| eos |"},
    {"added_tokens_decoder",
     "added-tokens-decoder/model",
     {"tokenize", "-m", MODEL, "-p", "<|user|>Hi<|bot|>"},
     "259,74,107,260\n",
     NULL,
     NULL},
    {"corrected key",
     TURNS "type3.gguf",
     {"inspect", "--override-kv", "llama.context_length=int:64", "-m", MODEL},
     NULL,
     "context 64,",
     "llama.context_length is 64, by override-kv"},
    {"added key",
     TURNS "type3.gguf",
     {"tokenize", "-p", "Hi", "--override-kv", "tokenizer.ggml.add_eos_token=bool:true", "-m",
      MODEL},
     "74,107,1\n",
     NULL,
     "tokenizer.ggml.add_eos_token is true, by override-kv; the file has no such key"},
    {"corrected pre-tokenizer in an answer",
     TURNS "type3.gguf",
     {"generate", "--device", "any", "--temp", "0", "-n", "2", "-p", "x\n", "--override-kv",
      "tokenizer.ggml.pre=str:qwen2", "-m", MODEL},
     "Hi you",
     NULL,
     "tokenizer.ggml.pre is qwen2, by override-kv"},
    {"corrected template",
     TURNS "type3.gguf",
     {"chat", "--device", "any", "--temp", "0", "-n", "2", "--messages", HELLO, "--override-kv",
      "tokenizer.chat_template=str:{{ 'x\n' }}", "-m", MODEL},
     "Hi you",
     NULL,
     "tokenizer.chat_template is "},
};

/* Returns the number of times that `part` is in `text`. */
static size_t occurrences(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

static void a_file_is_read_as_elsewhere(void **state)
{
    const struct case_row *row = *state;
    const char *args[17] = {NULL}, *model = test_unpacked(MODELS, row->model);
    struct process_result r;
    if (!model)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", MODELS);
    char *path = strdup(model);
    char *hello = strdup(test_unpacked(MODELS, "hf-eos-only-in-tokenizer-config/m.json"));
    for (size_t i = 0; i < 16 && row->args[i]; i++)
        args[i] = strcmp(row->args[i], MODEL) == 0   ? path
                  : strcmp(row->args[i], HELLO) == 0 ? hello
                                                     : row->args[i];
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, 0);
    if (row->out)
        assert_string_equal(r.out, row->out);
    if (row->has)
        assert_contains(r.out, row->has);
    if (row->err)
        assert_contains(r.err, row->err);
    assert_true(occurrences(r.err, "warning: ") <= (row->err ? 1 : 0));
    assert_true(occurrences(r.err, "by override-kv") <= 1);
    process_finish(&r);
    free(path);
    free(hello);
}

static void run(struct process_result *r, const char *const *args, int code)
{
    process_run(&(struct process_params){.args = args}, r);
    assert_code(r, code);
}

/* A prompt may not contain an id without a row, and no output of a conversion has it. */
static void ids_without_a_row_are_left_out(void **state)
{
    const char *to = *state, *model = test_unpacked(MODELS, "tokenizer-id-at-vocab-size/model");
    struct process_result r;
    char *dir, *out;
    if (!model)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", MODELS);
    dir = test_tmpdir();
    out = dgl_path_join(dir, "out");
    run(&r,
        (const char *[]){"generate", "--device", "any", "-n", "1", "-p", "<image_soft_token>", "-m",
                         model, NULL},
        1);
    assert_one_error(
        &r, "token 0 of the prompt is 264 (<image_soft_token>), the vocabulary has ids 0 to 263");
    process_finish(&r);
    run(&r, (const char *[]){"convert", model, out, "--to", to, NULL}, 0);
    assert_contains(r.err, "left out of the output: <image_soft_token>");
    process_finish(&r);
    run(&r, (const char *[]){GENERATE("2"), out, NULL}, 0);
    assert_string_equal(r.out, "Hi you");
    assert_null(strstr(r.err, "image_soft_token"));
    process_finish(&r);
    run(&r, (const char *[]){"tokenize", "-m", out, "-p", "<image_soft_token>", NULL}, 0);
    assert_null(strstr(r.out, "264"));
    process_finish(&r);
    free(out);
    test_tmpdir_remove(dir);
}

/* A new token of tokenizer_config.json gets an id without a row, as in fine-tunes with [PAD]. */
static void new_tokens_are_left_out(void **state)
{
    static const char *const files[] = {"model.safetensors", "config.json", "tokenizer.json"};
    static const char config[] =
        "{\"eos_token\": \"[PAD]\", \"pad_token\": \"[PAD]\", \"added_tokens_decoder\": {\"265\": "
        "{\"content\": \"[PAD]\", \"special\": true, \"normalized\": false}}}";
    const char *to = *state;
    struct process_result r;
    if (!test_data(MODELS))
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", MODELS);
    char *from = realpath(test_unpacked(MODELS, "tokenizer-id-at-vocab-size/model"), NULL);
    char *dir = test_tmpdir(), *model = dgl_path_join(dir, "model"),
         *out = dgl_path_join(dir, "out");
    assert_int_equal(dgl_dir_make(NULL, model), DGL_OK);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char *old = dgl_path_join(from, files[i]), *new = dgl_path_join(model, files[i]);
        assert_int_equal(symlink(old, new), 0);
        free(old);
        free(new);
    }
    test_write_file(model, "tokenizer_config.json", config, sizeof(config) - 1);
    run(&r, (const char *[]){"inspect", model, NULL}, 0);
    assert_contains(r.err, "without a row there: <image_soft_token> (264), [PAD] (265);");
    assert_contains(r.out, "stop id    1 <eos> (config.json)\nmemory");
    process_finish(&r);
    run(&r, (const char *[]){"convert", model, out, "--to", to, NULL}, 0);
    assert_contains(r.err, "left out of the output: <image_soft_token>, [PAD]");
    process_finish(&r);
    run(&r, (const char *[]){"tokenize", "-m", out, "-p", "[PAD]", NULL}, 0);
    assert_string_equal(r.out, "93,82,67,70,95\n");
    assert_null(strstr(r.err, "PAD"));
    process_finish(&r);
    free(from);
    free(model);
    free(out);
    test_tmpdir_remove(dir);
}

/* Special tokens that only tokenizer_config.json names stay special in the output. */
static void special_tokens_are_converted(void **state)
{
    const char *to = *state, *model = test_unpacked(MODELS, "added-tokens-decoder/model");
    struct process_result r;
    char *dir, *out;
    if (!model)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", MODELS);
    dir = test_tmpdir();
    out = dgl_path_join(dir, "out");
    run(&r, (const char *[]){"convert", model, out, "--to", to, NULL}, 0);
    process_finish(&r);
    run(&r, (const char *[]){"tokenize", "-m", out, "-p", "<|user|>Hi<|bot|>", NULL}, 0);
    assert_string_equal(r.out, "259,74,107,260\n");
    process_finish(&r);
    free(out);
    test_tmpdir_remove(dir);
}

struct bad_override {
    const char *name, *text;
    const char *model; /* in the archive */
    int code;
    const char *said;
};

static const struct bad_override bad_overrides[] = {
    {"no type", "a=1", TURNS "type3.gguf", 2, "--override-kv: \"a=1\": wanted KEY=TYPE:VALUE"},
    {"no key", "=int:1", TURNS "type3.gguf", 2, "wanted KEY=TYPE:VALUE"},
    {"unknown type", "a=u32:1", TURNS "type3.gguf", 2, "has type \"u32\": wanted"},
    {"int that is none", "a=int:x", TURNS "type3.gguf", 2, "the value is no int"},
    {"float that is none", "a=float:", TURNS "type3.gguf", 2, "the value is no float"},
    {"bool that is none", "a=bool:1", TURNS "type3.gguf", 2, "the value is no bool"},
    {"another type than the file's", "llama.block_count=str:one", TURNS "type3.gguf", 1,
     "llama.block_count is u32 in "},
    {"key of a hidden size of 0", "llama.embedding_length=int:0", TURNS "type3.gguf", 1,
     "llama.embedding_length is 0, wanted an integer from 1"},
    {"list of texts", "tokenizer.ggml.tokens=str:a", TURNS "type3.gguf", 1,
     "tokenizer.ggml.tokens is an array of string in "},
    {"alignment", "general.alignment=int:64", TURNS "type3.gguf", 1, "cannot be replaced"},
    {"key of the architecture that nobody reads", "llama.nothing=int:1", TURNS "type3.gguf", 1,
     "key llama.nothing is not known"},
    {"value that does not fit", "llama.block_count=int:0", TURNS "type3.gguf", 1,
     "llama.block_count is 0, wanted an integer from 1"},
    {"folder", "a=int:1", EOS, 1, "override-kv corrects keys of GGUF files"},
};

static void wrong_corrections_are_refused(void **state)
{
    const struct bad_override *row = *state;
    const char *model = test_unpacked(MODELS, row->model);
    struct process_result r;
    if (!model)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", MODELS);
    run(&r, (const char *[]){"inspect", "-m", model, "--override-kv", row->text, NULL}, row->code);
    assert_one_error(&r, row->said);
    process_finish(&r);
}

int main(void)
{
    static char pack[] = "rdrr", gguf[] = "gguf";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(ids_without_a_row_are_left_out, pack),
        cmocka_unit_test_prestate(ids_without_a_row_are_left_out, gguf),
        cmocka_unit_test_prestate(new_tokens_are_left_out, pack),
        cmocka_unit_test_prestate(new_tokens_are_left_out, gguf),
        cmocka_unit_test_prestate(special_tokens_are_converted, pack),
        cmocka_unit_test_prestate(special_tokens_are_converted, gguf),
    };
    int failures = test_run_table("cli cases", a_file_is_read_as_elsewhere, rows);
    failures += test_run_table("wrong corrections", wrong_corrections_are_refused, bad_overrides);
    return failures + cmocka_run_group_tests_name("cli cases converted", tests, NULL, NULL);
}
