/* List of the kernel sources that a model can compile: those of its plan, of its persistent
 * programs, and of all kernels that can run on the device. Used to compile them without running
 * them. */
#ifndef DGL_CORE_TEXT_LIST_H
#define DGL_CORE_TEXT_LIST_H

#include "core/model/model.h"

struct text {
    const char *name, *op, *origin; /* borrowed from the kernel set */
    char sha256[65];
    char *source;
    size_t len;
    bool planned; /* the plan requires it */
};
/* Distinct sources, in the order in which they were added. `{0}` is an empty list. */
struct text_list {
    struct text *texts;
    size_t count, cap;
    const struct dgl_log *log;
    enum dgl_status status; /* of the first failure, which is logged */
};
void text_list_finish(struct text_list *list);

/* Adds the source of every operation of the plan, including passes over several sequences. */
enum dgl_status text_list_add_plan(struct text_list *list, struct shard *shard);
/* Adds the persistent programs of a decode step of one sequence, one per kind of sampling. The
 * model has a persistent executor. `memory` is that of a session; its buffers need no contents. */
enum dgl_status text_list_add_persistent(struct text_list *list, struct shard *shard,
                                         const struct memory *memory);
/* Adds the source of every case of `kernels check`, for every kernel of the model's set. */
enum dgl_status text_list_add_all(struct text_list *list, struct shard *shard);

#endif
