/* Standard error for people, standard output for data, and signals. */
#include "tools/console.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- messages ------------------------------------------------------------------------------------------------ */

/* One line whatever the text: a driver's words may have several. */
static void put_line(const char *prefix, const char *text)
{
    char line[4096];
    snprintf(line, sizeof(line), "%s%s", prefix, text);
    for (char *p = line; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    fprintf(stderr, "%s\n", line);
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

static enum dgl_log_level level_of(const struct options *opt)
{
    static const char *const names[] = {"none", "error", "warn", "info", "debug", "trace"};
    for (int i = 0; opt->log_level && i < 6; i++)
        if (strcmp(opt->log_level, names[i]) == 0)
            return (enum dgl_log_level)i;
    if (opt->quiet)
        return DGL_LOG_ERROR;
    int level = DGL_LOG_WARN + opt->verbose;
    return level < DGL_LOG_TRACE ? (enum dgl_log_level)level : DGL_LOG_TRACE;
}

void console_init(struct console *c, const struct options *opt)
{
    const char *term = getenv("TERM");
    c->log = (struct dgl_log){.write = write_log, .priv = c, .level = level_of(opt)};
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

bool console_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    const struct console *c = priv;
    const char *no_color = getenv("NO_COLOR");
    bool plain = no_color && no_color[0];
    char bar[41] = {0};
    if (!c->bar || total == 0)
        return !interrupted();
    if (done >= total) {
        fprintf(stderr, "\r%*s\r", 79, "");
        return !interrupted();
    }
    double part = (double)done / (double)total;
    for (int i = 0; i < 40; i++)
        bar[i] = i < (int)(part * 40) ? '#' : '.';
    fprintf(stderr, "\r%s%s%s %3d%% of %llu %s ", plain ? "" : "\033[36m", bar,
            plain ? "" : "\033[0m", (int)(part * 100), (unsigned long long)total, what);
    fflush(stderr);
    return !interrupted();
}

/* ---- standard output ----------------------------------------------------------------------------------------- */

static bool lost(void)
{
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

int exit_code(enum dgl_status status)
{
    if (status == DGL_OK)
        return EXIT_OK;
    return status == DGL_ERR_CANCELLED ? EXIT_CANCELLED : EXIT_FAILED;
}

/* ---- signals --------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t signalled;
static struct dgl_session *volatile watched;

static void on_signal(int number)
{
    (void)number;
    signalled = 1;
    if (watched)
        dgl_session_cancel(watched);
}

void interrupt_watch(struct dgl_session *session)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    watched = session;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void)
{
    return signalled != 0;
}
