/* Current memory of the device, and its compute units. Selects between the numbers of the GL
 * driver, the kernel driver and the host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/host_memory.h"
#include "core/base/log.h"
#include "core/base/str.h"
#include "gl/gl_drm.h"
#include "gl/gl_internal.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t add_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- render node ----------------------------------------------------------------------------- */

/* Sets `path` to the render node of the EGL display, or to "" if it is unknown. A wrapped context
 * needs this, because it has no row of the device table. */
static void find_node(struct gl_device *dev, char path[128])
{
    EGLAttrib device = 0;
    PFNEGLQUERYDISPLAYATTRIBEXTPROC attrib =
        (PFNEGLQUERYDISPLAYATTRIBEXTPROC)eglGetProcAddress("eglQueryDisplayAttribEXT");
    PFNEGLQUERYDEVICESTRINGEXTPROC string =
        (PFNEGLQUERYDEVICESTRINGEXTPROC)eglGetProcAddress("eglQueryDeviceStringEXT");
    path[0] = '\0';
    if (!attrib || !string ||
        !gl_ext_has(eglQueryString(EGL_NO_DISPLAY, EGL_EXTENSIONS), "EGL_EXT_device_query") ||
        !attrib(dev->egl.display, EGL_DEVICE_EXT, &device) || !device)
        return;
    if (gl_ext_has(string((EGLDeviceEXT)device, EGL_EXTENSIONS), "EGL_EXT_device_drm_render_node"))
        gl_text_copy(path, 128, string((EGLDeviceEXT)device, EGL_DRM_RENDER_NODE_FILE_EXT));
}

/* Returns the anonymous and shared resident memory of this process. Software renderers allocate
 * their buffers there. */
static uint64_t process_resident(void)
{
    uint64_t sum = 0, kib;
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file)) {
        struct dgl_str value = dgl_str_of(line), key, number;
        if (!dgl_str_split(&value, ':', &key) ||
            (!dgl_str_eq(key, "RssAnon") && !dgl_str_eq(key, "RssShmem")))
            continue;
        value = dgl_str_trim(value);
        if (dgl_str_split(&value, ' ', &number) && dgl_parse_u64(number, UINT32_MAX, &kib))
            sum += kib * 1024;
    }
    if (file)
        fclose(file);
    return sum;
}

static struct gl_drm_node drm_node(const struct gl_memory_node *m)
{
    return (struct gl_drm_node){
        .fd = m->fd, .driver = m->driver, .device = m->device, .proc = "/proc/self"};
}

void gl_memory_open(struct gl_device *dev)
{
    struct gl_memory_node *m = &dev->memory_node;
    struct gl_caps *caps = &dev->caps;
    struct gl_drm_units units;
    struct stat st;
    char path[128];
    gl_memory_close(dev);
    *m = (struct gl_memory_node){.fd = -1};
    if (dev->caps.software) {
        m->resident_bytes = process_resident();
    } else {
        gl_text_copy(path, sizeof(path), dev->node.path);
        if (!path[0])
            find_node(dev, path);
        m->fd = path[0] ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
    }
    if (m->fd >= 0 && (!gl_drm_driver(m->fd, m->driver) || fstat(m->fd, &st) != 0))
        gl_memory_close(dev);
    if (m->fd >= 0)
        snprintf(m->device, sizeof(m->device), "/sys/dev/char/%u:%u/device", major(st.st_rdev),
                 minor(st.st_rdev));
    const struct gl_drm_node node = drm_node(m);
    if (m->fd >= 0 && gl_drm_units_get(&node, &units)) {
        caps->compute_units = units.units;
        caps->wave_size = units.wave_size;
        gl_text_copy(caps->units_source, sizeof(caps->units_source), units.source);
    } else {
        caps->compute_units = gl_units_guess(caps->renderer, caps->software);
        gl_text_copy(caps->units_source, sizeof(caps->units_source),
                     caps->software ? "threads of the host" : "guessed from the renderer's name");
    }
    gl_device_memory_now(dev, 0, &m->last);
    dgl_debug(dev->log,
              "memory: %llu MiB, free %llu MiB, for models %llu MiB%s (%s); compute units: %u "
              "(%s)",
              (unsigned long long)(m->last.total_bytes >> 20),
              (unsigned long long)(m->last.free_bytes >> 20),
              (unsigned long long)(m->last.budget_bytes >> 20), m->last.unified ? ", unified" : "",
              m->last.source, dev->caps.compute_units, dev->caps.units_source);
}

