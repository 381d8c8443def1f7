/* A log that prints repeated lines once. */
#ifndef DGL_TOOLS_FOLD_H
#define DGL_TOOLS_FOLD_H

#include <pthread.h>

#include "core/dopplergl.h"

struct kind_of_line;

/* A log that prints the first warning or notice of a kind, and the number of others at the end.
 * Lines of a kind differ only in numbers, such as the layers of tensor names. */
struct folding_log {
    struct dgl_log log; /* pass &f.log */
    struct dgl_log to;
    pthread_mutex_t lock; /* worker threads of dgl_convert() log, too */
    struct kind_of_line *kinds;
    size_t count, cap;
};

/* Copies `to`, which must have a callback. */
void folding_begin(struct folding_log *f, const struct dgl_log *to);
/* Prints how many lines of each kind were left out. Frees the log. */
void folding_end(struct folding_log *f);

#endif
