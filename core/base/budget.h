/*
 * budget.h: limits the work that untrusted input may cause. A call that reads an untrusted file or
 * text has one budget. Its loops charge steps, and its growing memory charges bytes. If a limit is
 * exceeded, or the log's `cancelled` returns true, the call logs one line that names the limit. All
 * later charges fail too.
 *
 * Steps count work and not time, so the same input is refused on every machine. A step is about ten
 * nanoseconds of work: copying 16 bytes, or one table lookup.
 */
#ifndef DGL_BASE_BUDGET_H
#define DGL_BASE_BUDGET_H

#include "core/base/status.h"
#include "core/base/str.h"

struct dgl_budget {
    const struct dgl_log *log;
    const char *name; /* name of the input, for messages */
    uint32_t line;    /* line of the input, for messages; 0 if unknown */
    const char *work; /* subject of the message, as in "the template takes more than N steps" */
    enum dgl_status refusal; /* status if a limit is exceeded */
    const char *advice;      /* end of the message about a limit, as in "; split it"; may be NULL */
    uint64_t max_steps, max_bytes;
    enum dgl_status status; /* status of the first failure */
    /* Private. */
    uint64_t steps_left, bytes_left; /* steps_left: without the steps until the next check */
    uint64_t until_check;
};

/* Returns a limit that grows with the input, so that long inputs have as much room per byte as
 * short ones. */
static inline uint64_t dgl_budget_limit(uint64_t base, uint64_t per_byte, uint64_t len)
{
    uint64_t scaled, limit;
    if (__builtin_mul_overflow(per_byte, len, &scaled) ||
        __builtin_add_overflow(base, scaled, &limit))
        return UINT64_MAX;
    return limit;
}

/* Starts the budget. The caller has set all fields up to the limits. */
void dgl_budget_start(struct dgl_budget *budget);
/* Raises the limits before another part of an input that arrives in parts. */
void dgl_budget_extend(struct dgl_budget *budget, uint64_t steps, uint64_t bytes);
/* These functions return false once the budget has failed. The caller then returns
 * budget->status. */
bool dgl_budget_check_steps(struct dgl_budget *budget, uint64_t count);
/* Charges steps. Checks for cancellation at intervals. */
static inline bool dgl_budget_steps(struct dgl_budget *budget, uint64_t count)
{
    if (count < budget->until_check) {
        budget->until_check -= count;
        return true;
    }
    return dgl_budget_check_steps(budget, count);
}
/* Returns the steps to charge for work on `len` bytes of text. */
static inline uint64_t dgl_budget_steps_of(size_t len)
{
    return 1 + len / 16;
}
/* Charges bytes. Freeing memory does not return its bytes. */
bool dgl_budget_bytes(struct dgl_budget *budget, uint64_t count);
/* Like dgl_grow(), but charges the growth of the array and reports failures. */
bool dgl_budget_grow(struct dgl_budget *budget, void **items, size_t *cap, size_t need,
                     size_t size);
/* Like dgl_buf_append(), but charges the copy and the growth of the buffer, and reports
 * failures. */
bool dgl_budget_append(struct dgl_budget *budget, struct dgl_buf *buf, const char *bytes,
                       size_t len);
/* Fails because of the input. Logs "NAME:LINE: ..." on the first failure only. Returns false. */
bool dgl_budget_fail(struct dgl_budget *budget, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);
bool dgl_budget_fail_memory(struct dgl_budget *budget, uint64_t bytes);

#endif
