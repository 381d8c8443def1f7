/* Messages on standard error, checked writes to standard output, and signals. */
#ifndef DGL_TOOLS_CONSOLE_H
#define DGL_TOOLS_CONSOLE_H

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "tools/cli/options.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CANCELLED = 130 };

/* Prints one line, "dopplergl: error: ...". */
void console_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Like console_error(). Returns false. */
bool console_refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Like console_error(). Returns EXIT_FAILED. */
int console_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The log and the verbosity of the options. */
struct console {
    struct dgl_log log; /* its `priv` is the console, so the console must not be moved */
    bool quiet;
    bool bar; /* show progress bars: standard error is a terminal, and there is no -q */
    /* Name of work that is counted in bytes, such as "loading". Borrowed; NULL if unknown. */
    const char *work;
    /* Start of a command with several bars, dgl_now_ns(): only the first bar waits half a second. 0
     * means that each bar waits. */
    uint64_t since_ns;
    /* Folder of compiled kernels; "" if they are not kept, NULL to print no line about it. */
    const char *cache;
};
void console_init(struct console *c, const struct options *opt);
/* Prints a line of statistics or about the device. Prints nothing with -q. */
void console_note(const struct console *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints a line that the user requested, also with -q. */
void console_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From now on, lines for which standard error has no room are dropped, because a reader that stands
 * still must not stop a server. A later line has their number. */
void console_drop_lines(void);
/* Returns true if standard output and standard error are the same terminal, file or pipe. */
bool console_streams_meet(void);
/* Progress callback; `priv` is a struct console. After half a second it shows a bar on a terminal,
 * and clears it at the end of the work. A compilation of kernels is also reported by a line that
 * stays. Returns false after SIGINT. */
bool console_progress(void *priv, const char *what, uint64_t done, uint64_t total);
/* Fields of the parameters of a call that reports its progress to a console. */
#define CONSOLE_PROGRESS(console) .progress_cb = console_progress, .progress_priv = (console)

/* Writes bytes unchanged to standard output and clears the bar first. Returns false after an error
 * line. */
bool out_write(const char *bytes, size_t len);
bool out_buf(struct dgl_buf *buf); /* writes, flushes and finishes */
/* Flushes standard output. Returns false after an error line if bytes were lost. */
bool out_flush(void);
/* Ends an unfinished line if standard output is a terminal, because the shell's prompt follows. */
bool out_end_line(void);
/* Returns the exit code for a result of the functions above. */
int out_exit(bool written);

/* Returns the exit code of a command that ended with `code`. Turns success into an error if memory
 * ran out on this thread meanwhile, because the output may then lack a part. */
int console_end(int code);
/* Returns the exit code for a status. */
int exit_code(enum dgl_status status);
/* Prints the line about a command that was cancelled. Prints nothing with -q. */
void console_cancelled(const struct options *opt);

/* Prepares the process. SIGINT, SIGTERM and SIGHUP then set a flag. A closed standard output ends
 * the process by SIGPIPE; other closed pipes and limits on files only fail the write. Descriptors 0
 * to 2 are open. */
void process_prepare(void);
/* Makes SIGINT, SIGTERM and SIGHUP also cancel `session`, or no session if it is NULL. */
void interrupt_watch(struct dgl_session *session);
/* Makes another signal act like SIGTERM. */
void interrupt_catch(int number);
/* Acts like the handlers of these signals. For use in another handler. */
void interrupt_note(int number);
/* Last signal received, or 0. SIGTERM and SIGHUP are kept even if a SIGINT arrives after them. */
int interrupted(void);
/* Functions that wait for input check interrupted() this often. */
#define INTERRUPT_TICK_MS 200
/* Waits until `fd` has data, its end or an error. Returns false after one of these signals, even if
 * it arrived just before the call. */
bool interrupt_wait_input(int fd);
/* Sets a callback that runs several times a second during such a wait. NULL removes it. */
void console_set_idle(void (*cb)(void *priv), void *priv);
/* Runs the callback of console_set_idle(). For code that waits in another way. */
void console_idle(void);
/* Forgets a SIGINT that was meant for work that has ended. */
void interrupt_forget(void);

#endif
