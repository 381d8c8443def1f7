/* From options to a session, and where the bundled model lies. */
#include "tools/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"

#define BUNDLED "story-llama-q4_k_m"

/* ---- data files ---------------------------------------------------------------------------------------------- */

/* `dir`/`inside`/BUNDLED if there is a manifest in it; NULL otherwise. */
static char *try_dir(const char *dir, const char *inside)
{
    char path[4096], manifest[4200];
    snprintf(path, sizeof(path), "%s%s%s", dir, inside, BUNDLED);
    snprintf(manifest, sizeof(manifest), "%s/manifest.json", path);
    return dgl_path_exists(manifest) ? strdup(path) : NULL;
}

char *bundled_model(void)
{
    static const char *const beside_exe[] = {"/../tests/models/", "/../../tests/models/",
                                             "/../share/dopplergl/models/"};
    const char *data = getenv("DOPPLERGL_DATA");
    char exe[4096];
    char *found = NULL;
    if (data && data[0])
        found = try_dir(data, "/models/");
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (!found && len > 0) {
        exe[len] = '\0';
        char *slash = strrchr(exe, '/');
        if (slash)
            *slash = '\0';
        for (size_t i = 0; i < 3 && !found; i++)
            found = try_dir(exe, beside_exe[i]);
    }
    if (!found)
        console_error("the bundled model %s was not found: set DOPPLERGL_DATA to the folder that "
                      "holds models/, or name a model with -m",
                      BUNDLED);
    return found;
}

char *model_path(const struct options *opt)
{
    return opt->model ? strdup(opt->model) : bundled_model();
}

/* ---- kernels --------------------------------------------------------------------------------------------------- */

enum dgl_status engine_open_kernels(struct engine *e, const struct options *opt)
{
    const struct {
        const char *key, *value;
    } flags[] = {
        {"computePrecision", opt->compute_precision},
        {"q4kMatmul", opt->q4k_matmul},
        {"f16Matmul", opt->f16_matmul},
        {"attentionPrefill", opt->attention_prefill},
        {"attentionDecode", opt->attention_decode},
    };
    char text[5][96];
    const char *list[5];
    size_t count = 0;
    for (size_t i = 0; i < 5; i++) {
        if (!flags[i].value)
            continue;
        snprintf(text[count], sizeof(text[0]), "%s=%s", flags[i].key, flags[i].value);
        list[count] = text[count];
        count++;
    }
    return dgl_kernels_create(
        &e->console.log,
        dgl_kernels_params(.dirs = opt->kernel_dir.item, .num_dirs = opt->kernel_dir.count,
                           .files = opt->kernel_file.item, .num_files = opt->kernel_file.count,
                           .config_file = opt->kernel_config, .profile = opt->kernel_profile,
                           .hints = opt->kernel_hints, .flags = list, .num_flags = count),
        &e->kernels);
}

/* ---- engine ------------------------------------------------------------------------------------------------------ */

static void device_line(const struct engine *e)
{
    const struct dgl_device_info *info = dgl_device_get_info(e->device);
    console_note(&e->console, "device: %s%s%s%s%s", info->renderer, info->node[0] ? ", " : "",
                 info->node, info->software ? " (software)" : "",
                 dgl_device_get_limits(e->device)->max_ssbo_bindings == 4 ? ", minimum limits"
                                                                          : "");
}

static enum dgl_status load_model(struct engine *e, const struct options *opt, const char *path)
{
    return dgl_model_load(
        e->device,
        dgl_model_params(.path = path, .kernels = e->kernels, .context = opt->context,
                         .kv_type = opt->kv_type && strcmp(opt->kv_type, "f32") == 0 ? DGL_KV_F32
                                                                                     : DGL_KV_F16,
                         .progress_cb = console_progress, .progress_priv = &e->console),
        &e->model);
}

enum dgl_status engine_open(struct engine *e, const struct options *opt, const char *path,
                            bool session)
{
    *e = (struct engine){0};
    console_init(&e->console, opt);
    interrupt_watch(NULL);
    uint64_t start = dgl_now_ns();
    char *own = path ? NULL : model_path(opt);
    if (!path && !own)
        return DGL_ERR_INVALID_ARG;
    enum dgl_status st = engine_open_kernels(e, opt);
    if (st == DGL_OK)
        st = dgl_device_create(&e->console.log,
                               dgl_device_params(.select = opt->device,
                                                 .limits_min = opt->limits != NULL,
                                                 .debug = opt->verbose >= 2),
                               &e->device);
    if (st == DGL_OK) {
        device_line(e);
        st = load_model(e, opt, path ? path : own);
    }
    if (st == DGL_OK && session)
        st = dgl_session_create(e->model, dgl_session_params(.chunk = opt->batch), &e->session);
    free(own);
    e->load_ns = dgl_now_ns() - start;
    if (e->device)
        dgl_device_get_counters(e->device, &e->load);
    if (st == DGL_OK && e->session)
        interrupt_watch(e->session);
    if (st == DGL_OK && interrupted())
        st = DGL_ERR_CANCELLED;
    return st;
}

void engine_close(struct engine *e)
{
    interrupt_watch(NULL);
    dgl_session_destroy(&e->session);
    dgl_model_destroy(&e->model);
    dgl_kernels_destroy(&e->kernels);
    dgl_device_destroy(&e->device);
}
