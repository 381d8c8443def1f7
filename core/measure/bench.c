/* Benchmark of a model on a device: time to first token, tokens per second, time of single tokens,
 * bytes per second compared with a plain copy, memory, and GPU time per kernel. It times the loop
 * of dgl_generate(), or of dgl_batch_step() for several sequences, so that users see the same
 * performance. */
#include "core/measure/measure.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "core/exec/profile.h"
#include "core/seq/batch.h"

#define MAX_REPETITIONS 64
#define PROFILE_TOKENS  16 /* half of them are timed */
/* Time that a GPU needs to raise its clocks after it waited for the compiler. Points of a sweep,
 * before which no copies run, took up to five times as long on one NVIDIA H200. */
#define CLOCKS_NS 200000000ull
/* Duration of full steps before several sequences are timed. Prompts that are evaluated in sequence
 * are little work, so a GPU lowers its clocks and needs time to raise them (on an H100 the first
 * 0.2 s of 64 sequences were up to three times slower). */
#define BATCH_CLOCKS_NS 300000000ull
/* Interval of progress reports while tokens arrive. */
#define TELL_NS 50000000ull

struct bench {
    struct dgl_session *s;
    struct dgl_bench_params p;
    struct dgl_bench_result *r;
    struct recipe decode; /* the one that generation runs */
    int32_t *ids;
    uint64_t done, total, told_ns; /* tokens of all runs; time of the last progress report */
    /* The earlier trace callback of the device. */
    void (*trace)(void *priv, const struct dgl_event *event);
    void *trace_priv;
    size_t cap_submits;
    /* Tokens of the current answer on the host. Tokens of one readback arrive together. */
    bool timed;   /* this run is part of the result */
    bool decodes; /* submits after the first token are reported; otherwise those before it */
    int32_t arrived, together;
    uint64_t arrived_ns, readbacks; /* of the last one; the device's readbacks by then */
    double together_ms;             /* time between the previous readback and this one */
    double ttft_ms[MAX_REPETITIONS], prefill_ms[MAX_REPETITIONS], decode_ms[MAX_REPETITIONS];
    struct profile *profile;      /* of the calls, or NULL */
    uint64_t record_ns, recorded; /* host time of queueing decode steps; how many */
    /* Several sequences, each of which decodes after p.depth tokens. */
    struct dgl_batch *batch;     /* NULL if the session decodes alone */
    int32_t prompt, warm_tokens; /* of each: tokens of the prompt, and before timing at most */
    uint64_t first_id;           /* of the repetition's requests */
    enum dgl_status failure;     /* of one of them */
};

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
    struct dgl_bench_result *r = b->r;
    if (b->trace)
        b->trace(b->trace_priv, e);
    const bool trial = session_dev(b->s)->account.depth > 0;
    if (e->kind == DGL_EVENT_SUBMIT && b->timed && b->decodes == (b->arrived > 0) && !trial &&
        dgl_grow((void **)&r->submit_ms, &b->cap_submits, r->num_submits + 1, sizeof(double)))
        r->submit_ms[r->num_submits++] = (double)e->duration_ns * 1e-6;
}

static bool note_arrival(void *priv, int32_t id)
{
    struct bench *b = priv;
    struct dgl_bench_result *r = b->r;
    const uint64_t now = dgl_now_ns();
    const uint64_t readbacks = gl_device_counters(session_dev(b->s)->gl).readbacks;
    (void)id;
    if (now - b->told_ns > TELL_NS)
        tell(b, b->done + (uint64_t)(b->arrived < b->p.decode_tokens ? b->arrived : 0));
    /* Tokens of one readback get equal parts of the time since the previous readback. */
    if (b->timed && b->arrived > 0 && b->arrived <= b->p.decode_tokens) {
        if (b->together == 0 || readbacks != b->readbacks) {
            b->together = 0;
            b->together_ms = (double)(now - b->arrived_ns) * 1e-6;
        }
        b->together++;
        r->num_latencies++;
        for (int32_t i = 1; i <= b->together; i++)
            r->decode_latency_ms[r->num_latencies - (size_t)i] = b->together_ms / b->together;
    }
    b->arrived++;
    b->arrived_ns = now;
    b->readbacks = readbacks;
    return true;
}

