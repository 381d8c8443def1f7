/* The public kernel set: kernels/ behind a handle. */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/sized.h"
#include "core/memory/device.h"
#include "core/plan/plan.h"
#include "loader/model/model_path.h"

/* The layers with the pack's own folder, where it has one, as the lowest directory. */
static enum dgl_status create_with_pack(const struct dgl_log *log,
                                        const struct dgl_kernels_params *params,
                                        struct kernel_set **out)
{
    struct dgl_kernels_params all = *params;
    char *path = NULL, *name = NULL, *own = NULL;
    const char **dirs = dgl_new_array(const char *, params->num_dirs + 1);
    enum dgl_status status;
    TRY(model_path_resolve(log, &blob_files, params->pack, &path, &name));
    own = dgl_path_join(path, PACK_KERNELS);
    if (!own || !dirs)
        TRY(dgl_fail_memory(log, "the folders of kernels", params->num_dirs));
    if (dgl_path_is_link(own))
        TRY(dgl_fail(log, DGL_ERR_INVALID_ARG,
                     "%s: is a link, which is not followed: use --kernel-dir with its target",
                     own));
    if (dgl_path_present(own) && !dgl_path_is_dir(own))
        TRY(dgl_fail(log, DGL_ERR_INVALID_ARG,
                     "%s: no folder: the kernels that a pack brings are files in one", own));
    if (dgl_path_is_dir(own) || kernel_texts_in(params, own)) {
        dirs[0] = own;
        for (size_t i = 0; i < params->num_dirs; i++)
            dirs[i + 1] = params->dirs[i];
        all.dirs = dirs;
        all.num_dirs++;
    }
    TRY(kernel_set_create(log, &all, out));
done:
    free(own);
    free(path);
    free(name);
    free(dirs);
    return status;
}

enum dgl_status dgl_kernels_create(const struct dgl_log *log,
                                   const struct dgl_kernels_params *params,
                                   struct dgl_kernels **out)
{
    if (!out)
        return dgl_fail_no_out(log, "dgl_kernels_create");
    *out = NULL;
    struct dgl_kernels_params p;
    if (!DGL_TAKE(log, dgl_kernels_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    params = &p;
    struct dgl_kernels *k = dgl_new(struct dgl_kernels);
    if (!k)
        return dgl_fail_memory(log, "kernel set", sizeof(*k));
    k->unchecked = params->unchecked;
    k->pack = params->pack;
    enum dgl_status status =
        k->pack ? create_with_pack(log, params, &k->set) : kernel_set_create(log, params, &k->set);
    if (status == DGL_OK)
        *out = k;
    else
        free(k);
    return status;
}

enum dgl_status dgl_kernels_check_hints(const struct dgl_log *log, const char *hints)
{
    if (!hints)
        return dgl_fail_null(log, __func__);
    return kernel_hints_check(log, KERNEL_HINTS_ORIGIN, hints);
}

void dgl_kernels_destroy(struct dgl_kernels **kernels)
{
    struct dgl_kernels *k = kernels ? *kernels : NULL;
    if (!k)
        return;
    *kernels = NULL;
    kernel_set_destroy(&k->set);
    free(k);
}

void dgl_kernels_iterate(const struct dgl_kernels *kernels,
                         bool (*cb)(void *priv, const struct dgl_kernel_info *info), void *priv)
{
    if (!kernels || !cb)
        return;
    for (size_t i = 0; i < kernel_set_count(kernels->set); i++) {
        struct dgl_kernel_info info = kernel_info(kernel_set_at(kernels->set, i));
        if (!cb(priv, &info))
            return;
    }
}

const char *dgl_kernels_source(const struct dgl_kernels *kernels, const char *name, size_t *len)
{
    const struct kernel *kernel = kernels && name ? kernel_set_find(kernels->set, name) : NULL;
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
                                           .text = o->text.p,
                                           .len = o->text.len,
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
    if (!kernels || !cb)
        return dgl_fail_null(log, __func__);
    struct overrides to = {cb, priv};
    return kernel_set_overrides(log, kernels->set, pass_override, &to);
}
