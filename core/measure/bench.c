/* Benchmark of a model on a device: time to first token, tokens per second, time of single tokens,
 * bytes per second compared with a plain copy, memory, and GPU time per kernel. It times the loop
 * of dgl_generate(), or of dgl_batch_step() for several sequences, so that users see the same
 * performance. */
#include "core/measure/bench.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "core/exec/profile.h"
#include "core/measure/bench_batch.h"
#include "core/seq/generate.h"
#include "kernels/phases.h"

#define MAX_REPETITIONS 64
#define PROFILE_TOKENS  16 /* half of them are timed */
/* Time that a GPU needs to raise its clocks after it waited for the compiler. Points of a sweep,
 * before which no copies run, took up to five times as long on one NVIDIA H200. */
#define CLOCKS_NS 200000000ull

/* Arrival of a token on the host. */
struct arrival {
    uint64_t ns;
    uint64_t readbacks; /* of the device by then: tokens of one readback have the same */
};

struct bench {
    struct dgl_session *s;
    struct dgl_bench_params p;
    struct dgl_bench_result *r;
    struct recipe decode;      /* the one that generation runs */
    struct bench_batch *batch; /* NULL if the session decodes alone */
    int32_t *ids;              /* [depth + prompt_tokens] */
    struct arrival *arrival;   /* [decode_tokens + 1] */
    size_t arrived;
    uint64_t done, total, told_ns; /* tokens of all runs; time of the last progress report */
    /* Submits of the current run, and the earlier trace callback of the device. */
    double *submit_ms; /* [num_submits] */
    size_t num_submits, cap_submits;
    void (*trace)(void *priv, const struct dgl_event *event);
    void *trace_priv;
    double ttft_ms[MAX_REPETITIONS], prefill_ms[MAX_REPETITIONS], decode_ms[MAX_REPETITIONS];
    uint64_t record_ns, recorded; /* host time of queueing decode steps; how many */
};

/* Interval of progress reports while tokens arrive. */
#define TELL_NS 50000000ull

static bool tell(struct bench *b, uint64_t done)
{
    b->told_ns = dgl_now_ns();
    return !b->p.progress_cb || b->p.progress_cb(b->p.progress_priv, "tokens", done, b->total);
}

static enum dgl_status tell_done(struct bench *b, int32_t tokens)
{
    b->done += (uint64_t)tokens;
    return tell(b, b->done) ? DGL_OK : DGL_ERR_CANCELLED;
}

static void note_submit(void *priv, const struct dgl_event *e)
{
    struct bench *b = priv;
    if (b->trace)
        b->trace(b->trace_priv, e);
    if (e->kind == DGL_EVENT_SUBMIT &&
        dgl_grow((void **)&b->submit_ms, &b->cap_submits, b->num_submits + 1, sizeof(double)))
        b->submit_ms[b->num_submits++] = (double)e->duration_ns * 1e-6;
}

/* Stores `count` of the submits, from `first` on, in the result. */
static enum dgl_status take_submits(struct bench *b, size_t first, uint64_t count)
{
    struct dgl_bench_result *r = b->r;
    const size_t left = b->num_submits > first ? b->num_submits - first : 0;
    const size_t taken = count < left ? (size_t)count : left;
    double *all = realloc(r->submit_ms, (r->num_submits + taken + 1) * sizeof(double));
    if (!all)
        return dgl_fail_memory(b->s->model->log, "times of submits", taken * sizeof(double));
    r->submit_ms = all;
    if (taken)
        memcpy(all + r->num_submits, b->submit_ms + first, taken * sizeof(double));
    r->num_submits += taken;
    return DGL_OK;
}

static bool note_arrival(void *priv, int32_t id)
{
    struct bench *b = priv;
    (void)id;
    if (dgl_now_ns() - b->told_ns > TELL_NS)
        tell(b, b->done + (b->arrived < (size_t)b->p.decode_tokens ? b->arrived : 0));
    if (b->arrived <= (size_t)b->p.decode_tokens)
        b->arrival[b->arrived++] =
            (struct arrival){dgl_now_ns(), gl_device_counters(session_dev(b->s)->gl).readbacks};
    return true;
}

/* Greedy generation of `tokens` after the first `prompt` ids. Ids that are still in the session are
 * not evaluated again. No token ends the generation. */
