/*
 * hash_cache.h: remembers verified files. A later run recognises an unchanged file by device,
 * inode, size, and the times of modification and change. The last 4096 entries are stored in the
 * record file `hashes` (core/base/record_file.h). No function fails: without a cache folder no file
 * is known.
 */
#ifndef DGL_LOADER_HASH_CACHE_H
#define DGL_LOADER_HASH_CACHE_H

#include "core/base/file.h"
#include "core/base/hash.h"

/* hash_cache_knows() may be called from several threads, but not at the same time as another
 * function. */
struct hash_cache;

/* Reads the hashes of the cache folder `path`. Returns NULL if it is NULL or
 * memory is exhausted. */
struct hash_cache *hash_cache_open(const struct dgl_log *log, const char *path);
bool hash_cache_knows(const struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                      enum dgl_hash_kind kind, const char *hash);
/* Adds a file. Its stamp was read before it was hashed and had not changed afterwards. Ignores a
 * file that was written less than two seconds ago, because another write could leave its times
 * unchanged. */
void hash_cache_add(struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                    enum dgl_hash_kind kind, const char *hash);
/* Stores the added files and frees the cache. Accepts NULL in *cache. */
void hash_cache_close(struct hash_cache **cache);

#endif
