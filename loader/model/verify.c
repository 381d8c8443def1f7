/* Comparing the files of a pack with their hashes, several at once. Files that are remembered as
 * right, and have not changed since, need not be read (hash_cache.h). */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "loader/model/hash_cache.h"
#include "loader/rdrr/rdrr_reader.h"

enum { PIECE = 1 << 20 };

/* A file, its expected hash, and the field of the manifest that has it. */
struct hashed_file {
    const char *name;
    enum dgl_hash_kind kind;
    const char *hash;
    uint64_t size;
    char field[320]; /* "shards[3].hash" */
    char found[65];  /* "" = not hashed yet, or hashing failed */
    struct dgl_file_stamp stamp;
    bool settled; /* the file did not change while it was read */
};

struct verifier {
    const struct dgl_log *log;
    const struct rdrr_pack *pack;
    const struct rdrr_verify_params *params;
    struct hash_cache *cache;
    struct hashed_file *files; /* [count] */
    size_t count;
    uint64_t total;
    atomic_ullong bytes; /* done */
    atomic_bool stop;    /* the caller cancels */
    pthread_t caller;    /* the only thread that reports progress */
};

static void tell_progress(struct verifier *v)
{
    uint64_t done = atomic_load(&v->bytes);
    if (v->params->progress_cb && pthread_equal(v->caller, pthread_self()) && !v->stop &&
        !v->params->progress_cb(v->params->progress_priv, "bytes",
                                done < v->total ? done : v->total, v->total))
        v->stop = true;
}

/* Sets file->found to the hash of the file, or to the remembered hash. */
static enum dgl_status hash_file(struct verifier *v, const struct dgl_log *log,
                                 struct hashed_file *file, enum dgl_hash_kind kind)
{
    const bool known = file->kind == DGL_HASH_SHA256 && !v->pack->manifest.first_generation;
    struct blob blob = {0};
    struct dgl_file_stamp after;
    struct dgl_hash *hash = NULL;
    unsigned char *piece = NULL;
    char *path = dgl_path_join(v->pack->dir, file->name);
    enum dgl_status status;
    file->found[0] = '\0';
    TRY(path ? blob_open(log, v->pack->source, path, known ? file->hash : NULL, &blob)
             : dgl_fail_memory(log, "path", strlen(file->name)));
    const uint64_t size = blob.size;
    if (size != file->size)
        TRY(dgl_fail(log, DGL_ERR_INTEGRITY,
                     "%s has %" PRIu64 " bytes, but %s says %" PRIu64
                     "; the file is damaged, fetch it again",
                     path, size, v->pack->manifest_path, file->size));
    bool stamped = blob_stamp(&blob, &file->stamp);
    if (v->params->trust && stamped && hash_cache_knows(v->cache, &file->stamp, kind, file->hash)) {
        memcpy(file->found, file->hash, sizeof(file->found));
        atomic_fetch_add(&v->bytes, size);
        tell_progress(v);
        goto done;
    }
    hash = dgl_hash_create(kind);
    piece = dgl_calloc(1, PIECE);
    if (!hash || !piece)
        TRY(dgl_fail_memory(log, "hash", PIECE));
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;
        TRY(v->stop ? DGL_ERR_CANCELLED : blob_read(log, &blob, at, piece, n));
        dgl_hash_update(hash, piece, n);
        at += n;
        atomic_fetch_add(&v->bytes, n);
        tell_progress(v);
    }
    if (!dgl_hash_hex(hash, file->found)) {
        file->found[0] = '\0';
        TRY(dgl_fail_memory(log, dgl_hash_name(kind), 65));
    }
    file->settled =
        stamped && blob_stamp(&blob, &after) && memcmp(&file->stamp, &after, sizeof(after)) == 0;
done:
    blob_close(&blob);
    dgl_hash_destroy(&hash);
    free(piece);
    free(path);
    return status;
}

