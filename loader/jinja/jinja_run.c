/* Limits and faults of a render. */
#include "loader/jinja/jinja_run.h"

#include "loader/jinja/jinja_ast.h"

bool jinja_fail(struct jinja_run *run, enum dgl_status status, const char *fmt, ...)
{
    struct dgl_buf text = {0};
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&text, fmt, args);
    va_end(args);
    dgl_budget_fail(&run->budget, status, "%s", text.failed || !text.p ? "out of memory" : text.p);
    dgl_buf_finish(&text);
    return false;
}

bool jinja_step(struct jinja_run *run, uint64_t count)
{
    return dgl_budget_steps(&run->budget, count);
}

bool jinja_step_bytes(struct jinja_run *run, size_t len)
{
    return dgl_budget_steps(&run->budget, dgl_budget_steps_of(len));
}

bool jinja_enter(struct jinja_run *run)
{
    if (run->depth == run->limits.depth)
        return jinja_error(run, "the template is nested more than %u levels deep",
                           run->limits.depth);
    run->depth++;
    return true;
}

void jinja_leave(struct jinja_run *run)
{
    run->depth--;
}

void *jinja_alloc(struct jinja_run *run, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    if (!dgl_budget_bytes(&run->budget, bytes))
        return NULL;
    void *part = dgl_arena_alloc(&run->arena, bytes);
    if (!part)
        dgl_budget_fail_memory(&run->budget, bytes);
    return part;
}
