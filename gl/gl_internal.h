/* The device and its parts, shared by the files of gl/. */
#ifndef DGL_GL_INTERNAL_H
#define DGL_GL_INTERNAL_H

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GLES3/gl31.h>
#include <GLES2/gl2ext.h>
#include <string.h>

#include "core/base/cache_kind.h"
#include "core/base/status.h"
#include "core/base/str.h"
#include "gl/gl.h"

/* Copies text, truncated if it does not fit. NULL counts as "". */
static inline void gl_text_copy(char *dst, size_t size, const char *text)
{
    size_t len = text ? strnlen(text, size - 1) : 0;
    memcpy(dst, text ? text : "", len);
    dst[len] = '\0';
}

#define GL_REASON_BYTES sizeof(((struct gl_node *)0)->reason)

/* ---- gl_enum.c: the device table, without opening anything ----------------------------------- */

/* Returns true for llvmpipe, softpipe, swrast, SwiftShader and lavapipe, also under zink, which
 * puts the Vulkan name in brackets. Returns false for virgl, the GPU of a virtual machine, even if
 * the host renders in software: the machine has no other device. */
bool gl_renderer_is_software(const char *renderer);
/* Returns true for virgl if its host renders in software. It is slow, but counts as hardware. */
bool gl_renderer_host_is_software(const char *renderer);
#define GL_HOST_SOFTWARE_NOTE "the host of this virtual machine renders in software"
/* Sets `order` to the rows that `select` allows, best first. Fails if `select` is malformed or
 * names no row. */
enum dgl_status gl_nodes_select(const struct dgl_log *log, const struct gl_node *nodes, int count,
                                const char *select, int order[GL_MAX_NODES], int *num);
/* Logs one error line with the reason of each row. Returns DGL_ERR_NO_DEVICE. */
enum dgl_status gl_nodes_refuse(const struct dgl_log *log, const struct gl_node *nodes, int count,
                                const char *select);

/* ---- gl_egl.c: display and context of a row -------------------------------------------------- */

struct gbm_device;

struct gl_egl {
    EGLDisplay display;
    EGLContext context;
    EGLSurface surface;     /* EGL_NO_SURFACE unless the display requires a surface */
    struct gbm_device *gbm; /* NULL unless the display was opened through GBM */
    void (*gbm_destroy)(struct gbm_device *gbm);
    int fd;          /* descriptor of gbm's node; -1 if none */
    char driver[64]; /* name of the driver from EGL */
    char renderer[128];
    char too_old[128]; /* renderer that gl_egl_open() refused because of its version, or "" */
};

/* The ways to open a row, in the order in which they are tried. */
enum gl_way { GL_WAY_DEVICE, GL_WAY_GBM, GL_WAY_SURFACELESS, GL_WAY_DEFAULT, GL_WAY_COUNT };
#define GL_CAUSE_BYTES 200
/* Joins the causes why each way failed. Ways with equal causes are listed together: "EGL device,
 * GBM: CAUSE". "" means no cause. Clears repeated causes. */
void gl_causes_join(char causes[GL_WAY_COUNT][GL_CAUSE_BYTES], char reason[GL_REASON_BYTES]);
/* Tries the ways to open a row and makes the new context current. Returns false and sets `reason`
 * on failure; no context of ours is left then. The caller restores the previous context, also after
 * success. Logs nothing. */
bool gl_egl_open(struct gl_egl *egl, const struct gl_node *node, bool debug,
                 char reason[GL_REASON_BYTES]);
void gl_egl_close(struct gl_egl *egl);
/* Makes the context current in this thread. */
bool gl_egl_make_current(const struct gl_egl *egl);
/* Returns true if Mesa's EGL library is loaded, and the folders in which it looks for its drivers
 * have none. Writes these folders, separated by colons. */
#define GL_DRI_BYTES 100
bool gl_dri_is_missing(char folders[GL_DRI_BYTES]);
/* Returns true if `version` (GL_VERSION) is OpenGL ES 3.1 or later. Otherwise sets `words` to a
 * phrase such as "OpenGL ES 3.0 (Mesa 25.0.7), 3.1 is needed". */
bool gl_version_check(const char *version, char words[GL_CAUSE_BYTES]);
/* Remembers the current context of this thread and selects the ES API. */
void gl_current_save(struct gl_saved *saved);
/* Restores the saved context and API. If the thread had no current context, releases the current
 * one; `ours` is its display. */
