/* The registry's insides, for the files that fill it. */
#ifndef DGL_KERNEL_SET_INTERNAL_H
#define DGL_KERNEL_SET_INTERNAL_H

#include <stdatomic.h>

#include "core/base/mem.h"
#include "kernels/kernels.h"
#include "kernels/set/kernel_faults.h"
#include "kernels/set/kernel_hints.h"

#define KERNEL_FILE_MAX (1u << 20) /* bytes of a file with a kernel, a lib or hints */

struct kernel_set {
    atomic_uint refs;
    struct kernel_set *parent; /* owns the kernels and libs; NULL: this set does */
    struct dgl_arena arena;
    const struct kernel **kernels;
    size_t count, cap;
    const struct kernel_lib **libs;
    size_t num_libs, cap_libs;
    struct kernel_faults faults;
    bool keeps_faults;
    struct kernel_hints hints;
};

/* Index of the kernel in force of that name; set->count: there is none. */
size_t kernel_set_index(const struct kernel_set *set, const char *name);

/* ---- kernel_files.c -------------------------------------------------------------------------- */

enum dgl_status kernel_set_add_builtins(const struct dgl_log *log, struct kernel_set *set);
/* The folders and files of a call, in their order. */
enum dgl_status kernel_set_add_files(const struct dgl_log *log, struct kernel_set *set,
                                     const struct dgl_kernels_params *params);
/* The log of what is tried for one file. */
void kernel_set_begin_file(struct fault_log *f, const struct dgl_log *log, struct kernel_set *set);
/* The text that a call gives for a path; NULL: it is to be read. */
const struct dgl_kernel_text *kernel_text_given(const struct dgl_kernels_params *params,
                                                const char *path);
/* *text is the caller's to free. */
enum dgl_status kernel_text_copy(const struct dgl_log *log, const struct dgl_kernel_text *given,
                                 char **text, size_t *len);

/* ---- kernel_libs.c --------------------------------------------------------------------------- */

/* Libs that kernels name: each must exist and go together with the kernel and its others. Leaves
 * texts out where the set keeps faults. */
enum dgl_status kernel_set_check_libs(const struct dgl_log *log, struct kernel_set *set);

#endif
