/*
 * The compiler process: a server that never opens EGL, and one child process per kernel source.
 *
 * Drivers do not survive fork(), so a process that has opened a device cannot fork children that
 * compile. The server is started by exec() instead and never opens a device. Each child opens the
 * device, compiles one source, writes its reply to a pipe, and ends by _exit() without the driver's
 * exit handlers. The server kills a child that exceeds its limit of processor time or resident
 * memory, or that blocks. The server ends when its socket is closed, which happens when its parent
 * ends for any reason. It then kills its children. If the server itself is killed, the kernel kills
 * the children (PR_SET_PDEATHSIG).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/host_memory.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/base/thread.h"
#include "gl/gl_compiler.h"
#include "gl/gl_internal.h"

#define MAX_CHILDREN 16
#define TICK_MS      20
/* Assumed memory of one child. It limits how many run at the same time. */
#define CHILD_BYTES (512ull << 20)
#define TAIL_BYTES  512

/* One request and its child. */
struct task {
    struct task *next;
    struct gl_compiler_request request;
    char *text; /* label, then source */
    pid_t pid;  /* 0 if not started */
    int out, err;
    struct dgl_buf reply;
    char tail[TAIL_BYTES]; /* ring with the last bytes of the child's standard error */
    size_t tail_len;
    struct dgl_buf line, stats; /* of standard error: the incomplete line, the statistics lines */
    enum gl_compile_end killed; /* limit for which the server killed it, or GL_COMPILE_OK */
    uint64_t start_ns, cpu_ns, moved_ns, rss_bytes;
};

struct server {
    struct task *tasks; /* in the order of their requests */
    struct dgl_buf in, out;
    size_t sent; /* of `out` */
    int num_running, max_running;
};

/* Returns true if a driver's line contains counts of instructions or registers: Mesa's shader-db
 * format ("... shader: 317 instructions ..."), or radeonsi's format. Other lines report dispatches
 * or front-end warnings. */
static bool is_statistic(struct dgl_str line)
{
    static const char mark[] = " shader: ";
    return dgl_str_starts(line, "Shader Stats: ") || dgl_str_starts(line, "SIMD") ||
           memmem(line.p, line.len, mark, sizeof(mark) - 1) != NULL;
}

/* ---- child ----------------------------------------------------------------------------------- */

/* Reply of a child, before it is sent. */
struct result {
    struct gl_compiler_reply reply;
    struct dgl_buf words, stats;
    void *binary;
};

/* Removes all lines but the statistics from the driver's messages. */
static void filter(struct dgl_buf *messages)
{
    struct dgl_str rest = {messages->p, messages->len}, line;
    struct dgl_buf kept = {0};
    while (rest.len && dgl_str_split(&rest, '\n', &line))
        if (is_statistic(line))
            dgl_buf_printf(&kept, "%.*s\n", (int)line.len, line.p);
    dgl_buf_finish(messages);
    *messages = kept;
}

/* Keeps the driver's log unchanged: it may have several lines. */
static enum dgl_status keep_words(void *priv, bool linking, const char *words)
{
    struct result *r = priv;
    dgl_buf_finish(&r->words);
    dgl_buf_puts(&r->words, words);
    r->reply.linking = linking;
    r->reply.end = GL_COMPILE_REFUSED;
    return DGL_ERR_KERNEL;
}

static void compile(const struct task *task, struct result *r)
{
    const struct gl_compiler_request *q = &task->request;
    struct dgl_error error = {""};
    const struct dgl_log log = {.error = &error};
    struct gl_device *dev = NULL;
    struct gl_saved saved;
    struct gl_program *program = NULL;
    char label[128];
    const struct gl_device_params params = {.select = q->select,
                                            .limits = q->limits[0] ? q->limits : NULL,
                                            .debug = q->debug,
                                            .cache_dir = "",
                                            .in_process = true,
                                            .notes = &r->stats};
    r->reply.end = GL_COMPILE_LOST;
    if (gl_device_open(&log, &params, &dev) != DGL_OK || gl_enter(dev, &saved) != DGL_OK) {
        dgl_buf_puts(&r->words, error.text);
        return;
    }
    if (strcmp(dev->caps.renderer, q->renderer) != 0 ||
        strcmp(dev->caps.version, q->version) != 0) {
        dgl_buf_printf(&r->words, "it opened another device: %s, %s", dev->caps.renderer,
                       dev->caps.version);
        return;
    }
    snprintf(label, sizeof(label), "%.*s", (int)q->label_len, task->text);
    dgl_buf_finish(&r->stats); /* drop the messages about opening the device */
    const struct gl_program_params text = {.source = task->text + q->label_len,
                                           .len = (size_t)q->source_len,
                                           .label = label,
                                           .refused = keep_words,
                                           .refused_priv = r};
    const uint64_t start_ns = dgl_now_ns(), start_cpu_ns = dgl_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    enum dgl_status status =
        gl_programs_create(dev, &text, 1, &(struct gl_compile){.machine_code = true}, &program);
    r->reply.wall_ns = dgl_now_ns() - start_ns;
    r->reply.cpu_ns = dgl_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
    if (status == DGL_OK) {
        size_t len = 0;
        r->reply.end = GL_COMPILE_OK;
        if (dev->caps.limits.program_binary)
            r->binary = gl_binary_get(program->id, &r->reply.format, &len);
        r->reply.binary_len = len;
    } else if (r->words.len == 0) {
        dgl_buf_puts(&r->words, error.text);
    }
}

