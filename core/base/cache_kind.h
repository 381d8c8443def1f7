/* Kinds of files in the cache folder, one row each. A file belongs to us if its name matches a row
 * and dgl_cache_stat() accepts it. All other files in the folder are left alone. */
#ifndef DGL_BASE_CACHE_KIND_H
#define DGL_BASE_CACHE_KIND_H

#include "core/base/str.h"

/* A file name is 64 hexadecimal digits and `suffix`, or `file`. */
struct dgl_cache_kind {
    const char *name;   /* for messages: "programs" */
    const char *suffix; /* ".prog"; NULL if `file` is used */
    const char *file;   /* "hashes"; NULL if `suffix` is used */
    const char *what;   /* effect of deleting the file, for messages */
    bool records;       /* a record file (core/base/record_file.h); else as in gl/gl_progcache.c */
    bool trimmed;       /* if the programs grow too large, deleted with them, oldest first */
};
extern const struct dgl_cache_kind dgl_cache_kinds[];
extern const size_t dgl_cache_num_kinds;

/* File layout of gl/gl_progcache.c. The version is one byte. The device name is "RENDERER,
 * VERSION", padded with NULs. */
#define DGL_CACHE_VERSION_AT   8
#define DGL_CACHE_VERSION      2
#define DGL_CACHE_DEVICE_AT    152
#define DGL_CACHE_DEVICE_BYTES 256

/* Returns the kind of a file by its name. Temporaries of killed processes are recognized too
 * (core/base/temp_name.h). Returns NULL if the file is not ours. */
const struct dgl_cache_kind *dgl_cache_kind_of(const char *name);

#endif
