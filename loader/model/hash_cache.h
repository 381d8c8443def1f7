/*
 * hash_cache.h: files that were found to have a hash, remembered over runs by what tells one state
 * of a file from another: device, inode, size, times of modification and of change. The file
 * `hashes` of a private cache folder (core/base/cache_dir.h), a line each:
 *     dopplergl hashes 1
 *     DEVICE INODE SIZE MODIFIED_NS CHANGED_NS sha256|blake3 HEX
 * Oldest first, the last 4096. Several processes may read and replace it: the last writer wins, and
 * a line that is lost costs hashing once more. Nothing here fails: without a folder, nothing is
 * known.
 */
#ifndef DGL_LOADER_HASH_CACHE_H
#define DGL_LOADER_HASH_CACHE_H

#include "core/base/file.h"
#include "core/base/hash.h"

/* Thread-safety: hash_cache_knows() from several threads, as long as nothing else is called. */
struct hash_cache;

/* Reads the remembered hashes of the folder; NULL: `path` is NULL, or no memory. */
struct hash_cache *hash_cache_open(const struct dgl_log *log, const char *path);
bool hash_cache_knows(const struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                      enum dgl_hash_kind kind, const char *hash);
/* Remembers a file whose stamp was read before it was hashed and had not changed afterwards. Not
 * one that was written less than two seconds before: the next write could leave its times as they
 * are. */
void hash_cache_add(struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                    enum dgl_hash_kind kind, const char *hash);
/* Writes what was added, and frees the cache. Accepts NULL in *cache. */
void hash_cache_close(struct hash_cache **cache);

#endif