/* Greedy generation of `tokens` after the first `prompt` ids. Ids that are still in the session are
 * not evaluated again. No token ends the generation. */
static enum dgl_status generate(struct bench *b, int32_t prompt, int32_t tokens,
                                struct dgl_generate_result *g)
{
    b->arrived = b->together = 0;
    b->decodes = tokens > 1;
    b->s->state.runner.profile = b->profile;
    *g = (struct dgl_generate_result){0};
    enum dgl_status status = session_generate(
        b->s,
        dgl_generate_params(.ids = b->ids, .num_ids = (size_t)prompt, .max_tokens = tokens,
                            .sampling = {.temperature = 0}, .ignore_eos = true,
                            .readback_interval = b->p.readback_interval, .token_cb = note_arrival,
                            .priv = b),
        g);
    b->s->state.runner.profile = NULL;
    b->timed = false;
    return status == DGL_OK && g->finish == DGL_FINISH_CANCELLED ? DGL_ERR_CANCELLED : status;
}

/* Times the prompt after `depth` tokens, up to the first token. A `run` below 0 warms up. */
static enum dgl_status time_prefill(struct bench *b, int32_t run)
{
    struct dgl_session *s = b->s;
    struct dgl_generate_result g = {0};
    const int32_t depth = b->p.depth;
    sequence_trim(&s->seq, depth < s->seq.len ? depth : s->seq.len);
    enum dgl_status status = DGL_OK;
    if (depth > 0) {
        TRY(session_take_ids(s, b->ids, (size_t)depth, true, NULL));
        TRY(s->seq.len < depth ? session_eval(s, depth) : DGL_OK);
        TRY(gl_finish(session_dev(s)->gl));
    }
    b->timed = run >= 0;
    if (b->timed)
        b->r->num_submits = 0;
    TRY(generate(b, depth + b->p.prompt_tokens, 1, &g));
    if (run >= 0) {
        /* All tokens, if the rotary frequencies depend on the length. */
        double tokens = (double)(g.num_prompt_ids - g.num_reused);
        b->prefill_ms[run] = (double)g.prefill_ns * 1e-6;
        b->ttft_ms[run] = (double)g.first_token_ns * 1e-6;
        b->r->prefill_tps[run] = tokens / ((double)g.prefill_ns * 1e-9);
        b->r->prefill = g.prefill;
    }
done:
    generate_result_finish(&g);
    return status;
}

/* Times decoding of `tokens` at the depth, like llama-bench's tg. At depth 0 it starts from one
 * token. */
static enum dgl_status time_decode(struct bench *b, int32_t run, int32_t tokens)
{
    struct dgl_bench_result *r = b->r;
    struct dgl_generate_result g = {.size = sizeof(g)};
    b->timed = run >= 0;
    enum dgl_status status = generate(b, b->prompt, tokens + 1, &g);
    if (status == DGL_OK && run >= 0) {
        b->decode_ms[run] = (double)g.decode_ns * 1e-6;
        r->decode_tps[run] = tokens / ((double)g.decode_ns * 1e-9);
        r->decode = g.decode;
        b->record_ns += g.record_ns;
        b->recorded += (uint64_t)tokens;
        free(r->tokens);
        free(r->text);
        r->tokens = g.tokens;
        r->num_tokens = g.num_tokens;
        r->text = g.text;
        g.tokens = NULL;
        g.text = NULL;
    }
    generate_result_finish(&g);
    return status;
}

/* ---- several sequences ----------------------------------------------------------------------- */