void gl_memory_close(struct gl_device *dev)
{
    struct gl_memory_node *m = &dev->memory_node;
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void gl_memory_combine(const struct gl_drm_memory *drm, const struct dgl_host_memory *host,
                       const struct gl_drm_used *used, uint64_t held, struct gl_memory_now *out)
{
    struct gl_drm_memory own = *drm;
    const char *by = "";
    *out = (struct gl_memory_now){.unified = own.unified};
    if (own.unified && host->available_bytes == 0) { /* the budget depends on the host's available
                                                      * memory */
        gl_text_copy(out->source, sizeof(out->source), "unknown");
        return;
    }
    /* The budget includes the memory of our existing buffers, which may be in the device's or the
     * host's memory. A buffer that has no pages yet has not reduced the free memory, so at most the
     * resident bytes are added. */
    uint64_t ours = own.unified ? 0 : held, ours_host = own.unified ? held : 0;
    if (used) {
        ours_host = own.unified ? min_u64(held, used->host_bytes) : 0;
        ours = min_u64(held - ours_host, used->own_bytes);
    }
    if (own.own_unaccounted) { /* other programs may use an eighth */
        const uint64_t most = own.own_bytes - own.own_bytes / 8;
        own.own_free_bytes = most > ours ? most - ours : 0;
        by = ", 7/8 of it: use by others is unknown";
    }
    out->total_bytes = own.own_bytes;
    out->free_bytes = own.own_free_bytes;
    out->budget_bytes = min_u64(add_u64(own.own_free_bytes, ours), own.own_bytes);
    if (own.unified) {
        const uint64_t mapped = add_u64(own.host_free_bytes, ours_host);
        const uint64_t share = dgl_host_memory_share(add_u64(host->available_bytes, ours_host));
        out->total_bytes = add_u64(out->total_bytes, min_u64(host->total_bytes, own.host_bytes));
        out->free_bytes =
            add_u64(out->free_bytes, min_u64(host->available_bytes, own.host_free_bytes));
        out->budget_bytes = add_u64(out->budget_bytes, min_u64(share, mapped));
    }
    out->free_bytes = out->free_bytes ? out->free_bytes : 1;
    out->budget_bytes = out->budget_bytes ? out->budget_bytes : 1;
    snprintf(out->source, sizeof(out->source), "%s%s%s%s", own.source, by,
             own.source[0] && own.unified ? ", " : "",
             own.unified ? dgl_host_memory_source(host) : "");
}

/* Queries GL if the driver has an extension for memory. NVIDIA's driver has one. Mesa's drivers
 * have none in GLES, so the caller queries their kernel drivers. */
static void ask_gl(struct gl_device *dev, uint64_t held, struct gl_memory_now *out)
{
    struct gl_saved saved = {0};
    GLint kib[4] = {0}, total = 0;
    const bool current = gl_is_current(dev), nvx = dev->ext.memory_info;
    if (!nvx && !dev->ext.ati_meminfo)
        return;
    if (dev->lost || (!current && gl_enter(dev, &saved) != DGL_OK)) {
        *out = dev->memory_node.last;
        return;
    }
    if (nvx)
        glGetIntegerv(GL_NVX_TOTAL, &total);
    glGetIntegerv(nvx ? GL_NVX_FREE : GL_ATI_FREE, kib);
    if (!current)
        gl_leave(dev, &saved);
    out->total_bytes = total > 0 ? (uint64_t)total * 1024 : 0;
    out->free_bytes = kib[0] > 0 ? (uint64_t)kib[0] * 1024 : 0;
    if (out->free_bytes)
        out->budget_bytes = out->free_bytes + held;
    if (total > 0)
        out->budget_bytes = min_u64(out->budget_bytes, out->total_bytes);
    gl_text_copy(out->source, sizeof(out->source),
                 nvx ? "GL_NVX_gpu_memory_info" : "GL_ATI_meminfo");
}

void gl_device_memory_now(struct gl_device *dev, uint64_t held_bytes, struct gl_memory_now *out)
{
    struct gl_memory_node *m = &dev->memory_node;
    const struct gl_drm_node node = drm_node(m);
    struct gl_drm_memory drm = {
        .unified = true, .host_bytes = UINT64_MAX, .host_free_bytes = UINT64_MAX};
    struct gl_drm_used used = {0};
    *out = (struct gl_memory_now){.source = "unknown"};
    if (dev->caps.software) {
        const uint64_t resident = process_resident();
        const struct dgl_host_memory host = dgl_host_memory();
        used.host_bytes = resident > m->resident_bytes ? resident - m->resident_bytes : 0;
        gl_memory_combine(&drm, &host, &used, held_bytes, out);
    } else if (!dev->ext.memory_info && m->fd >= 0 && gl_drm_memory_get(&node, &drm)) {
        const struct dgl_host_memory host = dgl_host_memory();
        const bool known = gl_drm_used_get(&node, &used);
        gl_memory_combine(&drm, &host, known ? &used : NULL, held_bytes, out);
    } else {
        ask_gl(dev, held_bytes, out);
    }
    m->last = *out;
}
