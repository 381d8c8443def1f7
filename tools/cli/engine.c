/* An engine from options: bundled model, kernels, device, model and session. */
#include "tools/cli/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/options_table.h"
#include "tools/cli/typing.h"

#define BUNDLED "story-llama-q4_k_m"

static int devices_left;  /* open, for good */
static bool lacks_device; /* one could not be opened */

/* ---- data files ------------------------------------------------------------------------------ */

/* Writes `dir`/`inside`/BUNDLED to `path`. Returns false if it has no manifest. */
static bool try_dir(const char *dir, const char *inside, char path[MODEL_PATH_MAX])
{
    char manifest[MODEL_PATH_MAX + 16];
    int len = snprintf(path, MODEL_PATH_MAX, "%s%s%s", dir, inside, BUNDLED);
    if (len < 0 || len >= MODEL_PATH_MAX)
        return false;
    snprintf(manifest, sizeof(manifest), "%s/manifest.json", path);
    return dgl_path_exists(manifest);
}

const char *model_bundled(char buffer[MODEL_PATH_MAX])
{
    /* relative to the program's folder: build/, build/san/, PREFIX/bin/ */
    static const char *const from_exe[] = {"/../tests/models/", "/../../tests/models/",
                                           "/../share/dopplergl/models/"};
    const char *data = getenv("DOPPLERGL_DATA");
    char dir[MODEL_PATH_MAX];
    if (data && data[0] && try_dir(data, "/models/", buffer))
        return buffer;
    /* The folder of the running program, links resolved. */
    ssize_t len = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    dir[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(dir, '/');
    if (slash) {
        *slash = '\0';
        for (size_t i = 0; i < sizeof(from_exe) / sizeof(from_exe[0]); i++)
            if (try_dir(dir, from_exe[i], buffer))
                return buffer;
    }
    return NULL;
}

const char *model_path(const struct options *opt, char buffer[MODEL_PATH_MAX])
{
    if (opt->model)
        return opt->model;
    if (model_bundled(buffer))
        return buffer;
    console_error("the bundled model %s was not found: set DOPPLERGL_DATA to the folder that holds "
                  "models/, or name a model with -m",
                  BUNDLED);
    return NULL;
}

void model_shape_path(const struct options *opt, char path[MODEL_SHAPE_MAX])
{
    snprintf(path, MODEL_SHAPE_MAX, "synthetic:%s", opt->shape);
}

bool model_check_shape(const struct options *opt)
{
    struct console console;
    struct dgl_model_file *file = NULL;
    char shape[MODEL_SHAPE_MAX];
    if (strlen(opt->shape) >= MODEL_PATH_MAX)
        return console_refuse("--shape: the name is longer than %d bytes", MODEL_PATH_MAX - 1);
    model_shape_path(opt, shape);
    enum dgl_status status = dgl_inspect(NULL, dgl_inspect_params(.path = shape), &file);
    dgl_model_file_destroy(&file);
    if (status != DGL_ERR_INVALID_ARG)
        return true;
    console_init(&console, opt);
    dgl_inspect(&console.log, dgl_inspect_params(.path = shape), &file);
    return false;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Name of an option in reasons: "--q4k-matmul", or the key of the configuration file. */
static void name_source(const struct options *opt, const char *option, char out[64])
{
    const struct option *o = option_named(command_find("generate"), dgl_str_of(option));
    const bool settings = option_source(o, opt) == OPTION_FROM_CONFIG;
    snprintf(out, 64, "%s%s", settings ? "config.json: " : "--", option);
}

enum dgl_status engine_read_kernels(const struct engine *e, const struct options *opt,
                                    struct dgl_kernels **out)
{
    const struct {
        const char *key, *option, *value;
    } flags[] = {
        {"computePrecision", "compute-precision", opt->compute_precision},
        {"q4kMatmul", opt->force_fused_q4k ? "force-fused-q4k" : "q4k-matmul",
         opt->force_fused_q4k ? "fused_q4k" : opt->q4k_matmul},
        {"f16Matmul", "f16-matmul", opt->f16_matmul},
        {"attentionPrefill", "attention-prefill", opt->attention_prefill},
        {"attentionDecode", "attention-decode", opt->attention_decode},
    };
    char text[5][96], origin[5][64], profile[96], profile_option[64], hints[64];
    const char *list[6], *origins[6];
    size_t count = 0;
    for (size_t i = 0; i < 5; i++) {
        if (!flags[i].value)
            continue;
        snprintf(text[count], sizeof(text[0]), "%s=%s", flags[i].key, flags[i].value);
        name_source(opt, flags[i].option, origin[count]);
        list[count] = text[count];
        origins[count] = origin[count];
        count++;
    }
    if (opt->extra_hint) {
        list[count] = opt->extra_hint;
        origins[count++] = NULL;
    }
    name_source(opt, "kernel-hints", hints);
    name_source(opt, "kernel-profile", profile_option);
    snprintf(profile, sizeof(profile), "%s %s", profile_option,
             opt->kernel_profile ? opt->kernel_profile : "");
    char bundled[MODEL_PATH_MAX];
    const char *pack = opt->allow_pack_kernels ? model_path(opt, bundled) : NULL;
    *out = NULL;
    if (opt->allow_pack_kernels && !pack)
        return DGL_ERR_INVALID_ARG;
    return dgl_kernels_create(
        &e->console.log,
        dgl_kernels_params(.dirs = opt->kernel_dir.item, .num_dirs = opt->kernel_dir.count,
                           .files = opt->kernel_file.item, .num_files = opt->kernel_file.count,
                           .pack = pack, .user_config = opt->user_kernels,
                           .config_file = opt->kernel_config, .profile = opt->kernel_profile,
                           .hints = opt->kernel_hints, .flags = list, .num_flags = count,
                           .flag_origins = origins, .hints_origin = hints,
                           .profile_origin = profile, .allow_empty_dirs = opt->watch_kernels,
                           .unchecked = opt->unsafe_kernels, .keep_faults = opt->keep_faults),
        out);
}

enum dgl_status engine_open_kernels(struct engine *e, const struct options *opt)
{
    return engine_read_kernels(e, opt, &e->kernels);
}

enum dgl_status engine_open_texts(struct engine *e, const struct options *opt)
{
    struct options own = *opt;
    own.user_kernels = own.kernel_config = own.kernel_profile = own.kernel_hints = NULL;
    own.compute_precision = own.q4k_matmul = own.f16_matmul = own.attention_prefill = NULL;
    own.attention_decode = own.extra_hint = NULL;
    own.force_fused_q4k = false;
    return engine_open_kernels(e, &own);
}

bool engine_has_kernel_files(const struct options *opt)
{
    return opt->kernel_dir.count > 0 || opt->kernel_file.count > 0 || opt->allow_pack_kernels;
}

bool engine_check_hints(const struct options *opt)
{
    struct console console;
    struct dgl_kernels *kernels = NULL;
    if (!opt->kernel_hints || engine_has_kernel_files(opt))
        return true;
    console_init(&console, opt);
    enum dgl_status status =
        dgl_kernels_create(&console.log, dgl_kernels_params(.hints = opt->kernel_hints), &kernels);
    dgl_kernels_destroy(&kernels);
    return status == DGL_OK;
}

/* Seconds between a signal and the end of a program whose driver compiles: most kernels are ready
 * by then, and the command ends as it always does. */
#define SIGNAL_SECONDS 0.5

/* Seconds of processor time for one kernel that this process compiles. */
#define COMPILE_SECONDS 60

/* Only the end of the process stops a driver's compiler. This function is called on another thread
 * while the command's thread is in the driver. */
static void compiling(void *priv, const char *kernel, double seconds, bool over)
{
    /* Seconds of the kernel when the signal was seen; 0 if there was no signal. */
    static double signal_seconds;
    struct engine *e = priv;
    const bool samples = strncmp(kernel, "sample_", 7) == 0;
    if (!interrupted() || (signal_seconds > 0 && seconds < signal_seconds))
        signal_seconds = 0;
    if (interrupted() && signal_seconds <= 0)
        signal_seconds = seconds;
    const bool cancelled = interrupted() && seconds - signal_seconds >= SIGNAL_SECONDS;
    if (!cancelled && !over)
        return;
    if (cancelled)
        console_note(&e->console, "dopplergl: cancelled while the driver compiled kernel %s",
                     kernel);
    else
        console_error("kernel %s: the driver's compiler exceeded the limit of %d s and was ended "
                      "after %.0f s, with this program: choose another kernel with "
                      "--kernel-hints, %sor use another device (`dopplergl devices`)",
                      kernel, e->compile_seconds, seconds,
                      samples ? "do without top-k (--top-k 0), " : "");
    typing_release();
    fflush(NULL);
    _exit(cancelled ? EXIT_CANCELLED : EXIT_FAILED);
}

enum dgl_status engine_open_device(struct engine *e, const struct options *opt)
{
    e->compile_seconds = opt->time_limit ? opt->time_limit : COMPILE_SECONDS;
    enum dgl_status status = dgl_device_create(
        &e->console.log,
        dgl_device_params(.select = opt->device, .limits = opt->limits, .debug = opt->verbose >= 2,
                          .compiler = "/proc/self/exe", .compile_seconds = e->compile_seconds,
                          .compiling_cb = compiling, .compiling_priv = e),
        &e->device);
    lacks_device = status != DGL_OK;
    if (status != DGL_OK)
        return status;
    const struct dgl_device_info *info = dgl_device_get_info(e->device);
    const char *cache = dgl_device_cache_dir(e->device);
    console_note(&e->console, "device: %s%s%s%s%s%s", info->renderer, info->node[0] ? ", " : "",
                 info->node, info->software ? " (software)" : "", opt->limits ? ", limits " : "",
                 opt->limits ? opt->limits : "");
    e->console.cache = cache ? cache : "";
    return DGL_OK;
}

bool engine_lacks_device(void)
{
    return lacks_device;
}

enum dgl_executor executor_chosen(const struct options *opt)
{
    const char *name = opt->executor ? opt->executor : "auto";
    return strcmp(name, "dispatch") == 0     ? DGL_EXECUTOR_DISPATCH
           : strcmp(name, "persistent") == 0 ? DGL_EXECUTOR_PERSISTENT
                                             : DGL_EXECUTOR_AUTO;
}

/* ---- engine ---------------------------------------------------------------------------------- */

/* Returns the time since *at, and sets *at to the present time. */
static void lap(uint64_t *at, uint64_t *ns)
{
    uint64_t now = dgl_now_ns();
    *ns = now - *at;
    *at = now;
}

enum dgl_status engine_open(struct engine *e, const struct options *opt, const char *path,
                            bool session)
{
    *e = (struct engine){0};
    console_init(&e->console, opt);
    char bundled[MODEL_PATH_MAX];
    uint64_t start = dgl_now_ns();
    if (!path)
        path = model_path(opt, bundled);
    if (!path)
        return DGL_ERR_INVALID_ARG;
    uint64_t at = start;
    enum dgl_status status = DGL_OK;
    TRY(dgl_model_find(&e->console.log, path));
    if (opt->trace)
        TRY(trace_create(&e->trace, &e->console.log, opt->trace));
    at = dgl_now_ns();
    TRY(engine_open_kernels(e, opt));
    lap(&at, &e->times.kernels_ns);
    TRY(engine_open_device(e, opt));
    lap(&at, &e->times.device_ns);
    trace_watch(&e->trace, e->device);
    bool f32 = opt->kv_type && strcmp(opt->kv_type, "f32") == 0;
    const char *hash = opt->hash_weights ? opt->hash_weights : "changed";
    e->console.work = "loading";
    TRY(dgl_model_load(
        e->device,
        dgl_model_params(.path = path, .override_kv = opt->override_kv.item, .kernels = e->kernels,
                         .context = opt->context,
                         .hash_weights = strcmp(hash, "always") == 0  ? DGL_HASH_ALWAYS
                                         : strcmp(hash, "never") == 0 ? DGL_HASH_NEVER
                                                                      : DGL_HASH_CHANGED,
                         .kv_type = f32 ? DGL_KV_F32 : DGL_KV_F16, .no_tuned = opt->no_tune,
                         .executor = executor_chosen(opt), CONSOLE_PROGRESS(&e->console)),
        &e->model));
    lap(&at, &e->times.model_ns);
    const int32_t granted = dgl_model_get_info(e->model)->context;
    if (session)
        TRY(dgl_session_create(e->model,
                               dgl_session_params(.context = opt->session_context < granted
                                                                 ? opt->session_context
                                                                 : granted,
                                                  .chunk = opt->ubatch, .chunk_name = "--ubatch",
                                                  CONSOLE_PROGRESS(&e->console)),
                               &e->session));
    lap(&at, &e->times.session_ns);
    e->load_ns = dgl_now_ns() - start;
    trace_add(&e->trace, "load", start, start + e->load_ns);
    dgl_device_get_counters(e->device, &e->load);
    if (e->session)
        interrupt_watch(e->session);
    if (interrupted())
        status = DGL_ERR_CANCELLED;
done:
    return status;
}

void engine_close(struct engine *e)
{
    interrupt_watch(NULL);
    trace_abort(&e->trace);
    dgl_session_destroy(&e->session);
    dgl_constraint_destroy(&e->constraint);
    dgl_model_destroy(&e->model);
    dgl_kernels_destroy(&e->kernels);
    if (e->device && dgl_device_is_compiling(e->device)) {
        devices_left++;
        e->device = NULL;
    }
    dgl_device_destroy(&e->device);
}

void engine_exit(int code)
{
    if (devices_left == 0)
        exit(code);
    fflush(NULL);
    _exit(code);
}
