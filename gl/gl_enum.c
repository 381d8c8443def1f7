/* The device table: rows in the order of preference, the rows that a selection allows, and the
 * message when none can be used. Works on the report of gl_sys.c and opens nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "gl/gl_internal.h"
#include "gl/gl_sys.h"

#define SOFTWARE_REMEDY                                                                            \
    "software rendering is used only when asked for: --device any or --device software"

/* Case does not count: virgl cuts the host's name at a blank and spells it "LLVMPIPE". */
static bool names_software(const char *renderer)
{
    static const char *const words[] = {"llvmpipe", "softpipe", "swrast", "SwiftShader",
                                        "lavapipe"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasestr(renderer, words[i]))
            return true;
    return false;
}

static bool is_virgl(const char *renderer)
{
    return strncmp(renderer, "virgl (", 7) == 0;
}

bool gl_renderer_is_software(const char *renderer)
{
    return !is_virgl(renderer) && names_software(renderer);
}

bool gl_renderer_host_is_software(const char *renderer)
{
    return is_virgl(renderer) && names_software(renderer);
}

static void explain_node_error(struct gl_node *row, const struct gl_sys_node *node)
{
    const unsigned group_access = S_IRGRP | S_IWGRP;
    if (node->error == EPERM)
        snprintf(row->reason, sizeof(row->reason),
                 "not permitted: the container or sandbox withholds it, start it with --device %s",
                 node->path);
    else if (node->error != EACCES)
        snprintf(row->reason, sizeof(row->reason), "cannot be opened: %s", strerror(node->error));
    else if (node->gid == 0 || (node->mode & group_access) != group_access)
        /* Joining a group helps only if the group has access. Users do not join root. */
        snprintf(row->reason, sizeof(row->reason),
                 "permission denied: the node belongs to group %s with mode %04o, no udev rule "
                 "has opened it (install udev; by hand, as root: chgrp render %s && chmod 660 %s)",
                 node->group, node->mode, node->path, node->path);
    else
        snprintf(row->reason, sizeof(row->reason),
                 "permission denied: the node belongs to group %s, add yourself to the group "
                 "(sudo usermod -aG %s $USER, then log in again; containers: --group-add %s)",
                 node->group, node->group, node->group);
}

/* Several EGL drivers may claim one node; a driver with its own way to the hardware is the
 * vendor's. */
static const struct gl_sys_egl_device *find_egl_device(const struct gl_sys_report *report,
                                                       const char *path)
{
    const struct gl_sys_egl_device *best = NULL;
    for (int i = 0; i < report->num_devices; i++) {
        const struct gl_sys_egl_device *dev = &report->devices[i];
        if (!dev->software && strcmp(dev->node, path) == 0 && (!best || dev->own_driver))
            best = dev;
    }
    return best;
}

struct table {
    struct gl_node *rows;
    int count;
};

/* Returns NULL if the table is full. */
static struct gl_node *add_row(struct table *table, enum gl_node_kind kind)
{
    if (table->count == GL_MAX_NODES)
        return NULL;
    struct gl_node *row = &table->rows[table->count];
    *row = (struct gl_node){.kind = kind, .index = table->count, .usable = true};
    table->count++;
    return row;
}

static void add_drm_rows(struct table *table, const struct gl_sys_report *report)
{
    for (int i = 0; i < report->num_nodes; i++) {
        const struct gl_sys_node *node = &report->nodes[i];
        const struct gl_sys_egl_device *dev = find_egl_device(report, node->path);
        struct gl_node *row = add_row(table, GL_NODE_DRM);
        if (!row)
            return;
        gl_text_copy(row->path, sizeof(row->path), node->path);
        gl_text_copy(row->driver, sizeof(row->driver), node->driver);
        row->egl_device = dev ? dev->device : NULL;
        if (node->error != 0 && !(dev && dev->own_driver)) {
            row->usable = false;
            explain_node_error(row, node);
        }
    }
}

