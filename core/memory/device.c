/* Entering the device's context, its counters, and sections that are excluded from results. */
#include "core/memory/device.h"

#include <assert.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/memory/pool.h"

/* ---- log ------------------------------------------------------------------------------------- */

static void write_line(void *priv, enum dgl_log_level level, const char *text)
{
    struct dgl_device *dev = priv;
    if (level == DGL_LOG_ERROR) {
        pthread_mutex_lock(&dev->error_lock);
        snprintf(dev->last_error.text, sizeof(dev->last_error.text), "%s", text);
        pthread_mutex_unlock(&dev->error_lock);
    }
    dgl_logf(dev->caller_log, level, "%s", text);
}

static bool is_cancelled(void *priv)
{
    const struct dgl_log *log = ((struct dgl_device *)priv)->caller_log;
    return log->cancelled && log->cancelled(log->priv);
}

/* The caller may change the level of its log at any time. Other threads may log meanwhile. */
static void follow_level(struct dgl_device *dev)
{
    const struct dgl_log *log = dev->caller_log;
    const enum dgl_log_level level = log ? dgl_log_level(log) : DGL_LOG_ERROR;
    __atomic_store_n(&dev->own_log.level, level > DGL_LOG_ERROR ? level : DGL_LOG_ERROR,
                     __ATOMIC_RELAXED);
}

void device_log_init(struct dgl_device *dev, const struct dgl_log *caller)
{
    dev->caller_log = caller;
    dev->own_log = (struct dgl_log){
        .write = write_line, .priv = dev, .cancelled = caller ? is_cancelled : NULL};
    dev->log = &dev->own_log;
    follow_level(dev);
    pthread_mutex_init(&dev->error_lock, NULL);
}

void device_last_error(struct dgl_device *dev, struct dgl_error *out)
{
    pthread_mutex_lock(&dev->error_lock);
    *out = dev->last_error;
    pthread_mutex_unlock(&dev->error_lock);
}

/* ---- counters -------------------------------------------------------------------------------- */

/* Subtracts `part` from `sum`. */
static void take(struct dgl_counters *sum, const struct dgl_counters *part)
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
    const struct gl_counters c = gl_device_counters(dev->gl);
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
    take(&all, &dev->account.hidden);
    take(&all, before);
    return all;
}

struct dgl_counters device_counters(const struct dgl_device *dev)
{
    return counters_since(dev, &(struct dgl_counters){0});
}

void account_push(struct dgl_device *dev, enum account_kind kind)
{
    assert(dev->account.depth == 0 || kind <= dev->account.kind);
    if (dev->account.depth++ > 0)
        return;
    dev->account.kind = kind;
    dev->account.start_ns = dgl_now_ns();
    dev->account.before = device_counters(dev);
}

void account_pop(struct dgl_device *dev)
{
    assert(dev->account.depth > 0);
    if (--dev->account.depth > 0)
        return;
    dev->account.ns += dgl_now_ns() - dev->account.start_ns;
    if (dev->account.kind == ACCOUNT_COMPILE)
        return;
    /* The counters are then as they were before the section. */
    dev->account.hidden = (struct dgl_counters){0};
    dev->account.hidden = counters_since(dev, &dev->account.before);
}

uint64_t account_ns(const struct dgl_device *dev)
{
    return dev->account.ns;
}

uint64_t device_work_ns(const struct dgl_device *dev)
{
    return (dev->account.depth > 0 ? dev->account.start_ns : dgl_now_ns()) - dev->account.ns;
}

void device_tell(const struct dgl_device *dev, const struct dgl_event *event)
{
    const bool hidden = dev->account.depth > 0 && dev->account.kind == ACCOUNT_HIDDEN;
    if (dev->trace && !hidden)
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
    follow_level(dev);
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
