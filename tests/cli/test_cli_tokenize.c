/* tokenize: lines, texts and ids in, ids and texts out. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define BUNDLED "tests/models/story-llama-q4_k_m"

static void run(struct process_result *r, const char *const *args)
{
    process_run(&(struct process_params){.args = args}, r);
}

struct lines_row {
    const char *name;
    const char *flags[3];
    const char *input;
    size_t input_len; /* 0 = strlen */
    const char *out;  /* blanks do not count */
};

static const struct lines_row lines[] = {
    {"text",
     {"--jsonl"},
     "{\"text\":\"Hello there\"}\n",
     0,
     "{\"ids\":[586,361],\"ids_special\":[0,586,361]}\n"},
    {"empty text", {"--jsonl"}, "{\"text\":\"\"}\n", 0, "{\"ids\":[],\"ids_special\":[0]}\n"},
    {"two lines",
     {"--jsonl"},
     "{\"text\":\"\"}\n{\"text\":\"hi\"}\n",
     0,
     "{\"ids\":[],\"ids_special\":[0]}\n{\"ids\":[76,77],\"ids_special\":[0,76,77]}\n"},
    {"last line without its end",
     {"--jsonl"},
     "{\"text\":\"hi\"}",
     0,
     "{\"ids\":[76,77],\"ids_special\":[0,76,77]}\n"},
    {"empty lines",
     {"--jsonl"},
     "\n\n{\"text\":\"\"}\n\n",
     0,
     "{\"ids\":[],\"ids_special\":[0]}\n"},
    {"no input", {"--jsonl"}, "", 0, ""},
    {"further keys",
     {"--jsonl"},
     "{\"id\":7,\"text\":\"hi\"}\n",
     0,
     "{\"ids\":[76,77],\"ids_special\":[0,76,77]}\n"},
    {"special token in text",
     {"--jsonl"},
     "{\"text\":\"<|end|>\"}\n",
     0,
     "{\"ids\":[1],\"ids_special\":[0,1]}\n"},
    {"ids", {"--decode"}, "{\"ids\":[586,361]}\n", 0, "{\"text\":\"Hello there\"}\n"},
    {"no ids", {"--decode"}, "{\"ids\":[]}\n", 0, "{\"text\":\"\"}\n"},
    {"special ids are kept",
     {"--decode"},
     "{\"ids\":[0,76,77,1]}\n",
     0,
     "{\"text\":\"<|endoftext|>hi<|end|>\"}\n"},
    {"special ids are dropped",
     {"--decode", "--skip-special"},
     "{\"ids\":[0,76,77,1]}\n",
     0,
     "{\"text\":\"hi\"}\n"},
    {"unknown ids are ignored",
     {"--decode", "-q"},
     "{\"ids\":[76,4096,-5,99999999999,77]}\n",
     0,
     "{\"text\":\"hi\"}\n"},
    {"--jsonl with --decode", {"--jsonl", "--decode"}, "{\"ids\":[76]}\n", 0, "{\"text\":\"h\"}\n"},
    {"one text from standard input", {NULL}, "hi", 0, "0,76,77\n"},
    {"one text is empty", {NULL}, "", 0, "0\n"},
    {"one text as JSON", {"--json"}, "hi", 0, "{\"ids\":[76,77],\"ids_special\":[0,76,77]}\n"},
};

/* Blanks after ":" and "," are the writer's business. */
static char *squeeze(const char *json)
{
    struct dgl_buf out = {0};
    for (const char *p = json; *p; p++)
        if (*p != ' ' || p == json || (p[-1] != ':' && p[-1] != ','))
            dgl_buf_putc(&out, *p);
    dgl_buf_append(&out, "", 0);
    return dgl_buf_take(&out);
}

static void lines_case(void **state)
{
    const struct lines_row *row = *state;
    const char *args[8] = {"tokenize", "-m", BUNDLED};
    struct process_result r;
    for (size_t i = 0; i < 3; i++)
        args[3 + i] = row->flags[i];
    process_run(
        &(struct process_params){.args = args, .input = row->input, .input_len = row->input_len},
        &r);
    assert_code(&r, 0);
    assert_int_equal(r.err_len, 0);
    char *out = squeeze(r.out);
    assert_string_equal(out, row->out);
    free(out);
    process_finish(&r);
}

struct bad_line {
    const char *name, *flag, *input, *error;
};

