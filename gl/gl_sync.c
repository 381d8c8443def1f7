/* Synchronisation: barriers on demand, flushes, fences, waits with a time limit, maps of results,
 * and the flag of a lost device. Only this file calls the driver to start work or to wait. */
#include <assert.h>

#include "core/base/clock.h"
#include "gl/gl_internal.h"

/* Time of polling before a wait sleeps. A short wait is faster with polling (a readback on NVIDIA:
 * 18 us). */
#define SPIN_NS 50000ull
/* Longest wait between two checks of the stop flag. */
#define STOP_NS 50000000ull

enum dgl_status gl_lost_check(const struct gl_device *dev)
{
    if (!dev->lost)
        return DGL_OK;
    return dgl_fail(dev->log, DGL_ERR_DEVICE_LOST, "%s was lost earlier: open it again",
                    dev->caps.renderer);
}

enum dgl_status gl_lost_set(struct gl_device *dev, const char *why)
{
    dev->lost = true;
    return dgl_fail(dev->log, DGL_ERR_DEVICE_LOST, "%s is lost: %s", dev->caps.renderer, why);
}

enum dgl_status gl_reset_check(struct gl_device *dev)
{
    if (!dev->caps.limits.reset_notification)
        return DGL_OK;
    switch (dev->ext.GetGraphicsResetStatus()) {
    case GL_GUILTY_CONTEXT_RESET_KHR:
        return gl_lost_set(dev, "the GPU was reset because of this program's work");
    case GL_INNOCENT_CONTEXT_RESET_KHR:
        return gl_lost_set(dev, "the GPU was reset because of another program");
    case GL_UNKNOWN_CONTEXT_RESET_KHR:
        return gl_lost_set(dev, "the GPU was reset");
    default: /* GL_NO_ERROR, or a value outside the specification, which some drivers return */
        return DGL_OK;
    }
}

/* ---- fences ---------------------------------------------------------------------------------- */

enum dgl_status gl_fence_create(struct gl_device *dev, GLsync *out)
{
    *out = glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
    if (*out)
        return DGL_OK;
    enum dgl_status status = gl_errors_check(dev, "creating a fence");
    if (status != DGL_OK)
        return status;
    return dgl_fail(dev->log, DGL_ERR_GPU, "creating a fence: the driver returned none");
}

bool gl_fence_is_reached(GLsync fence)
{
    return glClientWaitSync(fence, 0, 0) != GL_TIMEOUT_EXPIRED;
}

/* Deletes the reached fences, oldest first, up to the first one that is not reached. */
static void drop_done(struct gl_in_flight *lists)
{
    while (lists->count > 0) {
        GLsync *oldest = &lists->fences[lists->head];
        if (*oldest && !gl_fence_is_reached(*oldest))
            break;
        glDeleteSync(*oldest);
        *oldest = NULL;
        lists->head = (lists->head + 1) % GL_MAX_IN_FLIGHT;
        lists->count--;
    }
}

enum dgl_status gl_in_flight_add(struct gl_device *dev)
{
    struct gl_in_flight *lists = &dev->in_flight;

    drop_done(lists);
    if (lists->count == GL_MAX_IN_FLIGHT) { /* too much work is queued: wait for the oldest fence */
        enum dgl_status status = gl_fence_wait_or_stop(dev, &lists->fences[lists->head]);
        if (status != DGL_OK)
            return status;
        drop_done(lists);
    }
    uint32_t tail = (lists->head + lists->count) % GL_MAX_IN_FLIGHT;
    enum dgl_status status = gl_fence_create(dev, &lists->fences[tail]);
    if (status == DGL_OK) {
        lists->count++;
        lists->unfenced = 0;
    }
    return status;
}

void gl_in_flight_finish(struct gl_device *dev)
{
    for (int i = 0; i < GL_MAX_IN_FLIGHT; i++)
        glDeleteSync(dev->in_flight.fences[i]);
    dev->in_flight = (struct gl_in_flight){0};
}

static uint32_t count_signalled(const struct gl_in_flight *lists)
{
    uint32_t signalled = 0;
    for (int i = 0; i < GL_MAX_IN_FLIGHT; i++) {
        GLint state = GL_UNSIGNALED;
        if (lists->fences[i])
            glGetSynciv(lists->fences[i], GL_SYNC_STATUS, 1, NULL, &state);
        signalled += state == GL_SIGNALED;
    }
    return signalled;
}

/* ---- entries into the driver ----------------------------------------------------------------- */

void gl_device_set_observer(struct gl_device *dev,
                            void (*cb)(void *priv, const struct gl_event *event), void *priv)
{
    dev->observer = cb;
    dev->observer_priv = priv;
}

uint64_t gl_event_start(const struct gl_device *dev)
{
    return dev->observer ? dgl_now_ns() : 0;
}

void gl_event_end(const struct gl_device *dev, enum gl_event_kind kind, uint64_t start_ns,
                  const char *label, uint64_t bytes)
{
    if (dev->observer)
        dev->observer(dev->observer_priv, &(struct gl_event){.kind = kind,
                                                             .label = label,
                                                             .start_ns = start_ns,
                                                             .end_ns = dgl_now_ns(),
                                                             .bytes = bytes});
}

/* Counts a submit (struct gl_counters in gl.h) and returns its start time. */
static uint64_t submit_start(struct gl_device *dev)
{
    dev->counters.submits++;
    return gl_event_start(dev);
}

void gl_start(struct gl_device *dev)
{
    uint64_t start_ns = submit_start(dev);
    glFlush();
    gl_event_end(dev, GL_EVENT_FLUSH, start_ns, "", 0);
}