static enum dgl_status generate(struct bench *b, int32_t prompt, int32_t tokens,
                                struct dgl_generate_result *g)
{
    b->arrived = 0;
    b->num_submits = 0;
    *g = (struct dgl_generate_result){0};
    enum dgl_status status = session_generate(
        b->s,
        dgl_generate_params(.ids = b->ids, .num_ids = (size_t)prompt, .max_tokens = tokens,
                            .sampling = {.temperature = 0}, .ignore_eos = true,
                            .token_cb = note_arrival, .priv = b),
        g);
    return status == DGL_OK && g->finish == DGL_FINISH_CANCELLED ? DGL_ERR_CANCELLED : status;
}

/* Makes the session hold the first `count` ids. */
static enum dgl_status eval_ids(struct bench *b, int32_t count)
{
    enum dgl_status status = session_take_ids(b->s, b->ids, (size_t)count, NULL);
    if (status == DGL_OK && b->s->seq.len < count)
        status = session_eval(b->s, count);
    return status == DGL_OK ? gl_finish(session_dev(b->s)->gl) : status;
}

/* Times the first prompt of a process: kernels are compiled or read from a cache. */
static enum dgl_status time_first_prompt(struct bench *b)
{
    struct dgl_generate_result g;
    sequence_trim(&b->s->seq, 0);
    enum dgl_status status = generate(b, b->p.prompt_tokens, 1, &g);
    b->r->ttft_ms_cold = (double)(g.first_token_ns + g.compile_ns) * 1e-6;
    b->r->compile_ns = g.compile_ns;
    generate_result_finish(&g);
    return status;
}

/* Times the prompt after `depth` tokens, up to the first token. A `run` below 0 warms up. */
static enum dgl_status time_prefill(struct bench *b, int32_t run)
{
    struct dgl_generate_result g = {0};
    sequence_trim(&b->s->seq, b->p.depth < b->s->seq.len ? b->p.depth : b->s->seq.len);
    enum dgl_status status;
    TRY(b->p.depth > 0 ? eval_ids(b, b->p.depth) : DGL_OK);
    TRY(generate(b, b->p.depth + b->p.prompt_tokens, 1, &g));
    if (run >= 0) {
        /* All tokens, if the rotary frequencies depend on the length. */
        double tokens = (double)(g.num_prompt_ids - g.num_reused);
        b->prefill_ms[run] = (double)g.prefill_ns * 1e-6;
        b->ttft_ms[run] = (double)g.first_token_ns * 1e-6;
        b->r->prefill_tps[run] = tokens / ((double)g.prefill_ns * 1e-9);
        b->r->prefill = g.prefill;
        b->r->num_submits = 0;
        status = take_submits(b, 0, g.prefill.submits);
    }
done:
    generate_result_finish(&g);
    return status;
}

/* Moves the answer of a repetition to the result, in place of an earlier one. */
static void take_answer(struct dgl_bench_result *r, int32_t **ids, size_t count, char **text)
{
    free(r->tokens);
    free(r->text);
    r->tokens = *ids;
    r->num_tokens = count;
    r->text = *text;
    *ids = NULL;
    *text = NULL;
}

/* Times decoding at the depth, like llama-bench's tg. At depth 0 it starts from one token. */
static enum dgl_status time_decode(struct bench *b, int32_t run)
{
    struct dgl_bench_result *r = b->r;
    struct dgl_generate_result g;
    enum dgl_status status =
        generate(b, b->p.depth > 0 ? b->p.depth : 1, b->p.decode_tokens + 1, &g);
    if (status == DGL_OK && run >= 0) {
        b->decode_ms[run] = (double)g.decode_ns * 1e-6;
        r->decode_tps[run] = b->p.decode_tokens / ((double)g.decode_ns * 1e-9);
        r->decode = g.decode;
        status = take_submits(b, g.prefill.submits, g.decode.submits);
        b->record_ns += g.record_ns;
        b->recorded += (uint64_t)b->p.decode_tokens;
        /* Tokens of one readback get equal parts of the time since the previous readback. */
        for (size_t i = 2, first = 1; i <= b->arrived; i++) {
            if (i < b->arrived && b->arrival[i].readbacks == b->arrival[first].readbacks)
                continue;
            double ms = (double)(b->arrival[first].ns - b->arrival[first - 1].ns) * 1e-6;
            for (size_t j = first; j < i; j++)
                r->decode_latency_ms[r->num_latencies++] = ms / (double)(i - first);
            first = i;
        }
        take_answer(r, &g.tokens, g.num_tokens, &g.text);
    }
    generate_result_finish(&g);
    return status;
}

