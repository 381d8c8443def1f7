/* Writes the byte stream of a pack, cut into hashed shard files. */
#include "loader/rdrr/rdrr_writer.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/rdrr/rdrr_format.h"

struct rdrr_writer {
    const struct dgl_log *log;
    struct rdrr_writer_params params;
    uint64_t size;                /* of the stream */
    struct dgl_atomic_file *file; /* current shard; NULL between shards */
    struct dgl_hash *hash;
    uint64_t filled; /* bytes in it */
    struct rdrr_written_shard *shards;
    size_t num_shards, cap_shards;
};

enum dgl_status rdrr_writer_create(const struct dgl_log *log,
                                   const struct rdrr_writer_params *params,
                                   struct rdrr_writer **out)
{
    struct rdrr_writer *w = dgl_new(struct rdrr_writer);
    *out = w;
    if (!w)
        return dgl_fail_memory(log, "pack writer", sizeof(*w));
    w->log = log;
    w->params = *params;
    return DGL_OK;
}

static enum dgl_status shard_open(struct rdrr_writer *w)
{
    struct dgl_buf path = {0};
    if (w->num_shards == RDRR_MAX_SHARDS)
        return dgl_fail(w->log, DGL_ERR_INVALID_ARG,
                        "%s: more than %d shards of %llu bytes; choose larger shards",
                        w->params.dir, RDRR_MAX_SHARDS, (unsigned long long)w->params.shard_bytes);
    if (!dgl_grow((void **)&w->shards, &w->cap_shards, w->num_shards + 1, sizeof(*w->shards)))
        return dgl_fail_memory(w->log, "list of shards", (w->num_shards + 1) * sizeof(*w->shards));
    w->hash = dgl_hash_create(w->params.hash);
    dgl_buf_puts(&path, w->params.dir);
    dgl_buf_printf(&path, "/" RDRR_SHARD_NAME, (unsigned)w->num_shards);
    if (!w->hash || path.failed) {
        dgl_buf_finish(&path);
        return dgl_fail_memory(w->log, "shard", path.len);
    }
    w->filled = 0;
    enum dgl_status status = dgl_atomic_create(w->log, path.p, &w->file);
    dgl_buf_finish(&path);
    return status;
}

static enum dgl_status shard_close(struct rdrr_writer *w)
{
    struct rdrr_written_shard *shard = &w->shards[w->num_shards];
    shard->size = w->filled;
    if (!dgl_hash_hex(w->hash, shard->hash))
        return dgl_fail(w->log, DGL_ERR_NO_MEMORY, "%s: cannot finish the %s of shard %zu",
                        w->params.dir, dgl_hash_name(w->params.hash), w->num_shards);
    dgl_hash_destroy(&w->hash);
    enum dgl_status status = dgl_atomic_commit(&w->file);
    if (status == DGL_OK)
        w->num_shards++;
    return status;
}

enum dgl_status rdrr_writer_write(struct rdrr_writer *w, const void *bytes, size_t len)
{
    const char *p = bytes;
    enum dgl_status status = DGL_OK;
    while (len > 0) {
        if (!w->file)
            TRY(shard_open(w));
        uint64_t room = w->params.shard_bytes - w->filled;
        size_t part = len < room ? len : (size_t)room;
        TRY(dgl_atomic_write(w->file, p, part));
        dgl_hash_update(w->hash, p, part);
        w->filled += part;
        w->size += part;
        p += part;
        len -= part;
        if (w->filled == w->params.shard_bytes)
            TRY(shard_close(w));
    }
done:
    return status;
}

enum dgl_status rdrr_writer_begin(struct rdrr_writer *w, uint64_t *offset)
{
    static const char zeros[RDRR_ALIGN];
    uint64_t over = w->size % RDRR_ALIGN;
    enum dgl_status status = DGL_OK;
    if (over)
        status = rdrr_writer_write(w, zeros, (size_t)(RDRR_ALIGN - over));
    *offset = w->size;
    return status;
}

enum dgl_status rdrr_writer_end(struct rdrr_writer *w)
{
    return w->file ? shard_close(w) : DGL_OK;
}

uint64_t rdrr_writer_size(const struct rdrr_writer *w)
{
    return w->size;
}

size_t rdrr_writer_num_shards(const struct rdrr_writer *w)
{
    return w->num_shards;
}

const struct rdrr_written_shard *rdrr_writer_shard(const struct rdrr_writer *w, size_t index)
{
    return &w->shards[index];
}

void rdrr_writer_destroy(struct rdrr_writer **writer)
{
    struct rdrr_writer *w = *writer;
    if (!w)
        return;
    dgl_atomic_abort(&w->file);
    dgl_hash_destroy(&w->hash);
    free(w->shards);
    free(w);
    *writer = NULL;
}
