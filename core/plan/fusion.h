/*
 * fusion.h: chooses between fused and separate operations. Both variants are appended to the list,
 * and one of them is removed, depending on the kernels that can run on the device.
 */
#ifndef DGL_CORE_FUSION_H
#define DGL_CORE_FUSION_H

#include "core/plan/kernel_table.h"
#include "core/plan/oplist.h"

/* Cached result for one distinct request. */
struct fusion_answer;

/* Cached results: a model has the same requests in every layer. */
struct fusion {
    const struct plan_device *device; /* borrowed */
    struct kernel_set *set;           /* own reference */
    struct fusion_answer **answers;
    size_t count, cap;
};

void fusion_init(struct fusion *fusion, const struct plan_device *device, struct kernel_set *set);
/* Accepts one that is all zero. Operations that were listed with it lose their `unfused`. */
void fusion_finish(struct fusion *fusion);

/*
 * Operations [fused, separate) of `list` compute the same as the operations from `separate` to the
 * end. Keeps one of the two groups and removes the other. Returns true if the fused operations
 * stay.
 *
 * They stay if each of them has a kernel that can run, whose PREFER is neither negative nor below
 * that of the kernel of a separate operation of the same name, and if the user did not request a
 * kernel that serves only the separate operations (by a hint or a kernel file). A hint for the
 * fused operation also keeps them, so that it is met or refused, unless a preferred kernel of the
 * separate operations meets the hint too. Otherwise the first separate operation stores the reason.
 * If `fusion` is NULL, the separate operations stay.
 */
bool fusion_keep(struct fusion *fusion, struct oplist *list, size_t fused, size_t separate);
/* Returns true if a hint or a user's file for this request, of a fused or of a separate operation,
 * decided the choice: without it the other variant would have stayed. */
bool fusion_was_decided(const struct fusion *fusion, const struct kernel_request *request);

#endif
