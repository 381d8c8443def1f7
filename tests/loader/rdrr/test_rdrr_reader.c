/* The RDRR reader: good packs of every kind, damaged files, and verification. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/thread.h"
#include "loader/model/model_file.h"
#include "loader/rdrr/rdrr_reader.h"
#include "tests/support/tiny_model.h"

static enum dgl_status pack_open(const struct dgl_log *log, const char *dir, bool verify)
{
    struct dgl_model_file *file = NULL;
    enum dgl_status status =
        model_file_open(log, &(struct model_open_params){.path = dir, .verify = verify}, &file);
    assert_true((status == DGL_OK) == (file != NULL));
    model_file_close(&file);
    return status;
}

/* ---- good packs ---- */

struct good_pack {
    const char *name;
    enum dgl_hash_kind hash;
    uint64_t shard_bytes;
    enum dgl_dtype dtype;
    bool untied;
};

static const struct good_pack good_packs[] = {
    {"sha256, 16 KiB shards", DGL_HASH_SHA256, 16384, DGL_BF16, false},
    {"blake3, 16 KiB shards", DGL_HASH_BLAKE3, 16384, DGL_BF16, false},
    {"spans over many 4 KiB shards", DGL_HASH_SHA256, 4096, DGL_F32, false},
    {"one shard", DGL_HASH_SHA256, 1 << 26, DGL_F16, false},
    {"untied head", DGL_HASH_BLAKE3, 8192, DGL_BF16, true},
};

static void assert_tensor_bytes(const struct tensor_source *src, const struct tiny_llama *m,
                                size_t index, const char *name)
{
    size_t len;
    unsigned char *want = tiny_llama_bytes(m, index, &len), *have = malloc(len);
    long at = tensor_source_find(src, name);
    assert_true(at >= 0);
    assert_int_equal(tensor_source_read(NULL, src, (size_t)at, 0, have, len), DGL_OK);
    assert_memory_equal(have, want, len);
    /* Ranges that begin and end anywhere, so that they cross spans at odd places. */
    uint64_t state = index + 1;
    for (int i = 0; i < 20; i++) {
        size_t from = (size_t)(test_rand(&state) % len),
               n = (size_t)(test_rand(&state) % (len - from + 1));
        assert_int_equal(tensor_source_read(NULL, src, (size_t)at, from, have, n), DGL_OK);
        assert_memory_equal(have, want + from, n);
    }
    free(want);
    free(have);
}

static void pack_is_read(void **state)
{
    const struct good_pack *row = *state;
    char *dir = test_tmpdir();
    struct tiny_pack pack = {tiny_llama_default(), row->hash, row->shard_bytes};
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    struct dgl_model_file *file = NULL;
    struct test_log log;
    pack.model.dtype = row->dtype;
    pack.model.tied = !row->untied;
    size_t count = tiny_llama_tensors(&pack.model, tensors);
    tiny_pack_write(dir, &pack);
    test_log_init(&log, DGL_LOG_WARN);
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = dir, .verify = true}, &file);
    assert_string_equal(log.text, "");
    assert_int_equal(status, DGL_OK);
    assert_int_equal(file->format, MODEL_RDRR);
    assert_int_equal(tensor_source_count(file->tensors), count);
    for (size_t i = 0; i < count; i++)
        assert_tensor_bytes(file->tensors, &pack.model, i, tensors[i].name);
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

/* A folder with the default pack. */
static int pack_setup(void **state)
{
    struct tiny_pack pack = tiny_pack_default();
    char *dir = test_tmpdir();
    tiny_pack_write(dir, &pack);
    *state = dir;
    return 0;
}

static int pack_teardown(void **state)
{
    test_tmpdir_remove(*state);
    return 0;
}

static struct dgl_model_file *opened(const char *dir)
{
    struct dgl_model_file *file = NULL;
    assert_int_equal(model_file_open(NULL, &(struct model_open_params){.path = dir}, &file),
                     DGL_OK);
    return file;
}

