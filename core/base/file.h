/* Files are read with pread into memory that the caller owns: a file that shrinks under us is an
 * error, not a SIGBUS. Written files appear complete or not at all. */
#ifndef DGL_BASE_FILE_H
#define DGL_BASE_FILE_H

#include "core/base/status.h"
#include "core/base/str.h"

struct dgl_file; /* open for reading; pread is safe from several threads */
enum dgl_status dgl_file_open(const struct dgl_log *log, const char *path, struct dgl_file **out);
void dgl_file_close(struct dgl_file **file);
uint64_t dgl_file_size(const struct dgl_file *file);
const char *dgl_file_path(const struct dgl_file *file);
/* Tells one state of a file from another: whoever writes to it changes the times. */
struct dgl_file_stamp {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns; /* since 1970 */
};
/* The file's stamp now; false: it cannot be told. */
bool dgl_file_stamp(const struct dgl_file *file, struct dgl_file_stamp *out);
/* Exactly `size` bytes at `offset`; a shorter file is DGL_ERR_IO naming both sizes. */
enum dgl_status dgl_file_read(const struct dgl_log *log, const struct dgl_file *file,
                              uint64_t offset, void *dst, size_t size);

/* The whole regular file plus a NUL; larger than `max` is DGL_ERR_FORMAT. Transfers *text
 * (free). */
enum dgl_status dgl_file_slurp(const struct dgl_log *log, const char *path, size_t max, char **text,
                               size_t *len);
/* As dgl_file_slurp(), also for pipes and devices: waits for them. A signal that ends the wait is
 * DGL_ERR_CANCELLED. */
enum dgl_status dgl_stream_slurp(const struct dgl_log *log, const char *path, size_t max,
                                 char **text, size_t *len);
/* The rest of an open file. Consumes `fd`, also on failure; `path` is for messages. */
enum dgl_status dgl_fd_slurp(const struct dgl_log *log, int fd, const char *path, size_t max,
                             char **text, size_t *len);
bool dgl_path_exists(const char *path);
bool dgl_path_present(const char *path); /* exists, or is a link to nothing */
bool dgl_path_is_dir(const char *path);
bool dgl_path_is_link(const char *path);
/* The path to replace when a user names `path`: the target of a link, not the link (/dev/stdout is
 * one); `path` itself when it does not exist yet or is a link to nothing. Transferred (free); NULL:
 * out of memory. */
char *dgl_path_target(const char *path);
/* dir + "/" + name. Transferred (free); NULL: out of memory. */
char *dgl_path_join(const char *dir, const char *name);
/* A name that a manifest or index may use: 1 to 255 bytes, no '/', no NUL, not "." or "..". */
bool dgl_name_is_safe(const char *name, size_t len);
/* Sorted names of a directory's entries (without "." and ".."); free with dgl_names_free. */
enum dgl_status dgl_dir_list(const struct dgl_log *log, const char *path, char ***names,
                             size_t *count);
void dgl_names_free(char **names, size_t count);
/* With its parents, all private (mode 0700): the XDG specification wants that of folders for caches
 * and state. A folder that exists keeps its mode. */
enum dgl_status dgl_dir_make(const struct dgl_log *log, const char *path);
void dgl_dir_remove(const char *path); /* recursively, best effort, never follows links */

/* Writes a temporary next to `path`, renames it over `path` on commit, removes it on abort or after
 * a failed write. */
struct dgl_atomic_file;
enum dgl_status dgl_atomic_create(const struct dgl_log *log, const char *path,
                                  struct dgl_atomic_file **out);
/* As dgl_atomic_create(), with mode 0600 whatever the replaced file had: for a user's own words. */
enum dgl_status dgl_atomic_create_private(const struct dgl_log *log, const char *path,
                                          struct dgl_atomic_file **out);
/* As dgl_atomic_create(), for `name` in the open directory `dir` (borrowed until commit or abort):
 * replaces a link, whose target keeps its content, and the mode is 0600. */
enum dgl_status dgl_atomic_create_at(const struct dgl_log *log, int dir, const char *name,
                                     struct dgl_atomic_file **out);
enum dgl_status dgl_atomic_write(struct dgl_atomic_file *file, const void *bytes,
                                 size_t len); /* DGL_ERR_IO when full */
/* fsync and rename. Consumes *file, also on failure. */
enum dgl_status dgl_atomic_commit(struct dgl_atomic_file **file);
/* Replaces the file at `path` by `len` bytes, as a whole or not at all. */
enum dgl_status dgl_atomic_store(const struct dgl_log *log, const char *path, const void *bytes,
                                 size_t len);
/* Removes the temporaries of this path whose process was killed. */
void dgl_atomic_sweep(const struct dgl_log *log, const char *path);
void dgl_atomic_abort(struct dgl_atomic_file **file);

#endif
