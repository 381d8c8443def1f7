/* Names of models: repositories of a Hub cache with quantisation and revision, folders with GGUF
 * files, and the list of all models. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "loader/gguf/gguf_choice.h"
#include "loader/hf/hub_cache.h"
#include "loader/model/model_path.h"
#include "tests/support/gguf_build.h"

/* ---- a cache and folders --------------------------------------------------------------------- */

#define M "hub/models--o--m/"
#define G "hub/models--o--g/"

/* Files under one temporary folder, with their texts. */
static const struct {
    const char *path, *text;
} tree[] = {
    {M "refs/main", "aaaa1111\n"},
    {M "refs/v1.0", "aaaa2222"},
    {M "refs/refs/pr/1", "bbbb3333"},
    {M "refs/gone", "eeee5555"},
    {M "refs/climbs", "../../../../etc"},
    {M "snapshots/aaaa1111/config.json", "{\"torch_dtype\":\"bfloat16\"}"},
    {M "snapshots/aaaa1111/model.safetensors", "12345678"},
    {M "snapshots/aaaa2222/config.json", "{}"},
    {M "snapshots/aaaa2222/model.safetensors", "1"},
    {M "snapshots/bbbb3333/config.json", "{}"},
    {M "snapshots/bbbb3333/model.safetensors", "1"},
    {G "refs/main", "cccc0000"},
    {G "snapshots/cccc0000/config.json", "{}"},
    {G "snapshots/cccc0000/M-Q4_K_M.gguf", "1234"},
    {G "snapshots/cccc0000/M-UD-Q4_K_XL.gguf", "12"},
    {G "snapshots/cccc0000/M-q8_0.gguf", "1"},
    {G "snapshots/cccc0000/M-F16.gguf", "1"},
    {G "snapshots/cccc0000/M-BF16-00001-of-00002.gguf", "123"},
    {G "snapshots/cccc0000/M-BF16-00002-of-00002.gguf", "45"},
    {G "snapshots/cccc0000/mmproj-M-F16.gguf", "1"},
    {G "snapshots/cccc0000/big/M-F32-00001-of-00002.gguf", "1"},
    {G "snapshots/cccc0000/big/M-F32-00002-of-00002.gguf", "1"},
    {"hub/models--o--one/refs/main", "1"},
    {"hub/models--o--one/snapshots/1/only-Q8_0.gguf", "1"},
    {"hub/models--o--one/snapshots/1/mmproj.gguf", "1"},
    {"hub/models--o--dev/snapshots/dddd4444dddd4444/only.gguf", "1"},
    {"hub/models--gpt2/refs/main", "1"},
    {"hub/models--gpt2/snapshots/1/config.json", "{\"dtype\":\"float32\"}"},
    {"hub/models--gpt2/snapshots/1/model.safetensors", "1"},
    {"hub/datasets--o--d/refs/main", "1"},
    {"one/m-q4_0.gguf", "12"},
    {"one/readme.txt", "1"},
    {"two/a.gguf", "1"},
    {"two/b.gguf", "1"},
    {"split/x-00001-of-00003.gguf", "1"},
    {"split/x-00002-of-00003.gguf", "2"},
    {"split/x-00003-of-00003.gguf", "3"},
    {"both/config.json", "{}"},
    {"both/model.safetensors", "1"},
    {"both/m.gguf", "1"},
    {"none/readme.txt", "1"},
    {"pack/manifest.json", "{\"quantization\":\"Q4_K_M\"}"},
    {"pack/shard_00000.bin", "1234567"},
};

static char *root;

static int tree_setup(void **state)
{
    (void)state;
    root = test_tmpdir();
    for (size_t i = 0; i < sizeof(tree) / sizeof(tree[0]); i++) {
        char *path = checked(dgl_path_join(root, tree[i].path)), *slash = strrchr(path, '/');
        *slash = '\0';
        assert_int_equal(dgl_dir_make(NULL, path), DGL_OK);
        test_write_file(path, slash + 1, tree[i].text, strlen(tree[i].text));
        free(path);
    }
    char *hub = checked(dgl_path_join(root, "hub"));
    setenv("HF_HUB_CACHE", hub, 1);
    free(hub);
    return 0;
}

