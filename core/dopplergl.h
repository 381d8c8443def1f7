/*
 * dopplergl.h: run language models on OpenGL ES 3.1 compute.
 *
 *     struct dgl_device *dev = NULL;
 *     struct dgl_model *model = NULL;
 *     struct dgl_session *session = NULL;
 *     struct dgl_generate_result result = {.size = sizeof(result)};
 *     const struct dgl_log *log = dgl_log_stderr();
 *     if (dgl_device_create(log, dgl_device_params(.select = "any"), &dev) == DGL_OK &&
 *         dgl_model_load(dev, dgl_model_params(.path = "pack"), &model) == DGL_OK &&
 *         dgl_session_create(model, NULL, &session) == DGL_OK)
 *         dgl_generate(session, dgl_generate_params(.prompt = "Once", .max_tokens = 64,
 *                      .text_cb = print_text), &result);
 *     dgl_generate_result_finish(&result);
 *     dgl_session_destroy(&session);
 *     dgl_model_destroy(&model);
 *     dgl_device_destroy(&dev);
 *
 * Rules that apply to every declaration unless its comment states an exception.
 *
 * R1 Ownership has three words. Borrowed: the receiver reads it and never frees it. Transferred:
 *    the receiver frees it with the named function. Consumed: the callee frees it, also on failure.
 *    Arguments are borrowed for the call. `*_create` and `*_load` transfer a handle through the
 *    last parameter, which is NULL on failure. `*_destroy(T **)` consumes the handle, sets it to
 *    NULL and accepts a handle that is NULL. Objects are destroyed in the reverse order of
 *    creation.
 * R2 Structs. A `const struct dgl_x_params *` is read only during the call. NULL and `{0}` mean
 *    the defaults, except for fields marked required. `dgl_x_params(.field = ...)` builds one in
 *    place, in C and in C++20.
 *    Structs that the caller passes by address begin with `size`, so that later libraries can add
 *    fields at their ends. The macros set it for params, and C++ sets it for all. For results in C,
 *    write `struct dgl_x_result result = {.size = sizeof(result)}`. 0 stands for the fields of
 *    version 3 of the interface: later fields are then not read or not written. The library neither
 *    reads nor writes beyond `size`. A field that the library does not have must be 0, else the
 *    call is refused with DGL_ERR_INVALID_ARG.
 *    Structs that are fields of other structs or elements of arrays do not grow. Some have a field
 *    `reserved`, which must be 0 and becomes fields of later versions. Structs that the library
 *    passes to callbacks or returns may have further fields after those of this header.
 * R3 Results. Functions that can fail return `enum dgl_status`: 0 is success, errors are negative.
 *    One line of level DGL_LOG_ERROR goes to the log of the device or of the call: the fault, its
 *    place, both values and a remedy. A NULL log is legal everywhere and drops the text;
 *    dgl_device_error() has the last line of a device. A handle, an argument or a place for a
 *    result that is NULL although its comment does not allow that is DGL_ERR_INVALID_ARG. Functions
 *    without a status then return NULL, 0 or false, or do nothing. Comments
 *    name the errors of a function except these: DGL_ERR_NO_MEMORY of any function, DGL_ERR_GPU and
 *    DGL_ERR_DEVICE_LOST of functions that use a device, DGL_ERR_KERNEL of functions that compute
 *    (kernels are compiled at their first use), and DGL_ERR_INVALID_ARG of constructors if their
 *    out pointer is NULL.
 * R4 Threads. A device and everything made from it belong to one thread at a time. Two devices are
 *    independent. Any thread and any signal handler may call dgl_session_cancel() and
 *    dgl_session_set_cancelled(). Any thread may call dgl_batch_submit(), dgl_batch_cancel(),
 *    dgl_batch_wake() and dgl_device_error(). Several threads at once may call functions that use
 *    neither a device nor an object made from one.
 *    Drivers do not survive fork(). If a process is forked after a device was opened, calls on that
 *    device and its objects fail in the child, and so does opening another device. Destroying
 *    works. Call exec() first, or fork before the first device is opened.
 * R5 EGL. The caller's current EGL context is the same after every call as before it.
 * R6 Units. Sizes are bytes, durations are nanoseconds, positions and counts are tokens. Text is
 *    UTF-8 with an explicit length where it may contain U+0000; strings without one end in NUL.
 * R7 The library never exits, prints (except with dgl_log_stderr()), installs signal handlers or
 *    sets the locale, and keeps no global state but the id of the process that first opened a
 *    device (R4).
 * R8 Cost. Slow: opens devices, reads files or compiles kernels, milliseconds to seconds. Very
 *    slow: works on all bytes of a model, seconds to minutes. Blocks: waits for the device.
 *    Everything else is host work of microseconds.
 */
#ifndef DOPPLERGL_H
#define DOPPLERGL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* DGL_SIZED declares the size of a struct (R2), and DGL_PARAMS builds a params struct. In C++ the
 * size initialises itself. */
