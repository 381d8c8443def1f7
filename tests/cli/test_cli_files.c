/* convert, inspect and verify: commands that open no device. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

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

/* ---- no device ------------------------------------------------------------------------------- */

/* If the vendor folder does not exist, no device can be opened. */
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
    {"models opens no device", {"models", "tests/models", "--device", "99"}},
    {"version opens no device", {"version", "--device", "99"}},
};

static void deviceless_case(void **state)
{
    const struct file_row *row = *state;
    const char *const env[] = {"__EGL_VENDOR_LIBRARY_DIRS=" TEST_MISSING,
                               "__EGL_VENDOR_LIBRARY_FILENAMES=" TEST_MISSING "/egl.json", NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = row->args, .env = env}, &r);
    assert_code(&r, 0);
    assert_int_equal(r.err_len, 0);
    process_finish(&r);
}

/* Without a driver, EGL has no display: one line reports the missing driver, not an error of a
 * display. */
static void no_driver(void **state)
{
    (void)state;
    const char *const env[] = {"__EGL_VENDOR_LIBRARY_FILENAMES=" TEST_MISSING "/egl.json", NULL};
    static const char *const devices[] = {"any", "0"};
    for (size_t i = 0; i < 2; i++) {
        struct process_result r;
        const char *const args[] = {"generate", "-p", "a", "--device", devices[i], NULL};
        process_run(&(struct process_params){.args = args, .env = env}, &r);
        assert_code(&r, 1);
        assert_one_error(&r, "libEGL knows no driver: no glvnd vendor file in ");
        assert_int_equal(test_occurrences(r.err, "EGL_BAD_"), 0);
        process_finish(&r);
    }
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Additions of the command to the list that tests/loader/model checks: the bundled model, folders,
 * columns. */
static void models_here(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), hub[4200], data[4200], cache[4200];
    snprintf(hub, sizeof(hub), "HF_HUB_CACHE=%s/hub", dir);
    snprintf(data, sizeof(data), "XDG_DATA_HOME=%s/data", dir);
    snprintf(cache, sizeof(cache), "LLAMA_CACHE=%s/llama", dir);
    const char *const env[] = {hub, data, cache, NULL};
    const char *const none[] = {hub, data, cache, "DOPPLERGL_DATA=" TEST_MISSING, NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = (const char *const[]){"models", "--json", NULL},
                                         .env = env},
                &r);
    assert_code(&r, 0);
    const struct dgl_json *list = process_json(&r), *model = dgl_json_at(list, 0);
    assert_int_equal(dgl_json_count(list), 1);
    assert_contains(dgl_json_str(dgl_json_get(model, "name")).p, BUNDLED);
    assert_string_equal(dgl_json_str(dgl_json_get(model, "form")).p, "pack");
    assert_string_equal(dgl_json_str(dgl_json_get(model, "quantization")).p, "q4_k_m");
    assert_true(whole(model, "bytes") > 1000000);
    process_finish(&r);

    char *file = dgl_path_join(dir, "data/dopplergl/models");
    assert_int_equal(dgl_dir_make(NULL, file), DGL_OK);
    test_write_file(file, "mine-Q8_0.gguf", "12", 2);
    char *gone = dgl_path_join(file, "gone-Q8_0.gguf");
    assert_int_equal(symlink("../blobs/gone", gone), 0);
    free(gone);
    process_run(
        &(struct process_params){.args = (const char *const[]){"models", NULL}, .env = none}, &r);
    assert_code(&r, 0);
    assert_contains(r.out, "NAME ");
    assert_contains(r.out, "mine-Q8_0.gguf  gguf        ?         2 B\n"); /* no type */
    assert_null(strstr(r.out, "gone"));
    process_finish(&r);

    run(&r, (const char *const[]){"models", "tests/shapes", NULL});
    assert_code(&r, 0);
    assert_int_equal(r.out_len, 0);
    assert_contains(r.err, "no models here");
    process_finish(&r);
    run(&r, (const char *const[]){"models", TEST_MISSING, NULL});
    assert_code(&r, 1);
    assert_one_error(&r, TEST_MISSING);
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
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
    {"convert to q8_0 in capitals", {"--quantize", "Q8_0"}, "q8_0"},
    {"convert one role in capitals", {"--quantize", "BF16", "--embed", "F16"}, "bf16"},
    {"convert by an alias", {"--quantize", "Q5_K", "--fast"}, "q5_k"},
    {"convert to q2_k", {"--quantize", "Q2_K", "--fast"}, "q2_k"},
    {"convert to iq4_xs", {"--quantize", "iq4_xs", "--fast"}, "iq4_xs"},
    {"convert to q6_k", {"--quantize", "q6_k", "--fast"}, "q6_k"},
    {"convert one role", {"--embed", "q6_k", "--fast"}, "bf16"},
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

