/* Limits and faults of a render. */
#include "loader/jinja/jinja_run.h"

#include <inttypes.h>

#include "loader/jinja/jinja_ast.h"

enum { bytes_per_step = 16 };

bool jinja_fail(struct jinja_run *run, enum dgl_status status, const char *fmt, ...)
{
    struct dgl_buf text = {0};
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&text, fmt, args);
    va_end(args);
    run->status = dgl_fail(run->log, status, "%s:%u: %s", run->tmpl->name, run->line,
                           text.failed || !text.p ? "out of memory" : text.p);
    dgl_buf_finish(&text);
    return false;
}

bool jinja_step(struct jinja_run *run, uint64_t count)
{
    if (count <= run->limits.steps - run->steps) {
        run->steps += count;
        return true;
    }
    return jinja_error(run, "the template takes more than %" PRIu64 " steps", run->limits.steps);
}

bool jinja_step_bytes(struct jinja_run *run, size_t len)
{
    return jinja_step(run, 1 + len / bytes_per_step);
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
    if (__builtin_mul_overflow(count, size, &bytes) ||
        bytes > run->limits.memory_bytes - run->memory) {
        jinja_error(run, "the template needs more than %zu bytes of memory",
                    run->limits.memory_bytes);
        return NULL;
    }
    void *part = dgl_arena_alloc(&run->arena, bytes);
    if (!part)
        run->status = dgl_fail_memory(run->log, run->tmpl->name, bytes);
    run->memory += bytes;
    return part;
}
