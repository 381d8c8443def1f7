/* Which kernel files and files of hints were edited: those of the folders and files that the
 * options name, there or not yet. */
#ifndef DGL_TOOLS_WATCH_FILES_H
#define DGL_TOOLS_WATCH_FILES_H

#include "tools/console.h"

struct watch_files;
/* Everything is borrowed; `pack_dir`, the pack's folder of kernels, may be NULL. Kernel files that
 * are in folders count as edited. False after an error line; watch_files_destroy() follows either
 * way. */
bool watch_files_create(struct watch_files **out, const struct console *console,
                        const struct options *opt, const char *pack_dir);
void watch_files_destroy(struct watch_files **files);
/* Takes what has happened. Only what closes, renames or deletes a file counts: one that is still
 * being written is left alone. True: something was edited, and nothing has happened for a moment,
 * since editors save in several steps; `now`: without that moment. Without news one system call,
 * and one for each folder that the options name. */
bool watch_files_look(struct watch_files *files, bool now);
/* Paths of files, as the layers of kernels are given them, and of folders that have gone or come.
 * Borrowed until the next call. */
char *const *watch_files_edited(const struct watch_files *files, size_t *count);
void watch_files_forget(struct watch_files *files);
/* Out of memory: edits are missed. */
bool watch_files_failed(const struct watch_files *files);

/* By its name. */
bool watch_is_kernel_file(const char *name);
/* In the folder, or in one within it. */
bool watch_is_in(const char *path, const char *dir);

#endif
