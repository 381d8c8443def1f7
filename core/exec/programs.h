/* Kernel choices and their compiled programs: one entry per distinct request, shared by every
 * operation that asks for the same thing. Choosing costs microseconds, compiling up to seconds;
 * they are separate steps. */
#ifndef DGL_CORE_PROGRAMS_H
#define DGL_CORE_PROGRAMS_H

#include "core/memory/engine.h"

struct program_entry {
    struct kernel_request request;
    struct kernel_choice choice;
    struct gl_program *program; /* NULL until programs_compile() */
};

struct programs {
    struct dgl_device *dev;
    struct kernel_set *set; /* a reference of its own */
    struct program_entry **entries;
    size_t count, cap;
};

void programs_init(struct programs *p, struct dgl_device *dev, struct kernel_set *set);
void programs_finish(struct programs *p);
/* The entry for a request, choosing a kernel when it is new. Borrowed, stable until
 * programs_finish(). */
enum dgl_status programs_find(struct programs *p, const struct kernel_request *request,
                              struct program_entry **out);
/* Compiles those of `entries` that have no program yet, in one batch. On failure none of them has.
 */
enum dgl_status programs_compile(struct programs *p, struct program_entry *const *entries,
                                 size_t count);

#endif
