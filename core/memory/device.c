/* Entering the device's context, and its counters. */
#include "core/memory/device.h"

#include <assert.h>

#include "core/base/clock.h"
#include "core/memory/pool.h"

struct dgl_counters device_counters(const struct dgl_device *dev)
{
    struct gl_counters c = gl_device_counters(dev->gl);
    struct dgl_counters all = {
        .tokens = dev->tokens,
        .submits = c.submits,
        .readbacks = c.readbacks,
        .dispatches = c.dispatches,
        .barriers = c.barriers,
        .buffers_created = c.buffers_created,
        .programs_linked = c.programs_linked,
        .readback_bytes = c.readback_bytes,
        .upload_bytes = c.upload_bytes,
        .pages_used = dev->pages_used,
        .pages_shared = dev->pages_shared,
        .prefix_hit_tokens = dev->prefix_hit_tokens,
    };
    counters_take(&all, &dev->hidden);
    return all;
}

void counters_add(struct dgl_counters *sum, const struct dgl_counters *part)
{
    sum->tokens += part->tokens;
    sum->submits += part->submits;
    sum->readbacks += part->readbacks;
    sum->dispatches += part->dispatches;
    sum->barriers += part->barriers;
    sum->buffers_created += part->buffers_created;
    sum->programs_linked += part->programs_linked;
    sum->readback_bytes += part->readback_bytes;
    sum->upload_bytes += part->upload_bytes;
    sum->prefix_hit_tokens += part->prefix_hit_tokens;
}

void counters_take(struct dgl_counters *sum, const struct dgl_counters *part)
{
    sum->tokens -= part->tokens;
    sum->submits -= part->submits;
    sum->readbacks -= part->readbacks;
    sum->dispatches -= part->dispatches;
    sum->barriers -= part->barriers;
    sum->buffers_created -= part->buffers_created;
    sum->programs_linked -= part->programs_linked;
    sum->readback_bytes -= part->readback_bytes;
    sum->upload_bytes -= part->upload_bytes;
    sum->prefix_hit_tokens -= part->prefix_hit_tokens;
}

struct dgl_counters counters_since(const struct dgl_device *dev, const struct dgl_counters *before)
{
    struct dgl_counters now = device_counters(dev);
    counters_take(&now, before);
    return now;
}

void account_push(struct dgl_device *dev, struct account *account)
{
    dev->hiding++;
    *account = (struct account){device_counters(dev), dev->compile_ns, dgl_now_ns()};
}

void account_pop(struct dgl_device *dev, const struct account *account)
{
    /* Work of an inner section is hidden already, so it is not counted twice. */
    const struct dgl_counters work = counters_since(dev, &account->counters);
    assert(dev->hiding > 0);
    dev->hiding--;
    counters_add(&dev->hidden, &work);
    dev->compile_ns = account->compile_ns + (dgl_now_ns() - account->start_ns);
}

void device_tell(const struct dgl_device *dev, const struct dgl_event *event)
{
    if (dev->trace && dev->hiding == 0)
        dev->trace(dev->trace_priv, event);
}

static void tell_event(void *priv, const struct gl_event *event)
{
    static const struct {
        enum dgl_event_kind kind;
        const char *name;
    } rows[] = {
        [GL_EVENT_FLUSH] = {DGL_EVENT_SUBMIT, "flush"},
        [GL_EVENT_WAIT] = {DGL_EVENT_SUBMIT, "wait"},
        [GL_EVENT_MAP] = {DGL_EVENT_SUBMIT, "map"},
        [GL_EVENT_READBACK] = {DGL_EVENT_READBACK, "readback"},
        [GL_EVENT_PROGRAM] = {DGL_EVENT_COMPILE, NULL},
    };
    const char *name = rows[event->kind].name;
    device_tell(priv, &(struct dgl_event){.kind = rows[event->kind].kind,
                                          .name = name ? name : event->label,
                                          .kernel = "",
                                          .start_ns = event->start_ns,
                                          .duration_ns = event->end_ns - event->start_ns,
                                          .bytes = event->bytes});
}

void device_set_trace(struct dgl_device *dev, void (*cb)(void *priv, const struct dgl_event *event),
                      void *priv)
{
    dev->trace = cb;
    dev->trace_priv = priv;
    gl_device_set_observer(dev->gl, cb ? tell_event : NULL, dev);
}

enum dgl_status device_enter(struct dgl_device *dev, struct gl_saved *saved)
{
    if (gl_device_is_lost(dev->gl))
        return dgl_fail(dev->log, DGL_ERR_DEVICE_LOST,
                        "%s: the device was lost: dgl_model_rebuild(), or destroy it and open it "
                        "again",
                        dev->info.renderer);
    return gl_enter(dev->gl, saved);
}

void device_leave(struct dgl_device *dev, const struct gl_saved *saved)
{
    gl_leave(dev->gl, saved);
}

uint64_t device_memory_budget(struct dgl_device *dev)
{
    struct gl_memory_now now;
    gl_device_memory_now(dev->gl, dev->held_bytes, &now);
    return now.budget_bytes;
}

enum dgl_status device_reopen(struct dgl_device *dev)
{
    enum dgl_status status = gl_device_reopen(dev->gl);
    if (status == DGL_OK)
        pool_clear(dev->pool);
    return status;
}
