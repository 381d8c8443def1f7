/*
 * gl.h: OpenGL ES 3.1 compute without a window: devices, buffers, programs, dispatches, timers.
 * Knows bytes and programs, no tensors. The only room that includes EGL, GLES or drm headers;
 * none of their types leave it. One thread per device. Every entry point expects the device's
 * context to be current: core brackets its public calls with gl_enter() and gl_leave().
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
    char path[128];     /* render node; "" without one */
    char driver[64];    /* kernel driver of the node ("virtio_gpu"), else what EGL says */
    char renderer[128]; /* GL_RENDERER, filled by gl_nodes_probe() */
    bool software, usable;
    bool too_old;     /* the driver has no OpenGL ES 3.1; set by gl_nodes_probe() */
    char reason[256]; /* why not usable or passed over, or a note on a usable one */
    void *egl_device; /* EGLDeviceEXT, or NULL for GBM, surfaceless and the default display */
};
#define GL_MAX_NODES 32

/* Hardware first (DRM render nodes matched to EGL devices, then EGL devices without a node, then
 * EGL's default display), software last. */
enum dgl_status gl_nodes_list(const struct dgl_log *log, struct gl_node nodes[GL_MAX_NODES],
                              int *count);
/* Opens each row to learn its renderer and whether it works. Slow. */
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
    /* NULL (hardware only), "any", "software", a node's path, a row number:
     * docs/troubleshooting.md */
    const char *select;
    const char *limits;    /* name of a limits profile, or NULL for the device's own limits */
    bool debug;            /* driver's messages to the log, each call and record checked; slow */
    const char *cache_dir; /* program binaries; NULL = XDG, "" = none */
    /* Wrap these instead (EGLDisplay, EGLContext; borrowed, both or neither). Buffer bindings and
     * the current program of a wrapped context are not put back. */
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
/* On failure *out is NULL. The caller's context is always current again on return.
 * DGL_ERR_NO_DEVICE: one line says why each row was passed over. DGL_ERR_INVALID_ARG: `select` has
 * no valid form, or no limits profile is named `limits`. The device borrows `log`. Slow. */
enum dgl_status gl_device_open(const struct dgl_log *log, const struct gl_device_params *params,
                               struct gl_device **out);
/* Buffers and programs must be destroyed before. Accepts NULL in *dev and sets it to NULL. */
void gl_device_close(struct gl_device **dev);

