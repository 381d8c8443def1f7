/* The engine's private types, shared by the files of core/: what stands behind the public handles.
 */
#ifndef DGL_CORE_ENGINE_H
#define DGL_CORE_ENGINE_H

#include "core/base/status.h"
#include "gl/gl.h"
#include "kernels/kernels.h"

struct pool;

struct dgl_device {
    const struct dgl_log *log;
    struct gl_device *gl;
    struct pool *pool;
    struct dgl_device_info info; /* strings belong to gl */
    struct kernel_var facts[48]; /* what expressions of kernel files may ask about the device */
    size_t num_facts;
    uint64_t tokens;     /* evaluated so far */
    uint64_t held_bytes; /* of device memory: what models and sessions have allocated */
};

struct dgl_kernels {
    struct kernel_set *set;
};

/* Makes the device's context current for the length of a public call and puts the caller's back. */
enum dgl_status device_enter(struct dgl_device *dev, struct gl_saved *saved);
void device_leave(struct dgl_device *dev, const struct gl_saved *saved);

/* What the public API shows of a kernel; strings are the kernel's. */
struct dgl_kernel_info kernel_info(const struct kernel *kernel);

/* `after` minus `before`, field by field. */
struct dgl_counters counters_since(const struct dgl_device *dev, const struct dgl_counters *before);

#endif
