/* The public device: gl/ behind a handle, plus the facts about it that kernel files may ask for. */
#include "core/memory/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/sized.h"
#include "core/memory/kernel_records.h"
#include "core/memory/pool.h"

#ifndef DGL_VERSION
#error "DGL_VERSION comes from the Makefile"
#endif

const char *dgl_version(void)
{
    return DGL_VERSION;
}

int dgl_api_version(void)
{
    return DGL_API_VERSION;
}

static void node_to_info(const struct gl_node *node, struct dgl_device_info *out)
{
    const struct gl_verdict *verdict = gl_node_verdict(node);
    *out = (struct dgl_device_info){
        .index = node->index,
        .node = node->path,
        .renderer = node->renderer,
        .driver = node->driver,
        .software = node->software,
        .usable = node->usable,
        .reason = node->reason,
        .verdict = verdict->verdict,
        .verdict_note = verdict->note,
    };
}

enum dgl_status dgl_device_iterate(const struct dgl_log *log,
                                   bool (*cb)(void *priv, const struct dgl_device_info *info),
                                   void *priv)
{
    if (!cb)
        return dgl_fail_null(log, __func__);
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
    struct dgl_device_params all;
    const struct dgl_device_params *const p = &all;
    if (!out)
        return dgl_fail_no_out(log, "dgl_device_create");
    *out = NULL;
    if (!DGL_TAKE(log, dgl_device_params, params, &all))
        return DGL_ERR_INVALID_ARG;
    struct dgl_device *dev = dgl_new(struct dgl_device);
    if (!dev)
        return dgl_fail_memory(log, "device", sizeof(*dev));
    device_log_init(dev, log);
    log = dev->log;
    const uint64_t cpu_ns = p->compile_seconds > 0 ? (uint64_t)p->compile_seconds * 1000000000u : 0;
    enum dgl_status status = gl_device_open(log,
                                            &(struct gl_device_params){
                                                .select = p->select,
                                                .limits = p->limits,
                                                .debug = p->debug,
                                                .cache_dir = p->cache_dir,
                                                .egl_display = p->egl_display,
                                                .egl_context = p->egl_context,
                                                .compiler = p->compiler,
                                                .compile_limits = {cpu_ns, p->compile_memory},
                                                .compiling_cb = p->compiling_cb,
                                                .compiling_priv = p->compiling_priv,
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
                                     .software = caps->software && !caps->other_chip,
                                     .llvmpipe = caps->llvmpipe && !caps->other_chip,
                                     .on_host = caps->software,
                                     .compute_units = caps->compute_units,
                                     .registers = caps->registers,
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

int dgl_compiler_main(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], GL_COMPILER_WORD) == 0 ? gl_compiler_main() : -1;
}

void dgl_device_destroy(struct dgl_device **dev)
{
    struct dgl_device *d = dev ? *dev : NULL;
    if (!d)
        return;
    *dev = NULL;
    if (d->gl) {
        struct gl_saved saved = {0};
        bool entered = gl_enter_to_destroy(d->gl, &saved);
        pool_destroy(&d->pool);
        if (entered)
            gl_leave(d->gl, &saved);
        gl_device_close(&d->gl);
    }
    kernel_records_close(d);
    pthread_mutex_destroy(&d->error_lock);
    free(d);
}

const struct dgl_limits_profile *dgl_limits_profile_at(size_t i)
{
    return gl_limits_at(i);
}

enum dgl_status dgl_device_error(const struct dgl_device *dev, struct dgl_error *out)
{
    if (out)
        *out = (struct dgl_error){""};
    if (!dev || !out)
        return DGL_ERR_INVALID_ARG;
    device_last_error((struct dgl_device *)dev, out);
    return DGL_OK;
}

const struct dgl_device_info *dgl_device_get_info(const struct dgl_device *dev)
{
    if (!dev)
        return NULL;
    return &dev->info;
}

const struct dgl_limits *dgl_device_get_limits(const struct dgl_device *dev)
{
    if (!dev)
        return NULL;
    return &gl_device_caps(dev->gl)->limits;
}

enum dgl_status dgl_device_get_facts(struct dgl_device *dev, struct dgl_device_facts *out)
{
    struct dgl_device_facts f;
    if (!DGL_OPEN(dev ? dev->log : NULL, dgl_device_facts, out, &f) || !dev)
        return DGL_ERR_INVALID_ARG;
    const struct gl_caps *caps = gl_device_caps(dev->gl);
    struct gl_memory_now now;
    gl_device_memory_now(dev->gl, dev->held_bytes, &now);
    f = (struct dgl_device_facts){
        .memory_bytes = now.total_bytes,
        .free_bytes = now.free_bytes,
        .budget_bytes = now.budget_bytes,
        .unified = now.unified,
        .compute_units = caps->compute_units,
        .wave_size = caps->wave_size,
    };
    _Static_assert(sizeof(f.memory_source) == sizeof(now.source), "sources are as long");
    _Static_assert(sizeof(f.units_source) == sizeof(caps->units_source), "sources are as long");
    memcpy(f.memory_source, now.source, sizeof(now.source));
    memcpy(f.units_source, caps->units_source, sizeof(caps->units_source));
    DGL_CLOSE(out, &f);
    return DGL_OK;
}

const char *dgl_device_gl_version(const struct dgl_device *dev)
{
    if (!dev)
        return NULL;
    return gl_device_caps(dev->gl)->version;
}

bool dgl_device_is_lost(const struct dgl_device *dev)
{
    if (!dev)
        return false;
    return gl_device_is_lost(dev->gl);
}

bool dgl_device_is_compiling(struct dgl_device *dev)
{
    if (!dev)
        return false;
    struct gl_saved saved;
    if (gl_device_is_lost(dev->gl) || device_enter(dev, &saved) != DGL_OK)
        return false;
    bool compiling = gl_is_compiling(dev->gl);
    device_leave(dev, &saved);
    return compiling;
}

const char *dgl_device_cache_dir(const struct dgl_device *dev)
{
    if (!dev)
        return NULL;
    return gl_program_is_kept(dev->gl) ? gl_program_cache_dir(dev->gl) : NULL;
}

void dgl_device_set_trace(struct dgl_device *dev,
                          void (*cb)(void *priv, const struct dgl_event *event), void *priv)
{
    if (!dev)
        return;
    device_set_trace(dev, cb, priv);
}

enum dgl_status dgl_device_get_counters(const struct dgl_device *dev, struct dgl_counters *out)
{
    if (out)
        *out = (struct dgl_counters){0};
    if (!dev || !out)
        return DGL_ERR_INVALID_ARG;
    *out = device_counters(dev);
    return DGL_OK;
}
