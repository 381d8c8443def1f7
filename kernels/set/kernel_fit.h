/* One kernel tried for one request on one device. */
#ifndef DGL_KERNEL_FIT_H
#define DGL_KERNEL_FIT_H

#include "kernels/kernels.h"

/* The word of the request's attribute `key`; "none" when it has no such attribute. */
const char *kernel_request_word(const struct kernel_request *request, const char *key);
/* "matmul weight=q4_k phase=decode": what messages call a request. */
void kernel_request_describe(const struct kernel_request *request, struct dgl_buf *out);

/* The kernel is for such requests, on whatever device. */
bool kernel_serves(const struct kernel *kernel, const struct kernel_request *request);

struct kernel_fit {
    const struct kernel_set *set;
    const struct kernel_request *request;
    const struct kernel_var *device;
    size_t num_device;
    const char *tune; /* not NULL: this tunable has this value, whatever hints and presets say */
    int64_t tune_value;
};
/* Fills `out` but for its reason, and *rank (PREFER). False when the kernel cannot run: *why then
 * says which rule. */
bool kernel_fit_try(const struct kernel_fit *fit, const struct kernel *kernel,
                    struct kernel_choice *out, int64_t *rank, char why[192]);

#endif