/* Without --to, OUT.gguf is one file. --to has priority over the name. */
static void convert_goes_by_the_name_of_its_target(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    char *file = dgl_path_join(p.dir, "x.gguf"), *pack = dgl_path_join(p.dir, "y.gguf");
    char *large = dgl_path_join(p.dir, "X.GGUF");
    run(&r, (const char *const[]){"convert", p.in, large, NULL});
    assert_code(&r, 0);
    assert_false(dgl_path_is_dir(large));
    process_finish(&r);
    free(large);
    run(&r, (const char *const[]){"convert", p.in, file, "--quantize", "F16", NULL});
    assert_code(&r, 0);
    assert_false(dgl_path_is_dir(file));
    process_finish(&r);
    run(&r, (const char *const[]){"models", file, "--json", NULL});
    assert_code(&r, 0);
    const struct dgl_json *model = dgl_json_at(process_json(&r), 0);
    assert_string_equal(dgl_json_str(dgl_json_get(model, "form")).p, "gguf");
    assert_string_equal(dgl_json_str(dgl_json_get(model, "quantization")).p, "f16");
    process_finish(&r);
    char *misnamed = dgl_path_join(p.dir, "x-Q4_K_M.gguf");
    assert_int_equal(symlink(file, misnamed), 0);
    run(&r, (const char *const[]){"models", misnamed, "--json", NULL});
    assert_code(&r, 0);
    model = dgl_json_at(process_json(&r), 0);
    assert_string_equal(dgl_json_str(dgl_json_get(model, "quantization")).p, "f16");
    process_finish(&r);
    free(misnamed);
    tiny_file_replace(p.in, "config.json", "\"bfloat16\"", "\"float32\"");
    run(&r, (const char *const[]){"models", p.in, "--json", NULL});
    assert_code(&r, 0);
    model = dgl_json_at(process_json(&r), 0);
    assert_string_equal(dgl_json_str(dgl_json_get(model, "quantization")).p, "bf16");
    process_finish(&r);
    run(&r, (const char *const[]){"convert", p.in, pack, "--to", "rdrr", NULL});
    assert_code(&r, 0);
    assert_true(dgl_path_is_dir(pack));
    process_finish(&r);
    run(&r, (const char *const[]){"convert", p.in, file, "--force", "--hash", "blake3", NULL});
    assert_code(&r, 2);
    assert_one_error(&r, "hash is for packs");
    process_finish(&r);
    free(file);
    free(pack);
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

/* If the fault is only visible in the model, the exit code is 1. */
/* A tokenizer of a kind that is not implemented: the model is shown and computes ids. */
static void unknown_tokenizers_are_left_out(void **state)
{
    static const char tokenizer[] = "{\"added_tokens\":[],\"model\":{\"type\":\"WordPiece\","
                                    "\"unk_token\":\"a\",\"vocab\":{\"a\":0}}}";
    static const struct {
        const char *args[10];
        int code;
        const char *error;
    } runs[] = {
        {{"inspect"}, 0, NULL},
        {{"generate", "--device", "any", "-n", "2", "--ids", "5", "--json"}, 0, NULL},
        {{"generate", "--device", "any", "-n", "2", "-p", "a"}, 1, "give the prompt as ids"},
        {{"tokenize", "-p", "a"}, 1, "model type \"WordPiece\" is not implemented"},
    };
    char *dir = test_tmpdir();
    (void)state;
    make_tiny_llama(dir, 11, NULL);
    test_write_file(dir, "tokenizer.json", tokenizer, sizeof(tokenizer) - 1);
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        const char *args[13] = {NULL};
        struct process_result r;
        size_t count = 0;
        for (; runs[i].args[count]; count++)
            args[count] = runs[i].args[count];
        args[count++] = "-m";
        args[count] = dir;
        run(&r, args);
        assert_code(&r, runs[i].code);
        assert_contains(r.err, "model type \"WordPiece\" is not implemented");
        if (runs[i].error)
            assert_one_error(&r, runs[i].error);
        process_finish(&r);
    }
    test_tmpdir_remove(dir);
}

