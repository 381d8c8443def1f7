/* Devices: opens the first row of a selection that works; closes, reopens and enters devices. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "gl/gl_internal.h"

/* Time without progress after which a device counts as lost. Software renderers may just be slow:
 * softpipe needs minutes for a long prefill. */
#define HARDWARE_WAIT_NS (10ull * 1000 * 1000 * 1000)
#define SOFTWARE_WAIT_NS (600ull * 1000 * 1000 * 1000)

const struct gl_caps *gl_device_caps(const struct gl_device *dev)
{
    return &dev->caps;
}

const struct gl_node *gl_device_node(const struct gl_device *dev)
{
    return &dev->node;
}

bool gl_device_is_lost(const struct gl_device *dev)
{
    return dev->lost;
}

struct gl_counters gl_device_counters(const struct gl_device *dev)
{
    return dev->counters;
}

bool gl_is_current(const struct gl_device *dev)
{
    return dev->egl.context != EGL_NO_CONTEXT && dev->pid == getpid() &&
           eglGetCurrentContext() == dev->egl.context;
}

bool gl_owns_names(const struct gl_device *dev, uint32_t context)
{
    return context == dev->context && gl_is_current(dev);
}

uint32_t gl_device_context(const struct gl_device *dev)
{
    return dev->context;
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* Process that opened the first device, or 0. After fork() the child inherits the number. Drivers
 * keep threads and locks until their process ends, even after the last device was closed. */
static atomic_long opened_by;

enum dgl_status gl_fork_check(const struct dgl_log *log)
{
    long unset = 0, pid = (long)getpid();
    if (atomic_compare_exchange_strong(&opened_by, &unset, pid) || unset == pid)
        return DGL_OK;
    return dgl_fail(log, DGL_ERR_NO_DEVICE,
                    "process %ld was forked from process %ld after that had opened a device, and "
                    "drivers do not survive fork(): call exec(), or fork before the first device",
                    pid, unset);
}

/* ---- enter and leave ------------------------------------------------------------------------- */

/* Forgets the bindings and GL errors of a wrapped context: its owner may have changed them. */
static void forget_owner(struct gl_device *dev)
{
    dev->bound = (struct gl_bound){0};
    for (int i = 0; i < 16 && glGetError() != GL_NO_ERROR; i++)
        ;
}

enum dgl_status gl_enter(struct gl_device *dev, struct gl_saved *saved)
{
    saved->active = false;
    if (dev->pid != getpid())
        return gl_fork_check(dev->log);
    gl_current_save(saved);
    if (saved->context == dev->egl.context || gl_egl_make_current(&dev->egl)) {
        if (dev->wrapped)
            forget_owner(dev);
        return DGL_OK;
    }
    EGLint error = eglGetError();
    eglBindAPI(saved->api);
    saved->active = false;
    if (error == EGL_CONTEXT_LOST)
        return gl_lost_set(dev, "EGL reports that the context is lost");
    return dgl_fail(dev->log, DGL_ERR_GPU,
                    "the GL context cannot be made current: %s (is it current on another thread?)",
                    gl_egl_error_name(error));
}

bool gl_enter_to_destroy(struct gl_device *dev, struct gl_saved *saved)
{
    saved->active = false;
    return dev->pid == getpid() && gl_enter(dev, saved) == DGL_OK;
}

void gl_leave(struct gl_device *dev, const struct gl_saved *saved)
{
    gl_current_restore(dev->egl.display, saved);
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Queries the current context and starts the parts that depend on it. */
static enum dgl_status start_context(struct gl_device *dev)
{
    enum dgl_status status = gl_caps_query(dev);
    if (status != DGL_OK)
        return status;
    gl_debug_init(dev);
    gl_timer_init(dev);
    if (dev->ext.parallel_compile)
        dev->ext.MaxShaderCompilerThreads(UINT32_MAX);
    return DGL_OK;
}

static enum dgl_status start_device(struct gl_device *dev, const struct gl_device_params *params)
{
    const struct gl_caps *caps = &dev->caps;
    const struct dgl_limits *lim = &caps->limits;
    GLint formats[16], count = 0;

    dev->debug = params->debug;
    dev->notes = params->notes;
    dev->in_process = params->in_process;
    dev->compile_limits = params->compile_limits;
    if (!dev->compile_limits.cpu_ns)
        dev->compile_limits.cpu_ns = GL_COMPILE_CPU_NS;
    if (!dev->compile_limits.memory_bytes)
        dev->compile_limits.memory_bytes = GL_COMPILE_BYTES;
    dev->compiling_cb = params->compiling_cb;
    dev->compiling_priv = params->compiling_priv;
    if (params->compiler) {
        dev->compiler_path = dgl_strdup(params->compiler);
        if (!dev->compiler_path)
            return dgl_fail_memory(dev->log, "the path of the compiler", strlen(params->compiler));
    }
    enum dgl_status status = start_context(dev);
    if (status != DGL_OK)
        return status;
    dev->wait_limit_ns = caps->software || gl_renderer_host_is_software(caps->renderer)
                             ? SOFTWARE_WAIT_NS
                             : HARDWARE_WAIT_NS;
    if (lim->program_binary)
        glGetIntegerv(GL_NUM_PROGRAM_BINARY_FORMATS, &count);
    if (count > (GLint)(sizeof(formats) / sizeof(formats[0])))
        count = 0;
    if (count > 0)
        glGetIntegerv(GL_PROGRAM_BINARY_FORMATS, formats);
    gl_progcache_init(&dev->cache, &(struct gl_progcache_params){.dir = params->cache_dir,
                                                                 .vendor = caps->vendor,
                                                                 .renderer = caps->renderer,
                                                                 .version = caps->version,
                                                                 .formats = formats,
                                                                 .num_formats = count});
    gl_progcache_tell(&dev->cache, dev->log);
    status = gl_errors_check(dev, "starting the device");
    if (status != DGL_OK)
        return status;
    dgl_info(dev->log, "device: %s, %s, driver %s%s%s%s", caps->renderer, caps->version,
             caps->driver, dev->node.path[0] ? ", " : "", dev->node.path,
             caps->software ? ", software" : "");
    if (gl_renderer_host_is_software(caps->renderer))
        dgl_notice(dev->log, "%s: " GL_HOST_SOFTWARE_NOTE, caps->renderer);
    dgl_info(
        dev->log,
        "limits: ssbo %llu bytes x %u aligned to %u, ubo %u bytes aligned to %u, shared %u bytes, "
        "%u invocations, subgroup %u, timer %d, program binary %d, buffer storage %d, reset "
        "notification %d",
        (unsigned long long)lim->max_ssbo_bytes, lim->max_ssbo_bindings, lim->ssbo_align,
        lim->max_ubo_bytes, lim->ubo_align, lim->max_shared_bytes, lim->max_invocations,
        lim->subgroup_size, lim->timer, lim->program_binary, lim->buffer_storage,
        lim->reset_notification);
    return DGL_OK;
}

static enum dgl_status wrap_context(struct gl_device *dev, const struct gl_device_params *params)
{
    if (!params->egl_display || !params->egl_context)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "egl_display and egl_context: set both or neither");
    dev->wrapped = true;
    dev->egl =
        (struct gl_egl){.display = params->egl_display, .context = params->egl_context, .fd = -1};
    if (eglGetCurrentContext() != dev->egl.context && !gl_egl_make_current(&dev->egl))
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "the given EGL context cannot be made current: %s",
                        gl_egl_error_name(eglGetError()));
    forget_owner(dev);
    const char *version = (const char *)glGetString(GL_VERSION);
    const char *renderer = (const char *)glGetString(GL_RENDERER);
    char words[GL_CAUSE_BYTES];
    if (!gl_version_check(version, words))
        return dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                        "the given EGL context offers %s: create it with version 3.1", words);
    const char *vendor = eglQueryString(dev->egl.display, EGL_VENDOR);
    gl_text_copy(dev->egl.driver, sizeof(dev->egl.driver), vendor);
    gl_text_copy(dev->egl.renderer, sizeof(dev->egl.renderer), renderer);
    return DGL_OK;
}

