/* `logits` and `perplexity` with the bundled model: files, figures, and inputs that do not fit. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/reference.h"
#include "tests/support/tiny_model.h"

#define REFERENCE "tests/models/story-llama-q4_k_m.reference"
#define VOCAB     4096

/* ---- logits ---------------------------------------------------------------------------------- */

/* A folder, and the path of a file to be in it. */
struct place {
    char *dir, *out;
};

static int place_setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->dir = test_tmpdir();
    p->out = dgl_path_join(p->dir, "out.safetensors");
    *state = p;
    return 0;
}

static int place_teardown(void **state)
{
    struct place *p = *state;
    test_tmpdir_remove(p->dir);
    free(p->out);
    free(p);
    return 0;
}

static size_t num_files(const struct place *p)
{
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(dgl_dir_list(NULL, p->dir, &names, &count), DGL_OK);
    dgl_names_free(names, count);
    return count;
}

/* Reads the file with only the JSON parser of this project: length, header, data. free() the
 * floats. */
static float *read_logits(const char *path, size_t *rows)
{
    struct dgl_json_doc *doc = NULL;
    unsigned char prefix[8];
    uint64_t len = 0;
    int64_t shape[2], offset[2];
    char header[512] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(prefix, 1, 8, file), 8);
    for (int i = 7; i >= 0; i--)
        len = len << 8 | prefix[i];
    assert_true(len < sizeof(header) && len % 8 == 0);
    assert_int_equal(fread(header, 1, len, file), len);
    assert_int_equal(dgl_json_parse(NULL, path, header, len, &doc), DGL_OK);
    const struct dgl_json *root = dgl_json_root(doc), *tensor = dgl_json_get(root, "logits");
    assert_int_equal(dgl_json_count(root), 1);
    assert_string_equal(dgl_json_str(dgl_json_get(tensor, "dtype")).p, "F32");
    for (size_t i = 0; i < 2; i++) {
        assert_true(dgl_json_i64(dgl_json_at(dgl_json_get(tensor, "shape"), i), &shape[i]));
        assert_true(dgl_json_i64(dgl_json_at(dgl_json_get(tensor, "data_offsets"), i), &offset[i]));
    }
    assert_int_equal(shape[1], VOCAB);
    assert_int_equal(offset[0], 0);
    assert_int_equal(offset[1], shape[0] * VOCAB * 4);
    *rows = (size_t)shape[0];
    float *logits = malloc(*rows * VOCAB * sizeof(float));
    assert_non_null(logits);
    assert_int_equal(fread(logits, VOCAB * sizeof(float), *rows, file), *rows);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    dgl_json_destroy(&doc);
    return logits;
}

/* "0,755,756" */
static char *list_ids(const struct reference_prompt *prompt)
{
    struct dgl_buf out = {0};
    for (size_t i = 0; i < prompt->num_ids; i++)
        dgl_buf_printf(&out, "%s%d", i ? "," : "", prompt->ids[i]);
    return dgl_buf_take(&out);
}

static double row_nmse(const float *got, const float *wanted)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < VOCAB; i++) {
        double d = (double)got[i] - (double)wanted[i];
        error += d * d;
        power += (double)wanted[i] * (double)wanted[i];
    }
    return error / power;
}

static void logits_of_every_position(void **state)
{
    struct place *p = *state;
    struct reference ref;
    struct process_result r;
    size_t rows;
    reference_load(REFERENCE, &ref);
    char *ids = list_ids(&ref.prompt[0]);
    process_command(&r, "logits", "--device", "any", "--ids", ids, "--all", "-o", p->out, NULL);
    assert_code(&r, 0);
    assert_int_equal(r.out_len, 0);
    float *logits = read_logits(p->out, &rows);
    assert_int_equal(rows, ref.prompt[0].num_ids);
    for (size_t i = 0; i < rows; i++)
        assert_at_most(row_nmse(logits + i * VOCAB, ref.prompt[0].logits + i * VOCAB), 1e-6);
    free(logits);
    free(ids);
    process_finish(&r);
    reference_finish(&ref);
}

