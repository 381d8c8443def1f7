/* Private folders of cache files: what another user could have put there is never read, and a link
 * in a file's place is never followed. Losing a file only costs making it again, so a failure is no
 * error: it is absent, or not stored, with a reason. */
#ifndef DGL_BASE_CACHE_DIR_H
#define DGL_BASE_CACHE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "core/base/str.h"

/* The folder of all caches: `given` unless it is NULL, else $XDG_CACHE_HOME/dopplergl, else
 * ~/.cache/dopplergl. Transferred (free); NULL: there is none, or out of memory. */
char *dgl_cache_path(const char *given);

/* Opens a cache folder; with `make` it is made when absent, with its parents, mode 0700. A folder
 * of another user, or that others may write in, is not used. The result is a descriptor for the
 * calls below, to be closed with close(); -1: `reason`, transferred (free), says why as
 * "PATH: ...". It is NULL when the folder is absent and `make` is false, or without memory. */
int dgl_cache_open(const char *path, bool make, char **reason);

/* Reads the file `name` (without '/') of at most `max` bytes, plus a NUL; *bytes is transferred
 * (free). With `used`, its modification time becomes now. False: absent, a link or no regular file,
 * of another user, writable by others, larger, or not readable. */
bool dgl_cache_read(int dir, const char *name, size_t max, bool used, char **bytes, size_t *len);

/* Replaces the file `name`, also when it is a link, by `parts` in this order, mode 0600: others
 * see the old file or the whole new one. False: not stored, errno says why. A process that
 * dies meanwhile leaves a file whose name begins with `name`. */
bool dgl_cache_write(int dir, const char *name, const struct dgl_str *parts, size_t num_parts);

/* True for a regular file of this user, no link, with its size and modification time. */
bool dgl_cache_stat(int dir, const char *name, uint64_t *size, struct timespec *modified);
bool dgl_cache_remove(int dir, const char *name);

#endif
