/* Models as core and the command line open them: paths, the Hub cache, the output of inspect,
 * verify. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "loader/model/model_file.h"
#include "loader/rdrr/rdrr_format.h"
#include "tests/support/tiny_model.h"

static struct dgl_model_file *open_ok(const char *path)
{
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_WARN);
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = path}, &file);
    assert_string_equal(log.text, "");
    assert_int_equal(status, DGL_OK);
    return file;
}

static void open_fails(const char *path, enum dgl_status status, const char *part)
{
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(model_file_open(&log.log, &(struct model_open_params){.path = path}, &file),
                     status);
    assert_null(file);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, part);
}

static void info_of_a_checkpoint(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(dir, &m);
    struct dgl_model_file *file = NULL;
    assert_int_equal(dgl_inspect(NULL, dgl_inspect_params(.path = dir), &file), DGL_OK);
    const struct dgl_model_info *info = dgl_model_file_info(file);
    assert_string_equal(info->path, dir);
    assert_string_equal(info->name, strrchr(dir, '/') + 1);
    assert_string_equal(info->family, "llama");
    assert_string_equal(info->quantization, "bf16");
    assert_int_equal(info->vocab, 320);
    assert_int_equal(info->layers, 2);
    assert_int_equal(info->hidden, 64);
    assert_int_equal(info->heads, 4);
    assert_int_equal(info->kv_heads, 2);
    assert_int_equal(info->head_dim, 16);
    assert_int_equal(info->intermediate, 96);
    assert_int_equal(info->context_max, 128);
    assert_int_equal(info->parameters, 320 * 64 + 64 + 2 * (128 + 8192 + 4096 + 18432));
    assert_int_equal(info->weight_bytes, 2 * info->parameters);
    assert_int_equal(info->num_stop_ids, 2);
    assert_int_equal(info->stop_ids[0].id, 1);
    assert_string_equal(info->stop_ids[0].origin, "config.json, generation_config.json");
    assert_int_equal(info->stop_ids[1].id, 2);
    assert_string_equal(info->stop_ids[1].origin, "generation_config.json");
    assert_false(info->has_tokenizer);
    dgl_model_file_destroy(&file);
    assert_null(file);
    dgl_model_file_destroy(&file);
    test_tmpdir_remove(dir);
}

static void tensors_of_a_checkpoint(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    struct dgl_tensor_info t = {.size = sizeof(t)};
    tiny_llama_write(dir, &m);
    struct dgl_model_file *file = open_ok(dir);
    assert_int_equal(dgl_model_file_num_tensors(file), 20);
    dgl_model_file_tensor(file, 0, &t);
    assert_string_equal(t.name, "model.embed_tokens.weight");
    assert_string_equal(t.dtype, "bf16");
    assert_string_equal(t.role, "embedding");
    assert_string_equal(t.layout, "row");
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], 320);
    assert_int_equal(t.shape[1], 64);
    assert_int_equal(t.bytes, 320 * 64 * 2);
    dgl_model_file_tensor(file, 19, &t);
    assert_string_equal(t.name, "model.norm.weight");
    assert_string_equal(t.layout, "");
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

static void config_is_given_verbatim(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    size_t len, file_len;
    tiny_llama_write(dir, &m);
    struct dgl_model_file *file = open_ok(dir);
    const char *config = dgl_model_file_config(file, &len);
    char *bytes = tiny_file_read(dir, "config.json", &file_len);
    assert_int_equal(len, file_len);
    assert_memory_equal(config, bytes, len);
    free(bytes);
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

/* A tied checkpoint that also stores the head: used once, listed as skipped. */
static void skipped_tensors_are_listed(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    size_t len;
    m.tied = false;
    tiny_llama_write(dir, &m);
    /* Give the head the bytes of the embedding: the first and the last tensor of the file. */
    char *bytes = tiny_file_read(dir, "model.safetensors", &len);
    uint64_t header = 0, size = 320 * 64 * 2;
    memcpy(&header, bytes, 8);
    memcpy(bytes + len - size, bytes + 8 + header, size);
    test_write_file(dir, "model.safetensors", bytes, len);
    free(bytes);
    tiny_file_replace(dir, "config.json", "\"tie_word_embeddings\": false",
                      "\"tie_word_embeddings\": true");
    struct dgl_model_file *file = open_ok(dir); /* no warning: the model is correct */
    assert_int_equal(dgl_model_file_num_skipped(file), 1);
    assert_string_equal(dgl_model_file_skipped(file, 0),
                        "lm_head.weight: equal to the tied embeddings");
    struct test_log log;
    struct dgl_model_file *again = NULL;
    test_log_init(&log, DGL_LOG_NOTICE);
    assert_int_equal(model_file_open(&log.log, &(struct model_open_params){.path = dir}, &again),
                     DGL_OK);
    assert_contains(log.text, "not needed and left out: lm_head.weight: equal to the tied "
                              "embeddings\n");
    model_file_close(&again);
    assert_int_equal(file->desc.head, file->desc.embed);
    assert_int_equal(file->info.weight_bytes, 2 * file->info.parameters);
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

/* ---- kinds of folders ---- */

static void trailing_slashes_and_dots_in_paths(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), path[4200];
    struct tiny_llama m = tiny_llama_default();
    const char *name = strrchr(dir, '/') + 1;
    tiny_llama_write(dir, &m);
    static const char *const ends[] = {"/", "///", "/.", "/./"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s%s", dir, ends[i]);
        struct dgl_model_file *file = open_ok(path);
        assert_string_equal(file->name, name);
        model_file_close(&file);
    }
    test_tmpdir_remove(dir);
}