#ifdef __cplusplus
#define DGL_SIZED(type) = sizeof(struct type)
template <typename T> inline const T *dgl_temporary(const T &value)
{
    return &value; /* valid until the end of the full expression that contains the call */
}
#define DGL_PARAMS(type, ...) dgl_temporary(type{__VA_ARGS__})
extern "C" {
#else
#define DGL_SIZED(type)
#define DGL_PARAMS(type, ...) (&(struct type){.size = sizeof(struct type), __VA_ARGS__})
#endif

/* Visibility: the library is built with hidden symbols and exports the declarations below. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Version of this interface, one higher after incompatible changes. The interface is stable: new
 * functions, and new fields at the ends of structs (R2), do not raise it. docs/api-changes.md has
 * the rules and a line for each change. */
#define DGL_API_VERSION 3

/* The library's version, "major.minor.patch". Static. */
const char *dgl_version(void);
/* DGL_API_VERSION of the library that is loaded. */
int dgl_api_version(void);

/* ---- status and log -------------------------------------------------------------------------- */

/* Results of functions that can fail. */
enum dgl_status {
    DGL_OK = 0,
    DGL_ERR_INVALID_ARG = -1,   /* a value that does not fit the model, the file or the device */
    DGL_ERR_NO_MEMORY = -2,     /* host or device memory */
    DGL_ERR_NO_DEVICE = -3,     /* no usable device; the log has the reason for each */
    DGL_ERR_UNSUPPORTED = -4,   /* well-formed, but this library does not implement it */
    DGL_ERR_IO = -5,            /* the operating system refused: open, read, write, disk full */
    DGL_ERR_FORMAT = -6,        /* malformed file */
    DGL_ERR_INTEGRITY = -7,     /* a hash does not match */
    DGL_ERR_KERNEL = -8,        /* a kernel file or its GLSL is wrong */
    DGL_ERR_GPU = -9,           /* the driver reported an error, or results are not numbers */
    DGL_ERR_DEVICE_LOST = -10,  /* the device was reset; dgl_model_rebuild(), or destroy it */
    DGL_ERR_CONTEXT_FULL = -11, /* the session's context has no room for more tokens */
    DGL_ERR_CANCELLED = -12,    /* cancelled by a callback or by dgl_session_cancel() */
    DGL_ERR_BUSY = -13,         /* a queue is full: the same call may succeed later */
};

/* The status in words, for unknown values too. Never NULL. Static. */
const char *dgl_status_str(enum dgl_status status);

/* Importance of a log line; a log receives its level and those above it in this list. */
enum dgl_log_level {
    DGL_LOG_NONE = 0, /* as a log's level: no lines at all */
    DGL_LOG_ERROR,    /* the one line that explains a failed call */
    DGL_LOG_WARN,     /* the call continues, but not as requested or not at full speed */
    DGL_LOG_NOTICE,   /* no fault, but the user should know: parts of a model left out */
    DGL_LOG_PROGRESS, /* a kernel that the driver still compiles, every few seconds */
    DGL_LOG_INFO,     /* devices, limits, choices */
    DGL_LOG_DEBUG,    /* details for authors of kernels and of this library */
    DGL_LOG_TRACE,    /* details of single steps */
};

/* The line that explains a failed call, or "". */
struct dgl_error {
    char text[2048]; /* a longer line is cut */
};

/* How a call talks to its caller: a callback for log lines, and one that may stop the call.
 * Borrowed by every object that it is given to, so it must outlive them. Thread-safety: both are
 * called on the thread that made the library call, and on worker threads of dgl_convert() and
 * dgl_verify_smoke(). `write` is also called on the thread that dgl_device_params.compiling_cb
 * describes. */
struct dgl_log {
    /* `text` is one line without a newline, borrowed for the call. */
    void (*write)(void *priv, enum dgl_log_level level, const char *text);
    void *priv;               /* first argument of `write` and `cancelled` */
    enum dgl_log_level level; /* the least important level that `write` receives */
    /* May be NULL. Asked several times a second by work that another's file or text can make long
     * and that reports no progress: tokenizers, chat templates, kernel files. True ends the call
     * with DGL_ERR_CANCELLED. */
    bool (*cancelled)(void *priv);
    /* May be NULL. If it is set, error lines are stored here at any `level` and never passed to
     * `write`. The first one is kept until the caller clears `text`. The text is only meaningful
     * if the call failed: the library may recover from an error that it has logged. */
    struct dgl_error *error;
    void *reserved[4]; /* R2 */
};

/* Returns a log that writes errors and warnings to stderr, a line each. Static. Thread-safe. */
const struct dgl_log *dgl_log_stderr(void);

/* Progress of a long call: done <= total, in units of `what` ("bytes", "texts", "runs", "layers",
 * "kernels"; borrowed). If it returns false, the call undoes unfinished work and returns
 * DGL_ERR_CANCELLED. Called on the thread that made the library call. */
typedef bool (*dgl_progress_cb)(void *priv, const char *what, uint64_t done, uint64_t total);

/* ---- storage of models ----------------------------------------------------------------------- */

/* Result of dgl_source.find. */
enum dgl_entry {
    DGL_ENTRY_NONE, /* the source has nothing of that name */
    DGL_ENTRY_FILE,
    DGL_ENTRY_FOLDER,
};

/* Storage that a model is read from instead of the file system: memory, an archive, a network.
 * Names are the `path` of the parameters, and that path with "/NAME" or "/FOLDER/NAME" appended.
 * Borrowed by every object that is read from it, so it must outlive them: a loaded model reads its
 * weights again when kernels with another layout are set, and after its device was lost.
 * A function that fails returns an error, and may set why->text to the error line of the call.
 * Thread-safety: the library may call each function from several threads at once, including
 * threads of its own: loading reads weights on up to 16 of them. No function may call the library.
 * Cost: loading opens a file of weights for every few MiB that it reads from it. With hashes, which
 * only packs have, it reads every file twice (dgl_model_params.hash_weights). */
struct dgl_source {
    void *priv; /* first argument of the functions */
    /* Sets *entry. DGL_ENTRY_NONE is no failure. */
    enum dgl_status (*find)(void *priv, const char *name, enum dgl_entry *entry,
                            struct dgl_error *why);
    /* Opens a file: sets *file, an argument of `read` and `close`, and *size in bytes. `sha256` is
     * the hash of its content in lower-case hexadecimal, by which the source may look it up, or
     * NULL. The library compares contents with hashes. */
    enum dgl_status (*open)(void *priv, const char *name, const char *sha256, void **file,
                            uint64_t *size, struct dgl_error *why);
    /* Copies exactly `size` bytes at `offset` to `dst`. */
    enum dgl_status (*read)(void *priv, void *file, uint64_t offset, void *dst, size_t size,
                            struct dgl_error *why);
    void (*close)(void *priv, void *file);
    /* Calls `add` with the name of each file and folder in `folder`, in any order. An absent folder
     * has no entries. NULL: the source lists nothing, which is enough for packs without extra
     * templates, checkpoints and GGUF files. */
    enum dgl_status (*list)(void *priv, const char *folder, void (*add)(void *to, const char *name),
                            void *to, struct dgl_error *why);
    void *reserved[4]; /* R2 */
};

/* ---- devices --------------------------------------------------------------------------------- */

/* An open GPU, or software renderer, with its GL context. Thread-safety: R4. */
struct dgl_device;

/* Test result for this kind of device (docs/devices.md). */
enum dgl_device_verdict {
    DGL_DEVICE_UNKNOWN,  /* not tested */
    DGL_DEVICE_TRIED,    /* runs on hardware */
    DGL_DEVICE_SOFTWARE, /* a software renderer; the tests run on it */
    DGL_DEVICE_COMPILED, /* Mesa compiles every chosen kernel for it; never run on hardware */
    DGL_DEVICE_FAILS,    /* its driver lacks a required feature */
};
/* Returns "tried on hardware", "software renderer", "compiled only", "does not run" or "unknown".
 * Static. Thread-safe. Cheap. */
const char *dgl_device_verdict_name(enum dgl_device_verdict verdict);

/* One row of the device table. Strings are borrowed from the call or the device that gave it. */
struct dgl_device_info {
    int32_t index;        /* row number, usable as `select` */
    const char *node;     /* "/dev/dri/renderD128"; "" for an EGL device without a node */
    const char *renderer; /* GL_RENDERER; "" when the device could not be opened */
    const char *driver;   /* kernel or Mesa driver name; "" = unknown */
    bool software;        /* renders on the host's processors */
    bool usable;          /* opens and has OpenGL ES 3.1 */
    /* why it is not usable or would not be picked, or a note (the host of a virtual GPU renders in
     * software); "" otherwise */
    const char *reason;
    enum dgl_device_verdict verdict;
    const char *verdict_note; /* driver version that was tested, or why the device does not run */
};

/* Probes every device and calls `cb` once per row, best first; false from `cb` ends the iteration.
 * Succeeds without a call when there is no device. Slow: opens each device. */
enum dgl_status dgl_device_iterate(const struct dgl_log *log,
                                   bool (*cb)(void *priv, const struct dgl_device_info *info),
                                   void *priv);

struct dgl_device_params {
    size_t size DGL_SIZED(dgl_device_params);
    /* NULL = first hardware device; "any", "software", a node path, or a row number */
    const char *select;
    /* Name of a profile that dgl_limits_profile_at() lists: the device then behaves as that smaller
     * device. NULL = the device's own limits. */
    const char *limits;
    bool debug;            /* KHR_debug messages to the log, per-call error checks; slow */
    const char *cache_dir; /* compiled programs; NULL = XDG cache directory, "" = no cache */
    /* An existing EGLDisplay and EGLContext (ES 3.1) to work in, both or neither. Borrowed by the
     * device; buffer bindings and the current program of that context are not put back. */
    void *egl_display;
    void *egl_context;
    /* Path of a program that calls dgl_compiler_main(); copied. It compiles each kernel in a
     * separate process if the driver is not known to finish every kernel. NULL selects `dopplergl`
     * in the folder of the running program, then on PATH. "" compiles in this process. */
    const char *compiler;
    int32_t compile_seconds; /* limit of processor time for one kernel; 0 = 60 */
    uint64_t compile_memory; /* limit of memory for one kernel, in bytes; 0 = 2 GiB */
    /* Called several times a second, on a thread of the library, while the driver compiles `kernel`
     * in this process. Such a compilation can only be stopped by ending the process, which the
     * callback may do. `over` is true once compile_seconds is exceeded. The callback must not call
     * the library. If it is NULL, one warning is logged on that thread when the limit is exceeded.
     */
    void (*compiling_cb)(void *priv, const char *kernel, double seconds, bool over);
    void *compiling_priv;
};
#define dgl_device_params(...) DGL_PARAMS(dgl_device_params, __VA_ARGS__)

/* A set of limits, for dgl_device_params.limits. */
struct dgl_limits_profile {
    const char *name;    /* "v3d" */
    const char *summary; /* the device that has these limits, as one phrase */
};
/* Returns profile `i`, or NULL after the last one. "min" lowers the limits to the minimums of
 * OpenGL ES 3.1. Every other profile lowers the limits to those of a chip's driver, and kernels are
 * chosen for that chip even if the device is a software renderer. A profile never raises a limit: a
 * notice lists the device's limits that are below the profile. Static. Thread-safe. Cheap. */
const struct dgl_limits_profile *dgl_limits_profile_at(size_t i);

/* Limits in force, after dgl_device_params.limits. A value of 0 or false means absent. */
struct dgl_limits {
    uint64_t max_ssbo_bytes;    /* one binding */
    uint64_t max_buffer_bytes;  /* one buffer; always below 2 GiB */
    uint32_t max_ssbo_bindings; /* storage buffers of one dispatch */
    uint32_t ssbo_align;        /* bytes; offsets of storage bindings are multiples of it */
    uint32_t ubo_align;         /* bytes; offsets of uniform bindings are multiples of it */
    uint32_t max_ubo_bytes;     /* one uniform binding */
    uint32_t max_shared_bytes;  /* shared memory of one work group */
    uint32_t max_invocations;   /* of one work group */
    uint32_t max_local_size[3]; /* of one work group, per dimension */
    uint32_t max_groups[3];     /* work groups of one dispatch, per dimension */
    uint32_t subgroup_size;     /* invocations */
    bool timer;                 /* GPU time per dispatch can be measured */
    bool program_binary;        /* compiled programs can be cached */
    bool buffer_storage;        /* results are read through persistent mappings */
    bool reset_notification;    /* the driver reports GPU resets */
    bool nv_gpu_shader5;        /* 16-bit arithmetic of GL_NV_gpu_shader5 */
};

/* Runs the compiler process of dgl_device_params.compiler. Call it first in main(). Returns -1 at
 * once if the program was not started as a compiler process. Otherwise it works until its parent
 * process ends, and returns the exit code for main(). */
int dgl_compiler_main(int argc, char **argv);

/* Opens a device. Software rendering is refused unless `select` names it or is "any".
 * DGL_ERR_NO_DEVICE: no device is usable (one line says why each device was not used), or `select`
 * names a row or node that does not exist. DGL_ERR_INVALID_ARG: `select` has no valid form,
 * `limits` names no known profile, or only one of egl_display and egl_context is set.
 * DGL_ERR_UNSUPPORTED: the given context is below ES 3.1. The device borrows `log`. Slow. */
enum dgl_status dgl_device_create(const struct dgl_log *log, const struct dgl_device_params *params,
                                  struct dgl_device **out);
/* Closes the device. Destroy everything made from it first. Blocks. If dgl_device_is_compiling() is
 * true, it may wait until the driver's compiler ends. */
void dgl_device_destroy(struct dgl_device **dev);
/* Returns true if the driver still compiles a program that is no longer needed. This happens if
 * DGL_EXECUTOR_AUTO started a trial, the driver compiles on its own threads, and the model was
 * destroyed within those seconds. On some drivers dgl_device_destroy() and exit() then wait for the
 * compiler. A program that is otherwise finished may leave the device open, flush its files and
 * call _exit(). Returns false for a lost device. Cheap. */
bool dgl_device_is_compiling(struct dgl_device *dev);
/* Copies the last error line of the device and of all objects made from it to *out, with any log.
 * "" = no call has failed. The line explains the last call that failed with another status
 * than DGL_ERR_CANCELLED; a call that succeeded may also have left a line, about an error from
 * which it recovered. Thread-safe. */
enum dgl_status dgl_device_error(const struct dgl_device *dev, struct dgl_error *out);
/* The device's row of the device table. Borrowed from the device. */
const struct dgl_device_info *dgl_device_get_info(const struct dgl_device *dev);
/* The device's limits. Borrowed from the device. */
const struct dgl_limits *dgl_device_get_limits(const struct dgl_device *dev);
/* Memory and compute units of a device, from its kernel driver, its GL driver or the host. */
struct dgl_device_facts {
    size_t size DGL_SIZED(dgl_device_facts);
    uint64_t memory_bytes; /* total; includes the host's memory if `unified`; 0 = unknown */
    uint64_t free_bytes;   /* free now, for all programs; 0 = unknown */
    /* Limit for all models and sessions of this device, existing ones included. A device's own
     * memory counts in full. Unified memory counts 75% of the host's available memory or of the
     * rest of the memory cgroup, whichever is less. 0 = unknown: no allocation is refused. */
    uint64_t budget_bytes;
    bool unified;            /* buffers are in the host's memory */
    char memory_source[128]; /* origin of the numbers: "amdgpu sysfs", "/proc/meminfo" */
    uint32_t compute_units;  /* cores, as the vendor counts them; a plan uses this many groups */
    uint32_t wave_size;      /* invocations that run together; 0 = unknown */
    char units_source[64];   /* origin of the number: "v3d, slices of 4 QPUs" */
};
/* Queries the facts and copies them to *out. Costs some tenths of a millisecond. */
enum dgl_status dgl_device_get_facts(struct dgl_device *dev, struct dgl_device_facts *out);
/* GL_VERSION. Borrowed from the device. */
const char *dgl_device_gl_version(const struct dgl_device *dev);
/* Returns true after a device reset. Every call on the device then fails at once with
 * DGL_ERR_DEVICE_LOST, except the destroy functions and dgl_model_rebuild(). */
bool dgl_device_is_lost(const struct dgl_device *dev);
/* Folder in which compiled kernels are stored for later processes. Returns NULL if kernels are
 * compiled again in each process. Reasons: dgl_device_params.cache_dir is "", the folder cannot be
 * written, other users can write to it, or the driver does not support program binaries. In the
 * last case the folder still stores test results, tunings and hashes. Borrowed from the device. */
const char *dgl_device_cache_dir(const struct dgl_device *dev);

/* Work since the device was opened, without known-answer tests of kernels and trials of executors.
 * Subtract two readings to get the work between them. */
struct dgl_counters {
    uint64_t tokens; /* evaluated, in prefill and in decode */
    /* calls into the driver that start work or wait for it: a flush, a wait on a fence, a map of a
     * result */
    uint64_t submits;
    uint64_t readbacks;       /* results copied to the host, of any size */
    uint64_t dispatches;      /* compute dispatches, also those with no work groups */
    uint64_t barriers;        /* memory barriers, also those before copies and readbacks */
    uint64_t buffers_created; /* GL buffers */
    uint64_t programs_linked; /* compiled, or loaded from the program cache */
    uint64_t readback_bytes;  /* from the device to the host */
    uint64_t upload_bytes;    /* from the host to the device */
    /* pages of KV caches (64 tokens each) in use now; a difference of two readings has the current
     * value too */
    uint64_t pages_used;
    uint64_t pages_shared; /* pages in pages_used that several sequences share */
    /* prompt tokens; their keys and values were reused from other sequences */
    uint64_t prefix_hit_tokens;
    uint64_t reserved[8]; /* R2 */
};
/* Copies the counters of the device to *out. */
enum dgl_status dgl_device_get_counters(const struct dgl_device *dev, struct dgl_counters *out);

/* Measured upper limits of the device, to compare kernels with. */
struct dgl_device_speed {
    size_t size DGL_SIZED(dgl_device_speed);
    double dispatch_us; /* time of one dispatch that depends on the previous one, in a long list */
    double read_gbps;   /* memory reads, 10^9 bytes per second */
    double copy_gbps;   /* memory copies, read plus written, 10^9 bytes per second */
};
/* Measures the device with built-in kernels and the host's clock. Meanwhile it allocates up to 1
 * GiB, at most half of the free memory. Slow: a fraction of a second; seconds on renderers that
 * interpret shaders. On failure *out is zero. */
enum dgl_status dgl_device_measure(struct dgl_device *dev, struct dgl_device_speed *out);

/* Parts of a generation. */
enum dgl_phase { DGL_PHASE_PREFILL, DGL_PHASE_DECODE, DGL_PHASE_SAMPLE };

/* Kinds of events. */
enum dgl_event_kind {
    DGL_EVENT_COMPILE, /* a kernel was compiled or loaded from the cache; `name` is the kernel */
    /* one of the calls that dgl_counters.submits counts: "flush", "wait" or "map" */
    DGL_EVENT_SUBMIT,
    DGL_EVENT_READBACK, /* waiting for a result and copying it to the host: "readback" */
    DGL_EVENT_RECORD,   /* queueing the dispatches of a pass or of a batch of tokens: "record" */
    DGL_EVENT_OP,       /* an operation on the GPU, if the call profiles; `name` as in the plan */
};
/* A time span on the host, or on the GPU for DGL_EVENT_OP. Strings are borrowed for the call. */
struct dgl_event {
    enum dgl_event_kind kind;
    enum dgl_phase phase; /* DGL_EVENT_RECORD, DGL_EVENT_OP */
    const char *name;
    const char *kernel; /* DGL_EVENT_OP; "" otherwise */
    /* CLOCK_MONOTONIC. The GPU has a separate clock. The operations of a pass are placed one after
     * another so that the last one ends when the host saw that the pass had finished. */
    uint64_t start_ns;
    uint64_t duration_ns;
    uint64_t bytes; /* DGL_EVENT_READBACK; DGL_EVENT_OP: same as dgl_profile_entry.bytes */
};
/* Calls `cb` after each later event on the device, on the thread that made the library call. NULL
 * ends the trace. The callback must not call the library. */
void dgl_device_set_trace(struct dgl_device *dev,
                          void (*cb)(void *priv, const struct dgl_event *event), void *priv);

/* ---- kernels: text, layers and choices (no device needed) ------------------------------------ */

/* A set of kernel files, with hints that select among them. A model copies the set that it
 * receives. Thread-safety: unsafe, one thread at a time. */
struct dgl_kernels;

/* One kernel. Strings are borrowed from the set. */
struct dgl_kernel_info {
    const char *name;    /* unique in its set: "matmul_decode_subgroup" */
    const char *op;      /* the operation that it computes: "matmul" */
    const char *variant; /* distinguishes the kernels of one operation */
    const char *origin;  /* "builtin" or the path of the file */
    char sha256[65];     /* of the file, its lines ending in LF; hexadecimal */
    const char *summary; /* first line of its header comment */
    const char *layout;  /* required layout of weights; "" = the default layout of their type */
};

/* Text that replaces a kernel file or hint file. `path` is a path of `files`, `user_config` or
 * `config_file`, or a folder of `dirs` as written there, a slash and the file's name. The file need
 * not exist. */
struct dgl_kernel_text {
    const char *path;
    const char *text; /* NULL: the file is treated as missing */
    size_t len;
};
/* Layers over the built-in kernels and heuristics, lowest first. A later layer replaces an earlier
 * one. */
struct dgl_kernels_params {
    size_t size DGL_SIZED(dgl_kernels_params);
    /* Name or path of a pack. Its folder `kernels` is read as a layer below `dirs`. These kernels
     * are programs written by the author of the pack. NULL = none. A pack without that folder adds
     * no layer. */
    const char *pack;
    /* Folders, in this order. Each *.comp file in a folder replaces the kernel of the same NAME. */
    const char *const *dirs;
    size_t num_dirs;
    const char *const *files; /* single override files, all with different NAMEs */
    size_t num_files;
    /* path of a JSON object of kernel hints, a layer below config_file; may be NULL */
    const char *user_config;
    const char *config_file;  /* path of a JSON object of kernel hints, or NULL */
    const char *profile;      /* "fast", "safe", "fused", ..., or NULL */
    const char *hints;        /* JSON object of kernel hints, or NULL */
    const char *const *flags; /* single hints, "attentionDecode=streaming"; the highest layer */
    size_t num_flags;
    /* Names of `profile`, `hints` and each entry of `flags` in reasons and errors: the place where
     * the user wrote them. NULL (also as an entry of flag_origins) means "--kernel-profile NAME",
     * "--kernel-hints" and "flag". */
    const char *profile_origin, *hints_origin;
    const char *const *flag_origins;
    /* texts used in place of files: unsaved text of an editor, or the last correct state of a file
     */
    const struct dgl_kernel_text *texts;
    size_t num_texts;
    /* folders of `dirs` may be without kernels; otherwise that is DGL_ERR_INVALID_ARG */
    bool allow_empty_dirs;
    /* dgl_model_set_kernels() skips the known-answer tests of kernels from folders and files. A
     * wrong kernel then produces wrong tokens. */
    bool unchecked;
    /* If true, files of `dirs` and `files` that are unreadable or invalid are left out.
     * dgl_kernels_check() reports each of them as failed, and models refuse the set. If false, the
     * first such file is the error of the call. A missing file of `files` is always an error. */
    bool keep_faults;
};
#define dgl_kernels_params(...) DGL_PARAMS(dgl_kernels_params, __VA_ARGS__)

/* Reads and checks kernel files and hints. DGL_ERR_KERNEL: a kernel file has an unknown directive
 * or another fault. DGL_ERR_INVALID_ARG: an invalid hint, profile or folder. DGL_ERR_IO,
 * DGL_ERR_FORMAT: a file cannot be read. Slow. */
enum dgl_status dgl_kernels_create(const struct dgl_log *log,
                                   const struct dgl_kernels_params *params,
                                   struct dgl_kernels **out);
/* Checks dgl_kernels_params.hints without reading kernels: it must be a JSON object of existing
 * hints with valid values. Names under `variants` and `tunes` are not checked. DGL_ERR_INVALID_ARG
 * names the first fault. DGL_ERR_FORMAT: not JSON. */
enum dgl_status dgl_kernels_check_hints(const struct dgl_log *log, const char *hints);
/* Frees the set. */
void dgl_kernels_destroy(struct dgl_kernels **kernels);
/* Calls `cb` once per kernel, in the order of the set. Iteration stops if `cb` returns false. */
void dgl_kernels_iterate(const struct dgl_kernels *kernels,
                         bool (*cb)(void *priv, const struct dgl_kernel_info *info), void *priv);
/* Returns the unmodified text of a kernel: *len bytes (`len` may be NULL) and a NUL. Returns NULL
 * if the set has no such kernel. Borrowed from the set. */
const char *dgl_kernels_source(const struct dgl_kernels *kernels, const char *name, size_t *len);

/* A kernel or a lib of a set that is not built in. Strings are borrowed for the call. */
struct dgl_kernel_override {
    const char *name;
    bool is_lib;
    const char *origin; /* the file */
    const char *text;   /* its text */
    size_t len;         /* bytes of `text`; a NUL follows */
    char sha256[65];    /* of the file, its lines ending in LF; hexadecimal */
    /* the replaced built-in file: "kernels/op/norm/norm_rms.comp"; NULL = no file */
    const char *builtin;
    /* Difference between `builtin` (or an empty file) and `text`, in the format of `diff -u`. CRLF
     * counts as LF. "" = no difference. */
    const char *diff;
};
/* Calls `cb` for each kernel and then for each lib from folders and files. Iteration stops if `cb`
 * returns false. Milliseconds of host work. */
enum dgl_status dgl_kernels_overrides(const struct dgl_log *log, const struct dgl_kernels *kernels,
                                      bool (*cb)(void *priv,
                                                 const struct dgl_kernel_override *override),
                                      void *priv);
/* Writes a starting point for a new kernel: a copy of the kernel that `device` uses for `op` on a
 * typical size, renamed to `name`. If `device` is NULL, or no kernel for `op` can run on it, the
 * copy is of the built-in kernel with variant `baseline`, or of the first one. `op` is an operation
 * ("norm"), or an operation with words of its kernels' WHEN lines ("matmul/decode/pre=join").
 * Transfers *text (dgl_free), *len bytes and a NUL.
 * DGL_ERR_INVALID_ARG: a kernel of that name exists, the name is invalid, or no kernel matches `op`
 * (such as ""). In the last case the log lists the operations with their words. */
enum dgl_status dgl_kernels_template(const struct dgl_log *log, const struct dgl_kernels *kernels,
                                     struct dgl_device *device, const char *name, const char *op,
                                     char **text, size_t *len);

/* Test result of a kernel on a device. */
enum dgl_verdict {
    DGL_VERDICT_PASSED,
    /* does not compile, writes outside of its buffers, computes wrong results, or has a directive
     * that is invalid on every device: LOCAL 0 */
    DGL_VERDICT_FAILED,
    DGL_VERDICT_SKIPPED, /* the device can run none of its test cases */
};
/* Strings are borrowed for the call. */
struct dgl_kernel_verdict {
    /* A lib that no kernel includes is reported as skipped, with only name, origin and sha256 set.
     * A file that was left out is reported as failed, with only name and origin set. All other
     * strings are "". */
    const struct dgl_kernel_info *kernel;
    enum dgl_verdict verdict;
    uint32_t cases; /* test cases that ran; testing stops at the first wrong case */
    double worst;   /* largest error divided by the error that the kernel's TOLERANCE allows */
    /* Failed: kernel, case, element, actual and expected value, or the driver's first error with
     * its location. Skipped: the rule that this device does not meet. "" = passed. */
    const char *reason;
};
struct dgl_kernels_check_params {
    size_t size DGL_SIZED(dgl_kernels_check_params);
    const struct dgl_kernels *kernels; /* NULL = the built-in ones */
    bool overrides_only; /* only kernels if their text or the text of a lib is not built in */
    bool quick;          /* two cases of each kernel instead of all */
    /* Called for each kernel, in the order of the set; false cancels. */
    bool (*cb)(void *priv, const struct dgl_kernel_verdict *verdict);
    void *priv;
    dgl_progress_cb progress_cb; /* may be NULL; in kernels. Also asked within a kernel */
    void *progress_priv;
};
#define dgl_kernels_check_params(...) DGL_PARAMS(dgl_kernels_check_params, __VA_ARGS__)
/* Runs known-answer tests: compiles each kernel for inputs of odd sizes, runs it and compares its
 * results with results in doubles. A kernel that fails is reported to `cb` and is no error of the
 * call. Very slow without `quick`: one program per test case. */
enum dgl_status dgl_kernels_check(struct dgl_device *device,
                                  const struct dgl_kernels_check_params *params);

struct dgl_selftest_params {
    size_t size DGL_SIZED(dgl_selftest_params);
    const char *name; /* of one kernel; NULL = all */
    bool quick;       /* two cases of each kernel instead of all */
    /* Called for each kernel, in the order of the set. Return false to cancel. If `wrong` is true,
     * the kernel is not used on this device from now on. If its only fault is a rounding error of
     * up to 16 times its TOLERANCE, the kernel fails, but is still used. */
    bool (*cb)(void *priv, const struct dgl_kernel_verdict *verdict, bool wrong);
    void *priv;
    dgl_progress_cb progress_cb; /* may be NULL; in kernels. Also asked within a kernel */
    void *progress_priv;
};
#define dgl_selftest_params(...) DGL_PARAMS(dgl_selftest_params, __VA_ARGS__)
/* Runs the known-answer tests of the built-in kernels, including those that failed before. It
 * records the kernels that compute wrong results with this device and driver. Models loaded later
 * do not use them; with a cache folder this includes other processes. DGL_ERR_INVALID_ARG: no
 * kernel has that name. Very slow without `quick`. */
enum dgl_status dgl_selftest(struct dgl_device *device, const struct dgl_selftest_params *params);

/* Time of one kernel for one request. Strings are borrowed for the call. */
struct dgl_kernel_time {
    struct dgl_kernel_verdict verdict; /* the kernel is checked first and timed only if it passed */
    const char *request;               /* operation, attributes and sizes, as text for the user */
    /* median time of a dispatch, on the device's clock (without timer_us) or else the host's */
    double us;
    double best_us; /* shortest dispatch */
    bool gpu_clock;
    double alone_us; /* time of a single dispatch from submit to finish, on the host's clock */
    uint64_t bytes, flops;        /* minimum bytes moved and operations computed by one dispatch */
    double copy_gbps, copy_share; /* rate of a memory copy, and (bytes / us) divided by that rate */
    double timer_us; /* cost of a timer, which was subtracted; 0 = no cost, or the host's clock */
    /* The kernel dgl_kernels_bench_params.against. NULL and 0 if it was not given or not timed. */
    const struct dgl_kernel_verdict *against; /* its test on this request */
    double against_us;                        /* its median time of a dispatch */
    double
        ratio; /* against_us divided by us, above 1 if the kernel is faster: a median of rounds */
    double ratio_spread; /* largest minus smallest ratio of these rounds */
    uint32_t rounds;
};
struct dgl_kernels_bench_params {
    size_t size DGL_SIZED(dgl_kernels_bench_params);
    const struct dgl_kernels *kernels; /* NULL = the built-in ones */
    const char *name;                  /* required: name of a kernel */
    /* Attributes and sizes (docs/operations.md): "weight=q4_k,K=4096,N=14336,tokens=8". Omitted
     * sizes are those of a typical large model. Without a weight type, all types of the kernel are
     * timed. NULL = "". */
    const char *shape;
    uint32_t dispatches; /* timed; 0 = 20 */
    /* Name of a kernel of the same operation to compare with, or NULL. Both compute the same
     * request in turn, in five rounds of `dispatches` each. */
    const char *against;
    bool (*cb)(void *priv, const struct dgl_kernel_time *time); /* per request; false cancels */
    void *priv;
    dgl_progress_cb progress_cb; /* may be NULL; in kernels */
    void *progress_priv;
};
#define dgl_kernels_bench_params(...) DGL_PARAMS(dgl_kernels_bench_params, __VA_ARGS__)
/* Times one kernel, or two in turn. DGL_ERR_INVALID_ARG: there is no such kernel, `against` is for
 * another operation, or `shape` has an attribute or a size that the operation does not have. Slow.
 */
enum dgl_status dgl_kernels_bench(struct dgl_device *device,
                                  const struct dgl_kernels_bench_params *params);
/* Checks a name and a shape like dgl_kernels_bench(), without a device. DGL_ERR_INVALID_ARG on a
 * fault. */
enum dgl_status dgl_kernels_check_shape(const struct dgl_log *log,
                                        const struct dgl_kernels *kernels, const char *name,
                                        const char *shape);

/* ---- tokenizer (no device needed) ------------------------------------------------------------ */

/* The tokenizer of a model. Thread-safety: immutable after creation, safe to share. */
struct dgl_tokenizer;

struct dgl_tokenizer_params {
    size_t size DGL_SIZED(dgl_tokenizer_params);
    const char *path; /* required: pack, Hugging Face folder, GGUF file, or a tokenizer.json */
    const char *const *override_kv; /* as in dgl_model_params */
};
#define dgl_tokenizer_params(...) DGL_PARAMS(dgl_tokenizer_params, __VA_ARGS__)

/* As dgl_tokenizer_load(), with parameters. */
enum dgl_status dgl_tokenizer_open(const struct dgl_log *log,
                                   const struct dgl_tokenizer_params *params,
                                   struct dgl_tokenizer **out);
/* Reads a tokenizer. `path` is a model (pack, Hugging Face folder, GGUF file) or a tokenizer.json.
 * The special tokens of tokenizer_config.json count in folders and packs, not for a tokenizer.json.
 * DGL_ERR_INVALID_ARG: the model has no tokenizer. DGL_ERR_FORMAT, DGL_ERR_UNSUPPORTED, DGL_ERR_IO:
 * errors of the file. Slow. */
enum dgl_status dgl_tokenizer_load(const struct dgl_log *log, const char *path,
                                   struct dgl_tokenizer **out);
/* Frees the tokenizer. Do not call it on a tokenizer borrowed from a model. */
void dgl_tokenizer_destroy(struct dgl_tokenizer **tok);

struct dgl_encode_params {
    size_t size DGL_SIZED(dgl_encode_params);
    bool add_special;      /* add the special tokens of the post-processor (BOS ...) */
    bool no_parse_special; /* treat special tokens in the text as plain text */
    const char *source;    /* prefix of log lines: the source of the text; may be NULL */
};
#define dgl_encode_params(...) DGL_PARAMS(dgl_encode_params, __VA_ARGS__)

/* Encodes a text of `len` bytes. Transfers *ids [*count] (dgl_free), not NULL for an empty text.
 * DGL_ERR_INVALID_ARG: the text is not UTF-8, or the tokenizer has no token (not even an unknown
 * token) for one of its characters. DGL_ERR_UNSUPPORTED: the text needs more work than its length
 * explains (docs/tokenizers.md, limits); decoding has the same limit. DGL_ERR_CANCELLED:
 * dgl_log.cancelled returned true. */
enum dgl_status dgl_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                           const char *text, size_t len, const struct dgl_encode_params *params,
                           int32_t **ids, size_t *count);
