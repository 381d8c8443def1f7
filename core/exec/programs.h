/* The programs of a kernel table, compiled when they are needed, several in one batch so that the
 * driver may work in parallel. Slow when cold. */
#ifndef DGL_CORE_PROGRAMS_H
#define DGL_CORE_PROGRAMS_H

#include "core/memory/device.h"
#include "core/plan/kernel_table.h"

struct programs {
    struct dgl_device *dev;
    const struct kernel_table *table; /* borrowed; may grow */
    struct gl_program **program;      /* [cap], by kernel_use.id; NULL = not compiled */
    struct gl_pending **begun;        /* [begun_cap], likewise; NULL = nobody works on it */
    size_t cap, begun_cap;
    /* Set by programs_compile(), which logs a warning: the use of a built-in kernel on which the
     * driver's compiler exceeded a limit or crashed. NULL if there is none. */
    const struct kernel_use *exceeded;
};

void programs_init(struct programs *p, struct dgl_device *dev, const struct kernel_table *table);
/* Accepts one that is all zero. */
void programs_finish(struct programs *p);
/* Starts the compiler for those of `uses` that have no program yet, so that it works while the
 * caller does; the next programs_compile() takes what it wants of that. Nothing to do where the
 * driver has no threads of its own to compile on: compiling what nobody may need would only take
 * time. */
enum dgl_status programs_begin(struct programs *p, const struct kernel_use *const *uses,
                               size_t count);
/* Whether the compiler has finished what programs_begin() started of them. */
bool programs_are_ready(const struct programs *p, const struct kernel_use *const *uses,
                        size_t count);
/* Compiles those of `uses` that have no program yet, in one batch, and adds the time to the
 * device's compile_ns. On failure none of them has. `how`: see gl_programs_create(). */
enum dgl_status programs_compile(struct programs *p, const struct kernel_use *const *uses,
                                 size_t count, const struct gl_compile *how);
/* Takes over, shared, what `from` has compiled for equal texts: kernel, libs and every constant,
 * tunable and word. */
enum dgl_status programs_share(struct programs *p, const struct programs *from);
bool programs_has(const struct programs *p, const struct kernel_use *use);
/* Of a use that has one. Borrowed, valid until programs_finish(). */
struct gl_program *programs_get(const struct programs *p, const struct kernel_use *use);

#endif
