/* The system's report about graphics devices, from which gl_enum.c makes the device table. One
 * function, so that a test can replace it when it links. */
#ifndef DGL_GL_SYS_H
#define DGL_GL_SYS_H

#include "gl/gl.h"

struct gl_sys_node {
    char path[128];  /* DRM render node */
    char driver[64]; /* kernel driver: "i915", "virtio_gpu"; "" unknown */
    char group[64];  /* group that owns the node: its name, or its number where it has none */
    unsigned gid;    /* of that group */
    unsigned mode;   /* permission bits */
    int error;       /* errno of opening it for reading and writing; 0 = it opens */
};

struct gl_sys_egl_device {
    void *device;    /* EGLDeviceEXT */
    char node[128];  /* render node that EGL names; "" without one */
    char name[64];   /* EGL_RENDERER_EXT of the device; "" unknown */
    bool software;   /* EGL_MESA_device_software */
    bool own_driver; /* talks to its kernel driver without the DRM node (NVIDIA) */
};

struct gl_sys_report {
    struct gl_sys_node nodes[GL_MAX_NODES];
    struct gl_sys_egl_device devices[GL_MAX_NODES];
    int num_nodes, num_devices;
    bool surfaceless;        /* EGL offers EGL_MESA_platform_surfaceless */
    int num_vendor_files;    /* 0 if libglvnd could load no driver */
    bool default_display;    /* EGL's default display gets a row: gl_sys.c has the rule */
    bool nvidia_vendor_file; /* one of them is NVIDIA's */
    bool nvidia_driver;      /* its kernel driver is loaded: /dev/nvidiactl exists */
};

void gl_sys_report_get(struct gl_sys_report *out);

#endif