/* Decodes ids [count]. Ids without a token are ignored. Transfers *text (dgl_free), *len bytes and
 * a NUL. */
enum dgl_status dgl_decode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                           const int32_t *ids, size_t count, bool skip_special, char **text,
                           size_t *len);
/* Decodes ids [count] with special tokens, and reports the part of the text that each id produced:
 * the first ends[i] bytes are the text of ids[0..i]. An unfinished character belongs to the id that
 * completes it. The caller provides `ends` [count]. Transfers *text (dgl_free), *len bytes and a
 * NUL. */
enum dgl_status dgl_decode_pieces(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                  const int32_t *ids, size_t count, size_t *ends, char **text,
                                  size_t *len);
/* Returns the bytes that a token adds to a text in which another token precedes it. They may be a
 * part of a character, which other functions replace by U+FFFD. Transfers *bytes (dgl_free), *len
 * bytes and a NUL. *len is 0 if no token has this id. */
enum dgl_status dgl_token_bytes(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                int32_t id, char **bytes, size_t *len);
/* Returns the spelling of a token in the vocabulary ("<0x0A>", "<|end|>"), *len bytes. Returns NULL
 * if no token has this id. Borrowed from the tokenizer. */
const char *dgl_token_spelling(const struct dgl_tokenizer *tok, int32_t id, size_t *len);
/* Returns the largest id of a token. Some ids between 0 and it may have no token. */
int32_t dgl_tokenizer_max_id(const struct dgl_tokenizer *tok);
/* Consumes an array or a text that a function of this header transferred. Accepts NULL. */
void dgl_free(void *p);

/* ---- chat templates (no device needed) ------------------------------------------------------- */

/* The chat templates of a model with its special tokens (bos_token ...). Thread-safety: immutable
 * after creation, safe to share. */
struct dgl_template;

struct dgl_template_params {
    size_t size DGL_SIZED(dgl_template_params);
    const char *path;                /* required: pack, Hugging Face folder, GGUF file */
    const struct dgl_source *source; /* as in dgl_model_params */
    const char *const *override_kv;  /* as in dgl_model_params */
    const char *file; /* file of a template that replaces the model's; NULL = the model's */
    /* Name of one of the model's templates: "tool_use", ... NULL selects "tool_use" if the model
     * has it and tools are given, and the default template otherwise. */
    const char *name;
};
#define dgl_template_params(...) DGL_PARAMS(dgl_template_params, __VA_ARGS__)

/* Reads and parses templates. DGL_ERR_INVALID_ARG: the model has no template of that name.
 * DGL_ERR_FORMAT, DGL_ERR_UNSUPPORTED: faults of a template, with its line. Slow. */
enum dgl_status dgl_template_load(const struct dgl_log *log,
                                  const struct dgl_template_params *params,
                                  struct dgl_template **out);
/* Frees the templates. */
void dgl_template_destroy(struct dgl_template **tmpl);

/* The ids that the model generated for an answer that the messages contain as text. */
struct dgl_answer {
    size_t message; /* index of the assistant message that contains the answer */
    /* [num_ids], without the id that ended the answer: the template writes that one */
    const int32_t *ids;
    size_t num_ids;
};

struct dgl_render_params {
    size_t size DGL_SIZED(dgl_render_params);
    /* required: JSON text, an array of messages ({"role": ..., "content": ...}), or an object with
     * `messages` and further variables (tools, documents, enable_thinking, ...) */
    const char *messages;
    size_t messages_len; /* bytes; 0 = strlen(messages) */
    /* name of the messages in log lines, usually their path; NULL = "messages" */
    const char *messages_name;
    bool add_generation_prompt; /* end the text with the start of an assistant message */
    /* End the text in the last message, which the model continues. An object with messages may
     * have a member of this name instead: true, or the name of the continued member of the message
     * (true = "content"). */
    bool continue_final_message;
    bool map_developer;               /* if the template does not name the role developer, render it
                                       * as system, as clients of OpenAI expect */
    const struct tm *now;             /* date for templates that write it; NULL = local time */
    const struct dgl_answer *answers; /* [num_answers], dgl_render_ids() only; ascending */
    size_t num_answers;
};
#define dgl_render_params(...) DGL_PARAMS(dgl_render_params, __VA_ARGS__)

/* Renders messages with the template. Transfers *text (dgl_free), *len bytes and a NUL.
 * DGL_ERR_INVALID_ARG: no messages, or the template raised an exception. Its text is logged.
 * DGL_ERR_FORMAT: malformed messages, or an operation on values of the wrong type. */
enum dgl_status dgl_render(const struct dgl_log *log, const struct dgl_template *tmpl,
                           const struct dgl_render_params *params, char **text, size_t *len);
/* Renders and encodes messages for a model. Only text of the template itself becomes special
 * tokens. Special tokens that messages, tools or other variables spell out stay plain text. If the
 * template renders the text of an answer unchanged, the answer keeps its generated ids and is not
 * encoded again. The start of the conversation then equals the ids that a session already stores.
 * Transfers *ids [*count] (dgl_free). Errors as dgl_render() and dgl_encode(). */
enum dgl_status dgl_render_ids(const struct dgl_log *log, const struct dgl_template *tmpl,
                               const struct dgl_tokenizer *tok,
                               const struct dgl_render_params *params, int32_t **ids,
                               size_t *count);

/* ---- replies (no device needed) -------------------------------------------------------------- */

/* Parses the answer of a chat model while it is generated, into content for the user, reasoning and
 * tool calls. Tool calls are parsed in the format of the template's family: Llama 3, Qwen and
 * Hermes, Mistral, GPT-OSS (harmony). Calls in other formats are content, as is text that only
 * resembles a call. Thread-safety: one thread at a time. */
struct dgl_reply;

enum dgl_reply_kind {
    DGL_REPLY_CONTENT,
    DGL_REPLY_REASONING, /* inside <think>, or in harmony's channel `analysis` */
    DGL_REPLY_CALL,      /* one complete call */
};
/* Borrowed for the call. */
struct dgl_reply_part {
    enum dgl_reply_kind kind;
    const char
        *text;  /* [len], the next piece of the text, or the arguments of a call as a JSON object */
    size_t len; /* bytes */
    const char *name; /* function name of a call */
    const char *id;   /* id of a call, as the model wrote it, or NULL */
};

struct dgl_reply_params {
    size_t size DGL_SIZED(dgl_reply_params);
    const struct dgl_template *tmpl; /* required; borrowed for the call */
    /* The prompt's text, or the end of it. If the template opened a reasoning block there, the
     * answer starts inside that block. NULL = it does not. Borrowed for the call. */
    const char *prompt_end;
    /* Text of the message that the answer continues (dgl_render_params.continue_final_message);
     * NULL = the answer is a new message. Borrowed for the call. Reasoning and calls that began
     * there go on in the answer. The text itself is not reported. */
    const char *continues;
    bool calls; /* the prompt offers tools; false = calls are not parsed */
    /* [num_functions], names of the tools, borrowed until the end. For Llama 3, JSON at the start
     * of an answer is a call only if it names one of them. */
    const char *const *functions;
    size_t num_functions;
    bool keep_reasoning; /* report reasoning as content, with its tags if those are text */
    /* required; return false to cancel */
    bool (*part_cb)(void *priv, const struct dgl_reply_part *part);
    void *priv; /* its first argument */
};
#define dgl_reply_params(...) DGL_PARAMS(dgl_reply_params, __VA_ARGS__)

/* Creates a parser. DGL_ERR_INVALID_ARG: a required field is missing. `log` is borrowed until the
 * parser is destroyed. */
enum dgl_status dgl_reply_create(const struct dgl_log *log, const struct dgl_reply_params *params,
                                 struct dgl_reply **out);
/* Frees the parser. Must not be called from the callback. */
void dgl_reply_destroy(struct dgl_reply **reply);
/* Adds the next `len` bytes of the answer. They may end anywhere, also inside a character.
 * DGL_ERR_CANCELLED once the callback has returned false. */
enum dgl_status dgl_reply_push(struct dgl_reply *reply, const char *text, size_t len);
/* Ends the answer and reports the text that was held back. */
enum dgl_status dgl_reply_end(struct dgl_reply *reply);

/* Returns "llama3", "hermes", "mistral" or "harmony", or NULL if calls are not parsed with this
 * template. Static. */
const char *dgl_template_call_format(const struct dgl_template *tmpl);
/* Returns true if a template uses the variable `name`, such as "tools" or "enable_thinking". Other
 * variables have no effect on the prompt. false for NULL. Thread-safety: any thread. */
bool dgl_template_reads(const struct dgl_template *tmpl, const char *name);
#define DGL_REPLY_TOKENS_MAX 16
/* Copies the special tokens that such answers must contain as text to ids [DGL_REPLY_TOKENS_MAX],
 * which the caller provides. Pass them in dgl_generate_params.shown or dgl_request_params.shown.
 * Returns their number. */
size_t dgl_template_reply_tokens(const struct dgl_template *tmpl, const struct dgl_tokenizer *tok,
                                 int32_t *ids);

/* ---- models ---------------------------------------------------------------------------------- */

/* A model in the memory of a device. Thread-safety: R4, together with its device. */
struct dgl_model;

/* Element type of the KV cache. */
enum dgl_kv_type { DGL_KV_F16 = 0, DGL_KV_F32 };

/* When the files of a pack are checked against their stored hashes. */
enum dgl_hash_weights {
    /* Only files that changed since their last successful check, by device, inode, size and times.
     * The device's cache folder stores these facts. Files are always checked if there is no cache
     * folder, or if they were written moments ago. */
    DGL_HASH_CHANGED = 0,
    DGL_HASH_ALWAYS,
    DGL_HASH_NEVER, /* for files that another process verified or that ship with the program */
};

/* How the decode phase runs on the device. */
enum dgl_executor {
    /* Persistent if a trial on this device showed that it is faster, else dispatch. Without a
     * stored result a trial runs after a second of decoding, if the driver compiles on its own
     * threads. dgl_bench() also runs the trial and waits for the compiler. */
    DGL_EXECUTOR_AUTO = 0,
    DGL_EXECUTOR_DISPATCH, /* one dispatch per operation */
    /* One dispatch for many tokens; its work groups wait for each other. It compiles slowly, and
     * single dispatches decode meanwhile. Its results are then compared with theirs, once per
     * program and device. dgl_model_destroy() waits for an unfinished compiler, because the cache
     * folder keeps the result. */
    DGL_EXECUTOR_PERSISTENT,
};

