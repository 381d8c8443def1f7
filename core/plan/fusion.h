/*
 * fusion.h: which fused operations a plan has. An operation that does the work of several others is
 * listed together with those; one of the two stays, by what the kernels at hand can run on the
 * device.
 */
#ifndef DGL_CORE_FUSION_H
#define DGL_CORE_FUSION_H

#include "core/plan/kernel_table.h"
#include "core/plan/oplist.h"

/* What is known of one distinct request. */
struct fusion_answer;

/* Answers so far: a model asks the same in every layer. */
struct fusion {
    const struct plan_device *device; /* borrowed */
    struct kernel_set *set;           /* a reference of its own */
    struct fusion_answer **answers;
    size_t count, cap;
};

void fusion_init(struct fusion *fusion, const struct plan_device *device, struct kernel_set *set);
/* Accepts one that is all zero. Operations that were listed with it lose their `unfused`. */
void fusion_finish(struct fusion *fusion);

/*
 * Operations [fused, separate) of `list` do the same as those from `separate` on to the end. Keeps
 * one of the two and removes the other; true: the fused ones stay. They do when for each of them a
 * kernel can run whose PREFER is neither negative nor below that of the kernel of a separate one of
 * the same name, and no person has asked for a kernel that serves the separate ones only: by a
 * hint, or by a file of their own. A hint for the fused operation itself also keeps them, so that
 * it is met or refused, but where a preferred kernel of the separate ones meets it too. Otherwise
 * the first separate operation gets the reason. Without a `fusion` (NULL) the separate ones stay.
 */
bool fusion_keep(struct fusion *fusion, struct oplist *list, size_t fused, size_t separate);
/* Whether what was asked for the request, of a fused operation or of a separate one, decided that
 * they are so: without it the other would have stayed. */
bool fusion_was_decided(const struct fusion *fusion, const struct kernel_request *request);

#endif
