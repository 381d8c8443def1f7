/* Order and life signs: barriers on demand, fences, waiting with a limit, and the sticky lost
 * flag. */
#include "gl/gl_internal.h"

#include "core/base/clock.h"

/* A readback that is nearly done is cheaper to poll than to sleep for (NVIDIA: 18 us with
 * polling). */
#define SPIN_NS 50000ull

enum dgl_status gl_lost_check(const struct gl_device *dev)
{
    if (!dev->lost)
        return DGL_OK;
    return dgl_fail(dev->log, DGL_ERR_DEVICE_LOST,
                    "%s was lost earlier: close the device and open it again", dev->caps.renderer);
}

enum dgl_status gl_lost_set(struct gl_device *dev, const char *why)
{
    dev->lost = true;
    return dgl_fail(dev->log, DGL_ERR_DEVICE_LOST,
                    "%s is lost: %s; close the device and open it again", dev->caps.renderer, why);
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
    enum dgl_status status = gl_errors_check(dev, "making a fence");
    if (status != DGL_OK)
        return status;
    return dgl_fail(dev->log, DGL_ERR_GPU, "making a fence: the driver gave none");
}

enum dgl_status gl_marks_add(struct gl_device *dev)
{
    struct gl_marks *marks = &dev->marks;

    if (marks->count == GL_MARKS) { /* far enough ahead: wait for the oldest */
        enum dgl_status status = gl_fence_wait(dev, &marks->fences[marks->head]);
        if (status != DGL_OK)
            return status;
    }
    while (marks->count > 0) {
        GLsync *oldest = &marks->fences[marks->head];
        if (*oldest && glClientWaitSync(*oldest, 0, 0) == GL_TIMEOUT_EXPIRED)
            break;
        glDeleteSync(*oldest);
        *oldest = NULL;
        marks->head = (marks->head + 1) % GL_MARKS;
        marks->count--;
    }
    uint32_t tail = (marks->head + marks->count) % GL_MARKS;
    enum dgl_status status = gl_fence_create(dev, &marks->fences[tail]);
    if (status == DGL_OK)
        marks->count++;
    return status;
}

void gl_marks_finish(struct gl_device *dev)
{
    for (int i = 0; i < GL_MARKS; i++)
        glDeleteSync(dev->marks.fences[i]);
    dev->marks = (struct gl_marks){0};
}

static uint32_t marks_signalled(const struct gl_device *dev)
{
    uint32_t signalled = 0;
    for (int i = 0; i < GL_MARKS; i++) {
        GLint state = GL_UNSIGNALED;
        if (dev->marks.fences[i])
            glGetSynciv(dev->marks.fences[i], GL_SYNC_STATUS, 1, NULL, &state);
        signalled += state == GL_SIGNALED;
    }
    return signalled;
}

static bool is_done(GLenum result)
{
    return result == GL_ALREADY_SIGNALED || result == GL_CONDITION_SATISFIED;
}

/* Much work may be queued before the fence: as long as submits complete, the device is alive. */
static GLenum wait_blocking(struct gl_device *dev, GLsync fence)
{
    uint32_t before = marks_signalled(dev);

    for (;;) {
        GLenum result = glClientWaitSync(fence, GL_SYNC_FLUSH_COMMANDS_BIT, dev->wait_limit_ns);
        if (result != GL_TIMEOUT_EXPIRED)
            return result;
        uint32_t after = marks_signalled(dev);
        if (after <= before)
            return result;
        before = after;
    }
}

enum dgl_status gl_fence_wait(struct gl_device *dev, GLsync *fence)
{
    enum dgl_status status = DGL_OK;
    uint64_t start = dgl_now_ns();
    GLenum result = glClientWaitSync(*fence, GL_SYNC_FLUSH_COMMANDS_BIT, 0);

    while (result == GL_TIMEOUT_EXPIRED && dgl_now_ns() - start < SPIN_NS)
        result = glClientWaitSync(*fence, 0, 0);
    if (result == GL_TIMEOUT_EXPIRED)
        result = wait_blocking(dev, *fence);
    glDeleteSync(*fence);
    *fence = NULL;
    if (result == GL_TIMEOUT_EXPIRED) {
        status = gl_reset_check(dev);
        if (status == DGL_OK)
            status = gl_lost_set(dev, "it did not finish anything within the time limit");
    } else if (!is_done(result)) {
        status = gl_reset_check(dev);
        if (status == DGL_OK)
            status = gl_errors_check(dev, "waiting for the device");
        if (status == DGL_OK)
            status = dgl_fail(dev->log, DGL_ERR_GPU, "waiting for the device: the driver refused");
    }
    return status;
}

/* ---- whole device ---------------------------------------------------------------------------- */

void gl_order(struct gl_device *dev, uint32_t bits)
{
    bits &= dev->unordered;
    if (!bits)
        return;
    glMemoryBarrier(bits);
    dev->unordered &= ~bits;
    dev->counters.barriers++;
}

void gl_flush(struct gl_device *dev)
{
    if (!dev->lost)
        glFlush();
}

enum dgl_status gl_finish(struct gl_device *dev)
{
    GLsync fence = NULL;

    enum dgl_status status = gl_lost_check(dev);
    if (status == DGL_OK)
        status = gl_fence_create(dev, &fence);
    if (status == DGL_OK)
        status = gl_fence_wait(dev, &fence);
    if (status == DGL_OK)
        status = gl_reset_check(dev);
    if (status == DGL_OK)
        status = gl_errors_check(dev, "finishing queued work");
    return status;
}
