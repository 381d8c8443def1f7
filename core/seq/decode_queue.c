/* Batches of decode steps between the session and the device. */
#include "core/seq/decode_queue.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"

bool decode_queue_has_room(const struct decode_queue *q)
{
    const struct dgl_session *s = q->session;
    return q->count < (s->model->dev->info.software || s->runner.profile ? 1 : DECODE_MAX_BATCHES);
}

enum dgl_status decode_queue_push(struct decode_queue *q, int32_t steps)
{
    struct dgl_session *s = q->session;
    const struct gl_range ids = s->memory.state[BUF_IDS];
    struct decode_batch *batch = &q->batch[q->count];
    assert(decode_queue_has_room(q) && steps > 0 && steps <= DGL_READBACK_INTERVAL_MAX);
    assert(!s->runner.profile || steps == 1);
    assert(s->len + q->steps + steps <= (int32_t)s->pages.num_known * DGL_KV_PAGE);
    const struct profile_pass pass = {
        .phase = DGL_PHASE_DECODE, .sequences = 1, .held = s->len + 1};
    enum dgl_status status = s->runner.profile ? runner_profile_step(&s->runner, &q->run, 1, &pass,
                                                                     &q->step, &q->done_ns)
                                               : DGL_OK;
    for (int32_t done = s->runner.profile ? steps : 0, part; done < steps && status == DGL_OK;
         done += part) {
        part = q->max_steps > 0 && steps - done > q->max_steps ? q->max_steps : steps - done;
        status = runner_queue(&s->runner, q->run, (uint32_t)part, DGL_PHASE_DECODE);
    }
    if (status == DGL_OK)
        status = gl_readback_begin(s->model->dev->gl, ids.buffer,
                                   ids.offset + (uint64_t)(s->len + q->steps + 1) * 4,
                                   (uint32_t)steps * 4, &batch->ids);
    if (status != DGL_OK)
        return status;
    batch->steps = steps;
    batch->queued_ns = dgl_now_ns();
    q->count++;
    q->steps += steps;
    return DGL_OK;
}

/* So long before a batch should be done the driver's wait takes over; shorter sleeps do not pay. */
#define EARLY_NS 150000ull
/* The longest sleep without a look at whether the call is cancelled. */
#define SLEEP_NS 10000000ull

/* Sleeps through most of the time that a batch should take, after the ones before it: some drivers'
 * waits keep a processor busy (NVIDIA's, until the fence is reached). */
static void sleep_until_nearly_done(const struct decode_queue *q, uint64_t done_ns)
{
    for (uint64_t now = dgl_now_ns(); now + EARLY_NS < done_ns && !session_is_cancelled(q->session);
         now = dgl_now_ns()) {
        uint64_t left = done_ns - EARLY_NS - now;
        nanosleep(&(struct timespec){.tv_nsec = (long)(left < SLEEP_NS ? left : SLEEP_NS)}, NULL);
    }
}

enum dgl_status decode_queue_pop(struct decode_queue *q, int32_t *ids, int32_t *count)
{
    const struct decode_batch batch = q->batch[0];
    assert(q->count > 0);
    q->count--;
    q->steps -= batch.steps;
    memmove(q->batch, q->batch + 1, (size_t)q->count * sizeof(batch));
    *count = batch.steps;
    struct gl_device *gl = q->session->model->dev->gl;
    const uint64_t steps = (uint64_t)batch.steps;
    /* The device begins it when it is there, and the one before it done. */
    uint64_t begun_ns = batch.queued_ns > q->read_ns ? batch.queued_ns : q->read_ns;
    sleep_until_nearly_done(q, begun_ns + steps * q->step_ns);
    bool overslept = q->step_ns > 0 && gl_readback_is_done(gl, batch.ids);
    enum dgl_status status = gl_readback_end(gl, batch.ids, ids);
    q->read_ns = dgl_now_ns();
    q->step_ns = (q->read_ns - begun_ns) / steps;
    if (overslept) /* it takes less, nobody knows how much */
        q->step_ns -= q->step_ns / 8;
    if (status != DGL_OK || !q->session->runner.profile)
        return status;
    q->step.readback_ns = dgl_now_ns() - q->done_ns;
    return profile_step(q->session->runner.profile, q->step);
}

void decode_queue_drop(struct decode_queue *q)
{
    for (int32_t i = 0; i < q->count; i++)
        gl_readback_drop(q->session->model->dev->gl, q->batch[i].ids);
    q->count = 0;
    q->steps = 0;
}
