/* What the cache folder holds: one row per kind of file. A file is ours when its name fits a row
 * and dgl_cache_stat() takes it; all others there are left alone. */
#ifndef DGL_BASE_CACHE_KIND_H
#define DGL_BASE_CACHE_KIND_H

#include "core/base/str.h"

/* Names of files: 64 hexadecimal digits and a suffix, or one fixed name. */
struct dgl_cache_kind {
    const char *name;   /* for people: "programs" */
    const char *suffix; /* ".prog"; NULL = `file` */
    const char *file;   /* "hashes" */
    const char *what;   /* what is lost when it is deleted */
    bool records; /* a record file (core/base/record_file.h); else a file of gl/gl_progcache.c */
    bool trimmed; /* with the programs, oldest first, when they grow too many */
};
extern const struct dgl_cache_kind dgl_cache_kinds[];
extern const size_t dgl_cache_num_kinds;

/* Layout of a file of gl/gl_progcache.c: the version is one byte. Device and driver for people are
 * "RENDERER, VERSION", NUL-padded. */
#define DGL_CACHE_VERSION_AT   8
#define DGL_CACHE_VERSION      2
#define DGL_CACHE_DEVICE_AT    152
#define DGL_CACHE_DEVICE_BYTES 256

/* The kind of a file by its name, also of one that a process which was killed left half written
 * (core/base/temp_name.h); NULL: it is not ours. */
const struct dgl_cache_kind *dgl_cache_kind_of(const char *name);

#endif
