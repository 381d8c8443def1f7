/* Programs: compiled from GLSL or loaded from the cache, in parallel if the driver can. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "gl/gl_internal.h"

/* A program that is being compiled or loaded. */
struct job {
    const struct gl_program_params *params;
    GLuint id, shader;        /* shader is 0 unless this process compiles it */
    bool linking;             /* the linker has been started */
    char key[65];             /* cache key, or "" without a cache */
    bool compiled;            /* not found in the cache */
    bool store;               /* store its binary in the cache */
    uint64_t ns;              /* time that it took to compile */
    struct gl_remote *remote; /* request to the compiler process, or NULL */
};

static const char *label_of(const struct gl_program_params *params)
{
    return params->label ? params->label : "unnamed";
}

struct gl_pending {
    struct gl_program_params params; /* owns copies of `source` and `label` */
    struct job job;
    uint32_t context; /* as in gl_program */
    uint64_t start_ns;
    struct gl_pending *next; /* in gl_device.unwanted */
};

bool gl_has_compiler_threads(const struct gl_device *dev)
{
    return dev->caps.parallel_compile && !dev->caps.software;
}

/* Returns true if sources without a verdict may be compiled by the compiler process. Does not start
 * it. */
static bool may_be_guarded(const struct gl_device *dev)
{
    return !dev->in_process && !dev->compiler_told && !gl_verdict_is_known_good(&dev->caps);
}

/* Returns true if the compiler process runs and must compile sources without a verdict. Starts it
 * if needed; logs one notice if it cannot be started. */
static bool is_guarded(struct gl_device *dev)
{
    if (!may_be_guarded(dev))
        return false;
    if (gl_compiler_start(dev))
        return true;
    struct dgl_buf why = {0};
    gl_compiler_explain(dev, &why);
    dgl_notice(dev->log,
               "%s: kernels are compiled in this process, where a compiler that does not end "
               "cannot be stopped: %s",
               dev->caps.renderer, why.p ? why.p : "out of memory");
    dgl_buf_finish(&why);
    dev->compiler_told = true;
    return false;
}

bool gl_compiles_aside(const struct gl_device *dev)
{
    const bool mesa = strstr(dev->caps.version, "Mesa") != NULL;
    return (gl_has_compiler_threads(dev) && !mesa) || may_be_guarded(dev);
}

/* ---- start: nothing here waits for the compiler ---------------------------------------------- */

static bool take_binary(struct gl_device *dev, const struct job *job, uint32_t format,
                        const void *bytes, size_t len)
{
    GLint linked = GL_FALSE;
    glProgramBinary(job->id, format, bytes, (GLsizei)len);
    glGetProgramiv(job->id, GL_LINK_STATUS, &linked);
    if (linked)
        return true;
    while (glGetError() != GL_NO_ERROR && gl_reset_check(dev) == DGL_OK)
        ; /* a driver may refuse a binary for any reason: the caller compiles the source instead */
    return false;
}

/* Cache contents for a source: nothing, a program, or a verdict (GOOD: it compiles, BAD: it does
 * not). */
enum found { FOUND_NOTHING, FOUND_PROGRAM, FOUND_GOOD, FOUND_BAD };

/* Looks a source up in the cache. A bad verdict is used only if its limits were at least the
 * current ones; it is copied to *verdict. */
static enum found look_up(struct gl_device *dev, const struct job *job, struct gl_remote *verdict)
{
    uint32_t format = 0;
    void *bytes = NULL;
    size_t len = 0;
    enum found found = FOUND_NOTHING;

