/* Child processes with captured streams, and a pseudo terminal if requested. */
#include "tests/support/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/support/test.h"

#define TIME_LIMIT_NS (240ull * 1000000000ull)
#define MAX_ARGS      64

const char *process_program(void)
{
    static char path[4096];
    const char *build = getenv("DOPPLERGL_TEST_BUILD");
    snprintf(path, sizeof(path), "%s/dopplergl", build && *build ? build : "build");
    return path;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* A pair of descriptors: [0] for us, [1] for the child. */
static void make_pipe(int fd[2])
{
    if (pipe2(fd, O_CLOEXEC) != 0)
        fail_msg("pipe: %s", strerror(errno));
}

static void make_terminal(int fd[2])
{
    char name[128];
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    fd[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd[0] < 0 || grantpt(fd[0]) != 0 || unlockpt(fd[0]) != 0 ||
        ptsname_r(fd[0], name, sizeof(name)) != 0)
        fail_msg("no pseudo terminal: %s", strerror(errno));
    fd[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd[1] < 0)
        fail_msg("%s: %s", name, strerror(errno));
    ioctl(fd[1], TIOCSWINSZ, &size);
}

static int open_or_fail(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0666);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    return fd;
}

/* In the child, which may allocate only once: sets up the streams and the environment. */
static void become(const struct process_params *p, char **argv, char **env, const int fd[3])
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    if (!p->ignore_sigpipe)
        sigaction(SIGPIPE, &standard, NULL);
    sigaction(SIGINT, &standard, NULL);
    for (int i = 0; i < 3; i++)
        dup2(fd[i], i);
    if (p->close_out)
        close(STDOUT_FILENO);
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    setenv("DOPPLERGL_DATA", "tests", 1);
    unsetenv("DOPPLERGL_MODEL");
    unsetenv("DOPPLERGL_DEVICE");
    unsetenv("DOPPLERGL_KERNEL_DIR");
    setenv("XDG_CONFIG_HOME", "/dev/null", 1);
    for (; *env; env++) {
        if (strchr(*env, '='))
            putenv(*env);
        else
            unsetenv(*env);
    }
    execv(argv[0], argv);
    _exit(127);
}

/* The child's streams, our ends of them, and who it is. */
struct child {
    pid_t pid;
    int in, out, err; /* ours; -1 = closed */
};

static void start(const struct process_params *p, struct child *c)
{
    char *argv[MAX_ARGS + 2] = {NULL}, *env[MAX_ARGS + 1] = {NULL};
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2];
    argv[0] = checked(strdup(p->program ? p->program : process_program()));
    for (size_t i = 0; p->args[i]; i++) {
        assert_true(i < MAX_ARGS);
        argv[i + 1] = checked(test_missing(p->args[i]));
    }
    for (size_t i = 0; p->env && p->env[i]; i++) {
        assert_true(i < MAX_ARGS);
        env[i] = checked(test_missing(p->env[i]));
    }
    if (p->input)
        make_pipe(in);
    else
        in[0] = open_or_fail("/dev/null", O_RDONLY);
    if (p->out_path)
        out[1] = open_or_fail(p->out_path, O_WRONLY);
    else
        make_pipe(out);
    if (p->terminal)
        make_terminal(err);
    else
        make_pipe(err);
    fflush(NULL);
    c->pid = fork();
    if (c->pid == 0)
        become(p, argv, env, (const int[3]){in[0], out[1], err[1]});
    if (c->pid < 0)
        fail_msg("fork: %s", strerror(errno));
    for (size_t i = 0; argv[i]; i++)
        free(argv[i]);
    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    *c = (struct child){c->pid, in[1], out[0], err[0]};
}

/* ---- running --------------------------------------------------------------------------------- */

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A terminal returns EIO where a pipe returns end of file. */
static void take(int *fd, struct dgl_buf *out)
{
    char block[65536];
    ssize_t got = read(*fd, block, sizeof(block));
    if (got > 0)
        dgl_buf_append(out, block, (size_t)got);
    else if (got == 0 || errno != EINTR)
        shut(fd);
}

static size_t input_len(const struct process_params *p)
{
    if (!p->input)
        return 0;
    return p->input_len ? p->input_len : strlen(p->input);
}

/* Input that the child does not read is dropped. */
static void feed(int *fd, const struct process_params *p, size_t *done)
{
    ssize_t put = write(*fd, p->input + *done, input_len(p) - *done);
    if (put > 0)
        *done += (size_t)put;
    else if (put < 0 && errno != EINTR)
        shut(fd);
}

