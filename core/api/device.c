/* The public device: gl/ behind a handle, plus the facts about it that kernel files may ask for. */
#include "core/memory/device.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/memory/kernel_records.h"
#include "core/memory/pool.h"

#ifndef DGL_VERSION
#error "DGL_VERSION comes from the Makefile"
#endif

const char *dgl_version(void)
{
    return DGL_VERSION;
}

static void node_to_info(const struct gl_node *node, struct dgl_device_info *out)
{
    *out = (struct dgl_device_info){
        .index = node->index,
        .node = node->path,
        .renderer = node->renderer,
        .driver = node->driver,
        .software = node->software,
        .usable = node->usable,
        .reason = node->reason,
    };
}

enum dgl_status dgl_device_iterate(const struct dgl_log *log,
                                   bool (*cb)(void *priv, const struct dgl_device_info *info),
                                   void *priv)
{
    struct gl_node *nodes = dgl_new_array(struct gl_node, GL_MAX_NODES);
    int count = 0;
    if (!nodes)
        return dgl_fail_memory(log, "device table", sizeof(*nodes) * GL_MAX_NODES);
    enum dgl_status status = gl_nodes_list(log, nodes, &count);
    if (status == DGL_OK) {
        gl_nodes_probe(log, nodes, count);
        for (int i = 0; i < count; i++) {
            struct dgl_device_info info;
            node_to_info(&nodes[i], &info);
            if (!cb(priv, &info))
                break;
        }
    }
    free(nodes);
    return status;
}

enum dgl_status dgl_device_create(const struct dgl_log *log, const struct dgl_device_params *params,
                                  struct dgl_device **out)
{
    static const struct dgl_device_params defaults;
    const struct dgl_device_params *p = params ? params : &defaults;
    if (!out)
        return dgl_fail_no_out(log, "dgl_device_create");
    *out = NULL;
    struct dgl_device *dev = dgl_new(struct dgl_device);
    if (!dev)
        return dgl_fail_memory(log, "device", sizeof(*dev));
    dev->log = log;
    enum dgl_status status = gl_device_open(log,
                                            &(struct gl_device_params){
                                                .select = p->select,
                                                .limits_min = p->limits_min,
                                                .debug = p->debug,
                                                .cache_dir = p->cache_dir,
                                                .egl_display = p->egl_display,
                                                .egl_context = p->egl_context,
                                            },
                                            &dev->gl);
    if (status != DGL_OK)
        goto error;
    dev->pool = pool_create(dev->gl);
    if (!dev->pool) {
        status = dgl_fail_memory(log, "buffer pool", 0);
        goto error;
    }
    node_to_info(gl_device_node(dev->gl), &dev->info);
    const struct gl_caps *caps = gl_device_caps(dev->gl);
    plan_device_init(&dev->plan, &(struct plan_device_params){
                                     .log = log,
                                     .name = dev->info.renderer,
                                     .limits = &caps->limits,
                                     .software = caps->software,
                                     .llvmpipe = caps->llvmpipe,
                                     .compute_units = caps->compute_units_guess,
                                     .registers = caps->registers_guess,
                                     .subgroup_arithmetic = caps->khr_subgroup_arithmetic,
                                     .subgroup_shuffle = caps->khr_subgroup_shuffle,
                                     .ext_gpu_shader5 = caps->ext_gpu_shader5});
    status = kernel_records_open(dev);
    if (status != DGL_OK)
        goto error;
    *out = dev;
    return DGL_OK;
error:
    dgl_device_destroy(&dev);
    return status;
}

void dgl_device_destroy(struct dgl_device **dev)
{
    struct dgl_device *d = *dev;
    *dev = NULL;
    if (!d)
        return;
    if (d->gl) {
        struct gl_saved saved = {0};
        bool entered = gl_enter_to_destroy(d->gl, &saved);
        pool_destroy(&d->pool);
        if (entered)
            gl_leave(d->gl, &saved);
        gl_device_close(&d->gl);
    }
    kernel_records_close(d);
    free(d);
}

const struct dgl_device_info *dgl_device_get_info(const struct dgl_device *dev)
{
    return &dev->info;
}

const struct dgl_limits *dgl_device_get_limits(const struct dgl_device *dev)
{
    return &gl_device_caps(dev->gl)->limits;
}

const char *dgl_device_gl_version(const struct dgl_device *dev)
{
    return gl_device_caps(dev->gl)->version;
}

bool dgl_device_is_lost(const struct dgl_device *dev)
{
    return gl_device_is_lost(dev->gl);
}

bool dgl_device_is_compiling(struct dgl_device *dev)
{
    struct gl_saved saved;
    if (gl_device_is_lost(dev->gl) || device_enter(dev, &saved) != DGL_OK)
        return false;
    bool compiling = gl_is_compiling(dev->gl);
    device_leave(dev, &saved);
    return compiling;
}

const char *dgl_device_cache_dir(const struct dgl_device *dev)
{
    return gl_program_is_kept(dev->gl) ? gl_program_cache_dir(dev->gl) : NULL;
}

void dgl_device_set_trace(struct dgl_device *dev,
                          void (*cb)(void *priv, const struct dgl_event *event), void *priv)
{
    device_set_trace(dev, cb, priv);
}

void dgl_device_get_counters(const struct dgl_device *dev, struct dgl_counters *out)
{
    *out = device_counters(dev);
}
