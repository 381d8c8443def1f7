/* GPU time per operation and kernel, the host's time per decoded token, and the bandwidth of a
 * plain copy to hold them against. Works with any executor: it asks for the time of each
 * operation. */
#ifndef DGL_CORE_PROFILE_H
#define DGL_CORE_PROFILE_H

#include "core/exec/exec.h"

/* The profile of a call. */
struct profile {
    struct dgl_device *dev;
    struct dgl_profile sums;
    size_t cap_entries, cap_steps;
    bool decoding_only;   /* passes of prompts, up to the first token, are not added */
    uint64_t step_end_ns; /* when the last step ended, or decoding began: dgl_now_ns() */
};

/* Measures what a timer costs. */
enum dgl_status profile_init(struct profile *profile, struct dgl_device *dev,
                             struct kernel_set *set);
/* Frees what a result holds and zeroes it. */
void profile_sums_finish(struct dgl_profile *sums);

/* What a run is of. */
struct profile_pass {
    enum dgl_phase phase;
    int32_t sequences; /* each with one token; 1: all tokens of the pass are of one */
    int32_t held;      /* tokens of the sequence after the pass; of several: in the mean */
};
/* Submits a run once with a timer around every operation, waits, and adds the times. *gpu_ns (may
 * be NULL) grows by the sum without the timers' cost, as far as it is known. */
enum dgl_status profile_run(struct profile *profile, struct exec_run *run,
                            const struct profile_pass *pass, uint64_t *gpu_ns);
/* Adds a run that has just ended; ns [count] are the times of its operations (UINT64_MAX =
 * unknown), NULL = none is known. */
enum dgl_status profile_add(struct profile *profile, const struct exec_run *run,
                            const struct profile_pass *pass, const uint64_t *ns);
/* Adds a decoded token (of each sequence), whose times are known but for host_ns, which is what is
 * left since the last one; it ends now. */
enum dgl_status profile_step(struct profile *profile, struct dgl_profile_step step);

/* Bytes per second, read plus written, of a plain copy, the best of some: what the device's memory
 * gives to compute kernels. Allocates up to 1.5 GiB, and no more than half of what is left, for its
 * duration. */
enum dgl_status profile_copy(struct dgl_device *dev, struct kernel_set *set, double *gbps);
/* The same of reading alone. */
enum dgl_status profile_read(struct dgl_device *dev, struct kernel_set *set, double *gbps);
/* Microseconds of a dispatch that waits for the one before and does next to nothing: the best of
 * some submits. */
enum dgl_status profile_dispatch(struct dgl_device *dev, struct kernel_set *set, double *us);

#endif