static void add_egl_rows(struct table *table, const struct gl_sys_report *report)
{
    for (int i = 0; i < report->num_devices; i++) {
        const struct gl_sys_egl_device *dev = &report->devices[i];
        bool listed = false;
        for (int k = 0; k < report->num_nodes; k++)
            listed |= dev->node[0] && strcmp(report->nodes[k].path, dev->node) == 0;
        if (dev->software || listed)
            continue;
        struct gl_node *row = add_row(table, GL_NODE_EGL_DEVICE);
        if (!row)
            return;
        row->egl_device = dev->device;
        gl_text_copy(row->driver, sizeof(row->driver), dev->own_driver ? "nvidia" : "");
        gl_text_copy(row->renderer, sizeof(row->renderer), dev->name);
    }
}

static void add_unusable_row(struct table *table, const char *driver, const char *reason)
{
    struct gl_node *row = add_row(table, GL_NODE_EGL_DEVICE);
    if (!row)
        return;
    row->usable = false;
    gl_text_copy(row->driver, sizeof(row->driver), driver);
    gl_text_copy(row->reason, sizeof(row->reason), reason);
}

/* Adds a row with the cause if EGL does not offer an NVIDIA GPU although its kernel driver is
 * loaded, and if the EGL library has no driver. */
static void add_missing_rows(struct table *table, const struct gl_sys_report *report)
{
    bool has_own_driver = false;
    for (int i = 0; i < report->num_devices; i++)
        has_own_driver |= report->devices[i].own_driver;
    if (report->nvidia_driver && !has_own_driver)
        add_unusable_row(
            table, "nvidia",
            report->nvidia_vendor_file
                ? "its kernel driver is loaded but libEGL_nvidia offers no device: the library is "
                  "missing or of another version than the kernel driver"
                : "its kernel driver is loaded but no glvnd vendor file (10_nvidia.json in "
                  "/usr/share/glvnd/egl_vendor.d) names its EGL library: install it (containers: "
                  "NVIDIA_DRIVER_CAPABILITIES=graphics,compute)");
    if (report->num_vendor_files == 0 && report->num_devices == 0 && !report->surfaceless &&
        !report->default_display)
        add_unusable_row(
            table, "",
            "libEGL knows no driver: no glvnd vendor file in /usr/share/glvnd/egl_vendor.d or "
            "/etc/glvnd/egl_vendor.d names a library that can be loaded, install libegl-mesa0 or "
            "the GPU vendor's driver");
}

static void add_last_rows(struct table *table, const struct gl_sys_report *report)
{
    const struct gl_sys_egl_device *software = NULL;
    struct gl_node *row = NULL;
    int num_software = 0;

    for (int i = 0; i < report->num_devices; i++)
        if (report->devices[i].software && num_software++ == 0)
            software = &report->devices[i];
    /* If EGL lists no GPU, its default display may still use one: on Android, with ANGLE, or with a
     * vendor's driver. */
    if (report->default_display && num_software == report->num_devices)
        add_row(table, GL_NODE_DEFAULT);
    if (software && (row = add_row(table, GL_NODE_EGL_DEVICE)))
        row->egl_device = software->device;
    if (!row && report->surfaceless)
        row = add_row(table, GL_NODE_SURFACELESS);
    if (!row && report->default_display)
        row = add_row(table, GL_NODE_DEFAULT);
    if (!row)
        return;
    row->software = true;
    gl_text_copy(row->reason, sizeof(row->reason), SOFTWARE_REMEDY);
}

enum dgl_status gl_nodes_list(const struct dgl_log *log, struct gl_node nodes[GL_MAX_NODES],
                              int *count)
{
    struct table table = {.rows = nodes};
    *count = 0;
    enum dgl_status status = gl_fork_check(log);
    if (status != DGL_OK)
        return status;
    struct gl_sys_report *report = dgl_new(struct gl_sys_report);
    if (!report)
        return dgl_fail_memory(log, "the device report", sizeof(*report));
    gl_sys_report_get(report);
    add_drm_rows(&table, report);
    add_egl_rows(&table, report);
    add_missing_rows(&table, report);
    add_last_rows(&table, report);
    *count = table.count;
    free(report);
    return DGL_OK;
}

