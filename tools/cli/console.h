/* Messages on standard error, checked writes to standard output, and signals. */
#ifndef DGL_TOOLS_CONSOLE_H
#define DGL_TOOLS_CONSOLE_H

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "tools/cli/options.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CANCELLED = 130 };

/* "dopplergl: error: ...", one line. */
void console_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The log and the verbosity that the options ask for. */
struct console {
    struct dgl_log log; /* its `priv` is the console: a console stays where it was initialised */
    bool quiet;
    bool bar; /* progress bars: standard error is a terminal, without -q */
    /* For the bar; borrowed. NULL: nobody knows. */
    const char *work; /* names what goes through bytes: "loading" */
    /* When the command began whose bars follow one another, dgl_now_ns(); 0: each waits its own
     * half second. */
    uint64_t since_ns;
    const char *cache; /* folder that keeps compiled kernels; "" = none does */
};
void console_init(struct console *c, const struct options *opt);
/* A statistics or device line; not shown with -q. */
void console_note(const struct console *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A line that somebody asked for: shown with -q too. */
void console_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether standard output and standard error end up in one place: a terminal, a file, a pipe. */
bool console_streams_meet(void);
/* Progress callback; `priv` is a struct console. After half a second it shows a bar on a terminal,
 * whose line it clears at the end; that kernels are compiled is also a line that stays. Returns
 * false after SIGINT. */
bool console_progress(void *priv, const char *what, uint64_t done, uint64_t total);

/* Exact bytes to standard output, where a bar is cleared first; false (after an error line) when
 * they could not be written. */
bool out_write(const char *bytes, size_t len);
bool out_buf(struct dgl_buf *buf); /* writes, flushes and finishes */
/* Flushes; false (after an error line) when anything was lost. */
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
/* For another handler: what that of those signals does. */
void interrupt_note(int number);
/* The signal that came, 0 = none. One that is to end the program is not hidden by SIGINT. */
int interrupted(void);
/* Who waits for input looks at interrupted() this often. */
#define INTERRUPT_TICK_MS 200
/* Waits until `fd` has something to read, its end or a fault; false after one of those signals,
 * however shortly before the call it came. */
bool interrupt_wait_input(int fd);
/* What is to be done meanwhile, several times a second; NULL = nothing. */
void console_set_idle(void (*cb)(void *priv), void *priv);
/* For who waits in another way. */
void console_idle(void);
/* Forgets a SIGINT that was meant for work that is over. */
void interrupt_forget(void);

#endif
