/* Counters and histograms of the server in Prometheus' text format, version 0.0.4. */
#include "tools/serve/serve_metrics.h"

static const double bounds[METRICS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                               0.1,   0.25,   0.5,   1,    5,     30};

void serve_metrics_request(struct serve_metrics *m, int status)
{
    pthread_mutex_lock(&m->lock);
    m->requests[status >= 100 && status < 600 ? status / 100 : 0]++;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_token(struct serve_metrics *m, bool first, double seconds)
{
    struct serve_histogram *h = first ? &m->first_token : &m->next_token;
    int bucket = 0;
    while (bucket < METRICS_BUCKETS && seconds > bounds[bucket])
        bucket++;
    pthread_mutex_lock(&m->lock);
    h->count[bucket]++;
    h->sum += seconds;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_embedding(struct serve_metrics *m, enum serve_outcome outcome, size_t tokens)
{
    pthread_mutex_lock(&m->lock);
    m->embeddings[outcome]++;
    m->embedded_tokens += tokens;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_batch(struct serve_metrics *m, const struct dgl_batch_info *info)
{
    pthread_mutex_lock(&m->lock);
    m->batch = *info;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_begin(struct serve_metrics *m, const struct dgl_batch_info *info)
{
    pthread_mutex_lock(&m->lock);
    m->batch = m->before = *info;
    pthread_mutex_unlock(&m->lock);
}

static void write_histogram(struct dgl_buf *out, const char *name, const char *help,
                            const struct serve_histogram *h)
{
    uint64_t sum = 0;
    dgl_buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        sum += h->count[i];
        dgl_buf_printf(out, "%s_bucket{le=\"", name);
        dgl_buf_f64(out, bounds[i]);
        dgl_buf_printf(out, "\"} %llu\n", (unsigned long long)sum);
    }
    sum += h->count[METRICS_BUCKETS];
    dgl_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum ", name, (unsigned long long)sum,
                   name);
    dgl_buf_f64(out, h->sum);
    dgl_buf_printf(out, "\n%s_count %llu\n", name, (unsigned long long)sum);
}

void serve_metrics_write(struct serve_metrics *m, struct dgl_buf *out)
{
    pthread_mutex_lock(&m->lock);
    const struct dgl_batch_info *b = &m->batch, *before = &m->before;
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"requests_running", "gauge", "Requests that have a sequence.", b->running},
        {"requests_waiting", "gauge", "Requests in the queue.", b->waiting},
        {"requests_finished_total", "counter", "Requests that ended.",
         b->finished - before->finished + m->embeddings[SERVE_FINISHED]},
        {"requests_cancelled_total", "counter", "Requests whose client went away.",
         b->cancelled - before->cancelled + m->embeddings[SERVE_CANCELLED]},
        {"requests_failed_total", "counter", "Requests that an error ended.",
         b->failed - before->failed + m->embeddings[SERVE_FAILED]},
        {"prompt_tokens_total", "counter", "Tokens of prompts.",
         b->prompt_tokens - before->prompt_tokens + m->embedded_tokens},
        {"prompt_tokens_reused_total", "counter", "Of these, found evaluated.",
         b->reused_tokens - before->reused_tokens},
        {"tokens_total", "counter", "Tokens generated.",
         b->decoded_tokens - before->decoded_tokens},
        {"sequences", "gauge", "Requests that run at once at most.", (uint64_t)b->sequences},
        {"context_tokens", "gauge", "Tokens of a sequence.", (uint64_t)b->context},
        {"weight_bytes", "gauge", "Weights on the device.", m->memory.weight_bytes},
        {"kv_cache_bytes", "gauge", "Keys and values on the device.", b->cache_bytes},
        {"kv_pages", "gauge", "Pages of 64 tokens that sequences share.", b->pages},
        {"kv_pages_used", "gauge", "Of these, such as sequences have.", b->pages_used},
        {"preemptions_total", "counter", "Times that a request gave its pages up and waited again.",
         b->preempted - before->preempted},
        {"scratch_bytes", "gauge", "Other device memory of a sequence, and shared.",
         m->memory.scratch_bytes},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        dgl_buf_printf(out, "# HELP dopplergl_%s %s\n# TYPE dopplergl_%s %s\ndopplergl_%s %llu\n",
                       rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name,
                       (unsigned long long)rows[i].value);
    dgl_buf_puts(out, "# HELP dopplergl_http_requests_total Requests by status.\n"
                      "# TYPE dopplergl_http_requests_total counter\n");
    for (int i = 1; i < 6; i++)
        dgl_buf_printf(out, "dopplergl_http_requests_total{status=\"%dxx\"} %llu\n", i,
                       (unsigned long long)m->requests[i]);
    write_histogram(out, "dopplergl_time_to_first_token_seconds",
                    "From a request's body to its first token.", &m->first_token);
    write_histogram(out, "dopplergl_time_per_token_seconds", "From one token to the next.",
                    &m->next_token);
    pthread_mutex_unlock(&m->lock);
}
