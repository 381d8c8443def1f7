/* Counters of `serve`, and their text for Prometheus. */
#ifndef DGL_TOOLS_SERVE_METRICS_H
#define DGL_TOOLS_SERVE_METRICS_H

#include <pthread.h>

#include "core/base/str.h"
#include "core/dopplergl.h"

#define METRICS_BUCKETS 12

struct serve_histogram {
    uint64_t count[METRICS_BUCKETS + 1];
    double sum;
};

/* How a request ends that is not one of the batch. */
enum serve_outcome { SERVE_FINISHED, SERVE_CANCELLED, SERVE_FAILED, SERVE_OUTCOMES };

/* Thread-safety: any thread. */
struct serve_metrics {
    pthread_mutex_t lock;
    uint64_t requests[6];                           /* of HTTP, by the first digit of the status */
    struct serve_histogram first_token, next_token; /* seconds */
    struct dgl_batch_info batch;                    /* as of the engine's last step */
    struct dgl_batch_info before;                   /* when the server became ready */
    struct dgl_memory memory;
    uint64_t embeddings[SERVE_OUTCOMES]; /* requests for embeddings */
    uint64_t embedded_tokens;            /* tokens of their prompts that were evaluated */
};

void serve_metrics_request(struct serve_metrics *m, int status);
void serve_metrics_token(struct serve_metrics *m, bool first, double seconds);
void serve_metrics_embedding(struct serve_metrics *m, enum serve_outcome outcome, size_t tokens);
void serve_metrics_batch(struct serve_metrics *m, const struct dgl_batch_info *info);
/* Excludes the work of the batch until now from the counters. */
void serve_metrics_begin(struct serve_metrics *m, const struct dgl_batch_info *info);
void serve_metrics_write(struct serve_metrics *m, struct dgl_buf *out);

#endif
