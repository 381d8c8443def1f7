/*
 * gl.h: OpenGL ES 3.1 compute without a window: devices, buffers, programs, dispatches, timers.
 * Works with bytes and programs, not with tensors. Only gl/ includes the headers of EGL, GLES and
 * DRM; none of their types are in its interface. One thread at a time may use a device. Except for
 * opening, reopening and closing, functions require that the device's context is current: core
 * calls gl_enter() first and gl_leave() last in each of its public functions.
 */
#ifndef DGL_GL_H
#define DGL_GL_H

#include <stdatomic.h>

#include "core/base/status.h"

struct dgl_buf;

/* ---- devices: gl_enum.c (table), gl_egl.c (display, context), gl_caps.c (limits) ------------- */

enum gl_node_kind { GL_NODE_DRM, GL_NODE_EGL_DEVICE, GL_NODE_SURFACELESS, GL_NODE_DEFAULT };

struct gl_node {
    enum gl_node_kind kind;
    int index;          /* row of the device table */
    char path[128];     /* render node, or "" */
    char driver[64];    /* kernel driver of the node ("virtio_gpu"), else the name from EGL */
    char renderer[128]; /* GL_RENDERER, filled by gl_nodes_probe() */
    bool software, usable;
    bool too_old;     /* the driver has no OpenGL ES 3.1; set by gl_nodes_probe() */
    char reason[512]; /* why the row is unusable or was passed over, or a note about a usable row */
    void *egl_device; /* EGLDeviceEXT, or NULL for GBM, surfaceless and the default display */
};
#define GL_MAX_NODES 32

/* Lists the rows of the device table. Hardware comes first: DRM render nodes with their EGL
 * devices, then EGL devices without a node, then EGL's default display. Software comes last. */
enum dgl_status gl_nodes_list(const struct dgl_log *log, struct gl_node nodes[GL_MAX_NODES],
                              int *count);
/* Opens each row, and sets its renderer and whether it is usable. Slow. */
void gl_nodes_probe(const struct dgl_log *log, struct gl_node *nodes, int count);

/* Limits for compiling one kernel source. 0 selects the default. */
struct gl_compile_limits {
    uint64_t cpu_ns;       /* processor time */
    uint64_t memory_bytes; /* resident memory of the compiling process */
};
#define GL_COMPILE_CPU_NS 60000000000ull
#define GL_COMPILE_BYTES  (2ull << 30)

/* Reports that the driver has been compiling `kernel` in this process for `seconds`. Such a
 * compilation can only be stopped by ending the process. Called several times a second, on a thread
 * of the library; the callback must not call the library. `over` is true once the limit of
 * processor time is exceeded. */
typedef void (*gl_compiling_cb)(void *priv, const char *kernel, double seconds, bool over);

struct gl_device_params {
    /* NULL (hardware only), "any", "software", the path of a node, or a row number.
     * docs/troubleshooting.md describes them. */
    const char *select;
    const char *limits;    /* name of a limits profile, or NULL for the device's own limits */
    bool debug;            /* log the driver's messages; check each call and dispatch; slow */
    const char *cache_dir; /* folder of program binaries; NULL selects the XDG folder, "" disables
                            * the cache */
    /* EGLDisplay and EGLContext of the caller, used instead of opening a device. Borrowed; both or
     * neither must be set. Its buffer bindings and current program are not restored. */
    void *egl_display, *egl_context;
    /* Path of a program that calls gl_compiler_main(); copied. NULL selects `dopplergl` in the
     * folder of the running program, then on PATH. "" starts no compiler process. */
    const char *compiler;
    struct gl_compile_limits compile_limits; /* for each kernel source */
    gl_compiling_cb compiling_cb;            /* NULL logs one warning if the limit is exceeded */
    void *compiling_priv;
    bool in_process; /* compile every kernel source in this process, unwatched */
    /* If `debug` is set, the driver's messages are appended here, one per line. NULL logs them. */
    struct dgl_buf *notes;
};

