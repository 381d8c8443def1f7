/* Client of the compiler process: starts it, sends kernel sources, waits for verdicts.
 * gl_compiler_main.c is the other end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "gl/gl_compiler.h"
#include "gl/gl_internal.h"

/* A program that sends no hello within this time does not count as a compiler process. */
#define HELLO_MS 5000
/* Time that a compiler process has to end after its socket was closed. Then it is killed. */
#define END_MS 200
/* Longest wait between two checks for cancellation. */
#define STEP_MS 50

struct gl_compiler {
    pid_t pid;
    int fd; /* -1 if the process is not running */
    uint64_t next_id;
    struct dgl_buf in;
    struct gl_remote *remotes; /* all requests that were not destroyed yet */
    bool failed;               /* no usable program was found: do not search again */
};

/* ---- start ----------------------------------------------------------------------------------- */

/* Returns the path of `dopplergl` in the first absolute folder that has it, or NULL. `separator`
 * separates the folders. */
static char *find_program(struct dgl_str folders, char separator)
{
    struct dgl_str dir;
    while (folders.len && dgl_str_split(&folders, separator, &dir)) {
        struct dgl_buf path = {0};
        if (dir.len == 0 || dir.p[0] != '/')
            continue;
        dgl_buf_printf(&path, "%.*s/dopplergl", (int)dir.len, dir.p);
        if (!path.failed && access(path.p, X_OK) == 0)
            return dgl_buf_take(&path);
        dgl_buf_finish(&path);
    }
    return NULL;
}

/* The process gets its own process group, so that Ctrl-C in a terminal reaches only its parent. */
static bool spawn(struct gl_compiler *c, const char *path)
{
    extern char **environ;
    int ends[2];
    char name[] = "dopplergl", word[] = GL_COMPILER_WORD;
    char *const argv[] = {name, word, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    sigemptyset(&none);
    sigfillset(&all);
    const bool has_files = posix_spawn_file_actions_init(&files) == 0;
    const bool has_attr = has_files && posix_spawnattr_init(&attr) == 0;
    const bool ok =
        has_attr && posix_spawn_file_actions_adddup2(&files, ends[1], GL_COMPILER_FD) == 0 &&
        posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF) == 0 &&
        posix_spawnattr_setpgroup(&attr, 0) == 0 && posix_spawnattr_setsigmask(&attr, &none) == 0 &&
        posix_spawnattr_setsigdefault(&attr, &all) == 0 &&
        posix_spawn(&c->pid, path, &files, &attr, argv, environ) == 0;
    if (has_attr)
        posix_spawnattr_destroy(&attr);
    if (has_files)
        posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    c->fd = ok ? ends[0] : -1;
    if (!ok)
        close(ends[0]);
    return ok;
}