struct dgl_model_params {
    size_t size DGL_SIZED(dgl_model_params);
    /* required: pack, Hugging Face folder, GGUF file, a folder with a single GGUF model,
     * "org/name[:quant][@revision]" in the Hub cache, "synthetic:SHAPE[:quant]", or
     * "synthetic:FILE[:quant]" where FILE, a config.json, contains a '/' or ends in ".json" */
    const char *path;
    /* where `path` is; NULL = the file system. A source has no Hub cache: `path` is the name of a
     * folder or of a GGUF file in it. */
    const struct dgl_source *source;
    const struct dgl_kernels *kernels; /* NULL = built-in kernels and heuristics */
    enum dgl_hash_weights hash_weights;
    /* maximum tokens of a session; 0 = the model's maximum, lowered to fit the device */
    int32_t context;
    enum dgl_kv_type kv_type;
    enum dgl_executor executor;
    bool no_tuned;               /* ignore the results that dgl_tune() stored for the device */
    dgl_progress_cb progress_cb; /* may be NULL */
    void *progress_priv;         /* first argument of progress_cb */
    /* Corrections of metadata of a GGUF file, as --override-kv of llama.cpp: "KEY=TYPE:VALUE" with
     * int, float, bool or str, ended by NULL. NULL = none. They replace or add keys. A text that is
     * not of this form, a type that is not the file's, and corrections of a model that is no GGUF
     * file are DGL_ERR_INVALID_ARG. Not used after the call. */
    const char *const *override_kv;
};
#define dgl_model_params(...) DGL_PARAMS(dgl_model_params, __VA_ARGS__)

/* An id that ends an answer. */
struct dgl_stop_id {
    int32_t id;
    const char *origin; /* "config.json", "generation_config.json", ... */
};

/* How hidden states of tokens become embeddings. Values after DGL_POOLING_NONE and the names are
 * those of sentence-transformers. */
enum dgl_pooling {
    DGL_POOLING_MODEL = 0,     /* as the model's files say: dgl_model_info.pooling */
    DGL_POOLING_MEAN,          /* one row: the mean over all tokens */
    DGL_POOLING_LAST,          /* one row: the hidden state of the last token */
    DGL_POOLING_NONE,          /* one row per token */
    DGL_POOLING_CLS,           /* one row: the hidden state of the first token */
    DGL_POOLING_MAX,           /* one row: the maximum of each value over all tokens */
    DGL_POOLING_MEAN_SQRT_LEN, /* one row: the sum divided by the square root of the tokens */
    DGL_POOLING_WEIGHTED_MEAN, /* one row: the mean, with token i of 1.. weighted by i */
};
/* "mean", "lasttoken", ...; never NULL. */
const char *dgl_pooling_name(enum dgl_pooling pooling);

/* Facts about a model. Strings and arrays are borrowed from the object that returned it. */
struct dgl_model_info {
    const char *path; /* as given, or the path of the model found in the Hub cache or in a folder */
    const char *name; /* display name */
    const char *family;       /* architecture: "llama", "qwen3", ... */
    const char *quantization; /* of most weights: "q4_k", "f16", ... */
    int32_t vocab;            /* ids, 0 to vocab - 1 */
    int32_t layers;
    int32_t hidden;       /* elements of a token's activations */
    int32_t heads;        /* of queries */
    int32_t kv_heads;     /* of keys and values */
    int32_t head_dim;     /* elements of one head */
    int32_t intermediate; /* elements between the feed-forward matrices */
    int32_t context_max;  /* the model's limit, in tokens */
    int32_t context;      /* tokens that a session may have; see dgl_model_params.context */
    uint64_t parameters;
    uint64_t weight_bytes; /* on the device for a loaded model, in its files for an inspected one */
    const struct dgl_stop_id *stop_ids; /* [num_stop_ids] */
    size_t num_stop_ids;
    bool has_tokenizer;
    int32_t bos_id; /* first token of a text, which an empty prompt begins with; -1 = none */
    bool no_head; /* the checkpoint of a base model has no lm_head: it has embeddings, no answers */
    /* Embeddings as the files say. If they say nothing, pooling is DGL_POOLING_MEAN. */
    enum dgl_pooling pooling;   /* not DGL_POOLING_MODEL */
    bool normalize;             /* embeddings have length 1 */
    const char *pooling_origin; /* file or metadata key of `pooling`; NULL = none says it */
    /* why the embeddings that the files describe cannot be computed; NULL = they can */
    const char *pooling_fault;
};

/* Checks that `path`, or a model of that name in the Hub cache, exists. This is the first step of
 * dgl_model_load() and needs no device. It does not read the model. DGL_ERR_IO: not found.
 * DGL_ERR_INVALID_ARG: several GGUF models were found; the error line lists them. */
enum dgl_status dgl_model_find(const struct dgl_log *log, const char *path);
/* Checks the form of dgl_model_params.override_kv without opening a model. */
enum dgl_status dgl_override_kv_check(const struct dgl_log *log, const char *const *override_kv);

/* One model on this machine. Strings are borrowed for the call. */
struct dgl_model_entry {
    const char *name; /* usable as dgl_model_params.path */
    const char *path; /* of the file or folder */
    const char *form; /* "pack", "checkpoint" (Hugging Face folder) or "gguf" */
    /* of most matrices by the headers of the files, in lower case: "q4_k_m", "bf16"; "" = unknown
     */
    const char *quantization;
    uint64_t bytes; /* size of the files with weights; of all files of a pack */
};
struct dgl_models_params {
    size_t size DGL_SIZED(dgl_models_params);
    /* [num_dirs]: models, or folders that are searched two levels deep. NULL = the Hub cache,
     * $XDG_DATA_HOME/dopplergl/models (~/.local/share) and llama.cpp's cache. */
    const char *const *dirs;
    size_t num_dirs;
};
#define dgl_models_params(...) DGL_PARAMS(dgl_models_params, __VA_ARGS__)
/* Calls `cb` once per model, folder by folder, sorted by name. Iteration stops if `cb` returns
 * false. Only names, sizes and the start of files are read, so a listed model may still fail to
 * load. The three default folders may be missing. DGL_ERR_IO: a folder of `dirs` is missing. Slow.
 */
enum dgl_status dgl_models_iterate(const struct dgl_log *log,
                                   const struct dgl_models_params *params,
                                   bool (*cb)(void *priv, const struct dgl_model_entry *entry),
                                   void *priv);
/* Reads, verifies, uploads and plans a model. The model borrows the device. DGL_ERR_NO_MEMORY: the
 * device cannot store the model; nothing was allocated. DGL_ERR_INVALID_ARG: no path, or a context
 * beyond the model's. DGL_ERR_UNSUPPORTED names a part of the model that this library does not
 * compute, or the reason why the requested executor cannot run on the device (the first call that
 * decodes may also return it). DGL_ERR_IO, DGL_ERR_FORMAT, DGL_ERR_INTEGRITY: errors of the files.
 * DGL_ERR_CANCELLED. Very slow. */
enum dgl_status dgl_model_load(struct dgl_device *dev, const struct dgl_model_params *params,
                               struct dgl_model **out);
/* Frees the model. Destroy its sessions first. */
void dgl_model_destroy(struct dgl_model **model);
/* Facts about the model. Borrowed from the model. */
const struct dgl_model_info *dgl_model_get_info(const struct dgl_model *model);
/* The model's tokenizer; NULL when it came without one. Borrowed from the model. */
const struct dgl_tokenizer *dgl_model_tokenizer(const struct dgl_model *model);

/* Result of compiling one kernel source. */
enum dgl_compile_verdict {
    DGL_COMPILE_OK,
    DGL_COMPILE_REFUSED, /* the driver reported an error */
    DGL_COMPILE_TIME,    /* exceeded the limit of processor time */
    DGL_COMPILE_MEMORY,  /* exceeded the limit of memory */
    DGL_COMPILE_BLOCKED, /* used no processor time for as long as the limit of processor time */
    DGL_COMPILE_CRASHED, /* the driver's compiler crashed */
    DGL_COMPILE_KNOWN,   /* not compiled, because it is listed in `known` */
};
/* One kernel source and its result. Strings are borrowed for the call. */
struct dgl_compiled_text {
    const char *name, *op, *origin; /* of the kernel; "phases" for a persistent program */
    /* Hash of the source without comments, blank lines, indentation and #line; hexadecimal. */
    char sha256[65];
    const char *source; /* NUL-terminated */
    size_t len;
    bool planned; /* the plan requires it; false for optional and unused kernels */
    enum dgl_compile_verdict verdict;
    double ms;             /* processor time */
    uint64_t bytes;        /* size of the program's binary; 0 = unknown */
    uint64_t memory_bytes; /* peak memory of the compiling process */
    const char *reason;    /* why it failed, or the driver's log; "" if empty */
    const char *stats;     /* the driver's statistics, one per line; "" if empty */
};
struct dgl_kernels_compile_params {
    size_t size DGL_SIZED(dgl_kernels_compile_params);
    const char *path;                  /* required: model, as in dgl_model_params */
    const struct dgl_kernels *kernels; /* NULL = the built-in ones */
    enum dgl_kv_type kv_type;
    enum dgl_executor executor;
    bool no_tuned;            /* as in dgl_model_params */
    bool all;                 /* also compile the kernels that can run here but are not chosen,
                                 and the persistent programs (also with DGL_EXECUTOR_PERSISTENT) */
    int32_t seconds;          /* limit of processor time per source; 0 = the device's limit */
    uint64_t memory_bytes;    /* limit of memory per source; 0 = the device's limit */
    const char *const *known; /* sha256 of sources to skip */
    size_t num_known;
    /* Called for each source, in the order of the plan. Returns false to cancel. */
    bool (*cb)(void *priv, const struct dgl_compiled_text *text);
    void *priv;
    dgl_progress_cb progress_cb; /* may be NULL; counts "kernels" */
    void *progress_priv;
    const char *const *override_kv; /* as in dgl_model_params */
};
#define dgl_kernels_compile_params(...) DGL_PARAMS(dgl_kernels_compile_params, __VA_ARGS__)
/* Compiles and links every kernel source that a model's plan uses on the device, each in a separate
 * process, but does not run them. Equal sources are compiled once. No weights are read. A source
 * that does not compile is reported to `cb` and is no error of the call. DGL_ERR_UNSUPPORTED: the
 * compiler process cannot be started (dgl_device_params.compiler). Slow. */
enum dgl_status dgl_kernels_compile(struct dgl_device *device,
                                    const struct dgl_kernels_compile_params *params);

/* Returns the unmodified generation_config.json, *len bytes, or NULL if there is none. For a GGUF
 * file, it is made from the keys general.sampling.*. Borrowed from the model. */
const char *dgl_model_generation_config(const struct dgl_model *model, size_t *len);

/* Replaces the kernels of a model in use (NULL = built-in ones). On failure the old kernels stay in
 * use and produce the next token.
 *
 * Programs with unchanged text are kept. Kernels and libs from folders and files are compiled at
 * once, and each must pass the known-answer tests of its operation (milliseconds each, plus
 * compilation; dgl_kernels_params.unchecked skips the tests). This includes new ones that no step
 * of the model uses. If such a kernel cannot run on the device, a warning is logged instead.
 *
 * The change takes effect at the next call on any session. During a call, only token_cb and text_cb
 * of dgl_generate() may call this function. It then takes effect with the next tokens that are
 * queued. Sessions keep their tokens and their evaluated state.
 *
 * If the new kernels require another type or layout of weights (the hint q4kMatmul), the weights
 * are packed again from the model's files. This is as slow as loading them. The device never stores
 * both versions: if packing fails (no memory, an unreadable file), the old weights are loaded
 * again. If that fails too, calls that compute fail until dgl_model_rebuild() succeeds.
 * dgl_model_info.weight_bytes is updated.
 *
 * DGL_ERR_NO_MEMORY: the weights would not fit. DGL_ERR_UNSUPPORTED: this device cannot meet a
 * hint. DGL_ERR_KERNEL: a kernel does not compile, or computes wrong results. DGL_ERR_INVALID_ARG:
 * called during a call that profiles. Slow; dgl_model_prepare_kernels() does most of the work in
 * advance. */
enum dgl_status dgl_model_set_kernels(struct dgl_model *model, const struct dgl_kernels *kernels);
/* Does a part of the work of a later dgl_model_set_kernels() with the same kernels, and changes
 * nothing. Optional. Call it from token_cb of dgl_generate() or between calls, until *ready is
 * true; tokens are generated meanwhile. The first call plans and compiles. If the driver compiles
 * on its own threads, the first call only starts them, and further calls do nothing until they end.
 * Each later call runs one known-answer test (milliseconds). For kernels that no step uses, the
 * tests are those of `dopplergl kernels check --quick`, which are compiled first.
 *
 * Errors as dgl_model_set_kernels(). The prepared work is discarded after an error, by
 * dgl_model_rebuild(), and if either function is called with another set. */
enum dgl_status dgl_model_prepare_kernels(struct dgl_model *model,
                                          const struct dgl_kernels *kernels, bool *ready);

struct dgl_rebuild_params {
    size_t size DGL_SIZED(dgl_rebuild_params);
    dgl_progress_cb progress_cb; /* may be NULL; in bytes */
    void *progress_priv;         /* first argument of progress_cb */
};
#define dgl_rebuild_params(...) DGL_PARAMS(dgl_rebuild_params, __VA_ARGS__)
/* Recovers a model after DGL_ERR_DEVICE_LOST. It opens a new context on the same row of the device
 * table, uploads the weights again from the model's files, and evaluates the tokens of each session
 * again (dgl_session_params.progress_cb reports the kernels). Handles and borrowed pointers stay
 * valid. If the model is not lost, it returns DGL_OK and does nothing. Other models on the device
 * fail with DGL_ERR_DEVICE_LOST until they are rebuilt too. DGL_ERR_NO_DEVICE: the device does not
 * open again. DGL_ERR_UNSUPPORTED: the caller's own EGL context was lost, or another device or
 * driver is in its place. DGL_ERR_IO, DGL_ERR_FORMAT: errors of the files. DGL_ERR_CANCELLED. After
 * a failure the call may be repeated. If only the evaluation of tokens failed, sessions contain a
 * prefix of their tokens. Very slow. */
enum dgl_status dgl_model_rebuild(struct dgl_model *model, const struct dgl_rebuild_params *params);

/* How a model decodes, and why. */
struct dgl_executor_info {
    size_t size DGL_SIZED(dgl_executor_info);
    enum dgl_executor executor; /* not DGL_EXECUTOR_AUTO */
    const char *name;           /* "dispatch" or "persistent". Static */
    /* borrowed until the model computes again or its kernels are replaced */
    const char *reason;
};
/* Copies to *out how the last token was decoded, or before the first token, how that one would be.
 * The results of a trial (whether work groups may wait for each other, and which executor is
 * faster) are stored in the device's cache folder; DGL_EXECUTOR_AUTO uses them. A persistent
 * dispatch that does not finish, for example because another process uses a part of the device, is
 * abandoned within 50 ms. Single dispatches then compute its tokens again. */
enum dgl_status dgl_model_executor(const struct dgl_model *model, struct dgl_executor_info *out);

/* The kernel of a plan step and how the step uses it. Opaque. */
struct dgl_plan_use;

/* One step of a plan, with the reason for its kernel. Strings are borrowed for the call. */
struct dgl_plan_step {
    enum dgl_phase phase;
    int32_t layer;     /* -1 outside the layers */
    const char *op;    /* "qkv", "attention", ... */
    const char *shape; /* "N=512 K=256 q4_k" */
    /* type and layout of its weights on the device: "q4_k", "native"; "" = no weights */
    const char *weight, *layout;
    /* `origin` lists all files of the program that are not built in, libs included, separated by "
     * + ". `sha256` is the hash of the kernel's file followed by the files of its libs. */
    const struct dgl_kernel_info *kernel;
    const char *reason;
    const char *fallback; /* hints that this step ignores, with reasons ("A; B"); or NULL */
    /* tokens of the pass that the fields below describe: the longest pass of its kind */
    int32_t tokens;
    uint32_t groups[3]; /* work groups of the dispatch */
    uint32_t local[3];  /* invocations of a group */
    /* Invocations of the dispatch, and the number of those with work by the kernel's ACTIVE line
     * (without an ACTIVE line, all invocations of its GROUPS). 0 if GROUPS or ACTIVE cannot be
     * evaluated. */
    uint64_t launched, active;
    uint64_t bytes; /* bytes of weights that the dispatch reads */
    /* Compiled by the first call that uses it: samplers, scores, short passes. The other kernels
     * are compiled while weights are loaded, if the driver has threads for that. */
    bool lazy;
    const struct dgl_plan_use *use; /* borrowed until the model's kernels are replaced */
};
/* Calls `cb` once per step of the model's plan, in order. Iteration stops if `cb` returns false.
 * (If no step uses a given kernel file, a warning is logged when the kernels are set or the model
 * is loaded.) */
