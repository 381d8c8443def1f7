/* Counters and histograms of the server in Prometheus' text format, version 0.0.4. */
#include "tools/serve/serve_metrics.h"

static const double seconds[METRICS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                0.1,   0.25,   0.5,   1,    5,     30};
static const double long_seconds[METRICS_BUCKETS] = {0.01, 0.05, 0.1, 0.25, 0.5, 1,
                                                     2.5,  5,    10,  30,   60,  300};
static const double lengths[METRICS_BUCKETS] = {8,   16,   32,   64,   128,  256,
                                                512, 1024, 2048, 4096, 8192, 32768};

static const struct {
    const char *name, *help;
    const double *bounds;
} histograms[HISTOGRAM_COUNT] = {
    [HISTOGRAM_FIRST_TOKEN] = {"time_to_first_token_seconds",
                               "Time from the last byte of a request to the first token of each of "
                               "its answers, in seconds.",
                               seconds},
    [HISTOGRAM_NEXT_TOKEN] = {"time_per_token_seconds",
                              "Time between two tokens of an answer, in seconds.", seconds},
    [HISTOGRAM_QUEUE] = {"queue_time_seconds",
                         "Time that an answer waited until its request had a sequence, in seconds.",
                         long_seconds},
    [HISTOGRAM_ANSWER] = {"answer_time_seconds",
                          "Time from the last byte of a request to the end of each of its answers, "
                          "in seconds.",
                          long_seconds},
    [HISTOGRAM_PROMPT_TOKENS] = {"prompt_length_tokens", "Tokens of the prompt of an answer.",
                                 lengths},
    [HISTOGRAM_ANSWER_TOKENS] = {"answer_length_tokens", "Generated tokens of an answer.", lengths},
};

