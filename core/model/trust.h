/* Known-answer tests of kernels before a model relies on them. Built-in kernels are tested at their
 * first use on a device and driver.
 *
 * A user's kernels are tested when a live model is switched to them. The old engine stays in use
 * while their programs are compiled. The work is split into parts, so that decoding continues in
 * between. */
#ifndef DGL_CORE_TRUST_H
#define DGL_CORE_TRUST_H

#include "core/exec/engine.h"
#include "core/oracle/kernel_check.h"

struct shard;

/* An engine that is to replace the shard's, and the remaining work before it may. */
struct kernel_swap {
    /* Set by the caller. */
    const struct shard *shard;
    struct engine *engine;  /* own */
    uint32_t engine_serial; /* the shard's, at the beginning */
    bool unchecked;
    /* Private. */
    const struct kernel_use **fresh; /* [count], to be compiled, borrowed from the engine's plan */
    size_t count;
    /* By index in the engine's set: path of the user's new text in a kernel that no step runs, or
     * NULL. "" after the kernel passed its known-answer test. */
    const char **idle;
    size_t judged; /* of `fresh` and of `idle` after it */
    bool compiled, done;
    struct kernel_judge *judge; /* NULL until it is needed */
};

/* Shares programs with equal texts with the shard's engine. If the driver compiles in the
 * background, starts to compile the programs that contain a user's text or that the shard's engine
 * had compiled. The caller must call kernel_swap_finish() in every case, and must have entered the
 * device. */
enum dgl_status kernel_swap_begin(struct kernel_swap *swap);
/* Continues the swap. Each use of a user's text that the old engine did not run must pass its
 * known-answer test. If no use has the text, each kernel with the text is tested. `unchecked` skips
 * all tests. If `wait`, all work is done, else one part of it: no work while the compiler runs in
 * the background, then all programs in one call, then the test of one use, or of one unused kernel,
 * which is compiled for it. Sets *ready if the swap is complete. Returns DGL_ERR_KERNEL and names
 * the error; the model is unchanged then. The caller must have entered the device, and the model
 * must have the engine of kernel_swap_begin(). */
enum dgl_status kernel_swap_go_on(struct kernel_swap *swap, bool wait, bool *ready);
/* Destroys the engine too. Accepts one that is all zero, and a lost device. */
void kernel_swap_finish(struct kernel_swap *swap);

/* Returns true if the verdict shows that the driver computes wrongly, and not only that it rounds
 * more than the kernel's TOLERANCE allows. */
bool trust_is_wrong(const struct kernel_verdict *verdict);

/* Tests the compiled programs of these shapes that were never
 * tested on this device and driver, and records the verdicts. Kernels that compute wrongly are
 * excluded from then on: the model gets another plan, *replanned is set, and the programs of the
 * new plan are not compiled yet. Without a cache folder verdicts cannot be kept, so no test runs.
 * Users' texts are not tested here. The work is hidden from all results (ACCOUNT_HIDDEN).
 * `go_on` may be NULL. If it returns false, the call ends with DGL_ERR_CANCELLED. Returns
 * DGL_ERR_UNSUPPORTED if no other kernel can run an operation. */
enum dgl_status trust_programs(struct shard *shard, struct shape_set shapes,
                               bool (*go_on)(void *priv), void *priv, bool *replanned);

#endif
