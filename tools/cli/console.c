/* Standard error for people, standard output for data, and signals. */
#include "tools/cli/console.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "tools/cli/bar.h"

/* ---- messages -------------------------------------------------------------------------------- */

/* The only bar of the terminal. Any line must clear it first. */
static struct bar bar;
/* A compilation is reported after this time. Kernels from a cache are ready sooner. */
#define COMPILING_NS 200000000u
static bool cache_told;    /* the folder of compiled kernels was printed, which is done once */
static size_t bar_columns; /* columns of the bar on the screen, or 0 if there is none */

static void clear_bar(void)
{
    if (bar_columns)
        fprintf(stderr, "\r%*s\r", (int)bar_columns, "");
    bar_columns = 0;
}

/* Standard output ends in the middle of a line. */
static bool line_is_open;

bool console_streams_meet(void)
{
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

#define ERROR "dopplergl: error: "

static bool drops_lines;
static size_t dropped;
/* Several threads of a server print. */
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;

void console_drop_lines(void)
{
    drops_lines = true;
}

/* Returns false if the line must be dropped. */
static bool has_room(void)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (!drops_lines || poll(&room, 1, 0) != 0)
        return true;
    dropped++;
    return false;
}

/* Prints the text as one line. A driver's message may have several lines, and a file's name any
 * characters. */
static void put_line(const char *prefix, const char *text)
{
    struct dgl_buf line = {0};
    for (; *text; text += strcspn(text, "\n\r\t")) {
        size_t blanks = strspn(text, "\n\r\t"), len = strcspn(text + blanks, "\n\r\t");
        if (blanks)
            dgl_buf_putc(&line, ' ');
        dgl_buf_visible(&line, (struct dgl_str){text + blanks, len});
        text += blanks;
    }
    pthread_mutex_lock(&line_lock);
    if (has_room()) {
        clear_bar();
        if (line_is_open && console_streams_meet())
            fputc('\n', stderr);
        line_is_open = false;
        if (dropped)
            fprintf(stderr,
                    "dopplergl: warning: the reader of standard error was too slow: %zu "
                    "lines were dropped\n",
                    dropped);
        dropped = 0;
        fprintf(stderr, "%s%s\n", prefix, line.p ? line.p : "");
    }
    pthread_mutex_unlock(&line_lock);
    dgl_buf_finish(&line);
}

static void put_message(const char *prefix, const char *fmt, va_list args)
{
    char text[2048];
    vsnprintf(text, sizeof(text), fmt, args);
    put_line(prefix, text);
}

void console_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_message(ERROR, fmt, args);
    va_end(args);
}

bool console_refuse(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_message(ERROR, fmt, args);
    va_end(args);
    return false;
}

int console_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_message(ERROR, fmt, args);
    va_end(args);
    return EXIT_FAILED;
}

static bool is_cancelled(void *priv)
{
    (void)priv;
    return interrupted() != 0;
}

static void write_log(void *priv, enum dgl_log_level level, const char *text)
{
    (void)priv;
    put_line(level == DGL_LOG_ERROR  ? ERROR
             : level == DGL_LOG_WARN ? "dopplergl: warning: "
                                     : "dopplergl: ",
             text);
}

void console_init(struct console *c, const struct options *opt)
{
    static const char *const names[] = {"none",     "error", "warn",  "notice",
                                        "progress", "info",  "debug", "trace"};
    const char *term = getenv("TERM");
    int level = opt->quiet ? DGL_LOG_ERROR : DGL_LOG_PROGRESS + opt->verbose;
    for (int i = 0; opt->log_level && i <= DGL_LOG_TRACE; i++)
        if (strcmp(opt->log_level, names[i]) == 0)
            level = i;
    level = level < DGL_LOG_TRACE ? level : DGL_LOG_TRACE;
    c->log = (struct dgl_log){.write = write_log,
                              .priv = c,
                              .level = (enum dgl_log_level)level,
                              .cancelled = is_cancelled};
    c->quiet = opt->quiet;
    c->work = c->cache = NULL;
    c->since_ns = 0;
    cache_told = false;
    c->bar = !opt->quiet && isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

void console_note(const struct console *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!c->quiet)
        put_message("", fmt, args);
    va_end(args);
}

void console_say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_message("", fmt, args);
    va_end(args);
}

