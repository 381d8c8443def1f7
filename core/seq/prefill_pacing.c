/* Times passes over prompts by fences, for the estimate of core/exec/pace.c. */
#include "core/seq/prefill_pacing.h"

#include <assert.h>

#include "core/base/clock.h"

static bool any_decodes(const struct dgl_batch *b)
{
    for (int32_t i = 0; i < b->info.sequences; i++)
        if (b->lanes[i].request && b->lanes[i].request->state == REQUEST_WRITES)
            return true;
    return false;
}

bool prefill_alone(const struct dgl_batch *b)
{
    return b->hold_ns > 0 && !any_decodes(b);
}

int32_t prefill_tokens(const struct dgl_batch *b, int32_t most)
{
    if (b->hold_ns == 0 || most <= PREFILL_LEAST || !any_decodes(b))
        return most;
    return pace_fit(&b->prefill.pass, (double)b->hold_ns, PREFILL_LEAST, most);
}

/* Notes the time of the finished pass. If `exact` is false, that time is an upper limit. */
static void note(struct dgl_batch *b, bool exact)
{
    const uint64_t now = device_work_ns(b->model->shard->dev);
    struct prefill_pacing *p = &b->prefill;
    const uint64_t begun = p->seen_ns > p->begun_ns ? p->seen_ns : p->begun_ns;
    const uint64_t ns = now > begun ? now - begun : 1;
    pace_estimate_note(&p->pass, p->queued, ns, b->hold_ns, exact);
    p->queued = 0;
    prefill_seen(b);
}

enum dgl_status prefill_queued(struct dgl_batch *b, int32_t tokens, uint64_t begun_ns)
{
    struct prefill_pacing *p = &b->prefill;
    struct gl_device *gl = b->model->shard->dev->gl;
    struct gl_mark mark = {0};
    enum dgl_status status = gl_mark_set(gl, &mark);
    if (status == DGL_OK)
        status = prefill_wait(b);
    if (status != DGL_OK) {
        gl_mark_drop(gl, &mark);
        return status;
    }
    assert(p->queued == 0);
    p->mark = mark;
    p->queued = tokens;
    p->begun_ns = begun_ns;
    if (gl_mark_is_reached(gl, &p->mark)) /* some drivers compute during the call */
        note(b, true);
    return DGL_OK;
}

void prefill_look(struct dgl_batch *b)
{
    if (b->prefill.queued && gl_mark_is_reached(b->model->shard->dev->gl, &b->prefill.mark))
        note(b, false);
}

enum dgl_status prefill_wait(struct dgl_batch *b)
{
    struct gl_device *gl = b->model->shard->dev->gl;
    if (!b->prefill.queued)
        return DGL_OK;
    gl_device_set_stop(gl, NULL);
    enum dgl_status status = gl_mark_wait(gl, &b->prefill.mark);
    if (status == DGL_OK)
        note(b, true);
    b->prefill.queued = 0;
    return status;
}

void prefill_seen(struct dgl_batch *b)
{
    b->prefill.seen_ns = device_work_ns(b->model->shard->dev);
    for (int32_t i = 0; i < b->num_groups; i++)
        b->groups[i]->read_ns = dgl_now_ns();
}

void prefill_drop(struct dgl_batch *b)
{
    gl_mark_drop(b->model->shard->dev->gl, &b->prefill.mark);
    b->prefill.queued = 0;
}
