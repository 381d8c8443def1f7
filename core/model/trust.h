/* First use of a kernel on a device and driver: runs its known-answer test before a call relies on
 * it. */
#ifndef DGL_CORE_TRUST_H
#define DGL_CORE_TRUST_H

#include "core/oracle/kernel_check.h"
#include "core/model/model.h"

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