static void manifest_facts(void **state)
{
    const char *dir = *state;
    struct dgl_model_file *file = opened(dir);
    assert_string_equal(file->name, "tiny-pack");
    assert_string_equal(file->quantization, "bf16");
    assert_string_equal(file->hint_defaults, "{\"computePrecision\": \"f32\"}");
    assert_null(file->hint_pinned);
    assert_int_equal(strlen(file->manifest_sha256), 64);
    assert_contains(file->config, "\"model_type\": \"llama\"");
    assert_non_null(file->generation_config_json);
    assert_null(file->tokenizer_json);
    assert_int_equal(file->desc.num_stop_ids, 2);
    long embed = file->desc.embed;
    assert_string_equal(tensor_source_at(file->tensors, (size_t)embed)->role, "embedding");
    model_file_close(&file);
}

static void hints_without_an_origin_are_pinned_in_packs_of_ours(void **state)
{
    const char *dir = *state;
    tiny_file_replace(dir, "manifest.json", ", \"kernelHintsOrigin\": \"default\"", "");
    struct dgl_model_file *file = opened(dir);
    assert_string_equal(file->hint_pinned, "{\"computePrecision\": \"f32\"}");
    assert_null(file->hint_defaults);
    model_file_close(&file);
    tiny_file_replace(dir, "manifest.json", "\"tool\": \"dopplergl\"", "\"tool\": \"other\"");
    file = opened(dir);
    assert_string_equal(file->hint_defaults, "{\"computePrecision\": \"f32\"}");
    assert_null(file->hint_pinned);
    model_file_close(&file);
}

/* Packs of other converters have neither `files` nor a complete `inference`. */
static void pack_of_another_converter(void **state)
{
    const char *dir = *state;
    struct dgl_model_file *file = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    tiny_file_replace(dir, "manifest.json", "\"tool\": \"dopplergl\"", "\"tool\": \"other\"");
    tiny_file_replace(dir, "manifest.json", "\"files\": {", "\"otherFiles\": {");
    tiny_file_replace(dir, "manifest.json", "\"valueNorm\": false, ", "");
    tiny_file_replace(dir, "manifest.json", "\"eos_token_id\": [1, 2],", "");
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = dir, .verify = true}, &file);
    assert_string_equal(log.text, "");
    assert_int_equal(status, DGL_OK);
    assert_int_equal(file->desc.num_stop_ids, 2); /* from the unlisted generation_config.json */
    model_file_close(&file);
}

struct read_job {
    const struct tensor_source *src;
    const struct tiny_llama *model;
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
};

static enum dgl_status read_one(void *ctx, size_t index)
{
    struct read_job *job = ctx;
    size_t i = index % 20, len;
    unsigned char *want = tiny_llama_bytes(job->model, i, &len), *have = malloc(len);
    long at = tensor_source_find(job->src, job->tensors[i].name);
    enum dgl_status status = tensor_source_read(NULL, job->src, (size_t)at, 0, have, len);
    if (status == DGL_OK && memcmp(want, have, len) != 0)
        status = DGL_ERR_INTEGRITY;
    free(want);
    free(have);
    return status;
}

static void threads_may_read_together(void **state)
{
    const char *dir = *state;
    struct tiny_pack pack = tiny_pack_default();
    struct dgl_model_file *file = opened(dir);
    struct read_job job = {.src = file->tensors, .model = &pack.model};
    tiny_llama_tensors(&pack.model, job.tensors);
    assert_int_equal(dgl_parallel_for(4, 200, read_one, &job), DGL_OK);
    model_file_close(&file);
}

/* ---- files that are wrong ---- */

enum damage { REMOVE, EMPTY, TRUNCATE, APPEND, FLIP_BIT, REPLACE_BY_DIR, REPLACE_BY_FIFO };

struct bad_file {
    const char *name;
    const char *file;
    enum damage damage;
    enum dgl_hash_kind hash;
    enum dgl_status status; /* of opening with verification */
    const char *parts[3];
};

