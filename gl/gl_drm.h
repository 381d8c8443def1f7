/* Queries the kernel drivers of render nodes for memory and compute units, through ioctl(2) and
 * sysfs, without libdrm. Every result is checked. If a driver refuses a query or returns an
 * impossible value, the number counts as unknown. */
#ifndef DGL_GL_DRM_H
#define DGL_GL_DRM_H

#include <stdbool.h>
#include <stdint.h>

struct gl_drm_node {
    int fd;             /* open render node */
    const char *driver; /* name of the kernel driver, from gl_drm_driver() */
    const char *device; /* sysfs folder of the node's device: "/sys/dev/char/226:128/device" */
    const char *proc;   /* procfs folder of this process: "/proc/self" */
};

#define GL_DRM_SOURCE_BYTES 64

/* Copies the name of the kernel driver of an open render node. Returns false on failure. */
bool gl_drm_driver(int fd, char name[32]);

/* Memory of a device. A card has its own memory. An integrated device (`unified`) uses the host's
 * memory; its own memory is the part that the firmware reserves for it, or 0. */
struct gl_drm_memory {
    uint64_t own_bytes, own_free_bytes; /* the device's own memory; 0 if it has none */
    /* The driver does not report the used bytes: own_free_bytes is set to own_bytes. */
    bool own_unaccounted;
    bool unified;             /* buffers are allocated in the host's memory */
    uint64_t host_bytes;      /* unified: host memory that the driver can map */
    uint64_t host_free_bytes; /* unified: the unused part; both UINT64_MAX if there is no limit */
    char source[GL_DRM_SOURCE_BYTES];
};
/* Returns false if the memory is unknown. */
bool gl_drm_memory_get(const struct gl_drm_node *node, struct gl_drm_memory *out);

struct gl_drm_units {
    /* AMD: compute units. Intel: (dual) subslices or Xe cores. Mali: shader cores. Adreno: SP
     * cores. V3D: slices. gl_units_guess() counts the same units. Each unit runs at least one work
     * group at a time. */
    uint32_t units;
    uint32_t wave_size; /* invocations that run together; 0 if the driver does not report it */
    char source[GL_DRM_SOURCE_BYTES];
};
/* Returns false if the units are unknown. */
bool gl_drm_units_get(const struct gl_drm_node *node, struct gl_drm_units *out);

/* Device memory that this process uses, from the fdinfo of its open render nodes. */
struct gl_drm_used {
    uint64_t own_bytes, host_bytes; /* resident */
};
/* Returns false if the driver reports no memory in fdinfo. Each driver began to report it in some
 * version from Linux 6.0 to 6.13. */
bool gl_drm_used_get(const struct gl_drm_node *node, struct gl_drm_used *out);

#endif