/* Returns limits profile `i`, or NULL after the last one. Static. */
const struct dgl_limits_profile *gl_limits_at(size_t i);

/* An open device with its context. Thread-safety: one thread at a time. */
struct gl_device;
/* Opens a device. On failure *out is NULL. The caller's context is current again on return, also on
 * failure. DGL_ERR_NO_DEVICE: the error line has the reason for each row. DGL_ERR_INVALID_ARG:
 * `select` has no valid form, or no limits profile is named `limits`. The device borrows `log`.
 * Slow. */
enum dgl_status gl_device_open(const struct dgl_log *log, const struct gl_device_params *params,
                               struct gl_device **out);
/* Closes a device and sets *dev to NULL. Its buffers and programs must be destroyed first. *dev may
 * be NULL. */
void gl_device_close(struct gl_device **dev);

struct gl_caps {
    struct dgl_limits limits; /* in force; max_ssbo_bindings is at most GL_MAX_STORAGE */
    char vendor[128], renderer[128], version[128];
    char driver[64];        /* name from EGL: "iris", "swrast", "NVIDIA" */
    bool software;          /* computes on the host: slow, and without a watchdog */
    bool llvmpipe;          /* llvmpipe compiles the kernels, directly or under zink */
    uint32_t compute_units; /* work groups that keep the device busy; software: host threads */
    uint32_t wave_size;     /* invocations that run together, from the driver; 0 if unknown */
    char units_source[64];  /* source of compute_units */
    uint32_t registers;     /* 32-bit registers of an invocation before the driver spills; 0 if no
                             * limit is known */
    /* gl_device_params.limits names a chip's profile: kernels are chosen for that chip, even if the
     * device is a software renderer. */
    bool other_chip;
    bool khr_subgroup_arithmetic, khr_subgroup_shuffle, parallel_compile, ext_gpu_shader5,
        debug_output;
};
const struct gl_caps *gl_device_caps(const struct gl_device *dev);

/* Test result of a kind of device: a row of the table in gl_verdict.c (docs/devices.md). */
struct gl_verdict {
    const char *name;    /* name of the kind of device, for display */
    const char *drivers; /* kernel and Mesa drivers, separated by blanks; NULL matches any */
    const char *words;   /* substrings separated by "|"; GL_RENDERER must contain one of them */
    enum dgl_device_verdict verdict;
    const char *note;
    const char *compiled; /* chip of tests/devices, or NULL */
    const char *mesa;     /* Mesa version that compiled the kernels for that chip, or NULL */
};
/* Returns the row that matches, or the row "Other devices". Never NULL. `driver` is the name that
 * the render node or EGL reports. */
const struct gl_verdict *gl_verdict_find(const char *driver, const char *renderer);
/* Like gl_verdict_find(), for a probed row of the device table. If no verdict matches and the
 * driver is too old, the verdict is "does not run". */
const struct gl_verdict *gl_node_verdict(const struct gl_node *node);
/* Returns row `index`, in the order of docs/devices.md, or NULL after the last one. */
const struct gl_verdict *gl_verdict_at(size_t index);
/* Returns true if the driver's compiler is known to finish every kernel. True for devices that were
 * tried on hardware, all NVIDIA GPUs, software renderers, and virgl. */
bool gl_verdict_is_known_good(const struct gl_caps *caps);
const struct gl_node *gl_device_node(const struct gl_device *dev);
/* Returns true if the device is lost. Every call then fails with DGL_ERR_DEVICE_LOST until
 * gl_device_reopen() succeeds. Buffers and programs can still be destroyed. */
bool gl_device_is_lost(const struct gl_device *dev);
/* Replaces a lost context by a new one on the same row of the device table. Buffers and programs of
 * the old context may then only be destroyed; its tickets are invalid. On failure the device stays
 * lost; the caller may try again. DGL_ERR_NO_DEVICE: the row does not open. DGL_ERR_UNSUPPORTED:
 * the context is the caller's, or the row has another device or driver now. Slow. */
enum dgl_status gl_device_reopen(struct gl_device *dev);
/* Returns the number of contexts that the device had before the current one. */
uint32_t gl_device_context(const struct gl_device *dev);

