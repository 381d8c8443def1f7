/* Counters of `serve`, and their text for Prometheus. */
#ifndef DGL_TOOLS_SERVE_METRICS_H
#define DGL_TOOLS_SERVE_METRICS_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/str.h"
#include "core/dopplergl.h"

#define METRICS_BUCKETS 12

struct serve_histogram {
    uint64_t count[METRICS_BUCKETS + 1];
    double sum;
};

/* Thread-safety: any thread. */
struct serve_metrics {
    pthread_mutex_t lock;
    uint64_t requests[6];                           /* of HTTP, by the first digit of the status */
    struct serve_histogram first_token, next_token; /* seconds */
    struct dgl_batch_info batch;                    /* as of the engine's last step */
    struct dgl_batch_info before;                   /* when the server became ready */
    struct dgl_memory memory;
    _Atomic uint64_t request_bytes; /* memory of requests: bodies, trees, ids */
};

void serve_metrics_request(struct serve_metrics *m, int status);
void serve_metrics_token(struct serve_metrics *m, bool first, double seconds);
void serve_metrics_batch(struct serve_metrics *m, const struct dgl_batch_info *info);
void serve_metrics_memory(struct serve_metrics *m, const struct dgl_memory *memory);
/* Excludes the work of the batch until now from the counters. */
void serve_metrics_begin(struct serve_metrics *m, const struct dgl_batch_info *info);
void serve_metrics_write(struct serve_metrics *m, struct dgl_buf *out);

#endif