static enum dgl_status make_batch(struct bench *b)
{
    struct dgl_session *s = b->s;
    struct dgl_model *m = s->model;
    const struct dgl_bench_params *p = &b->p;
    /* Steps that are queued at both ends of the timed window. */
    const int64_t ahead = 4 * (int64_t)session_readback_interval(s) + 4 * DECODER_MAX_STEPS;
    const int64_t least = (int64_t)b->prompt + 2 * (int64_t)p->decode_tokens + ahead + 1;
    int64_t context = least + (m->shard->dev->info.software ? 0 : 2 * (int64_t)p->decode_tokens);
    context = context < m->info.context ? context : m->info.context;
    b->warm_tokens = context > least ? (int32_t)(context - least) : 0;
    b->batch = dgl_new(struct dgl_batch);
    if (!b->batch)
        return dgl_fail_memory(m->log, "batch", sizeof(*b->batch));
    b->batch->model = m;
    enum dgl_status status = batch_init(
        b->batch,
        dgl_batch_params(.sequences = p->batch, .queue = p->batch, .context = (int32_t)context,
                         .chunk = s->state.ubatch, .invariant = p->batch_invariant,
                         .progress_cb = p->progress_cb, .progress_priv = p->progress_priv));
    if (status != DGL_OK)
        return status;
    batch_read_first(b->batch);
    /* A group must not be timed while it waits for a compiler. */
    for (int32_t i = 0; i < b->batch->num_groups; i++)
        b->batch->groups[i]->state->runner.wait_executor = true;
    return DGL_OK;
}

/* Keeps the answer of the first sequence in the result. */
static void take_answer(void *priv, const struct dgl_request_result *answer)
{
    struct bench *b = priv;
    struct dgl_bench_result *r = b->r;
    if (answer->status != DGL_OK && b->failure == DGL_OK)
        b->failure = answer->status;
    if (answer->id != b->first_id || !b->timed)
        return;
    free(r->tokens);
    free(r->text);
    r->tokens = dgl_new_array(int32_t, answer->num_tokens);
    r->text = dgl_strdup(answer->text);
    r->num_tokens = r->tokens ? answer->num_tokens : 0;
    if (r->num_tokens > 0)
        memcpy(r->tokens, answer->tokens, answer->num_tokens * sizeof(*r->tokens));
    if (!r->tokens || !r->text)
        b->failure = DGL_ERR_NO_MEMORY;
}

/* Returns true until a sequence ends. */
static bool all_run(const struct bench *b)
{
    return batch_pending(b->batch) == (size_t)b->p.batch;
}

/* Returns true if each sequence has its first token. */
static bool all_decode(const struct bench *b)
{
    if (b->batch->inbox)
        return false;
    for (const struct batch_request *r = b->batch->first; r; r = r->next)
        if (!r->writes)
            return false;
    return true;
}

/* Steps until a token arrives or a sequence ends. Returns DGL_ERR_CANCELLED also if the session was
 * cancelled. */
static enum dgl_status advance(struct bench *b)
{
    const uint64_t before = b->batch->info.decoded_tokens;
    enum dgl_status status = DGL_OK;
    while (status == DGL_OK && all_run(b) && b->batch->info.decoded_tokens == before) {
        status = batch_step(b->batch);
        gl_device_set_stop(session_dev(b->s)->gl, &b->s->state.runner.cancel);
        if (status == DGL_OK)
            status = session_is_cancelled(b->s) ? DGL_ERR_CANCELLED : b->failure;
    }
    return status;
}

static void set_profile(struct bench *b, struct profile *profile)
{
    for (int32_t i = 0; i < b->batch->num_groups; i++)
        b->batch->groups[i]->state->runner.profile = profile;
}

/* Times decoding of `each_tokens` by each sequence of the batch. All prompts are evaluated before
 * any sequence decodes. Only steps that include all sequences are timed. The first tokens are
 * excluded, because programs are compiled for them, and so are the steps in which clocks rise. No
 * sequence ends before the last timed step. */