static void link_to_a_model_is_followed(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *links = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(dir, &m);
    char *link = dgl_path_join(links, "short-name");
    assert_int_equal(symlink(dir, link), 0);
    struct dgl_model_file *file = open_ok(link);
    assert_string_equal(file->name, "short-name");
    assert_string_equal(file->path, link);
    model_file_close(&file);
    free(link);
    test_tmpdir_remove(links);
    test_tmpdir_remove(dir);
}

static void a_pack_and_a_checkpoint_in_one_folder(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_pack pack = tiny_pack_default();
    tiny_pack_write(dir, &pack);
    tiny_llama_write(dir, &pack.model);
    struct dgl_model_file *file = open_ok(dir);
    assert_int_equal(file->format, MODEL_HF);
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

static void folder_that_is_no_model(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    open_fails(dir, DGL_ERR_IO, "no config.json and no manifest.json");
    test_write_file(dir, "model.safetensors", "x", 1);
    open_fails(dir, DGL_ERR_FORMAT, "no config.json");
    test_tmpdir_remove(dir);
}

static void path_that_is_a_file(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    test_write_file(dir, "m.bin", "text", 4);
    test_write_file(dir, "m.gguf", "GGUF", 4);
    char *path = dgl_path_join(dir, "m.bin"), *gguf = dgl_path_join(dir, "m.gguf");
    open_fails(path, DGL_ERR_UNSUPPORTED, "m.bin: not a model: the file does not begin with GGUF");
    open_fails(gguf, DGL_ERR_FORMAT, "m.gguf: the file has 4 bytes");
    free(path);
    free(gguf);
    test_tmpdir_remove(dir);
}

static void path_that_is_not_there(void **state)
{
    (void)state;
    char *path = test_missing(TEST_MISSING "/path/of/a/model"), *parent = test_tmpdir(), *word;
    open_fails(path, DGL_ERR_IO, path);
    /* A single word that does not exist in the current folder either. */
    word = strrchr(parent, '/') + 1;
    snprintf(path, strlen(path), "%s: no such file or folder", word);
    open_fails(word, DGL_ERR_IO, path);
    test_tmpdir_remove(parent);
    free(path);
}

static void path_is_required(void **state)
{
    (void)state;
    open_fails(NULL, DGL_ERR_INVALID_ARG, "path");
    open_fails("", DGL_ERR_INVALID_ARG, "path");
}

/* ---- the Hub cache ---- */

struct hub {
    char *home;     /* $HF_HOME */
    char *snapshot; /* where the files go */
};

static struct hub hub_make(const char *repo, const char *revision, const char *ref)
{
    struct hub h = {.home = test_tmpdir()};
    struct dgl_buf path = {0}, refs = {0};
    dgl_buf_printf(&path, "%s/hub/%s/snapshots/%s", h.home, repo, revision);
    dgl_buf_printf(&refs, "%s/hub/%s/refs", h.home, repo);
    assert_int_equal(dgl_dir_make(NULL, path.p), DGL_OK);
    assert_int_equal(dgl_dir_make(NULL, refs.p), DGL_OK);
    if (ref)
        test_write_file(refs.p, "main", ref, strlen(ref));
    h.snapshot = dgl_buf_take(&path);
    dgl_buf_finish(&refs);
    assert_int_equal(setenv("HF_HOME", h.home, 1), 0);
    return h;
}

static void hub_remove(struct hub *h)
{
    unsetenv("HF_HOME");
    free(h->snapshot);
    test_tmpdir_remove(h->home);
}

static void hub_model_is_found(void **state)
{
    (void)state;
    struct hub h = hub_make("models--some-org--Tiny_1.5b", "0123abcd", "0123abcd\n");
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(h.snapshot, &m);
    struct dgl_model_file *file = open_ok("some-org/Tiny_1.5b");
    assert_string_equal(file->name, "Tiny_1.5b");
    assert_string_equal(file->path, h.snapshot);
    model_file_close(&file);
    hub_remove(&h);
}

static void hub_default_folder(void **state)
{
    (void)state;
    struct hub h = hub_make("models--o--m", "r", "r");
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(h.snapshot, &m);
    char *saved = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    char *cache = test_tmpdir(), *link = dgl_path_join(cache, "huggingface");
    assert_int_equal(symlink(h.home, link), 0);
    unsetenv("HF_HOME");
    setenv("XDG_CACHE_HOME", cache, 1);
    struct dgl_model_file *file = open_ok("o/m");
    model_file_close(&file);
    if (saved)
        setenv("XDG_CACHE_HOME", saved, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(saved);
    free(link);
    test_tmpdir_remove(cache);
    hub_remove(&h);
}

static void hub_model_is_not_there(void **state)
{
    (void)state;
    struct hub h = hub_make("models--o--m", "r", "r");
    open_fails("o/other", DGL_ERR_IO, "hf download o/other");
    hub_remove(&h);
}

static void hub_ref_without_snapshot(void **state)
{
    (void)state;
    struct hub h = hub_make("models--o--m", "old", "new");
    open_fails("o/m", DGL_ERR_IO, "snapshots/new");
    hub_remove(&h);
}

static void hub_ref_that_climbs(void **state)
{
    (void)state;
    struct hub h = hub_make("models--o--m", "r", "../../../../etc");
    open_fails("o/m", DGL_ERR_FORMAT, "../../../../etc");
    hub_remove(&h);
}

static void hub_ids_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "../no-such-model-here", "a/..", "a/b/c", "/a", "a/", "a b/c", "a/b\nc"};
    struct hub h = hub_make("models--o--m", "r", "r");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        open_fails(bad[i], DGL_ERR_IO, "no such file or folder; a model is");
    hub_remove(&h);
}

