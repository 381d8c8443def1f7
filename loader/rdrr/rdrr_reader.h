/* An open RDRR pack: manifest, hashes, and shards as a tensor_source. */
#ifndef DGL_LOADER_RDRR_READER_H
#define DGL_LOADER_RDRR_READER_H

#include "loader/rdrr/rdrr_manifest.h"
#include "loader/source/blob_source.h"

struct rdrr_pack {
    const struct dgl_source *source;
    char *dir;
    char *manifest_path;
    char manifest_sha256[65];
    struct dgl_json_doc *doc; /* of manifest.json */
    struct rdrr_manifest manifest;
};

/* Reads manifest.json and checks that every file in it exists with its size. rdrr_verify() checks
 * hashes. */
enum dgl_status rdrr_pack_open(const struct dgl_log *log, const struct dgl_source *source,
                               const char *dir, struct rdrr_pack **out);
void rdrr_pack_close(struct rdrr_pack **pack);

/* Consumes the pack (also on failure); it is closed with the source. */
enum dgl_status rdrr_tensors_open(const struct dgl_log *log, struct rdrr_pack *pack,
                                  struct tensor_source **out);

/* Loads a copied text file and verifies its size and hash. *text is NULL if the pack has no such
 * file. The caller frees it with free(). */
enum dgl_status rdrr_copied_load(const struct dgl_log *log, const struct rdrr_pack *pack,
                                 const char *name, char **text, size_t *len);

/* Compares every shard and copied file with its hash, several at once; the first difference, in
 * the manifest's order, is DGL_ERR_INTEGRITY. */
struct rdrr_verify_params {
    const char *cache_dir; /* where right files are remembered (loader/model/hash_cache.h); NULL =
                              nowhere */
    bool trust;            /* files in the cache are not read again */
    int32_t threads;       /* 0 = one per processor */
    dgl_progress_cb progress_cb; /* may be NULL */
    void *progress_priv;
};
enum dgl_status rdrr_verify(const struct dgl_log *log, const struct rdrr_pack *pack,
                            const struct rdrr_verify_params *params, struct dgl_verify_result *out);

#endif
