/* --watch-kernels: edits of the kernel files that the options name are tried on the model while it
 * runs, and answered by one line each. */
#ifndef DGL_TOOLS_WATCH_H
#define DGL_TOOLS_WATCH_H

#include "tools/cli/engine.h"

/* False after an error line: the options do not go together. Opens nothing. */
bool watch_check(const struct options *opt);

struct watch;
/* NULL in *out without --watch-kernels. The engine is open and outlives it. False after an error
 * line. */
bool watch_create(struct watch **out, struct engine *e, const struct options *opt);
/* Goes on with what was edited since, once the files have been left alone for a moment, as far as a
 * token can wait for it. When there is nothing: one system call, and one for each folder that the
 * options name. To be called from token_cb. `priv` is a struct watch, or NULL. */
void watch_poll(void *priv);
/* The same with all trials: nothing else is to be done. */
void watch_idle(void *priv);
/* The same for every file that is not as in force, whether an edit was told of or not. */
void watch_reread(struct watch *w);
/* Answers what is still open, without that moment. Accepts NULL in *watch. */
void watch_destroy(struct watch **watch);

#endif
