/* Switches a live model to other kernels. The programs of the new engine are compiled beside those
 * of the old one, and known-answer tests run before a token depends on them. The work is split into
 * parts, so that decoding continues in between. */
#ifndef DGL_CORE_KERNEL_SWAP_H
#define DGL_CORE_KERNEL_SWAP_H

#include "core/model/model.h"

/* A kernel that no step runs, but that contains a new text of the user which no step contains. */
struct idle_kernel {
    const struct kernel *kernel; /* borrowed from the engine's set */
    bool ran;                    /* it was compiled and passed its known-answer test */
};

/* An engine that is to replace the shard's, and the remaining work before it may. */
struct kernel_swap {
    /* Set by the caller. */
    struct engine *engine;
    uint32_t engine_serial; /* the shard's, at the beginning */
    bool unchecked;
    /* Set by kernel_swap_begin(). */
    const struct kernel_use **fresh; /* to be compiled, borrowed from the engine's plan */
    size_t count, judged;            /* of these */
    struct idle_kernel *idle;
    size_t num_idle, cap_idle, idle_judged;
    bool compiled;
    struct kernel_judge *judge; /* NULL until it is needed */
};

/* Shares programs with equal texts with the shard's engine. If the driver compiles in the
 * background, starts to compile the programs that contain a user's text or that the shard's engine
 * had compiled. The caller must call kernel_swap_finish() in every case, and must have entered the
 * device. */
enum dgl_status kernel_swap_begin(const struct shard *shard, struct kernel_swap *swap);
/* Continues the swap. Each use of a user's text that the old engine did not run must pass its
 * known-answer test. If no use has the text, each kernel with the text is tested. `unchecked` skips
 * all tests. If `wait`, all work is done, else one part of it: no work while the compiler runs in
 * the background, then all programs in one call, then the test of one use, or of one unused kernel,
 * which is compiled for it. Sets *ready if the swap is complete. Returns DGL_ERR_KERNEL and names
 * the error; the model is unchanged then. The caller must have entered the device, and the model
 * must have the engine of kernel_swap_begin(). */
enum dgl_status kernel_swap_go_on(const struct shard *shard, struct kernel_swap *swap, bool wait,
                                  bool *ready);
/* Destroys the engine too. Accepts one that is all zero, and a lost device. */
void kernel_swap_finish(struct kernel_swap *swap);

#endif