    if (!job->key[0] || !gl_progcache_load(&dev->cache, job->key, &format, &bytes, &len))
        return FOUND_NOTHING;
    if (format != GL_VERDICT_FORMAT) {
        if (dev->cache.programs && take_binary(dev, job, format, bytes, len))
            found = FOUND_PROGRAM;
    } else if (gl_verdict_read(bytes, len, verdict)) {
        const bool timed = verdict->end == GL_COMPILE_TIME || verdict->end == GL_COMPILE_BLOCKED;
        if (verdict->end == GL_COMPILE_OK)
            found = FOUND_GOOD;
        else if (timed ? verdict->limits.cpu_ns >= dev->compile_limits.cpu_ns
                       : verdict->end != GL_COMPILE_MEMORY ||
                             verdict->limits.memory_bytes >= dev->compile_limits.memory_bytes)
            found = FOUND_BAD;
    }
    free(bytes);
    return found;
}

static void start_compiler(struct job *job)
{
    const GLint len = (GLint)job->params->len;
    job->shader = glCreateShader(GL_COMPUTE_SHADER);
    job->store = true;
    glShaderSource(job->shader, 1, &job->params->source, &len);
    glCompileShader(job->shader);
}

static void start_linker(struct job *job)
{
    job->linking = true;
    glAttachShader(job->id, job->shader);
    if (job->key[0])
        glProgramParameteri(job->id, GL_PROGRAM_BINARY_RETRIEVABLE_HINT, GL_TRUE);
    glLinkProgram(job->id);
}

/* Loads a program from the cache, or starts its compilation. */
static enum dgl_status start_job(struct gl_device *dev, struct job *job)
{
    const struct gl_program_params *params = job->params;
    struct gl_remote verdict;

    job->id = glCreateProgram();
    if (!job->id)
        return gl_errors_check(dev, "creating a program");
    if (!gl_progcache_key(&dev->cache, params->source, params->len, job->key))
        job->key[0] = '\0';
    const enum found found = look_up(dev, job, &verdict);
    if (found == FOUND_PROGRAM)
        return DGL_OK;
    job->compiled = true;
    if (found == FOUND_BAD)
        job->remote = gl_remote_settled(dev, &verdict);
    else if (found == FOUND_NOTHING && is_guarded(dev))
        job->remote = gl_remote_create(dev, params, &(struct gl_compile_limits){0}, false);
    if (!job->remote && found != FOUND_BAD) /* also if the compiler process is gone */
        start_compiler(job);
    return job->remote || job->shader ? DGL_OK
                                      : dgl_fail_memory(dev->log, "a kernel source", params->len);
}

/* Starts all compilers before the first linker, so that a driver with compiler threads has work for
 * all of them. */
static enum dgl_status start_jobs(struct gl_device *dev, struct job *jobs, size_t count)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < count && status == DGL_OK; i++) {
        const struct gl_program_params *params = jobs[i].params;
        if (params->len > INT32_MAX)
            return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                            "kernel %s: a source of %zu bytes is too long", label_of(params),
                            params->len);
        if (jobs[i].id) /* gl_pending_create() started it */
            continue;
        const uint64_t start_ns = dgl_now_ns();
        gl_watch_begin(dev, label_of(params));
        status = start_job(dev, &jobs[i]);
        gl_watch_end(dev);
        jobs[i].ns = dgl_now_ns() - start_ns;
    }
    for (size_t i = 0; i < count && status == DGL_OK; i++)
        if (jobs[i].shader && !jobs[i].linking) {
            const uint64_t start_ns = dgl_now_ns();
            gl_watch_begin(dev, label_of(jobs[i].params));
            start_linker(&jobs[i]);
            gl_watch_end(dev);
            jobs[i].ns += dgl_now_ns() - start_ns;
        }
    return status;
}

/* ---- collect --------------------------------------------------------------------------------- */

/* Logs that a source did not compile, and returns the status of the call. `words` is the driver's
 * log or the exceeded limit, or NULL when out of memory. */
