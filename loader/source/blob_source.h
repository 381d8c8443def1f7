/*
 * blob_source.h: the interface to the storage of a model's files. Packs, GGUF and safetensors read
 * every file through a blob_source; blob_files, the file system, is its first implementation.
 */
#ifndef DGL_LOADER_BLOB_SOURCE_H
#define DGL_LOADER_BLOB_SOURCE_H

#include "core/base/status.h"

struct blob_source;

/* One open file. A zeroed blob is closed. */
struct blob {
    const struct blob_source *source; /* NULL if the blob is closed */
    void *impl;                       /* private data of the source */
    const char *name;                 /* for messages; valid while the blob is open */
    uint64_t size;
};

/* An implementation with state begins with this struct. The source is borrowed by everything that
 * is opened through it. Names are paths with '/'. Every function may be called from several
 * threads. Each logs its own errors. */
struct blob_source {
    /* Sets *found. A source that cannot tell fails, so absent differs from failed. */
    enum dgl_status (*find)(const struct blob_source *source, const struct dgl_log *log,
                            const char *name, bool *found);
    /* `hash`: SHA-256 of the content in lower-case hex, by which a source may look the file up, or
     * NULL if it is unknown. The caller compares contents with hashes, not the source. An absent
     * file is DGL_ERR_IO. */
    enum dgl_status (*open)(const struct blob_source *source, const struct dgl_log *log,
                            const char *name, const char *hash, struct blob *out);
    /* Reads exactly `size` bytes at `offset`; fewer bytes are DGL_ERR_IO. */
    enum dgl_status (*read)(const struct blob *blob, const struct dgl_log *log, uint64_t offset,
                            void *dst, size_t size);
    void (*close)(struct blob *blob);
    /* Lists the entries of a folder, sorted. An absent folder has no entries. Free with
     * dgl_names_free(). */
    enum dgl_status (*list)(const struct blob_source *source, const struct dgl_log *log,
                            const char *dir, char ***names, size_t *count);
};
/* The file system: names are paths as open() accepts them. */
extern const struct blob_source blob_files;

/* Leaves *out closed on failure. */
enum dgl_status blob_open(const struct dgl_log *log, const struct blob_source *source,
                          const char *name, const char *hash, struct blob *out);
enum dgl_status blob_read(const struct dgl_log *log, const struct blob *blob, uint64_t offset,
                          void *dst, size_t size);
void blob_close(struct blob *blob);
/* Reads the whole file and appends a NUL. A file larger than `max` is DGL_ERR_FORMAT. The caller
 * frees *text. */
enum dgl_status blob_load(const struct dgl_log *log, const struct blob_source *source,
                          const char *name, size_t max, char **text, size_t *len);

#endif