static const struct bad_file bad_files[] = {
    {"shard is missing",
     "shard_00001.bin",
     REMOVE,
     DGL_HASH_SHA256,
     DGL_ERR_IO,
     {"shard_00001.bin: missing", "manifest.json", "16384"}},
    {"shard is empty",
     "shard_00001.bin",
     EMPTY,
     DGL_HASH_SHA256,
     DGL_ERR_FORMAT,
     {"shard_00001.bin: has 0 bytes", "16384"}},
    {"shard is truncated",
     "shard_00001.bin",
     TRUNCATE,
     DGL_HASH_SHA256,
     DGL_ERR_FORMAT,
     {"shard_00001.bin: has 16383 bytes", "16384"}},
    {"shard is too long",
     "shard_00001.bin",
     APPEND,
     DGL_HASH_SHA256,
     DGL_ERR_FORMAT,
     {"shard_00001.bin: has 16385 bytes", "16384"}},
    {"shard is a folder",
     "shard_00001.bin",
     REPLACE_BY_DIR,
     DGL_HASH_SHA256,
     DGL_ERR_IO,
     {"shard_00001.bin"}},
    {"one bit of a shard, sha256",
     "shard_00001.bin",
     FLIP_BIT,
     DGL_HASH_SHA256,
     DGL_ERR_INTEGRITY,
     {"shard_00001.bin: sha256 is ", "manifest.json says", "shards[1].hash"}},
    {"one bit of a shard, blake3",
     "shard_00002.bin",
     FLIP_BIT,
     DGL_HASH_BLAKE3,
     DGL_ERR_INTEGRITY,
     {"shard_00002.bin: blake3 is ", "manifest.json says", "shards[2].hash"}},
    {"one bit of the first shard",
     "shard_00000.bin",
     FLIP_BIT,
     DGL_HASH_BLAKE3,
     DGL_ERR_INTEGRITY,
     {"shard_00000.bin: blake3 is ", "shards[0].hash"}},
    {"manifest is missing",
     "manifest.json",
     REMOVE,
     DGL_HASH_SHA256,
     DGL_ERR_IO,
     {"no manifest.json"}},
    {"manifest is a pipe",
     "manifest.json",
     REPLACE_BY_FIFO,
     DGL_HASH_SHA256,
     DGL_ERR_IO,
     {"manifest.json: it is a device, pipe or socket"}},
    {"manifest is empty",
     "manifest.json",
     EMPTY,
     DGL_HASH_SHA256,
     DGL_ERR_FORMAT,
     {"manifest.json"}},
    {"manifest is truncated",
     "manifest.json",
     TRUNCATE,
     DGL_HASH_SHA256,
     DGL_ERR_FORMAT,
     {"manifest.json"}},
    {"copied file is missing",
     "generation_config.json",
     REMOVE,
     DGL_HASH_SHA256,
     DGL_ERR_IO,
     {"generation_config.json: missing"}},
    {"one bit of a copied file",
     "generation_config.json",
     FLIP_BIT,
     DGL_HASH_BLAKE3,
     DGL_ERR_INTEGRITY,
     {"generation_config.json: sha256 is", "files.generation_config.json"}},
};

static void file_damage(const char *dir, const char *name, enum damage damage)
{
    char *path = dgl_path_join(dir, name);
    size_t len;
    char *bytes = tiny_file_read(dir, name, &len);
    switch (damage) {
    case REMOVE:
        assert_int_equal(unlink(path), 0);
        break;
    case EMPTY:
        test_write_file(dir, name, "", 0);
        break;
    case TRUNCATE:
        /* The manifest ends with "}\n": two bytes hurt it. */
        test_write_file(dir, name, bytes, len - (strcmp(name, "manifest.json") == 0 ? 2 : 1));
        break;
    case APPEND:
        test_write_file(dir, name, bytes, len + 1);
        break;
    case FLIP_BIT:
        bytes[len / 2] ^= 4;
        test_write_file(dir, name, bytes, len);
        break;
    case REPLACE_BY_DIR:
        assert_int_equal(unlink(path), 0);
        assert_int_equal(dgl_dir_make(NULL, path), DGL_OK);
        break;
    case REPLACE_BY_FIFO:
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        break;
    }
    free(bytes);
    free(path);
}

