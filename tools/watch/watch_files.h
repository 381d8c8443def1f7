/* Which kernel files and files of hints were edited: those of the folders and files that the
 * options name, there or not yet. */
#ifndef DGL_TOOLS_WATCH_FILES_H
#define DGL_TOOLS_WATCH_FILES_H

#include "tools/cli/console.h"
#include "tools/watch/watch_calm.h"

struct watch_files;
struct watch_files_params {
    const struct console *console;
    const struct options *opt;
    const char *pack_dir; /* the pack's folder of kernels; may be NULL */
    /* Hears of each file, by its path as the layers of kernels are given it, of folders that have
     * gone or come, which are always WATCH_SAVED, of links to folders, and of WATCH_FREED. */
    void (*note)(void *priv, const char *path, enum watch_event event);
    void *priv; /* first argument of note */
};
/* Everything is borrowed. Kernel files that are in folders count as saved. False after an error
 * line; watch_files_destroy() follows either way. */
bool watch_files_create(struct watch_files **out, const struct watch_files_params *params);
void watch_files_destroy(struct watch_files **files);
/* Tells what has happened. Without news one system call, and one for each folder that the options
 * name. */
void watch_files_look(struct watch_files *files);
/* Out of memory: edits are missed. */
bool watch_files_failed(const struct watch_files *files);

/* By its name. */
bool watch_is_kernel_file(const char *name);
/* In the folder, or in one within it. */
bool watch_is_in(const char *path, const char *dir);

#endif