/* ---- selection ------------------------------------------------------------------------------- */

static int select_kind(const struct gl_node *nodes, int count, bool software,
                       int order[GL_MAX_NODES], int num)
{
    for (int i = 0; i < count; i++)
        if (nodes[i].software == software)
            order[num++] = i;
    return num;
}

static enum dgl_status select_path(const struct dgl_log *log, const struct gl_node *nodes,
                                   int count, const char *select, int order[GL_MAX_NODES], int *num)
{
    struct dgl_buf have = {0};
    char *real = realpath(select, NULL); /* /dev/dri/by-path/... is a link to the node */

    for (int i = 0; i < count && *num == 0; i++) {
        if (!nodes[i].path[0])
            continue;
        if (strcmp(nodes[i].path, select) == 0 || (real && strcmp(nodes[i].path, real) == 0))
            order[(*num)++] = i;
        dgl_buf_printf(&have, "%s%s", have.len ? ", " : "", nodes[i].path);
    }
    free(real);
    enum dgl_status status = DGL_OK;
    if (*num == 0)
        status =
            dgl_fail(log, DGL_ERR_NO_DEVICE,
                     "device %s: no such render node here; there is %s (see dopplergl devices)",
                     select, have.len ? have.p : "none");
    dgl_buf_finish(&have);
    return status;
}

enum dgl_status gl_nodes_select(const struct dgl_log *log, const struct gl_node *nodes, int count,
                                const char *select, int order[GL_MAX_NODES], int *num)
{
    uint64_t row = 0;

    *num = 0;
    if (!select || !select[0]) {
        *num = select_kind(nodes, count, false, order, 0);
        return DGL_OK;
    }
    if (strcmp(select, "any") == 0) {
        *num = select_kind(nodes, count, false, order, 0);
        *num = select_kind(nodes, count, true, order, *num);
        return DGL_OK;
    }
    if (strcmp(select, "software") == 0) {
        *num = select_kind(nodes, count, true, order, 0);
        return DGL_OK;
    }
    if (select[0] == '/')
        return select_path(log, nodes, count, select, order, num);
    if (!dgl_parse_u64(dgl_str_of(select), INT32_MAX, &row))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "device \"%s\" is neither any, software, a render node's path nor a row of "
                        "dopplergl devices",
                        select);
    if (row >= (uint64_t)count)
        return dgl_fail(log, DGL_ERR_NO_DEVICE,
                        "device %s: the table has %d row%s, counted from 0 (see dopplergl devices)",
                        select, count, count == 1 ? "" : "s");
    order[(*num)++] = (int)row;
    return DGL_OK;
}

enum dgl_status gl_nodes_refuse(const struct dgl_log *log, const struct gl_node *nodes, int count,
                                const char *select)
{
    struct dgl_buf text = {0};
    int order[GL_MAX_NODES], num = 0;
    bool hardware_only = !select || !select[0];

    gl_nodes_select(NULL, nodes, count, hardware_only ? "any" : select, order, &num);
    for (int i = 0; i < num; i++) {
        const struct gl_node *row = &nodes[order[i]];
        if (text.len)
            dgl_buf_puts(&text, "; ");
        if (row->path[0])
            dgl_buf_puts(&text, row->path);
        else
            dgl_buf_printf(&text, "%s %d",
                           row->software                  ? "software device"
                           : row->kind == GL_NODE_DEFAULT ? "default EGL display, row"
                                                          : "EGL device",
                           row->index);
        const char *name = row->renderer[0] ? row->renderer : row->driver;
        if (name[0])
            dgl_buf_printf(&text, " (%s)", name);
        dgl_buf_printf(&text, ": %s", row->reason[0] ? row->reason : "not tried");
    }
    if (num == 0)
        dgl_buf_puts(&text, "there is no DRM render node under /dev/dri and no EGL device");
    enum dgl_status status =
        dgl_fail(log, DGL_ERR_NO_DEVICE, "no usable %s: %s", hardware_only ? "GPU" : "device",
                 text.failed ? "out of memory" : text.p);
    dgl_buf_finish(&text);
    return status;
}