void gl_current_restore(EGLDisplay ours, const struct gl_saved *saved);
const char *gl_egl_error_name(EGLint error);
/* Returns DGL_ERR_NO_DEVICE in a process that was forked after a device had been opened, because
 * drivers hang there. Must be called before EGL is used. gl_device.c */
enum dgl_status gl_fork_check(const struct dgl_log *log);

/* ---- gl_ext.c: extensions and their functions ------------------------------------------------ */

/* Returns true if `name` is one of the words of `list`. */
bool gl_ext_has(const char *list, const char *name);

/* Queries of NVX_gpu_memory_info and ATI_meminfo. Both return KiB. */
#define GL_NVX_TOTAL 0x9048
#define GL_NVX_FREE  0x9049
#define GL_ATI_FREE  0x87FB /* VBO_FREE_MEMORY_ATI: 4 numbers; the first is the free total */

struct gl_ext {
    /* True only if every function of the extension was found. */
    bool buffer_storage, timer_query, parallel_compile, debug, robustness;
    bool subgroup, nv_gpu_shader5, gpu_shader5, memory_info, ati_meminfo, memory_object_fd;
    PFNGLBUFFERSTORAGEEXTPROC BufferStorage;
    PFNGLQUERYCOUNTEREXTPROC QueryCounter;
    PFNGLGETQUERYIVEXTPROC GetQueryiv;
    PFNGLGETQUERYOBJECTUI64VEXTPROC GetQueryObjectui64v;
    PFNGLMAXSHADERCOMPILERTHREADSKHRPROC MaxShaderCompilerThreads;
    PFNGLDEBUGMESSAGECALLBACKKHRPROC DebugMessageCallback;
    PFNGLDEBUGMESSAGECONTROLKHRPROC DebugMessageControl;
    PFNGLOBJECTLABELKHRPROC ObjectLabel;
    PFNGLPUSHDEBUGGROUPKHRPROC PushDebugGroup;
    PFNGLPOPDEBUGGROUPKHRPROC PopDebugGroup;
    PFNGLGETGRAPHICSRESETSTATUSKHRPROC GetGraphicsResetStatus;
    PFNGLCREATEMEMORYOBJECTSEXTPROC CreateMemoryObjects;
    PFNGLDELETEMEMORYOBJECTSEXTPROC DeleteMemoryObjects;
    PFNGLMEMORYOBJECTPARAMETERIVEXTPROC MemoryObjectParameteriv;
    PFNGLIMPORTMEMORYFDEXTPROC ImportMemoryFd;
    PFNGLBUFFERSTORAGEMEMEXTPROC BufferStorageMem;
    PFNGLGETUNSIGNEDBYTEI_VEXTPROC GetUnsignedBytei_v;
};
typedef void (*gl_proc)(void);
/* Sets `ext` from the extension string `list`. `get` returns a function by its name. */
void gl_ext_load(struct gl_ext *ext, const char *list, gl_proc (*get)(const char *name));

/* ---- gl_progcache.c: compiled programs on disk ----------------------------------------------- */

struct gl_progcache {
    char *dir;                           /* NULL if the cache is off */
    bool programs;                       /* the driver returns program binaries */
    char identity[65];                   /* hash of driver and format, part of every key */
    char device[DGL_CACHE_DEVICE_BYTES]; /* device and driver in cache files, for display */
    uint64_t max_bytes;                  /* limit of the folder; the oldest entries are deleted
                                          * first */
    bool stored;                         /* an entry was added since the last trim */
    char *reason; /* why programs could not be stored at the last attempt, or NULL */
    bool told;    /* the reason was logged */
};
struct gl_progcache_params {
    const char *dir; /* NULL selects the XDG folder, "" disables the cache */
    const char *vendor, *renderer, *version;
    const int32_t *formats; /* binary formats of the driver */
    int num_formats;        /* 0: programs are not stored, only other files */
};
/* Never fails. If there is no usable folder, the cache is off. */
void gl_progcache_init(struct gl_progcache *cache, const struct gl_progcache_params *params);
/* Logs why nothing is stored, once. */
void gl_progcache_tell(struct gl_progcache *cache, const struct dgl_log *log);
void gl_progcache_finish(struct gl_progcache *cache);
bool gl_progcache_key(const struct gl_progcache *cache, const char *source, size_t len,
                      char key[65]);
