/* Hashing a pack's files once per change: the stored results, the files without one, and their use
 * when the pack is verified. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "loader/model/hash_cache.h"
#include "loader/model/model_file.h"
#include "loader/rdrr/rdrr_reader.h"
#include "tests/support/record_edit.h"
#include "tests/support/tiny_model.h"

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* ---- the cache ------------------------------------------------------------------------------- */

/* The stamp of an old file; each `i` is another file. */
static struct dgl_file_stamp stamp_of(uint64_t i)
{
    return (struct dgl_file_stamp){
        .device = 7, .inode = 1000 + i, .size = 5, .modified_ns = 11, .changed_ns = 12};
}

static bool knows(const char *dir, struct dgl_file_stamp stamp, enum dgl_hash_kind kind,
                  const char *hash)
{
    struct hash_cache *cache = hash_cache_open(NULL, dir);
    bool known = hash_cache_knows(cache, &stamp, kind, hash);
    hash_cache_close(&cache);
    return known;
}

static void add(const char *dir, uint64_t from, uint64_t to)
{
    struct hash_cache *cache = hash_cache_open(NULL, dir);
    for (uint64_t i = from; i < to; i++) {
        struct dgl_file_stamp stamp = stamp_of(i);
        hash_cache_add(cache, &stamp, DGL_HASH_SHA256, HASH_A);
    }
    hash_cache_close(&cache);
}

static void every_part_of_a_stamp_counts(void **state)
{
    char *base = test_tmpdir(), *dir = dgl_path_join(base, "cache/inner");
    struct dgl_file_stamp s = stamp_of(1);
    struct stat st;
    (void)state;
    assert_false(knows(dir, s, DGL_HASH_SHA256, HASH_A));
    add(dir, 1, 2);
    assert_true(knows(dir, s, DGL_HASH_SHA256, HASH_A));
    assert_false(knows(dir, s, DGL_HASH_SHA256, HASH_B));
    assert_false(knows(dir, s, DGL_HASH_BLAKE3, HASH_A));
    uint64_t *const parts[] = {&s.device, &s.inode, &s.size};
    for (size_t i = 0; i < 3; i++) {
        *parts[i] += 1;
        assert_false(knows(dir, s, DGL_HASH_SHA256, HASH_A));
        *parts[i] -= 1;
    }
    int64_t *const times[] = {&s.modified_ns, &s.changed_ns};
    for (size_t i = 0; i < 2; i++) {
        *times[i] += 1;
        assert_false(knows(dir, s, DGL_HASH_SHA256, HASH_A));
        *times[i] -= 1;
    }
    assert_true(knows(dir, s, DGL_HASH_SHA256, HASH_A));
    char *file = dgl_path_join(dir, "hashes");
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    free(file);
    free(dir);
    test_tmpdir_remove(base);
}

static void the_oldest_lines_go(void **state)
{
    char *dir = test_tmpdir();
    (void)state;
    chmod(dir, 0700);
    add(dir, 0, 4000);
    assert_true(knows(dir, stamp_of(0), DGL_HASH_SHA256, HASH_A));
    add(dir, 4000, 4100);
    assert_false(knows(dir, stamp_of(3), DGL_HASH_SHA256, HASH_A));
    assert_true(knows(dir, stamp_of(4), DGL_HASH_SHA256, HASH_A));
    assert_true(knows(dir, stamp_of(4099), DGL_HASH_SHA256, HASH_A));
    add(dir, 10000, 15000);
    assert_false(knows(dir, stamp_of(4099), DGL_HASH_SHA256, HASH_A));
    assert_false(knows(dir, stamp_of(10903), DGL_HASH_SHA256, HASH_A));
    assert_true(knows(dir, stamp_of(10904), DGL_HASH_SHA256, HASH_A));
    test_tmpdir_remove(dir);
}

static void what_is_no_cache_is_replaced(void **state)
{
    static const char *const texts[] = {"",
                                        "dopplergl hashes 1\n7 1001 5 11 12 sha256 " HASH_A "\n",
                                        "dopplergl-hashes-2\nsha256:7:1001 size=5 modified_ns=11 "
                                        "changed_ns=12 hash=" HASH_A "\n"};
    char *dir = test_tmpdir();
    (void)state;
    chmod(dir, 0700);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        test_write_file(dir, "hashes", texts[i], strlen(texts[i]));
        assert_false(knows(dir, stamp_of(1), DGL_HASH_SHA256, HASH_A));
        add(dir, 2, 3);
        assert_true(knows(dir, stamp_of(2), DGL_HASH_SHA256, HASH_A));
        assert_false(knows(dir, stamp_of(1), DGL_HASH_SHA256, HASH_A));
    }
    test_tmpdir_remove(dir);
}

static void a_file_just_written_is_not_remembered(void **state)
{
    char *dir = test_tmpdir();
    struct dgl_file *file = NULL;
    struct dgl_file_stamp stamp;
    (void)state;
    chmod(dir, 0700);
    test_write_file(dir, "fresh", "x", 1);
    char *path = dgl_path_join(dir, "fresh");
    assert_int_equal(dgl_file_open(NULL, path, &file), DGL_OK);
    assert_true(dgl_file_stamp(file, &stamp));
    assert_int_equal(stamp.size, 1);
    struct hash_cache *cache = hash_cache_open(NULL, dir);
    hash_cache_add(cache, &stamp, DGL_HASH_SHA256, HASH_A);
    hash_cache_close(&cache);
    assert_false(knows(dir, stamp, DGL_HASH_SHA256, HASH_A));
    dgl_file_close(&file);
    free(path);
    test_tmpdir_remove(dir);
}

/* ---- packs ----------------------------------------------------------------------------------- */

enum change { NOTHING, FLIP, TOUCH, FORGED };

