/* --watch-kernels: uses edited kernel files while the model runs, and prints a line for each edit.
 */
#ifndef DGL_TOOLS_WATCH_H
#define DGL_TOOLS_WATCH_H

#include "tools/cli/engine.h"

/* Returns false after an error line if the options exclude each other. Opens no file or device. */
bool watch_check(const struct options *opt);

struct watch;
/* Sets *out to NULL without --watch-kernels. The engine must be open, and outlives the watch.
 * Returns false after an error line. */
bool watch_create(struct watch **out, struct engine *e, const struct options *opt);
/* Reads changed files once they have been quiet for a moment, and then prepares the new set for at
 * most as long as a token may wait. Without changes it costs two system calls, and one for each
 * folder that the options name. For token_cb. `priv` is a struct watch, or NULL. */
void watch_poll(void *priv);
/* Like watch_poll(), but finishes the preparation. For times without other work. */
void watch_idle(void *priv);
/* Reads all files at once, even if no change was reported. */
void watch_reread(struct watch *w);
/* Destroys the watch. Before that, it reads changes that were not read yet, so that the last saved
 * file gets its line. It reads nothing if a signal ends the program. Accepts NULL in *watch. */
void watch_destroy(struct watch **watch);

#endif