void dgl_model_plan_iterate(const struct dgl_model *model,
                            bool (*cb)(void *priv, const struct dgl_plan_step *step), void *priv);

/* Calls `cb` once per step of a decode pass over `sequences` sequences (dgl_batch), 1 to
 * DGL_BENCH_BATCH_MAX. The first steps are the operations, one dispatch each. The last steps have
 * phase DGL_PHASE_SAMPLE: changes of the logits, the available samplers (a pass runs those that its
 * rows request) and the report to the host. `tokens` of each step is `sequences`. Afterwards
 * dgl_model_plan_iterate() also lists the passes over several sequences, as after
 * dgl_batch_create(). DGL_ERR_UNSUPPORTED: the model's kernels or the device's bindings do not
 * support so many sequences in a pass. Host arithmetic only. */
enum dgl_status dgl_model_plan_batch(struct dgl_model *model, int32_t sequences,
                                     bool (*cb)(void *priv, const struct dgl_plan_step *step),
                                     void *priv);

/* Another kernel of a step's operation. Strings are borrowed for the call. */
struct dgl_plan_alternative {
    const struct dgl_kernel_info *kernel;
    bool serves;     /* its WHEN and LAYOUT match the step */
    bool runs;       /* it matches and could run on this device */
    int64_t prefer;  /* its rank, if `runs` */
    const char *why; /* the reason why it was not chosen */
};
/* Calls `cb` for each kernel of the operation that was not chosen for the step, in the order of the
 * set. Iteration stops if `cb` returns false. */
void dgl_plan_alternatives(const struct dgl_model *model, const struct dgl_plan_use *use,
                           bool (*cb)(void *priv, const struct dgl_plan_alternative *alternative),
                           void *priv);
/* A tunable of a step's kernel. Strings are borrowed for the call. */
struct dgl_plan_tunable {
    const char *name;
    int64_t value;
    /* "default" for the kernel's preset, else the source of the value: "tuner", "manifest", a file,
     * a flag */
    const char *origin;
};
/* Calls `cb` for each tunable of the step's kernel, in the order of its file. Iteration stops if
 * `cb` returns false. */
void dgl_plan_tunables(const struct dgl_plan_use *use,
                       bool (*cb)(void *priv, const struct dgl_plan_tunable *tunable), void *priv);
/* Returns the GLSL of a step as passed to the driver. Transfers *text (dgl_free), *len bytes and a
 * NUL. */
enum dgl_status dgl_plan_source(const struct dgl_model *model, const struct dgl_plan_use *use,
                                char **text, size_t *len);

/* ---- sessions -------------------------------------------------------------------------------- */

/* One sequence of tokens with its KV cache. Thread-safety: R4. */
struct dgl_session;

struct dgl_session_params {
    size_t size DGL_SIZED(dgl_session_params);
    int32_t context; /* tokens; 0 = dgl_model_info.context */
    /* prefill tokens per pass; 0 = chosen for the device, with shorter passes on a slow device */
    int32_t chunk;
    const char *chunk_name; /* name of `chunk` in error lines; NULL = "session chunk" */
    /* May be NULL; counts kernels. A call on the session compiles the kernels that it needs before
     * it computes anything. This takes seconds if the cache is empty. progress_cb is called before
     * the first kernel and after each kernel. If it returns false, the call is cancelled and drops
     * the compiled kernels. */
    dgl_progress_cb progress_cb;
    void *progress_priv; /* first argument of progress_cb */
    /* If true, the session shares evaluated prompt prefixes with other such sessions of the model,
     * in pages of 64 tokens. The pages stay after those sessions are destroyed, until they are
     * evicted. Logits then equal those of an unshared session within rounding. */
    bool share_prefix;
};
#define dgl_session_params(...) DGL_PARAMS(dgl_session_params, __VA_ARGS__)

/* Device memory of a model with one session, or with the sequences of a batch. */
struct dgl_memory {
    size_t size DGL_SIZED(dgl_memory);
    uint64_t weight_bytes;
    uint64_t kv_bytes; /* KV cache for a full context; the cache grows with the sessions' tokens */
    uint64_t scratch_bytes;
    uint64_t available_bytes; /* available to this model and session; 0 = unknown */
    int32_t context;          /* the estimate is for this many tokens */
    /* largest context that would fit (of a batch: for each sequence); equals `context` if that fits
     */
    int32_t context_fit;
};
/* Estimates the memory of a session before it is created. Host arithmetic only. */
enum dgl_status dgl_session_estimate(const struct dgl_model *model,
                                     const struct dgl_session_params *params,
                                     struct dgl_memory *out);

/* Creates a session. It allocates scratch and KV cache for a part of the context. The cache grows
 * with the tokens, in pages of 64, and memory for the whole context stays reserved.
 * DGL_ERR_NO_MEMORY: the memory that other sessions use or reserve leaves no room for the whole
 * context; nothing was allocated. The sessions of a model share its cache, which is freed with the
 * last session. The session borrows the model. DGL_ERR_INVALID_ARG: `context` is beyond
 * dgl_model_info.context, or `chunk` is beyond the device's limits. Slow. */
enum dgl_status dgl_session_create(struct dgl_model *model, const struct dgl_session_params *params,
                                   struct dgl_session **out);
/* Creates a session with the tokens of `session` without evaluating them again. Both share the
 * pages of the KV cache; a session that writes to a shared page gets a copy of it. If params is
 * NULL, the parameters of `session` are used. Otherwise the context must have room for the tokens
 * of `session`. A context of 0 means the context of `session`. The sampler and the callbacks are
 * not shared. Must not be called from a callback of a call on `session`. Errors and reserved memory
 * as dgl_session_create(). Slow. */
enum dgl_status dgl_session_clone(struct dgl_session *session,
                                  const struct dgl_session_params *params,
                                  struct dgl_session **out);
/* Frees the session. */
void dgl_session_destroy(struct dgl_session **session);
/* Stops the call in progress: after the kernel that is being compiled, or in the middle of a chunk
 * or token. The session stays consistent. It has no effect if no call is in progress, and
 * does not cancel later calls. Thread-safety: safe on any thread while the session exists,
 * async-signal-safe. */
void dgl_session_cancel(struct dgl_session *session);
/* If true, stops the call in progress as dgl_session_cancel() does, and every later call on the
 * session ends as cancelled before it computes, until the state is taken back with false. So a
 * cancellation that arrives just before a call is not lost. Taking it back does not continue a call
 * that was stopped. Thread-safety: as dgl_session_cancel(). */
void dgl_session_set_cancelled(struct dgl_session *session, bool cancelled);
/* Returns the number of evaluated tokens in the session. */
int32_t dgl_session_len(const struct dgl_session *session);
/* How prompts are split into passes. On a GPU the first token of a large model is evaluated and
 * timed alone. If one dispatch of a pass of `most` tokens could take much more than 100 ms, passes
 * become shorter and are timed again, because watchdogs reset devices that are busy for longer.
 * Tokens stay the same; logits stay the same within rounding. Passes have a fixed length if the
 * caller set `chunk`, and on software renderers, which have no watchdog. */
struct dgl_pass_info {
    size_t size DGL_SIZED(dgl_pass_info);
    int32_t most;   /* maximum tokens of a pass, as requested or as chosen for the device */
    int32_t tokens; /* maximum tokens of the next pass; lower on a slow device */
    /* Tokens of the last timed pass of any session of the model; 0 = no pass was timed. */
    int32_t timed_tokens;
    uint64_t layer_ns; /* time of one layer of that pass, an upper bound for its dispatches */
    /* Estimated time of the head, the largest dispatch of a decode step; 0 = unknown. */
    uint64_t head_ns;
};
/* Copies the state after the session's last call to *out. */
enum dgl_status dgl_session_passes(const struct dgl_session *session, struct dgl_pass_info *out);
/* Keeps the first `len` tokens. Has no effect if the session has fewer. */
void dgl_session_trim(struct dgl_session *session, int32_t len);

/* Changes the session's tokens to ids[0..count). The common prefix is reused; the rest is evaluated
 * in chunks. *reused (`reused` may be NULL) is the length of that prefix. DGL_ERR_INVALID_ARG: no
 * ids, more ids than the context has room for, or an id outside the vocabulary. DGL_ERR_CANCELLED.
 * On error the session contains a prefix of ids. Does not wait for the last chunk. */
enum dgl_status dgl_session_sync(struct dgl_session *session, const int32_t *ids, size_t count,
                                 size_t *reused);

/* Returns the ids of the session's tokens, [dgl_session_len()]. Borrowed until the session's next
 * call. */
const int32_t *dgl_session_ids(const struct dgl_session *session);

/* Maximum of dgl_session_save_params.data_len, 256 MiB. */
#define DGL_SESSION_DATA_MAX 268435456

struct dgl_session_save_params {
    size_t size DGL_SIZED(dgl_session_save_params);
    const char *path; /* required: the file to write, or to replace */
    const char *data; /* [data_len], any data of the caller; dgl_session_load() returns it */
    size_t data_len;  /* bytes, at most DGL_SESSION_DATA_MAX */
    dgl_progress_cb progress_cb; /* may be NULL; in bytes */
    void *progress_priv;         /* first argument of progress_cb */
};
#define dgl_session_save_params(...) DGL_PARAMS(dgl_session_save_params, __VA_ARGS__)
/* Writes a session to a file (docs/formats.md, "Session files"): ids, keys and values, and the
 * logits of the last token if they are available. The file is private (mode 0600) and appears
 * complete or not at all. Each token uses 4 bytes plus its part of the KV cache: 2 * layers *
 * kv_heads * head_dim numbers, windowed layers included. Sampler state is not needed: random
 * numbers depend only on the seed and dgl_sampling.draws, and penalties only on the ids.
 * Removes temporary files of killed processes in that folder.
 * DGL_ERR_GPU: a key, value or logit is not finite; an existing file is kept. DGL_ERR_IO: errors of
 * the disk. DGL_ERR_INVALID_ARG: no path, or too much data. DGL_ERR_CANCELLED. The session is not
 * changed. Blocks. Slow: about as long as writing the file.
 */
enum dgl_status dgl_session_save(struct dgl_session *session,
                                 const struct dgl_session_save_params *params);

struct dgl_session_load_params {
    size_t size DGL_SIZED(dgl_session_load_params);
    const char *path;            /* required */
    dgl_progress_cb progress_cb; /* may be NULL; in bytes */
    void *progress_priv;         /* first argument of progress_cb */
};
#define dgl_session_load_params(...) DGL_PARAMS(dgl_session_load_params, __VA_ARGS__)
/* Replaces the session's state by that of a file. The session then continues like the saved one,
 * with the same tokens on the same device and kernels. The file may come from another device,
 * process or context.
 *
 * DGL_ERR_INVALID_ARG names a difference: the model (its description and a sample of its weights),
 * the tokenizer, the type of the KV cache and the precision of kernels must match.
 * DGL_ERR_CONTEXT_FULL: the file has more tokens than the context. DGL_ERR_FORMAT: not a session
 * file, or truncated. DGL_ERR_UNSUPPORTED: another version or byte order. After these errors, and
 * DGL_ERR_IO while opening, the session is unchanged. DGL_ERR_INTEGRITY: the file is damaged.
 * DGL_ERR_CANCELLED. After these and any other error the session is empty.
 *
 * Transfers *data (dgl_free), the saved data of *data_len bytes and a NUL; NULL after a failure.
 * `data` and `data_len` may both be NULL if the data is not wanted. Blocks. Slow: about as long as
 * reading the file. */
enum dgl_status dgl_session_load(struct dgl_session *session,
                                 const struct dgl_session_load_params *params, char **data,
                                 size_t *data_len);

struct dgl_eval_params {
    size_t size DGL_SIZED(dgl_eval_params);
    /* [num_ids], appended to the session's tokens. If there are no ids, the results are those of
     * the last token. After dgl_session_sync() its logits only need a readback; otherwise it is
     * evaluated again. */
    const int32_t *ids;
    size_t num_ids; /* tokens */
    bool all;       /* one row of results per id; false = only for the last id */
};
#define dgl_eval_params(...) DGL_PARAMS(dgl_eval_params, __VA_ARGS__)
/* Appends tokens to the session and evaluates them, for the caller's own sampler, classifier or
 * search. The caller provides `logits`, float [rows, vocab], and `hidden`, float [rows, hidden];
 * rows is num_ids if `all` is set and 1 otherwise. NULL = not wanted. If both are NULL, tokens are
 * only appended. Hidden states are those after the final norm, like `last_hidden_state` of
 * transformers. DGL_ERR_CONTEXT_FULL: the context has no room for all ids; no token was evaluated.
 * DGL_ERR_INVALID_ARG: an id outside the vocabulary, or no ids and an empty session.
 * DGL_ERR_CANCELLED. After any other error or a cancellation the session contains a prefix of the
 * sequence, and the results are undefined. Blocks. One token costs one pass through the model and
 * one readback; several ids cost one pass per chunk. */
enum dgl_status dgl_session_eval(struct dgl_session *session, const struct dgl_eval_params *params,
                                 float *logits, float *hidden);

/* A number to add to the logit of a token. */
struct dgl_logit_bias {
    int32_t id;
    float bias; /* -INFINITY: the token is chosen only if no other token can be; must not be NaN */
};
/* Most entries of dgl_sampling.logit_bias. */
#define DGL_LOGIT_BIAS_MAX 1024
/* Most texts of dgl_sampling.dry_breakers. Each is searched in every token of the vocabulary. */
#define DGL_DRY_BREAKERS_MAX 64
/* Value of dgl_sampling.top_p, typical_p and xtc_threshold that acts as a probability of 0. There,
 * 0 itself selects the default. With this top_p, only the best token is kept: the choice is
 * greedy. */
#define DGL_PROBABILITY_ZERO 1e-30f

/* Sampling parameters, applied in this order: logit bias, penalties (repetition, presence,
 * frequency), DRY, top-n sigma, top-k, typical, top-p, min-p, XTC, temperature, draw. Greedy choice
 * also follows the penalties, typical and XTC. Top-n sigma, typical, XTC and min_tokens need a few
 * more passes over the logits. A window is the last tokens of the session, prompt included; its
 * cost grows with it. Sampling runs on the device; docs/formats.md has the arithmetic and the
 * random generator. Arrays and texts are borrowed like other parameters (R2). */
struct dgl_sampling {
    float temperature; /* 0 = greedy; at most 1000 */
    int32_t top_k;     /* most likely tokens to keep, at most 128; 0 or -1 = off */
    /* total probability of the tokens to keep; 0, 1 = off; DGL_PROBABILITY_ZERO = the best only */
    float top_p;
    float min_p; /* minimum probability, relative to the largest; 0 = off */
    /* Keeps tokens whose logit is within this many standard deviations of the best one; the
     * deviation is that of all logits. At most 1000; 0 or less = off. */
    float top_n_sigma;
    /* Keeps the tokens whose information is nearest to the entropy, up to this total probability.
     * 0 or 1 = off; DGL_PROBABILITY_ZERO = one token */
    float typical_p;
    /* Exclude top choices (XTC): with this probability, removes all tokens of at least the
     * threshold's probability, except the least likely of them. 0 = off */
    float xtc_probability;
    float xtc_threshold;  /* 0 = 0.1; above 0.5 = off */
    int32_t min_tokens;   /* stop ids are not chosen for the first so many tokens; 0 = off */
    float repeat_penalty; /* divides positive logits, multiplies others; 0.01 to 100; 0, 1 = off */
    float presence_penalty; /* subtracted from the logit of each token in the window; -100 to 100 */
    float frequency_penalty; /* subtracted once per occurrence in the window; -100 to 100 */
    /* window of these three penalties, tokens; 0 = off, -1 = the whole context */
    int32_t repeat_last_n;
    /* DRY subtracts multiplier * base^(length - allowed length) from the logit of a token that
     * would extend a repetition of at least the allowed length. The exponent is at most 1,024. */
    float dry_multiplier;       /* 0 = off; at most 100 */
    float dry_base;             /* 1 to 100; 0 = 1.75 */
    int32_t dry_allowed_length; /* tokens; 0 = 2 */
    int32_t dry_penalty_last_n; /* window of DRY, tokens; 0 = off, -1 = the whole context */
    /* [num_dry_breakers], at most DGL_DRY_BREAKERS_MAX texts of 1 to 40 bytes that end a
     * repetition. NULL = newline, colon, quotation mark and asterisk, if the model has a tokenizer.
     * If they differ from those of the session's last call, the text of every token is searched for
     * them, which costs milliseconds. */
    const char *const *dry_breakers;
    size_t num_dry_breakers;
    /* [num_logit_bias]; entries with the same id are added */
    const struct dgl_logit_bias *logit_bias;
    size_t num_logit_bias;
    uint64_t seed; /* equal seeds give equal answers */
    /* Number of random draws to skip. Set it to continue an answer of an earlier call with the
     * random numbers that the earlier call would have used next. By default 0. */
    uint32_t draws;
    uint64_t reserved[16]; /* R2 */
};
/* Checks the ranges like dgl_generate(), without a device. DGL_ERR_INVALID_ARG names the field. */
enum dgl_status dgl_sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling);