bool console_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    static uint64_t kernels_ns; /* since when kernels are being made ready */
    const struct console *c = priv;
    const char *no_color = getenv("NO_COLOR");
    const uint64_t now_ns = dgl_now_ns();
    const bool of_kernels = strcmp(what, "kernels") == 0;
    if (!of_kernels || !kernels_ns)
        kernels_ns = of_kernels ? now_ns : 0;
    if (c->since_ns && now_ns - c->since_ns >= BAR_FIRST_NS)
        bar_expect(&bar, what, done, total, now_ns - BAR_FIRST_NS);
    bool drawn = bar_update(&bar, what, done, total, now_ns);
    if (drawn && !cache_told && c->cache && of_kernels && now_ns - kernels_ns >= COMPILING_NS) {
        cache_told = true;
        if (c->cache[0])
            console_note(c, "compiling kernels, once: they are kept in %s", c->cache);
        else
            console_note(c, "compiling kernels, as every time: nothing keeps them");
    }
    if (drawn && c->bar) {
        struct winsize size = {0};
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
        const struct bar_look look = {.columns = size.ws_col ? size.ws_col : 80,
                                      .colour = !no_color || !no_color[0],
                                      .work = c->work};
        struct dgl_buf line = {0};
        clear_bar();
        size_t columns = bar_draw(&bar, &look, now_ns, &line);
        if (!line.failed && columns) {
            bar_columns = columns;
            fprintf(stderr, "%s", line.p);
        }
        fflush(stderr);
        dgl_buf_finish(&line);
    } else if (!bar.what[0]) {
        clear_bar();
    }
    return !interrupted();
}

/* ---- standard output ------------------------------------------------------------------------- */

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    /* SA_RESTART is not set, so that a signal also ends a wait for standard input. */
    sigaction(number, &action, NULL);
}

static bool lost(void)
{
    /* A reader such as `| head` has ended. The process ends silently, like others by SIGPIPE. */
    if (errno == EPIPE) {
        handle(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    /* A signal while the reader was slow is a request to stop, not a fault. */
    if (errno != EINTR || !interrupted())
        console_error("cannot write to standard output: %s", strerror(errno));
    return false;
}

bool out_write(const char *bytes, size_t len)
{
    clear_bar();
    if (len)
        line_is_open = bytes[len - 1] != '\n';
    return fwrite(bytes, 1, len, stdout) == len || lost();
}

bool out_flush(void)
{
    return (fflush(stdout) == 0 && !ferror(stdout)) || lost();
}

bool out_end_line(void)
{
    return !line_is_open || !isatty(STDOUT_FILENO) || (out_write("\n", 1) && out_flush());
}

bool out_buf(struct dgl_buf *buf)
{
    bool ok = !buf->failed;
    if (!ok)
        console_error("out of memory while printing");
    else if (buf->len)
        ok = out_write(buf->p, buf->len);
    dgl_buf_finish(buf);
    return ok && out_flush();
}

int out_exit(bool written)
{
    if (written)
        return EXIT_OK;
    return interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
}

int console_end(int code)
{
    const uint64_t failures = dgl_memory_take_failures();
    return code == EXIT_OK && failures > 0
               ? console_fail(
                     "out of memory: the output may lack a part; free some memory, and run "
                     "the command again")
               : code;
}

int exit_code(enum dgl_status status)
{
    if (status == DGL_OK)
        return EXIT_OK;
    return status == DGL_ERR_CANCELLED ? EXIT_CANCELLED : EXIT_FAILED;
}

void console_cancelled(const struct options *opt)
{
    struct console c;
    console_init(&c, opt);
    clear_bar();
    dgl_notice(&c.log, "cancelled");
}

/* ---- process --------------------------------------------------------------------------------- */

static volatile sig_atomic_t signalled;
static void (*idle)(void *priv);
static void *idle_priv;
static struct dgl_session *volatile watched;

void interrupt_note(int number)
{
    if (!signalled || number != SIGINT)
        signalled = number;
    if (watched)
        dgl_session_cancel(watched);
}

void interrupt_catch(int number)
{
    handle(number, interrupt_note);
}

void process_prepare(void)
{
    struct sigaction hup = {.sa_handler = SIG_DFL};
    int fd;
    /* A standard descriptor that the caller closed would be given to the next file that we open,
     * and our text would end up in it. /dev/null for reading refuses such writes. */
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    interrupt_catch(SIGINT);
    interrupt_catch(SIGTERM);
    if (sigaction(SIGHUP, NULL, &hup) != 0 || hup.sa_handler != SIG_IGN) /* as nohup sets it */
        interrupt_catch(SIGHUP);
    /* Both would end the process at once and leave unfinished files: a message without a reader is
     * no reason to end, and a limit on files is a failed write like others. */
    handle(SIGPIPE, SIG_IGN);
    handle(SIGXFSZ, SIG_IGN);
}

void interrupt_watch(struct dgl_session *session)
{
    watched = session;
}

int interrupted(void)
{
    return signalled;
}

void console_set_idle(void (*cb)(void *priv), void *priv)
{
    idle = cb;
    idle_priv = priv;
}

void console_idle(void)
{
    if (idle)
        idle(idle_priv);
}

bool interrupt_wait_input(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    int ready = 0;
    /* poll() has a time limit: a signal that arrives just before it, or that a thread of the driver
     * handles, does not end it. Reading reports a fault of `fd`. */
    while (!signalled && (ready == 0 || (ready < 0 && errno == EINTR))) {
        ready = poll(&input, 1, INTERRUPT_TICK_MS);
        if (ready == 0)
            console_idle();
    }
    return !signalled;
}

/* Signals are blocked meanwhile, so that a SIGTERM is not lost. */
void interrupt_forget(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (signalled == SIGINT)
        signalled = 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
}
