/* Results of `bench` and their output formats. */
#ifndef DGL_TOOLS_BENCH_H
#define DGL_TOOLS_BENCH_H

#include "core/base/str.h"
#include "tools/cli/engine.h"

struct dgl_atomic_file;

enum { BENCH_MAX_POINTS = 24, BENCH_MAX_CELLS = 64 };

/* One length of a sweep, or one number of sequences. */
struct bench_point {
    int32_t tokens; /* in the KV cache, or of the prompt; sequences */
    int32_t count;
    double tps[64]; /* [count] */
    double median;
    double step_ms; /* of sequences that decode together: the median; else 0 */
};

/* A type of weights in one layout. */
struct bench_cell {
    char quantization[16], layout[64];
    uint64_t weight_bytes;
    struct dgl_bench_result result; /* without its arrays */
};

struct bench_report {
    const struct options *opt;
    const struct engine *engine;
    struct dgl_bench_result result;
    char layout[32];                             /* of the largest matrices in decode */
    struct bench_point depth[BENCH_MAX_POINTS];  /* [num_depths]: decoding */
    struct bench_point prompt[BENCH_MAX_POINTS]; /* [num_prompts]: prefill */
    struct bench_point batch[BENCH_MAX_POINTS];  /* [num_batches]: sequences together */
    size_t num_depths, num_prompts, num_batches;
    struct bench_cell cell[BENCH_MAX_CELLS]; /* [num_cells] of --matrix, in its order */
    size_t num_cells;
    struct dgl_tune_result tuned; /* the tuner's choices against the defaults */
};

/* Prints the report to standard output. Returns false after an error line. */
bool bench_print(const struct bench_report *report);
/* The figure of --plot. Consumes the file. */
enum dgl_status bench_plot(const struct dgl_log *log, const struct bench_report *report,
                           struct dgl_atomic_file **file);

/* `bench compare A.json B.json`, `bench load`, `bench serve URL`: exit codes. */
int bench_compare(const struct options *opt);
int bench_load(const struct options *opt);
int bench_serve(const struct options *opt);
/* Returns false after an error line if a value of an option of `bench serve` is invalid. */
bool bench_serve_check(const struct options *opt);

#endif
