/* The texts that the driver gets for a model: those of its plan, of its persistent programs, and of
 * all kernels that can run on the device. For compiling them without running any. */
#ifndef DGL_CORE_TEXT_LIST_H
#define DGL_CORE_TEXT_LIST_H

#include "core/seq/model.h"

struct text {
    const char *name, *op, *origin; /* borrowed from the kernel set */
    char sha256[65];
    char *source;
    size_t len;
    bool planned; /* the plan needs it */
};
/* Texts that differ, in the order in which they were added. `{0}` is empty. */
struct text_list {
    struct text *texts;
    size_t count, cap;
};
void text_list_finish(struct text_list *list);

/* Adds the texts of every operation of the plan, passes over several sequences included. */
enum dgl_status text_list_add_plan(struct text_list *list, struct dgl_model *m);
/* Adds the programs of decode steps of one sequence by the persistent executor, one for each way to
 * sample, if this device would try them. The model needs no weights. */
enum dgl_status text_list_add_persistent(struct text_list *list, struct dgl_model *m,
                                         enum dgl_executor wanted);
/* Adds the texts of the cases of `kernels check`, of every kernel of the model's set. */
enum dgl_status text_list_add_all(struct text_list *list, struct dgl_model *m);

#endif