/* Sets a flag that cancels work. While *stop is true, gl_submit(), gl_finish() and readbacks return
 * DGL_ERR_CANCELLED before the next dispatch or within a wait; nothing is logged. Work that was
 * queued before still runs, before all later work. `stop` is borrowed; NULL removes the flag. */
void gl_device_set_stop(struct gl_device *dev, const atomic_bool *stop);

/* Work since the device was opened.
 *
 * submits          calls into the driver that start queued work or wait for it: a flush, a wait
 *                  for a fence (counted once, however often it polls), a map of a result. A
 *                  readback has two submits with a persistent mapping (flush, wait) and three
 *                  without EXT_buffer_storage (flush, wait, map). Queueing dispatches, copies and
 *                  writes does not count. Work that a driver starts by itself is not seen. Only
 *                  gl_sync.c counts submits.
 * readbacks        results copied to the host, of any size
 * barriers         all glMemoryBarrier() calls, including those before copies and readbacks */
struct gl_counters {
    uint64_t submits, readbacks, dispatches, barriers, buffers_created, programs_linked,
        readback_bytes, upload_bytes;
};
struct gl_counters gl_device_counters(const struct gl_device *dev);

/* Bytes of all buffers on the device: the current sum, and its maximum since the device was opened.
 * Staging buffers do not count. */
struct gl_memory {
    uint64_t bytes, peak_bytes;
};
struct gl_memory gl_device_memory(const struct gl_device *dev);
/* Restores the peak of `before`, or the current sum if it is larger. For temporary buffers that
 * belong to no model. */
void gl_device_memory_forget(struct gl_device *dev, struct gl_memory before);

/* Current memory of the device for buffers of all processes. gl_memory.c */
#define GL_MEMORY_SOURCE_BYTES 128
struct gl_memory_now {
    uint64_t total_bytes; /* 0 if unknown */
    uint64_t free_bytes;  /* 0 if unknown */
    /* Limit for all of our buffers, existing ones included. For unified memory it is a share of the
     * host's available memory. 0 if unknown. */
    uint64_t budget_bytes;
    bool unified; /* buffers are in the host's memory */
    char source[GL_MEMORY_SOURCE_BYTES];
};
/* Queries the memory now. `held_bytes` is the size of our existing buffers. The device need not be
 * entered. Costs some tenths of a millisecond. */
void gl_device_memory_now(struct gl_device *dev, uint64_t held_bytes, struct gl_memory_now *out);

/* A period of the host's time. It is reported when it ends. */
enum gl_event_kind {
    GL_EVENT_FLUSH, /* FLUSH, WAIT and MAP are the submits */
    GL_EVENT_WAIT,
    GL_EVENT_MAP,
    GL_EVENT_READBACK, /* waiting for a result and copying it; contains a WAIT */
    GL_EVENT_PROGRAM,  /* compiling a program, or loading it from the cache */
};
struct gl_event {
    enum gl_event_kind kind;
    const char *label;         /* PROGRAM: label of the program; else "" */
    uint64_t start_ns, end_ns; /* from dgl_now_ns() */
    uint64_t bytes;            /* READBACK: size; else 0 */
};
/* Calls `cb` for every event from now on. NULL stops it. */
void gl_device_set_observer(struct gl_device *dev,
                            void (*cb)(void *priv, const struct gl_event *event), void *priv);

/* The caller's context, which gl_leave() restores. Pairs of gl_enter() and gl_leave() may be
 * nested. */
struct gl_saved {
    void *display, *context, *draw, *read;
    unsigned api;
    bool active;
};
/* Makes the device's context current. Also succeeds on a lost device, so that its objects can be
 * destroyed. On failure nothing has changed, and gl_leave() does nothing. */
enum dgl_status gl_enter(struct gl_device *dev, struct gl_saved *saved);
/* Like gl_enter(), before objects are destroyed. Returns false in a process that was forked from
 * the device's process, where the driver must not be called. gl_buffer_destroy() and similar may be
 * called in both cases. */