static enum dgl_status time_batch(struct bench *b, int32_t run, int32_t each_tokens)
{
    struct dgl_bench_result *r = b->r;
    struct dgl_device *dev = session_dev(b->s);
    const uint64_t *tokens = &b->batch->info.decoded_tokens;
    const uint64_t wanted = (uint64_t)b->p.batch * (uint64_t)each_tokens;
    const uint64_t warm = (uint64_t)b->p.batch * (uint64_t)b->warm_tokens;
    uint64_t ns = 0, first, last;
    enum dgl_status status = DGL_OK;
    b->timed = run >= 0;
    b->decodes = true;
    b->arrived = 0;
    b->first_id = b->batch->submitted + 1;
    b->failure = DGL_OK;
    /* Prompts with different first tokens, so that no prefix is shared. */
    for (int32_t i = 0; i < b->p.batch; i++)
        TRY(batch_submit(b->batch,
                         dgl_request_params(.ids = b->ids + (size_t)i * ((size_t)b->prompt + 1),
                                            .num_ids = (size_t)b->prompt, .ignore_eos = true,
                                            .finish_cb = take_answer, .priv = b),
                         NULL));
    while (all_run(b) && !all_decode(b))
        TRY(advance(b));
    first = *tokens;
    TRY(advance(b)); /* compiles */
    const uint64_t warm_ns = dgl_now_ns() + BATCH_CLOCKS_NS;
    while (all_run(b) && *tokens - first < warm && dgl_now_ns() < warm_ns)
        TRY(advance(b));
    const struct dgl_counters before = device_counters(dev);
    first = last = *tokens;
    set_profile(b, b->profile);
    b->arrived = 1;
    while (all_run(b) && last - first < wanted) {
        const uint64_t start = dgl_now_ns();
        TRY(advance(b));
        const uint64_t step_ns = dgl_now_ns() - start;
        if (!all_run(b))
            break;
        if (b->timed)
            r->decode_latency_ms[r->num_latencies++] =
                (double)step_ns * 1e-6 / ((double)(*tokens - last) / b->p.batch);
        last = *tokens;
        ns += step_ns;
    }
    b->arrived = 0;
    if (last == first)
        TRY(dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                     "bench: a context of %d has no room in which %d sequences decode "
                     "together: raise -c",
                     b->s->model->info.context, b->p.batch));
    if (b->timed) {
        r->decode = counters_since(dev, &before);
        r->decode_tps[run] = (double)(last - first) / ((double)ns * 1e-9);
        b->decode_ms[run] = (double)wanted / r->decode_tps[run] * 1e3;
    }
done:
    set_profile(b, NULL);
    for (uint64_t id = b->first_id; id <= b->batch->submitted; id++)
        batch_cancel(b->batch, id);
    gl_device_set_stop(dev->gl, NULL);
    while (!gl_device_is_lost(dev->gl))
        if (batch_step(b->batch) != DGL_OK || batch_pending(b->batch) == 0)
            break;
    gl_device_set_stop(dev->gl, NULL);
    b->timed = false;
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Repeats prefill and decode as profiled calls at the measured depths. */
static enum dgl_status profile(struct bench *b)
{
    struct dgl_device *dev = session_dev(b->s);
    const int32_t most = b->p.decode_tokens;
    const int32_t tokens = most < PROFILE_TOKENS ? most : PROFILE_TOKENS;
    const struct gl_memory memory = gl_device_memory(dev->gl);
    struct profile profile;
    enum dgl_status status = profile_init(&profile, dev, shard_kernels(b->s->model->shard));
    gl_device_memory_forget(dev->gl, memory);
    profile.sums.copy_gbps = b->r->copy_gbps;
    sequence_trim(&b->s->seq, 0);
    b->profile = &profile;
    TRY(status);
    TRY(time_prefill(b, -1));
    profile.decoding_only = true;
    TRY(b->batch ? time_batch(b, -1, tokens) : time_decode(b, -1, tokens));
done:
    b->profile = NULL;
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
    struct dgl_executor_info info = {.size = sizeof(info)};
    engine_executor(b->s->model->shard->engine, &info);
    if (b->batch && b->batch->num_groups > 0)
        decoder_executor(b->batch->groups[0], &info);
    b->r->executor = info.name;
    b->r->executor_reason = info.reason;
    return DGL_OK;
}

/* Bytes: weights and scratch as in a session's estimate; the KV cache for this run's tokens; the
 * parameter blocks of single dispatches; and a row of the persistent program's table per operation
 * of these shapes. */