static const struct bad_line bad_lines[] = {
    {"not JSON", "--jsonl", "Hello\n", "line 1"},
    {"not an object", "--jsonl", "[1]\n", "line 1"},
    {"no text", "--jsonl", "{\"txt\":\"a\"}\n", "text"},
    {"text is a number", "--jsonl", "{\"text\":5}\n", "text"},
    {"second line", "--jsonl", "{\"text\":\"a\"}\n{\"text\":\n", "line 2"},
    {"line number counts empty lines", "--jsonl", "\n\n{\n", "line 3"},
    {"two values", "--jsonl", "{\"text\":\"a\"} {}\n", "line 1"},
    {"half a surrogate", "--jsonl", "{\"text\":\"\\ud800\"}\n", "line 1"},
    {"invalid UTF-8", "--jsonl", "{\"text\":\"\xff\"}\n", "line 1"},
    {"invalid UTF-8 of one text", "-q", "a\xff", "byte 0xff at offset 1"},
    {"no ids", "--decode", "{\"text\":\"a\"}\n", "ids"},
    {"ids are a string", "--decode", "{\"ids\":\"1\"}\n", "ids"},
    {"an id is a string", "--decode", "{\"ids\":[1,\"2\"]}\n", "whole number"},
    {"an id is a fraction", "--decode", "{\"ids\":[1.5]}\n", "whole number"},
};

static void bad_line_case(void **state)
{
    const struct bad_line *row = *state;
    const char *const args[] = {"tokenize", row->flag, NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = args, .input = row->input}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, row->error);
    process_finish(&r);
}

struct unknown_row {
    const char *name, *input, *warning;
};

static const struct unknown_row unknown_ids[] = {
    {"too large", "{\"ids\":[76,4096,77]}\n",
     "warning: line 1: id 4096 is no token's, the vocabulary has ids 0 to 4095; 1 left out\n"},
    {"negative", "\n{\"ids\":[76,-5,77]}\n",
     "warning: line 2: id -5 is no token's, the vocabulary has ids 0 to 4095; 1 left out\n"},
    {"several, too large for 32 bits", "{\"ids\":[99999999999,76,77,-1]}\n",
     "warning: line 1: id 99999999999 is no token's, the vocabulary has ids 0 to 4095; 2 left "
     "out\n"},
};

static void unknown_ids_are_told(void **state)
{
    const struct unknown_row *row = *state;
    const char *const args[] = {"tokenize", "--decode", NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = args, .input = row->input}, &r);
    assert_code(&r, 0);
    assert_contains(r.out, "\"hi\"");
    assert_contains(r.err, row->warning);
    process_finish(&r);
}

static void nul_survives_both_ways(void **state)
{
    static const char text[] = "{\"text\":\"a\\u0000b\"}\n";
    struct process_result r, back;
    (void)state;
    const char *const there_args[] = {"tokenize", "--jsonl", NULL};
    process_run(&(struct process_params){.args = there_args, .input = text}, &r);
    assert_code(&r, 0);
    assert_int_equal(dgl_json_count(dgl_json_get(process_json(&r), "ids")), 3);
    const char *const back_args[] = {"tokenize", "--decode", NULL};
    process_run(&(struct process_params){.args = back_args, .input = r.out}, &back);
    assert_code(&back, 0);
    struct dgl_str s = dgl_json_str(dgl_json_get(process_json(&back), "text"));
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.p, "a\0b", 3);
    process_finish(&r);
    process_finish(&back);
}

/* Decoding an encoded text, for texts of all kinds. */
static void decoding_undoes_encoding(void **state)
{
    static const char *const texts[] = {"plain words, 123!",
                                        "caf\xc3\xa9 na\xc3\xafve",
                                        "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
                                        "\xf0\x9f\x98\x80\xf0\x9f\x87\xa9",
                                        "  two  blanks  ",
                                        "tab\tnew\nline\r\n",
                                        "<|user|>hi<|end|>"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct dgl_buf line = {0};
        struct dgl_json_writer w = dgl_json_writer(&line, 0);
        struct process_result r, back;
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "text", texts[i]);
        dgl_jw_end_object(&w);
        const char *const there_args[] = {"tokenize", "--jsonl", NULL};
        process_run(&(struct process_params){.args = there_args, .input = line.p}, &r);
        assert_code(&r, 0);
        const char *const back_args[] = {"tokenize", "--decode", NULL};
        process_run(&(struct process_params){.args = back_args, .input = r.out}, &back);
        assert_string_equal(dgl_json_str(dgl_json_get(process_json(&back), "text")).p, texts[i]);
        dgl_buf_finish(&line);
        process_finish(&r);
        process_finish(&back);
    }
}

static void special_tokens_can_be_plain_text(void **state)
{
    struct process_result r;
    (void)state;
    run(&r,
        (const char *const[]){"tokenize", "-p", "<|end|>", "--no-parse-special", "--json", NULL});
    assert_code(&r, 0);
    assert_true(dgl_json_count(dgl_json_get(process_json(&r), "ids")) > 1);
    process_finish(&r);
}

static void tokenizer_file_alone_is_enough(void **state)
{
    struct process_result r;
    (void)state;
    run(&r, (const char *const[]){"tokenize", "-m", BUNDLED "/tokenizer.json", "-p", "hi", NULL});
    assert_code(&r, 0);
    assert_string_equal(r.out, "0,76,77\n");
    process_finish(&r);
}