bool gl_enter_to_destroy(struct gl_device *dev, struct gl_saved *saved);
void gl_leave(struct gl_device *dev, const struct gl_saved *saved);

/* ---- buffers: gl_buffer.c -------------------------------------------------------------------- */

struct gl_buffer;
struct gl_buffer_params {
    uint64_t size;     /* > 0, at most limits.max_buffer_bytes; rounded up to a multiple of 4 */
    bool zero;         /* fill with zeros; otherwise the contents are undefined */
    const char *label; /* object label for debuggers and messages; copied */
    /* Allocates the storage, if it can. NULL, or a failure, selects storage of the GL driver.
     * Borrowed for the call. */
    struct gl_vulkan_memory *vulkan;
};
/* Creates a buffer. Its storage is immutable if the driver has EXT_buffer_storage. It is never
 * mapped, because NVIDIA's driver moves mapped buffers to the host. */
enum dgl_status gl_buffer_create(struct gl_device *dev, const struct gl_buffer_params *params,
                                 struct gl_buffer **out);
void gl_buffer_destroy(struct gl_device *dev, struct gl_buffer **buffer);
uint64_t gl_buffer_size(const struct gl_buffer *buffer);
/* Returns true if the buffer is of an earlier context of the device. It can only be destroyed. */
bool gl_buffer_is_stale(const struct gl_device *dev, const struct gl_buffer *buffer);
/* Offsets and sizes must be multiples of 4. Writes and copies are ordered with earlier and later
 * dispatches. */
enum dgl_status gl_buffer_write(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                                const void *bytes, uint64_t size);
enum dgl_status gl_buffer_zero(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                               uint64_t size);
enum dgl_status gl_buffer_copy(struct gl_device *dev, struct gl_buffer *src, uint64_t src_offset,
                               struct gl_buffer *dst, uint64_t dst_offset, uint64_t size);
/* Waits for the GPU and copies bytes to the host. Slow: for tests, logits and profiles. */
enum dgl_status gl_buffer_read(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                               void *bytes, uint64_t size);

/* Slots of memory in which the host prepares bytes for buffers. They are mapped if the GPU can copy
 * from mapped memory. Any thread may write to the memory of a slot; the functions are called on the
 * device's thread. gl_upload.c */
struct gl_staging;
struct gl_range;
enum dgl_status gl_staging_create(struct gl_device *dev, uint32_t slots, uint64_t slot_bytes,
                                  struct gl_staging **out);
/* The copies from its slots may still run. */
void gl_staging_destroy(struct gl_staging **staging);
void *gl_staging_slot(const struct gl_staging *staging, uint32_t slot);
/* Queues a copy of the slot's first to->size bytes. Their memory must not change until
 * gl_staging_wait(). Offsets, sizes and order are as with gl_buffer_write(). */
enum dgl_status gl_staging_send(struct gl_device *dev, struct gl_staging *staging, uint32_t slot,
                                const struct gl_range *to);
/* Waits until the copy from a slot has ended. */
enum dgl_status gl_staging_wait(struct gl_device *dev, struct gl_staging *staging, uint32_t slot);

/* Allocator of buffer storage in large pages, through the device's Vulkan driver. If it is not
 * available, *out is NULL and `reason` has the cause. Buffers keep their storage after the
 * allocator is destroyed. Creating it takes some tenths of a second. gl_vulkan_memory.c */
struct gl_vulkan_memory;
#define GL_VULKAN_REASON_BYTES 160
enum dgl_status gl_vulkan_memory_create(struct gl_device *dev, struct gl_vulkan_memory **out,
                                        char reason[GL_VULKAN_REASON_BYTES]);
void gl_vulkan_memory_destroy(struct gl_vulkan_memory **vm);

/* Reads small results back without stalling the GPU, through a ring of slots. The slots are
 * persistently mapped if the driver has EXT_buffer_storage. gl_readback.c */