/* Returns false if the entry is missing or invalid. The caller frees *bytes with free(). */
bool gl_progcache_load(struct gl_progcache *cache, const char *key, uint32_t *format, void **bytes,
                       size_t *len);
void gl_progcache_store(struct gl_progcache *cache, const char *key, uint32_t format,
                        const void *bytes, size_t len);
/* Creates the folder. Returns false if no entry can be added, and sets `reason` unless the cache is
 * off. */
bool gl_progcache_prepare(struct gl_progcache *cache);
/* Deletes the oldest entries beyond max_bytes, if an entry was added. */
void gl_progcache_trim(struct gl_progcache *cache);

/* ---- gl_compiler.c: client of the compiler process ------------------------------------------- */

/* A wait for a compiler is logged at DGL_LOG_NOTICE at this interval. */
#define GL_COMPILE_TELL_NS 10000000000ull

/* A request to the compiler process, and its result. */
struct gl_remote {
    uint64_t id;
    struct gl_remote *next;
    struct gl_compile_limits limits;
    bool done;    /* the fields below are set */
    bool earlier; /* the result is from the cache */
    enum gl_compile_end end;
    bool linking; /* GL_COMPILE_REFUSED: the linker refused, not the compiler */
    int signal;
    uint64_t cpu_ns, wall_ns, rss_bytes;
    uint32_t format;
    char *binary, *words, *stats;
    size_t binary_len;
};
/* Starts the compiler process if it is not running. Returns false if it cannot be started. */
bool gl_compiler_start(struct gl_device *dev);
/* Appends the reason why gl_compiler_start() returned false, as a clause. */
void gl_compiler_explain(const struct gl_device *dev, struct dgl_buf *out);
/* Kills the compiler process and its children. */
void gl_compiler_finish(struct gl_device *dev);
/* Sends a kernel source to the compiler process. Returns NULL when out of memory, if the process is
 * not running, or if the source is larger than GL_COMPILER_MAX_BYTES. `debug` requests the driver's
 * statistics. */
struct gl_remote *gl_remote_create(struct gl_device *dev, const struct gl_program_params *params,
                                   const struct gl_compile_limits *limits, bool debug);
/* Returns a request that is already done, with a verdict from the cache, or NULL when out of
 * memory. */
struct gl_remote *gl_remote_settled(struct gl_device *dev, const struct gl_remote *verdict);
/* Waits up to `wait_ms` for the reply. Returns true if the request is done. */
bool gl_remote_poll(struct gl_device *dev, struct gl_remote *remote, int wait_ms);
/* Waits for the reply, and logs "compiling KERNEL: N s" every GL_COMPILE_TELL_NS. Returns
 * DGL_ERR_CANCELLED if `go_on` (may be NULL) returned false or the flag of gl_device_set_stop() is
 * true. */
enum dgl_status gl_remote_wait(struct gl_device *dev, struct gl_remote *remote, const char *kernel,
                               bool (*go_on)(void *priv), void *priv);
/* Logs how long a kernel has been compiling. */
void gl_compiling_tell(const struct gl_device *dev, const char *kernel, uint64_t wall_ns);
/* Frees the request, and cancels its compilation if it is not done. Accepts NULL in *remote. */
void gl_remote_destroy(struct gl_device *dev, struct gl_remote **remote);
/* Appends the reason of a failure: the exceeded limit, the signal, or the driver's log. */
void gl_remote_explain(const struct gl_remote *remote, struct dgl_buf *out);
/* Stores the binary, or the verdict, in the cache. Does not store a refusal, a lost request, or a
 * compilation that was ended from outside. */
void gl_remote_remember(struct gl_device *dev, const struct gl_remote *remote, const char *source,
                        size_t len);
/* Parses a verdict from the cache. Returns false if it is malformed. */
bool gl_verdict_read(const char *bytes, size_t len, struct gl_remote *out);
/* Marks a cache entry as a verdict: stored instead of the binary format, which is never 0. */
#define GL_VERDICT_FORMAT 0u

/* ---- gl_watch.c: compilation in this process ------------------------------------------------- */

/* Watches the thread's compilation of `kernel` until gl_watch_end(). Does not nest. */
void gl_watch_begin(struct gl_device *dev, const char *kernel);
void gl_watch_end(struct gl_device *dev);
void gl_watch_finish(struct gl_device *dev);