static void reap(struct gl_compiler *c)
{
    siginfo_t info;
    if (c->fd >= 0)
        close(c->fd);
    /* When the socket is closed, the compiler process kills its children, waits for them and ends.
     * If it were killed at once, its children would stay as zombies in a container without an init
     * process. */
    for (int ms = 0; c->pid > 0 && c->fd >= 0 && ms < END_MS; ms++) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    /* A program that waits for all of its children may have reaped this one. Its process id may
     * then belong to another process, so check before killing. */
    if (c->pid > 0 && waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        kill(-c->pid, SIGKILL); /* its children too */
        kill(c->pid, SIGKILL);  /* in case its process group does not exist yet */
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    c->fd = -1;
    c->pid = 0;
    dgl_buf_finish(&c->in);
}

/* Waits up to `wait_ms` for bytes and appends them to c->in. Returns false at the end of the
 * stream. */
static bool receive(struct gl_compiler *c, int wait_ms)
{
    char bytes[65536];
    struct pollfd ready = {c->fd, POLLIN, 0};
    if (poll(&ready, 1, wait_ms) <= 0)
        return true;
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0)
        dgl_buf_append(&c->in, bytes, (size_t)n);
    return (n > 0 && !c->in.failed) || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Returns true if the program sends a hello of our build. */
static bool is_hello(struct gl_compiler *c)
{
    struct gl_compiler_hello hello;
    const uint64_t start_ns = dgl_now_ns();
    while (c->in.len < sizeof(hello))
        if (dgl_now_ns() - start_ns > HELLO_MS * 1000000ull || !receive(c, STEP_MS))
            return false;
    memcpy(&hello, c->in.p, sizeof(hello));
    c->in.len -= sizeof(hello);
    memmove(c->in.p, c->in.p + sizeof(hello), c->in.len);
    return memcmp(hello.magic, GL_COMPILER_MAGIC, sizeof(hello.magic)) == 0 &&
           strncmp(hello.version, DGL_VERSION, sizeof(hello.version)) == 0 &&
           hello.request_bytes == sizeof(struct gl_compiler_request) &&
           hello.reply_bytes == sizeof(struct gl_compiler_reply);
}

static bool try_program(struct gl_compiler *c, const char *path)
{
    if (path && spawn(c, path) && is_hello(c))
        return true;
    reap(c);
    return false;
}

/* Returns dev->compiler, which is created if it does not exist, or NULL when out of memory. */
static struct gl_compiler *compiler_of(struct gl_device *dev)
{
    if (!dev->compiler && (dev->compiler = dgl_new(struct gl_compiler)))
        dev->compiler->fd = -1;
    return dev->compiler;
}

bool gl_compiler_start(struct gl_device *dev)
{
    if (dev->in_process || dev->wrapped)
        return false;
    struct gl_compiler *c = compiler_of(dev);
    if (!c || c->failed || c->fd >= 0)
        return c && !c->failed;
    if (dev->compiler_path) {
        c->failed = !dev->compiler_path[0] || !try_program(c, dev->compiler_path);
    } else {
        char self[4096];
        const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[len > 0 ? len : 0] = '\0';
        const char *slash = strrchr(self, '/');
        char *beside = find_program((struct dgl_str){self, slash ? (size_t)(slash + 1 - self) : 0},
                                    '\0'); /* in the folder of the running program */
        char *found = find_program(dgl_str_of(getenv("PATH")), ':');
        c->failed = !try_program(c, beside) && !try_program(c, found);
        free(beside);
        free(found);
    }
    return !c->failed;
}

/* ---- requests -------------------------------------------------------------------------------- */

bool gl_compiler_send(int fd, bool is_socket, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = is_socket ? send(fd, at, len, MSG_NOSIGNAL) : write(fd, at, len);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* Ends all requests that will get no reply. */
static void lose_all(struct gl_compiler *c)
{
    for (struct gl_remote *r = c->remotes; r; r = r->next) {
        if (r->done)
            continue;
        r->done = true;
        r->end = GL_COMPILE_LOST;
        free(r->words);
        r->words = dgl_strdup("the compiler process ended");
    }
    reap(c);
}

struct gl_remote *gl_remote_create(struct gl_device *dev, const struct gl_program_params *params,
                                   const struct gl_compile_limits *limits, bool debug)
{
    struct gl_compiler *c = dev->compiler;
    struct gl_remote *r = dgl_new(struct gl_remote);
    struct gl_compiler_request q = {
        .kind = GL_COMPILER_COMPILE,
        .debug = debug,
        .cpu_ns = limits->cpu_ns ? limits->cpu_ns : dev->compile_limits.cpu_ns,
        .memory_bytes =
            limits->memory_bytes ? limits->memory_bytes : dev->compile_limits.memory_bytes};
    const char *label = params->label ? params->label : "unnamed";
    if (!r || !c || c->fd < 0 || params->len > GL_COMPILER_MAX_BYTES) {
        free(r);
        return NULL;
    }
    if (dev->node.path[0])
        gl_text_copy(q.select, sizeof(q.select), dev->node.path);
    else
        snprintf(q.select, sizeof(q.select), "%d", dev->node.index);
    gl_text_copy(q.limits, sizeof(q.limits), dev->limits);
    gl_text_copy(q.renderer, sizeof(q.renderer), dev->caps.renderer);
    gl_text_copy(q.version, sizeof(q.version), dev->caps.version);
    q.id = ++c->next_id;
    q.label_len = (uint32_t)strnlen(label, 4096);
    q.source_len = params->len;
    r->id = q.id;
    r->limits = (struct gl_compile_limits){q.cpu_ns, q.memory_bytes};
    r->next = c->remotes;
    c->remotes = r;
    if (!gl_compiler_send(c->fd, true, &q, sizeof(q)) ||
        !gl_compiler_send(c->fd, true, label, q.label_len) ||
        !gl_compiler_send(c->fd, true, params->source, params->len))
        lose_all(c);
    return r;
}

struct gl_remote *gl_remote_settled(struct gl_device *dev, const struct gl_remote *verdict)
{
    struct gl_remote *r = dgl_new(struct gl_remote);
    struct gl_compiler *c = compiler_of(dev);
    if (!r || !c) {
        free(r);
        return NULL;
    }
    *r = *verdict;
    r->next = c->remotes;
    c->remotes = r;
    return r;
}

/* Returns a copy with a 0 byte after it, or NULL when out of memory. The caller frees it. */
static char *part(const char *bytes, uint64_t len)
{
    char *copy = dgl_calloc((size_t)len + 1, 1);
    if (copy && len)
        memcpy(copy, bytes, (size_t)len);
    return copy;
}

/* Removes complete replies from c->in. Returns false if a reply is malformed. */
static bool take_replies(struct gl_compiler *c)
{
    struct gl_compiler_reply reply;
    while (c->in.len >= sizeof(reply)) {
        memcpy(&reply, c->in.p, sizeof(reply));
        if (reply.binary_len > GL_COMPILER_MAX_BYTES || reply.words_len > GL_COMPILER_MAX_BYTES ||
            reply.stats_len > GL_COMPILER_MAX_BYTES || reply.end > GL_COMPILE_LOST)
            return false;
        const size_t all =
            sizeof(reply) + (size_t)(reply.binary_len + reply.words_len + reply.stats_len);
        if (c->in.len < all)
            return true;
        struct gl_remote *r = c->remotes;
        while (r && r->id != reply.id)
            r = r->next;
        if (r && !r->done) {
            const char *at = c->in.p + sizeof(reply);
            r->done = true;
            r->end = (enum gl_compile_end)reply.end;
            r->signal = reply.signal;
            r->linking = reply.linking;
            r->cpu_ns = reply.cpu_ns;
            r->wall_ns = reply.wall_ns;
            r->rss_bytes = reply.rss_bytes;
            r->format = reply.format;
            r->binary_len = (size_t)reply.binary_len;
            r->binary = part(at, reply.binary_len);
            r->words = part(at + reply.binary_len, reply.words_len);
            r->stats = part(at + reply.binary_len + reply.words_len, reply.stats_len);
            if (!r->binary)
                r->binary_len = 0;
        }
        c->in.len -= all;
        memmove(c->in.p, c->in.p + all, c->in.len);
    }
    return true;
}

bool gl_remote_poll(struct gl_device *dev, struct gl_remote *r, int wait_ms)
{
    struct gl_compiler *c = dev->compiler;
    if (!r->done && (!receive(c, wait_ms) || !take_replies(c)))
        lose_all(c);
    return r->done;
}

enum dgl_status gl_remote_wait(struct gl_device *dev, struct gl_remote *r, const char *kernel,
                               bool (*go_on)(void *priv), void *priv)
{
    const uint64_t start_ns = dgl_now_ns();
    uint64_t told_ns = start_ns;
    while (!gl_remote_poll(dev, r, STEP_MS)) {
        if (gl_is_stopped(dev) || (go_on && !go_on(priv)))
            return DGL_ERR_CANCELLED;
        const uint64_t now_ns = dgl_now_ns();
        if (now_ns - told_ns < GL_COMPILE_TELL_NS)
            continue;
        told_ns = now_ns;
        gl_compiling_tell(dev, kernel, now_ns - start_ns);
    }
    return DGL_OK;
}

void gl_compiling_tell(const struct gl_device *dev, const char *kernel, uint64_t wall_ns)
{
    dgl_logf(dev->log, DGL_LOG_PROGRESS, "compiling %s: %.0f s", kernel, (double)wall_ns * 1e-9);
}

void gl_remote_destroy(struct gl_device *dev, struct gl_remote **premote)
{
    struct gl_remote *r = *premote;
    struct gl_compiler *c = dev->compiler;
    *premote = NULL;
    if (!r)
        return;
    struct gl_remote **at = &c->remotes;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (!r->done && c->fd >= 0) {
        const struct gl_compiler_request q = {.id = r->id, .kind = GL_COMPILER_CANCEL};
        if (!gl_compiler_send(c->fd, true, &q, sizeof(q)))
            lose_all(c);
    }
    free(r->binary);
    free(r->words);
    free(r->stats);
    free(r);
}

void gl_compiler_finish(struct gl_device *dev)
{
    struct gl_compiler *c = dev->compiler;
    dev->compiler = NULL;
    if (!c)
        return;
    if (dev->pid == getpid())
        reap(c);
    else if (c->fd >= 0)
        close(c->fd);
    free(c);
}

/* ---- messages -------------------------------------------------------------------------------- */

void gl_remote_explain(const struct gl_remote *r, struct dgl_buf *out)
{
    const double limit = (double)r->limits.cpu_ns * 1e-9;
    const char *words = r->words ? r->words : "";
    switch (r->end) {
    case GL_COMPILE_TIME:
        dgl_buf_printf(out, "the driver's compiler used more than %g s of processor time", limit);
        break;
    case GL_COMPILE_MEMORY:
        dgl_buf_puts(out, "the driver's compiler used more than ");
        dgl_buf_bytes(out, r->limits.memory_bytes);
        dgl_buf_puts(out, " of memory");
        break;
    case GL_COMPILE_BLOCKED:
        dgl_buf_printf(out, "the driver's compiler did nothing for %g s", limit);
        break;
    case GL_COMPILE_CRASHED:
        dgl_buf_printf(out, "the driver's compiler crashed: %s%s%s",
                       r->signal ? strsignal(r->signal) : "", r->signal && words[0] ? ": " : "",
                       words);
        break;
    default:
        dgl_buf_puts(out, words);
    }
}

/* ---- trying ---------------------------------------------------------------------------------- */

enum dgl_status gl_programs_try(struct gl_device *dev, const struct gl_program_params *params,
                                size_t count, const struct gl_try *how)
{
    struct gl_remote **remotes = dgl_new_array(struct gl_remote *, count);
    struct dgl_buf words = {0};
    enum dgl_status status;
    TRY(gl_lost_check(dev));
    if (!remotes)
        TRY(dgl_fail_memory(dev->log, "requests to the compiler process",
                            count * sizeof(*remotes)));
    if (!gl_compiler_start(dev)) {
        gl_compiler_explain(dev, &words);
        TRY(dgl_fail(dev->log, DGL_ERR_UNSUPPORTED, "%s", words.p ? words.p : "out of memory"));
    }
    for (size_t i = 0; i < count; i++) {
        remotes[i] = gl_remote_create(dev, &params[i], &how->limits, true);
        if (!remotes[i] && dev->compiler->fd < 0)
            TRY(dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                         "the compiler process ended before it had all sources: try again"));
        if (!remotes[i])
            TRY(dgl_fail_memory(dev->log, "a kernel source", params[i].len));
    }
    for (size_t i = 0; i < count; i++) {
        struct gl_remote *r = remotes[i];
        const char *kernel = params[i].label ? params[i].label : "unnamed";
        TRY(gl_remote_wait(dev, r, kernel, how->go_on, how->priv));
        dgl_buf_finish(&words);
        gl_remote_explain(r, &words);
        gl_remote_remember(dev, r, params[i].source, params[i].len);
        const struct gl_compile_report report = {.end = r->end,
                                                 .cpu_ns = r->cpu_ns,
                                                 .wall_ns = r->wall_ns,
                                                 .rss_bytes = r->rss_bytes,
                                                 .binary_bytes = r->binary_len,
                                                 .signal = r->signal,
                                                 .words = words.p ? words.p : "",
                                                 .stats = r->stats ? r->stats : ""};
        if (r->end == GL_COMPILE_LOST)
            TRY(dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                         "%s: the compiler process cannot compile for this device: %s",
                         dev->caps.renderer, report.words));
        TRY(!how->cb || how->cb(how->priv, i, &report) ? DGL_OK : DGL_ERR_CANCELLED);
        gl_remote_destroy(dev, &remotes[i]);
    }
done:
    dgl_buf_finish(&words);
    gl_progcache_trim(&dev->cache);
    for (size_t i = 0; remotes && i < count; i++)
        gl_remote_destroy(dev, &remotes[i]);
    free(remotes);
    return status;
}

