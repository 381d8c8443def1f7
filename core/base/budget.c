/* Counts steps and bytes, and reports the first failure in one line. */
#include "core/base/budget.h"

#include <inttypes.h>
#include <stdarg.h>

#include "core/base/mem.h"

enum { steps_per_check = 1 << 18 }; /* a few milliseconds */

void dgl_budget_start(struct dgl_budget *budget)
{
    budget->status = DGL_OK;
    budget->bytes_left = budget->max_bytes;
    budget->until_check = budget->max_steps < steps_per_check ? budget->max_steps : steps_per_check;
    budget->steps_left = budget->max_steps - budget->until_check;
}

void dgl_budget_extend(struct dgl_budget *budget, uint64_t steps, uint64_t bytes)
{
    if (budget->status != DGL_OK)
        return;
    budget->max_steps = dgl_budget_limit(budget->max_steps, 1, steps);
    budget->max_bytes = dgl_budget_limit(budget->max_bytes, 1, bytes);
    budget->steps_left = dgl_budget_limit(budget->steps_left, 1, steps);
    budget->bytes_left = dgl_budget_limit(budget->bytes_left, 1, bytes);
}

bool dgl_budget_fail(struct dgl_budget *budget, enum dgl_status status, const char *fmt, ...)
{
    if (budget->status != DGL_OK)
        return false;
    struct dgl_buf text = {0};
    if (budget->name)
        dgl_buf_puts(&text, budget->name);
    if (budget->line)
        dgl_buf_printf(&text, ":%" PRIu32, budget->line);
    if (budget->name)
        dgl_buf_puts(&text, ": ");
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&text, fmt, args);
    va_end(args);
    budget->status =
        dgl_fail(budget->log, status, "%s", text.failed || !text.p ? "out of memory" : text.p);
    budget->steps_left = budget->until_check = budget->bytes_left = 0;
    dgl_buf_finish(&text);
    return false;
}

bool dgl_budget_fail_memory(struct dgl_budget *budget, uint64_t bytes)
{
    if (budget->status == DGL_OK)
        budget->status =
            dgl_fail_memory(budget->log, budget->name ? budget->name : budget->work, bytes);
    budget->steps_left = budget->until_check = budget->bytes_left = 0;
    return false;
}

bool dgl_budget_check_steps(struct dgl_budget *budget, uint64_t count)
{
    const struct dgl_log *log = budget->log;
    uint64_t left = budget->steps_left + budget->until_check;
    if (budget->status != DGL_OK)
        return false;
    if (count > left)
        return dgl_budget_fail(budget, budget->refusal, "%s takes more than %" PRIu64 " steps%s",
                               budget->work, budget->max_steps,
                               budget->advice ? budget->advice : "");
    if (log && log->cancelled && log->cancelled(log->priv))
        return dgl_budget_fail(budget, DGL_ERR_CANCELLED, "%s was cancelled", budget->work);
    left -= count;
    budget->until_check = left < steps_per_check ? left : steps_per_check;
    budget->steps_left = left - budget->until_check;
    return true;
}

static bool fail_bytes(struct dgl_budget *budget)
{
    return dgl_budget_fail(budget, budget->refusal,
                           "%s needs more than %" PRIu64 " bytes of memory%s", budget->work,
                           budget->max_bytes, budget->advice ? budget->advice : "");
}

bool dgl_budget_bytes(struct dgl_budget *budget, uint64_t count)
{
    if (count > budget->bytes_left)
        return fail_bytes(budget);
    budget->bytes_left -= count;
    return budget->status == DGL_OK;
}

/* Both functions grow an array by at least half. They check the minimum before, and charge the
 * actual growth after. */

bool dgl_budget_grow(struct dgl_budget *budget, void **items, size_t *cap, size_t need, size_t size)
{
    size_t before = *cap, least;
    if (need <= before)
        return budget->status == DGL_OK;
    if (__builtin_mul_overflow(need - before, size, &least) || least > budget->bytes_left)
        return fail_bytes(budget);
    if (!dgl_grow(items, cap, need, size))
        return dgl_budget_fail_memory(budget, least);
    return dgl_budget_bytes(budget, (uint64_t)(*cap - before) * size);
}

bool dgl_budget_append(struct dgl_budget *budget, struct dgl_buf *buf, const char *bytes,
                       size_t len)
{
    size_t before = buf->cap, room = before - buf->len;
    if (!dgl_budget_steps(budget, dgl_budget_steps_of(len)))
        return false;
    if (len > room && len - room > budget->bytes_left)
        return fail_bytes(budget);
    dgl_buf_append(buf, bytes, len);
    if (buf->failed)
        return dgl_budget_fail_memory(budget, len);
    return buf->cap == before || dgl_budget_bytes(budget, buf->cap - before);
}