/* Times decoding at the depth by all sequences of the batch. */
static enum dgl_status time_batch(struct bench *b, int32_t run)
{
    struct dgl_bench_result *r = b->r;
    struct bench_batch_run timed = {0};
    const double wanted = (double)b->p.batch * b->p.decode_tokens;
    b->num_submits = 0;
    enum dgl_status status = bench_batch_run(b->batch, &timed);
    if (status == DGL_OK && run >= 0) {
        r->decode_tps[run] = (double)timed.tokens / ((double)timed.ns * 1e-9);
        b->decode_ms[run] = wanted / r->decode_tps[run] * 1e3;
        r->decode = timed.counters;
        status = take_submits(b, timed.submits_before, timed.counters.submits);
        for (size_t i = 0; i < timed.num_steps; i++)
            r->decode_latency_ms[r->num_latencies++] = timed.step_ms[i];
        take_answer(r, &timed.ids, timed.num_ids, &timed.text);
    }
    bench_batch_run_finish(&timed);
    return status;
}

/* Repeats prefill and decode as profiled calls at the measured depths. */
static enum dgl_status profile(struct bench *b)
{
    struct dgl_session *s = b->s;
    struct dgl_generate_result g = {0};
    struct profile profile;
    const int32_t depth = b->p.depth;
    const int32_t tokens =
        b->p.decode_tokens < PROFILE_TOKENS ? b->p.decode_tokens : PROFILE_TOKENS;
    struct gl_device *gl = session_dev(s)->gl;
    const struct gl_memory memory = gl_device_memory(gl);
    enum dgl_status status = profile_init(&profile, session_dev(s), s->model->shard->kernels);
    gl_device_memory_forget(gl, memory);
    profile.sums.copy_gbps = b->r->copy_gbps;
    sequence_trim(&s->seq, 0);
    if (status == DGL_OK && depth > 0)
        status = eval_ids(b, depth);
    TRY(status);
    s->state.runner.profile = &profile;
    TRY(generate(b, depth + b->p.prompt_tokens, 1, &g));
    s->state.runner.profile = NULL;
    generate_result_finish(&g);
    profile.decoding_only = true;
    if (b->batch) {
        TRY(bench_batch_profile(b->batch, &profile, tokens));
    } else {
        TRY(eval_ids(b, depth > 0 ? depth : 1));
        s->state.runner.profile = &profile;
        TRY(generate(b, depth > 0 ? depth : 1, tokens + 1, &g));
    }
done:
    s->state.runner.profile = NULL;
    generate_result_finish(&g);
    b->r->profile = profile.sums;
    return status;
}

/* Bytes read per token in the middle of the run: weights, and the keys and values that layers
 * read. */
static enum dgl_status count_bytes(struct bench *b)
{
    const struct plan *plan = session_plan(b->s);
    int64_t held = (int64_t)b->p.depth + b->p.decode_tokens / 2;
    struct exec_run *run;
    enum dgl_status status = runner_run(&b->s->state.runner, b->decode, &run);
    if (status != DGL_OK)
        return status;
    for (size_t i = 0; i < run->count; i++)
        b->r->bytes_per_token += run->ops[i].op->bytes;
    b->r->bytes_per_token /= (uint64_t)b->p.batch;
    for (int32_t i = 0; i < plan->desc->layers; i++)
        b->r->bytes_per_token += plan_kv_read_bytes(plan, (uint32_t)i, 1, (int32_t)held);
    struct dgl_executor_info info;
    engine_executor(b->s->model->shard->engine, &info);
    if (b->batch && bench_batch_shares_passes(b->batch))
        bench_batch_executor(b->batch, &info);
    b->r->executor = info.name;
    b->r->executor_reason = info.reason;
    return DGL_OK;
}

/* Weights and scratch as in a session's estimate, the cache at the size for this run's tokens, and
 * parameter blocks for the operations of these shapes, as single dispatches and in each form of
 * one program. */