void gl_compiler_explain(const struct gl_device *dev, struct dgl_buf *out)
{
    const char *path = dev->compiler_path;
    dgl_buf_puts(out, "kernels cannot be compiled in a separate process: ");
    if (dev->wrapped)
        dgl_buf_puts(out, "the caller created the context");
    else if (path && path[0])
        dgl_buf_printf(out, "%s is not a program of this version that calls dgl_compiler_main()",
                       path);
    else
        dgl_buf_puts(out, "no `dopplergl` of this version is in this program's folder or on PATH");
}

/* ---- verdicts on disk ------------------------------------------------------------------------ */

void gl_remote_remember(struct gl_device *dev, const struct gl_remote *r, const char *source,
                        size_t len)
{
    /* Signals that a user or the kernel's out-of-memory killer sends. They say nothing about the
     * source, so no verdict is stored. */
    static const int from_outside[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    char key[65], text[128];
    for (size_t i = 0; i < sizeof(from_outside) / sizeof(from_outside[0]); i++)
        if (r->signal == from_outside[i])
            return;
    if (!gl_progcache_key(&dev->cache, source, len, key))
        return;
    if (r->end == GL_COMPILE_OK && r->binary_len && dev->cache.programs) {
        gl_progcache_store(&dev->cache, key, r->format, r->binary, r->binary_len);
    } else if (r->end != GL_COMPILE_LOST && r->end != GL_COMPILE_REFUSED) {
        snprintf(text, sizeof(text), "%d %d %llu %llu", (int)r->end, r->signal,
                 (unsigned long long)r->limits.cpu_ns, (unsigned long long)r->limits.memory_bytes);
        gl_progcache_store(&dev->cache, key, GL_VERDICT_FORMAT, text, strlen(text));
    }
}

bool gl_verdict_read(const char *bytes, size_t len, struct gl_remote *out)
{
    char text[128];
    int end = 0;
    unsigned long long cpu_ns = 0, memory_bytes = 0;
    snprintf(text, sizeof(text), "%.*s", (int)(len < 127 ? len : 127), bytes);
    *out = (struct gl_remote){.done = true, .earlier = true};
    if (sscanf(text, "%d %d %llu %llu", &end, &out->signal, &cpu_ns, &memory_bytes) != 4 ||
        end < 0 || end >= GL_COMPILE_LOST)
        return false;
    out->end = (enum gl_compile_end)end;
    out->limits = (struct gl_compile_limits){cpu_ns, memory_bytes};
    return true;
}
