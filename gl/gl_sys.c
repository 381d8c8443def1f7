/* Queries EGL, the kernel and the file system about devices. It contains nothing else, because
 * tests replace this file. It calls no library but EGL: render nodes are listed without libdrm. */
#include "gl/gl_sys.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/str.h"
#include "gl/gl_internal.h"

/* Where the node cannot be opened: the driver of the device in sysfs. For a virtio GPU that is the
 * bus ("virtio-pci"), whose child has the driver. */
static void driver_from_sysfs(struct gl_sys_node *node, const struct stat *st)
{
    static const char *const places[] = {"virtio*/driver", "driver"};
    char pattern[96], target[256];

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !node->driver[0]; i++) {
        glob_t found;
        snprintf(pattern, sizeof(pattern), "/sys/dev/char/%u:%u/device/%s", major(st->st_rdev),
                 minor(st->st_rdev), places[i]);
        ssize_t len = glob(pattern, 0, NULL, &found) == 0
                          ? readlink(found.gl_pathv[0], target, sizeof(target) - 1)
                          : -1;
        globfree(&found);
        if (len <= 0)
            continue;
        target[len] = '\0';
        const char *slash = strrchr(target, '/');
        gl_text_copy(node->driver, sizeof(node->driver), slash ? slash + 1 : target);
    }
}

/* Minor numbers of render nodes. */
#define FIRST_RENDER 128
#define LAST_RENDER  191

static void driver_from_kernel(struct gl_sys_node *node, int fd)
{
    char name[sizeof(node->driver)] = "";
    struct drm_version version = {.name = name, .name_len = sizeof(name) - 1};
    if (ioctl(fd, DRM_IOCTL_VERSION, &version) == 0)
        gl_text_copy(node->driver, sizeof(node->driver), name);
}

static void nodes_report(struct gl_sys_report *out)
{
    for (int minor = FIRST_RENDER; minor <= LAST_RENDER && out->num_nodes < GL_MAX_NODES; minor++) {
        struct gl_sys_node *node = &out->nodes[out->num_nodes];
        char path[32];
        struct stat st;
        snprintf(path, sizeof(path), "/dev/dri/renderD%d", minor);
        if (stat(path, &st) != 0 || !S_ISCHR(st.st_mode))
            continue;
        out->num_nodes++;
        gl_text_copy(node->path, sizeof(node->path), path);
        node->gid = st.st_gid;
        node->mode = st.st_mode & 07777;
        const struct group *group = getgrgid(st.st_gid);
        if (group)
            gl_text_copy(node->group, sizeof(node->group), group->gr_name);
        else
            snprintf(node->group, sizeof(node->group), "%u", (unsigned)st.st_gid);
        /* Opening is the only honest test: a container's device filter may refuse a node
         * that its mode allows to open. */
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        node->error = fd < 0 ? errno : 0;
        if (fd >= 0) {
            driver_from_kernel(node, fd);
            close(fd);
        }
        if (!node->driver[0])
            driver_from_sysfs(node, &st);
    }
}

/* Returns true if EGL's default display is listed as a device. It may connect to a display server.
 * Mesa and NVIDIA offer every GPU without a display server, so the default display is used only if
 * EGL has no other way (Android, vendors' drivers) or if EGL_PLATFORM selects its platform. */
static bool default_display_is_wanted(const char *exts)
{
    const char *platform = getenv("EGL_PLATFORM");

    if (platform && platform[0])
        return true;
    return !gl_ext_has(exts, "EGL_MESA_platform_surfaceless") &&
           !gl_ext_has(exts, "EGL_EXT_platform_device");
}

static void egl_report(struct gl_sys_report *out)
{
    const char *exts = eglQueryString(EGL_NO_DISPLAY, EGL_EXTENSIONS);
    const char *version = eglQueryString(EGL_NO_DISPLAY, EGL_VERSION);
    /* Without a driver that it could load, libglvnd has no extension and no display. */
    if (version && strstr(version, "libglvnd") && !(exts && exts[0])) {
        out->num_vendor_files = 0;
        return;
    }
    out->surfaceless = gl_ext_has(exts, "EGL_MESA_platform_surfaceless");
    out->default_display = default_display_is_wanted(exts);
    if (!gl_ext_has(exts, "EGL_EXT_platform_device"))
        return;
    PFNEGLQUERYDEVICESEXTPROC list =
        (PFNEGLQUERYDEVICESEXTPROC)eglGetProcAddress("eglQueryDevicesEXT");
    PFNEGLQUERYDEVICESTRINGEXTPROC query =
        (PFNEGLQUERYDEVICESTRINGEXTPROC)eglGetProcAddress("eglQueryDeviceStringEXT");
    EGLDeviceEXT devices[GL_MAX_NODES];
    EGLint count = 0;
    if (!list || !query || !list(GL_MAX_NODES, devices, &count))
        return;
    for (EGLint i = 0; i < count; i++) {
        struct gl_sys_egl_device *device = &out->devices[out->num_devices++];
        exts = query(devices[i], EGL_EXTENSIONS);
        device->device = devices[i];
        device->software = gl_ext_has(exts, "EGL_MESA_device_software");
        device->own_driver = gl_ext_has(exts, "EGL_NV_device_cuda");
        if (gl_ext_has(exts, "EGL_EXT_device_drm_render_node"))
            gl_text_copy(device->node, sizeof(device->node),
                         query(devices[i], EGL_DRM_RENDER_NODE_FILE_EXT));
        if (gl_ext_has(exts, "EGL_EXT_device_query_name"))
            gl_text_copy(device->name, sizeof(device->name), query(devices[i], EGL_RENDERER_EXT));
    }
}

static void vendor_file_report(struct gl_sys_report *out, struct dgl_str path)
{
    static const char word[] = "nvidia";
    if (path.len == 0)
        return;
    out->num_vendor_files++;
    if (memmem(path.p, path.len, word, sizeof(word) - 1))
        out->nvidia_vendor_file = true;
}

/* The variables and folders that libglvnd itself looks at (its src/EGL/libeglvendor.c). */
static void vendors_report(struct gl_sys_report *out)
{
    const char *files = getenv("__EGL_VENDOR_LIBRARY_FILENAMES");
    const char *dirs = getenv("__EGL_VENDOR_LIBRARY_DIRS");
    const char *folders = dirs ? dirs : "/etc/glvnd/egl_vendor.d:/usr/share/glvnd/egl_vendor.d";
    struct dgl_str rest = dgl_str_of(files ? files : folders), part;

    while (dgl_str_split(&rest, ':', &part)) {
        char pattern[512];
        glob_t found;
        if (files) {
            vendor_file_report(out, part);
            continue;
        }
        snprintf(pattern, sizeof(pattern), "%.*s/*.json", (int)part.len, part.p);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; i++)
                vendor_file_report(out, dgl_str_of(found.gl_pathv[i]));
        globfree(&found);
    }
}

void gl_sys_report_get(struct gl_sys_report *out)
{
    *out = (struct gl_sys_report){0};
    nodes_report(out);
    vendors_report(out);
    egl_report(out);
    out->nvidia_driver = access("/dev/nvidiactl", F_OK) == 0;
}