struct pack_case {
    const char *name;
    enum change change;
    bool remembered; /* a run before has found the files right */
    bool trust;
    enum dgl_status status;
};

/* FORGED: manifest and cache agree on a hash that the file does not have. This shows which calls
 * read the file. */
static const struct pack_case pack_cases[] = {
    {"unchanged", NOTHING, true, true, DGL_OK},
    {"unchanged, always", NOTHING, true, false, DGL_OK},
    {"remembered is not read", FORGED, true, true, DGL_OK},
    {"remembered is read when asked", FORGED, true, false, DGL_ERR_INTEGRITY},
    {"changed is read", FLIP, true, true, DGL_ERR_INTEGRITY},
    {"not remembered is read", FLIP, false, true, DGL_ERR_INTEGRITY},
    {"touched is read, and right", TOUCH, true, true, DGL_OK},
};

static enum dgl_status open_pack(const struct dgl_log *log, const char *dir, const char *cache,
                                 bool trust)
{
    struct dgl_model_file *file = NULL;
    enum dgl_status status =
        model_file_open(log,
                        &(struct model_open_params){
                            .path = dir, .verify = true, .hash_cache = cache, .trust_cache = trust},
                        &file);
    model_file_close(&file);
    return status;
}

/* The old bytes in place, so that the inode stays. */
static void rewrite(const char *dir, const char *name, bool flip)
{
    size_t len;
    char *bytes = tiny_file_read(dir, name, &len), *path = dgl_path_join(dir, name);
    bytes[100] = (char)(bytes[100] ^ (flip ? 1 : 0));
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
    free(bytes);
    free(path);
}

/* Sixteen nibbles of the hash of the shard, in both files. */
static void forge(const char *dir, const char *cache)
{
    struct rdrr_pack *pack = NULL;
    char old[65], forged[65];
    assert_int_equal(rdrr_pack_open(NULL, &blob_files, dir, &pack), DGL_OK);
    memcpy(old, pack->manifest.shards[1].hash, sizeof(old));
    memcpy(forged, old, sizeof(old));
    memset(forged, 'e', 16);
    rdrr_pack_close(&pack);
    tiny_file_replace(dir, "manifest.json", old, forged);
    test_record_edit(cache, "hashes", old, forged);
}

static void pack_is_read_when_it_changed(void **state)
{
    (void)state;
    char *dirs[sizeof(pack_cases) / sizeof(pack_cases[0])];
    char *caches[sizeof(pack_cases) / sizeof(pack_cases[0])];
    const size_t count = sizeof(pack_cases) / sizeof(pack_cases[0]);
    for (size_t i = 0; i < count; i++) {
        struct tiny_pack pack = tiny_pack_default();
        dirs[i] = test_tmpdir();
        caches[i] = test_tmpdir();
        chmod(caches[i], 0700);
        tiny_pack_write(dirs[i], &pack);
    }
    usleep(2100 * 1000); /* files written within the last two seconds are not stored */
    for (size_t i = 0; i < count; i++) {
        const struct pack_case *row = &pack_cases[i];
        struct test_log log;
        test_log_init(&log, DGL_LOG_ERROR);
        if (row->remembered)
            assert_int_equal(open_pack(&log.log, dirs[i], caches[i], true), DGL_OK);
        if (row->change == FORGED)
            forge(dirs[i], caches[i]);
        if (row->change == FLIP || row->change == TOUCH)
            rewrite(dirs[i], "shard_00001.bin", row->change == FLIP);
        enum dgl_status status = open_pack(&log.log, dirs[i], caches[i], row->trust);
        if (status != row->status)
            fail_msg("%s: %s, wanted %s: %s", row->name, dgl_status_str(status),
                     dgl_status_str(row->status), log.text);
        assert_int_equal(log.errors, row->status == DGL_OK ? 0 : 1);
        if (row->status != DGL_OK)
            assert_contains(log.text, "shard_00001.bin");
        test_tmpdir_remove(dirs[i]);
        test_tmpdir_remove(caches[i]);
    }
}

/* Threads find differences in any order. Only the first one of the manifest is reported. */
static void the_first_of_several_is_told(void **state)
{
    char *dir = test_tmpdir();
    struct tiny_pack pack = tiny_pack_default();
    struct rdrr_pack *opened = NULL;
    (void)state;
    pack.shard_bytes = 4096;
    tiny_pack_write(dir, &pack);
    rewrite(dir, "shard_00003.bin", true);
    rewrite(dir, "shard_00005.bin", true);
    rewrite(dir, "shard_00006.bin", true);
    assert_int_equal(rdrr_pack_open(NULL, &blob_files, dir, &opened), DGL_OK);
    assert_true(opened->manifest.num_shards > 7);
    for (int32_t threads = 1; threads <= 8; threads++) {
        struct dgl_verify_result result = {.size = sizeof(result)};
        struct test_log log;
        test_log_init(&log, DGL_LOG_ERROR);
        assert_int_equal(rdrr_verify(&log.log, opened,
                                     &(struct rdrr_verify_params){.threads = threads}, &result),
                         DGL_ERR_INTEGRITY);
        assert_int_equal(log.errors, 1);
        assert_contains(log.text, "shard_00003.bin: sha256 is ");
        assert_contains(log.text, "(shards[3].hash)");
        assert_int_equal(result.files, 3);
    }
    rdrr_pack_close(&opened);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_a_stamp_counts),
        cmocka_unit_test(the_oldest_lines_go),
        cmocka_unit_test(what_is_no_cache_is_replaced),
        cmocka_unit_test(a_file_just_written_is_not_remembered),
        cmocka_unit_test(pack_is_read_when_it_changed),
        cmocka_unit_test(the_first_of_several_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
