/* Questions to the kernel drivers of render nodes: memory and compute units. By ioctl(2) and sysfs
 * alone, without libdrm. Every answer is checked; a driver that refuses a question, or answers what
 * cannot be, leaves the fact unknown. */
#ifndef DGL_GL_DRM_H
#define DGL_GL_DRM_H

#include <stdbool.h>
#include <stdint.h>

struct gl_drm_node {
    int fd;             /* open render node */
    const char *driver; /* kernel driver, by gl_drm_driver() */
    const char *device; /* its folder in sysfs: "/sys/dev/char/226:128/device" */
    const char *proc;   /* folder of this process: "/proc/self" */
};

#define GL_DRM_SOURCE_BYTES 64

/* Name of the kernel driver of an open render node. Returns false if the driver does not say. */
bool gl_drm_driver(int fd, char name[32]);

/* A device may have memory of its own, the host's, or (unified) a reserved part and the host's. */
struct gl_drm_memory {
    uint64_t own_bytes, own_free_bytes; /* the device's own; 0 = none */
    /* Free bytes are unknown: own_free_bytes is own_bytes, whatever is in use. */
    bool own_unaccounted;
    bool unified;             /* buffers are in the host's memory */
    uint64_t host_bytes;      /* of a unified device: the most of the host's that the driver maps */
    uint64_t host_free_bytes; /* of these, not in use; UINT64_MAX in both = all of it */
    char source[GL_DRM_SOURCE_BYTES];
};
/* Returns false if nothing is known. */
bool gl_drm_memory_get(const struct gl_drm_node *node, struct gl_drm_memory *out);

struct gl_drm_units {
    /* As the tables of gl_units_guess() count: compute units of AMD, (dual) subslices or Xe cores
     * of Intel, shader cores of Mali, SP cores of Adreno, slices of V3D. Each runs a work group or
     * more at a time. */
    uint32_t units;
    uint32_t wave_size; /* invocations that run together; 0 = the driver does not say */
    char source[GL_DRM_SOURCE_BYTES];
};
/* Returns false if nothing is known. */
bool gl_drm_units_get(const struct gl_drm_node *node, struct gl_drm_units *out);

/* What this process has on the devices of a driver, by the fdinfo of its open nodes. */
struct gl_drm_used {
    uint64_t own_bytes, host_bytes; /* resident */
};
/* Returns false if the driver does not report memory there (before Linux 6.0 to 6.13). */
bool gl_drm_used_get(const struct gl_drm_node *node, struct gl_drm_used *out);

#endif