/* Logs no error. judge_file() repeats a failed file in order and logs it. */
static enum dgl_status hash_item(void *ctx, size_t index)
{
    struct verifier *v = ctx;
    struct hashed_file *file = &v->files[index];
    enum dgl_status status = hash_file(v, NULL, file, file->kind);
    if (status == DGL_OK && strcmp(file->found, file->hash) != 0 &&
        !v->pack->manifest.first_generation)
        status = DGL_ERR_INTEGRITY; /* stops the other threads */
    return status;
}

/* Compares the hash of a file. Hashes it first if that failed before or did not happen. */
static enum dgl_status judge_file(struct verifier *v, struct hashed_file *file)
{
    enum dgl_status status = DGL_OK;
    if (!file->found[0])
        status = hash_file(v, v->log, file, file->kind);
    if (status != DGL_OK)
        return status;
    if (strcmp(file->found, file->hash) == 0) {
        if (file->settled)
            hash_cache_add(v->cache, &file->stamp, file->kind, file->hash);
        return DGL_OK;
    }
    char wrong[65];
    memcpy(wrong, file->found, sizeof(wrong));
    /* Some writers of the first generation stored a BLAKE3 hash as sha256. */
    if (v->pack->manifest.first_generation && file->kind == DGL_HASH_SHA256) {
        status = hash_file(v, v->log, file, DGL_HASH_BLAKE3);
        if (status == DGL_OK && strcmp(file->found, file->hash) == 0) {
            dgl_warn(v->log,
                     "%s/%s: what %s calls its sha256 (%s) is its blake3, as some early converters "
                     "wrote; accepted",
                     v->pack->dir, file->name, v->pack->manifest_path, file->field);
            return DGL_OK;
        }
    }
    return status != DGL_OK
               ? status
               : dgl_fail(v->log, DGL_ERR_INTEGRITY,
                          "%s/%s: %s is %s, but %s says %s (%s); the file is damaged, fetch it "
                          "again",
                          v->pack->dir, file->name, dgl_hash_name(file->kind), wrong,
                          v->pack->manifest_path, file->hash, file->field);
}

enum dgl_status rdrr_verify(const struct dgl_log *log, const struct rdrr_pack *pack,
                            const struct rdrr_verify_params *params, struct dgl_verify_result *out)
{
    const struct rdrr_manifest *m = &pack->manifest;
    struct verifier v = {.log = log,
                         .pack = pack,
                         .params = params,
                         .count = m->num_shards + m->num_copied,
                         .total = m->total_size,
                         .caller = pthread_self()};
    *out = (struct dgl_verify_result){0};
    v.files = dgl_new_array(struct hashed_file, v.count);
    if (!v.files)
        return dgl_fail_memory(log, "files of a pack", v.count * sizeof(*v.files));
    for (size_t i = 0; i < m->num_shards; i++) {
        v.files[i] = (struct hashed_file){.name = m->shards[i].name,
                                          .kind = m->hash,
                                          .hash = m->shards[i].hash,
                                          .size = m->shards[i].size};
        snprintf(v.files[i].field, sizeof(v.files[i].field), "shards[%zu].hash", i);
    }
    for (size_t i = 0; i < m->num_copied; i++) {
        struct hashed_file *file = &v.files[m->num_shards + i];
        *file = (struct hashed_file){.name = m->copied[i].name,
                                     .kind = DGL_HASH_SHA256,
                                     .hash = m->copied[i].sha256,
                                     .size = m->copied[i].size};
        snprintf(file->field, sizeof(file->field), "files.%s.sha256", m->copied[i].name);
        v.total += m->copied[i].size; /* few, and each bounded by the parser */
    }
    v.cache = hash_cache_open(log, params->cache_dir);
    tell_progress(&v);
    enum dgl_status status = DGL_OK;
    if (!v.stop)
        dgl_parallel_for(params->threads, v.count, hash_item, &v);
    for (size_t i = 0; i < v.count && !v.stop; i++) {
        TRY(judge_file(&v, &v.files[i]));
        out->files++;
        out->bytes += v.files[i].size;
    }
done:
    if (status == DGL_OK)
        tell_progress(&v);
    if (v.stop)
        status = dgl_fail(log, DGL_ERR_CANCELLED, "%s: verification was cancelled", v.pack->dir);
    hash_cache_close(&v.cache);
    free(v.files);
    return status;
}
