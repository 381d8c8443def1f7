/* The first use of a kernel on a device and driver: known answers, before a call relies on it. */
#ifndef DGL_CORE_TRUST_H
#define DGL_CORE_TRUST_H

#include "core/oracle/kernel_check.h"
#include "core/model/model.h"

/* Whether a verdict says that a driver computes wrongly, or only that it rounds more than the
 * kernel's TOLERANCE has it. */
bool trust_is_wrong(const struct kernel_verdict *verdict);

/* Judges the programs of the plan's segments (bits as in struct recipe) that are compiled and were
 * never judged on this device with this driver, and records the verdicts. Kernels that compute
 * wrongly are passed over from then on: the model gets another plan, *replanned is true, and
 * nothing of the new one is compiled yet. Nothing is judged without a cache folder, which alone
 * remembers it, and no text of a user's. The work is in no counter; its time is compile_ns.
 * `go_on` may be NULL; false ends the call with DGL_ERR_CANCELLED. DGL_ERR_UNSUPPORTED: no other
 * kernel can do it. */
enum dgl_status trust_programs(struct dgl_model *m, uint32_t segments, bool (*go_on)(void *priv),
                               void *priv, bool *replanned);

#endif
