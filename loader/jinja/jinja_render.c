/* Rendering: sets limits and variables, and returns the text and its taint. */
#include <string.h>

#include "loader/jinja/jinja_eval.h"
#include "loader/jinja/jinja_messages.h"

/* ---- limits and faults ---- */

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

bool jinja_fail_size(struct jinja_run *run)
{
    return jinja_error(run, "the template makes a text of more than %zu bytes",
                       run->limits.output_bytes);
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

enum { default_steps = 20 * 1000 * 1000, default_depth = 1000 };
enum { default_output_bytes = 64 << 20, default_memory_bytes = 256 << 20 };

/* ---- variables ---- */

/* Sets the variables and global functions that the template uses. */
static bool load_names(struct jinja_run *run, const struct jinja_params *params)
{
    for (const struct jinja_symbol *s = run->tmpl->symbols; s; s = s->next) {
        const struct jinja_variable *variable = NULL;
        const struct jinja_builtin *builtin;
        struct jinja_value value;
        for (size_t i = 0; i < params->num_variables; i++) {
            if (dgl_str_equal(params->variables[i].name, s->name))
                variable = &params->variables[i];
        }
        if (variable) {
            if (!jinja_from_json(run, variable->value, !variable->trusted, &value))
                return false;
            if (!variable->trusted && dgl_str_eq(s->name, "messages") &&
                !jinja_prepare_messages(run, params, &value))
                return false;
        } else if ((builtin = jinja_find_global(s->name)) != NULL &&
                   (run->now || !dgl_str_eq(s->name, "strftime_now"))) {
            const struct jinja_value none = {0};
            if (!jinja_new_function(run, builtin, &none, &value))
                return false;
        } else if (dgl_str_eq(s->name, "self")) {
            value = (struct jinja_value){.type = JINJA_SELF};
        } else {
            continue;
        }
        if (!jinja_scope_set(run, run->scope, s, &value))
            return false;
    }
    return true;
}

bool jinja_reads(const struct jinja_template *tmpl, struct dgl_str name)
{
    const struct jinja_symbol *s = tmpl->symbols;
    while (s && !dgl_str_equal(s->name, name))
        s = s->next;
    return s != NULL;
}

/* ---- rendering ---- */

enum dgl_status jinja_render(const struct dgl_log *log, const struct jinja_template *tmpl,
                             const struct jinja_params *params, struct dgl_buf *text,
                             struct dgl_buf *taint)
{
    struct jinja_text result = {0};
    struct jinja_run run = {
        .tmpl = tmpl, .now = params->now, .limits = params->limits, .out = &result};
    struct jinja_limits *limits = &run.limits;
    size_t text_len = text->len, taint_len = taint ? taint->len : 0;
    limits->steps = limits->steps ? limits->steps : default_steps;
    limits->output_bytes = limits->output_bytes ? limits->output_bytes : default_output_bytes;
    limits->memory_bytes = limits->memory_bytes ? limits->memory_bytes : default_memory_bytes;
    limits->depth = limits->depth ? limits->depth : default_depth;
    run.budget = (struct dgl_budget){.log = log,
                                     .name = tmpl->name,
                                     .line = 1,
                                     .work = "the template",
                                     .refusal = DGL_ERR_INVALID_ARG,
                                     .max_steps = limits->steps,
                                     .max_bytes = limits->memory_bytes};
    dgl_budget_start(&run.budget);
    enum dgl_status status = DGL_OK;
    run.scope = jinja_scope_new(&run, NULL);
    if (!run.scope || !load_names(&run, params) || !jinja_exec_body(&run, &tmpl->body)) {
        status = run.budget.status;
        goto done;
    }
    bool ok = !result.bytes.failed && !result.taint.failed;
    if (ok)
        dgl_buf_append(text, result.bytes.p, result.bytes.len);
    if (ok && taint)
        ok = jinja_text_write_taint(&result, taint);
    if (ok && !text->failed)
        goto done;
    /* Restore the buffers. Their capacity may have grown. */
    text->len = text_len;
    if (taint)
        taint->len = taint_len;
    status = dgl_fail_memory(log, tmpl->name, result.bytes.len);
done:
    dgl_buf_finish(&result.bytes);
    dgl_buf_finish(&result.taint);
    dgl_arena_finish(&run.arena);
    return status;
}