enum dgl_status gl_flush(struct gl_device *dev)
{
    enum dgl_status status = gl_lost_check(dev);
    if (status == DGL_OK && dev->in_flight.unfenced > 0)
        status = gl_in_flight_add(dev);
    if (status != DGL_OK)
        return status;
    gl_start(dev);
    return gl_errors_check(dev, "starting queued work");
}

const void *gl_result_map(struct gl_device *dev, GLuint id, uint64_t offset, uint64_t size)
{
    uint64_t start_ns = submit_start(dev);
    glBindBuffer(GL_COPY_READ_BUFFER, id);
    const void *ptr =
        glMapBufferRange(GL_COPY_READ_BUFFER, (GLintptr)offset, (GLsizeiptr)size, GL_MAP_READ_BIT);
    gl_event_end(dev, GL_EVENT_MAP, start_ns, "", 0);
    return ptr;
}

void gl_device_set_stop(struct gl_device *dev, const atomic_bool *stop)
{
    dev->stop = stop;
}

bool gl_is_stopped(const struct gl_device *dev)
{
    return dev->stop && atomic_load_explicit(dev->stop, memory_order_relaxed);
}

static enum dgl_status wait_for(struct gl_device *dev, GLsync *fence, bool stoppable)
{
    uint64_t start_ns = submit_start(dev), start = dgl_now_ns();
    bool stopped = false;

    GLenum result = glClientWaitSync(*fence, GL_SYNC_FLUSH_COMMANDS_BIT, 0);
    while (result == GL_TIMEOUT_EXPIRED && dgl_now_ns() - start < SPIN_NS)
        result = glClientWaitSync(*fence, 0, 0);
    if (result == GL_TIMEOUT_EXPIRED) {
        /* Much work may be queued before the fence. As long as more of the fences in flight are
         * reached, the device is alive and the time limit starts again. */
        uint32_t before, after = count_signalled(&dev->in_flight);
        uint64_t step = stoppable && dev->stop ? STOP_NS : dev->wait_limit_ns;
        do {
            uint64_t limit = dgl_now_ns() + dev->wait_limit_ns;
            before = after;
            do {
                result = glClientWaitSync(*fence, GL_SYNC_FLUSH_COMMANDS_BIT, step);
                stopped = stoppable && gl_is_stopped(dev);
            } while (result == GL_TIMEOUT_EXPIRED && !stopped && dgl_now_ns() < limit);
            if (result == GL_TIMEOUT_EXPIRED)
                after = count_signalled(&dev->in_flight);
        } while (after > before && !stopped);
    }
    glDeleteSync(*fence);
    *fence = NULL;
    gl_event_end(dev, GL_EVENT_WAIT, start_ns, "", 0);
    if (result == GL_ALREADY_SIGNALED || result == GL_CONDITION_SATISFIED)
        return DGL_OK;
    enum dgl_status status;
    TRY(gl_reset_check(dev));
    if (result == GL_TIMEOUT_EXPIRED)
        return stopped ? DGL_ERR_CANCELLED
                       : gl_lost_set(dev, "nothing completed within the time limit");
    TRY(gl_errors_check(dev, "waiting for the device"));
    status = dgl_fail(dev->log, DGL_ERR_GPU, "waiting for the device: glClientWaitSync() failed");
done:
    return status;
}

enum dgl_status gl_fence_wait(struct gl_device *dev, GLsync *fence)
{
    return wait_for(dev, fence, false);
}

enum dgl_status gl_fence_wait_or_stop(struct gl_device *dev, GLsync *fence)
{
    return wait_for(dev, fence, true);
}

enum dgl_status gl_finish(struct gl_device *dev)
{
    GLsync fence = NULL;
    enum dgl_status status;
    TRY(gl_lost_check(dev));
    TRY(gl_fence_create(dev, &fence));
    TRY(gl_fence_wait_or_stop(dev, &fence));
    dev->in_flight.unfenced = 0;
    TRY(gl_reset_check(dev));
    status = gl_errors_check(dev, "finishing queued work");
done:
    return status;
}

/* ---- barriers -------------------------------------------------------------------------------- */

void gl_barrier(struct gl_device *dev, uint32_t bits)
{
    bits &= dev->pending_barriers;
    if (!bits)
        return;
    glMemoryBarrier(bits);
    dev->pending_barriers &= ~bits;
    dev->counters.barriers++;
}

/* ---- marks ----------------------------------------------------------------------------------- */

enum dgl_status gl_mark_set(struct gl_device *dev, struct gl_mark *mark)
{
    GLsync fence = NULL;
    assert(!mark->fence);
    enum dgl_status status = gl_lost_check(dev);
    if (status == DGL_OK)
        status = gl_fence_create(dev, &fence);
    if (status != DGL_OK)
        return status;
    *mark = (struct gl_mark){.fence = fence, .context = dev->context};
    gl_start(dev);
    return DGL_OK;
}

bool gl_mark_is_reached(struct gl_device *dev, struct gl_mark *mark)
{
    if (mark->fence && gl_owns_names(dev, mark->context) && !gl_fence_is_reached(mark->fence))
        return false;
    gl_mark_drop(dev, mark);
    return true;
}

enum dgl_status gl_mark_wait(struct gl_device *dev, struct gl_mark *mark)
{
    GLsync fence = gl_owns_names(dev, mark->context) ? mark->fence : NULL;
    *mark = (struct gl_mark){0};
    return fence ? gl_fence_wait(dev, &fence) : gl_lost_check(dev);
}

void gl_mark_drop(struct gl_device *dev, struct gl_mark *mark)
{
    if (mark->fence && gl_owns_names(dev, mark->context))
        glDeleteSync(mark->fence);
    *mark = (struct gl_mark){0};
}
