/* Private folders of cache files. Files that another user could have written are never read, and
 * links are never followed. Cached data can always be made again, so a failure is not an error:
 * reading finds no file, writing stores no file, and the reason is reported. */
#ifndef DGL_BASE_CACHE_DIR_H
#define DGL_BASE_CACHE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "core/base/str.h"

/* Returns the folder of all caches: `given` if it is not NULL, else $XDG_CACHE_HOME/dopplergl, else
 * ~/.cache/dopplergl. The caller frees it. Returns NULL if there is no such folder or memory is
 * exhausted. */
char *dgl_cache_path(const char *given);

/* Opens a cache folder and returns its descriptor; the caller closes it. If the folder is absent
 * and `make` is set, it is created with its parents, mode 0700. A folder that belongs to another
 * user, or that others can write to, is refused. Returns -1 on failure and sets *reason to "PATH:
 * ...", which the caller frees. *reason is NULL if memory is exhausted, or if the folder is absent
 * and `make` is not set. */
int dgl_cache_open(const char *path, bool make, char **reason);

/* Reads the file `name` (without '/') of at most `max` bytes and appends a NUL. The caller
 * frees *bytes. If `used` is set, the modification time is set to now. Returns false if the
 * file is absent, too large, unreadable, not a regular file, owned by another user, or
 * writable by others. */
bool dgl_cache_read(int dir, const char *name, size_t max, bool used, char **bytes, size_t *len);

/* Replaces the file or link `name` by the concatenated `parts`, mode 0600. Readers see either the
 * old file or the complete new one. Returns false and sets errno if the file was not stored. A
 * process killed during the call leaves a temporary whose name starts with `name`. */
bool dgl_cache_write(int dir, const char *name, const struct dgl_str *parts, size_t num_parts);

/* Returns true if the file is a regular file of this user, and sets its size and modification
 * time. */
bool dgl_cache_stat(int dir, const char *name, uint64_t *size, struct timespec *modified);
bool dgl_cache_remove(int dir, const char *name);

#endif