/* Tries the allowed rows in order. The context of the first one that opens stays current. */
static enum dgl_status open_row(struct gl_device *dev, const struct gl_device_params *params)
{
    struct gl_node *nodes = dgl_new_array(struct gl_node, GL_MAX_NODES);
    int count = 0, order[GL_MAX_NODES], num = 0;
    bool opened = false;

    if (!nodes)
        return dgl_fail_memory(dev->log, "the device table", sizeof(*nodes) * GL_MAX_NODES);
    enum dgl_status status = gl_nodes_list(dev->log, nodes, &count);
    if (status == DGL_OK)
        status = gl_nodes_select(dev->log, nodes, count, params->select, order, &num);
    if (status != DGL_OK)
        goto done;
    for (int i = 0; i < num && !opened; i++) {
        dev->node = nodes[order[i]];
        opened = dev->node.usable &&
                 gl_egl_open(&dev->egl, &dev->node, params->debug, nodes[order[i]].reason);
    }
    if (!opened)
        status = gl_nodes_refuse(dev->log, nodes, count, params->select);
    for (int i = 0; opened && order[i] != dev->node.index; i++) {
        const struct gl_node *row = &nodes[order[i]];
        const char *name = row->driver[0] ? row->driver : row->renderer;
        dgl_warn(dev->log, "passed over %s%s%s: %s", name, name[0] && row->path[0] ? " " : "",
                 row->path, row->reason);
    }
done:
    free(nodes);
    return status;
}

