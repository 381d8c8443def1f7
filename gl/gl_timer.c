/* GPU time per dispatch: a ring of timestamp queries of EXT_disjoint_timer_query, reused batch
 * after batch. */
#include "gl/gl_internal.h"

void gl_timer_init(struct gl_device *dev)
{
    if (!dev->caps.limits.timer)
        return;
    glGenQueries(GL_TIMER_BATCH + 1, dev->timer.queries);
    dev->timer.ready = true;
}

void gl_timer_finish(struct gl_device *dev)
{
    if (dev->timer.ready)
        glDeleteQueries(GL_TIMER_BATCH + 1, dev->timer.queries);
    dev->timer = (struct gl_timer){0};
}

/* Reading the flag clears it: a clock change, for example. */
static bool was_disjoint(void)
{
    GLint disjoint = 0;
    glGetIntegerv(GL_GPU_DISJOINT_EXT, &disjoint);
    return disjoint != 0;
}

void gl_timer_begin(struct gl_device *dev)
{
    if (dev->timer.ready)
        was_disjoint();
}

void gl_timer_stamp(struct gl_device *dev, size_t index)
{
    if (dev->timer.ready)
        dev->ext.QueryCounter(dev->timer.queries[index], GL_TIMESTAMP_EXT);
}

enum dgl_status gl_timer_collect(struct gl_device *dev, size_t count, uint64_t *ns)
{
    GLuint64 before = 0, after = 0;

    for (size_t i = 0; i < count; i++)
        ns[i] = UINT64_MAX;
    enum dgl_status status = gl_finish(dev); /* a query's own wait has no time limit */
    if (status != DGL_OK || !dev->timer.ready)
        return status;
    dev->ext.GetQueryObjectui64v(dev->timer.queries[0], GL_QUERY_RESULT_EXT, &before);
    for (size_t i = 0; i < count; i++, before = after) {
        dev->ext.GetQueryObjectui64v(dev->timer.queries[i + 1], GL_QUERY_RESULT_EXT, &after);
        if (after >= before)
            ns[i] = after - before;
    }
    if (was_disjoint())
        for (size_t i = 0; i < count; i++)
            ns[i] = UINT64_MAX;
    return gl_errors_check(dev, "reading timers");
}
