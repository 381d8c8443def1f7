/* One kernel tried for one request on one device. */
#ifndef DGL_KERNEL_FIT_H
#define DGL_KERNEL_FIT_H

#include "kernels/set/kernel_hints.h"
#include "kernels/set/kernel_request.h"

/* The kernel is for such requests, on whatever device. */
bool kernel_serves(const struct kernel *kernel, const struct kernel_request *request);

struct kernel_fit {
    const struct kernel_set *set;
    const struct kernel_request *request;
    const struct kernel_var *device;
    size_t num_device;
    const char *tune; /* not NULL: this tunable has this value, whatever hints and presets say */
    int64_t tune_value;
    enum kernel_hints_heard hears; /* hints for tunables that count */
};
/* Fills `out` but for its reason, and *rank (PREFER). False when the kernel cannot run: *why then
 * says which rule. */
bool kernel_fit_try(const struct kernel_fit *fit, const struct kernel *kernel,
                    struct kernel_choice *out, int64_t *rank, char why[192]);

#endif
