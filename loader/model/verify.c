/* Hashing the files of a pack. Nothing is remembered between runs: a file's date proves nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "loader/rdrr/rdrr_reader.h"

enum { PIECE = 4 << 20 };

/* One file that must have a hash, and where the manifest says so. */
struct hashed_file {
    const char *name;
    enum dgl_hash_kind kind;
    const char *hash;
    const char *field; /* "shards[3].hash" */
};

struct verifier {
    const struct dgl_log *log;
    const struct rdrr_pack *pack;
    const struct rdrr_verify_params *params;
    struct dgl_verify_result *out;
    uint64_t total;
    unsigned char *piece;
};

static enum dgl_status progress(const struct verifier *v)
{
    if (!v->params->progress_cb ||
        v->params->progress_cb(v->params->progress_priv, "bytes", v->out->bytes, v->total))
        return DGL_OK;
    return dgl_fail(v->log, DGL_ERR_CANCELLED, "%s: verification was cancelled", v->pack->dir);
}

static enum dgl_status hash_stream(struct verifier *v, const struct dgl_file *file,
                                   struct dgl_hash *hash)
{
    uint64_t size = dgl_file_size(file);
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;
        enum dgl_status status = dgl_file_read(v->log, file, at, v->piece, n);
        if (status != DGL_OK)
            return status;
        dgl_hash_update(hash, v->piece, n);
        at += n;
        v->out->bytes += n;
        status = progress(v);
        if (status != DGL_OK)
            return status;
    }
    return DGL_OK;
}

/* The file's hash of one kind, as hex digits. */
static enum dgl_status hash_file(struct verifier *v, const char *path, enum dgl_hash_kind kind,
                                 char found[65])
{
    struct dgl_file *file = NULL;
    struct dgl_hash *hash = dgl_hash_create(kind);
    enum dgl_status status =
        hash ? dgl_file_open(v->log, path, &file) : dgl_fail_memory(v->log, "hash", 65);
    if (status == DGL_OK)
        status = hash_stream(v, file, hash);
    if (status == DGL_OK && !dgl_hash_hex(hash, found))
        status = dgl_fail_memory(v->log, dgl_hash_name(kind), 65);
    dgl_file_close(&file);
    dgl_hash_destroy(&hash);
    return status;
}

/* Some writers of the first generation hashed with blake3 and called it sha256. */
static enum dgl_status try_blake3(struct verifier *v, const char *path,
                                  const struct hashed_file *want, bool *right)
{
    char found[65] = "";
    uint64_t bytes = v->out->bytes;
    *right = false;
    if (!v->pack->manifest.first_generation || want->kind != DGL_HASH_SHA256)
        return DGL_OK;
    enum dgl_status status = hash_file(v, path, DGL_HASH_BLAKE3, found);
    v->out->bytes = bytes;
    *right = status == DGL_OK && strcmp(found, want->hash) == 0;
    if (*right)
        dgl_warn(v->log,
                 "%s: what %s calls its sha256 (%s) is its blake3, as some early converters wrote; "
                 "accepted",
                 path, v->pack->manifest_path, want->field);
    return status;
}

static enum dgl_status verify_file(struct verifier *v, const struct hashed_file *want)
{
    char found[65] = "";
    bool right = false;
    char *path = dgl_path_join(v->pack->dir, want->name);
    enum dgl_status status = path ? hash_file(v, path, want->kind, found)
                                  : dgl_fail_memory(v->log, "path", strlen(want->name));
    if (status == DGL_OK && strcmp(found, want->hash) == 0)
        right = true;
    else if (status == DGL_OK)
        status = try_blake3(v, path, want, &right);
    if (status == DGL_OK && !right)
        status = dgl_fail(v->log, DGL_ERR_INTEGRITY,
                          "%s: %s is %s, but %s says %s (%s); the file is damaged, fetch it again",
                          path, dgl_hash_name(want->kind), found, v->pack->manifest_path,
                          want->hash, want->field);
    v->out->files += status == DGL_OK;
    free(path);
    return status;
}

static enum dgl_status verify_all(struct verifier *v)
{
    const struct rdrr_manifest *m = &v->pack->manifest;
    char field[320];
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < m->num_shards && status == DGL_OK; i++) {
        snprintf(field, sizeof(field), "shards[%zu].hash", i);
        status = verify_file(
            v, &(struct hashed_file){m->shards[i].name, m->hash, m->shards[i].hash, field});
    }
    for (size_t i = 0; i < m->num_copied && status == DGL_OK; i++) {
        const struct rdrr_copied *c = &m->copied[i];
        snprintf(field, sizeof(field), "files.%s.sha256", c->name);
        status = verify_file(v, &(struct hashed_file){c->name, DGL_HASH_SHA256, c->sha256, field});
    }
    return status;
}

enum dgl_status rdrr_verify(const struct dgl_log *log, const struct rdrr_pack *pack,
                            const struct rdrr_verify_params *params, struct dgl_verify_result *out)
{
    struct verifier v = {.log = log, .pack = pack, .params = params, .out = out};
    *out = (struct dgl_verify_result){0};
    v.total = pack->manifest.total_size;
    for (size_t i = 0; i < pack->manifest.num_copied; i++)
        v.total += pack->manifest.copied[i].size; /* few, and each bounded by the parser */
    v.piece = dgl_calloc(1, PIECE);
    if (!v.piece)
        return dgl_fail_memory(log, "hashing buffer", PIECE);
    enum dgl_status status = verify_all(&v);
    free(v.piece);
    return status;
}