struct gl_caps {
    struct dgl_limits limits; /* in force; max_ssbo_bindings is at most GL_MAX_STORAGE */
    char vendor[128], renderer[128], version[128];
    char driver[64];        /* as EGL calls it: "iris", "swrast", "NVIDIA" */
    bool software;          /* computes on the host: slow, and without a watchdog */
    bool llvmpipe;          /* its code generator runs the kernels, also under zink */
    uint32_t compute_units; /* work groups that keep the device busy; software: host threads */
    uint32_t wave_size;     /* invocations that run together, from the driver; 0 if unknown */
    char units_source[64];  /* where compute_units comes from */
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
    const char *name;    /* of the devices, for display */
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
/* Like gl_verdict_find(), for a probed row of the device table. The verdict on a device of no row
 * whose driver is too old is "does not run". */
const struct gl_verdict *gl_node_verdict(const struct gl_node *node);
/* Returns row `index`, in the order of docs/devices.md, or NULL after the last one. */
const struct gl_verdict *gl_verdict_at(size_t index);
/* Returns true if the driver's compiler is known to finish every kernel. This is so for devices
 * that were tried on hardware, all NVIDIA GPUs, software renderers, and virgl. */
bool gl_verdict_is_known_good(const struct gl_caps *caps);
const struct gl_node *gl_device_node(const struct gl_device *dev);
const struct dgl_log *gl_device_log(const struct gl_device *dev);
/* Every call then fails with DGL_ERR_DEVICE_LOST until gl_device_reopen(); destroying works. */
bool gl_device_is_lost(const struct gl_device *dev);
/* A new context on the same row of the device table in place of a lost one. Buffers and programs of
 * the old one may then only be destroyed; tickets of it are void. On failure the device stays lost,
 * and another try may succeed: DGL_ERR_NO_DEVICE: the row does not open; DGL_ERR_UNSUPPORTED: the
 * context is the caller's, or the row has become another device or driver. Slow. */
enum dgl_status gl_device_reopen(struct gl_device *dev);
/* How many contexts the device had before the one in use. */
uint32_t gl_device_context(const struct gl_device *dev);

/* From now on (NULL: never again), as soon as *stop is true, gl_submit(), gl_finish() and readbacks
 * return DGL_ERR_CANCELLED, not logged, between two dispatches or in the middle of a wait. What was
 * queued until then still runs, before all that is queued later. `stop` is borrowed. */
void gl_device_set_stop(struct gl_device *dev, const atomic_bool *stop);

/* Work since the device was opened.
 *
 * submits          entries into the driver that start queued work or wait for it: a flush, a wait
 *                  on a fence (one, however often it polls), a map of a result. A readback through
 *                  a persistent mapping is two (flush, wait), without EXT_buffer_storage three
 *                  (map). Queueing dispatches, copies and writes is none; a driver that starts work
 *                  by itself goes unseen. Counted in gl_sync.c alone.
 * readbacks        results copied to the host, of any size
 * barriers         all glMemoryBarrier() calls, those before copies and readbacks too */
struct gl_counters {
    uint64_t submits, readbacks, dispatches, barriers, buffers_created, programs_linked,
        readback_bytes, upload_bytes;
};
struct gl_counters gl_device_counters(const struct gl_device *dev);

/* Bytes of all buffers on the device: now, and the most at any time since the device was opened.
 * Staging memory of the host does not count. */
struct gl_memory {
    uint64_t bytes, peak_bytes;
};
struct gl_memory gl_device_memory(const struct gl_device *dev);
/* Forgets a peak since `before`, which was of buffers that are no model's. */
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

/* A stretch of the host's time, told when it ends. */
enum gl_event_kind {
    GL_EVENT_FLUSH, /* these three are the submits */
    GL_EVENT_WAIT,
    GL_EVENT_MAP,
    GL_EVENT_READBACK, /* waiting for a result and copying it: around a wait */
    GL_EVENT_PROGRAM,  /* compiling a program, or finding it in the cache */
};
struct gl_event {
    enum gl_event_kind kind;
    const char *label;         /* of a program; else "" */
    uint64_t start_ns, end_ns; /* by dgl_now_ns() */
    uint64_t bytes;            /* of a readback */
};
/* Calls `cb` (NULL: no longer) for every event from now on. */
void gl_device_set_observer(struct gl_device *dev,
                            void (*cb)(void *priv, const struct gl_event *event), void *priv);

/* The caller's context, put back by gl_leave() on every path. Nests. */
struct gl_saved {
    void *display, *context, *draw, *read;
    unsigned api;
    bool active;
};
/* Also succeeds on a lost device, so that its objects can be destroyed. On failure nothing has
 * changed and gl_leave() does nothing. */
enum dgl_status gl_enter(struct gl_device *dev, struct gl_saved *saved);
/* As gl_enter(), for destroying; false in a process that was forked from that of the device, where
 * nothing of the driver's may be touched. Objects can be destroyed after either. */
bool gl_enter_to_destroy(struct gl_device *dev, struct gl_saved *saved);
void gl_leave(struct gl_device *dev, const struct gl_saved *saved);

/* ---- buffers: gl_buffer.c -------------------------------------------------------------------- */

struct gl_buffer;
struct gl_buffer_params {
    uint64_t size;     /* > 0, at most limits.max_buffer_bytes; rounded up to 4 */
    bool zero;         /* contents defined as zero; otherwise undefined */
    const char *label; /* object label for debuggers and messages; copied */
    /* Storage from here where it can be had; NULL = the driver's. Borrowed for the call. */
    struct gl_vulkan_memory *vulkan;
};
/* Immutable storage where EXT_buffer_storage is offered (never mapped: NVIDIA moves mapped buffers
 * to the host). */
enum dgl_status gl_buffer_create(struct gl_device *dev, const struct gl_buffer_params *params,
                                 struct gl_buffer **out);
void gl_buffer_destroy(struct gl_device *dev, struct gl_buffer **buffer);
uint64_t gl_buffer_size(const struct gl_buffer *buffer);
/* Whether it went with an earlier context of the device: good for destroying alone. */
bool gl_buffer_is_stale(const struct gl_device *dev, const struct gl_buffer *buffer);
/* Offsets and sizes are multiples of 4. Ordered with dispatches before and after. */
enum dgl_status gl_buffer_write(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                                const void *bytes, uint64_t size);
enum dgl_status gl_buffer_zero(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                               uint64_t size);
enum dgl_status gl_buffer_copy(struct gl_device *dev, struct gl_buffer *src, uint64_t src_offset,
                               struct gl_buffer *dst, uint64_t dst_offset, uint64_t size);
/* Waits for the GPU and copies out: for tests, logits and profiles. */
enum dgl_status gl_buffer_read(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                               void *bytes, uint64_t size);

/* Storage of buffers by the device's Vulkan driver, in larger pages. *out is NULL where it
 * cannot be had, and `reason` says why. Buffers keep their storage when it is destroyed. Takes
 * tenths of a second. gl_vulkan_memory.c */
struct gl_vulkan_memory;
#define GL_VULKAN_REASON_BYTES 160
enum dgl_status gl_vulkan_memory_create(struct gl_device *dev, struct gl_vulkan_memory **out,
                                        char reason[GL_VULKAN_REASON_BYTES]);
void gl_vulkan_memory_destroy(struct gl_vulkan_memory **vm);

/* Small results without stalling: the ring's slots are persistently mapped where possible.
 * gl_readback.c */
struct gl_ticket {
    uint32_t slot, serial;
};
#define GL_READBACK_SLOT_BYTES 4096
enum dgl_status gl_readback_begin(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                                  uint32_t size, struct gl_ticket *ticket);
/* Blocks until the bytes are there (spins briefly, then waits on the fence); a device on which
 * nothing completes for 10 s (software: 10 minutes) is lost. Each ticket is redeemed once. */
enum dgl_status gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes);
/* Whether gl_readback_end() would find the bytes there. Does not wait. */
bool gl_readback_is_done(struct gl_device *dev, struct gl_ticket ticket);
/* Gives a ticket back whose result nobody wants. Does not wait. */
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
    /* Logs why a source does not compile, or link, in place of gl's own line: `words` are the
     * driver's, of several lines. Returns the status of the call. NULL = gl's own line. */
    enum dgl_status (*refused)(void *priv, bool linking, const char *words);
    void *refused_priv; /* first argument of `refused` */
    bool quiet;         /* a refusal fails no call: gl's own line is told at DGL_LOG_INFO */
    /* Set before `refused` is called: the result of the compiler process, or GL_COMPILE_REFUSED if
     * this process compiled. May be NULL. */
    enum gl_compile_end *end;
    /* gl_programs_create(): NULL, or the same source on its way. Consumed, also on failure, and set
     * to NULL. */
    struct gl_pending **begun;
};
struct gl_compile {
    /* Also have the driver make the machine code, which some (llvmpipe) leave to the first
     * dispatch: each program is dispatched with no groups, and waited for. */
    bool machine_code;
    dgl_progress_cb progress_cb; /* may be NULL; in "kernels", before the first and after each */
    void *progress_priv;
};
/* Compiles all (in parallel where the driver can), or none: on failure every out[i] is NULL and the
 * error has the driver's words; the numbered source follows at DGL_LOG_INFO. DGL_ERR_CANCELLED, not
 * logged, when the callback returned false. Uses the on-disk cache; one line at DGL_LOG_INFO says
 * how often it helped. `how` NULL: programs are linked, no more. Slow when cold. */
