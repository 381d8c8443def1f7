/* Standard error for people, standard output for data, and signals. */
#include "tools/console.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/printable.h"

#define BAR_CELLS 40

/* ---- messages -------------------------------------------------------------------------------- */

/* Percentage that the progress bar shows; -1 = there is none. Belongs to the terminal, of which
 * there is one: any line must first clear it. */
static int bar_percent = -1;

static void clear_bar(void)
{
    if (bar_percent >= 0)
        fprintf(stderr, "\r%79s\r", "");
    bar_percent = -1;
}

/* One line whatever the text: a driver's words may have several, a file's name anything. */
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
    clear_bar();
    fprintf(stderr, "%s%s\n", prefix, line.p ? line.p : "");
    dgl_buf_finish(&line);
}

void console_error(const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_line("dopplergl: error: ", text);
}

static bool is_cancelled(void *priv)
{
    (void)priv;
    return interrupted() != 0;
}

static void write_log(void *priv, enum dgl_log_level level, const char *text)
{
    (void)priv;
    if (level == DGL_LOG_ERROR)
        put_line("dopplergl: error: ", text);
    else if (level == DGL_LOG_WARN)
        put_line("dopplergl: warning: ", text);
    else
        put_line("dopplergl: ", text);
}

void console_init(struct console *c, const struct options *opt)
{
    static const char *const names[] = {"none", "error", "warn", "notice",
                                        "info", "debug", "trace"};
    const char *term = getenv("TERM");
    int level = opt->quiet ? DGL_LOG_ERROR : DGL_LOG_NOTICE + opt->verbose;
    for (int i = 0; opt->log_level && i <= DGL_LOG_TRACE; i++)
        if (strcmp(opt->log_level, names[i]) == 0)
            level = i;
    level = level < DGL_LOG_TRACE ? level : DGL_LOG_TRACE;
    c->log = (struct dgl_log){.write = write_log,
                              .priv = c,
                              .level = (enum dgl_log_level)level,
                              .cancelled = is_cancelled};
    c->quiet = opt->quiet;
    c->bar = !opt->quiet && isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

void console_note(const struct console *c, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    if (c->quiet)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_line("", text);
}

void console_say(const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_line("", text);
}

static void draw_bar(int percent, const char *what, uint64_t total)
{
    const char *no_color = getenv("NO_COLOR");
    bool plain = no_color && no_color[0];
    char bar[BAR_CELLS + 1] = {0};
    struct dgl_buf of = {0};
    if (strcmp(what, "bytes") == 0)
        dgl_buf_bytes(&of, total);
    else
        dgl_buf_printf(&of, "%llu %s", (unsigned long long)total, what);
    memset(bar, '.', BAR_CELLS);
    memset(bar, '#', (size_t)(percent * BAR_CELLS / 100));
    fprintf(stderr, "\r%s%s%s %3d%% of %s ", plain ? "" : "\033[36m", bar, plain ? "" : "\033[0m",
            percent, of.p ? of.p : what);
    fflush(stderr);
    dgl_buf_finish(&of);
}

bool console_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    const struct console *c = priv;
    if (!c->bar || total == 0)
        return !interrupted();
    int percent = (int)((double)done / (double)total * 100);
    if (done >= total) {
        clear_bar();
    } else if (percent != bar_percent) {
        bar_percent = percent;
        draw_bar(percent, what, total);
    }
    return !interrupted();
}

/* ---- standard output ------------------------------------------------------------------------- */

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    /* Without SA_RESTART: waiting for standard input ends too. */
    sigaction(number, &action, NULL);
}

static bool lost(void)
{
    /* A reader like `| head` is done: end without a word, as programs that leave SIGPIPE alone. */
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
    return fwrite(bytes, 1, len, stdout) == len || lost();
}

bool out_flush(void)
{
    return (fflush(stdout) == 0 && !ferror(stdout)) || lost();
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

int exit_code(enum dgl_status status)
{
    if (status == DGL_OK)
        return EXIT_OK;
    return status == DGL_ERR_CANCELLED ? EXIT_CANCELLED : EXIT_FAILED;
}

/* ---- process --------------------------------------------------------------------------------- */

static volatile sig_atomic_t signalled;
static struct dgl_session *volatile watched;

static void on_signal(int number)
{
    if (!signalled || number != SIGINT)
        signalled = number;
    if (watched)
        dgl_session_cancel(watched);
}

void interrupt_catch(int number)
{
    handle(number, on_signal);
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

/* With SIGTERM kept away for the moment, which must not be lost. */
void interrupt_forget(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (signalled == SIGINT)
        signalled = 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
}
