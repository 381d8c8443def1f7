/* Times passes over prompts by fences, for the estimate of core/exec/pace.c. */
#include "core/seq/batch_reads.h"

#include <assert.h>

#include "core/base/clock.h"

static bool somebody_writes(const struct dgl_batch *b)
{
    for (int32_t i = 0; i < b->info.sequences; i++)
        if (b->lanes[i].request && b->lanes[i].request->state == REQUEST_WRITES)
            return true;
    return false;
}

bool batch_reads_alone(const struct dgl_batch *b)
{
    return b->hold_ns > 0 && !somebody_writes(b);
}

int32_t batch_reads_tokens(const struct dgl_batch *b, int32_t most)
{
    if (b->hold_ns == 0 || most <= BATCH_LEAST_READ || !somebody_writes(b))
        return most;
    return pace_fit(&b->reads.pass, (double)b->hold_ns, BATCH_LEAST_READ, most);
}

/* Notes the time of the finished pass. If `exact` is false, that time is an upper limit. */
static void note(struct dgl_batch *b, bool exact)
{
    const uint64_t now = device_work_ns(b->model->shard->dev);
    struct batch_reads *reads = &b->reads;
    const uint64_t begun = reads->seen_ns > reads->begun_ns ? reads->seen_ns : reads->begun_ns;
    const uint64_t ns = now > begun ? now - begun : 1;
    pace_estimate_note(&reads->pass, reads->queued, ns, b->hold_ns, exact);
    reads->queued = 0;
    batch_reads_seen(b);
}

enum dgl_status batch_reads_queued(struct dgl_batch *b, int32_t tokens, uint64_t begun_ns)
{
    struct batch_reads *reads = &b->reads;
    struct gl_device *gl = b->model->shard->dev->gl;
    struct gl_mark mark = {0};
    enum dgl_status status = gl_mark_set(gl, &mark);
    if (status == DGL_OK)
        status = batch_reads_end(b);
    if (status != DGL_OK) {
        gl_mark_drop(gl, &mark);
        return status;
    }
    assert(reads->queued == 0);
    reads->mark = mark;
    reads->queued = tokens;
    reads->begun_ns = begun_ns;
    if (gl_mark_is_reached(gl, &reads->mark)) /* some drivers compute during the call */
        note(b, true);
    return DGL_OK;
}

void batch_reads_look(struct dgl_batch *b)
{
    if (b->reads.queued && gl_mark_is_reached(b->model->shard->dev->gl, &b->reads.mark))
        note(b, false);
}

enum dgl_status batch_reads_end(struct dgl_batch *b)
{
    struct gl_device *gl = b->model->shard->dev->gl;
    if (!b->reads.queued)
        return DGL_OK;
    gl_device_set_stop(gl, NULL);
    enum dgl_status status = gl_mark_wait(gl, &b->reads.mark);
    if (status == DGL_OK)
        note(b, true);
    b->reads.queued = 0;
    return status;
}

void batch_reads_seen(struct dgl_batch *b)
{
    b->reads.seen_ns = device_work_ns(b->model->shard->dev);
    for (int32_t i = 0; i < b->num_groups; i++)
        b->groups[i]->read_ns = dgl_now_ns();
}

void batch_reads_drop(struct dgl_batch *b)
{
    gl_mark_drop(b->model->shard->dev->gl, &b->reads.mark);
    b->reads.queued = 0;
}