void serve_metrics_request(struct serve_metrics *m, size_t route, int status)
{
    pthread_mutex_lock(&m->lock);
    m->requests[route][status >= 100 && status < 600 ? status / 100 : 0]++;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_add(struct serve_metrics *m, enum serve_histogram_kind kind, double value)
{
    struct serve_histogram *h = &m->histograms[kind];
    int bucket = 0;
    while (bucket < METRICS_BUCKETS && value > histograms[kind].bounds[bucket])
        bucket++;
    pthread_mutex_lock(&m->lock);
    h->count[bucket]++;
    h->sum += value;
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

void serve_metrics_memory(struct serve_metrics *m, const struct dgl_memory *memory)
{
    pthread_mutex_lock(&m->lock);
    m->memory = *memory;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_begin(struct serve_metrics *m, const struct dgl_batch_info *info)
{
    pthread_mutex_lock(&m->lock);
    m->batch = m->before = *info;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_label(struct dgl_buf *labels, const char *name, const char *value)
{
    dgl_buf_printf(labels, "%s%s=\"", labels->len ? "," : "", name);
    for (const char *c = value; *c; c++)
        if (*c == '\n')
            dgl_buf_puts(labels, "\\n");
        else
            dgl_buf_printf(labels, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    dgl_buf_putc(labels, '"');
}

/* ---- text ------------------------------------------------------------------------------------ */

static void begin_metric(struct dgl_buf *out, const char *name, const char *type, const char *help)
{
    dgl_buf_printf(out, "# HELP dopplergl_%s %s\n# TYPE dopplergl_%s %s\n", name, help, name, type);
}

static void write_histogram(struct dgl_buf *out, enum serve_histogram_kind kind,
                            const struct serve_histogram *h)
{
    const char *name = histograms[kind].name;
    uint64_t sum = 0;
    begin_metric(out, name, "histogram", histograms[kind].help);
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        sum += h->count[i];
        dgl_buf_printf(out, "dopplergl_%s_bucket{le=\"", name);
        dgl_buf_f64(out, histograms[kind].bounds[i]);
        dgl_buf_printf(out, "\"} %llu\n", (unsigned long long)sum);
    }
    sum += h->count[METRICS_BUCKETS];
    dgl_buf_printf(out, "dopplergl_%s_bucket{le=\"+Inf\"} %llu\ndopplergl_%s_sum ", name,
                   (unsigned long long)sum, name);
    dgl_buf_f64(out, h->sum);
    dgl_buf_printf(out, "\ndopplergl_%s_count %llu\n", name, (unsigned long long)sum);
}

static void write_requests(struct dgl_buf *out, const struct serve_metrics *m)
{
    begin_metric(out, "http_requests_total", "counter",
                 "HTTP requests since the start, by path and class of the answer's status; other "
                 "are paths that do not exist.");
    for (size_t route = 0; route < SERVE_ROUTES; route++)
        for (int i = 2; i < 6; i++) {
            struct dgl_buf labels = {0};
            serve_metrics_label(&labels, "path", serve_head_route_name(route));
            dgl_buf_printf(out, "dopplergl_http_requests_total{%s,status=\"%dxx\"} %llu\n",
                           labels.p ? labels.p : "", i, (unsigned long long)m->requests[route][i]);
            dgl_buf_finish(&labels);
        }
}

static void write_info(struct dgl_buf *out, const struct serve_metrics *m)
{
    struct dgl_buf build = {0};
    serve_metrics_label(&build, "version", DGL_VERSION);
    serve_metrics_label(&build, "commit", DGL_COMMIT);
    begin_metric(out, "build_info", "gauge",
                 "Always 1. The labels are the version of dopplergl and the commit of its source.");
    dgl_buf_printf(out, "dopplergl_build_info{%s} 1\n", build.p ? build.p : "");
    dgl_buf_finish(&build);
    if (m->model.len == 0)
        return;
    begin_metric(out, "model_info", "gauge",
                 "Always 1. The labels are the model's name, family and quantization, and the "
                 "device that computes.");
    dgl_buf_printf(out, "dopplergl_model_info{%s} 1\n", m->model.p);
}

void serve_metrics_write(struct serve_metrics *m, struct dgl_buf *out)
{
    pthread_mutex_lock(&m->lock);
    const struct dgl_batch_info *b = &m->batch, *before = &m->before;
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"requests_running", "gauge", "Answers that are being computed now.", b->running},
        {"requests_waiting", "gauge", "Answers that wait for a free sequence now.", b->waiting},
        {"requests_finished_total", "counter",
         "Answers that ended since the start, cancelled and failed ones included.",
         b->finished - before->finished + m->embeddings[SERVE_FINISHED]},
        {"requests_cancelled_total", "counter",
         "Answers that ended because their client went away or the server stopped.",
         b->cancelled - before->cancelled + m->embeddings[SERVE_CANCELLED]},
        {"requests_failed_total", "counter", "Answers that ended with an error of the server.",
         b->failed - before->failed + m->embeddings[SERVE_FAILED]},
        {"prompt_tokens_total", "counter",
         "Tokens of the prompts of all answers, those found in the KV cache included.",
         b->prompt_tokens - before->prompt_tokens + m->embedded_tokens},
        {"prompt_tokens_reused_total", "counter",
         "Prompt tokens that were found in the KV cache and not computed again.",
         b->reused_tokens - before->reused_tokens},
        {"tokens_total", "counter", "Tokens generated for answers.",
         b->decoded_tokens - before->decoded_tokens},
        {"sequences", "gauge", "Largest number of answers that are computed at once (--parallel).",
         (uint64_t)b->sequences},
        {"context_tokens", "gauge", "Largest number of tokens of a prompt with its answer.",
         (uint64_t)b->context},
        {"weight_bytes", "gauge", "Bytes of device memory that hold the model's weights.",
         m->memory.weight_bytes},
        {"kv_cache_bytes", "gauge", "Bytes of device memory that hold the KV cache.",
         b->cache_bytes},
        {"kv_pages", "gauge", "Pages of the KV cache, of 64 tokens each.", b->pages},
        {"kv_pages_used", "gauge", "Pages of the KV cache that answers use now.", b->pages_used},
        {"preemptions_total", "counter",
         "Times that an answer gave its pages of the KV cache to others and waited again.",
         b->preempted - before->preempted},
        {"request_memory_bytes", "gauge",
         "Bytes of host memory that requests use which are being read or wait.",
         atomic_load(&m->request_bytes)},
        {"scratch_bytes", "gauge",
         "Bytes of device memory for intermediate results of one sequence, and for shared tables.",
         m->memory.scratch_bytes},
    };
    write_info(out, m);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin_metric(out, rows[i].name, rows[i].type, rows[i].help);
        dgl_buf_printf(out, "dopplergl_%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
    }
    write_requests(out, m);
    for (int i = 0; i < HISTOGRAM_COUNT; i++)
        write_histogram(out, (enum serve_histogram_kind)i, &m->histograms[i]);
    pthread_mutex_unlock(&m->lock);
}
