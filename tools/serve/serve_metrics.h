/* Counters of `serve`, and their text for Prometheus. */
#ifndef DGL_TOOLS_SERVE_METRICS_H
#define DGL_TOOLS_SERVE_METRICS_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/str.h"
#include "core/dopplergl.h"

#define METRICS_BUCKETS 12
#define SERVE_ROUTES    12 /* counted paths, of serve_head_route_name() */

enum serve_histogram_kind {
    HISTOGRAM_FIRST_TOKEN, /* seconds */
    HISTOGRAM_NEXT_TOKEN,  /* seconds */
    HISTOGRAM_QUEUE,       /* seconds */
    HISTOGRAM_ANSWER,      /* seconds */
    HISTOGRAM_PROMPT_TOKENS,
    HISTOGRAM_ANSWER_TOKENS,
    HISTOGRAM_COUNT
};

struct serve_histogram {
    uint64_t count[METRICS_BUCKETS + 1];
    double sum;
};

/* How a request ends that is not one of the batch. */
enum serve_outcome { SERVE_FINISHED, SERVE_CANCELLED, SERVE_FAILED, SERVE_OUTCOMES };

/* Thread-safety: any thread. */
struct serve_metrics {
    pthread_mutex_t lock;
    uint64_t requests[SERVE_ROUTES][6]; /* of HTTP, by path and the first digit of the status */
    struct serve_histogram histograms[HISTOGRAM_COUNT];
    struct dgl_batch_info batch;  /* as of the engine's last step */
    struct dgl_batch_info before; /* when the server became ready */
    struct dgl_memory memory;
    /* Labels of the info metrics: NAME="VALUE",...; set before the model can answer. */
    struct dgl_buf model;
    _Atomic uint64_t request_bytes;      /* memory of requests: bodies, trees, ids */
    uint64_t embeddings[SERVE_OUTCOMES]; /* requests for embeddings */
    uint64_t embedded_tokens;            /* tokens of their prompts that were evaluated */
};

/* Name of a counted path. */
const char *serve_head_route_name(size_t route);
void serve_metrics_request(struct serve_metrics *m, size_t route, int status);
void serve_metrics_add(struct serve_metrics *m, enum serve_histogram_kind kind, double value);
void serve_metrics_embedding(struct serve_metrics *m, enum serve_outcome outcome, size_t tokens);
void serve_metrics_batch(struct serve_metrics *m, const struct dgl_batch_info *info);
void serve_metrics_memory(struct serve_metrics *m, const struct dgl_memory *memory);
/* Excludes the work of the batch until now from the counters. */
void serve_metrics_begin(struct serve_metrics *m, const struct dgl_batch_info *info);
/* Appends NAME="VALUE" to a list of labels. */
void serve_metrics_label(struct dgl_buf *labels, const char *name, const char *value);
void serve_metrics_write(struct serve_metrics *m, struct dgl_buf *out);

#endif
