/* Files that a set was left without, and what was said of them: dgl_kernels_params.keep_faults. */
#ifndef DGL_KERNEL_FAULTS_H
#define DGL_KERNEL_FAULTS_H

#include "core/base/mem.h"
#include "kernels/kernels.h"

struct kernel_faults {
    struct kernel_fault *items;
    size_t count, cap;
};

/* The log of what may fail for the sake of one file. */
struct fault_log {
    struct dgl_log log; /* hand out &f.log */
    const struct dgl_log *to;
    struct kernel_faults *faults; /* NULL: faults fail the call, lines go to `to` */
    struct dgl_arena *arena;      /* of the set, which holds what faults have of texts */
    struct dgl_buf reason, notes;
};

void fault_log_begin(struct fault_log *f, const struct dgl_log *to, struct kernel_faults *faults,
                     struct dgl_arena *arena);
/* Ends it after the status of the attempt, with `path` as the file at fault. DGL_OK: that file is
 * now among the faults, for the caller to leave out. Else the status, said to the log: memory that
 * ran out and a call that was cancelled are no faults. */
enum dgl_status fault_log_end(struct fault_log *f, const char *path, enum dgl_status status);

#endif
