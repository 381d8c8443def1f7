/* GPU time per operation and kernel, and the bandwidth of a plain copy to hold it against. */
#ifndef DGL_CORE_PROFILE_H
#define DGL_CORE_PROFILE_H

#include "core/exec/exec.h"

/* Times added up per phase, operation and kernel. */
struct profile {
    struct dgl_profile_entry *entries; /* free() */
    size_t count, cap;
};

/* Submits a run once with a timer around every operation. Waits. */
enum dgl_status profile_run(struct profile *profile, struct exec_run *run, enum dgl_phase phase);

/* Bytes per second, read plus written, of a plain copy: what the device's memory gives to compute
 * kernels. Allocates up to 1 GiB for its duration. */
enum dgl_status profile_copy(struct dgl_device *dev, struct kernel_set *set, double *gbps);

#endif