enum dgl_status gl_programs_create(struct gl_device *dev, const struct gl_program_params *params,
                                   size_t count, const struct gl_compile *how,
                                   struct gl_program **out);
/* Returns true if programs compile in the background, on threads of the driver or in other
 * processes, so that starting early saves time. Mesa's threads do not count: Mesa's front end and
 * linker run in the caller's thread for seconds. */
bool gl_compiles_aside(const struct gl_device *dev);
/* Returns true if the driver compiles on its own threads (KHR_parallel_shader_compile). */
bool gl_has_compiler_threads(const struct gl_device *dev);
/* One program on its way while other work goes on. */
/* Starts the compiler; waits for it only where the driver has no threads of its own for that
 * (KHR_parallel_shader_compile). `refused_priv` is borrowed until the program is taken. */
enum dgl_status gl_pending_create(struct gl_device *dev, const struct gl_program_params *params,
                                  struct gl_pending **out);
/* Several of them, all or none: every compiler is started before any linker. */
enum dgl_status gl_pendings_create(struct gl_device *dev, const struct gl_program_params *params,
                                   size_t count, struct gl_pending **out);
/* Whether it went with a context that was lost: nothing can be done with it but destroy it. */
bool gl_pending_is_stale(const struct gl_device *dev, const struct gl_pending *pending);
/* Whether gl_pending_take() would not wait; a stale one waits for nothing. */
bool gl_pending_is_ready(struct gl_device *dev, const struct gl_pending *pending);
/* Waits, and consumes *pending, which is not stale, also on failure, which is told as by
 * gl_programs_create(). */
enum dgl_status gl_pending_take(struct gl_device *dev, struct gl_pending **pending,
                                struct gl_program **out);
/* For a program that nobody wants any more. Does not wait for its compiler, as glDeleteProgram()
 * does on NVIDIA: until that is done the device keeps it. Accepts NULL in *pending. */
void gl_pending_destroy(struct gl_device *dev, struct gl_pending **pending);
/* Whether the driver still compiles programs that nobody wants: closing the device waits for them
 * there, and so does exit(). Those that are done go into the cache. */
bool gl_is_compiling(struct gl_device *dev);
/* Name of a text on this device with this driver, 64 hexadecimal digits: the same in every process,
 * another after an update of the driver. False without a cache. */
bool gl_program_key(const struct gl_device *dev, const char *source, size_t len, char key[65]);
/* Device and driver as the files of the cache name them: "RENDERER, VERSION", at most 255 bytes; ""
 * without a cache. */