struct gl_ticket {
    uint32_t slot, serial;
};
#define GL_READBACK_SLOT_BYTES 4096
enum dgl_status gl_readback_begin(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                                  uint32_t size, struct gl_ticket *ticket);
/* Waits for the bytes: polls briefly, then waits for the fence. The device is lost if nothing
 * completes for 10 s (software: 10 minutes). Each ticket can be redeemed once. */
enum dgl_status gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes);
/* Returns true if gl_readback_end() would not wait. */
bool gl_readback_is_done(struct gl_device *dev, struct gl_ticket ticket);
/* Discards a ticket whose result is not needed. Does not wait. */
void gl_readback_drop(struct gl_device *dev, struct gl_ticket ticket);

/* ---- programs: gl_program.c, gl_progcache.c -------------------------------------------------- */

struct gl_program;
struct gl_pending;
/* Result of compiling a kernel source in a separate process. */
enum gl_compile_end {
    GL_COMPILE_OK,
    GL_COMPILE_REFUSED, /* the driver reported an error */
    GL_COMPILE_TIME,    /* exceeded the limit of processor time */
    GL_COMPILE_MEMORY,  /* exceeded the limit of memory */
    GL_COMPILE_BLOCKED, /* used no processor time for as long as the limit of processor time */
    GL_COMPILE_CRASHED, /* ended by a signal */
    GL_COMPILE_LOST,    /* no verdict: the process failed for a reason outside of the driver */
};
struct gl_program_params {
    const char *source; /* complete GLSL ES, from "#version" on */
    size_t len;
    const char *label;  /* kernel name for messages, debuggers, profiles; copied */
    const char *origin; /* "builtin" or a path, for messages */
    /* Logs why a source does not compile or link. `words` is the driver's log, of several lines.
     * Returns the status of the call. If NULL, gl_program.c logs one line. */
    enum dgl_status (*refused)(void *priv, bool linking, const char *words);
    void *refused_priv; /* first argument of `refused` */
    bool quiet;         /* log the line at DGL_LOG_INFO, not as an error; the status is the same */
    /* If not NULL, set before `refused` is called: the result of the compiler process, or
     * GL_COMPILE_REFUSED if this process compiled. */
    enum gl_compile_end *end;
    /* gl_programs_create(): a pending program of the same source, or NULL. Consumed, also on
     * failure, and set to NULL. */
    struct gl_pending **begun;
};
struct gl_compile {
    /* Also generates the machine code now. Some drivers, such as llvmpipe, generate it at the first
     * dispatch. So each program is dispatched with no work groups, and the call waits for it. */
    bool machine_code;
    dgl_progress_cb progress_cb; /* may be NULL; called with "kernels" before the first program and
                                  * after each */
    void *progress_priv;
};
/* Compiles and links all programs, in parallel if the driver can. On failure every out[i] is NULL
 * and the error has the driver's log; the numbered source follows at DGL_LOG_INFO. Returns
 * DGL_ERR_CANCELLED, without a log line, if the callback returned false. Uses the cache on disk,
 * and logs at DGL_LOG_INFO how many programs it had. `how` may be NULL. Slow if the programs are
 * not in the cache. */
enum dgl_status gl_programs_create(struct gl_device *dev, const struct gl_program_params *params,
                                   size_t count, const struct gl_compile *how,
                                   struct gl_program **out);
/* Returns true if programs compile in the background, on threads of the driver or in other
 * processes, so that starting early saves time. Mesa's threads do not count: Mesa's front end and
 * linker run in the caller's thread for seconds. */
bool gl_compiles_aside(const struct gl_device *dev);
/* Returns true if the driver compiles on its own threads (KHR_parallel_shader_compile). */
bool gl_has_compiler_threads(const struct gl_device *dev);
/* Starts to compile a program, while other work continues. Waits for the compiler only if this
 * process compiles and the driver has no compiler threads (KHR_parallel_shader_compile).
 * `refused_priv` is borrowed until the program is taken. */
enum dgl_status gl_pending_create(struct gl_device *dev, const struct gl_program_params *params,
                                  struct gl_pending **out);