static void convert_refuses_text_only_of_a_text_model(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"convert", p.in, p.out, "--text-only", NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "text-only was given, but");
    process_finish(&r);
    assert_int_equal(others(&p), 0);
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

/* Returns the number of lines. Fails if a line is wider than `width`. */
static size_t lines_within(const char *text, size_t width)
{
    size_t lines = 0;
    struct dgl_str rest = dgl_str_of(text), line;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        if (line.len > width)
            fail_msg("%zu columns, at most %zu: %.*s", line.len, width, (int)line.len, line.p);
        lines++;
    }
    return lines;
}

static void inspect_fits_a_screen(void **state)
{
    struct process_result r;
    (void)state;
    run(&r, (const char *const[]){"inspect", "-m", BUNDLED, "-c", "1024", NULL});
    assert_code(&r, 0);
    assert_in_range(lines_within(r.out, 80), 10, 23);
    static const char *const parts[] = {
        "7.3 M parameters, 4.5 MiB in 74 tensors\n",
        "chat       template default (tokenizer_config.json)\n",
        "stop id    1 <|end|> (config.json, generation_config.json)\n",
        "memory     [#",
        " = KV cache 4 MiB (-c 1024, f16), - scratch ",
        " free of this machine's memory\n",
        "model.layers.0-7.mlp.down_proj.weight            q4_k   256 x 768     864 KiB\n",
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_contains(r.out, parts[i]);
    process_finish(&r);
    run(&r, (const char *const[]){"inspect", "-m", BUNDLED, "-c", "1024", "--parallel", "3", NULL});
    assert_code(&r, 0);
    assert_contains(r.out, " = KV cache 12 MiB (3 x -c 1024, f16), - scratch ");
    process_finish(&r);
    run(&r, (const char *const[]){"inspect", "-m", BUNDLED, "-c", "4096", NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "-c 4096: " BUNDLED " has a context of 2048 tokens at most");
    process_finish(&r);
}

/* Experts, norms and biases of every family, and sizes that fit no machine. */
static void inspect_of_every_fixture_is_short(void **state)
{
    char **names = NULL;
    size_t count = 0, looked = 0;
    (void)state;
    const char *dir = test_unpacked("fixtures/visible.tar.xz", "visible");
    if (!dir)
        SKIP("no fixtures in the test data");
    assert_int_equal(dgl_dir_list(NULL, dir, &names, &count), DGL_OK);
    for (size_t i = 0; i < count; i++) {
        struct process_result r;
        char *path = dgl_path_join(dir, names[i]), *config = dgl_path_join(path, "config.json");
        if (dgl_path_exists(config)) {
            run(&r, (const char *const[]){"inspect", path, NULL});
            assert_code(&r, 0);
            assert_in_range(lines_within(r.out, 100), 10, 40);
            assert_null(strstr(r.out, "memory     unknown"));
            process_finish(&r);
            looked++;
        }
        free(path);
        free(config);
    }
    assert_true(looked >= 10);
    dgl_names_free(names, count);
}

#define BUFFER  "model.layers.0.self_attn.rotary_emb.inv_freq"
#define SKIPPED BUFFER ": derived buffer"

/* A checkpoint with a buffer that the model does without. */
static void write_buffer(const char *dir)
{
    struct tiny_llama m = tiny_llama_default();
    char *single = dgl_path_join(dir, "model.safetensors");
    unlink(single); /* it would be read instead of the index */
    free(single);
    m.files = 2;
    tiny_llama_write(dir, &m);
    tiny_safetensors_write(dir, "extra.safetensors",
                           "{\"" BUFFER "\":{\"dtype\":\"F32\",\"shape\":[8],"
                           "\"data_offsets\":[0,32]}}",
                           NULL, 32);
    tiny_file_replace(dir, "model.safetensors.index.json", "\"weight_map\": {",
                      "\"weight_map\": {\"" BUFFER "\": \"extra.safetensors\", ");
}

/* A notice, not a warning: printed by default, but not with -q. The list always contains it. */
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
    static const struct {
        const char *when;
        int code;
    } loads[] = {{"changed", 1}, {"always", 1}, {"never", 0}, {"sometimes", 2}};
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        run(&r,
            (const char *const[]){"generate", "-m", p.out, "--ids", "5,6", "-n", "0", "--device",
                                  "any", "--json", "--hash-weights", loads[i].when, NULL});
        assert_code(&r, loads[i].code);
        if (loads[i].code)
            assert_one_error(&r, loads[i].code == 1 ? "shard_00000.bin" : "--hash-weights");
        process_finish(&r);
    }
    place_finish(&p);
}