static uint64_t estimate(const struct bench *b, struct shape_set shapes)
{
    const struct dgl_session *s = b->s;
    const struct plan *plan = session_plan(s);
    const struct plan_batch one = {
        .context = s->seq.context, .sequences = 1, .rows = s->state.ubatch};
    const int32_t more =
        b->p.prompt_tokens > b->p.decode_tokens ? b->p.prompt_tokens : b->p.decode_tokens;
    const uint64_t align = plan->device->limits.ubo_align, block = KERNEL_MAX_PARAMS * 4;
    uint64_t ops = 0;
    struct dgl_memory memory;
    const struct body *bodies[SHAPES_MAX];
    const size_t count = plan_bodies(plan, &shapes, bodies);
    for (size_t i = 0; i < count; i++)
        ops += bodies[i]->ops.count;
    plan_estimate(plan, &one, 0, &memory);
    return memory.weight_bytes + memory.scratch_bytes +
           kv_cache_most_bytes(&s->model->shard->kv, plan_kv_pages(b->p.depth + more + 1)) +
           ops * (align > block ? align : block) * (1 + PHASE_FORMS);
}

static double median_of(const double *values, size_t count)
{
    double sorted[MAX_REPETITIONS];
    memcpy(sorted, values, count * sizeof(*sorted));
    return dgl_median(sorted, count);
}

/* Computes the medians over the repetitions, and the quantiles over all decoded tokens. */
static enum dgl_status summarise(struct bench *b)
{
    struct dgl_bench_result *r = b->r;
    size_t count = (size_t)b->p.repetitions;
    double *sorted = dgl_new_array(double, r->num_latencies);
    if (!sorted)
        return dgl_fail_memory(b->s->model->log, "times of tokens",
                               r->num_latencies * sizeof(*sorted));
    memcpy(sorted, r->decode_latency_ms, r->num_latencies * sizeof(*sorted));
    dgl_sort_f64(sorted, r->num_latencies);
    r->decode_ms_p50 = dgl_quantile(sorted, r->num_latencies, 0.5);
    r->decode_ms_p90 = dgl_quantile(sorted, r->num_latencies, 0.9);
    r->decode_ms_p99 = dgl_quantile(sorted, r->num_latencies, 0.99);
    free(sorted);
    r->prefill_tps_median = median_of(r->prefill_tps, count);
    r->decode_tps_median = median_of(r->decode_tps, count);
    r->prefill_ms_median = median_of(b->prefill_ms, count);
    r->decode_ms_median = median_of(b->decode_ms, count);
    r->ttft_ms_warm = median_of(b->ttft_ms, count);
    r->decode_gbps = (double)r->bytes_per_token * r->decode_tps_median * 1e-9;
    if (b->recorded > 0)
        r->cpu_us_per_token = (double)b->record_ns * 1e-3 / (double)b->recorded;
    return DGL_OK;
}

static enum dgl_status check_params(const struct dgl_session *s, struct dgl_bench_params *p)
{
    const struct dgl_log *log = s->model->log;
    p->prompt_tokens = p->prompt_tokens ? p->prompt_tokens : 512;
    p->decode_tokens = p->decode_tokens ? p->decode_tokens : 128;
    p->batch = p->batch ? p->batch : 1;
    p->repetitions = p->repetitions ? p->repetitions : 3;
    p->warmup = p->warmup ? p->warmup : 1;
    int64_t most = p->prompt_tokens > p->decode_tokens ? p->prompt_tokens : p->decode_tokens;
    if (p->prompt_tokens < 0 || p->decode_tokens < 0 || p->depth < 0 || p->repetitions < 0 ||
        p->repetitions > MAX_REPETITIONS || p->warmup < DGL_BENCH_NO_WARMUP ||
        p->warmup > MAX_REPETITIONS)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: counts must be positive, repetitions and warm-up at most %d",
                        MAX_REPETITIONS);
    if (p->batch < 1 || p->batch > DGL_BENCH_BATCH_MAX)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "bench: a batch of %d sequences: 1 to %d",
                        p->batch, DGL_BENCH_BATCH_MAX);
    if (p->batch > 1 && p->batch_invariant && p->profile)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: a profile is of passes that sequences share, and none is shared "
                        "where each has the same bits in any company: leave one of both out");
    if (p->depth + most + 1 > s->seq.context)
        return dgl_fail(
            log, DGL_ERR_INVALID_ARG,
            "bench: depth %d, %lld tokens and the one after them do not fit the context of "
            "%d%s",
            p->depth, (long long)most, s->seq.context,
            p->depth + most + 1 > s->model->info.context_max ? ", and the model has no longer one"
                                                             : ": raise -c");
    return DGL_OK;
}