/* The tokenizer is sound until a text needs the token that it lacks. */
static void missing_unknown_token_is_told(void **state)
{
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],"
                               "\"unk_token\":\"<unk>\"}}";
    char *dir = test_tmpdir();
    struct process_result r;
    (void)state;
    test_write_file(dir, "tokenizer.json", json, strlen(json));
    run(&r, (const char *const[]){"tokenize", "-m", dir, "-p", "ab", NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "unknown token \"<unk>\" is not in its vocabulary");
    process_finish(&r);
    const char *const jsonl[] = {"tokenize", "-m", dir, "--jsonl", NULL};
    process_run(
        &(struct process_params){.args = jsonl, .input = "{\"text\":\"a\"}\n\n{\"text\":\"b\"}\n"},
        &r);
    assert_code(&r, 1);
    assert_one_error(&r, "line 3: the text has a character without a token");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

static void folder_without_tokenizer_is_refused(void **state)
{
    char *dir = test_tmpdir();
    struct process_result r;
    (void)state;
    make_tiny_llama(dir, 7, NULL);
    run(&r, (const char *const[]){"tokenize", "-m", dir, "-p", "hi", NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "tokenizer");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* The local Hub cache: models--ORG--NAME/refs/main names a folder of snapshots/. */
static void hub_names_are_found_in_the_cache(void **state)
{
    char *dir = test_tmpdir();
    char home[4200];
    struct process_result r;
    static const char script[] =
        "h=$0/hub/models--org--story; mkdir -p $h/refs $h/snapshots && printf abc > $h/refs/main "
        "&& cp -r " BUNDLED " $h/snapshots/abc";
    const char *const sh[] = {"-c", script, dir, NULL};
    (void)state;
    process_run(&(struct process_params){.args = sh, .program = "/bin/sh"}, &r);
    assert_code(&r, 0);
    process_finish(&r);
    snprintf(home, sizeof(home), "HF_HOME=%s", dir);
    const char *const env[] = {home, NULL};
    const char *const args[] = {"tokenize", "-m", "org/story", "-p", "hi", NULL};
    process_run(&(struct process_params){.args = args, .env = env}, &r);
    assert_code(&r, 0);
    assert_string_equal(r.out, "0,76,77\n");
    process_finish(&r);
    const char *const inspect[] = {"inspect", "-m", "org/story", NULL};
    process_run(&(struct process_params){.args = inspect, .env = env}, &r);
    assert_code(&r, 0);
    process_finish(&r);
    const char *const other[] = {"inspect", "-m", "org/other", NULL};
    process_run(&(struct process_params){.args = other, .env = env}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "org/other");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* A pattern that looks ahead at every place needs seconds until its limit ends it. A signal ends it
 * at once. The warning about an id is logged when the tokenizer is loaded. */
static void a_signal_ends_encoding(void **state)
{
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 7, \"content\": \"b\"}], \"pre_tokenizer\": {\"type\": "
        "\"Split\", \"pattern\": {\"Regex\": \"a(?=[^c]*y)\"}, \"behavior\": \"Isolated\"}, "
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}";
    (void)state;
    char *dir = test_tmpdir(), *path = NULL;
    struct dgl_buf input = {0};
    struct process_result r;
    test_write_file(dir, "tokenizer.json", json, sizeof(json) - 1);
    assert_true(asprintf(&path, "%s/tokenizer.json", dir) > 0);
    dgl_buf_puts(&input, "{\"text\": \"");
    for (int i = 0; i < 1 << 20; i++)
        dgl_buf_putc(&input, 'a');
    dgl_buf_puts(&input, "\"}\n");
    const char *const args[] = {"tokenize", "-m", path, "--jsonl", NULL};
    process_run(&(struct process_params){.args = args,
                                         .input = input.p,
                                         .input_len = input.len,
                                         .signal = SIGINT,
                                         .signal_after = 1,
                                         .signal_on_error = true,
                                         .signal_wait_ms = 300},
                &r);
    assert_code(&r, 130);
    assert_no_error(&r);
    assert_contains(r.err, "dopplergl: cancelled\n");
    process_finish(&r);
    dgl_buf_finish(&input);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_ends_encoding),
        cmocka_unit_test(nul_survives_both_ways),
        cmocka_unit_test(decoding_undoes_encoding),
        cmocka_unit_test(special_tokens_can_be_plain_text),
        cmocka_unit_test(tokenizer_file_alone_is_enough),
        cmocka_unit_test(missing_unknown_token_is_told),
        cmocka_unit_test(folder_without_tokenizer_is_refused),
        cmocka_unit_test(hub_names_are_found_in_the_cache),
    };
    int failures = test_run_table("cli tokenize", lines_case, lines);
    failures += test_run_table("cli tokenize bad lines", bad_line_case, bad_lines);
    failures += test_run_table("cli tokenize unknown ids", unknown_ids_are_told, unknown_ids);
    return failures + cmocka_run_group_tests_name("cli tokenize", tests, NULL, NULL);
}