static void verify_finds_a_pack_that_cannot_be_opened(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"convert", p.in, p.out, NULL});
    assert_code(&r, 0);
    process_finish(&r);
    tiny_file_replace(p.out, "manifest.json", "model.layers.1.mlp", "model.laxers.1.mlp");
    run(&r, (const char *const[]){"verify", p.out, NULL});
    assert_code(&r, 1);
    assert_one_error(&r, "model.laxers.1.mlp");
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

static void smoke_needs_no_tokenizer(void **state)
{
    struct place p;
    struct process_result r;
    (void)state;
    place_init(&p);
    run(&r, (const char *const[]){"verify", p.in, "--smoke", "--device", "any", NULL});
    assert_code(&r, 0);
    assert_contains(r.out, "smoke: pass: ");
    process_finish(&r);
    place_finish(&p);
}

/* Weights that are all zero. */
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
    assert_one_error(&r, "the smoke test failed: model.");
    assert_one_error(&r, "every value is zero");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convert_tells_sizes_to_people),
        cmocka_unit_test(models_here),
        cmocka_unit_test(no_driver),
        cmocka_unit_test(convert_goes_by_the_name_of_its_target),
        cmocka_unit_test(convert_refuses_an_existing_target),
        cmocka_unit_test(convert_forced_replaces_a_pack),
        cmocka_unit_test(unknown_tokenizers_are_left_out),
        cmocka_unit_test(convert_refuses_text_only_of_a_text_model),
        cmocka_unit_test(convert_failed_leaves_nothing),
        cmocka_unit_test(convert_to_an_unwritable_place_fails),
        cmocka_unit_test(inspect_takes_a_folder),
        cmocka_unit_test(inspect_fits_a_screen),
        cmocka_unit_test(inspect_of_every_fixture_is_short),
        cmocka_unit_test(skipped_tensors_are_told_of_folders_and_packs),
        cmocka_unit_test(verify_finds_a_flipped_bit),
        cmocka_unit_test(verify_finds_a_pack_that_cannot_be_opened),
        cmocka_unit_test(verify_of_a_folder_without_hashes_fails),
        cmocka_unit_test(smoke_of_a_folder_without_hashes_is_silent),
        cmocka_unit_test(smoke_needs_no_tokenizer),
        cmocka_unit_test(smoke_that_fails_says_what_and_what_to_do),
        cmocka_unit_test(smoke_of_the_bundled_model_passes),
    };
    int failures = test_run_table("cli without a device", deviceless_case, deviceless);
    failures += test_run_table("cli convert", convert_case, conversions);
    return failures + cmocka_run_group_tests_name("cli files", tests, NULL, NULL);
}
