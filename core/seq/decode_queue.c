/* Batches of decode steps between the session and the device. */
#include "core/seq/decode_queue.h"

#include <assert.h>
#include <string.h>

bool decode_queue_has_room(const struct decode_queue *q)
{
    return q->count < (q->session->model->dev->info.software ? 1 : DECODE_MAX_BATCHES);
}

enum dgl_status decode_queue_push(struct decode_queue *q, int32_t steps)
{
    const struct dgl_session *s = q->session;
    const struct gl_range ids = s->memory.state[BUF_IDS];
    struct decode_batch *batch = &q->batch[q->count];
    assert(decode_queue_has_room(q) && steps > 0 && steps <= DGL_READBACK_INTERVAL_MAX);
    enum dgl_status status = exec_run_submit(q->run, (uint32_t)steps, NULL);
    if (status == DGL_OK)
        status = gl_readback_begin(s->model->dev->gl, ids.buffer,
                                   ids.offset + (uint64_t)(s->len + q->steps + 1) * 4,
                                   (uint32_t)steps * 4, &batch->ids);
    if (status != DGL_OK)
        return status;
    batch->steps = steps;
    q->count++;
    q->steps += steps;
    return DGL_OK;
}

enum dgl_status decode_queue_pop(struct decode_queue *q, int32_t *ids, int32_t *count)
{
    const struct decode_batch batch = q->batch[0];
    assert(q->count > 0);
    q->count--;
    q->steps -= batch.steps;
    memmove(q->batch, q->batch + 1, (size_t)q->count * sizeof(batch));
    *count = batch.steps;
    return gl_readback_end(q->session->model->dev->gl, batch.ids, ids);
}

void decode_queue_drop(struct decode_queue *q)
{
    for (int32_t i = 0; i < q->count; i++)
        gl_readback_drop(q->session->model->dev->gl, q->batch[i].ids);
    q->count = 0;
    q->steps = 0;
}