/* Copies the values of the model's generation_config.json, or of the keys general.sampling.* of a
 * GGUF file, to *sampling: do_sample, temperature, top_k, top_p, min_p, typical_p,
 * repetition_penalty, and the fields xtc_probability, xtc_threshold and repeat_last_n of
 * llama-server. Fields that the file does not set, or all fields if there is no file, are
 * unchanged. A DGL_LOG_NOTICE line lists the values. A top_k above 128 becomes 128, with a warning;
 * a top_p of 0 becomes DGL_PROBABILITY_ZERO. DGL_ERR_FORMAT names a field with the wrong type or a
 * value out of range. */
enum dgl_status dgl_model_sampling(const struct dgl_model *model, struct dgl_sampling *sampling);

/* Why a generation ended. */
enum dgl_finish {
    DGL_FINISH_EOS,      /* a stop id */
    DGL_FINISH_STOP,     /* a stop string, or an id of `stop_ids` */
    DGL_FINISH_LENGTH,   /* max_tokens */
    DGL_FINISH_CONTEXT,  /* the session's context is full */
    DGL_FINISH_CANCELLED /* dgl_session_cancel(), or a callback that returned false */
};
/* "eos", "stop", "length", "context", "cancelled". Static. */
const char *dgl_finish_str(enum dgl_finish finish);

/* Default of dgl_generate_params.readback_interval on a hardware device (1 on software renderers),
 * and its maximum. */
#define DGL_READBACK_INTERVAL     8
#define DGL_READBACK_INTERVAL_MAX 256

/* Value of dgl_generate_params.max_tokens that evaluates the prompt and samples no token. */
#define DGL_TOKENS_NONE (-2)

/* Sums over all timed dispatches of one operation with one kernel in one phase. Strings are
 * borrowed from the model until its kernels are replaced. */
struct dgl_profile_entry {
    const char *op;
    const char *kernel;
    enum dgl_phase phase; /* DGL_PHASE_PREFILL: up to the first token */
    uint64_t calls;       /* dispatches */
    uint64_t gpu_ns;      /* without the cost of the timers; 0 if `timed` is false */
    uint64_t bytes;       /* bytes of weights, cached keys and cached values that were read */
    bool timed;
};
/* Host time of one decode step, in four consecutive parts. The sum over all steps is the decode
 * time. */
struct dgl_profile_step {
    uint64_t host_ns; /* time since the previous step: text, stop strings, the caller's callbacks */
    /* Queueing the dispatches, while the GPU may already work. It includes the cost of timers. A
     * software renderer without timers does all its work in this time. */
    uint64_t record_ns;
    uint64_t gpu_ns; /* from then until the GPU finished; 0 = the device cannot measure it */
    /* copying the token to the host; includes the wait for the GPU if gpu_ns is 0 */
    uint64_t readback_ns;
    /* True if each operation was timed. Timers prevent dispatches from overlapping, so such a step
     * is slower. Every second step is timed, if the device has timers. */
    bool timed;
};
/* Profile of a call. A call that profiles reads each token back before it queues the next step.
 * Owned by the result that contains it. */
struct dgl_profile {
    struct dgl_profile_entry *entries; /* [num_entries], in the order of their first dispatch */
    size_t num_entries;
    struct dgl_profile_step *steps; /* [num_steps], one per decoded token (of each sequence) */
    size_t num_steps;
    /* rate of a plain copy on this device, read plus written, 10^9 bytes per second */
    double copy_gbps;
    /* cost of a timer, subtracted from each dispatch; 0 = no cost or no timers */
    uint64_t timer_ns;
    uint64_t reserved[4]; /* R2 */
};

/* ---- constraints of answers ---- */

enum dgl_constraint_kind {
    DGL_CONSTRAINT_GRAMMAR, /* GBNF as llama.cpp writes it; the answer matches the rule `root` */
    DGL_CONSTRAINT_REGEX,   /* ECMA-262, as in JSON Schema; the whole answer matches */
    DGL_CONSTRAINT_JSON_SCHEMA, /* docs/structured.md lists the keywords */
    /* calls of tools in the format of `tmpl`; the text is a list like OpenAI's `tools` */
    DGL_CONSTRAINT_CALLS,
};
struct dgl_constraint_params {
    size_t size DGL_SIZED(dgl_constraint_params);
    enum dgl_constraint_kind kind;
    const char *text; /* required */
    size_t len;       /* bytes; 0 = strlen(text) */
    bool compact;     /* JSON Schema: no white space between the parts of the JSON text */
    const char *name; /* of the text, for messages; NULL = its kind */
    /* Template of the chat that the answer belongs to, or NULL. If its models reason first, the
     * answer may begin with reasoning. Borrowed for the call, like all other fields. */
    const struct dgl_template *tmpl;
    const char *prompt_end; /* as in dgl_reply_params */
    const char *function;   /* for calls: the only tool that may be called; NULL = any */
    bool several;           /* for calls: several may follow each other */
    bool strict;            /* JSON Schema: OpenAI's rules of strict schemas apply, too */
    /* With `tmpl` and another kind than calls: the answer may instead be calls of these tools, a
     * list like OpenAI's `tools`; NULL = it may not */
    const char *tools;
    const struct dgl_log *log; /* for messages; NULL = that of the model */
};
#define dgl_constraint_params(...) DGL_PARAMS(dgl_constraint_params, __VA_ARGS__)
struct dgl_constraint;
/* Compiles a constraint for the vocabulary of the model. The model keeps the last constraints, so
 * that the same text is compiled once. DGL_ERR_INVALID_ARG: malformed text; the message has the
 * line, the column or the JSON pointer. DGL_ERR_UNSUPPORTED: parts that are not supported, or a
 * model without a tokenizer. Uses no device. The first call for a model reads its vocabulary, which
 * takes about 0.1 s for 128,000 tokens. Most texts take milliseconds, and some of many rules a
 * second. Thread-safety: any thread while the model exists. */
enum dgl_status dgl_constraint_create(struct dgl_model *model,
                                      const struct dgl_constraint_params *params,
                                      struct dgl_constraint **out);
/* Destroy constraints before their model. An answer keeps its constraint until it has ended.
 * Accepts NULL in *constraint. Thread-safety: any thread. */
void dgl_constraint_destroy(struct dgl_constraint **constraint);

struct dgl_generate_params {
    size_t size DGL_SIZED(dgl_generate_params);
    const char *prompt;    /* text, or ids below: exactly one of them is required */
    size_t prompt_len;     /* bytes; 0 = strlen(prompt) */
    const int32_t *ids;    /* [num_ids] */
    size_t num_ids;        /* tokens */
    bool no_parse_special; /* see dgl_encode_params */
    /* maximum tokens of the answer; 0 or -1 = until a stop or the end of the context; or
     * DGL_TOKENS_NONE */
    int32_t max_tokens;
    struct dgl_sampling sampling;
    /* [num_stop], strings that end the answer; not part of the text. A string that is the spelling
     * of a special token also ends the answer at that token, which has no text. */
    const char *const *stop;
    size_t num_stop;
    const int32_t
        *stop_ids; /* [num_stop_ids], tokens that end the answer like a string of `stop` */
    size_t num_stop_ids;
    bool ignore_eos;      /* the model's stop ids do not end the answer */
    const int32_t *shown; /* [num_shown], special tokens; the answer's text contains their text */
    size_t num_shown;     /* other special tokens have no text */
    int32_t readback_interval; /* tokens decoded per readback; 0 = chosen for the device */
    /* If true, a full context does not end the answer. Half of the tokens after the first `keep`
     * are dropped. The tokens after them are evaluated again at their new positions, which is as
     * slow as a prompt of that length. The prompt must fit. */
    bool context_shift;
    int32_t keep; /* prompt tokens to keep at a shift, at most half of the context */
    /* Fill dgl_generate_result.profile. The tokens are the same, but the call is slower. A copy of
     * up to 256 MiB is measured first. */
    bool profile;
    /* Receives the answer's text while it is generated, in whole characters, borrowed for the call.
     * Return false to cancel. */
    bool (*text_cb)(void *priv, const char *text, size_t len);
    /* Receives each sampled id before its text. Return false to cancel. */
    bool (*token_cb)(void *priv, int32_t id);
    void *priv; /* first argument of both callbacks */
    /* The whole answer matches it, or NULL. It was created for the same model. The answer ends when
     * no text may follow. If it ends otherwise, for example at max_tokens, it is the beginning of a
     * matching text. Each token costs a readback. Not with ignore_eos or context_shift. */
    const struct dgl_constraint *constraint;
};
#define dgl_generate_params(...) DGL_PARAMS(dgl_generate_params, __VA_ARGS__)

/* Result of a generation. Arrays and text are owned by the result: dgl_generate_result_finish(). */
struct dgl_generate_result {
    size_t size DGL_SIZED(dgl_generate_result);
    enum dgl_finish finish;
    int32_t *prompt_ids; /* [num_prompt_ids] */
    int32_t *tokens;     /* [num_tokens], sampled; the stop id that ended the answer is one */
    size_t num_prompt_ids;
    size_t num_tokens;
    size_t num_reused;  /* prompt tokens that the session already contained */
    size_t num_shifted; /* tokens that context_shift dropped */
    /* without the prompt, the stop string and special tokens that are not in `shown`; invalid UTF-8
     * is replaced by U+FFFD; NUL-terminated */
    char *text;
    size_t text_len; /* bytes */
    /* time of compiling kernels and executor trials; not part of the three times below */
    uint64_t compile_ns;
    uint64_t prefill_ns;     /* evaluating the prompt */
    uint64_t first_token_ns; /* from the start of prefill to the first token on the host */
    uint64_t decode_ns;      /* all tokens after the first */
    uint64_t record_ns;      /* host time for queueing steps, a part of decode_ns */
    /* from the start, with compilation, to the first token's readback */
    struct dgl_counters prefill;
    struct dgl_counters decode; /* after the first token */
    struct dgl_profile profile; /* empty unless asked for */
};
/* Evaluates a prompt and samples tokens until the answer ends. Returns DGL_OK also if the call was
 * cancelled; see `finish`. DGL_ERR_INVALID_ARG: invalid parameters, or a prompt that does not fit
 * the session. *out is always initialised; dgl_generate_result_finish() releases it, also after a
 * failure; the session then contains the tokens that were evaluated. After DGL_ERR_DEVICE_LOST the
 * result contains the tokens and the text so far. Blocks. */
enum dgl_status dgl_generate(struct dgl_session *session, const struct dgl_generate_params *params,
                             struct dgl_generate_result *out);
/* Frees the arrays and the text of a result and zeroes it. */
void dgl_generate_result_finish(struct dgl_generate_result *result);

/* ---- conversations --------------------------------------------------------------------------- */

/* A conversation: messages over a session. Answers are also stored as generated ids, so an answer
 * evaluates only the tokens that the session does not contain yet. Thread-safety: R4, together with
 * its session. */
struct dgl_chat;

struct dgl_chat_params {
    size_t size DGL_SIZED(dgl_chat_params);
    struct dgl_session *session;     /* required, borrowed by the conversation */
    const struct dgl_template *tmpl; /* required, borrowed by the conversation */
    /* If true, a conversation may outgrow the context: the oldest messages after the system message
     * are then left out of the model's input, half of the context at a time. An answer that fills
     * the context continues as with dgl_generate_params.context_shift. The conversation keeps all
     * messages. */
    bool context_shift;
};
#define dgl_chat_params(...) DGL_PARAMS(dgl_chat_params, __VA_ARGS__)

/* A message. Borrowed from the conversation until its messages change. */
struct dgl_message {
    size_t size DGL_SIZED(dgl_message);
    const char *role;    /* "system", "user", "assistant", "tool", ... */
    const char *content; /* NUL-terminated; "" if the content is not text */
    size_t content_len;  /* bytes */
    const int32_t *ids;  /* [num_ids], generated ids of an answer, without the id that ended it */
    size_t num_ids;      /* 0 = no ids are stored */
};

/* Creates an empty conversation. DGL_ERR_INVALID_ARG: session or template missing, or a model
 * without a tokenizer. */
enum dgl_status dgl_chat_create(const struct dgl_chat_params *params, struct dgl_chat **out);
/* Frees the conversation. Call it before freeing its session and template. */
void dgl_chat_destroy(struct dgl_chat **chat);
/* Appends a message without evaluating it. DGL_ERR_INVALID_ARG: no role, or not UTF-8. */
enum dgl_status dgl_chat_add(struct dgl_chat *chat, const char *role, const char *text, size_t len);
/* Sets the system message, which is always the first message. NULL as `text` removes it.
 * DGL_ERR_INVALID_ARG: not UTF-8. */
enum dgl_status dgl_chat_set_system(struct dgl_chat *chat, const char *text, size_t len);
/* Number of messages. */
size_t dgl_chat_num_messages(const struct dgl_chat *chat);
/* Copies message `index`, below dgl_chat_num_messages(), to *out. */
enum dgl_status dgl_chat_message(const struct dgl_chat *chat, size_t index,
                                 struct dgl_message *out);
/* Returns the number of messages after the system message that context_shift leaves out of the
 * model's input. */
size_t dgl_chat_num_hidden(const struct dgl_chat *chat);
/* Keeps the first `count` messages. Does nothing if there are fewer. */
void dgl_chat_trim(struct dgl_chat *chat, size_t count);
/* Removes all messages except the system message. */
void dgl_chat_reset(struct dgl_chat *chat);
/* Removes the last user message and all messages after it. Returns the number of removed messages.
 */
size_t dgl_chat_undo(struct dgl_chat *chat);
/* Removes the messages after the last user message, so that dgl_chat_answer() generates another
 * answer. Returns false and changes nothing if there is no user message. */
bool dgl_chat_retry(struct dgl_chat *chat);
/* Returns true if the last message is neither from the assistant nor from the system. */
bool dgl_chat_is_open(const struct dgl_chat *chat);

/* Renders the messages with the template, evaluates the tokens that the session does not contain,
 * and generates an answer. It calls dgl_generate() with `params` (NULL = defaults); the
 * conversation sets prompt, context_shift and keep. An answer of at least one token is added as a
 * message, also if it was cancelled. DGL_ERR_CONTEXT_FULL: the messages do not fit; remove some.
 * Other errors as dgl_render_ids() and dgl_generate(). *out is always initialised;
 * dgl_generate_result_finish() releases it; the call blocks. */
enum dgl_status dgl_chat_answer(struct dgl_chat *chat, const struct dgl_generate_params *params,
                                struct dgl_generate_result *out);

/* Writes the conversation as JSON text: an object with `messages`, `answers` (generated ids) and
 * the variables loaded by dgl_chat_load(). Transfers *json (dgl_free), *len bytes and a NUL. */
enum dgl_status dgl_chat_save(const struct dgl_chat *chat, char **json, size_t *len);
/* Replaces the conversation by JSON text of `len` bytes: an array of messages, or an object with
 * `messages` and further variables for the template. The ids of an answer are kept if this model's
 * tokenizer decodes them to its text. `name` is used in log lines, usually the path of a file; NULL
 * = "messages". DGL_ERR_FORMAT: malformed text. On failure the conversation is unchanged. */
enum dgl_status dgl_chat_load(struct dgl_chat *chat, const char *name, const char *json,
                              size_t len);

/* ---- batches --------------------------------------------------------------------------------- */

/* Many requests on one model. Each request has a separate sequence and gets the tokens that it
 * would get alone (see `invariant`). dgl_batch_step() advances all of them. Thread-safety: R4,
 * together with its model, except for dgl_batch_submit(), dgl_batch_cancel() and dgl_batch_wake().
 */
struct dgl_batch;

