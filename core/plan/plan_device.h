/* The device as numbers: limits, and the values that expressions of kernel files can use. A plan
 * depends on no other device data, so tests can invent a device. */
#ifndef DGL_CORE_PLAN_DEVICE_H
#define DGL_CORE_PLAN_DEVICE_H

#include "core/base/status.h"
#include "kernels/kernels.h"

struct plan_device {
    const struct dgl_log *log;
    const char *name; /* renderer, for messages */
    struct dgl_limits limits;
    bool software; /* kernels are chosen for a software renderer */
    /* The device is a software renderer, even if a limits profile chooses kernels for a chip. It is
     * slow and has no watchdog. */
    bool on_host;
    uint32_t compute_units; /* work groups that keep the device busy */
    /* Bytes of weights that one dispatch may read on a small GPU, so that it ends within 100 ms
     * even before anything was timed. 0 (no limit) for fast devices and software renderers. */
    uint64_t dispatch_bytes;
    /* Layers of one window are a group of their own in the KV cache: kv_layout.h. */
    bool kv_by_window;
    struct kernel_var properties[48]; /* docs/kernels.md lists the names */
    size_t num_properties;
};

struct plan_device_params {
    const struct dgl_log *log;
    const char *name;
    const struct dgl_limits *limits; /* copied */
    bool software, llvmpipe;         /* for the choice of kernels */
    bool on_host;
    uint32_t compute_units;
    uint32_t registers; /* of an invocation; 0 if no limit is known */
    bool subgroup_arithmetic, subgroup_shuffle, ext_gpu_shader5;
};
void plan_device_init(struct plan_device *device, const struct plan_device_params *params);

/* A typical desktop GPU, for estimates before a device is open. */
void plan_device_init_typical(struct plan_device *device, const struct dgl_log *log);

/* Largest part of a storage buffer that a kernel can bind, in bytes. */
uint64_t plan_device_binding_bytes(const struct plan_device *device);

#endif