/* ---- objects --------------------------------------------------------------------------------- */

struct gl_buffer {
    GLuint id;
    GLuint memory;    /* memory object of its storage; 0 if GL allocated the storage */
    uint32_t context; /* gl_device.context at its creation; `id` is valid in that context only */
    uint64_t size;
    char *label;
};

struct gl_program {
    GLuint id;
    uint32_t refs;    /* owners */
    uint32_t context; /* as in gl_buffer */
    char *label;
};

/* A buffer that host and GPU share. gl_hostbuf.c */
struct gl_hostbuf {
    GLuint id;
    uint64_t size;
    void *ptr; /* persistent mapping, or NULL if the driver has no EXT_buffer_storage */
};
enum gl_hostbuf_use { GL_HOSTBUF_UPLOAD, GL_HOSTBUF_READBACK };

/* Staging memory for writes, whose slots are segments. gl_upload.c */
#define GL_UPLOAD_SEGMENTS      4
#define GL_UPLOAD_SEGMENT_BYTES (1u << 20)
struct gl_upload {
    struct gl_staging *staging; /* NULL until it is needed */
    uint32_t segment, used;
};

#define GL_READBACK_SLOTS 16
struct gl_readback {
    struct gl_hostbuf ring; /* GL_READBACK_SLOTS slots of GL_READBACK_SLOT_BYTES */
    struct gl_hostbuf bulk; /* for gl_buffer_read() */
    struct gl_readback_slot {
        GLsync done; /* NULL if the slot is free */
        uint32_t size, serial;
    } slots[GL_READBACK_SLOTS];
    uint32_t next, serial;
};

/* GL_TIMER_BATCH dispatches are timed at once: one query before each, and one after the last. */
#define GL_TIMER_BATCH 256
struct gl_timer {
    GLuint queries[GL_TIMER_BATCH + 1];
    bool ready;
};

/* Fences after recent dispatches. Their progress distinguishes a slow device from a dead one. */
struct gl_in_flight {
    GLsync fences[GL_MAX_IN_FLIGHT];
    uint32_t head, count;
    uint32_t unfenced; /* dispatches after the last fence */
};

struct gl_binding {
    GLuint id;
    uint64_t offset, size;
};
/* Current bindings. A dispatch sets only those that change. */
struct gl_bound {
    GLuint program, indirect;
    struct gl_binding storage[GL_MAX_STORAGE], uniform[GL_MAX_UNIFORM];
};

/* State of gl_device_memory_now(). gl_memory.c */
struct gl_memory_node {
    int fd;                    /* render node, opened for queries; -1 if none */
    char driver[32];           /* kernel driver; "" if unknown */
    char device[64];           /* sysfs folder of the device */
    uint64_t resident_bytes;   /* software renderers: resident memory of this process when the
                                * device was opened */
    struct gl_memory_now last; /* previous result, returned while the device is lost */
};
struct gl_compiler;
struct gl_watch;

struct gl_device {
    const struct dgl_log *log;
    struct gl_node node;
    struct gl_egl egl;
    pid_t pid;    /* process that opened the device */
    bool wrapped; /* the caller owns display and context */
    bool debug;
    const char *limits; /* name of the limits profile, static; NULL if none */
    bool lost;          /* true until gl_device_reopen() succeeds */
    uint32_t context;   /* number of earlier contexts */
    struct gl_ext ext;
    struct gl_caps caps;
    struct gl_counters counters;
    struct gl_memory memory;
    struct gl_memory_node memory_node;
    struct gl_bound bound;
    uint32_t pending_barriers; /* glMemoryBarrier() bits that were not issued since the last
                                * dispatch */
    uint64_t wait_limit_ns;    /* the device is lost after this time without progress */
    const atomic_bool *stop;   /* from gl_device_set_stop(), or NULL */
    void (*observer)(void *priv, const struct gl_event *event); /* may be NULL */
    void *observer_priv;
    struct gl_in_flight in_flight;
    struct gl_upload upload;
    struct gl_readback readback;
    struct gl_timer timer;
    struct gl_progcache cache;
    struct gl_watch *watch;                  /* NULL until it is needed */
    struct gl_compiler *compiler;            /* NULL until it is needed */
    char *compiler_path;                     /* as gl_device_params.compiler */
    struct gl_compile_limits compile_limits; /* with defaults filled in */
    bool in_process;                         /* as gl_device_params.in_process */
    bool compiler_told;                      /* the notice about a missing compiler was logged */
    gl_compiling_cb compiling_cb;
    void *compiling_priv;
    struct dgl_buf *notes;       /* as in gl_device_params */
    struct gl_pending *unwanted; /* discarded programs that the driver still compiles */
    GLuint zeros;                /* buffer of GL_ZEROS_BYTES zeros; 0 if not created yet */
};
#define GL_ZEROS_BYTES (1u << 20)