struct dgl_batch_params {
    size_t size DGL_SIZED(dgl_batch_params);
    int32_t sequences; /* requests that run at once; 0 = 4, at most 256 */
    int32_t queue;     /* requests that wait for a free sequence; 0 = 256, at most 65536 */
    /* Tokens of a sequence. 0 = dgl_model_info.context, lowered until one such sequence fits the
     * device; a DGL_LOG_NOTICE line reports a lower value. */
    int32_t context;
    /* Tokens of the KV cache shared by all sequences, in pages of 64. 0 = the sum of all contexts,
     * or as many as fit. A request starts if the cache has room for its expected length and the
     * expected lengths of the running requests. The expected length is max_tokens if ignore_eos is
     * set, and otherwise an average of recent answers. If pages still run out, the newest request
     * releases its pages, waits, and is evaluated again. */
    int32_t cache_tokens;
    int32_t chunk;          /* prompt tokens per step; 0 = chosen for the device, as in sessions */
    const char *chunk_name; /* name of `chunk` in error lines; NULL = "session chunk" */
    /* If true, results do not depend on other requests, bit for bit. Each answer is computed in
     * separate passes, which read the weights once per request. No prompt prefix is shared, and
     * each sequence reserves the KV cache of its whole context. If false, one pass computes a token
     * of every answer. Sums then have another order: if two tokens are almost equally likely (0.02
     * in logits), the result may differ from that of a request alone. */
    bool invariant;
    /* may be NULL; counts kernels, as dgl_session_params.progress_cb */
    dgl_progress_cb progress_cb;
    void *progress_priv; /* first argument of progress_cb */
    /* Milliseconds for which one prompt pass may delay the answers in progress; 0 = 100, at most
     * 60000. The lengths of prompt passes are reduced to meet it, by the times of earlier passes,
     * down to 16 tokens; shorter passes are not faster. The first pass may exceed the limit and is
     * measured. Passes have their full length if `chunk` or `invariant` is set. They also have it
     * if no answer is in progress; the device then has at most two passes to do. */
    int32_t hold_ms;
};
#define dgl_batch_params(...) DGL_PARAMS(dgl_batch_params, __VA_ARGS__)

/* Allocates the memory of all sequences, except cache pages, which are allocated with their tokens.
 * Requests share the pages of common prefixes. The batch borrows the model. DGL_ERR_NO_MEMORY: the
 * sequences leave no room for one context; nothing was allocated. DGL_ERR_INVALID_ARG: a number
 * out of its range, or a context or chunk that dgl_session_create() refuses. Slow. */
enum dgl_status dgl_batch_create(struct dgl_model *model, const struct dgl_batch_params *params,
                                 struct dgl_batch **out);
/* Frees the batch and drops unfinished requests without calling their callbacks. Must not be called
 * from a callback. */
void dgl_batch_destroy(struct dgl_batch **batch);

/* Maximum of dgl_request_params.top_logprobs. */
#define DGL_TOP_LOGPROBS_MAX 20

/* A possible token and its log probability. */
struct dgl_choice {
    int32_t id;
    float logprob; /* log of the softmax over the model's unmodified logits */
};
/* A sampled token. Borrowed for the call. */
struct dgl_token {
    struct dgl_choice chosen;     /* its logprob is 0 without dgl_request_params.logprobs */
    const struct dgl_choice *top; /* [num_top], most likely first */
    size_t num_top;
};

/* Result of a request. Borrowed for the call. */
struct dgl_request_result {
    uint64_t id;
    /* DGL_OK also if the request was cancelled. Otherwise the error, which the log explains; the
     * result then contains the tokens so far. */
    enum dgl_status status;
    enum dgl_finish finish;
    size_t num_prompt_ids;
    size_t num_reused;     /* prompt tokens reused from an earlier request */
    const int32_t *tokens; /* [num_tokens], sampled; the stop id that ended the answer is one */
    size_t num_tokens;
    const char *text;        /* as dgl_generate_result.text; "" if status is not DGL_OK */
    size_t text_len;         /* bytes */
    uint64_t wait_ns;        /* from dgl_batch_submit() until the request started */
    uint64_t first_token_ns; /* from the start to the first token on the host; 0 = no token */
    uint64_t decode_ns;      /* from the first token to the end */
};

/* A request. dgl_batch_submit() copies everything except the object at `priv`. */
struct dgl_request_params {
    size_t size DGL_SIZED(dgl_request_params);
    const char *prompt;    /* text, or ids below: exactly one of them is required */
    size_t prompt_len;     /* bytes; 0 = strlen(prompt) */
    const int32_t *ids;    /* [num_ids] */
    size_t num_ids;        /* tokens */
    bool no_parse_special; /* see dgl_encode_params */
    int32_t max_tokens;    /* as in dgl_generate_params */
    /* Requests share the KV cache of equal beginnings of their prompts only if their scopes are
     * equal. Use a scope per user if the time of a request must not reveal the prompts of others.
     * Sessions are in scope 0. */
    uint64_t prefix_scope;
    struct dgl_sampling sampling;
    const char *const *stop; /* [num_stop], as in dgl_generate_params */
    size_t num_stop;
    const int32_t *stop_ids; /* [num_stop_ids], as in dgl_generate_params */
    size_t num_stop_ids;
    bool ignore_eos;      /* the model's stop ids do not end the answer */
    const int32_t *shown; /* as in dgl_generate_params */
    size_t num_shown;
    bool
        no_reuse; /* evaluate the whole prompt, also the part that the batch has evaluated before */
    /* If true, token_cb receives log probabilities. Each token then costs a readback of all logits
     * and is computed in a separate pass. */
    bool logprobs;
    int32_t
        top_logprobs; /* with logprobs: entries of dgl_token.top; at most DGL_TOP_LOGPROBS_MAX */
    /* Callbacks, called on the thread that calls dgl_batch_step(). Each may be NULL. They may call
     * dgl_batch_submit(), dgl_batch_cancel() and dgl_model_set_kernels(). */
    bool (*token_cb)(void *priv, const struct dgl_token *token); /* return false to cancel */
    /* Receives the answer's text in whole characters, after token_cb. Return false to cancel. */
    bool (*text_cb)(void *priv, const char *text, size_t len);
    /* Called once, as the last callback, also if the request is cancelled while it waits. */
    void (*finish_cb)(void *priv, const struct dgl_request_result *result);
    void *priv;                              /* first argument of the three callbacks */
    const struct dgl_constraint *constraint; /* as in dgl_generate_params */
};
#define dgl_request_params(...) DGL_PARAMS(dgl_request_params, __VA_ARGS__)

/* Appends a request to the queue. *id (may be NULL) identifies it; ids are never 0 and never
 * reused. Computes no tokens. DGL_ERR_INVALID_ARG: parameters that dgl_generate() refuses, or a
 * prompt that is too long for any sequence; the error has both numbers. DGL_ERR_BUSY: the queue is
 * full. Thread-safety: any thread while the batch exists. The request is taken up when the next
 * step begins. `log` of the device may be called on the submitting thread. */
enum dgl_status dgl_batch_submit(struct dgl_batch *batch, const struct dgl_request_params *params,
                                 uint64_t *id);
/* Ends a request with DGL_FINISH_CANCELLED. A step in progress stops its work for the request in
 * the middle of a pass; this or the next step calls its finish_cb. Does nothing for an id that has
 * ended or is unknown. Thread-safety: any thread while the batch exists; not in a signal handler.
 */
void dgl_batch_cancel(struct dgl_batch *batch, uint64_t id);
/* Advances every running request by a few tokens, and evaluates one pass of one prompt; prompts
 * take turns. If a request ends, the oldest waiting request starts. *left (may be NULL) is the
 * number of unfinished requests; if it is 0, no work is left. An error that concerns one request
 * ends only that request. An error of this call concerns the device: DGL_ERR_DEVICE_LOST until
 * dgl_model_rebuild(), after which all requests continue. DGL_ERR_INVALID_ARG: called from a
 * callback. Blocks.
 *
 * A kind of request is its sampler, its penalties, logprobs and the passes of its prompt. After a
 * kind has run in one sequence, and several requests have run together, later requests of that kind
 * compile nothing and allocate no memory on device or host. Exceptions: the KV cache grows, another
 * executor is tried (dgl_model_executor()), a sequence reaches a length at which the model changes
 * its rotary frequencies, an answer has more than eight bytes of text per token, or DRY has
 * sequence breakers that no sequence used last. Memory of a single request is allocated by
 * dgl_batch_submit(). */
enum dgl_status dgl_batch_step(struct dgl_batch *batch, size_t *left);
/* Sleeps until the batch has an unfinished request, at most `timeout_ns`; 0 means no limit. Returns
 * at once if it has one, and also after dgl_batch_wake(). *left (may be NULL) is as in
 * dgl_batch_step(). Call it on the thread that steps, if a step left no requests. */
enum dgl_status dgl_batch_wait(struct dgl_batch *batch, uint64_t timeout_ns, size_t *left);
/* Ends the dgl_batch_wait() in progress, or the next one, for example to end the thread that steps.
 * Thread-safety: any thread while the batch exists; not in a signal handler. */
void dgl_batch_wake(struct dgl_batch *batch);

/* State of a batch, and its work since it was created. */
struct dgl_batch_info {
    size_t size DGL_SIZED(dgl_batch_info);
    int32_t sequences, queue, context; /* as in use, after defaults and limits */
    size_t running, waiting;           /* current numbers of requests */
    uint32_t pages, pages_used;        /* pages of the KV cache: for all sequences, and in use */
    uint64_t preempted;   /* times that a request released its pages and waited again */
    uint64_t cache_bytes; /* current size of the model's KV cache on the device; it grows */
    /* numbers of requests; failed: status is not DGL_OK */
    uint64_t submitted, finished, cancelled, failed;
    uint64_t prompt_tokens, reused_tokens, decoded_tokens; /* sums over all requests so far */
};
/* To *out. */
enum dgl_status dgl_batch_get_info(const struct dgl_batch *batch, struct dgl_batch_info *out);

/* ---- scores ---------------------------------------------------------------------------------- */

struct dgl_logits_params {
    size_t size DGL_SIZED(dgl_logits_params);
    const int32_t *ids; /* required, [num_ids] */
    size_t num_ids;     /* tokens */
    bool all;           /* every position; false = the last one */
};
#define dgl_logits_params(...) DGL_PARAMS(dgl_logits_params, __VA_ARGS__)
/* Computes the logits of a prompt. Transfers *logits (dgl_free), float [*rows, vocab]; *rows is
 * num_ids if `all` is set and 1 otherwise. Resets the session. DGL_ERR_INVALID_ARG as
 * dgl_session_sync(). Blocks and reads back all rows. */
enum dgl_status dgl_logits(struct dgl_session *session, const struct dgl_logits_params *params,
                           float **logits, size_t *rows);

struct dgl_embed_params {
    size_t size DGL_SIZED(dgl_embed_params);
    const char *prompt;    /* text, or ids below: exactly one of them is required */
    size_t prompt_len;     /* bytes; 0 = strlen(prompt) */
    const int32_t *ids;    /* [num_ids] */
    size_t num_ids;        /* tokens */
    bool no_parse_special; /* see dgl_encode_params */
    enum dgl_pooling pooling;
    /* Scale each row to length 1. With DGL_POOLING_MODEL, rows are also scaled if the model's files
     * say so. */
    bool normalize;
    /* Values of a row, the first ones of the hidden state; 0 = all. Rows are scaled afterwards. */
    int32_t dimensions;
};
#define dgl_embed_params(...) DGL_PARAMS(dgl_embed_params, __VA_ARGS__)
/* Computes embeddings of a prompt: its hidden states after the final norm, pooled. Text is encoded
 * with add_special. Transfers *embeddings (dgl_free), float [*rows, dimensions]; *rows is the
 * number of tokens for DGL_POOLING_NONE and 1 otherwise. Resets the session. DGL_ERR_INVALID_ARG as
 * dgl_generate(); DGL_ERR_UNSUPPORTED: DGL_POOLING_MODEL, but info.pooling_fault is set;
 * DGL_ERR_CANCELLED. Blocks. Computes no logits. */
enum dgl_status dgl_embed(struct dgl_session *session, const struct dgl_embed_params *params,
                          float **embeddings, size_t *rows);

struct dgl_perplexity_params {
    size_t size DGL_SIZED(dgl_perplexity_params);
    const char *const *texts; /* required, [num_texts] */
    const size_t *lens;       /* [num_texts], bytes; NULL = strlen */
    size_t num_texts;
    const char *source;    /* prefix of text names in log lines: "FILE: text 3"; NULL = "text 3" */
    bool no_parse_special; /* see dgl_encode_params */
    /* If true, a text longer than the context is evaluated in windows of the context's length, each
     * `stride` tokens after the previous one. Each window scores only the tokens that the previous
     * windows did not reach. If the tokenizer starts texts with a special token (BOS), that token
     * replaces the first token of every window. */
    bool windows;
    int32_t stride; /* with windows: 1 to context - 1; 0 = half the context */
    /* may be NULL; counts "windows" if `windows` is set and there is one text, else "texts" */
    dgl_progress_cb progress_cb;
    void *progress_priv; /* first argument of progress_cb */
};
#define dgl_perplexity_params(...) DGL_PARAMS(dgl_perplexity_params, __VA_ARGS__)
struct dgl_perplexity_result {
    size_t size DGL_SIZED(dgl_perplexity_result);
    double nll;       /* sum of -ln p, nats */
    uint64_t tokens;  /* number of tokens in the sum */
    double ppl;       /* exp(nll / tokens) */
    double ppl_error; /* standard error of ppl for independent tokens; 0 for one token */
    uint64_t windows; /* windows evaluated; a text that fits the context is one window */
    int32_t context;  /* longest window, tokens */
    int32_t stride;   /* stride in use; 0 = each text is one window */
};
/* Computes perplexity from -ln p, summed over every token after the first of each text. Texts are
 * encoded with add_special. Resets the session. DGL_ERR_INVALID_ARG: a text longer than the context
 * without `windows`, a stride out of range, no text of two tokens, or a model without a tokenizer.
 * DGL_ERR_CANCELLED. Blocks and reads back the rows of the scored tokens. */
enum dgl_status dgl_perplexity(struct dgl_session *session,
                               const struct dgl_perplexity_params *params,
                               struct dgl_perplexity_result *out);

/* ---- files: inspect, verify, convert (no device needed) -------------------------------------- */

/* One tensor of a model file. Strings are borrowed from the file. */
struct dgl_tensor_info {
    size_t size DGL_SIZED(dgl_tensor_info);
    const char *name;
    const char *dtype;  /* "f16", "q4_k", ... */
    const char *role;   /* "embedding", "matmul", "norm", ... */
    const char *layout; /* "row" for matrices; "" for vectors */
    uint32_t rank;      /* dimensions, at most 4 */
    uint64_t shape[4];  /* row-major, [out, in] for matrices */
    uint64_t bytes;
};

/* A model opened on the host. Thread-safety: unsafe, one thread at a time. */
struct dgl_model_file;

struct dgl_inspect_params {
    size_t size DGL_SIZED(dgl_inspect_params);
    const char *path;                /* required: pack, Hugging Face folder, GGUF file */
    const struct dgl_source *source; /* as in dgl_model_params */
    const char *const *override_kv;  /* as in dgl_model_params */
};
#define dgl_inspect_params(...) DGL_PARAMS(dgl_inspect_params, __VA_ARGS__)
/* Opens a model and checks everything except the weight bytes. Errors as dgl_model_load(). Slow. */
enum dgl_status dgl_inspect(const struct dgl_log *log, const struct dgl_inspect_params *params,
                            struct dgl_model_file **out);
/* Closes the file. */
void dgl_model_file_destroy(struct dgl_model_file **file);
/* Facts about the model. Borrowed from the file. */
const struct dgl_model_info *dgl_model_file_info(const struct dgl_model_file *file);
/* Number of tensors. */
size_t dgl_model_file_num_tensors(const struct dgl_model_file *file);
/* Copies tensor `index`, below dgl_model_file_num_tensors(), to *out. */
enum dgl_status dgl_model_file_tensor(const struct dgl_model_file *file, size_t index,
                                      struct dgl_tensor_info *out);
/* The model's tokenizer; NULL when it came without one. Borrowed from the file. */
const struct dgl_tokenizer *dgl_model_file_tokenizer(const struct dgl_model_file *file);

/* A chat template of a model file. Strings are borrowed from the file. */
struct dgl_template_info {
    size_t size DGL_SIZED(dgl_template_info);
    const char *name;   /* "default", "tool_use", ... */
    const char *origin; /* the file or metadata key: "tokenizer_config.json", ... */
};
/* Returns the number of chat templates. It is 0 also if their files cannot be read;
 * dgl_template_load() then reports the reason. */
size_t dgl_model_file_num_templates(const struct dgl_model_file *file);
/* Copies template `index`, below dgl_model_file_num_templates(), to *out. */
enum dgl_status dgl_model_file_template(const struct dgl_model_file *file, size_t index,
                                        struct dgl_template_info *out);

struct dgl_estimate_params {
    size_t size DGL_SIZED(dgl_estimate_params);
    int32_t context;          /* tokens; 0 = the model's maximum */
    enum dgl_kv_type kv_type; /* of the cache */
    uint64_t available_bytes; /* memory available on the device; 0 = unknown */
    /* sequences of a batch, each with the whole context, at most 256; 0 = one session */
    int32_t sequences;
};
#define dgl_estimate_params(...) DGL_PARAMS(dgl_estimate_params, __VA_ARGS__)
/* Estimates the device memory of the model with a session or a batch, for a desktop GPU with the
 * built-in kernels. On other devices the layouts of weights and the length of passes may differ,
 * which changes weights and scratch by some percent. DGL_ERR_INVALID_ARG: a context beyond the
 * model's. DGL_ERR_UNSUPPORTED: this library does not compute the model. Slow. */