static _Noreturn void run_child(const struct task *task, int out, int err, pid_t server)
{
    struct result r = {.reply = {.id = task->request.id}};
    struct rusage usage;
    int null = open("/dev/null", O_RDWR);
    /* Limits that the kernel enforces, in case the server itself is stopped. */
    const rlim_t seconds = (rlim_t)(task->request.cpu_ns / 1000000000u) + 5;
    setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds + 5});
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != server || null < 0) /* the server ended before the prctl() */
        _exit(1);
    dup2(null, STDIN_FILENO); /* the socket is the server's */
    dup2(err, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    compile(task, &r);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        r.reply.rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    filter(&r.stats);
    r.reply.words_len = r.words.failed ? 0 : r.words.len;
    r.reply.stats_len = r.stats.failed ? 0 : r.stats.len;
    bool ok = gl_compiler_send(out, false, &r.reply, sizeof(r.reply)) &&
              gl_compiler_send(out, false, r.binary, (size_t)r.reply.binary_len) &&
              gl_compiler_send(out, false, r.words.p, (size_t)r.reply.words_len) &&
              gl_compiler_send(out, false, r.stats.p, (size_t)r.reply.stats_len);
    _exit(ok ? 0 : 1); /* the driver's exit handlers may wait for its threads forever */
}

/* ---- server ---------------------------------------------------------------------------------- */

static void send_reply(struct server *s, const struct gl_compiler_reply *reply, const char *payload)
{
    dgl_buf_append(&s->out, reply, sizeof(*reply));
    dgl_buf_append(&s->out, payload,
                   (size_t)(reply->binary_len + reply->words_len + reply->stats_len));
}