/* ---- gl_caps.c ------------------------------------------------------------------------------- */

enum dgl_status gl_caps_query(struct gl_device *dev);
/* Returns the subgroup size if this device fills all subgroups in every program, else 0. */
uint32_t gl_subgroup_size(const char *renderer, uint32_t reported);
/* Guesses the number of compute units from the renderer's name. Used if the kernel driver does not
 * report it. */
uint32_t gl_units_guess(const char *renderer, bool software);
/* Guesses from the renderer's name how many 32-bit registers an invocation can use before the
 * driver's compiler spills. Returns 0 if no limit is known. */
uint32_t gl_registers_guess(const char *renderer, bool software);

/* ---- gl_memory.c ----------------------------------------------------------------------------- */

/* Opens the render node of the device and queries its memory and compute units. Requires
 * dev->caps.renderer and dev->ext. Never fails: a value that cannot be queried is unknown. May be
 * called again. */
void gl_memory_open(struct gl_device *dev);
void gl_memory_close(struct gl_device *dev);
struct gl_drm_memory;
struct gl_drm_used;
struct dgl_host_memory;
/* Computes the memory from a kernel driver's numbers, the host's memory, and the memory that this
 * process uses on the device (`used`, or NULL if unknown). `held` is the size of our buffers. */
void gl_memory_combine(const struct gl_drm_memory *drm, const struct dgl_host_memory *host,
                       const struct gl_drm_used *used, uint64_t held, struct gl_memory_now *out);

/* ---- gl_limits.c ----------------------------------------------------------------------------- */

/* Sets *found to the static copy of a profile's name, or to NULL if `name` is NULL. An unknown name
 * is DGL_ERR_INVALID_ARG. */
enum dgl_status gl_limits_find(const struct dgl_log *log, const char *name, const char **found);
/* Returns true if the profile allows the extension. NULL allows all. */
bool gl_limits_keep(const char *name, const char *extension);
/* Lowers the limits to those of the profile. A chip's profile also replaces compute units,
 * registers and wave size. Logs a notice for each limit of the device that is below the profile. */
void gl_limits_clamp(const struct dgl_log *log, const char *name, struct gl_caps *caps);

/* ---- gl_debug.c ------------------------------------------------------------------------------ */

void gl_debug_init(struct gl_device *dev);
void gl_debug_finish(struct gl_device *dev);
void gl_debug_label(const struct gl_device *dev, GLenum kind, GLuint id, const char *label);
const char *gl_error_name(GLenum error);
/* Returns and logs the GL errors since the last check. `what` names the work in the message. */
enum dgl_status gl_errors_check(struct gl_device *dev, const char *what);
/* Calls gl_errors_check() on a debug device only. For frequent calls. */
enum dgl_status gl_errors_check_debug(struct gl_device *dev, const char *what);

/* ---- gl_program.c ---------------------------------------------------------------------------- */

/* Deletes the discarded programs. Some drivers wait for their compiler first. */
void gl_unwanted_finish(struct gl_device *dev);

/* ---- gl_sync.c ------------------------------------------------------------------------------- */

/* Returns DGL_ERR_DEVICE_LOST if the device is lost. */
enum dgl_status gl_lost_check(const struct gl_device *dev);
/* Marks the device as lost and logs why. Returns DGL_ERR_DEVICE_LOST. */
enum dgl_status gl_lost_set(struct gl_device *dev, const char *why);
/* Queries the driver for a reset of the context. Marks the device as lost if there was one. */
enum dgl_status gl_reset_check(struct gl_device *dev);
enum dgl_status gl_fence_create(struct gl_device *dev, GLsync *out);
/* Does not wait. */
bool gl_fence_is_reached(GLsync fence);
/* Waits for the fence, deletes it and sets it to NULL, also on failure. */
enum dgl_status gl_fence_wait(struct gl_device *dev, GLsync *fence);
/* Like gl_fence_wait(), but returns DGL_ERR_CANCELLED once gl_is_stopped(). The caller must not
 * then write memory that the GPU may still read. */
