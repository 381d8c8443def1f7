/* The public kernel set: kernels/ behind a handle. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/memory/device.h"
#include "core/plan/plan.h"

enum dgl_status dgl_kernels_create(const struct dgl_log *log,
                                   const struct dgl_kernels_params *params,
                                   struct dgl_kernels **out)
{
    if (!out)
        return dgl_fail_no_out(log, "dgl_kernels_create");
    *out = NULL;
    struct dgl_kernels *k = dgl_new(struct dgl_kernels);
    if (!k)
        return dgl_fail_memory(log, "kernel set", sizeof(*k));
    k->unchecked = params && params->unchecked;
    enum dgl_status status = kernel_set_create(log, params, &k->set);
    if (status == DGL_OK)
        *out = k;
    else
        free(k);
    return status;
}

enum dgl_status dgl_kernels_check_hints(const struct dgl_log *log, const char *hints)
{
    return kernel_hints_check(log, KERNEL_HINTS_ORIGIN, hints);
}

void dgl_kernels_destroy(struct dgl_kernels **kernels)
{
    struct dgl_kernels *k = *kernels;
    *kernels = NULL;
    if (!k)
        return;
    kernel_set_destroy(&k->set);
    free(k);
}

void dgl_kernels_iterate(const struct dgl_kernels *kernels,
                         bool (*cb)(void *priv, const struct dgl_kernel_info *info), void *priv)
{
    for (size_t i = 0; i < kernel_set_count(kernels->set); i++) {
        struct dgl_kernel_info info = kernel_info(kernel_set_at(kernels->set, i));
        if (!cb(priv, &info))
            return;
    }
}

const char *dgl_kernels_source(const struct dgl_kernels *kernels, const char *name, size_t *len)
{
    const struct kernel *kernel = kernel_set_find(kernels->set, name);
    if (len)
        *len = kernel ? kernel->text_len : 0;
    return kernel ? kernel->text : NULL;
}

/* Passes overrides on as the public sees them. */
struct overrides {
    bool (*cb)(void *priv, const struct dgl_kernel_override *override);
    void *priv;
};

static bool pass_override(void *priv, const struct kernel_override *o)
{
    const struct overrides *to = priv;
    struct dgl_kernel_override override = {.name = o->name,
                                           .is_lib = !o->kernel,
                                           .origin = o->origin,
                                           .builtin = o->builtin,
                                           .diff = o->diff};
    memcpy(override.sha256, o->sha256, sizeof(override.sha256));
    return to->cb(to->priv, &override);
}

enum dgl_status dgl_kernels_overrides(const struct dgl_log *log, const struct dgl_kernels *kernels,
                                      bool (*cb)(void *priv,
                                                 const struct dgl_kernel_override *override),
                                      void *priv)
{
    struct overrides to = {cb, priv};
    return kernel_set_overrides(log, kernels->set, pass_override, &to);
}

enum dgl_status dgl_kernels_template(const struct dgl_log *log, const struct dgl_kernels *kernels,
                                     const char *name, const char *op, char **text, size_t *len)
{
    struct dgl_buf out = {0};
    *text = NULL;
    *len = 0;
    enum dgl_status status = kernel_template(log, kernels->set, name, op, &out);
    if (status == DGL_OK) {
        *len = out.len;
        *text = dgl_buf_take(&out);
    }
    dgl_buf_finish(&out);
    return status;
}
