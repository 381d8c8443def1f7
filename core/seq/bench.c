/* Measuring a model on a device: tokens per second, bytes per second against a plain copy, host
 * time per token, and GPU time per kernel. */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/exec/profile.h"
#include "core/seq/decode_queue.h"

#define MAX_REPETITIONS 64

struct bench {
    struct dgl_session *s;
    struct dgl_bench_params p;
    struct dgl_bench_result *r;
    struct decode_queue queue; /* as generation has it */
    int32_t interval;          /* tokens per readback, as generation */
    double cpu_ns;             /* host time of recording decode steps */
    uint64_t cpu_steps;
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int32_t count)
{
    double sorted[MAX_REPETITIONS];
    memcpy(sorted, values, (size_t)count * sizeof(*values));
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_doubles);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static bool tell(const struct bench *b, uint64_t done, uint64_t total)
{
    return !b->p.progress_cb || b->p.progress_cb(b->p.progress_priv, "runs", done, total);
}

/* Makes the session hold `count` ids that spread over the vocabulary; what they say does not
 * matter. */
static enum dgl_status eval_ids(struct dgl_session *s, int32_t count)
{
    for (int32_t i = s->len; i < count; i++)
        s->ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)s->model->info.vocab);
    return session_eval(s, count);
}

static enum dgl_status time_prefill(struct bench *b, double *tps)
{
    struct dgl_session *s = b->s;
    struct dgl_device *dev = s->model->dev;
    struct dgl_counters before;
    enum dgl_status status = DGL_OK;
    session_trim(s, 0);
    if (b->p.depth > 0)
        status = eval_ids(s, b->p.depth);
    if (status == DGL_OK)
        status = gl_finish(dev->gl);
    before = device_counters(dev);
    uint64_t start = dgl_now_ns();
    if (status == DGL_OK)
        status = eval_ids(s, b->p.depth + b->p.prompt_tokens);
    if (status == DGL_OK)
        status = gl_finish(dev->gl);
    *tps = b->p.prompt_tokens / ((double)(dgl_now_ns() - start) * 1e-9);
    b->r->prefill = counters_since(dev, &before);
    return status;
}

/* Greedy decoding as dgl_generate() does it, without looking at the ids. Starts at the depth alone,
 * as llama-bench's tg does; at depth 0 from one token. */
static enum dgl_status time_decode(struct bench *b, int32_t tokens, double *tps)
{
    struct dgl_session *s = b->s;
    struct dgl_device *dev = s->model->dev;
    struct dgl_step step = {.context = (uint32_t)s->context, .tokens = 1, .ignore_eos = 1};
    struct dgl_counters before;
    session_trim(s, 0);
    enum dgl_status status = eval_ids(s, b->p.depth > 0 ? b->p.depth : 1);
    session_trim(s, s->len - 1); /* the last token is the one that decoding begins with */
    step.pos = (uint32_t)s->len;
    if (status == DGL_OK)
        status = session_run(s, recipe_decode(SAMPLE_GREEDY, 0, b->interval > 1), &b->queue.run);
    if (status == DGL_OK)
        status = session_write_args(s, b->queue.run);
    if (status == DGL_OK)
        status = session_write_step(s, &step, 0);
    if (status == DGL_OK)
        status = gl_finish(dev->gl);
    before = device_counters(dev);
    uint64_t start = dgl_now_ns();
    for (int32_t left = tokens; status == DGL_OK && left + b->queue.steps > 0;) {
        int32_t ids[DGL_READBACK_INTERVAL_MAX], steps = left < b->interval ? left : b->interval;
        if (steps > 0 && decode_queue_has_room(&b->queue)) {
            uint64_t recorded = dgl_now_ns();
            status = decode_queue_push(&b->queue, steps);
            b->cpu_ns += (double)(dgl_now_ns() - recorded);
            b->cpu_steps += (uint64_t)steps;
            left -= steps;
        } else {
            status = decode_queue_pop(&b->queue, ids, &steps);
            s->len += steps;
            dev->tokens += (uint64_t)steps;
        }
    }
    decode_queue_drop(&b->queue);
    if (status == DGL_OK)
        status = gl_finish(dev->gl);
    *tps = tokens / ((double)(dgl_now_ns() - start) * 1e-9);
    b->r->decode = counters_since(dev, &before);
    session_trim(s, 0);
    return status;
}