const char *gl_program_cache_device(const struct gl_device *dev);
/* The driver gives binaries of programs, so that a cache keeps them; other files are kept there
 * without. */
bool gl_program_is_kept(const struct gl_device *dev);
/* Folder of the on-disk cache; NULL without one that can be written, which is said once. */
const char *gl_program_cache_dir(struct gl_device *dev);
/* One owner more, each of which destroys it. */
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
 * compile is reported to `cb` and is no error of the call. Verdicts and binaries are stored in the
 * cache. DGL_ERR_UNSUPPORTED: no program was found for the compiler process, or it cannot open the
 * device. Slow. */
enum dgl_status gl_programs_try(struct gl_device *dev, const struct gl_program_params *params,
                                size_t count, const struct gl_try *how);
/* Runs the compiler process: serves the socket on standard input until it is closed. Returns an
 * exit code. Must be called before any other function of the library or of EGL. */
int gl_compiler_main(void);
/* The only argument of the program if it is started as the compiler process. */
#define GL_COMPILER_WORD "--dopplergl-compiler"

/* ---- dispatch: gl_dispatch.c, gl_hazard.c ---------------------------------------------------- */

#define GL_MAX_STORAGE 16
#define GL_MAX_UNIFORM 3
/* Queued work has a fence after every so many dispatches, and at a flush: their progress tells a
 * slow device from a dead one. So many of them may be unfinished. */
#define GL_FENCE_DISPATCHES 512
#define GL_MAX_IN_FLIGHT    256

struct gl_range {
    struct gl_buffer *buffer; /* NULL = not used */
    uint64_t offset, size;    /* offset aligned to limits.ssbo_align / ubo_align */
};

/* One prepared dispatch. storage[i] is SSBO binding i, uniform[i] UBO binding i. */
struct gl_dispatch {
    struct gl_program *program;
    struct gl_range storage[GL_MAX_STORAGE];
    struct gl_range uniform[GL_MAX_UNIFORM];
    uint16_t reads, writes; /* bit i: storage[i] is read, is written; uniforms are read */
    uint8_t num_storage, num_uniform;
    uint32_t groups[3];
    struct gl_range indirect; /* three uint32 group counts on the device instead of groups[] */
    uint32_t barrier; /* gl_hazards_derive(): 0, or the bits to issue before this dispatch */
};

/* Fills in `barrier` for each record so that conflicting accesses (RAW, WAR, WAW on overlapping
 * ranges, by storage, uniform or indirect use) are ordered and independent records share one
 * barrier. `repeats`: the list will be replayed after itself, so its head also waits for its tail.
 * Pure host arithmetic; no device. */
void gl_hazards_derive(struct gl_dispatch *list, size_t count, bool repeats);

/* Queues the records in order, after everything queued before; no allocation, no look-up. Waits
 * only when GL_MAX_IN_FLIGHT fences are unfinished. Errors of the driver surface at the next flush,
 * wait or readback, once for all that was queued. `gpu_ns`, when not NULL, has room for `count`
 * times and gets each record's GPU time (waits; UINT64_MAX where the driver has no timer or was
 * disjoint). */
enum dgl_status gl_submit(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                          uint64_t *gpu_ns);
/* The time of a list that is submitted `rounds` times, each after the one before: by the GPU's
 * clock, or by the host's where the driver has no timer; UINT64_MAX where its clock was disjoint.
 * Waits before and after. */
enum dgl_status gl_submit_span(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                               uint32_t rounds, uint64_t *ns);
/* Whether gl_submit_span() goes by the GPU's clock. */
bool gl_has_timer(const struct gl_device *dev);
/* What the timers around the records of a list add to the time of each, by running the list, at
 * most GL_TIMER_COST_MAX records, with all timers and with two; 0 without timers. Waits. */
#define GL_TIMER_COST_MAX 64
enum dgl_status gl_timer_cost(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                              uint64_t *ns);
/* Starts queued work without waiting for it. */
enum dgl_status gl_flush(struct gl_device *dev);
/* Waits until everything is done; also where asynchronous errors surface. */
enum dgl_status gl_finish(struct gl_device *dev);
/* A point behind what was queued so far; {0}: none. */
struct gl_mark {
    void *fence;
    uint32_t context; /* that it is of */
};
/* Sets a mark that is none, and starts what is queued before it. */
enum dgl_status gl_mark_set(struct gl_device *dev, struct gl_mark *mark);
/* Polls; when the device got there, or the context was lost, the mark is none, which is reached. */
bool gl_mark_is_reached(struct gl_device *dev, struct gl_mark *mark);
/* Waits for it; it is none then, also on failure. */
enum dgl_status gl_mark_wait(struct gl_device *dev, struct gl_mark *mark);
void gl_mark_drop(struct gl_device *dev, struct gl_mark *mark);

#endif
