/* The programs of a kernel table. They are compiled on demand, several in one batch so that the
 * driver may work in parallel. Slow with a cold cache. */
#ifndef DGL_CORE_PROGRAMS_H
#define DGL_CORE_PROGRAMS_H

#include "core/memory/device.h"
#include "core/plan/kernel_table.h"

struct programs {
    struct dgl_device *dev;
    const struct kernel_table *table; /* borrowed; may grow */
    struct gl_program **program;      /* [cap], by kernel_use.id; NULL if not compiled */
    /* [begun_cap], by kernel_use.id; NULL if the compiler was not started */
    struct gl_pending **begun;
    size_t cap, begun_cap;
    /* Set by programs_compile() if the compiler of the driver exceeded a limit or crashed on a
     * built-in kernel, else NULL. programs_compile() then logs a warning. */
    const struct kernel_use *exceeded;
};

void programs_init(struct programs *p, struct dgl_device *dev, const struct kernel_table *table);
/* Accepts a zeroed struct. */
void programs_finish(struct programs *p);
/* Starts to compile all `uses` without a program in the background. The next programs_compile()
 * collects the results that it needs. Has no effect if the driver has no compiler threads:
 * compiling programs that may never be needed would only delay the caller. */
enum dgl_status programs_begin(struct programs *p, const struct kernel_use *const *uses,
                               size_t count);
/* Returns true if all compilations that programs_begin() started for these uses have finished. */
bool programs_are_ready(const struct programs *p, const struct kernel_use *const *uses,
                        size_t count);
/* Compiles all `uses` without a program in one batch, in a section ACCOUNT_COMPILE of the
 * device. If one fails, all of them stay without a program. `how`: see gl_programs_create(). */
enum dgl_status programs_compile(struct programs *p, const struct kernel_use *const *uses,
                                 size_t count, const struct gl_compile *how);
/* Shares all programs of `from` whose texts are equal: kernel, libs and all constants, tunables and
 * words. */
enum dgl_status programs_share(struct programs *p, const struct programs *from);
bool programs_has(const struct programs *p, const struct kernel_use *use);
/* Program of a use, which must have one. Borrowed; valid until programs_finish(). */
struct gl_program *programs_get(const struct programs *p, const struct kernel_use *use);

#endif