static void logits_of_the_last_position(void **state)
{
    struct place *p = *state;
    struct reference ref;
    struct process_result r;
    size_t rows;
    reference_load(REFERENCE, &ref);
    char *ids = list_ids(&ref.prompt[1]);
    process_command(&r, "logits", "--device", "any", "--ids", ids, "-o", p->out, "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    int64_t told = 0;
    assert_string_equal(dgl_json_str(dgl_json_get(root, "out")).p, p->out);
    assert_true(dgl_json_i64(dgl_json_get(root, "rows"), &told) && told == 1);
    assert_true(dgl_json_i64(dgl_json_get(root, "vocab"), &told) && told == VOCAB);
    float *logits = read_logits(p->out, &rows);
    const float *wanted = ref.prompt[1].logits + (ref.prompt[1].num_ids - 1) * VOCAB;
    assert_int_equal(rows, 1);
    assert_at_most(row_nmse(logits, wanted), 1e-6);
    free(logits);
    free(ids);
    process_finish(&r);
    reference_finish(&ref);
}

/* Commands with ids as input and numbers as output work without a tokenizer. */
static void logits_need_no_tokenizer(void **state)
{
    struct place *p = *state;
    char *model = dgl_path_join(p->dir, "tiny");
    struct process_result r;
    assert_int_equal(dgl_dir_make(NULL, model), DGL_OK);
    make_tiny_llama(model, 3, NULL);
    process_command(&r, "logits", "--device", "any", "-m", model, "--ids", "1,2,3", "-o", p->out,
                    NULL);
    assert_code(&r, 0);
    assert_true(dgl_path_exists(p->out));
    process_finish(&r);
    process_command(&r, "generate", "--device", "any", "-m", model, "--ids", "1,2,3", "-n", "4",
                    "--json", NULL);
    assert_code(&r, 0);
    assert_true(dgl_json_count(dgl_json_get(process_json(&r), "tokens")) > 0);
    process_finish(&r);
    process_command(&r, "generate", "--device", "any", "-m", model, "-p", "text", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "no tokenizer");
    process_finish(&r);
    free(model);
}

static void logits_replace_a_file_whole(void **state)
{
    struct place *p = *state;
    struct process_result r;
    size_t rows;
    test_write_file(p->dir, "out.safetensors", "old", 3);
    process_command(&r, "logits", "--device", "any", "--ids", "0,76", "-o", p->out, NULL);
    assert_code(&r, 0);
    free(read_logits(p->out, &rows));
    assert_int_equal(num_files(p), 1);
    process_finish(&r);
}

struct refusal {
    const char *name;
    const char *ids, *out; /* NULL out = in the folder */
    const char *flags[2];
    const char *error;
};

static const struct refusal refusals[] = {
    {"id beyond the vocabulary", "1,4096", NULL, {NULL}, "token 1 of the prompt is 4096"},
    {"negative id", "-7", NULL, {NULL}, "token 0 of the prompt is -7"},
    {"more ids than the context", "1,2,3,4,5", NULL, {"-c", "4"}, "5 tokens"},
    {"folder that is not there", "1", TEST_MISSING "/x.safetensors", {NULL}, TEST_MISSING},
    {"a folder as the file", "1", "tests", {NULL}, "not a regular file"},
    {"a device as the file", "1", "/dev/null", {NULL}, "not a regular file"},
    {"the full device", "1", "/dev/full", {NULL}, "not a regular file"},
};

/* Refused, and no file is left. */
static void refusal_case(void **state)
{
    const struct refusal *row = *state;
    void *held;
    struct process_result r;
    place_setup(&held);
    struct place *p = held;
    process_command(&r, "logits", "--device", "any", "--ids", row->ids, "-o",
                    row->out ? row->out : p->out, row->flags[0], row->flags[1], NULL);
    assert_code(&r, 1);
    assert_one_error(&r, row->error);
    assert_int_equal(num_files(p), 0);
    process_finish(&r);
    place_teardown(&held);
}

static void devices_survive_a_refusal(void **state)
{
    struct stat info;
    (void)state;
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(stat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* ---- perplexity ------------------------------------------------------------------------------ */

static double number(const struct dgl_json *root, const char *key)
{
    assert_true(dgl_json_is(dgl_json_get(root, key), DGL_JSON_NUMBER));
    return dgl_json_f64(dgl_json_get(root, key));
}

static void perplexity_is_the_references(void **state)
{
    struct dgl_json_doc *doc = NULL;
    struct process_result r;
    (void)state;
    assert_int_equal(dgl_json_load(NULL, REFERENCE "/reference.json", 1 << 20, &doc), DGL_OK);
    const struct dgl_json *wanted = dgl_json_get(dgl_json_root(doc), "eval");
    process_command(&r, "perplexity", "--device", "any", "--texts", REFERENCE "/texts.json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_int_equal(dgl_json_count(root), 4);
    assert_true(number(root, "tokens") == number(wanted, "tokens"));
    assert_near(number(root, "nll"), number(wanted, "nll"), 0.05);
    assert_near(number(root, "ppl"), number(wanted, "ppl"), 0.001 * number(wanted, "ppl"));
    assert_near(number(root, "ppl"), exp(number(root, "nll") / number(root, "tokens")), 1e-9);
    dgl_json_destroy(&doc);
    process_finish(&r);
}

struct texts_row {
    const char *name;
    const char *json;
    const char *flags[2];
    const char *error; /* NULL = `tokens` of them are counted */
    int tokens;
};

static const struct texts_row texts[] = {
    {"BOS counts as the first", "[\"hi\"]", {NULL}, NULL, 2},
    {"several texts", "[\"hi\", \"hi\"]", {NULL}, NULL, 4},
    {"an empty text adds nothing", "[\"\", \"hi\"]", {NULL}, NULL, 2},
    {"special tokens are parsed", "[\"hi<|end|>\"]", {NULL}, NULL, 3},
    {"U+0000 in a text", "[\"a\\u0000b\"]", {NULL}, NULL, 3},
    {"text longer than the context",
     "[\"hi\", \"one two three four five six seven eight nine ten\"]",
     {"-c", "8"},
     "texts.json: text 1 has",
     0},
    {"no texts", "[]", {NULL}, "texts.json: wanted an array", 0},
    {"only empty texts", "[\"\"]", {NULL}, "no text", 0},
    {"an object", "{\"a\":\"b\"}", {NULL}, "wanted an array of strings", 0},
    {"a number among texts", "[\"a\", 5]", {NULL}, "[1]: is a number", 0},
    {"not JSON", "[\"a\"", {NULL}, "texts.json", 0},
    {"two values", "[] []", {NULL}, "texts.json", 0},
    {"empty file", "", {NULL}, "texts.json", 0},
};

static void texts_case(void **state)
{
    const struct texts_row *row = *state;
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "texts.json");
    struct process_result r;
    test_write_file(dir, "texts.json", row->json, strlen(row->json));
    process_command(&r, "perplexity", "--device", "any", "--texts", file, row->flags[0],
                    row->flags[1], NULL);
    if (row->error) {
        assert_code(&r, 1);
        assert_one_error(&r, row->error);
        assert_int_equal(r.out_len, 0);
    } else {
        assert_code(&r, 0);
        assert_int_equal((int)number(process_json(&r), "tokens"), row->tokens);
    }
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
}

/* -f: windows, for people and as JSON, from a file and from a pipe. */
static void perplexity_of_a_file(void **state)
{
    const struct place *p = *state;
    static const char text[] = "Once upon a time, there was a little fox. The fox lived near the "
                               "river and wanted to learn to climb.";
    char *file = dgl_path_join(p->dir, "story.txt");
    struct process_result r;
    test_write_file(p->dir, "story.txt", text, strlen(text));
    process_command(&r, "perplexity", "--device", "any", "-c", "16", "-f", file, "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    char line[200];
    assert_true(number(root, "windows") > 1);
    assert_true(number(root, "context") == 16 && number(root, "stride") == 8);
    assert_true(number(root, "ppl_error") > 0);
    snprintf(line, sizeof(line),
             "PPL = %.4f +/- %.4f (%.0f tokens; %.0f windows of 16, stride 8)\n",
             number(root, "ppl"), number(root, "ppl_error"), number(root, "tokens"),
             number(root, "windows"));
    process_finish(&r);
    const char *const args[] = {"perplexity", "--device", "any", "-c", "16", "-f", "-", NULL};
    process_run(&(struct process_params){.args = args, .input = text}, &r);
    assert_code(&r, 0);
    assert_string_equal(r.out, line);
    process_finish(&r);
    test_write_file(p->dir, "story.txt", "caf\xe9", 4);
    process_command(&r, "perplexity", "--device", "any", "-f", file, NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "story.txt is not UTF-8: byte 0xe9 at offset 3");
    process_finish(&r);
    process_command(&r, "perplexity", "-f", file, "--texts", file, NULL);
    assert_code(&r, 2);
    assert_one_error(&r, "two inputs");
    process_finish(&r);
    free(file);
}

static void special_tokens_can_be_plain_text(void **state)
{
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "texts.json");
    struct process_result r;
    (void)state;
    test_write_file(dir, "texts.json", "[\"hi<|end|>\"]", 13);
    process_command(&r, "perplexity", "--device", "any", "--texts", file, "--no-parse-special",
                    NULL);
    assert_code(&r, 0);
    assert_true(number(process_json(&r), "tokens") > 3);
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
}

/* The last values of the weights' file become NaN. */
static void spoil_weights(const char *dir)
{
    static const unsigned char nan[128] = {[0 ... 127] = 0xff};
    size_t len = 0;
    char *bytes = tiny_file_read(dir, "model.safetensors", &len);
    assert_true(len > sizeof(nan));
    memcpy(bytes + len - sizeof(nan), nan, sizeof(nan));
    test_write_file(dir, "model.safetensors", bytes, len);
    free(bytes);
}

static void weights_that_are_not_numbers(void **state)
{
    const struct place *p = *state;
    struct tiny_llama m = tiny_llama_default();
    struct process_result r;
    size_t len = 0;
    char *tokenizer = tiny_file_read("tests/models/story-llama-q4_k_m", "tokenizer.json", &len);
    char *file = dgl_path_join(p->dir, "texts.json");
    static const char json[] = "[\"\", \"Once upon a time\"]";
    m.vocab = VOCAB;
    tiny_llama_write(p->dir, &m);
    test_write_file(p->dir, "tokenizer.json", tokenizer, len);
    test_write_file(p->dir, "texts.json", json, strlen(json));
    process_command(&r, "perplexity", "--device", "any", "-m", p->dir, "--texts", file, NULL);
    assert_code(&r, 0);
    process_finish(&r);
    spoil_weights(p->dir);
    process_command(&r, "perplexity", "--device", "any", "-m", p->dir, "--texts", file, NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "texts.json: text 1: token ");
    assert_one_error(&r, " at position 1 costs ");
    assert_one_error(&r, "weights may hold NaN or infinity");
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
    process_command(&r, "generate", "--device", "any", "-m", p->dir, "-p", "Once", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "weights may hold NaN or infinity");
    process_finish(&r);
    free(file);
    free(tokenizer);
}

int main(void)
{
#define LOGITS(fn) cmocka_unit_test_setup_teardown(fn, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        LOGITS(logits_of_every_position),
        LOGITS(logits_of_the_last_position),
        LOGITS(logits_need_no_tokenizer),
        LOGITS(logits_replace_a_file_whole),
        cmocka_unit_test(devices_survive_a_refusal),
        cmocka_unit_test_setup_teardown(weights_that_are_not_numbers, place_setup, place_teardown),
        cmocka_unit_test(perplexity_is_the_references),
        LOGITS(perplexity_of_a_file),
        cmocka_unit_test(special_tokens_can_be_plain_text),
    };
    int failures = test_run_table("cli logits refused", refusal_case, refusals);
    failures += test_run_table("cli perplexity texts", texts_case, texts);
    return failures + cmocka_run_group_tests_name("cli score", tests, NULL, NULL);
}
