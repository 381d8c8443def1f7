/* GPU time per operation and kernel, host time per decoded token, and the copy bandwidth of the
 * device for comparison. Works with any executor that can time single operations. */
#ifndef DGL_CORE_PROFILE_H
#define DGL_CORE_PROFILE_H

#include "core/exec/exec.h"

/* The profile of a call. */
struct profile {
    struct dgl_device *dev;
    struct dgl_profile sums;
    size_t cap_entries, cap_steps;
    bool decoding_only;   /* prefill passes, up to the first token, are not added */
    uint64_t step_end_ns; /* dgl_now_ns() at the end of the last step or at the start of decoding */
};

/* Measures the cost of a timer. */
enum dgl_status profile_init(struct profile *profile, struct dgl_device *dev,
                             struct kernel_set *set);
/* Frees the arrays of a result and zeroes it. */
void profile_sums_finish(struct dgl_profile *sums);

/* Description of a pass. */
struct profile_pass {
    enum dgl_phase phase;
    /* number of sequences with one token each; if 1, all tokens are of one sequence */
    int32_t sequences;
    int32_t held; /* tokens of the sequence after the pass, or the mean of all sequences */
};
/* Submits a run once with a timer around every operation, waits, and adds the times. Adds the sum
 * of known times, without the cost of the timers, to *gpu_ns, which may be NULL. */
enum dgl_status profile_run(struct profile *profile, struct exec_run *run,
                            const struct profile_pass *pass, uint64_t *gpu_ns);
/* Adds a run that has just ended. ns[count] are the times of its operations (UINT64_MAX if
 * unknown), or NULL. */
enum dgl_status profile_add(struct profile *profile, const struct exec_run *run,
                            const struct profile_pass *pass, const uint64_t *ns);
/* Adds a decode step that ends now. All times are set except host_ns, which becomes the remaining
 * time since the last step. */
enum dgl_status profile_step(struct profile *profile, struct dgl_profile_step step);

/* Measures the time that a timer adds to a dispatch, on small copies; 0 if there are no timers. The
 * caller must have entered the device. Waits. */
enum dgl_status profile_timer(struct dgl_device *dev, struct kernel_set *set, uint64_t *ns);
/* Measures the memory bandwidth for compute kernels: bytes per second, read plus written, of the
 * best of several plain copies. Temporarily allocates at most 1.5 GiB and at most half of the free
 * memory. */
enum dgl_status profile_copy(struct dgl_device *dev, struct kernel_set *set, double *gbps);
/* Like profile_copy(), but only reads. */
enum dgl_status profile_read(struct dgl_device *dev, struct kernel_set *set, double *gbps);
/* Measures the microseconds of a minimal dispatch that waits for the one before: the best of
 * several submits. */
enum dgl_status profile_dispatch(struct dgl_device *dev, struct kernel_set *set, double *us);

#endif