enum dgl_status session_bench(struct dgl_session *s, const struct dgl_bench_params *params,
                              struct dgl_bench_result *r)
{
    struct dgl_device *dev = session_dev(s);
    struct bench b = {.s = s, .p = *params, .r = r};
    struct dgl_bench_params *p = &b.p;
    const uint64_t compiled = account_ns(dev);
    enum dgl_status status = check_params(s, p);
    if (status != DGL_OK)
        return status;
    const int32_t warmup = p->warmup > 0 ? p->warmup : 0, runs = warmup + p->repetitions;
    r->prompt_tokens = p->prompt_tokens;
    r->decode_tokens = p->decode_tokens;
    r->depth = p->depth;
    r->batch = p->batch;
    r->repetitions = p->repetitions;
    r->warmup = warmup;
    r->context = s->seq.context;
    r->ubatch = s->state.ubatch;
    b.decode = recipe_decode(SAMPLE_GREEDY, 0, session_readback_interval(s) > 1);
    /* Ids spread over the vocabulary. Their meaning does not matter. */
    size_t num_ids = (size_t)p->depth + (size_t)p->prompt_tokens;
    b.ids = dgl_new_array(int32_t, num_ids);
    b.arrival = dgl_new_array(struct arrival, (size_t)p->decode_tokens + 1);
    r->decode_latency_ms =
        dgl_new_array(double, (size_t)p->decode_tokens *(size_t)p->batch *(size_t)p->repetitions);
    if (!b.ids || !b.arrival || !r->decode_latency_ms)
        TRY(dgl_fail_memory(dev->log, "times of tokens", num_ids * sizeof(*b.ids)));
    for (size_t i = 0; i < num_ids; i++)
        b.ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)s->model->info.vocab);

    b.trace = dev->trace;
    b.trace_priv = dev->trace_priv;
    device_set_trace(dev, note_submit, &b);
    /* decoding of one sequence must not be timed with another executor */
    s->state.runner.wait_executor = p->batch == 1;
    struct shape_set shapes =
        shapes_join(b.decode.shapes, session_body_shapes(s, p->prompt_tokens, s->state.ubatch));
    if (p->depth > 0)
        shapes = shapes_join(shapes, session_body_shapes(s, p->depth, s->state.ubatch));
    r->estimate_bytes = estimate(&b, shapes);
    b.total = (uint64_t)p->prompt_tokens +
              (uint64_t)runs * (uint64_t)(p->prompt_tokens + p->decode_tokens) + 1;
    TRY(tell(&b, 0) ? time_first_prompt(&b) : DGL_ERR_CANCELLED);
    sequence_trim(&s->seq, 0);
    TRY(tell_done(&b, p->prompt_tokens));
    TRY(pass_state_compile(&s->state, shapes));
    r->compile_ns = account_ns(dev) - compiled;
    if (!p->skip_copy) { /* its buffers do not count as the model's */
        const struct gl_memory memory = gl_device_memory(dev->gl);
        status = profile_copy(dev, s->model->shard->kernels, &r->copy_gbps);
        gl_device_memory_forget(dev->gl, memory);
        TRY(status);
    }
    if (p->batch > 1)
        TRY(bench_batch_create(s, p, &b.batch));
    const uint64_t clocks_end = dgl_now_ns() + CLOCKS_NS;
    while (warmup > 0 && !session_plan(s)->device->on_host && dgl_now_ns() < clocks_end)
        TRY(time_prefill(&b, -1));
    for (int32_t i = 0; i < runs; i++) {
        TRY(time_prefill(&b, i - warmup));
        TRY(tell_done(&b, p->prompt_tokens));
        TRY(b.batch ? time_batch(&b, i - warmup) : time_decode(&b, i - warmup));
        TRY(tell_done(&b, p->decode_tokens));
    }
    TRY(count_bytes(&b));
    if (p->profile)
        TRY(profile(&b));
    TRY(summarise(&b));
    r->ubatch = session_pass_tokens(s, s->state.ubatch, s->state.ubatch, false);
    r->peak_bytes = gl_device_memory(dev->gl).peak_bytes;
    tell(&b, b.total);

done:
    bench_batch_destroy(&b.batch);
    if (b.total) /* otherwise it was not set */
        device_set_trace(dev, b.trace, b.trace_priv);
    s->state.runner.wait_executor = false;
    sequence_trim(&s->seq, 0);
    free(b.submit_ms);
    free(b.ids);
    free(b.arrival);
    return status;
}
