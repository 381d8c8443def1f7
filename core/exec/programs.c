/* Generates the text of chosen kernels and hands it to the driver. */
#include "core/exec/programs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"

void programs_init(struct programs *p, struct dgl_device *dev, const struct kernel_table *table)
{
    *p = (struct programs){.dev = dev, .table = table};
}

void programs_finish(struct programs *p)
{
    for (size_t i = 0; i < p->cap; i++)
        gl_program_destroy(p->dev->gl, &p->program[i]);
    for (size_t i = 0; i < p->begun_cap; i++)
        gl_pending_destroy(p->dev->gl, &p->begun[i]);
    free(p->program);
    free(p->begun);
    *p = (struct programs){0};
}

bool programs_has(const struct programs *p, const struct kernel_use *use)
{
    return use->id < p->cap && p->program[use->id];
}

struct gl_program *programs_get(const struct programs *p, const struct kernel_use *use)
{
    assert(programs_has(p, use));
    return p->program[use->id];
}

/* Makes room for all uses of the table. */
static enum dgl_status grow(struct programs *p)
{
    const size_t known = p->cap;
    if (!dgl_grow((void **)&p->program, &p->cap, p->table->count, sizeof(struct gl_program *)))
        return dgl_fail_memory(p->dev->log, "programs",
                               p->table->count * sizeof(struct gl_program *));
    for (size_t i = known; i < p->cap; i++)
        p->program[i] = NULL;
    return DGL_OK;
}

/* Compares kernels and libs of two choices by their texts, so the choices may come from different
 * sets. */
static bool same_text(const struct kernel_choice *a, const struct kernel_choice *b)
{
    bool same = a->kernel->text_len == b->kernel->text_len && a->num_vars == b->num_vars &&
                memcmp(a->kernel->text, b->kernel->text, a->kernel->text_len) == 0;
    for (uint32_t i = 0; same && i < a->num_vars; i++)
        same = a->vars[i].value == b->vars[i].value;
    for (uint32_t i = 0; same && i < a->kernel->num_libs; i++)
        same = a->libs[i]->text_len == b->libs[i]->text_len &&
               memcmp(a->libs[i]->text, b->libs[i]->text, a->libs[i]->text_len) == 0;
    return same;
}

enum dgl_status programs_share(struct programs *p, const struct programs *from)
{
    enum dgl_status status = grow(p);
    for (size_t i = 0; i < p->table->count && status == DGL_OK; i++) {
        const struct kernel_use *use = p->table->uses[i];
        for (size_t j = 0; j < from->table->count && !programs_has(p, use); j++) {
            const struct kernel_use *other = from->table->uses[j];
            if (programs_has(from, other) && same_text(&use->choice, &other->choice))
                p->program[use->id] = gl_program_ref(programs_get(from, other));
        }
    }
    return status;
}

/* A source that is being compiled. */
struct source {
    const struct dgl_log *log;
    const struct kernel_choice *choice;
    const struct dgl_buf *text;
    enum gl_compile_end end;
};

/* Returns true if the compiler crashed or exceeded a limit on a built-in kernel: another kernel can
 * replace it. */
static bool is_exceeded(const struct source *s)
{
    return s->end != GL_COMPILE_OK && s->end != GL_COMPILE_REFUSED &&
           kernel_choice_is_builtin(s->choice);
}

static enum dgl_status source_refused(void *priv, bool linking, const char *words)
{
    const struct source *s = priv;
    if (is_exceeded(s)) {
        dgl_warn(s->log, "kernel %s (%s) is not used here: %s", s->choice->kernel->name,
                 s->choice->kernel->origin, words);
        return DGL_ERR_KERNEL;
    }
    return kernel_fail_program(s->log, s->choice, (struct dgl_str){s->text->p, s->text->len},
                               linking, words);
}

/* Generates the source of a use. */
static enum dgl_status make_source(const struct dgl_log *log, const struct kernel_use *use,
                                   struct dgl_buf *text, struct gl_program_params *params)
{
    const struct kernel *kernel = use->choice.kernel;
    enum dgl_status status = kernel_generate(log, &use->choice, text);
    if (status == DGL_OK && text->failed)
        status = dgl_fail_memory(log, kernel->name, kernel->text_len);
    *params = (struct gl_program_params){
        .source = text->p, .len = text->len, .label = kernel->name, .origin = kernel->origin};
    return status;
}

