/* convert, inspect, verify and tokenize: commands that open no device. */
#include "tests/support/process.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"

#define BUNDLED "tests/models/story-llama-q4_k_m"

static void run(struct process_result *r, const char *const *args)
{
    process_run(&(struct process_params){.args = args}, r);
}

static int64_t whole(const struct dgl_json *root, const char *key)
{
    int64_t number;
    if (!dgl_json_i64(dgl_json_get(root, key), &number))
        fail_msg("%s is not a whole number", key);
    return number;
}

/* ---- no device ----------------------------------------------------------------------------------
 */

/* With a vendor folder that does not exist no device can be opened at all. */
struct file_row {
    const char *name;
    const char *args[8];
};

static const struct file_row deviceless[] = {
    {"inspect opens no device", {"inspect", "--device", "99"}},
    {"verify opens no device", {"verify", "--device", "99"}},
    {"tokenize opens no device", {"tokenize", "-p", "a", "--device", "99"}},
    {"kernels list opens no device", {"kernels", "list", "--device", "99"}},
    {"kernels show opens no device", {"kernels", "show", "norm_rms", "--device", "99"}},
    {"version opens no device", {"version", "--device", "99"}},
};

static void deviceless_case(void **state)
{
    const struct file_row *row = *state;
    const char *const env[] = {"__EGL_VENDOR_LIBRARY_DIRS=/nonexistent",
                               "__EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent/egl.json", NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = row->args, .env = env}, &r);
    assert_code(&r, 0);
    assert_int_equal(r.err_len, 0);
    process_finish(&r);
}

/* ---- convert --------------------------------------------------------------------------------- */

/* A folder with a tiny checkpoint in "in"; "out" is free. */
struct place {
    char *dir, *in, *out;
};

static void place_init(struct place *p)
{
    p->dir = test_tmpdir();
    p->in = dgl_path_join(p->dir, "in");
    p->out = dgl_path_join(p->dir, "out");
    assert_int_equal(dgl_dir_make(NULL, p->in), DGL_OK);
    make_tiny_llama(p->in, 7, NULL);
}

static void place_finish(struct place *p)
{
    test_tmpdir_remove(p->dir);
    free(p->in);
    free(p->out);
}

/* Names in the place beside "in". */
static size_t others(const struct place *p)
{
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(dgl_dir_list(NULL, p->dir, &names, &count), DGL_OK);
    dgl_names_free(names, count);
    return count - 1;
}

struct convert_row {
    const char *name;
    const char *flags[4];
    const char *quantization;
};

static const struct convert_row conversions[] = {
    {"convert as stored", {NULL}, "bf16"},
    {"convert to f32", {"--quantize", "f32"}, "f32"},
    {"convert to f16", {"--quantize", "f16"}, "f16"},
    {"convert to bf16", {"--quantize", "bf16"}, "bf16"},
    {"convert to q8_0", {"--quantize", "q8_0"}, "q8_0"},
    {"convert to q6_k", {"--quantize", "q6_k", "--fast"}, "q6_k"},
    {"convert to mxfp4", {"--quantize", "mxfp4", "--embed", "q6_k"}, "mxfp4"},
    {"convert with blake3", {"--hash", "blake3", "-t", "1"}, "bf16"},
    {"convert with small shards", {"--shard-size", "1"}, "bf16"},
};

static void convert_case(void **state)
{
    const struct convert_row *row = *state;
    struct place p;
    struct process_result r;
    place_init(&p);
    const char *args[12] = {"convert", p.in, p.out, "--json"};
    for (size_t i = 0; i < 4; i++)
        args[4 + i] = row->flags[i];
    run(&r, args);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_string_equal(dgl_json_str(dgl_json_get(root, "out")).p, p.out);
    assert_true(whole(root, "tensors") > 10);
    assert_true(whole(root, "bytes_in") > 0);
    assert_true(whole(root, "bytes_out") > 0);
    process_finish(&r);
    run(&r, (const char *const[]){"inspect", p.out, "--json", NULL});
    assert_code(&r, 0);
    assert_string_equal(dgl_json_str(dgl_json_get(process_json(&r), "quantization")).p,
                        row->quantization);
    process_finish(&r);
    run(&r, (const char *const[]){"verify", p.out, NULL});
    assert_code(&r, 0);
    process_finish(&r);
    place_finish(&p);
}

static void convert_tells_sizes_to_people(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"convert", p.in, p.out, NULL});
    assert_code(&r, 0);
    assert_int_equal(r.out_len, 0);
    assert_contains(r.err, "tensors");
    assert_contains(r.err, "KiB");
    process_finish(&r);
    place_finish(&p);
}