enum dgl_status dgl_model_file_estimate(const struct dgl_log *log,
                                        const struct dgl_model_file *file,
                                        const struct dgl_estimate_params *params,
                                        struct dgl_memory *out);

/* Returns the unmodified config, JSON text of *len bytes; "" if there is none. Borrowed from the
 * file. */
const char *dgl_model_file_config(const struct dgl_model_file *file, size_t *len);
/* Returns the number of lines of dgl_model_file_skipped(). */
size_t dgl_model_file_num_skipped(const struct dgl_model_file *file);
/* Returns line `index` of the list of unused parts of the file: a tensor, or the common prefix of
 * several tensor names, with the reason. For a pack, the parts that were left out when it was
 * converted. Borrowed from the file. */
const char *dgl_model_file_skipped(const struct dgl_model_file *file, size_t index);

struct dgl_verify_params {
    size_t size DGL_SIZED(dgl_verify_params);
    const char *path;                /* required */
    const struct dgl_source *source; /* as in dgl_model_params */
    /* folder of the results for DGL_HASH_CHANGED; NULL = XDG cache directory, "" = no folder */
    const char *cache_dir;
    dgl_progress_cb progress_cb; /* may be NULL; in bytes */
    void *progress_priv;         /* first argument of progress_cb */
};
#define dgl_verify_params(...) DGL_PARAMS(dgl_verify_params, __VA_ARGS__)
struct dgl_verify_result {
    size_t size DGL_SIZED(dgl_verify_result);
    uint64_t files; /* files with a matching hash */
    uint64_t bytes; /* their size */
};
/* Checks every hash stored in the model, and everything that dgl_inspect() checks; *out is always
 * initialised. DGL_ERR_INTEGRITY names the first file with another hash. DGL_ERR_UNSUPPORTED: a
 * folder or file without hashes. DGL_ERR_CANCELLED. Very slow. */
enum dgl_status dgl_verify(const struct dgl_log *log, const struct dgl_verify_params *params,
                           struct dgl_verify_result *out);

#define DGL_SMOKE_TOKENS 16

struct dgl_smoke_params {
    size_t size DGL_SIZED(dgl_smoke_params);
    dgl_progress_cb progress_cb; /* may be NULL; in layers */
    void *progress_priv;         /* first argument of progress_cb */
};
#define dgl_smoke_params(...) DGL_PARAMS(dgl_smoke_params, __VA_ARGS__)
struct dgl_smoke_result {
    size_t size DGL_SIZED(dgl_smoke_result);
    bool passed;
    char fault[1024];                 /* the first failed check, in one line; "" if passed */
    const char *prompt;               /* static; "" for a model without a tokenizer */
    char text[512];                   /* the answer, cut to fit */
    int32_t tokens[DGL_SMOKE_TOKENS]; /* [num_tokens], of the answer */
    size_t num_tokens;
    /* Negative log likelihood of a fixed text, nats per token, computed by the host in doubles. A
     * model without a tokenizer uses fixed ids, and the answer continues those. 0, and no answer,
     * if the model has no head. */
    double nll;
    double error; /* largest NMSE of a layer's block or of the logits, compared with the host */
};
/* Tests a model with its kernels on its device. Each block of each layer computes known answers, in
 * prefill and in decode: the host evaluates the model's files in doubles (docs/models.md, "The
 * smoke test"). Further checks: a greedy answer consists of the best tokens by its own scores, a
 * fixed text is likelier than noise, no matrix or norm is all zeros, and the model's stored
 * expectation (smoke.json) is met if it has one. Returns DGL_OK also if a check failed; see
 * out->passed. *out is always initialised. DGL_ERR_UNSUPPORTED: a synthetic model, which has no
 * files of weights, or a context of less than 8 tokens. DGL_ERR_FORMAT: smoke.json is malformed.
 * DGL_ERR_CANCELLED. Other errors as dgl_generate(), and errors of reading files. Resets the
 * session. Blocks, very slow. */
enum dgl_status dgl_verify_smoke(struct dgl_session *session, const struct dgl_smoke_params *params,
                                 struct dgl_smoke_result *out);

struct dgl_convert_params {
    size_t size DGL_SIZED(dgl_convert_params);
    const char *in;  /* required: pack, Hugging Face folder, GGUF file */
    const char *out; /* required: the folder or file to create */
    const char *to;  /* rdrr: a pack; gguf: one file; NULL = gguf if `out` ends in .gguf */
    /* f32, f16, bf16, q8_0, q6_k, q5_k_m, q5_1, q5_0, q4_k_m, q4_1, q4_0, iq4_nl, iq4_xs, q3_k_m,
     * q2_k, mxfp4; case is ignored. Also q5_k, q4_k and q3_k for q5_k_m, q4_k_m and q3_k_m, as in
     * llama.cpp. NULL = as stored. */
    const char *quantize;
    /* types of single roles (docs/formats.md), in any case; NULL = selected by `quantize` */
    const char *embed, *head, *experts;
    const char *q4k_layout; /* of matrices in q4_k: row (default), column, flat */
    bool fuse_gate_up;      /* store gate and up of a layer as one tensor */
    bool transpose_weights; /* store float matrices of linear layers by columns */
    /* of a multimodal model, keep only its text model, with that model's names and config */
    bool text_only;
    bool fast;                      /* block formats: skip the search for the best codes */
    const char *hash;               /* sha256 (default) or blake3 */
    bool force;                     /* replace an existing `out` */
    uint64_t shard_bytes;           /* 0 = 64 MiB */
    int32_t threads;                /* 0 = one per processor */
    dgl_progress_cb progress_cb;    /* may be NULL; in bytes of `in` */
    void *progress_priv;            /* first argument of progress_cb */
    const char *const *override_kv; /* as in dgl_model_params */
};
#define dgl_convert_params(...) DGL_PARAMS(dgl_convert_params, __VA_ARGS__)
/* Checks the parameters as far as possible without the model. dgl_convert() also starts with this
 * check. DGL_ERR_INVALID_ARG names the invalid parameter. */
enum dgl_status dgl_convert_check(const struct dgl_log *log,
                                  const struct dgl_convert_params *params);
struct dgl_convert_result {
    size_t size DGL_SIZED(dgl_convert_result);
    uint64_t tensors;
    uint64_t bytes_in;  /* size of the tensors that were read */
    uint64_t bytes_out; /* written */
};
/* Converts a model. `out` appears complete or not at all. Equal inputs produce equal bytes.
 * DGL_ERR_INVALID_ARG as dgl_convert_check(), or if `out` exists; other errors as dgl_inspect(),
 * and DGL_ERR_IO of the disk; DGL_ERR_CANCELLED. Very slow. */
enum dgl_status dgl_convert(const struct dgl_log *log, const struct dgl_convert_params *params,
                            struct dgl_convert_result *out);

/* ---- measuring ------------------------------------------------------------------------------- */

#define DGL_BENCH_NO_WARMUP (-1)
#define DGL_BENCH_BATCH_MAX 64
struct dgl_bench_params {
    size_t size DGL_SIZED(dgl_bench_params);
    int32_t prompt_tokens; /* 0 = 512 */
    int32_t decode_tokens; /* 0 = 128 */
    int32_t depth;         /* tokens in the session before prefill or decode is measured */
    /* Sequences that decode together, in a dgl_batch that the call creates. 0 = 1, the session
     * alone; at most DGL_BENCH_BATCH_MAX. Prefill is always measured on the session. */
    int32_t batch;
    bool batch_invariant; /* dgl_batch_params.invariant */
    int32_t repetitions;  /* 0 = 3; at most 64 */
    int32_t warmup;       /* runs that are not measured; 0 = 1, or DGL_BENCH_NO_WARMUP */
    /* Fill dgl_bench_result.profile in an extra run. For a batch, its steps are the decode steps.
     * Must not be set with batch_invariant. */
    bool profile;
    bool skip_copy;              /* do not measure copy_gbps, which stays 0 */
    dgl_progress_cb progress_cb; /* may be NULL; in tokens of all runs */
    void *progress_priv;         /* first argument of progress_cb */
    int32_t readback_interval;   /* as in dgl_generate_params; must be 0 for a batch */
};
#define dgl_bench_params(...) DGL_PARAMS(dgl_bench_params, __VA_ARGS__)
struct dgl_bench_result {
    size_t size DGL_SIZED(dgl_bench_result);                                 /* R2 */
    int32_t prompt_tokens, decode_tokens, depth, batch, repetitions, warmup; /* values in use */
    int32_t context;        /* tokens of the session's context */
    int32_t ubatch;         /* prefill tokens per pass */
    double prefill_tps[64]; /* tokens per second, per repetition */
    double decode_tps[64];  /* tokens of all sequences per second, per repetition */
    double prefill_tps_median, decode_tps_median;
    double prefill_ms_median, decode_ms_median; /* time of one repetition */
    /* Time from the prompt's ids to the first token on the host. Warm: the median, after `depth`
     * tokens. Cold: the call's first prompt, at depth 0, with compilation. */
    double ttft_ms_warm, ttft_ms_cold;
    /* [num_latencies], one per token after the first, of all repetitions. Tokens of one readback
     * share its time equally. For a batch, one per step, in which each sequence gets a token.
     * Owned, like all arrays of this struct: dgl_bench_result_finish(). */
    double *decode_latency_ms;
    size_t num_latencies;
    double decode_ms_p50, decode_ms_p90, decode_ms_p99; /* quantiles of decode_latency_ms */
    /* Weights, keys and values read per token in the middle of the run. For a batch a lower bound:
     * weights that the sequences share count once for all. */
    uint64_t bytes_per_token;
    double decode_gbps; /* rate of these bytes, 10^9 per second */
    double copy_gbps;   /* measured device copy, read plus written, 10^9 bytes per second */
    /* host time for queueing one decode step, microseconds; 0 for a batch */
    double cpu_us_per_token;
    uint64_t compile_ns; /* time of compiling kernels; not part of the rates */
    /* Peak size of all buffers on the device, without the buffers of the copy measurement and of
     * known-answer tests. */
    uint64_t peak_bytes;
    /* Upper bound for the memory of the model, this session and its KV cache with these tokens. It
     * includes the copy to a larger cache. For a batch, it covers one sequence. */
    uint64_t estimate_bytes;
    const char *executor; /* executor of the decode steps, as in dgl_model_executor(); borrowed */
    const char *executor_reason;
    int32_t *tokens; /* [num_tokens], of the last repetition; for a batch, those of one sequence */
    size_t num_tokens;
    char *text;                  /* their text; "" without a tokenizer */
    struct dgl_counters prefill; /* of the last repetition, up to the first token */
    struct dgl_counters decode;  /* of the last repetition, after it */
    struct dgl_profile profile;  /* empty unless asked for */
    /* [num_submits], host time inside the driver for each submit of the last repetition, prefill
     * first. For a batch, prefill only. */
    double *submit_ms;
    size_t num_submits;
};
/* Measures a model on its device with the loop of dgl_generate() and greedy sampling, or a batch
 * with dgl_batch_step(); *out is always initialised. DGL_ERR_INVALID_ARG: counts out of range, or
 * beyond the context. DGL_ERR_NO_MEMORY: the sequences of a batch do not fit the device.
 * DGL_ERR_CANCELLED. Resets the session. Blocks, very slow. */
enum dgl_status dgl_bench(struct dgl_session *session, const struct dgl_bench_params *params,
                          struct dgl_bench_result *out);
/* Frees the arrays of a result. */
void dgl_bench_result_finish(struct dgl_bench_result *result);

/* ---- tuning ---------------------------------------------------------------------------------- */

struct dgl_tune_params {
    size_t size DGL_SIZED(dgl_tune_params);
    /* tokens in the context while decode is measured; 0 = 512, or as many as the context has room
     * for */
    int32_t depth;
    /* Time limit of the call; 0 = 120. An operation or candidate is not started if its expected
     * time, by the times of earlier ones, exceeds the limit. */
    int32_t seconds;
    const char *op; /* only operations of this name in the plan: "qkv"; NULL = all */
    /* Only compare the stored results in use with the defaults, and store nothing. */
    bool compare;
    dgl_progress_cb progress_cb; /* may be NULL; in operations */
    void *progress_priv;         /* first argument of progress_cb */
};
#define dgl_tune_params(...) DGL_PARAMS(dgl_tune_params, __VA_ARGS__)

/* One kernel with values of its tunables. */
struct dgl_tune_candidate {
    char kernel[64]; /* NAME */
    char tunes[192]; /* "WG_SIZE=128 EACH=2", the other tunables at their presets; "" = all */
    /* Microseconds of the operation: the minimum of three measurements, taken at different times of
     * the search; 0 = not timed. */
    double us;
    bool verified; /* it was tested against known answers */
    /* It is the built-in kernel that files replace. It is only compared: files prevail over results
     * of the tuner. */
    bool builtin;
    /* reason why it was not timed: wrong results, or it does not compile; "" = it was timed */
    char reason[256];
};
/* Operations of a model with equal requests, such as qkv of all layers. */
struct dgl_tune_op {
    enum dgl_phase phase;
    const char *op; /* as in a plan: "qkv". Static */
    int32_t tokens; /* of the pass that was measured */
    /* Key of the stored result: operation, attributes and constants, and the hexadecimal SHA-256 of
     * all kernels of the operation. */
    char *request;
    char texts[65];
    /* [num_candidates]; the first is the default. If it has a reason, it is the only candidate, no
     * kernel was timed or stored, and all times are 0. */
    struct dgl_tune_candidate *candidates;
    size_t num_candidates;
    size_t winner; /* index of the winner; 0 = no candidate is clearly faster than the default */
    size_t best;   /* index of the fastest in the search; 0 = the default */
    /* Medians of five alternating rounds of the default and the best candidate. They decide the
     * winner. If the default is the best, default_us is its time in the search and best_us is 0. */
    double default_us, best_us;
    double tuned_us; /* time of the winner: one of these two */
    double spread;   /* largest minus smallest ratio of the two in these rounds; 0 = not measured */
    bool complete;   /* false if the time limit ended the search early */
};
/* Operations that were not reached. */
struct dgl_tune_left {
    const char *op; /* as in a plan. Static */
    enum dgl_phase phase;
    int32_t tokens; /* tokens of the pass that would be measured */
};
/* Result of a tuning. It owns its arrays and texts: dgl_tune_result_finish(). */
struct dgl_tune_result {
    size_t size DGL_SIZED(dgl_tune_result);
    /* [num_ops]: operations with several candidates, or with a wrong default */
    struct dgl_tune_op *ops;
    size_t num_ops;
    /* [num_left], not reached because of a cancellation or the time limit */
    struct dgl_tune_left *left;
    size_t num_left;
    bool gpu_clock; /* true if times are from the GPU's clock; else from the host's */
    bool stored;    /* winners were stored in the device's cache folder */
    uint64_t ns;    /* time of the call */
};
/* Measures, for each operation of the session's model, the suitable kernels and values of their
 * tunables, on the model's own weights. Each candidate is first tested against known answers.
 * Winners are stored in the device's cache folder by device, driver, kernel texts and request.
 * Models loaded later use them without measuring again (dgl_model_params.no_tuned). Operations
 * without a stored result are measured first, then those with the oldest results. After a
 * cancellation (DGL_ERR_CANCELLED) *out and the store contain the finished results. *out is always
 * initialised. DGL_ERR_INVALID_ARG: a depth beyond the context, or an `op` that the plan lacks.
 * Resets the session. Blocks, very slow. */
enum dgl_status dgl_tune(struct dgl_session *session, const struct dgl_tune_params *params,
                         struct dgl_tune_result *out);
/* Frees the arrays and texts of a result. */
void dgl_tune_result_finish(struct dgl_tune_result *result);

/* One stored result. Strings are borrowed for the call. */
struct dgl_tuned {
    const char *op, *request, *texts; /* as in struct dgl_tune_op */
    enum dgl_phase phase;
    int32_t tokens;             /* of the pass that was measured */
    const char *kernel, *tunes; /* the winner; if the default won, its name and "" */
    const char *default_kernel;
    double default_us, tuned_us, spread; /* as in struct dgl_tune_op */
    int64_t time;                        /* seconds since 1970 */
};
/* Calls `cb` for each result stored for the device. Iteration stops if `cb` returns false.
 * DGL_ERR_NO_DEVICE, DGL_ERR_DEVICE_LOST: the device cannot be used. */
enum dgl_status dgl_tuned_iterate(struct dgl_device *dev,
                                  bool (*cb)(void *priv, const struct dgl_tuned *tuned),
                                  void *priv);
/* Removes all results stored for the device. Loaded models keep their kernels. DGL_ERR_IO: they
 * cannot be removed. */
enum dgl_status dgl_tuned_reset(struct dgl_device *dev);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