static int tree_teardown(void **state)
{
    (void)state;
    test_tmpdir_remove(root);
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct name_row {
    const char *name;
    const char *arg;   /* "/x" is x in the temporary folder */
    const char *path;  /* found, in that folder; NULL = refused */
    const char *model; /* its short name */
    enum dgl_status status;
    const char *parts[4]; /* of the message */
};

#define IN_M M "snapshots/"
#define IN_G G "snapshots/cccc0000/"

static const struct name_row names[] = {
    {"main", "o/m", IN_M "aaaa1111", "m", DGL_OK, {0}},
    {"main by name", "o/m@main", IN_M "aaaa1111", "m", DGL_OK, {0}},
    {"tag", "o/m@v1.0", IN_M "aaaa2222", "m", DGL_OK, {0}},
    {"pull request", "o/m@refs/pr/1", IN_M "bbbb3333", "m", DGL_OK, {0}},
    {"commit", "o/m@aaaa2222", IN_M "aaaa2222", "m", DGL_OK, {0}},
    {"beginning of a commit", "o/m@bbbb", IN_M "bbbb3333", "m", DGL_OK, {0}},
    {"beginning of two commits",
     "o/m@aaaa",
     NULL,
     NULL,
     DGL_ERR_INVALID_ARG,
     {"2 commits", "begin with aaaa", "aaaa1111, aaaa2222"}},
    {"beginning that is too short", "o/m@bbb", NULL, NULL, DGL_ERR_IO, {"no revision bbb"}},
    {"unknown revision",
     "o/m@v2",
     NULL,
     NULL,
     DGL_ERR_IO,
     {"no revision v2", "main, refs/pr/1, v1.0", "`hf download o/m --revision v2`"}},
    {"branch without its snapshot", "o/m@gone", NULL, NULL, DGL_ERR_IO, {"snapshots/eeee5555"}},
    {"branch that climbs", "o/m@climbs", NULL, NULL, DGL_ERR_FORMAT, {"../../../../etc"}},
    {"revision that climbs", "o/m@../refs/main", NULL, NULL, DGL_ERR_IO, {"no such file"}},
    {"commit without main",
     "o/dev",
     NULL,
     NULL,
     DGL_ERR_IO,
     {"no branch main", "dddd4444dddd", "`hf download o/dev`"}},
    {"only a commit",
     "o/dev@dddd4444",
     "hub/models--o--dev/snapshots/dddd4444dddd4444/only.gguf",
     "only.gguf",
     DGL_OK,
     {0}},
    {"unknown repository", "o/x", NULL, NULL, DGL_ERR_IO, {"models--o--x", "hf download o/x"}},
    {"single GGUF",
     "o/one",
     "hub/models--o--one/snapshots/1/only-Q8_0.gguf",
     "only-Q8_0.gguf",
     DGL_OK,
     {0}},
    {"single GGUF with its quantisation",
     "o/one:q8_0",
     "hub/models--o--one/snapshots/1/only-Q8_0.gguf",
     "only-Q8_0.gguf",
     DGL_OK,
     {0}},
    {"several GGUF",
     "o/g",
     NULL,
     NULL,
     DGL_ERR_INVALID_ARG,
     {"6 GGUF models", "o/g:BF16, o/g:F16, o/g:Q4_K_M, o/g:UD-Q4_K_XL, o/g:q8_0, o/g:F32"}},
    {"several GGUF of a revision",
     "o/g@cccc0000",
     NULL,
     NULL,
     DGL_ERR_INVALID_ARG,
     {"o/g:F16@cccc0000"}},
    {"quantisation", "o/g:Q4_K_M", IN_G "M-Q4_K_M.gguf", "M-Q4_K_M.gguf", DGL_OK, {0}},
    {"quantisation in small letters",
     "o/g:q4_k_m",
     IN_G "M-Q4_K_M.gguf",
     "M-Q4_K_M.gguf",
     DGL_OK,
     {0}},
    {"quantisation in capitals", "o/g:Q8_0", IN_G "M-q8_0.gguf", "M-q8_0.gguf", DGL_OK, {0}},
    {"F16 is not BF16", "o/g:f16", IN_G "M-F16.gguf", "M-F16.gguf", DGL_OK, {0}},
    {"part of a quantisation",
     "o/g:q4_k_xl",
     IN_G "M-UD-Q4_K_XL.gguf",
     "M-UD-Q4_K_XL.gguf",
     DGL_OK,
     {0}},
    {"split set",
     "o/g:bf16",
     IN_G "M-BF16-00001-of-00002.gguf",
     "M-BF16-00001-of-00002.gguf",
     DGL_OK,
     {0}},
    {"split set in a subfolder",
     "o/g:F32@cccc",
     IN_G "big/M-F32-00001-of-00002.gguf",
     "M-F32-00001-of-00002.gguf",
     DGL_OK,
     {0}},
    {"file name", "o/g:M-F16.gguf", IN_G "M-F16.gguf", "M-F16.gguf", DGL_OK, {0}},
    {"quantisation that is not there",
     "o/g:q5_k_m",
     NULL,
     NULL,
     DGL_ERR_IO,
     {"no GGUF file of that quantisation", "M-Q4_K_M.gguf", "--include '*q5_k_m*'"}},
    {"half a quantisation", "o/g:Q4_K", NULL, NULL, DGL_ERR_IO, {"of that quantisation"}},
    {"quantisation of a checkpoint", "o/m:q4_k_m", NULL, NULL, DGL_ERR_IO, {"no GGUF file in"}},
    {"folder with one GGUF", "/one", "one/m-q4_0.gguf", "m-q4_0.gguf", DGL_OK, {0}},
    {"folder with two",
     "/two",
     NULL,
     NULL,
     DGL_ERR_INVALID_ARG,
     {"2 GGUF models", "/two/a.gguf, ", "/two/b.gguf"}},
    {"folder with a split set",
     "/split",
     "split/x-00001-of-00003.gguf",
     "x-00001-of-00003.gguf",
     DGL_OK,
     {0}},
    {"weights of a checkpoint come first", "/both", "both", "both", DGL_OK, {0}},
    {"folder without a model", "/none", "none", "none", DGL_OK, {0}},
    {"no name", "o m", NULL, NULL, DGL_ERR_IO, {"no such file or folder", "GGUF file"}},
    {"an empty quantisation", "o/m:", NULL, NULL, DGL_ERR_IO, {"no such file or folder"}},
    {"an empty revision", "o/m@", NULL, NULL, DGL_ERR_IO, {"no such file or folder"}},
};

static void name_case(void **state)
{
    const struct name_row *row = *state;
    struct test_log log;
    char *path = NULL, *name = NULL;
    char *arg = row->arg[0] == '/' ? dgl_path_join(root, row->arg + 1) : strdup(row->arg);
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status = model_path_resolve(&log.log, &blob_files, arg, &path, &name);
    if (row->path) {
        char *want = checked(dgl_path_join(root, row->path));
        if (status != DGL_OK)
            fail_msg("%s", log.text);
        assert_string_equal(path, want);
        assert_string_equal(name, row->model);
        free(want);
    } else {
        assert_refusal(&log, status, row->status, row->parts);
        assert_null(path);
        assert_null(name);
    }
    free(arg);
    free(path);
    free(name);
}

/* ---- where the cache is ---------------------------------------------------------------------- */

struct cache_row {
    const char *name;
    const char *hub, *legacy, *home, *xdg; /* HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, ... */
    const char *want;
};

static const struct cache_row caches[] = {
    {"HF_HUB_CACHE", "/a", "/b", "/c", "/d", "/a"},
    {"HUGGINGFACE_HUB_CACHE", NULL, "/b", "/c", "/d", "/b"},
    {"HF_HOME", NULL, NULL, "/c", "/d", "/c/hub"},
    {"XDG_CACHE_HOME", NULL, NULL, NULL, "/d", "/d/huggingface/hub"},
    {"relative XDG_CACHE_HOME", NULL, NULL, NULL, "d", "/u/.cache/huggingface/hub"},
    {"HOME", NULL, NULL, NULL, NULL, "/u/.cache/huggingface/hub"},
    {"empty variables", "", "", "", "", "/u/.cache/huggingface/hub"},
    {"tilde", "~/x", NULL, NULL, NULL, "/u/x"},
    {"tilde of HF_HOME", NULL, NULL, "~/x", NULL, "/u/x/hub"},
    {"another's home", "~x", NULL, NULL, NULL, "~x"},
};

static void cache_case(void **state)
{
    static const char *const variables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                            "XDG_CACHE_HOME", "HOME"};
    const struct cache_row *row = *state;
    const char *const values[] = {row->hub, row->legacy, row->home, row->xdg, "/u"};
    char *saved[5];
    for (size_t i = 0; i < 5; i++) {
        saved[i] = getenv(variables[i]) ? strdup(getenv(variables[i])) : NULL;
        if (values[i])
            setenv(variables[i], values[i], 1);
        else
            unsetenv(variables[i]);
    }
    char *dir = hub_cache_dir();
    for (size_t i = 0; i < 5; i++) {
        if (saved[i])
            setenv(variables[i], saved[i], 1);
        else
            unsetenv(variables[i]);
        free(saved[i]);
    }
    assert_string_equal(dir, row->want);
    free(dir);
}

