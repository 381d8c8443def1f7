/* A load of requests on a server, and its results. */
#ifndef DGL_TOOLS_BENCH_SERVE_H
#define DGL_TOOLS_BENCH_SERVE_H

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "tools/cli/options.h"

#define LOAD_MOST_REQUESTS 200000
#define LOAD_MOST_FAILURES 16 /* kinds of them */

/* Tokens, drawn at random. */
struct dgl_atomic_file;

struct load_lengths {
    int32_t least, most;
    bool octaves; /* each octave as often as another, else each length */
};

struct load_request {
    struct load *load;
    uint64_t due_ns;   /* when it was to begin, by the clock alone */
    uint64_t begun_ns; /* when it did */
    uint64_t first_ns; /* first token; 0 if no token was received */
    uint64_t last_ns;  /* last one */
    uint64_t end_ns;
    int32_t asked_prompt, asked_answer;   /* tokens */
    int64_t prompt_tokens, answer_tokens; /* by the server; -1 = it did not say */
    size_t events;                        /* that brought text */
    bool finished;                        /* it came to its end */
    bool failed;                          /* counted among the failures */
    struct dgl_buf line;                  /* of the stream, unfinished; text of a refusal */
    double *gap_ms;                       /* [num_gaps], between events */
    size_t num_gaps, gaps_cap;
};

struct load_failure {
    char what[160];
    size_t count;
};

struct quantiles {
    double mean, p50, p90, p99, max; /* NaN if there are no values */
};

struct load {
    const struct options *opt;
    struct http_client *client;
    char url[2048];  /* of completions */
    char model[256]; /* "" if no model is named */
    struct load_lengths prompt, answer;
    double tokens_per_word, tokens_beside; /* of a prompt */
    bool counted;                          /* the server reported both numbers of tokens */
    struct load_request *request;          /* [count], by due_ns */
    size_t count, begun, ended;
    bool no_memory;
    uint64_t start_ns;

    /* results */
    double seconds; /* from the first arrival to the last end */
    size_t finished, failed, good;
    double *ttft_ms, *answer_ms, *late_ms; /* [finished], in the order of arrival */
    double *tpot_ms;                       /* [num_tpot]: answers of at least two tokens */
    double *itl_ms;                        /* [num_itl] */
    size_t num_tpot, num_itl;
    struct quantiles ttft, itl, tpot, whole, late;
    double prompt_tokens, answer_tokens; /* of all that finished */
    struct load_failure failure[LOAD_MOST_FAILURES];
    size_t num_failures;
};

/* Parses "128", "16-512" or "log:16-512". Returns false if the text has another form. */
bool load_lengths_parse(const char *text, struct load_lengths *out);

/* Prints the results to standard output. Returns false after an error line. */
bool load_print(const struct load *load);
/* The figure of --plot. Consumes the file. */
enum dgl_status load_plot(const struct dgl_log *log, const struct load *load,
                          struct dgl_atomic_file **file);

#endif
