/* Names of temporaries, next to the file or folder that they become: PATH.tmp-PID-HEX. */
#ifndef DGL_BASE_TEMP_NAME_H
#define DGL_BASE_TEMP_NAME_H

#include "core/base/status.h"

/* A name that most likely does not exist. Transferred (free); NULL: out of memory. */
char *dgl_temp_name(const char *path);
/* Marks an open temporary as in use until it is closed. */
void dgl_temp_lock(int fd);
/* Removes the temporaries of `path` that belong to no process any more, best effort: regular files
 * and folders of this user, with exactly such a name, of a process that is not there, unlocked. */
void dgl_temp_sweep(const struct dgl_log *log, const char *path);

#endif