enum dgl_status gl_device_open(const struct dgl_log *log, const struct gl_device_params *params,
                               struct gl_device **out)
{
    static const struct gl_device_params defaults = {0};
    struct gl_saved saved;

    *out = NULL;
    if (!params)
        params = &defaults;
    enum dgl_status status = gl_fork_check(log);
    if (status != DGL_OK)
        return status;
    struct gl_device *dev = dgl_new(struct gl_device);
    if (!dev)
        return dgl_fail_memory(log, "a device", sizeof(*dev));
    dev->log = log;
    dev->pid = getpid();
    dev->egl.fd = dev->memory_node.fd = -1;
    gl_current_save(&saved);
    TRY(gl_limits_find(log, params->limits, &dev->limits));
    TRY(params->egl_display || params->egl_context ? wrap_context(dev, params)
                                                   : open_row(dev, params));
    TRY(start_device(dev, params));
done:
    gl_current_restore(dev->egl.display, &saved);
    if (status != DGL_OK)
        gl_device_close(&dev);
    *out = dev;
    return status;
}

/* ---- close and open again -------------------------------------------------------------------- */

/* Drops all state of the context. Its GL objects are deleted only if the context is current. */
static void stop_context(struct gl_device *dev)
{
    if (gl_is_current(dev)) {
        gl_debug_finish(dev);
        gl_in_flight_finish(dev);
        gl_upload_finish(dev);
        gl_readback_finish(dev);
        gl_timer_finish(dev);
        if (dev->zeros)
            glDeleteBuffers(1, &dev->zeros);
    }
    gl_unwanted_finish(dev);
    dev->in_flight = (struct gl_in_flight){0};
    dev->upload = (struct gl_upload){0};
    dev->readback = (struct gl_readback){.serial = dev->readback.serial};
    dev->timer = (struct gl_timer){0};
    dev->bound = (struct gl_bound){0};
    dev->pending_barriers = 0;
    dev->zeros = 0;
}

enum dgl_status gl_device_reopen(struct gl_device *dev)
{
    const struct gl_caps before = dev->caps;
    char reason[GL_REASON_BYTES];
    struct gl_saved saved;

