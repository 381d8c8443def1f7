/*
 * blob_source.h: reading the files of a model from a struct dgl_source. Packs, GGUF and safetensors
 * read every file this way; blob_files, the file system, is the first source. These functions log
 * the errors of a source.
 */
#ifndef DGL_LOADER_BLOB_SOURCE_H
#define DGL_LOADER_BLOB_SOURCE_H

#include "core/base/file.h"

/* The file system: names are paths as open() accepts them. */
extern const struct dgl_source blob_files;
/* Sets *out to the caller's source, or to blob_files if `given` is NULL. Returns
 * DGL_ERR_INVALID_ARG if a function of the source is missing. */
enum dgl_status blob_source_choose(const struct dgl_log *log, const struct dgl_source *given,
                                   const struct dgl_source **out);

/* One open file. A zeroed blob is closed. */
struct blob {
    const struct dgl_source *source; /* NULL if the blob is closed */
    void *file;                      /* of the source */
    char *name;                      /* for messages */
    uint64_t size;
};

/* Sets *entry. Returns an error if the source cannot tell: absent differs from failed. */
enum dgl_status blob_find(const struct dgl_log *log, const struct dgl_source *source,
                          const char *name, enum dgl_entry *entry);
/* blob_find() for a file or folder `name` in the folder `dir`. */
enum dgl_status blob_find_in(const struct dgl_log *log, const struct dgl_source *source,
                             const char *dir, const char *name, bool *found);
/* Returns true if the source finds a folder of this name. */
bool blob_is_folder(const struct dgl_source *source, const char *name);
/* Opens a file. `hash` is the SHA-256 of its content in lower-case hex, by which the source may
 * look it up, or NULL. The caller compares the content with the hash. Leaves *out closed on
 * failure. */
enum dgl_status blob_open(const struct dgl_log *log, const struct dgl_source *source,
                          const char *name, const char *hash, struct blob *out);
enum dgl_status blob_read(const struct dgl_log *log, const struct blob *blob, uint64_t offset,
                          void *dst, size_t size);
void blob_close(struct blob *blob);
/* Sets the stamp of the file (core/base/file.h). Returns false if the source is not blob_files. */
bool blob_stamp(const struct blob *blob, struct dgl_file_stamp *out);
/* Reads the whole file and appends a NUL. A file larger than `max` is DGL_ERR_FORMAT. The caller
 * frees *text. */
enum dgl_status blob_load(const struct dgl_log *log, const struct dgl_source *source,
                          const char *name, size_t max, char **text, size_t *len);
/* Lists the entries of a folder, sorted. An absent folder has no entries. Free with
 * dgl_names_free(). */
enum dgl_status blob_list(const struct dgl_log *log, const struct dgl_source *source,
                          const char *dir, char ***names, size_t *count);

#endif