static enum dgl_status refuse(struct gl_device *dev, const struct job *job, bool linking,
                              const char *words)
{
    const struct gl_program_params *params = job->params;
    struct dgl_buf joined = {0}; /* lines of the driver's log as one line of about 800 bytes */
    struct dgl_str rest = dgl_str_of(words), part;
    const char *origin = params->origin ? params->origin : "builtin";
    const char *step = linking ? "link" : "compile";
    enum dgl_status status = DGL_ERR_KERNEL;
    while (words && joined.len < 800 && dgl_str_split(&rest, '\n', &part)) {
        part = dgl_str_trim(part);
        if (part.len > 0)
            dgl_buf_printf(&joined, "%s%.*s", joined.len ? " | " : "", (int)part.len, part.p);
    }
    if (words && joined.len == 0)
        dgl_buf_puts(&joined, "the driver gives no reason");
    char *line = dgl_buf_take(&joined);
    if (!line)
        status = dgl_fail_memory(dev->log, "the driver's words", 0);
    else if (params->refused)
        status = params->refused(params->refused_priv, linking, words);
    else if (!params->quiet)
        status = dgl_fail(dev->log, DGL_ERR_KERNEL, "kernel %s (%s) does not %s: %s",
                          label_of(params), origin, step, line);
    if (params->quiet && line)
        dgl_info(dev->log, "kernel %s (%s) does not %s: %s", label_of(params), origin, step, line);
    free(line);
    dgl_info(dev->log, "source of %s:", label_of(params));
    dgl_log_source(dev->log, DGL_LOG_INFO, params->source, params->len);
    return status;
}

/* Progress of a batch of programs, for the progress callback. */
struct batch {
    const struct gl_compile *how;
    size_t done, total;
};

static bool go_on(void *priv)
{
    const struct batch *b = priv;
    return !b->how || !b->how->progress_cb ||
           b->how->progress_cb(b->how->progress_priv, "kernels", b->done, b->total);
}

/* Waits for the compiler process and loads the binary that it returns. If it returns none, this
 * process compiles. DGL_ERR_CANCELLED: `go_on` or gl_device_set_stop() ended the wait. */
static enum dgl_status collect_remote(struct gl_device *dev, struct job *job, struct batch *batch)
{
    struct gl_remote *r = job->remote;
    struct dgl_buf words = {0};
    enum dgl_status status = gl_remote_wait(dev, r, label_of(job->params), go_on, batch);
    if (status != DGL_OK)
        return status;
    job->ns += r->cpu_ns;
    gl_remote_remember(dev, r, job->params->source, job->params->len);
    if (r->end == GL_COMPILE_LOST)
        dgl_warn(dev->log,
                 "kernel %s is compiled in this process, because the compiler process failed: %s",
                 label_of(job->params), r->words ? r->words : "");
    if (r->end == GL_COMPILE_OK || r->end == GL_COMPILE_LOST) {
        gl_watch_begin(dev, label_of(job->params));
        if (r->binary_len == 0 || !take_binary(dev, job, r->format, r->binary, r->binary_len)) {
            start_compiler(job);
            start_linker(job);
        }
        gl_watch_end(dev);
    } else {
        gl_remote_explain(r, &words);
        const char *origin = job->params->origin;
        if (r->end != GL_COMPILE_REFUSED)
            dgl_buf_printf(&words, " on %s", dev->caps.renderer);
        if (r->earlier)
            dgl_buf_puts(&words,
                         " (found by an earlier run; `dopplergl cache purge` compiles again)");
        if (r->end != GL_COMPILE_REFUSED && origin && strcmp(origin, "builtin") != 0)
            dgl_buf_puts(&words, ": change the file or leave it out");
        if (job->params->end)
            *job->params->end = r->end;
        status = refuse(dev, job, r->linking, words.failed ? NULL : words.p);
    }
    dgl_buf_finish(&words);
    gl_remote_destroy(dev, &job->remote);
    return status;
}

/* Waits for the driver's compiler and linker, and reports their errors. Does nothing for a program
 * that was loaded. */
static enum dgl_status collect_job(struct gl_device *dev, const struct job *job)
{
    GLint compiled = GL_FALSE, linked = GL_FALSE;