enum dgl_status gl_fence_wait_or_stop(struct gl_device *dev, GLsync *fence);
/* Returns true if the flag of gl_device_set_stop() is true. */
bool gl_is_stopped(const struct gl_device *dev);
/* Maps bytes of a buffer that the GPU has written. Returns NULL on failure. The caller calls
 * glUnmapBuffer(GL_COPY_READ_BUFFER). */
const void *gl_result_map(struct gl_device *dev, GLuint id, uint64_t offset, uint64_t size);
/* Adds a fence after the dispatches that have none. */
enum dgl_status gl_in_flight_add(struct gl_device *dev);
/* Starts queued work. Counts as a submit. */
void gl_start(struct gl_device *dev);
void gl_in_flight_finish(struct gl_device *dev);
/* Returns the current time as the start of an event, or 0 if there is no observer. */
uint64_t gl_event_start(const struct gl_device *dev);
/* Reports an event that began at `start_ns` and ends now to the observer. */
void gl_event_end(const struct gl_device *dev, enum gl_event_kind kind, uint64_t start_ns,
                  const char *label, uint64_t bytes);
/* Issues the barriers in `bits` that are pending. */
void gl_barrier(struct gl_device *dev, uint32_t bits);
/* Returns true if the device's context is current, so that GL names may be deleted. */
bool gl_is_current(const struct gl_device *dev);
/* Like gl_is_current(), for names that were created when gl_device.context was `context`. */
bool gl_owns_names(const struct gl_device *dev, uint32_t context);

/* ---- gl_vulkan_memory.c ---------------------------------------------------------------------- */

/* Creates a buffer and its memory object. The caller deletes both. Returns false on failure; then
 * nothing was created, and no GL error is pending. */
bool gl_vulkan_memory_attach(struct gl_vulkan_memory *vm, uint64_t size, GLuint *buffer,
                             GLuint *memory);

/* ---- gl_hostbuf.c, gl_upload.c, gl_readback.c, gl_timer.c, gl_buffer.c ----------------------- */

enum dgl_status gl_hostbuf_init(struct gl_device *dev, struct gl_hostbuf *buf, uint64_t size,
                                enum gl_hostbuf_use use);
void gl_hostbuf_finish(struct gl_hostbuf *buf);

/* Returns true if the host's bytes are copied straight into buffers, without staging memory:
 * software drivers do so, and elsewhere glBufferSubData() could tempt the driver to keep the buffer
 * within the host's reach. */
bool gl_buffer_writes_directly(const struct gl_device *dev);
enum dgl_status gl_upload_write(struct gl_device *dev, GLuint dst, uint64_t offset,
                                const void *bytes, uint64_t size);
void gl_upload_finish(struct gl_device *dev);

void gl_readback_finish(struct gl_device *dev);

void gl_timer_init(struct gl_device *dev);
void gl_timer_finish(struct gl_device *dev);
/* Clears an earlier disjoint event before a batch is timed. */
void gl_timer_begin(struct gl_device *dev);
void gl_timer_stamp(struct gl_device *dev, size_t index);
/* Waits for `count` + 1 stamps and stores their differences. A difference is UINT64_MAX if it could
 * not be measured. */
enum dgl_status gl_timer_collect(struct gl_device *dev, size_t count, uint64_t *ns);

/* Creates dev->zeros if it does not exist. */
enum dgl_status gl_zeros_init(struct gl_device *dev);
/* Fails if the device is lost, and unless [offset, offset + size) is inside the buffer and both are
 * multiples of 4. */
enum dgl_status gl_buffer_range_check(const struct gl_device *dev, const struct gl_buffer *buffer,
                                      uint64_t offset, uint64_t size, const char *what);
/* Returns the binary of a linked program, or NULL if the driver gives none. The caller frees it. */
void *gl_binary_get(GLuint program, uint32_t *format, size_t *len);
/* Copies bytes between two GL buffers. */
void gl_copy(GLuint src, uint64_t src_offset, GLuint dst, uint64_t dst_offset, uint64_t size);

#endif
