/* Hashes of files: one record per file and kind of hash. */
#include "loader/model/hash_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/base/record_file.h"

#define SETTLED_NS 2000000000

struct hashed {
    struct dgl_file_stamp stamp;
    char hash[65];
};
#define FIELD(name, type, member, limit)                                                           \
    {                                                                                              \
        name, DGL_FIELD_##type, offsetof(struct hashed, member), limit                             \
    }

static const struct dgl_field fields[] = {
    FIELD("size", U64, stamp.size, UINT64_MAX),
    FIELD("modified_ns", U64, stamp.modified_ns, UINT64_MAX),
    FIELD("changed_ns", U64, stamp.changed_ns, UINT64_MAX),
    FIELD("hash", CHARS, hash, 65),
};

static const struct dgl_record_format format = {.name = "dopplergl-hashes-2",
                                                .suffix = "hashes",
                                                .fields = fields,
                                                .num_fields = sizeof(fields) / sizeof(fields[0]),
                                                .max_records = 4096,
                                                .max_bytes = 4096 * 512};

struct hash_cache {
    const struct dgl_log *log;
    struct dgl_records records;
    int64_t now_ns;
    bool changed;
};

/* A file that changed replaces its record. */
static void key_of(const struct dgl_file_stamp *stamp, enum dgl_hash_kind kind, char key[64])
{
    snprintf(key, 64, "%s:%" PRIu64 ":%" PRIu64, dgl_hash_name(kind), stamp->device, stamp->inode);
}

struct hash_cache *hash_cache_open(const struct dgl_log *log, const char *path)
{
    struct hash_cache *cache = path ? dgl_new(struct hash_cache) : NULL;
    struct timespec now;
    if (!cache)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    cache->log = log;
    cache->now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    dgl_records_open(&cache->records, &format, path, NULL);
    return cache;
}

bool hash_cache_knows(const struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                      enum dgl_hash_kind kind, const char *hash)
{
    struct hashed known;
    char key[64];
    if (!cache)
        return false;
    key_of(stamp, kind, key);
    const struct dgl_record *record = dgl_records_find(&cache->records, key);
    return record && dgl_records_get(&cache->records, record, &known) &&
           known.stamp.size == stamp->size && known.stamp.modified_ns == stamp->modified_ns &&
           known.stamp.changed_ns == stamp->changed_ns && strncmp(known.hash, hash, 64) == 0;
}

void hash_cache_add(struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                    enum dgl_hash_kind kind, const char *hash)
{
    struct hashed found = {.stamp = *stamp};
    int64_t last = stamp->modified_ns > stamp->changed_ns ? stamp->modified_ns : stamp->changed_ns;
    char key[64];
    if (!cache || cache->now_ns - last < SETTLED_NS || hash_cache_knows(cache, stamp, kind, hash))
        return;
    snprintf(found.hash, sizeof(found.hash), "%.64s", hash);
    key_of(stamp, kind, key);
    cache->changed |= dgl_records_put(&cache->records, key, &found);
}

void hash_cache_close(struct hash_cache **pcache)
{
    struct hash_cache *cache = *pcache;
    *pcache = NULL;
    if (!cache)
        return;
    if (cache->changed)
        dgl_records_store(&cache->records, NULL, cache->log);
    dgl_records_finish(&cache->records);
    free(cache);
}
