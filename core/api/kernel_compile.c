/* dgl_kernels_compile(): compiles every kernel source of a model's plan in other processes. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/sized.h"
#include "core/memory/kernel_records.h"
#include "core/seq/session.h"
#include "core/model/text_list.h"

/* Context of the session for which persistent programs are generated. */
#define CONTEXT 256

struct compiling {
    const struct dgl_kernels_compile_params *params;
    const struct text_list *list;
    const size_t *index; /* position in `list` of each source that is compiled */
    size_t done, total;  /* progress over all sources */
    size_t next;         /* next source of `list` to report */
};

static bool go_on(void *priv)
{
    const struct compiling *c = priv;
    const struct dgl_kernels_compile_params *p = c->params;
    return !p->progress_cb || p->progress_cb(p->progress_priv, "kernels", c->done, c->total);
}

static bool tell(struct compiling *c, const struct text *text, enum dgl_compile_verdict verdict,
                 const struct gl_compile_report *report)
{
    struct dgl_compiled_text out = {.name = text->name,
                                    .op = text->op,
                                    .origin = text->origin,
                                    .source = text->source,
                                    .len = text->len,
                                    .planned = text->planned,
                                    .verdict = verdict,
                                    .ms = (double)report->cpu_ns * 1e-6,
                                    .bytes = report->binary_bytes,
                                    .memory_bytes = report->rss_bytes,
                                    .reason = report->words,
                                    .stats = report->stats};
    memcpy(out.sha256, text->sha256, sizeof(out.sha256));
    c->done++;
    return (!c->params->cb || c->params->cb(c->params->priv, &out)) && go_on(c);
}

/* Reports the sources before `end`. They were not compiled. */
static bool tell_known(struct compiling *c, size_t end)
{
    const struct gl_compile_report none = {.words = "", .stats = ""};
    while (c->next < end)
        if (!tell(c, &c->list->texts[c->next++], DGL_COMPILE_KNOWN, &none))
            return false;
    return true;
}

static bool tell_compiled(void *priv, size_t i, const struct gl_compile_report *report)
{
    static const enum dgl_compile_verdict verdicts[] = {
        [GL_COMPILE_OK] = DGL_COMPILE_OK,           [GL_COMPILE_REFUSED] = DGL_COMPILE_REFUSED,
        [GL_COMPILE_TIME] = DGL_COMPILE_TIME,       [GL_COMPILE_MEMORY] = DGL_COMPILE_MEMORY,
        [GL_COMPILE_BLOCKED] = DGL_COMPILE_BLOCKED, [GL_COMPILE_CRASHED] = DGL_COMPILE_CRASHED};
    struct compiling *c = priv;
    return tell_known(c, c->index[i]) &&
           tell(c, &c->list->texts[c->next++], verdicts[report->end], report);
}

static bool is_known(const struct dgl_kernels_compile_params *p, const char *sha256)
{
    for (size_t i = 0; i < p->num_known; i++)
        if (strcmp(p->known[i], sha256) == 0)
            return true;
    return false;
}

static enum dgl_status compile(struct dgl_device *dev, const struct dgl_kernels_compile_params *p,
                               const struct text_list *list)
{
    struct gl_program_params *params = dgl_new_array(struct gl_program_params, list->count);
    size_t *index = dgl_new_array(size_t, list->count), count = 0;
    struct compiling c = {.params = p, .list = list, .index = index, .total = list->count};
    enum dgl_status status = DGL_OK;
    if (!params || !index)
        TRY(dgl_fail_memory(dev->log, "texts to compile", list->count * sizeof(*params)));
    for (size_t i = 0; i < list->count; i++) {
        const struct text *text = &list->texts[i];
        if (is_known(p, text->sha256))
            continue;
        index[count] = i;
        params[count++] = (struct gl_program_params){
            .source = text->source, .len = text->len, .label = text->name, .origin = text->origin};
    }
    TRY(gl_programs_try(
        dev->gl, params, count,
        &(struct gl_try){
            .limits = {p->seconds > 0 ? (uint64_t)p->seconds * 1000000000u : 0, p->memory_bytes},
            .cb = tell_compiled,
            .priv = &c,
            .go_on = go_on}));
    if (!tell_known(&c, list->count))
        TRY(DGL_ERR_CANCELLED);
done:
    free(params);
    free(index);
    return status;
}

/* Adds the persistent programs if this device would try the persistent executor. The programs are
 * those of a short session, which is created for them. The model needs no weights. */
static enum dgl_status add_persistent(struct text_list *list, struct dgl_model *m,
                                      enum dgl_executor wanted)
{
    const struct persistent *p = &m->shard->engine->persistent;
    const struct dgl_session_params params = {
        .context = CONTEXT < m->info.context ? CONTEXT : m->info.context};
    struct dgl_session *s = NULL;
    if (!p->exec || (!p->aside && wanted != DGL_EXECUTOR_PERSISTENT))
        return DGL_OK;
    enum dgl_status status =
        weight_buffers_init_empty(&m->shard->buffers, m->shard->dev, &m->shard->engine->weights);
    if (status == DGL_OK)
        status = session_create(m, &params, NULL, &s);
    if (status == DGL_OK)
        status = text_list_add_persistent(list, m->shard, &s->state.memory);
    if (s)
        session_destroy(s);
    return status;
}

enum dgl_status dgl_kernels_compile(struct dgl_device *dev,
                                    const struct dgl_kernels_compile_params *params)
{
    struct dgl_kernels_compile_params all;
    if (!dev || !DGL_TAKE(dev->log, dgl_kernels_compile_params, params, &all))
        return DGL_ERR_INVALID_ARG;
    const struct dgl_kernels_compile_params *const p = &all;
    struct text_list list = {0};
    struct gl_saved saved;
    const struct plan_device plan = dev->plan;
    const struct dgl_model_params model = {.path = p->path,
                                           .override_kv = p->override_kv,
                                           .kernels = p->kernels,
                                           .kv_type = p->kv_type,
                                           .executor = p->executor,
                                           .no_tuned = p->no_tuned,
                                           .hash_weights = DGL_HASH_NEVER};
    enum dgl_status status = device_enter(dev, &saved);
    if (status != DGL_OK)
        return status;
    struct dgl_model *m = dgl_new(struct dgl_model);
    if (!m) {
        device_leave(dev, &saved);
        return dgl_fail_memory(dev->log, "model", sizeof(*m));
    }
    /* Ignore the verdicts of earlier tests and compiles: no kernel runs, and every source of the
     * plan must be compiled. */
    kernel_records_hide_wrong(dev);
    TRY(model_plan(m, dev, &model));
    TRY(text_list_add_plan(&list, m->shard));
    if (p->all || p->executor == DGL_EXECUTOR_PERSISTENT)
        TRY(add_persistent(&list, m, p->executor));
    if (p->all)
        TRY(text_list_add_all(&list, m->shard));
    TRY(compile(dev, p, &list));
done:
    text_list_finish(&list);
    model_destroy(m);
    dev->plan = plan;
    device_leave(dev, &saved);
    return status;
}
