/* What is said of edited files once they were tried: a line for each, "watch: NAME: taken ..." or
 * "watch: NAME: refused: ...". */
#ifndef DGL_TOOLS_WATCH_ANSWER_H
#define DGL_TOOLS_WATCH_ANSWER_H

#include "tools/cli/engine.h"
#include "tools/watch/watch_text.h"

/* A text of the engine's kernels that came from a file. */
struct watch_known {
    char *path, *name;
    char sha256[65];
    bool is_lib;
};
struct watch_knowns {
    struct watch_known *items;
    size_t count, cap;
    bool failed;
};
/* False: out of memory. watch_knowns_finish() follows either way. */
bool watch_knowns_init(struct watch_knowns *k, const struct engine *e);
void watch_knowns_finish(struct watch_knowns *k);
/* The text that is in force under a file's name; NULL: none. */
const struct watch_known *watch_find_namesake(const struct watch_knowns *k,
                                              const struct watch_file *f);

/* Files that were tried together: watch_file.group is their place. */
enum watch_outcome { WATCH_OPEN, WATCH_TAKEN, WATCH_REFUSED };
struct watch_group {
    enum watch_outcome outcome;
    struct dgl_buf said; /* what the library logged */
};
struct watch_tried {
    const struct engine *engine;
    const struct watch_file *files;
    size_t num_files;
    const struct watch_group *groups; /* [num_groups], and one for all that are taken; NULL: none */
    size_t num_groups;
};
/* A line for each file that was edited, or is taken at last; the compiler's lines follow it. False:
 * out of memory. */
bool watch_answer(const struct watch_tried *t);

#endif