    if (dev->pid != getpid())
        return gl_fork_check(dev->log);
    if (dev->wrapped)
        return dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                        "%s: the lost EGL context is the caller's: create another one and open the "
                        "device with it",
                        before.renderer);
    gl_current_save(&saved);
    if (saved.context == dev->egl.context)
        saved.context = EGL_NO_CONTEXT;
    if (dev->egl.context != EGL_NO_CONTEXT)
        gl_egl_make_current(&dev->egl);
    stop_context(dev);
    gl_egl_close(&dev->egl);
    dev->context++;
    enum dgl_status status = DGL_OK;
    if (!gl_egl_open(&dev->egl, &dev->node, dev->debug, reason))
        TRY(dgl_fail(dev->log, DGL_ERR_NO_DEVICE, "%s was lost and does not open again: %s",
                     before.renderer, reason));
    TRY(start_context(dev));
    TRY(gl_errors_check(dev, "opening the device again"));
    if (strcmp(before.renderer, dev->caps.renderer) != 0 ||
        strcmp(before.version, dev->caps.version) != 0)
        TRY(dgl_fail(
            dev->log, DGL_ERR_UNSUPPORTED,
            "%s, %s was lost, and its row is now %s, %s: close the device and open it again",
            before.renderer, before.version, dev->caps.renderer, dev->caps.version));
    dev->lost = false;
    dgl_notice(dev->log, "%s was lost and is open again", dev->caps.renderer);
done:
    if (status != DGL_OK)
        dev->caps = before; /* the next attempt is compared with it */
    gl_current_restore(dev->egl.display, &saved);
    return status;
}

void gl_device_close(struct gl_device **pdev)
{
    struct gl_device *dev = *pdev;
    struct gl_saved saved;

    if (!dev)
        return;
    if (dev->pid == getpid()) { /* in a forked process nothing may call the driver */
        gl_current_save(&saved);
        if (dev->egl.context != EGL_NO_CONTEXT && !gl_is_current(dev))
            gl_egl_make_current(&dev->egl);
        stop_context(dev);
        if (saved.context == dev->egl.context && !dev->wrapped)
            saved.context = EGL_NO_CONTEXT;
        gl_current_restore(dev->egl.display, &saved);
        if (!dev->wrapped)
            gl_egl_close(&dev->egl);
    }
    gl_progcache_finish(&dev->cache);
    gl_memory_close(dev);
    gl_compiler_finish(dev);
    gl_watch_finish(dev);
    free(dev->compiler_path);
    free(dev);
    *pdev = NULL;
}

/* ---- probe ----------------------------------------------------------------------------------- */

void gl_nodes_probe(const struct dgl_log *log, struct gl_node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        struct gl_egl egl = {.fd = -1};
        char reason[GL_REASON_BYTES];
        struct gl_saved saved;

        if (!nodes[i].usable)
            continue;
        gl_current_save(&saved);
        nodes[i].usable = gl_egl_open(&egl, &nodes[i], false, reason);
        gl_current_restore(egl.display, &saved);
        if (nodes[i].usable) {
            memcpy(nodes[i].renderer, egl.renderer, sizeof(egl.renderer));
            if (!nodes[i].driver[0])
                memcpy(nodes[i].driver, egl.driver, sizeof(egl.driver));
            if (gl_renderer_host_is_software(egl.renderer))
                gl_text_copy(nodes[i].reason, sizeof(nodes[i].reason), GL_HOST_SOFTWARE_NOTE);
        } else {
            memcpy(nodes[i].reason, reason, sizeof(reason));
            nodes[i].too_old = egl.too_old[0] && !nodes[i].software;
            if (nodes[i].too_old)
                memcpy(nodes[i].renderer, egl.too_old, sizeof(egl.too_old));
            dgl_debug(log, "row %d: %s", i, reason);
        }
        gl_egl_close(&egl);
    }
}