/* ---- inference section: the reader accepts all output of the writer ---- */

static void inference_round_trip(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(dir, &m);
    struct dgl_model_file *file = open_ok(dir);
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 2);
    dgl_jw_object(&w);
    rdrr_inference_write(&w, &file->desc);
    dgl_jw_field_array(&w, "eos_token_id");
    dgl_jw_i64(&w, 1);
    dgl_jw_i64(&w, 2);
    dgl_jw_end_array(&w);
    dgl_jw_end_object(&w);
    struct dgl_json_doc *doc = NULL;
    assert_int_equal(dgl_json_parse(NULL, "m", text.p, text.len, &doc), DGL_OK);
    struct dgl_json_reader r = {.doc = doc};
    assert_int_equal(rdrr_inference_check(r, dgl_json_root(doc), &file->desc, true), DGL_OK);
    file->desc.rope[ROPE_GLOBAL].theta = 20000;
    assert_int_equal(rdrr_inference_check(r, dgl_json_root(doc), &file->desc, true),
                     DGL_ERR_FORMAT);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

/* ---- verify ---- */

static void verify_of_a_pack(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_pack pack = tiny_pack_default();
    struct dgl_verify_result result = {.size = sizeof(result)};
    tiny_pack_write(dir, &pack);
    assert_int_equal(dgl_verify(NULL, dgl_verify_params(.path = dir), &result), DGL_OK);
    assert_true(result.files > 3);
    test_tmpdir_remove(dir);
}

/* Damage to the manifest that every hash and every rule about its own parts lets through. */
struct damaged_manifest {
    const char *name;
    const char *find, *replace;
    enum dgl_status status;
    const char *part; /* of the message */
};