static void convert_refuses_an_existing_target(void **state)
{
    struct place p;
    struct process_result r;
    size_t len;
    (void)state;
    place_init(&p);
    assert_int_equal(dgl_dir_make(NULL, p.out), DGL_OK);
    test_write_file(p.out, "mine.txt", "keep", 4);
    run(&r, (const char *const[]){"convert", p.in, p.out, NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "--force");
    char *mine = tiny_file_read(p.out, "mine.txt", &len);
    assert_string_equal(mine, "keep");
    free(mine);
    process_finish(&r);
    place_finish(&p);
}

static void convert_forced_replaces_a_pack(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"convert", p.in, p.out, "--quantize", "f32", NULL});
    assert_code(&r, 0);
    process_finish(&r);
    run(&r, (const char *const[]){"convert", p.in, p.out, "--quantize", "q8_0", "--force", NULL});
    assert_code(&r, 0);
    process_finish(&r);
    run(&r, (const char *const[]){"inspect", p.out, "--json", NULL});
    assert_string_equal(dgl_json_str(dgl_json_get(process_json(&r), "quantization")).p, "q8_0");
    process_finish(&r);
    assert_int_equal(others(&p), 1);
    place_finish(&p);
}

static void convert_failed_leaves_nothing(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    tiny_file_replace(p.in, "config.json", "\"silu\"", "\"gelu_quick\"");
    run(&r, (const char *const[]){"convert", p.in, p.out, NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "gelu_quick");
    assert_int_equal(others(&p), 0);
    process_finish(&r);
    place_finish(&p);
}

static void convert_to_an_unwritable_place_fails(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"convert", p.in, "/proc/nowhere/pack", NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "/proc/nowhere");
    process_finish(&r);
    place_finish(&p);
}

/* ---- inspect and verify ---------------------------------------------------------------------- */

static void inspect_takes_a_folder(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"inspect", p.in, "--json", NULL});
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_int_equal(whole(root, "vocab"), 320);
    assert_int_equal(whole(root, "layers"), 2);
    assert_true(dgl_json_is(dgl_json_get(root, "tokenizer"), DGL_JSON_BOOL));
    assert_false(dgl_json_bool(dgl_json_get(root, "tokenizer")));
    process_finish(&r);
    place_finish(&p);
}

static void inspect_reads_for_people_too(void **state)
{
    struct process_result r;
    (void)state;
    run(&r, (const char *const[]){"inspect", "-m", BUNDLED, NULL});
    assert_code(&r, 0);
    assert_contains(r.out, "7.3 M parameters");
    assert_contains(r.out, "stop id 0 (");
    assert_contains(r.out, "model.embed_tokens.weight");
    process_finish(&r);
}

#define BUFFER  "model.layers.0.self_attn.rotary_emb.inv_freq"
#define SKIPPED BUFFER ": derived buffer"

/* A checkpoint with a buffer that the model does without. */
static void write_buffer(const char *dir)
{
    struct tiny_llama m = tiny_llama_default();
    m.files = 2;
    tiny_llama_write(dir, &m);
    tiny_safetensors_write(dir, "extra.safetensors",
                           "{\"" BUFFER "\":{\"dtype\":\"F32\",\"shape\":[8],"
                           "\"data_offsets\":[0,32]}}",
                           NULL, 32);
    tiny_file_replace(dir, "model.safetensors.index.json", "\"weight_map\": {",
                      "\"weight_map\": {\"" BUFFER "\": \"extra.safetensors\", ");
}

/* A notice, no warning: by default, not with -q; and on the list in any case. */
static void check_skipped(const char *path)
{
    struct process_result r;
    run(&r, (const char *const[]){"inspect", path, NULL});
    assert_code(&r, 0);
    assert_contains(r.out, "skipped: " SKIPPED "\n");
    assert_contains(r.err, "dopplergl: ");
    assert_contains(r.err, ": not needed and left out: " SKIPPED "\n");
    assert_null(strstr(r.err, "warning"));
    process_finish(&r);
    run(&r, (const char *const[]){"inspect", path, "--json", "-q", NULL});
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    const struct dgl_json *list = dgl_json_get(process_json(&r), "skipped");
    assert_int_equal(dgl_json_count(list), 1);
    assert_string_equal(dgl_json_str(dgl_json_at(list, 0)).p, SKIPPED);
    process_finish(&r);
}

static void skipped_tensors_are_told_of_folders_and_packs(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    write_buffer(p.in);
    check_skipped(p.in);
    run(&r, (const char *const[]){"convert", p.in, p.out, NULL});
    assert_code(&r, 0);
    process_finish(&r);
    check_skipped(p.out);
    char *again = dgl_path_join(p.dir, "again");
    run(&r, (const char *const[]){"convert", p.out, again, "--quantize", "q8_0", "--fast", NULL});
    assert_code(&r, 0);
    process_finish(&r);
    check_skipped(again);
    free(again);
    place_finish(&p);
}

static void verify_finds_a_flipped_bit(void **state)
{
    struct place p;
    struct process_result r;
    size_t len;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"convert", p.in, p.out, NULL});
    assert_code(&r, 0);
    process_finish(&r);
    char *shard = tiny_file_read(p.out, "shard_00000.bin", &len);
    shard[len / 2] ^= 1;
    test_write_file(p.out, "shard_00000.bin", shard, len);
    free(shard);
    run(&r, (const char *const[]){"verify", p.out, NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "shard_00000.bin");
    process_finish(&r);
    place_finish(&p);
}