static void pump(const struct process_params *p, struct child *c, struct dgl_buf *out,
                 struct dgl_buf *err)
{
    size_t fed = 0;
    bool sent = p->signal == 0;
    uint64_t start_ns = dgl_now_ns(), due_ns = 0;
    while (c->out >= 0 || c->err >= 0) {
        if (fed == input_len(p) && !p->keep_input)
            shut(&c->in);
        struct pollfd fds[3] = {{.fd = fed < input_len(p) ? c->in : -1, .events = POLLOUT},
                                {.fd = c->out, .events = POLLIN},
                                {.fd = c->err, .events = POLLIN}};
        poll(fds, 3, sent ? 1000 : 10);
        if (fds[0].revents)
            feed(&c->in, p, &fed);
        if (fds[1].revents)
            take(&c->out, out);
        if (fds[2].revents)
            take(&c->err, err);
        if (p->close_after && out->len >= p->close_after)
            shut(&c->out);
        if (!due_ns && (p->signal_on_error ? err : out)->len >= p->signal_after)
            due_ns = dgl_now_ns() + p->signal_wait_ms * 1000000ull;
        if (!sent && due_ns && dgl_now_ns() >= due_ns) {
            kill(c->pid, p->signal);
            sent = true;
        }
        if (dgl_now_ns() - start_ns > TIME_LIMIT_NS) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, NULL, 0);
            fail_msg("%s ran for too long; standard error: %s", p->args[0], err->p);
        }
    }
    shut(&c->in);
}

void process_run(const struct process_params *params, struct process_result *r)
{
    struct dgl_buf out = {0}, err = {0};
    struct child c;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    int status = 0;
    *r = (struct process_result){0};
    sigaction(SIGPIPE, &ignore, &before); /* a child that reads no input */
    start(params, &c);
    pump(params, &c, &out, &err);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGPIPE, &before, NULL);
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (r->code == 127)
        fail_msg("%s could not be run", params->program ? params->program : process_program());
    dgl_buf_append(&out, "", 0);
    dgl_buf_append(&err, "", 0);
    r->out_len = out.len;
    r->err_len = err.len;
    r->out = dgl_buf_take(&out);
    r->err = dgl_buf_take(&err);
    assert_non_null(r->out);
    assert_non_null(r->err);
}

void process_command(struct process_result *r, ...)
{
    const char *args[MAX_ARGS];
    size_t n = 0;
    va_list list;
    va_start(list, r);
    while (n + 1 < MAX_ARGS && (args[n] = va_arg(list, const char *)))
        n++;
    va_end(list);
    args[n] = NULL;
    process_run(&(struct process_params){.args = args}, r);
}

void process_finish(struct process_result *r)
{
    dgl_json_destroy(&r->json);
    free(r->out);
    free(r->err);
    *r = (struct process_result){0};
}

/* ---- looking at results ---------------------------------------------------------------------- */

const struct dgl_json *process_json(struct process_result *r)
{
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    if (!r->json && dgl_json_parse(&log.log, "stdout", r->out, r->out_len, &r->json) != DGL_OK)
        fail_msg("not JSON: %s; standard output: %s; standard error: %s", log.text, r->out, r->err);
    return dgl_json_root(r->json);
}

void process_assert_code(const struct process_result *r, int wanted, const char *file, int line)
{
    if (r->code == wanted)
        return;
    print_error("exit code %d (signal %d), wanted %d\nstandard output: %s\nstandard error: %s\n",
                r->code, r->signal, wanted, r->out, r->err);
    _fail(file, line);
}

/* A driver may write lines to standard error: only our lines are checked. */
void process_assert_error(const struct process_result *r, const char *wanted, const char *file,
                          int line)
{
    char *part = test_missing(wanted);
    static const char mark[] = "dopplergl: error: ";
    int count = 0;
    bool found = false;
    for (const char *p = r->err; p && *p;) {
        const char *end = strchr(p, '\n');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        if (len >= sizeof(mark) - 1 && memcmp(p, mark, sizeof(mark) - 1) == 0) {
            count++;
            found |= part && memmem(p, len, part, strlen(part));
        }
        p = end ? end + 1 : NULL;
    }
    if (count == (part != NULL) && found == (part != NULL)) {
        free(part);
        return;
    }
    print_error("%d error lines, wanted %s \"%s\" in:\n%s\n", count, part ? "one with" : "none",
                part ? part : "", r->err);
    _fail(file, line);
}
