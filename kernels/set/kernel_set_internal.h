/* Internals of a kernel set, for the files that fill it. */
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
    struct kernel_set *parent; /* owner of the kernels and libs; NULL if this set owns them */
    struct dgl_arena arena;
    const struct kernel **kernels;
    size_t count, cap;
    const struct kernel_lib **libs;
    size_t num_libs, cap_libs;
    struct kernel_faults faults;
    bool keeps_faults;
    struct kernel_hints hints;
};

/* Returns the index of the kernel of that name, or set->count if there is none. */
size_t kernel_set_index(const struct kernel_set *set, const char *name);

/* ---- kernel_files.c -------------------------------------------------------------------------- */

enum dgl_status kernel_set_add_builtins(const struct dgl_log *log, struct kernel_set *set);
/* Adds the folders and files of a call in their order. */
enum dgl_status kernel_set_add_files(const struct dgl_log *log, struct kernel_set *set,
                                     const struct dgl_kernels_params *params);
/* Begins to capture the log of an attempt to load one file. */
void kernel_set_begin_file(struct fault_log *f, const struct dgl_log *log, struct kernel_set *set);
/* Returns the caller's text for a path, or NULL if the file must be read. */
const struct dgl_kernel_text *kernel_text_given(const struct dgl_kernels_params *params,
                                                const char *path);
/* Copies the caller's text. The caller frees *text. */
enum dgl_status kernel_text_copy(const struct dgl_log *log, const struct dgl_kernel_text *given,
                                 char **text, size_t *len);

/* ---- kernel_libs.c --------------------------------------------------------------------------- */

/* Checks that the libs of all kernels exist and do not conflict. If the set keeps faults, drops the
 * texts with errors. Built-in kernels are compared with built-in libs only with `builtin`: each
 * kernel for any type of weights has the libs of all formats, which takes milliseconds, and a test
 * does it. */
enum dgl_status kernel_set_check_libs(const struct dgl_log *log, struct kernel_set *set,
                                      bool builtin);

#endif
