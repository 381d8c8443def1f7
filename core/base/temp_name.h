/* Names of temporaries. They are placed next to the file or folder that they become:
 * PATH.tmp-PID-HEX. */
#ifndef DGL_BASE_TEMP_NAME_H
#define DGL_BASE_TEMP_NAME_H

#include "core/base/status.h"

/* Returns an unused name with high probability. The caller frees it. Returns NULL if memory is
 * exhausted. */
char *dgl_temp_name(const char *path);
/* Locks an open temporary until it is closed. The lock shows that it is in use. */
void dgl_temp_lock(int fd);
/* Removes temporaries of `path` whose process has ended, best effort. Only unlocked regular files
 * and folders of this user with a matching name are removed. */
void dgl_temp_sweep(const struct dgl_log *log, const char *path);

#endif