    if (!job->shader)
        return DGL_OK;
    glGetShaderiv(job->shader, GL_COMPILE_STATUS, &compiled);
    if (compiled)
        glGetProgramiv(job->id, GL_LINK_STATUS, &linked);
    if (linked)
        return DGL_OK;
    enum dgl_status status = gl_reset_check(dev);
    if (status != DGL_OK)
        return status;
    if (job->params->end)
        *job->params->end = GL_COMPILE_REFUSED;
    GLint len = 0;
    if (compiled)
        glGetProgramiv(job->id, GL_INFO_LOG_LENGTH, &len);
    else
        glGetShaderiv(job->shader, GL_INFO_LOG_LENGTH, &len);
    char *words = dgl_calloc((size_t)(len > 0 ? len : 0) + 1, 1);
    if (words && len > 0 && compiled)
        glGetProgramInfoLog(job->id, len, NULL, words);
    else if (words && len > 0)
        glGetShaderInfoLog(job->shader, len, NULL, words);
    status = refuse(dev, job, compiled, words);
    free(words);
    return status;
}

void *gl_binary_get(GLuint program, uint32_t *format, size_t *len)
{
    GLint most = 0;
    GLsizei got = 0;
    glGetProgramiv(program, GL_PROGRAM_BINARY_LENGTH, &most);
    void *bytes = most > 0 ? dgl_malloc((size_t)most) : NULL;
    if (bytes)
        glGetProgramBinary(program, most, &got, format, bytes);
    if (got <= 0) {
        free(bytes);
        return NULL;
    }
    *len = (size_t)got;
    return bytes;
}

static void store_binary(struct gl_device *dev, const struct job *job)
{
    uint32_t format = 0;
    size_t len = 0;
    if (!job->key[0] || !job->store || !dev->cache.programs)
        return;
    void *bytes = gl_binary_get(job->id, &format, &len);
    if (bytes)
        gl_progcache_store(&dev->cache, job->key, format, bytes, len);
    free(bytes);
}

/* Makes the driver generate machine code, by a dispatch with no work groups. llvmpipe generates it
 * at the first dispatch of a program, and the drivers under zink when a pipeline is created. Either
 * may use another thread, so the function waits. */