/* Starts several programs, or none on failure. All compilers start before the first linker. */
enum dgl_status gl_pendings_create(struct gl_device *dev, const struct gl_program_params *params,
                                   size_t count, struct gl_pending **out);
/* Returns true if the program belongs to a lost context. It can only be destroyed. */
bool gl_pending_is_stale(const struct gl_device *dev, const struct gl_pending *pending);
/* Returns true if gl_pending_take() would not wait. Also true for a stale program, unless the
 * compiler process still compiles it. */
bool gl_pending_is_ready(struct gl_device *dev, const struct gl_pending *pending);
/* Waits for the program. *pending must not be stale; it is consumed, also on failure. Failures are
 * logged as by gl_programs_create(). */
enum dgl_status gl_pending_take(struct gl_device *dev, struct gl_pending **pending,
                                struct gl_program **out);
/* Discards a program that is no longer needed. Does not wait for its compiler: glDeleteProgram()
 * would on NVIDIA, so the device keeps the program until it is compiled. *pending may be NULL. */
void gl_pending_destroy(struct gl_device *dev, struct gl_pending **pending);
/* Returns true if the driver still compiles discarded programs. On some drivers closing the device
 * waits for them, and so does exit(). Stores those that are done in the cache. */
bool gl_is_compiling(struct gl_device *dev);
/* Sets `key` to the cache key of a source: 64 hexadecimal digits. The key is equal in every
 * process, but differs by device and driver version. Returns false if there is no cache. */
bool gl_program_key(const struct gl_device *dev, const char *source, size_t len, char key[65]);
/* Returns the device and driver as written into cache files: "RENDERER, VERSION", at most 255
 * bytes. "" if there is no cache. */
const char *gl_program_cache_device(const struct gl_device *dev);
/* Returns true if the driver returns program binaries, so that the cache stores programs. Other
 * files are stored in its folder anyway. */
bool gl_program_is_kept(const struct gl_device *dev);
/* Returns the folder of the cache, or NULL if there is none that can be written; the reason is
 * logged once. */
const char *gl_program_cache_dir(struct gl_device *dev);
/* Adds an owner. Each owner must call gl_program_destroy(). */
struct gl_program *gl_program_ref(struct gl_program *program);
void gl_program_destroy(struct gl_device *dev, struct gl_program **program);
const char *gl_program_label(const struct gl_program *program);

/* ---- compiler process: gl_compiler.c, gl_compiler_main.c ------------------------------------- */

struct gl_compile_report {
    enum gl_compile_end end;
    uint64_t cpu_ns, wall_ns; /* of compiling, without opening the device */
    uint64_t rss_bytes;       /* peak resident memory of the compiling process */
    uint64_t binary_bytes;    /* size of the program binary; 0 if the driver returns none */
    int signal;               /* GL_COMPILE_CRASHED: the signal */
    const char *words;        /* the driver's log, or why there is no verdict; may be "" */
    const char *stats;        /* the driver's statistics, one per line; may be "" */
};
struct gl_try {
    struct gl_compile_limits limits; /* 0 selects the limit of the device */
    /* Called once per source, in order. Returns false to cancel. */
    bool (*cb)(void *priv, size_t index, const struct gl_compile_report *report);
    void *priv;
    bool (*go_on)(void *priv); /* called several times a second; false cancels; may be NULL */
};
/* Compiles and links each source in a separate process, several at a time. A source that does not
 * compile is reported to `cb`; the call does not fail. Verdicts and binaries are stored in the
 * cache. DGL_ERR_UNSUPPORTED: no program was found for the compiler process, or it cannot open the
 * device. Slow. */
enum dgl_status gl_programs_try(struct gl_device *dev, const struct gl_program_params *params,
                                size_t count, const struct gl_try *how);
/* Runs the compiler process: serves the socket on standard input until it is closed. Returns an
 * exit code. Call it before any other function of the library or of EGL. */
int gl_compiler_main(void);
/* Command line argument that starts a program as the compiler process. */
#define GL_COMPILER_WORD "--dopplergl-compiler"

