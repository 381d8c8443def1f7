/* The master side of a pseudo terminal. Its output is kept as text. */
#include "tests/support/terminal.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/support/process.h"
#include "tests/support/test.h"

#define TIME_LIMIT_NS (240ull * 1000 * 1000 * 1000)

enum { PLAIN, AFTER_ESC, IN_SEQUENCE, max_args = 32 };

/* In the child. */
static void become(const char *const *args, const char *const *env)
{
    char *argv[max_args + 2];
    size_t n = 0;
    argv[n++] = (char *)(uintptr_t)process_program();
    while (args[n - 1] && n <= max_args) {
        argv[n] = (char *)(uintptr_t)args[n - 1];
        n++;
    }
    argv[n] = NULL;
    setenv("TERM", "xterm", 1);
    setenv("DOPPLERGL_DATA", "tests", 1);
    unsetenv("DOPPLERGL_MODEL");
    unsetenv("DOPPLERGL_DEVICE");
    setenv("XDG_CONFIG_HOME", "/dev/null", 1);
    unsetenv("NO_COLOR");
    for (const char *const *e = env; e && *e; e++) {
        if (strchr(*e, '='))
            putenv((char *)(uintptr_t)*e);
        else
            unsetenv(*e);
    }
    execv(argv[0], argv);
    _exit(127);
}

void terminal_start(struct terminal *t, const char *const *args, const char *const *env)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    *t = (struct terminal){0};
    fflush(NULL);
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    if (t->pid == 0)
        become(args, env);
    if (t->pid < 0)
        fail_msg("no pseudo terminal: %s", strerror(errno));
}

void terminal_send(struct terminal *t, const char *keys)
{
    size_t len = strlen(keys);
    if (write(t->fd, keys, len) != (ssize_t)len)
        fail_msg("cannot type \"%s\": %s", keys, strerror(errno));
}

static void note_sequence(struct terminal *t, char c)
{
    size_t len = strlen(t->sequence);
    if (len + 1 < sizeof(t->sequence)) {
        t->sequence[len] = c;
        t->sequence[len + 1] = '\0';
    }
    if (strcmp(t->sequence, "?2004h") == 0 || strcmp(t->sequence, "?2004l") == 0)
        t->taint_pastes = c == 'h';
}

/* Colours and cursor movements are omitted; a backspace removes a byte. */
static void show(struct terminal *t, char c)
{
    if (t->escape == AFTER_ESC) {
        t->escape = c == '[' || c == ']' || c == '(' ? IN_SEQUENCE : PLAIN;
        t->sequence[0] = '\0';
    } else if (t->escape == IN_SEQUENCE) {
        if ((c >= '@' && c <= '~') || c == '\a')
            t->escape = PLAIN;
        t->colours += c == 'm';
        note_sequence(t, c);
    } else if (c == '\033') {
        t->escape = AFTER_ESC;
    } else if (c == '\b') {
        if (t->screen.len > t->seen)
            t->screen.p[--t->screen.len] = '\0';
    } else if (c != '\r' && c != '\a') {
        dgl_buf_putc(&t->screen, c);
    }
}

/* Returns false at the end of the output. A terminal without a program returns EIO. */
static bool read_some(struct terminal *t, int timeout_ms)
{
    char block[4096];
    struct pollfd in = {.fd = t->fd, .events = POLLIN};
    if (t->ended || poll(&in, 1, timeout_ms) <= 0)
        return !t->ended;
    ssize_t n = read(t->fd, block, sizeof(block));
    for (ssize_t i = 0; i < n; i++)
        show(t, block[i]);
    t->ended = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
    return !t->ended;
}

static void give_up(struct terminal *t, const char *what)
{
    size_t seen = t->seen;
    char *screen = dgl_buf_take(&t->screen);
    terminal_finish(t);
    size_t len = screen ? strlen(screen + seen) : 0, tail = len > 600 ? len - 600 : 0;
    print_error("%s; on the screen:\n%s\n", what, len ? screen + seen + tail : "");
    free(screen);
    fail();
}

const char *terminal_expect(struct terminal *t, const char *text)
{
    uint64_t end_ns = dgl_now_ns() + TIME_LIMIT_NS;
    bool more = true;
    for (;;) {
        char *from = t->screen.p ? t->screen.p + t->seen : NULL;
        char *at = from ? strstr(from, text) : NULL;
        if (at) {
            t->seen = (size_t)(at - t->screen.p) + strlen(text);
            *at = '\0'; /* the match is not looked at again */
            return from;
        }
        if (!more || dgl_now_ns() > end_ns) {
            char what[256];
            snprintf(what, sizeof(what), "\"%s\" %s", text,
                     more ? "did not appear in time" : "never appeared");
            give_up(t, what);
        }
        more = read_some(t, 1000);
    }
}

int terminal_wait(struct terminal *t)
{
    uint64_t end_ns = dgl_now_ns() + TIME_LIMIT_NS;
    int status = 0;
    while (waitpid(t->pid, &status, WNOHANG) == 0) {
        if (dgl_now_ns() > end_ns)
            give_up(t, "the program does not end");
        /* Reads the output, so that the program does not block. */
        if (!read_some(t, 20))
            usleep(1000);
    }
    t->pid = 0;
    while (read_some(t, 0) && poll(&(struct pollfd){.fd = t->fd, .events = POLLIN}, 1, 0) > 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool terminal_is_plain(const struct terminal *t)
{
    struct termios mode;
    if (tcgetattr(t->fd, &mode) != 0)
        fail_msg("tcgetattr: %s", strerror(errno));
    bool cooked = (mode.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG);
    return cooked && !t->taint_pastes;
}

void terminal_finish(struct terminal *t)
{
    if (t->pid > 0) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, NULL, 0);
    }
    if (t->fd > 0)
        close(t->fd);
    dgl_buf_finish(&t->screen);
    *t = (struct terminal){0};
}
