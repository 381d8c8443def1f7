/* Writes the byte stream of a pack: tensors in order, cut into hashed shard files. Does not depend
 * on models. rdrr_format.h describes the layout. */
#ifndef DGL_LOADER_RDRR_WRITER_H
#define DGL_LOADER_RDRR_WRITER_H

#include "core/base/hash.h"
#include "core/base/status.h"

struct rdrr_writer_params {
    const char *dir;      /* an existing folder; borrowed for the life of the writer */
    uint64_t shard_bytes; /* a multiple of RDRR_ALIGN */
    enum dgl_hash_kind hash;
};
struct rdrr_written_shard {
    uint64_t size;
    char hash[65];
};

struct rdrr_writer;
enum dgl_status rdrr_writer_create(const struct dgl_log *log,
                                   const struct rdrr_writer_params *params,
                                   struct rdrr_writer **out);
/* Pads to the next start of a tensor and sets its offset in the stream. */
enum dgl_status rdrr_writer_begin(struct rdrr_writer *writer, uint64_t *offset);
enum dgl_status rdrr_writer_write(struct rdrr_writer *writer, const void *bytes, size_t len);
/* Completes the last shard. It must be the last write. */
enum dgl_status rdrr_writer_end(struct rdrr_writer *writer);
uint64_t rdrr_writer_size(const struct rdrr_writer *writer); /* of the stream so far */
size_t rdrr_writer_num_shards(const struct rdrr_writer *writer);
const struct rdrr_written_shard *rdrr_writer_shard(const struct rdrr_writer *writer, size_t index);
/* Completed shard files stay; the caller removes the folder. */
void rdrr_writer_destroy(struct rdrr_writer **writer);

#endif
