/* Watches the folders and files of kernels and hints that the options name, with inotify. Missing
 * folders and files are watched too. */
#ifndef DGL_TOOLS_WATCH_FILES_H
#define DGL_TOOLS_WATCH_FILES_H

#include "tools/cli/options.h"

struct watch_files;

/* The options and `pack_dir` (the kernel folder of a pack, or NULL) are borrowed. Returns false
 * after an error line. */
bool watch_files_create(struct watch_files **out, const struct options *opt, const char *pack_dir);
/* Accepts NULL in *files. */
void watch_files_destroy(struct watch_files **files);
/* Returns true if a kernel file or a file of hints may have changed since the last call. Costs two
 * system calls, and one for each folder that the options name. */
bool watch_files_changed(struct watch_files *files);
/* Watches all folders anew, including those that were created since. Call it before the files are
 * read: changes during the reading are then reported by the next watch_files_changed(). Returns
 * false after an error line. */
bool watch_files_restart(struct watch_files *files);

#endif