static const struct damaged_manifest damaged_manifests[] = {
    {"a flipped bit in a tensor's name", "model.layers.1.mlp", "model.laxers.1.mlp",
     DGL_ERR_UNSUPPORTED, "model.laxers.1.mlp"},
    {"a config of other sizes", "\"hidden_size\": 64", "\"hidden_size\": 65", DGL_ERR_UNSUPPORTED,
     "hidden_size"},
    {"a modelId that is none", "\"tiny-pack\"", "\"\"", DGL_ERR_FORMAT, "modelId"},
};

static void verify_opens_what_it_hashes(void **state)
{
    const struct damaged_manifest *row = *state;
    char *dir = test_tmpdir();
    struct tiny_pack pack = tiny_pack_default();
    struct dgl_verify_result result = {.size = sizeof(result)};
    struct dgl_model_file *file = NULL;
    struct test_log log, inspect;
    test_log_init(&log, DGL_LOG_ERROR);
    test_log_init(&inspect, DGL_LOG_ERROR);
    tiny_pack_write(dir, &pack);
    tiny_file_replace(dir, "manifest.json", row->find, row->replace);
    assert_int_equal(dgl_verify(&log.log, dgl_verify_params(.path = dir), &result), row->status);
    assert_contains(log.text, row->part);
    assert_int_equal(dgl_inspect(&inspect.log, dgl_inspect_params(.path = dir), &file),
                     row->status);
    assert_string_equal(log.text, inspect.text);
    test_tmpdir_remove(dir);
}

static void verify_of_a_checkpoint(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    struct dgl_verify_result result = {.size = sizeof(result)};
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    tiny_llama_write(dir, &m);
    assert_int_equal(dgl_verify(&log.log, dgl_verify_params(.path = dir), &result),
                     DGL_ERR_UNSUPPORTED);
    assert_contains(log.text, "no hashes");
    assert_int_equal(dgl_verify(NULL, dgl_verify_params(.path = NULL), &result),
                     DGL_ERR_INVALID_ARG);
    test_tmpdir_remove(dir);
}

/* ---- real data ---- */

static void story_llama(void **state)
{
    (void)state;
    const char *dir = test_unpacked("models/story-llama.tar.xz", "story-llama");
    if (!dir)
        SKIP("story-llama needs the shared test data");
    struct dgl_model_file *file = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    assert_int_equal(dgl_inspect(&log.log, dgl_inspect_params(.path = dir), &file),
                     DGL_OK); /* with its tokenizer */
    assert_string_equal(log.text, "");
    assert_string_equal(file->name, "story-llama");
    assert_int_equal(file->info.layers, 8);
    assert_int_equal(file->info.vocab, 4096);
    assert_int_equal(file->info.parameters, 7344384);
    assert_int_equal(file->info.num_stop_ids, 2);
    assert_string_equal(file->info.stop_ids[1].origin, "config.json, generation_config.json");
    assert_true(file->info.has_tokenizer);
    assert_true(file->desc.tied_head);
    model_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(info_of_a_checkpoint),
        cmocka_unit_test(tensors_of_a_checkpoint),
        cmocka_unit_test(config_is_given_verbatim),
        cmocka_unit_test(skipped_tensors_are_listed),
        cmocka_unit_test(trailing_slashes_and_dots_in_paths),
        cmocka_unit_test(link_to_a_model_is_followed),
        cmocka_unit_test(a_pack_and_a_checkpoint_in_one_folder),
        cmocka_unit_test(folder_that_is_no_model),
        cmocka_unit_test(path_that_is_a_file),
        cmocka_unit_test(path_that_is_not_there),
        cmocka_unit_test(path_is_required),
        cmocka_unit_test(hub_model_is_found),
        cmocka_unit_test(hub_default_folder),
        cmocka_unit_test(hub_model_is_not_there),
        cmocka_unit_test(hub_ref_without_snapshot),
        cmocka_unit_test(hub_ref_that_climbs),
        cmocka_unit_test(hub_ids_are_checked),
        cmocka_unit_test(inference_round_trip),
        cmocka_unit_test(verify_of_a_pack),
        cmocka_unit_test(verify_of_a_checkpoint),
        cmocka_unit_test(story_llama),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    return failures +
           test_run_table("damaged manifests", verify_opens_what_it_hashes, damaged_manifests);
}
