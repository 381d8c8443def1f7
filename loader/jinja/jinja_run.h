/* jinja_run.h: one render: its limits, its memory, its first fault. */
#ifndef DGL_LOADER_JINJA_RUN_H
#define DGL_LOADER_JINJA_RUN_H

#include "core/base/budget.h"
#include "core/base/mem.h"
#include "loader/jinja/jinja.h"

struct jinja_run {
    struct dgl_budget budget; /* steps, memory, the line being worked on, the first fault */
    const struct jinja_template *tmpl;
    const struct tm *now;
    struct jinja_limits limits; /* none is 0 */
    struct dgl_arena arena;     /* every value; freed at the end of the render */
    uint32_t depth;
    struct jinja_scope *scope;
    struct jinja_text *out;
};

/* Everything that can fail returns false after one of these; callers only pass that on. */
bool jinja_fail(struct jinja_run *run, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);
/* What Python answers with TypeError, ValueError or a kin of them: DGL_ERR_INVALID_ARG. */
#define jinja_error(run, ...) jinja_fail((run), DGL_ERR_INVALID_ARG, __VA_ARGS__)

/* Counts work against the limit. */
bool jinja_step(struct jinja_run *run, uint64_t count);
/* Work on `len` bytes of text. */
bool jinja_step_bytes(struct jinja_run *run, size_t len);
/* Every jinja_enter that succeeds is followed by a jinja_leave. */
bool jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);
/* Zeroed, of the render's arena; NULL after reporting. */
void *jinja_alloc(struct jinja_run *run, size_t count, size_t size);

#endif