static void drop_task(struct server *s, struct task *task)
{
    struct task **at = &s->tasks;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    if (task->pid > 0) {
        kill(task->pid, SIGKILL);
        while (waitpid(task->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        s->num_running--;
    }
    if (task->out >= 0)
        close(task->out);
    if (task->err >= 0)
        close(task->err);
    dgl_buf_finish(&task->reply);
    dgl_buf_finish(&task->line);
    dgl_buf_finish(&task->stats);
    free(task->text);
    free(task);
}

static void fail_task(struct server *s, struct task *task, const char *why)
{
    struct gl_compiler_reply reply = {
        .id = task->request.id, .end = GL_COMPILE_LOST, .words_len = strlen(why)};
    send_reply(s, &reply, why);
    drop_task(s, task);
}

static void start_task(struct server *s, struct task *task)
{
    int out[2] = {-1, -1}, err[2];
    const pid_t self = getpid();
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        if (out[0] >= 0) {
            close(out[0]);
            close(out[1]);
        }
        fail_task(s, task, "the compiler process has no free file descriptors");
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        run_child(task, out[1], err[1], self);
    close(out[1]);
    close(err[1]);
    task->out = out[0];
    task->err = err[0];
    fcntl(task->out, F_SETFL, O_NONBLOCK);
    fcntl(task->err, F_SETFL, O_NONBLOCK);
    task->start_ns = task->moved_ns = dgl_now_ns();
    if (pid < 0) {
        fail_task(s, task, "the compiler process cannot start a child process");
        return;
    }
    task->pid = pid;
    s->num_running++;
}

/* Consumes one byte of the child's standard error. */
static void put_byte(struct task *task, char byte)
{
    task->tail[task->tail_len++ % TAIL_BYTES] = byte;
    if (byte != '\n') {
        if (task->line.len < 4096)
            dgl_buf_putc(&task->line, byte);
        return;
    }
    if (task->line.len && !task->line.failed &&
        is_statistic((struct dgl_str){task->line.p, task->line.len}) && task->stats.len < 65536)
        dgl_buf_printf(&task->stats, "%s\n", task->line.p);
    dgl_buf_finish(&task->line);
}

/* Reads all bytes that are available: to `all`, or to the buffers of `tail`. Returns false, and
 * closes the pipe, at its end. */
static bool drain(int *fd, struct dgl_buf *all, struct task *tail)
{
    char bytes[16384];
    ssize_t n = -1;
    while (*fd >= 0 && (n = read(*fd, bytes, sizeof(bytes))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return true;
        if (all && all->len < 2 * GL_COMPILER_MAX_BYTES)
            dgl_buf_append(all, bytes, (size_t)n);
        for (ssize_t i = 0; tail && i < n; i++)
            put_byte(tail, bytes[i]);
    }
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return false;
}

static bool reply_is_whole(const struct task *task)
{
    struct gl_compiler_reply r;
    if (task->reply.failed || task->reply.len < sizeof(r))
        return false;
    memcpy(&r, task->reply.p, sizeof(r));
    return r.binary_len <= GL_COMPILER_MAX_BYTES && r.words_len <= GL_COMPILER_MAX_BYTES &&
           r.stats_len <= GL_COMPILER_MAX_BYTES &&
           task->reply.len == sizeof(r) + r.binary_len + r.words_len + r.stats_len;
}

/* Sends the reply of a child that has ended. `status` and `usage` are those of wait4(). */
static void end_task(struct server *s, struct task *task, int status, const struct rusage *usage)
{
    struct gl_compiler_reply reply = {.id = task->request.id, .end = GL_COMPILE_LOST};
    struct dgl_buf words = {0};
    task->pid = 0;
    s->num_running--;
    drain(&task->out, &task->reply, NULL);
    drain(&task->err, NULL, task);
    if (!task->killed && WIFEXITED(status) && reply_is_whole(task)) {
        memcpy(&reply, task->reply.p, sizeof(reply));
        if (!task->stats.failed) {
            dgl_buf_append(&task->reply, task->stats.p, task->stats.len);
            reply.stats_len += task->stats.len;
        }
        if (task->reply.failed) {
            fail_task(s, task, "the compiler process is out of memory");
            return;
        }
        send_reply(s, &reply, task->reply.p + sizeof(reply));
        drop_task(s, task);
        return;
    }
    reply.cpu_ns =
        (uint64_t)usage->ru_utime.tv_sec * 1000000000u + (uint64_t)usage->ru_utime.tv_usec * 1000u +
        (uint64_t)usage->ru_stime.tv_sec * 1000000000u + (uint64_t)usage->ru_stime.tv_usec * 1000u;
    reply.wall_ns = dgl_now_ns() - task->start_ns;
    reply.rss_bytes = (uint64_t)usage->ru_maxrss * 1024;
    reply.end = GL_COMPILE_CRASHED;
    if (task->killed) {
        reply.end = task->killed;
    } else if (WIFSIGNALED(status)) {
        reply.signal = WTERMSIG(status);
        if (reply.signal == SIGXCPU)
            reply.end = GL_COMPILE_TIME;
    } else {
        /* The driver has ended the process: compiling in the parent would end that, too. */
        dgl_buf_printf(&words, "it ended the process with exit code %d: ", WEXITSTATUS(status));
    }
    /* The last bytes of standard error are the only explanation of a child that crashed. */
    const size_t kept = task->tail_len < TAIL_BYTES ? task->tail_len : TAIL_BYTES;
    for (size_t i = task->tail_len - kept; !task->killed && i < task->tail_len; i++)
        dgl_buf_putc(&words, task->tail[i % TAIL_BYTES]);
    reply.words_len = words.failed ? 0 : words.len;
    send_reply(s, &reply, words.p);
    dgl_buf_finish(&words);
    drop_task(s, task);
}

/* Kills a child that exceeds a limit. */
static void supervise(struct task *task)
{
    const struct gl_compiler_request *q = &task->request;
    const uint64_t now_ns = dgl_now_ns();
    unsigned long long all = 0, resident = 0;
    char path[64];
    clockid_t clock;
    const uint64_t cpu_ns =
        clock_getcpuclockid(task->pid, &clock) == 0 ? dgl_clock_ns(clock) : task->cpu_ns;
    /* A blocked child may still wake up for some microseconds. */
    if (cpu_ns > task->cpu_ns + 1000000u) {
        task->cpu_ns = cpu_ns;
        task->moved_ns = now_ns;
    }
    snprintf(path, sizeof(path), "/proc/%ld/statm", (long)task->pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%llu %llu", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    const uint64_t rss_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
    if (rss_bytes > task->rss_bytes)
        task->rss_bytes = rss_bytes;
    if (task->cpu_ns > q->cpu_ns)
        task->killed = GL_COMPILE_TIME;
    else if (rss_bytes > q->memory_bytes)
        task->killed = GL_COMPILE_MEMORY;
    else if (now_ns - task->moved_ns > q->cpu_ns)
        task->killed = GL_COMPILE_BLOCKED;
    if (task->killed)
        kill(task->pid, SIGKILL);
}

/* Removes complete requests from s->in. Returns false if a request is malformed. */
static bool take_requests(struct server *s)
{
    struct gl_compiler_request q;
    while (s->in.len >= sizeof(q)) {
        memcpy(&q, s->in.p, sizeof(q));
        if (q.source_len > GL_COMPILER_MAX_BYTES || q.label_len > 4096)
            return false;
        const size_t text = (size_t)q.label_len + (size_t)q.source_len;
        if (s->in.len < sizeof(q) + text)
            return true;
        if (q.kind == GL_COMPILER_COMPILE) {
            struct task *task = dgl_new(struct task), **at = &s->tasks;
            char *copy = dgl_calloc(text + 1, 1);
            if (!task || !copy) {
                free(task);
                free(copy);
                return false;
            }
            memcpy(copy, s->in.p + sizeof(q), text);
            q.select[sizeof(q.select) - 1] = q.renderer[sizeof(q.renderer) - 1] = '\0';
            q.version[sizeof(q.version) - 1] = q.limits[sizeof(q.limits) - 1] = '\0';
            *task = (struct task){.request = q, .text = copy, .out = -1, .err = -1};
            while (*at)
                at = &(*at)->next;
            *at = task;
        } else {
            for (struct task *task = s->tasks, *next; task; task = next) {
                next = task->next;
                if (task->request.id == q.id)
                    drop_task(s, task);
            }
        }
        s->in.len -= sizeof(q) + text;
        memmove(s->in.p, s->in.p + sizeof(q) + text, s->in.len);
    }
    return true;
}

/* Receives requests and sends replies. Returns false if the other end has closed the socket. */
static bool talk(struct server *s, short events)
{
    char bytes[65536];
    ssize_t n = 0;
    if (events & (POLLIN | POLLHUP | POLLERR)) {
        n = recv(GL_COMPILER_FD, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n > 0)
            dgl_buf_append(&s->in, bytes, (size_t)n);
        if (s->in.failed || !take_requests(s))
            return false;
    }
    if (s->out.failed)
        return false;
    while (s->sent < s->out.len) {
        n = send(GL_COMPILER_FD, s->out.p + s->sent, s->out.len - s->sent,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        s->sent += (size_t)n;
    }
    s->sent = s->out.len = 0;
    return true;
}

int gl_compiler_main(void)
{
    static const struct gl_compiler_hello hello = {.magic = GL_COMPILER_MAGIC,
                                                   .version = DGL_VERSION,
                                                   .request_bytes =
                                                       sizeof(struct gl_compiler_request),
                                                   .reply_bytes = sizeof(struct gl_compiler_reply)};
    struct server s = {.max_running = 1};
    struct pollfd fds[1 + 2 * MAX_CHILDREN];
    struct rusage usage;
    bool connected = true;
    int status;
    signal(SIGPIPE, SIG_IGN);
    setpgid(0, 0);
    /* One child per processor may run at the same time, as far as free memory allows. */
    const uint64_t fit = dgl_host_memory().available_bytes / CHILD_BYTES;
    while (s.max_running < dgl_cpu_count() && s.max_running < MAX_CHILDREN &&
           (uint64_t)s.max_running < fit)
        s.max_running++;
    dgl_buf_append(&s.out, &hello, sizeof(hello));
    while (connected) {
        nfds_t n = 0;
        bool ending = false; /* a child has replied and closed its pipe */
        for (struct task *t = s.tasks, *next; t; t = next) {
            next = t->next;
            if (!t->pid && s.num_running < s.max_running)
                start_task(&s, t); /* on failure it queues a reply and frees the task */
        }
        fds[n++] = (struct pollfd){GL_COMPILER_FD,
                                   (short)(POLLIN | (s.sent < s.out.len ? POLLOUT : 0)), 0};
        for (const struct task *t = s.tasks; t; t = t->next) {
            ending |= t->pid && t->out < 0;
            if (t->pid && t->out >= 0)
                fds[n++] = (struct pollfd){t->out, POLLIN, 0};
            if (t->pid && t->err >= 0)
                fds[n++] = (struct pollfd){t->err, POLLIN, 0};
        }
        if (poll(fds, n, ending ? 1 : s.num_running ? TICK_MS : -1) < 0 && errno != EINTR)
            break;
        connected = talk(&s, fds[0].revents);
        for (struct task *t = s.tasks, *next; t && connected; t = next) {
            next = t->next;
            if (!t->pid)
                continue;
            drain(&t->out, &t->reply, NULL);
            drain(&t->err, NULL, t);
            if (wait4(t->pid, &status, WNOHANG, &usage) == t->pid)
                end_task(&s, t, status, &usage);
            else
                supervise(t);
        }
        connected = connected && talk(&s, 0);
    }
    while (s.tasks)
        drop_task(&s, s.tasks);
    return 0;
}
