/* Reads files with pread into memory of the caller, so a file that shrinks meanwhile causes an
 * error and not a SIGBUS. Files are written atomically: readers see a complete file or no file. */
#ifndef DGL_BASE_FILE_H
#define DGL_BASE_FILE_H

#include "core/base/status.h"
#include "core/base/str.h"

struct dgl_file; /* open for reading; pread is safe from several threads */
enum dgl_status dgl_file_open(const struct dgl_log *log, const char *path, struct dgl_file **out);
void dgl_file_close(struct dgl_file **file);
uint64_t dgl_file_size(const struct dgl_file *file);
const char *dgl_file_path(const struct dgl_file *file);
/* Identifies one state of a file. Writing to the file changes its times. */
struct dgl_file_stamp {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns; /* since 1970 */
};
/* Reads the current stamp of the file. Returns false if stat fails. */
bool dgl_file_stamp(const struct dgl_file *file, struct dgl_file_stamp *out);
/* Reads exactly `size` bytes at `offset`. If the file is shorter, fails with DGL_ERR_IO and names
 * both sizes. */
enum dgl_status dgl_file_read(const struct dgl_log *log, const struct dgl_file *file,
                              uint64_t offset, void *dst, size_t size);

/* Reads a whole regular file and appends a NUL. Files larger than `max` are DGL_ERR_FORMAT. The
 * caller frees *text. */
enum dgl_status dgl_file_slurp(const struct dgl_log *log, const char *path, size_t max, char **text,
                               size_t *len);
/* Like dgl_file_slurp(), but accepts pipes and devices, and waits for them. If a signal ends the
 * wait, returns DGL_ERR_CANCELLED. */
enum dgl_status dgl_stream_slurp(const struct dgl_log *log, const char *path, size_t max,
                                 char **text, size_t *len);
/* Reads the rest of an open file. Consumes `fd`, also on failure. `path` is only used in
 * messages. */
enum dgl_status dgl_fd_slurp(const struct dgl_log *log, int fd, const char *path, size_t max,
                             char **text, size_t *len);
bool dgl_path_exists(const char *path);
bool dgl_path_present(const char *path); /* true if the path exists, or is a dangling link */
bool dgl_path_is_dir(const char *path);
bool dgl_path_is_link(const char *path);
/* Returns the path to replace if a user names `path`: the target of a link, such as /dev/stdout,
 * and not the link. Returns a copy of `path` if it does not exist or is a dangling link. The caller
 * frees it. Returns NULL if memory is exhausted. */
char *dgl_path_target(const char *path);
/* Returns dir + "/" + name. The caller frees it. Returns NULL if memory is exhausted. */
char *dgl_path_join(const char *dir, const char *name);
/* Returns true for a name that a manifest or index may use: 1 to 255 bytes, no '/', no NUL, not "."
 * or "..". */
bool dgl_name_is_safe(const char *name, size_t len);
/* Returns true for a path that a file of a folder may name: relative, without "..", of names that
 * are safe, or empty or ".". */
bool dgl_path_is_inside(const char *path, size_t len);
/* Lists the names of a directory's entries, sorted, without "." and "..". Free them with
 * dgl_names_free(). */
enum dgl_status dgl_dir_list(const struct dgl_log *log, const char *path, char ***names,
                             size_t *count);
void dgl_names_free(char **names, size_t count);
/* Creates a directory and its parents, mode 0700, as the XDG specification requires for caches and
 * state. An existing directory keeps its mode. */
enum dgl_status dgl_dir_make(const struct dgl_log *log, const char *path);
void dgl_dir_remove(const char *path); /* recursively, best effort, never follows links */

/* Writes a temporary next to `path`. Commit renames it to `path`. Abort, or commit after a failed
 * write, removes it. */
struct dgl_atomic_file;
enum dgl_status dgl_atomic_create(const struct dgl_log *log, const char *path,
                                  struct dgl_atomic_file **out);
/* Like dgl_atomic_create(), but always with mode 0600, even if the replaced file had another one.
 * For private text of the user. */
enum dgl_status dgl_atomic_create_private(const struct dgl_log *log, const char *path,
                                          struct dgl_atomic_file **out);
/* Like dgl_atomic_create(), but for `name` in the open directory `dir`, which must stay open until
 * commit or abort. The mode is 0600. A link is replaced, and its target does not change. */
enum dgl_status dgl_atomic_create_at(const struct dgl_log *log, int dir, const char *name,
                                     struct dgl_atomic_file **out);
enum dgl_status dgl_atomic_write(struct dgl_atomic_file *file, const void *bytes,
                                 size_t len); /* DGL_ERR_IO if the disk is full */
/* Syncs and renames the file. Consumes *file, also on failure. */
enum dgl_status dgl_atomic_commit(struct dgl_atomic_file **file);
/* Replaces the file at `path` by `len` bytes, atomically. */
enum dgl_status dgl_atomic_store(const struct dgl_log *log, const char *path, const void *bytes,
                                 size_t len);
/* Removes temporaries of `path` that killed processes have left. */
void dgl_atomic_sweep(const struct dgl_log *log, const char *path);
void dgl_atomic_abort(struct dgl_atomic_file **file);

#endif
