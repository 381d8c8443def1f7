/* A program on a pseudo terminal, driven like a person does: type, wait for text. Tests wait for
 * text, never for a time. A wait fails after four minutes, which allows for a cold shader cache on
 * a busy machine. */
#ifndef DGL_TESTS_TERMINAL_H
#define DGL_TESTS_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/str.h"

struct terminal {
    pid_t pid;
    int fd;
    struct dgl_buf screen; /* all that was written, without control sequences and returns */
    size_t seen;           /* of it, up to the last match */
    bool ended;            /* the program closed the terminal */
    int escape;            /* inside a control sequence */
    size_t colours;        /* control sequences that choose one, or bold type */
    char sequence[8];      /* the control sequence, as far as it came */
    bool taint_pastes;     /* the program has requested marks around pasted text */
};

/* Starts the built command with these arguments, 24 lines of 80 columns; `env` as in process.h. */
void terminal_start(struct terminal *t, const char *const *args, const char *const *env);
void terminal_send(struct terminal *t, const char *keys);
/* Waits until `text` appears after the last match. Returns the text between the two matches;
 * borrowed until the next call. */
const char *terminal_expect(struct terminal *t, const char *text);
/* Waits for the end of the program; its exit code, -1 when a signal ended it. */
int terminal_wait(struct terminal *t);
/* Returns true if the terminal is as before the program began: with echo and line mode, without
 * marks around pasted text. */
bool terminal_is_plain(const struct terminal *t);
/* Ends the program when it still runs. */
void terminal_finish(struct terminal *t);

#endif
