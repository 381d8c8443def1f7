/* Faulty files that a set was created without (dgl_kernels_params.keep_faults). */
#ifndef DGL_KERNEL_FAULTS_H
#define DGL_KERNEL_FAULTS_H

#include "core/base/mem.h"
#include "kernels/kernels.h"

struct kernel_faults {
    struct kernel_fault *items;
    size_t count, cap;
};

/* Captures the log of an attempt to load one file. */
struct fault_log {
    struct dgl_log log; /* pass &f.log to the attempt */
    const struct dgl_log *to;
    struct kernel_faults *faults; /* NULL: an error fails the call and is logged to `to` */
    struct dgl_arena *arena;      /* of the set; owns the texts of faults */
    struct dgl_error error;       /* the reason of the fault */
    struct dgl_buf notes;         /* the lines that follow it */
};

void fault_log_begin(struct fault_log *f, const struct dgl_log *to, struct kernel_faults *faults,
                     struct dgl_arena *arena);
/* Ends the capture. `status` is the result of the attempt and `path` its file. If the attempt
 * failed because of the file, adds the file to the faults and returns DGL_OK: the caller must drop
 * it. Returns other failures (no memory, cancelled) after logging them. */
enum dgl_status fault_log_end(struct fault_log *f, const char *path, enum dgl_status status);

#endif