static enum dgl_status make_machine_code(struct gl_device *dev, const struct job *job)
{
    const struct dgl_limits *lim = &dev->caps.limits;
    const uint32_t size = lim->max_ubo_bytes < GL_ZEROS_BYTES ? lim->max_ubo_bytes : GL_ZEROS_BYTES;
    GLsync fence = NULL;
    enum dgl_status status;
    TRY(gl_zeros_init(dev));
    gl_barrier(dev, GL_COMMAND_BARRIER_BIT);
    /* Some drivers read the address of each buffer that a program uses even if no group is
     * dispatched. panfrost on Bifrost v7 (Mali G31, G52; Mesa 25.0.7) crashes if a binding is
     * empty. */
    for (GLuint i = 0; i < lim->max_ssbo_bindings; i++) {
        glBindBufferRange(GL_SHADER_STORAGE_BUFFER, i, dev->zeros, 0, GL_ZEROS_BYTES);
        dev->bound.storage[i] = (struct gl_binding){dev->zeros, 0, GL_ZEROS_BYTES};
    }
    for (GLuint i = 0; i < GL_MAX_UNIFORM; i++) {
        glBindBufferRange(GL_UNIFORM_BUFFER, i, dev->zeros, 0, (GLsizeiptr)size);
        dev->bound.uniform[i] = (struct gl_binding){dev->zeros, 0, size};
    }
    glUseProgram(job->id);
    glBindBuffer(GL_DISPATCH_INDIRECT_BUFFER, dev->zeros);
    dev->bound.program = job->id;
    dev->bound.indirect = dev->zeros;
    glDispatchComputeIndirect(0);
    dev->counters.dispatches++;
    TRY(gl_errors_check(dev, label_of(job->params)));
    TRY(gl_fence_create(dev, &fence));
    status = gl_fence_wait(dev, &fence);
done:
    return status;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Logs one line about a batch at DGL_LOG_INFO, unless it is a single program from the cache. Each
 * program also has a line at DGL_LOG_DEBUG. */
static void note_batch(const struct gl_device *dev, const struct job *jobs, size_t count,
                       uint64_t start_ns)
{
    const char *dir = dev->cache.programs ? dev->cache.dir : NULL;
    const struct job *slowest = NULL;
    struct dgl_buf line = {0};
    size_t found = 0;
    if (!dgl_log_enabled(dev->log, DGL_LOG_INFO))
        return;
    for (size_t i = 0; i < count; i++) {
        found += !jobs[i].compiled;
        if (jobs[i].compiled && (!slowest || jobs[i].ns > slowest->ns))
            slowest = &jobs[i];
    }
    dgl_buf_printf(&line, "kernels: %zu in %.0f ms, %zu of them compiled, %zu found in %s", count,
                   (double)(dgl_now_ns() - start_ns) * 1e-6, count - found, found,
                   dir ? dir : "no cache");
    if (slowest)
        dgl_buf_printf(&line, "; slowest: %s, %.1f s", label_of(slowest->params),
                       (double)slowest->ns * 1e-9);
    if ((count > 1 || slowest) && !line.failed)
        dgl_info(dev->log, "%s", line.p);
    dgl_buf_finish(&line);
    if (found < count && dev->cache.programs && dev->cache.reason && !dev->cache.told)
        dgl_info(dev->log, "compiled programs are not kept: %s", dev->cache.reason);
}

/* Waits for the compiler and creates the program, which takes over the GL name of the job. */
static enum dgl_status take_job(struct gl_device *dev, struct job *job, struct batch *batch,
                                struct gl_program **out)
{
    const struct gl_compile *how = batch->how;
    uint64_t start_ns = dgl_now_ns();
    enum dgl_status status = job->remote ? collect_remote(dev, job, batch) : DGL_OK;
    if (status != DGL_OK)
        return status;
    const uint64_t here_ns = dgl_now_ns(); /* the processor time of the compiler process was added;
                                            * the wait for it does not count */
    gl_watch_begin(dev, label_of(job->params));
    status = collect_job(dev, job);
    if (status == DGL_OK)
        status = gl_errors_check(dev, "linking programs");
    if (status == DGL_OK && how && how->machine_code)
        status = make_machine_code(dev, job);
    gl_watch_end(dev);
    if (status != DGL_OK)
        return status;
    job->ns += dgl_now_ns() - here_ns;
    store_binary(dev, job);
    struct gl_program *program = dgl_new(struct gl_program);
    if (program)
        program->label = dgl_strdup(label_of(job->params));
    if (!program || !program->label) {
        free(program);
        return dgl_fail_memory(dev->log, "a program's record", sizeof(*program));
    }
    program->refs = 1;
    program->id = job->id;
    program->context = dev->context;
    job->id = 0;
    gl_debug_label(dev, GL_PROGRAM_KHR, program->id, program->label);
    dgl_debug(dev->log, "kernel %s: %s, %.1f ms", program->label,
              job->compiled ? "compiled" : "found in the cache",
              (double)(dgl_now_ns() - start_ns) * 1e-6);
    gl_event_end(dev, GL_EVENT_PROGRAM, start_ns, program->label, 0);
    *out = program;
    return DGL_OK;
}

/* Deletes what a job still owns. take_job() sets `id` to 0, so a finished program is kept. */
static void drop_job(struct gl_device *dev, struct job *job)
{
    gl_remote_destroy(dev, &job->remote);
    if (job->shader)
        glDeleteShader(job->shader); /* deleted with its program, or now if there is none */
    if (!job->id)
        return;
    glDeleteProgram(job->id);
    if (dev->bound.program == job->id)
        dev->bound.program = 0;
}

enum dgl_status gl_programs_create(struct gl_device *dev, const struct gl_program_params *params,
                                   size_t count, const struct gl_compile *how,
                                   struct gl_program **out)
{
    /* Number of programs that are started ahead: all, if compiling does not block the caller. */
    size_t ahead = gl_has_compiler_threads(dev) || may_be_guarded(dev) ? count : 1;
    struct batch batch = {how, 0, count};
    uint64_t start_ns = dgl_now_ns();
    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    struct job *jobs = dgl_new_array(struct job, count);
    enum dgl_status status = gl_lost_check(dev);
    if (status == DGL_OK && !jobs)
        status = dgl_fail_memory(dev->log, "a batch of programs", count * sizeof(*jobs));
    for (size_t i = 0; i < count; i++) {
        struct gl_pending *begun = params[i].begun ? *params[i].begun : NULL;
        if (begun && status == DGL_OK && !gl_pending_is_stale(dev, begun)) {
            jobs[i] = begun->job;
            begun->job = (struct job){0};
        }
        if (begun)
            gl_pending_destroy(dev, params[i].begun);
        if (jobs)
            jobs[i].params = &params[i];
    }
    TRY(status);
    TRY(count == 0 || go_on(&batch) ? DGL_OK : DGL_ERR_CANCELLED);
    while (batch.done < count) {
        const size_t i = batch.done;
        if (i % ahead == 0)
            TRY(start_jobs(dev, jobs + i, ahead));
        TRY(take_job(dev, &jobs[i], &batch, &out[i]));
        batch.done++;
        TRY(go_on(&batch) ? DGL_OK : DGL_ERR_CANCELLED);
    }
    if (count > 0)
        note_batch(dev, jobs, count, start_ns);
done:
    gl_progcache_trim(&dev->cache);
    for (size_t i = 0; jobs && i < count; i++) {
        drop_job(dev, &jobs[i]);
        if (status != DGL_OK)
            gl_program_destroy(dev, &out[i]);
    }
    if (status == DGL_OK)
        dev->counters.programs_linked += count;
    free(jobs);
    return status;
}

/* ---- pending programs ------------------------------------------------------------------------ */

/* Returns a pending program with a copy of the parameters, or NULL when out of memory. */
static struct gl_pending *pending_new(const struct gl_device *dev,
                                      const struct gl_program_params *params)
{
    struct gl_pending *pending = dgl_new(struct gl_pending);
    char *source = dgl_calloc(params->len + 1, 1), *label = dgl_strdup(label_of(params));
    if (!pending || !source || !label) {
        free(pending);
        free(source);
        free(label);
        return NULL;
    }
    memcpy(source, params->source, params->len);
    pending->params = *params;
    pending->params.source = source;
    pending->params.label = label;
    pending->job.params = &pending->params;
    pending->context = dev->context;
    pending->start_ns = dgl_now_ns();
    return pending;
}

enum dgl_status gl_pendings_create(struct gl_device *dev, const struct gl_program_params *params,
                                   size_t count, struct gl_pending **out)
{
    struct job *jobs = dgl_new_array(struct job, count);
    enum dgl_status status;
    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    TRY(gl_lost_check(dev));
    if (!jobs)
        TRY(dgl_fail_memory(dev->log, "programs", count * sizeof(*jobs)));
    for (size_t i = 0; i < count; i++) {
        out[i] = pending_new(dev, &params[i]);
        if (!out[i])
            TRY(dgl_fail_memory(dev->log, "a program", params[i].len));
        jobs[i] = out[i]->job;
    }
    status = start_jobs(dev, jobs, count);
    for (size_t i = 0; i < count; i++)
        out[i]->job = jobs[i];
done:
    for (size_t i = 0; i < count && status != DGL_OK; i++)
        gl_pending_destroy(dev, &out[i]);
    free(jobs);
    return status;
}

enum dgl_status gl_pending_create(struct gl_device *dev, const struct gl_program_params *params,
                                  struct gl_pending **out)
{
    return gl_pendings_create(dev, params, 1, out);
}

bool gl_pending_is_stale(const struct gl_device *dev, const struct gl_pending *pending)
{
    return pending->context != dev->context;
}

bool gl_pending_is_ready(struct gl_device *dev, const struct gl_pending *pending)
{
    GLint done = GL_TRUE;
    if (pending->job.remote)
        return gl_remote_poll(dev, pending->job.remote, 0);
    if (!dev->lost && !gl_pending_is_stale(dev, pending) && gl_has_compiler_threads(dev) &&
        pending->job.shader && pending->job.id)
        glGetProgramiv(pending->job.id, GL_COMPLETION_STATUS_KHR, &done);
    return done == GL_TRUE;
}

enum dgl_status gl_pending_take(struct gl_device *dev, struct gl_pending **ppending,
                                struct gl_program **out)
{
    struct gl_pending *pending = *ppending;
    *out = NULL;
    assert(!gl_pending_is_stale(dev, pending));
    enum dgl_status status = gl_lost_check(dev);
    if (status == DGL_OK)
        status = take_job(dev, &pending->job, &(struct batch){0}, out);
    gl_progcache_trim(&dev->cache);
    if (status == DGL_OK) {
        note_batch(dev, &pending->job, 1, pending->start_ns);
        dev->counters.programs_linked++;
    }
    gl_pending_destroy(dev, ppending);
    return status;
}

static void pending_free(struct gl_device *dev, struct gl_pending *pending)
{
    if (gl_owns_names(dev, pending->context))
        drop_job(dev, &pending->job);
    free((char *)pending->params.source);
    free((char *)pending->params.label);
    free(pending);
}

void gl_pending_destroy(struct gl_device *dev, struct gl_pending **ppending)
{
    struct gl_pending *pending = *ppending;
    *ppending = NULL;
    if (!pending)
        return;
    /* A request to the compiler process can be cancelled, but the driver's threads cannot be
     * stopped. */
    if (!gl_owns_names(dev, pending->context) || pending->job.remote ||
        gl_pending_is_ready(dev, pending)) {
        pending_free(dev, pending);
        return;
    }
    pending->next = dev->unwanted;
    dev->unwanted = pending;
}

bool gl_is_compiling(struct gl_device *dev)
{
    struct gl_pending **at = &dev->unwanted, *pending;
    while ((pending = *at)) {
        GLint linked = GL_FALSE;
        if (!gl_pending_is_ready(dev, pending)) {
            at = &pending->next;
            continue;
        }
        if (!dev->lost)
            glGetProgramiv(pending->job.id, GL_LINK_STATUS, &linked);
        if (linked == GL_TRUE)
            store_binary(dev, &pending->job);
        *at = pending->next;
        pending_free(dev, pending);
    }
    return dev->unwanted != NULL;
}

void gl_unwanted_finish(struct gl_device *dev)
{
    while (dev->unwanted) {
        struct gl_pending *next = dev->unwanted->next;
        pending_free(dev, dev->unwanted);
        dev->unwanted = next;
    }
}

/* ---- the cache ------------------------------------------------------------------------------- */

bool gl_program_key(const struct gl_device *dev, const char *source, size_t len, char key[65])
{
    return gl_progcache_key(&dev->cache, source, len, key);
}

const char *gl_program_cache_device(const struct gl_device *dev)
{
    return dev->cache.device;
}

bool gl_program_is_kept(const struct gl_device *dev)
{
    return dev->cache.programs;
}

const char *gl_program_cache_dir(struct gl_device *dev)
{
    struct gl_progcache *cache = &dev->cache;
    if (gl_progcache_prepare(cache))
        return cache->dir;
    gl_progcache_tell(cache, dev->log);
    return NULL;
}

struct gl_program *gl_program_ref(struct gl_program *program)
{
    program->refs++;
    return program;
}

void gl_program_destroy(struct gl_device *dev, struct gl_program **pprogram)
{
    struct gl_program *program = *pprogram;

    *pprogram = NULL;
    if (!program || --program->refs > 0)
        return;
    if (gl_owns_names(dev, program->context))
        glDeleteProgram(program->id);
    if (dev->bound.program == program->id)
        dev->bound.program = 0;
    free(program->label);
    free(program);
}

const char *gl_program_label(const struct gl_program *program)
{
    return program->label;
}
