/* Other kernels on a live model: programs of the new engine beside those of the old one, and known
 * answers before a token depends on them; in parts, between which tokens go on. */
#ifndef DGL_CORE_KERNEL_SWAP_H
#define DGL_CORE_KERNEL_SWAP_H

#include "core/model/model.h"

/* A kernel that no step runs, but that a new text of the user's is part of, which no step has. */
struct idle_kernel {
    const struct kernel *kernel; /* borrowed from the engine's set */
    bool ran;                    /* it was compiled, and gave the known answers */
};

/* What has to be done before an engine may replace the model's. Filled by kernel_swap_begin(). */
struct kernel_swap {
    struct engine *engine; /* borrowed */
    bool unchecked;
    const struct kernel_use **fresh; /* to be compiled, borrowed from the engine's plan */
    size_t count, judged;            /* of these */
    struct idle_kernel *idle;
    size_t num_idle, cap_idle, idle_judged;
    bool compiled;
    struct kernel_judge *judge; /* NULL until it is needed */
};

/* Shares the programs of equal texts with m->engine, and starts the compiler, where it works aside,
 * for what a user's text is part of or what m->engine had compiled. Whatever it returns,
 * kernel_swap_finish() follows. The device is entered. */
enum dgl_status kernel_swap_begin(const struct dgl_model *m, struct engine *engine, bool unchecked,
                                  struct kernel_swap *swap);
/* Goes on. Each use of a user's text that the old engine did not run has to pass its known-answer
 * test, and where no use has the text, each kernel that does, unless `unchecked`. With `wait`
 * all of that is done; without, one part: nothing while the compiler works aside; all programs,
 * in one call; the known answers of one use, or of one kernel that no use has, which is compiled
 * for them. *ready: there is no more to do. DGL_ERR_KERNEL names what is wrong; nothing has
 * changed then. The device is entered, and the model has the engine that it had at the
 * beginning. */
enum dgl_status kernel_swap_go_on(const struct dgl_model *m, struct kernel_swap *swap, bool wait,
                                  bool *ready);
/* Accepts one that is all zero, and a lost device. */
void kernel_swap_finish(struct kernel_swap *swap);

#endif