/* ---- quantisations in names ------------------------------------------------------------------ */

struct quant_row {
    const char *name, *quant;
};

static const struct quant_row quants[] = {
    {"Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Q4_K_M"},
    {"qwen2.5-0.5b-instruct-q8_0.gguf", "q8_0"},
    {"Qwen3-8B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
    {"Qwen3-8B-IQ2_XXS.gguf", "IQ2_XXS"},
    {"model.Q5_K_S.gguf", "Q5_K_S"},
    {"model-f16.gguf", "f16"},
    {"model-BF16-00001-of-00002.gguf", "BF16"},
    {"BF16/model-00001-of-00002.gguf", "BF16"},
    {"ggml-model-q4_0.gguf", "q4_0"},
    {"model_Q6_K.gguf", "Q6_K"},
    {"model-Q4_0_4_8.gguf", "Q4_0_4_8"},
    {"bitnet-TQ2_0.gguf", "TQ2_0"},
    {"gpt-oss-20b-mxfp4.gguf", "mxfp4"},
    {"gpt-oss-20b-MXFP4_MOE.gguf", "MXFP4_MOE"},
    {"Q4_K_M.gguf", "Q4_K_M"},
    {"Q8_0-model.gguf", "Q8_0"},
    {"tinyllama.gguf", ""},
    {"model-Q4_.gguf", ""},
    {"model-Q9_0.gguf", ""},
    {"quick-q.gguf", ""},
    {"BF16x.gguf", ""},
};

static void quant_case(void **state)
{
    const struct quant_row *row = *state;
    char quant[GGUF_QUANT_BYTES];
    gguf_name_quant(row->name, quant);
    assert_string_equal(quant, row->quant);
}

/* ---- types of GGUF files ---- */

enum { NONE = -1, TEXT = -2 };

struct type_row {
    const char *name;
    int file_type;       /* general.file_type; NONE: absent; TEXT: a text */
    int matrices, table; /* enum dgl_dtype of tensors; NONE: there is none */
    const char *type;
};

static const struct type_row types[] = {
    {"type: a mix of this type", 15, DGL_Q4_K, DGL_Q6_K, "q4_k_m"},
    {"type: a mix of another type", 15, DGL_Q5_0, DGL_Q6_K, "q5_0"},
    {"type: another type", 7, DGL_F16, DGL_F16, "f16"},
    {"type: a large mix of IQ3", 22, DGL_IQ3_XXS, DGL_Q6_K, "iq3_xs"},
    {"type: no key", NONE, DGL_Q6_K, DGL_Q8_0, "q6_k"},
    {"type: a key that is a text", TEXT, DGL_Q4_0, DGL_Q4_0, "q4_0"},
    {"type: an unknown number", 1000, DGL_Q4_0, DGL_Q4_0, "q4_0"},
    {"type: a number without a name", 4, DGL_Q4_0, DGL_Q4_0, "q4_0"},
    {"type: first of a split model", 15, NONE, NONE, "q4_k_m"},
    {"type: the embedding alone", NONE, NONE, DGL_Q8_0, "q8_0"},
    {"type: nothing", NONE, NONE, NONE, ""},
};

/* A tensor of zeros, with rows of 256 values. */
static void put_zeros(struct gguf_build *b, const char *name, int type, uint64_t rows)
{
    static const uint8_t zeros[256 * 64 * 4];
    const struct dgl_dtype_traits *t = dgl_dtype_get((enum dgl_dtype)type);
    uint32_t number;
    assert_true(gguf_type_of_dtype((enum dgl_dtype)type, &number));
    gb_tensor(b, name, number, 2, (const uint64_t[]){256, rows}, zeros,
              (size_t)rows * 256 / t->block * t->block_bytes);
}

static void type_case(void **state)
{
    const struct type_row *row = *state;
    struct gguf_build b = {0};
    struct dgl_buf bytes = {0};
    char quant[GGUF_QUANT_BYTES], *dir = test_tmpdir();
    char *path = checked(dgl_path_join(dir, "m-F32.gguf"));
    gb_str(&b, "general.architecture", "llama");
    if (row->file_type == TEXT)
        gb_str(&b, "general.file_type", "15");
    else if (row->file_type >= 0)
        gb_u32(&b, "general.file_type", (uint32_t)row->file_type);
    if (row->table >= 0)
        put_zeros(&b, "token_embd.weight", row->table, 64);
    if (row->matrices >= 0)
        put_zeros(&b, "blk.0.ffn_up.weight", row->matrices, 4);
    gb_finish(&b, &bytes);
    test_write_file(dir, "m-F32.gguf", bytes.p, bytes.len);
    gguf_file_quant(&blob_files, path, quant);
    assert_string_equal(quant, row->type);
    dgl_buf_finish(&bytes);
    free(path);
    test_tmpdir_remove(dir);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* "name form quantization bytes" lines, the temporary folder as "~". */
static bool put_entry(void *priv, const struct dgl_model_entry *e)
{
    bool inside = strncmp(e->name, root, strlen(root)) == 0;
    dgl_buf_printf(priv, "%s%s %s %s %llu\n", inside ? "~" : "",
                   e->name + (inside ? strlen(root) : 0), e->form, e->quantization,
                   (unsigned long long)e->bytes);
    struct stat info;
    assert_int_equal(stat(e->path, &info), 0);
    return true;
}

static void list_of_the_places(void **state)
{
    (void)state;
    struct dgl_buf got = {0};
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    char *saved = getenv("XDG_DATA_HOME") ? strdup(getenv("XDG_DATA_HOME")) : NULL;
    char *mine = checked(dgl_path_join(root, "data/dopplergl/models"));
    char *data = checked(dgl_path_join(root, "data"));
    char *pack = checked(dgl_path_join(root, "pack")), *link = checked(dgl_path_join(mine, "mine"));
    assert_int_equal(dgl_dir_make(NULL, mine), DGL_OK);
    assert_int_equal(symlink(pack, link), 0);
    setenv("XDG_DATA_HOME", data, 1);
    setenv("LLAMA_CACHE", TEST_MISSING, 1);
    assert_int_equal(dgl_models_iterate(&log.log, NULL, put_entry, &got), DGL_OK);
    /* Its specification knows no relative paths: those are left out. */
    char *cwd = getcwd(NULL, 0);
    struct dgl_buf without = {0};
    assert_int_equal(chdir(root), 0);
    setenv("XDG_DATA_HOME", "data", 1);
    assert_int_equal(dgl_models_iterate(&log.log, NULL, put_entry, &without), DGL_OK);
    assert_int_equal(chdir(cwd), 0);
    assert_null(strstr(without.p, "mine"));
    assert_non_null(strstr(got.p, "mine"));
    dgl_buf_finish(&without);
    free(cwd);
    unsetenv("LLAMA_CACHE");
    if (saved)
        setenv("XDG_DATA_HOME", saved, 1);
    else
        unsetenv("XDG_DATA_HOME");
    assert_string_equal(log.text, "");
    /* No type: these files have no headers, and their names do not count. */
    assert_string_equal(got.p, "~/hub/models--gpt2/snapshots/1 checkpoint  1\n"
                               "o/dev@dddd4444dddd4444 gguf  1\n"
                               "o/g:BF16 gguf  5\n"
                               "o/g:F16 gguf  1\n"
                               "o/g:Q4_K_M gguf  4\n"
                               "o/g:UD-Q4_K_XL gguf  2\n"
                               "o/g:q8_0 gguf  1\n"
                               "o/g:F32 gguf  2\n"
                               "o/m checkpoint  8\n"
                               "o/m@v1.0 checkpoint  1\n"
                               "o/m@refs/pr/1 checkpoint  1\n"
                               "o/one gguf  1\n"
                               "~/data/dopplergl/models/mine pack q4_k_m 32\n");
    dgl_buf_finish(&got);
    free(saved);
    free(mine);
    free(data);
    free(pack);
    free(link);
}

/* -m accepts every name of the list, and resolves it to the path in the same entry. */
static bool resolve_entry(void *priv, const struct dgl_model_entry *e)
{
    struct test_log log;
    char *path = NULL, *name = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    if (model_path_resolve(&log.log, &blob_files, e->name, &path, &name) != DGL_OK)
        fail_msg("%s: %s", e->name, log.text);
    assert_string_equal(path, e->path);
    free(path);
    free(name);
    ++*(size_t *)priv;
    return true;
}

static void listed_names_are_found(void **state)
{
    (void)state;
    size_t count = 0;
    assert_int_equal(dgl_models_iterate(NULL, NULL, resolve_entry, &count), DGL_OK);
    assert_true(count >= 12);
}

static void list_of_folders(void **state)
{
    (void)state;
    struct dgl_buf got = {0};
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    char *split = checked(dgl_path_join(root, "split")),
         *both = checked(dgl_path_join(root, "both"));
    char *file = checked(dgl_path_join(root, "one/m-q4_0.gguf"));
    const char *const dirs[] = {split, both, file};
    assert_int_equal(dgl_models_iterate(&log.log, dgl_models_params(.dirs = dirs, .num_dirs = 3),
                                        put_entry, &got),
                     DGL_OK);
    assert_string_equal(got.p, "~/split/x-00001-of-00003.gguf gguf  3\n"
                               "~/both checkpoint  1\n"
                               "~/both/m.gguf gguf  1\n"
                               "~/one/m-q4_0.gguf gguf  2\n");
    dgl_buf_finish(&got);
    /* A folder that the caller names must exist. */
    char *missing = test_missing(TEST_MISSING);
    const char *const wrong[] = {missing};
    static const char *const parts[] = {"cannot"};
    enum dgl_status status = dgl_models_iterate(
        &log.log, dgl_models_params(.dirs = wrong, .num_dirs = 1), put_entry, &got);
    assert_refusal(&log, status, DGL_ERR_IO, parts);
    free(missing);
    free(split);
    free(both);
    free(file);
}

static bool stop_at_once(void *priv, const struct dgl_model_entry *e)
{
    (void)e;
    ++*(size_t *)priv;
    return false;
}

static void list_ends_when_told(void **state)
{
    (void)state;
    size_t count = 0;
    assert_int_equal(dgl_models_iterate(NULL, NULL, stop_at_once, &count), DGL_OK);
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_of_the_places),
        cmocka_unit_test(listed_names_are_found),
        cmocka_unit_test(list_of_folders),
        cmocka_unit_test(list_ends_when_told),
    };
    tree_setup(NULL);
    int failures = test_run_table("names of models", name_case, names);
    failures += test_run_table("folder of the Hub cache", cache_case, caches);
    failures += test_run_table("quantisations in names", quant_case, quants);
    failures += test_run_table("types", type_case, types);
    failures += cmocka_run_group_tests_name("list of models", tests, NULL, NULL);
    tree_teardown(NULL);
    return failures;
}
