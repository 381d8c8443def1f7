/*
 * budget.h: limits on the work that untrusted input may cause. A call that works on a stranger's
 * file or text has one budget; its loops take steps from it, its growing memory takes bytes. When a
 * limit is passed, or the log's `cancelled` says so, one line names the rule, and everything that
 * asks afterwards is refused too.
 *
 * Steps are counted, time is not: whether an input is refused does not depend on the machine. A
 * step is work of about ten nanoseconds, 16 bytes of copying or one look into a table.
 */
#ifndef DGL_BASE_BUDGET_H
#define DGL_BASE_BUDGET_H

#include "core/base/status.h"
#include "core/base/str.h"

struct dgl_budget {
    const struct dgl_log *log;
    const char *name;        /* of the input, for messages */
    uint32_t line;           /* of the input, for messages; 0 = none */
    const char *work;        /* "the template": takes more than N steps, needs more than N bytes */
    enum dgl_status refusal; /* the status when a limit is passed */
    const char *advice;      /* "; split it": ends the line of a limit; NULL = none */
    uint64_t max_steps, max_bytes;
    enum dgl_status status; /* of the first failure */
    /* Private. */
    uint64_t steps_left, bytes_left; /* steps_left: without those until the next check */
    uint64_t until_check;
};

/* A limit that leaves the same room per byte to long inputs as to short ones. */
static inline uint64_t dgl_budget_limit(uint64_t base, uint64_t per_byte, uint64_t len)
{
    uint64_t scaled, limit;
    if (__builtin_mul_overflow(per_byte, len, &scaled) ||
        __builtin_add_overflow(base, scaled, &limit))
        return UINT64_MAX;
    return limit;
}

/* Completes a budget whose fields down to the limits are set. */
void dgl_budget_start(struct dgl_budget *budget);
/* Raises the limits, for one more part of an input that comes in parts. */
void dgl_budget_extend(struct dgl_budget *budget, uint64_t steps, uint64_t bytes);
/* All of these are false once the budget has failed, and callers pass budget->status on. */
bool dgl_budget_check_steps(struct dgl_budget *budget, uint64_t count);
/* Takes steps; asks now and then whether the call is cancelled. */
static inline bool dgl_budget_steps(struct dgl_budget *budget, uint64_t count)
{
    if (count < budget->until_check) {
        budget->until_check -= count;
        return true;
    }
    return dgl_budget_check_steps(budget, count);
}
/* The steps of work on `len` bytes of text. */
static inline uint64_t dgl_budget_steps_of(size_t len)
{
    return 1 + len / 16;
}
/* Takes bytes; memory that is freed comes back only where it is said. */
bool dgl_budget_bytes(struct dgl_budget *budget, uint64_t count);
void dgl_budget_release(struct dgl_budget *budget, uint64_t count);
/* dgl_grow() that takes what the array grows by, and reports. */
bool dgl_budget_grow(struct dgl_budget *budget, void **items, size_t *cap, size_t need,
                     size_t size);
/* dgl_buf_append() that takes the steps of the copy and what the buffer grows by, and reports. */
bool dgl_budget_append(struct dgl_budget *budget, struct dgl_buf *buf, const char *bytes,
                       size_t len);
/* Fails as the input's fault: "NAME:LINE: ...", the first failure only. Returns false. */
bool dgl_budget_fail(struct dgl_budget *budget, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);
bool dgl_budget_fail_memory(struct dgl_budget *budget, uint64_t bytes);

#endif