/* One pass of each phase with timers; the counters shown stay those of the last repetition. */
static enum dgl_status profile(struct bench *b)
{
    struct dgl_session *s = b->s;
    struct dgl_counters prefill = b->r->prefill, decode = b->r->decode;
    struct profile profile = {0};
    double ignored;
    int32_t rows = b->p.prompt_tokens < s->ubatch ? b->p.prompt_tokens : s->ubatch;
    struct dgl_step step = {.tokens = (uint32_t)rows, .context = (uint32_t)s->context};
    struct exec_run *run = exec_cache_find(&s->runs, recipe_of(SEG_PREFILL));
    enum dgl_status status = DGL_OK;
    session_trim(s, 0);
    if (run) {
        status = exec_run_set_tokens(run, rows);
        if (status == DGL_OK)
            status = session_write_step(s, &step, 0);
        if (status == DGL_OK)
            status = profile_run(&profile, run, DGL_PHASE_PREFILL);
    }
    if (status == DGL_OK)
        status = time_decode(b, 1, &ignored);
    if (status == DGL_OK)
        status = profile_run(&profile, b->queue.run, DGL_PHASE_DECODE);
    session_trim(s, 0);
    b->r->profile = profile.entries;
    b->r->num_profile = profile.count;
    b->r->prefill = prefill;
    b->r->decode = decode;
    return status;
}

/* Weights, and the KV cache in the middle of the run. */
static uint64_t bytes_per_token(const struct bench *b)
{
    const struct plan *plan = &b->s->model->engine->plan;
    uint64_t bytes = 0, held = (uint64_t)b->p.depth + (uint64_t)b->p.decode_tokens / 2;
    for (size_t i = 0; i < b->queue.run->count; i++)
        bytes += b->queue.run->ops[i].op->bytes;
    return bytes + held * plan_kv_layer_bytes(plan, 1) * (uint64_t)plan->desc->layers;
}

enum dgl_status session_bench(struct dgl_session *s, const struct dgl_bench_params *params,
                              struct dgl_bench_result *r)
{
    const struct dgl_log *log = s->model->dev->log;
    struct bench b = {.s = s, .p = *params, .r = r, .queue.session = s};
    struct dgl_bench_params *p = &b.p;
    double ignored;
    p->prompt_tokens = p->prompt_tokens ? p->prompt_tokens : 512;
    p->decode_tokens = p->decode_tokens ? p->decode_tokens : 128;
    p->repetitions = p->repetitions ? p->repetitions : 3;
    int64_t most = p->prompt_tokens > p->decode_tokens ? p->prompt_tokens : p->decode_tokens;
    if (p->prompt_tokens < 0 || p->decode_tokens < 0 || p->depth < 0 || p->repetitions < 0 ||
        p->repetitions > MAX_REPETITIONS)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: counts must be positive and repetitions at most %d",
                        MAX_REPETITIONS);
    if (p->depth + most + 1 > s->context)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: depth %d and %lld tokens do not fit the context of %d: raise -c",
                        p->depth, (long long)most, s->context);
    b.interval = session_readback_interval(s);
    r->prompt_tokens = p->prompt_tokens;
    r->decode_tokens = p->decode_tokens;
    r->depth = p->depth;
    r->repetitions = p->repetitions;
    uint64_t total = (uint64_t)p->repetitions + 2, compiled = s->model->dev->compile_ns;
    struct recipe decode = recipe_decode(SAMPLE_GREEDY, 0, b.interval > 1);
    enum dgl_status status = session_compile(s, recipe_body(s->ubatch).segments | decode.segments);
    if (status == DGL_OK)
        status = profile_copy(s->model->dev, s->model->kernels, &r->copy_gbps);
    r->compile_ns = s->model->dev->compile_ns - compiled;
    if (status == DGL_OK)
        status = time_prefill(&b, &ignored); /* warms up */
    if (status == DGL_OK)
        status = time_decode(&b, p->decode_tokens, &ignored);
    b.cpu_ns = 0;
    b.cpu_steps = 0;
    for (int32_t i = 0; i < p->repetitions && status == DGL_OK; i++) {
        status = tell(&b, (uint64_t)i + 1, total) ? time_prefill(&b, &r->prefill_tps[i])
                                                  : DGL_ERR_CANCELLED;
        if (status == DGL_OK)
            status = time_decode(&b, p->decode_tokens, &r->decode_tps[i]);
    }
    if (status != DGL_OK)
        return status;
    r->prefill_tps_median = median(r->prefill_tps, p->repetitions);
    r->decode_tps_median = median(r->decode_tps, p->repetitions);
    r->decode_gbps = (double)bytes_per_token(&b) * r->decode_tps_median * 1e-9;
    r->cpu_us_per_token = b.cpu_ns * 1e-3 / (double)b.cpu_steps;
    if (p->profile)
        status = profile(&b);
    tell(&b, total, total);
    return status;
}