static uint64_t estimate(const struct bench *b, struct shape_set shapes)
{
    const struct dgl_session *s = b->s;
    const struct plan *plan = session_plan(s);
    const struct plan_batch one = {
        .context = s->seq.context, .sequences = 1, .rows = s->state.ubatch};
    const int32_t more =
        b->p.prompt_tokens > b->p.decode_tokens ? b->p.prompt_tokens : b->p.decode_tokens;
    const uint64_t row = (KERNEL_MAX_PARAMS + KERNEL_MAX_BINDS) * 4;
    uint64_t ops = 0;
    struct dgl_memory memory = {.size = sizeof(memory)};
    const struct body *bodies[SHAPES_MAX];
    const size_t count = plan_bodies(plan, &shapes, bodies);
    for (size_t i = 0; i < count; i++)
        ops += bodies[i]->ops.count;
    plan_estimate(plan, &one, 0, &memory);
    return memory.weight_bytes + memory.scratch_bytes +
           kv_cache_most_bytes(&s->model->shard->kv, plan_kv_pages(b->p.depth + more + 1)) +
           exec_dispatch_params_bytes(s->model->shard->dev) + ops * row;
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
    if (p->batch > 1 && p->readback_interval)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: a readback interval is of one sequence, not of a batch of %d",
                        p->batch);
    if (p->readback_interval < 0 || p->readback_interval > DGL_READBACK_INTERVAL_MAX)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: readback interval %d is not within 0 and %d", p->readback_interval,
                        DGL_READBACK_INTERVAL_MAX);
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
    struct dgl_generate_result g = {0};
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
    b.decode = recipe_decode(
        SAMPLE_GREEDY, 0,
        (p->readback_interval ? p->readback_interval : session_readback_interval(s)) > 1);
    b.prompt = p->depth > 0 ? p->depth : 1;
    /* Ids spread over the vocabulary. Their meaning does not matter. */
    const size_t alone = (size_t)p->depth + (size_t)p->prompt_tokens;
    const size_t together = p->batch > 1 ? (size_t)p->batch * ((size_t)b.prompt + 1) : 0;
    const size_t num_ids = alone > together ? alone : together;
    b.ids = dgl_new_array(int32_t, num_ids);
    r->decode_latency_ms =
        dgl_new_array(double, (size_t)p->decode_tokens *(size_t)p->batch *(size_t)p->repetitions);
    if (!b.ids || !r->decode_latency_ms)
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
    /* The first prompt of a process: kernels are compiled or read from a cache. */
    sequence_trim(&s->seq, 0);
    TRY(tell(&b, 0) ? generate(&b, p->prompt_tokens, 1, &g) : DGL_ERR_CANCELLED);
    r->ttft_ms_cold = (double)(g.first_token_ns + g.compile_ns) * 1e-6;
    sequence_trim(&s->seq, 0);
    TRY(tell_done(&b, p->prompt_tokens));
    TRY(pass_state_compile(&s->state, shapes));
    r->compile_ns = account_ns(dev) - compiled;
    if (!p->skip_copy) { /* its buffers do not count as the model's */
        const struct gl_memory memory = gl_device_memory(dev->gl);
        status = profile_copy(dev, shard_kernels(s->model->shard), &r->copy_gbps);
        gl_device_memory_forget(dev->gl, memory);
        TRY(status);
    }
    if (p->batch > 1)
        TRY(make_batch(&b));
    const uint64_t clocks_end = dgl_now_ns() + CLOCKS_NS;
    while (warmup > 0 && !session_plan(s)->device->on_host && dgl_now_ns() < clocks_end)
        TRY(time_prefill(&b, -1));
    for (int32_t i = 0; i < runs; i++) {
        TRY(time_prefill(&b, i - warmup));
        TRY(tell_done(&b, p->prompt_tokens));
        TRY(b.batch ? time_batch(&b, i - warmup, p->decode_tokens)
                    : time_decode(&b, i - warmup, p->decode_tokens));
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
    if (b.batch)
        batch_destroy(b.batch);
    if (b.total) /* otherwise it was not set */
        device_set_trace(dev, b.trace, b.trace_priv);
    s->state.runner.wait_executor = false;
    sequence_trim(&s->seq, 0);
    generate_result_finish(&g);
    free(b.ids);
    return status;
}
