/* Messages on standard error, checked writes to standard output, and signals. */
#ifndef DGL_TOOLS_CONSOLE_H
#define DGL_TOOLS_CONSOLE_H

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "tools/cli/options.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CANCELLED = 130 };

/* "dopplergl: error: ...", one line. */
void console_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same. Returns false. */
bool console_refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same. Returns EXIT_FAILED. */
int console_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The log and the verbosity that the options ask for. */
struct console {
    struct dgl_log log; /* its `priv` is the console: a console stays where it was initialised */
    bool quiet;
    bool bar; /* progress bars: standard error is a terminal, without -q */
    /* For the bar; borrowed. NULL if unknown. */
    const char *work; /* names work that is counted in bytes: "loading" */
    /* When the command began whose bars follow one another, dgl_now_ns(); 0: each waits its own
     * half second. */
    uint64_t since_ns;
    /* Folder of compiled kernels; "" if they are not kept, NULL to print no line about it. */
    const char *cache;
};
void console_init(struct console *c, const struct options *opt);
/* A statistics or device line; not shown with -q. */
void console_note(const struct console *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A line that somebody asked for: shown with -q too. */
void console_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Returns true if standard output and standard error are the same terminal, file or pipe. */
bool console_streams_meet(void);
/* Progress callback; `priv` is a struct console. After half a second it shows a bar on a terminal,
 * whose line it clears at the end; that kernels are compiled is also a line that stays. Returns
 * false after SIGINT. */
bool console_progress(void *priv, const char *what, uint64_t done, uint64_t total);
/* Fields of the parameters of a call that reports its progress to a console. */
#define CONSOLE_PROGRESS(console) .progress_cb = console_progress, .progress_priv = (console)

/* Writes bytes unchanged to standard output and clears the bar first. Returns false after an error
 * line. */
bool out_write(const char *bytes, size_t len);
bool out_buf(struct dgl_buf *buf); /* writes, flushes and finishes */
/* Flushes standard output. Returns false after an error line if bytes were lost. */
bool out_flush(void);
/* Ends an unfinished line where standard output is a terminal: the shell's prompt would stick to
 * it. */
bool out_end_line(void);
/* EXIT_* for a result of the functions above. */
int out_exit(bool written);

/* EXIT_* for a status. */
int exit_code(enum dgl_status status);
/* The one line about a command that was cancelled; not shown with -q. */
void console_cancelled(const struct options *opt);

/* Makes SIGINT, SIGTERM and SIGHUP set a flag, a closed standard output end the process by SIGPIPE
 * (other closed pipes and limits on files only fail the write), and descriptors 0 to 2 exist. */
void process_prepare(void);
/* Those signals also cancel `session`; NULL ends that. */
void interrupt_watch(struct dgl_session *session);
/* One more signal with the effect of SIGTERM. */
void interrupt_catch(int number);
/* Does what the handlers of those signals do. For use in another handler. */
void interrupt_note(int number);
/* Last signal received, or 0. SIGTERM and SIGHUP are kept even if a SIGINT arrives after them. */
int interrupted(void);
/* Functions that wait for input check interrupted() this often. */
#define INTERRUPT_TICK_MS 200
/* Waits until `fd` has data, its end or an error. Returns false after one of those signals, even if
 * it came just before the call. */
bool interrupt_wait_input(int fd);
/* Sets a callback that runs several times a second during such a wait. NULL removes it. */
void console_set_idle(void (*cb)(void *priv), void *priv);
/* Runs that callback. For code that waits in another way. */
void console_idle(void);
/* Forgets a SIGINT that was meant for work that is over. */
void interrupt_forget(void);

#endif