static void verify_of_a_folder_without_hashes_fails(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"verify", p.in, NULL});
    assert_code(&r, 1);
    assert_one_error(&r, p.in);
    process_finish(&r);
    place_finish(&p);
}

/* The smoke test needs a tokenizer: the bundled one, beside weights without hashes. */
static void smoke_of_a_folder_without_hashes_is_silent(void **state)
{
    const char *model = test_unpacked("models/story-llama.tar.xz", "story-llama");
    struct process_result r;
    (void)state;
    if (!model)
        SKIP("no story-llama in the test data");
    run(&r, (const char *const[]){"verify", model, "--smoke", "--device", "any", NULL});
    assert_code(&r, 0);
    assert_no_error(&r);
    assert_contains(r.out, "carries no hashes");
    assert_contains(r.out, "smoke: pass");
    process_finish(&r);
}

static void smoke_without_a_tokenizer_fails(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"verify", p.in, "--smoke", "--device", "any", NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "tokenizer");
    process_finish(&r);
    place_finish(&p);
}

/* Weights that are all zero: every answer is the same token. */
static void smoke_that_fails_says_what_and_what_to_do(void **state)
{
    struct process_result r;
    struct tiny_llama m = tiny_llama_default();
    uint64_t header = 0;
    size_t len;
    (void)state;
    run(&r, (const char *const[]){"inspect", BUNDLED, "--json", NULL});
    m.vocab = (int32_t)whole(process_json(&r), "vocab");
    process_finish(&r);
    char *dir = test_tmpdir();
    tiny_llama_write(dir, &m);
    char *bytes = tiny_file_read(dir, "model.safetensors", &len);
    memcpy(&header, bytes, sizeof(header));
    memset(bytes + 8 + header, 0, len - 8 - (size_t)header);
    test_write_file(dir, "model.safetensors", bytes, len);
    free(bytes);
    bytes = tiny_file_read(BUNDLED, "tokenizer.json", &len);
    test_write_file(dir, "tokenizer.json", bytes, len);
    free(bytes);
    run(&r, (const char *const[]){"verify", dir, "--smoke", "--device", "any", NULL});
    assert_code(&r, 1);
    assert_contains(r.out, "smoke: FAIL: The color of the sky is");
    assert_one_error(&r, "\"The color of the sky is\" is answered with \"");
    assert_one_error(&r, "fetch or convert them again");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

static void smoke_of_the_bundled_model_passes(void **state)
{
    struct process_result r;
    (void)state;
    run(&r, (const char *const[]){"verify", "--smoke", "--device", "any", NULL});
    assert_code(&r, 0);
    assert_contains(r.out, "every hash is right");
    assert_contains(r.out, "smoke: pass: The color of the sky is");
    process_finish(&r);
}

/* ---- tokenize -------------------------------------------------------------------------------- */

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

/* What decoding makes of encoding, for texts of all sorts. */
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
        dgl_jw_key(&w, "text");
        dgl_jw_cstr(&w, texts[i]);
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

static void folder_without_tokenizer_is_refused(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"tokenize", "-m", p.in, "-p", "hi", NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "tokenizer");
    process_finish(&r);
    place_finish(&p);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convert_tells_sizes_to_people),
        cmocka_unit_test(convert_refuses_an_existing_target),
        cmocka_unit_test(convert_forced_replaces_a_pack),
        cmocka_unit_test(convert_failed_leaves_nothing),
        cmocka_unit_test(convert_to_an_unwritable_place_fails),
        cmocka_unit_test(inspect_takes_a_folder),
        cmocka_unit_test(inspect_reads_for_people_too),
        cmocka_unit_test(skipped_tensors_are_told_of_folders_and_packs),
        cmocka_unit_test(verify_finds_a_flipped_bit),
        cmocka_unit_test(verify_of_a_folder_without_hashes_fails),
        cmocka_unit_test(smoke_of_a_folder_without_hashes_is_silent),
        cmocka_unit_test(smoke_without_a_tokenizer_fails),
        cmocka_unit_test(smoke_that_fails_says_what_and_what_to_do),
        cmocka_unit_test(smoke_of_the_bundled_model_passes),
        cmocka_unit_test(nul_survives_both_ways),
        cmocka_unit_test(decoding_undoes_encoding),
        cmocka_unit_test(special_tokens_can_be_plain_text),
        cmocka_unit_test(tokenizer_file_alone_is_enough),
        cmocka_unit_test(folder_without_tokenizer_is_refused),
        cmocka_unit_test(hub_names_are_found_in_the_cache),
    };
    int failures = test_run_table("cli without a device", deviceless_case, deviceless);
    failures += test_run_table("cli convert", convert_case, conversions);
    failures += test_run_table("cli tokenize", lines_case, lines);
    failures += test_run_table("cli tokenize bad lines", bad_line_case, bad_lines);
    failures += test_run_table("cli tokenize unknown ids", unknown_ids_are_told, unknown_ids);
    return failures + cmocka_run_group_tests_name("cli files", tests, NULL, NULL);
}
