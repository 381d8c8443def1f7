/* The cgroups of this process. */
#ifndef DGL_BASE_CGROUP_H
#define DGL_BASE_CGROUP_H

#include <stdbool.h>

/* A path in a file system of the kernel: PATH_MAX plus a file name. */
#define DGL_KERNEL_PATH 4608

/* Calls `visit` for the process's cgroup of a controller ("memory", "cpu") and for all its parents,
 * up to the root of the mount, in version 1 and in version 2 (`unified`). `folder` may not exist.
 * Reads the files below `root`: "", or the path of a folder with proc/ and sys/. */
void dgl_cgroups_each(const char *root, const char *controller,
                      void (*visit)(void *ctx, const char *folder, bool unified), void *ctx);

#endif