/* ---- dispatch: gl_dispatch.c, gl_hazard.c ---------------------------------------------------- */

#define GL_MAX_STORAGE 16
#define GL_MAX_UNIFORM 3
/* A fence is placed after every GL_FENCE_DISPATCHES dispatches and at each flush. The progress of
 * the fences distinguishes a slow device from a dead one. At most GL_MAX_IN_FLIGHT fences may be
 * unfinished. */
#define GL_FENCE_DISPATCHES 512
#define GL_MAX_IN_FLIGHT    256

struct gl_range {
    struct gl_buffer *buffer; /* NULL if unused */
    uint64_t offset, size;    /* `offset` is a multiple of limits.ssbo_align or ubo_align */
};

/* A prepared dispatch. storage[i] is bound to SSBO binding i, uniform[i] to UBO binding i. */
struct gl_dispatch {
    struct gl_program *program;
    struct gl_range storage[GL_MAX_STORAGE];
    struct gl_range uniform[GL_MAX_UNIFORM];
    uint16_t reads, writes; /* bit i: storage[i] is read, or written; uniforms are always read */
    uint8_t num_storage, num_uniform;
    uint32_t groups[3];
    struct gl_range indirect; /* if used, three uint32 group counts that replace groups[] */
    uint32_t barrier; /* from gl_hazards_derive(): glMemoryBarrier() bits to issue before this
                       * dispatch, or 0 */
};

/* Sets `barrier` of each dispatch. Conflicting accesses (RAW, WAR or WAW on overlapping ranges, by
 * storage, uniform or indirect use) are ordered, and independent dispatches share a barrier.
 * `repeats`: the list will be submitted several times in a row, so its head is also ordered after
 * its tail. Needs no device. */
void gl_hazards_derive(struct gl_dispatch *list, size_t count, bool repeats);

/* Queues the dispatches in order, after all earlier work. Does not allocate. Waits only if
 * GL_MAX_IN_FLIGHT fences are unfinished. The next flush, wait or readback reports errors of the
 * driver, once for all queued work. If `gpu_ns` is not NULL, the call waits and stores the GPU time
 * of each of the `count` dispatches, or UINT64_MAX if the driver has no timer or its clock was
 * disjoint. */
enum dgl_status gl_submit(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                          uint64_t *gpu_ns);
/* Measures the time of submitting a list `rounds` times in a row: with the GPU's clock, or with the
 * host's if the driver has no timer. *ns is UINT64_MAX if the GPU's clock was disjoint. Waits
 * before and after. */
enum dgl_status gl_submit_span(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                               uint32_t rounds, uint64_t *ns);
/* Returns true if gl_submit_span() uses the GPU's clock. */
bool gl_has_timer(const struct gl_device *dev);
/* Measures the time that timers add to each dispatch: runs a list of at most GL_TIMER_COST_MAX
 * dispatches with a timer around each, and with one around all. *ns is 0 if there are no timers.
 * Waits. */
#define GL_TIMER_COST_MAX 64
enum dgl_status gl_timer_cost(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                              uint64_t *ns);
/* Starts queued work without waiting for it. */
enum dgl_status gl_flush(struct gl_device *dev);
/* Waits until all work is done, and reports asynchronous errors. */
enum dgl_status gl_finish(struct gl_device *dev);
/* A point after all work that was queued so far. {0} is the empty mark. */
struct gl_mark {
    void *fence;
    uint32_t context; /* context of the fence, see gl_device_context() */
};
/* Sets an empty mark, and starts the work that was queued before it. */
enum dgl_status gl_mark_set(struct gl_device *dev, struct gl_mark *mark);
/* Returns true if the mark is reached or empty, or its context was lost, and then empties it. Does
 * not wait. */
bool gl_mark_is_reached(struct gl_device *dev, struct gl_mark *mark);
/* Waits for the mark, and empties it, also on failure. */
enum dgl_status gl_mark_wait(struct gl_device *dev, struct gl_mark *mark);
void gl_mark_drop(struct gl_device *dev, struct gl_mark *mark);

#endif