enum dgl_status programs_begin(struct programs *p, const struct kernel_use *const *uses,
                               size_t count)
{
    const size_t known = p->begun_cap;
    if (!gl_compiles_aside(p->dev->gl))
        return DGL_OK;
    struct dgl_buf *texts = dgl_new_array(struct dgl_buf, count);
    struct gl_program_params *params = dgl_new_array(struct gl_program_params, count);
    struct gl_pending **begun = dgl_new_array(struct gl_pending *, count);
    const struct kernel_use **todo = dgl_new_array(const struct kernel_use *, count);
    enum dgl_status status = DGL_OK;
    size_t n = 0;
    if (!texts || !params || !begun || !todo ||
        !dgl_grow((void **)&p->begun, &p->begun_cap, p->table->count, sizeof(*p->begun)))
        TRY(dgl_fail_memory(p->dev->log, "program batch", count * sizeof(*params)));
    for (size_t i = known; i < p->begun_cap; i++)
        p->begun[i] = NULL;
    for (size_t i = 0; i < count; i++) {
        bool have = programs_has(p, uses[i]) || p->begun[uses[i]->id];
        for (size_t j = 0; j < n && !have; j++)
            have = todo[j] == uses[i];
        if (have)
            continue;
        todo[n++] = uses[i];
        TRY(make_source(p->dev->log, uses[i], &texts[n - 1], &params[n - 1]));
    }
    if (n > 0)
        TRY(gl_pendings_create(p->dev->gl, params, n, begun));
    for (size_t i = 0; i < n; i++)
        p->begun[todo[i]->id] = begun[i];
done:
    for (size_t i = 0; texts && i < n; i++)
        dgl_buf_finish(&texts[i]);
    free(texts);
    free(params);
    free(begun);
    free(todo);
    return status;
}

bool programs_are_ready(const struct programs *p, const struct kernel_use *const *uses,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t id = uses[i]->id;
        if (id < p->begun_cap && p->begun[id] && !gl_pending_is_ready(p->dev->gl, p->begun[id]))
            return false;
    }
    return true;
}

enum dgl_status programs_compile(struct programs *p, const struct kernel_use *const *uses,
                                 size_t count, const struct gl_compile *how)
{
    const struct dgl_log *log = p->dev->log;
    const struct kernel_use **missing = dgl_new_array(const struct kernel_use *, count);
    struct dgl_buf *texts = dgl_new_array(struct dgl_buf, count);
    struct gl_program_params *params = dgl_new_array(struct gl_program_params, count);
    struct source *sources = dgl_new_array(struct source, count);
    struct gl_program **programs = dgl_new_array(struct gl_program *, count);
    size_t n = 0;
    enum dgl_status status = DGL_OK;
    p->exceeded = NULL;
    if (!missing || !texts || !params || !sources || !programs)
        TRY(dgl_fail_memory(log, "program batch", count * sizeof(*params)));
    TRY(grow(p));
    for (size_t i = 0; i < count; i++) {
        bool have = p->program[uses[i]->id] != NULL;
        for (size_t j = 0; j < n && !have; j++)
            have = missing[j] == uses[i];
        if (!have)
            missing[n++] = uses[i];
    }
    if (n == 0)
        goto done;
    account_push(p->dev, ACCOUNT_COMPILE);
    for (size_t i = 0; i < n && status == DGL_OK; i++) {
        status = make_source(log, missing[i], &texts[i], &params[i]);
        sources[i] = (struct source){log, &missing[i]->choice, &texts[i], GL_COMPILE_OK};
        params[i].end = &sources[i].end;
        params[i].refused = source_refused;
        params[i].refused_priv = &sources[i];
        if (missing[i]->id < p->begun_cap)
            params[i].begun = &p->begun[missing[i]->id];
    }
    if (status == DGL_OK)
        status = gl_programs_create(p->dev->gl, params, n, how, programs);
    for (size_t i = 0; i < n && status == DGL_OK; i++)
        p->program[missing[i]->id] = programs[i];
    for (size_t i = 0; i < n && status == DGL_ERR_KERNEL && !p->exceeded; i++)
        if (is_exceeded(&sources[i]))
            p->exceeded = missing[i];
    account_pop(p->dev);
done:
    for (size_t i = 0; texts && i < n; i++)
        dgl_buf_finish(&texts[i]);
    free(missing);
    free(texts);
    free(params);
    free(sources);
    free(programs);
    return status;
}
