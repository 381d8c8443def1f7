/* Runs the built command like a user: arguments, standard input, signals, a terminal. Keeps its
 * output and its exit status. */
#ifndef DGL_TESTS_PROCESS_H
#define DGL_TESTS_PROCESS_H

#include <signal.h>

#include "core/base/json.h"
#include "core/base/str.h"

struct process_params {
    const char *const *args; /* after the program's name, ended by NULL; may have TEST_MISSING */
    const char *program;     /* NULL = the built command */
    const char *input;       /* standard input; NULL = /dev/null */
    size_t input_len;        /* 0 = strlen(input) */
    const char *const *env;  /* "NAME=value" to set, "NAME" to unset, ended by NULL; as args */
    bool terminal;           /* standard error is a terminal, 80 columns */
    const char *out_path;    /* file that receives standard output instead; opened for writing */
    size_t close_after;   /* close standard output's reader after this number of bytes; 0 = never */
    bool close_out;       /* no standard output at all */
    int signal;           /* sent after `signal_after` bytes of output; 0 = no signal */
    size_t signal_after;  /* bytes of standard output */
    bool signal_on_error; /* count bytes of standard error instead */
    uint32_t signal_wait_ms; /* and then that long */
    bool keep_input;         /* never end standard input */
    bool ignore_sigpipe;     /* hand down an ignored SIGPIPE */
};

struct process_result {
    int code;   /* exit code; -1 when a signal ended it */
    int signal; /* that signal; 0 otherwise */
    char *out, *err;
    size_t out_len, err_len;
    struct dgl_json_doc *json; /* process_json() */
};

/* The test fails if the program cannot be started or runs longer than four minutes (a cold shader
 * cache on a busy machine). Release with process_finish(). Default environment: no NO_COLOR,
 * TERM=xterm, DOPPLERGL_DATA = tests, and no settings of the user who runs the tests. */
void process_run(const struct process_params *params, struct process_result *r);
void process_finish(struct process_result *r);
/* The command with these arguments: process_command(&r, "version", "--json", NULL). */
void process_command(struct process_result *r, ...) __attribute__((sentinel));
/* Returns standard output parsed as one JSON value. The test fails if it is not valid. */
const struct dgl_json *process_json(struct process_result *r);

/* Path of the built command, DOPPLERGL_TEST_BUILD/dopplergl (build/dopplergl). Static buffer. */
const char *process_program(void);

/* Asserts the exit code and shows both streams when it differs. */
#define assert_code(r, wanted) process_assert_code((r), (wanted), __FILE__, __LINE__)
/* Asserts that standard error contains exactly one error line, and that the line contains `part`,
 * which may have TEST_MISSING. */
#define assert_one_error(r, part) process_assert_error((r), (part), __FILE__, __LINE__)
/* Asserts that standard error contains no error line. */
#define assert_no_error(r) process_assert_error((r), NULL, __FILE__, __LINE__)
void process_assert_code(const struct process_result *r, int wanted, const char *file, int line);
void process_assert_error(const struct process_result *r, const char *part, const char *file,
                          int line);

#endif