static void damage_is_found(void **state)
{
    const struct bad_file *row = *state;
    char *dir = test_tmpdir();
    struct tiny_pack pack = tiny_pack_default();
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    pack.hash = row->hash;
    tiny_pack_write(dir, &pack);
    file_damage(dir, row->file, row->damage);
    enum dgl_status status = pack_open(&log.log, dir, true);
    assert_refusal(&log, status, row->status, row->parts);
    test_tmpdir_remove(dir);
}

/* ---- verify ---- */

static bool count_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    uint64_t *last = priv;
    assert_string_equal(what, "bytes");
    assert_true(done >= *last && done <= total);
    *last = done;
    return true;
}

static void verify_counts_files_and_bytes(void **state)
{
    const char *dir = *state;
    struct dgl_verify_result result = {.size = sizeof(result)};
    uint64_t last = 0;
    const struct dgl_verify_params params = {
        .path = dir, .cache_dir = "", .progress_cb = count_progress, .progress_priv = &last};
    assert_int_equal(dgl_verify(NULL, &params, &result), DGL_OK);
    assert_int_equal(result.bytes, last);
    size_t len;
    free(tiny_file_read(dir, "generation_config.json", &len));
    struct rdrr_pack *opened = NULL;
    assert_int_equal(rdrr_pack_open(NULL, &blob_files, dir, &opened), DGL_OK);
    assert_int_equal(result.files, opened->manifest.num_shards + 1);
    assert_int_equal(result.bytes, opened->manifest.total_size + len);
    rdrr_pack_close(&opened);
}

static bool cancel_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    return ++*(int *)priv < 2;
}

static void verify_can_be_cancelled(void **state)
{
    const char *dir = *state;
    struct dgl_verify_result result = {.size = sizeof(result)};
    struct dgl_model_file *file = NULL;
    int calls = 0;
    const struct dgl_verify_params params = {
        .path = dir, .cache_dir = "", .progress_cb = cancel_progress, .progress_priv = &calls};
    assert_int_equal(dgl_verify(NULL, &params, &result), DGL_ERR_CANCELLED);
    assert_int_equal(calls, 2);
    calls = 0;
    const struct model_open_params open = {
        .path = dir, .verify = true, .progress_cb = cancel_progress, .progress_priv = &calls};
    assert_int_equal(model_file_open(NULL, &open, &file), DGL_ERR_CANCELLED);
    assert_null(file);
}

/* Without verification a flipped bit is not detected, as documented for DGL_HASH_NEVER. */
static void open_without_verification_reads_no_shard(void **state)
{
    const char *dir = *state;
    file_damage(dir, "shard_00001.bin", FLIP_BIT);
    assert_int_equal(pack_open(NULL, dir, false), DGL_OK);
}

static void tokenizer_that_is_not_listed(void **state)
{
    const char *dir = *state;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    test_write_file(dir, "tokenizer.json", "{}", 2);
    assert_int_equal(pack_open(&log.log, dir, false), DGL_ERR_FORMAT);
    assert_contains(log.text, "tokenizer.json");
    assert_contains(log.text, "manifest.json");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, pack_setup, pack_teardown)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(manifest_facts),
        CASE(hints_without_an_origin_are_pinned_in_packs_of_ours),
        CASE(pack_of_another_converter),
        CASE(threads_may_read_together),
        CASE(verify_counts_files_and_bytes),
        CASE(verify_can_be_cancelled),
        CASE(open_without_verification_reads_no_shard),
        CASE(tokenizer_that_is_not_listed),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    failures += test_run_table("packs", pack_is_read, good_packs);
    failures += test_run_table("files", damage_is_found, bad_files);
    return failures;
}
