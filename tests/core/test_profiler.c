/* dgl_bench(): rates, counters, bytes. Profiles of both calls: a time that the device cannot
 * measure is absent, never 0. Traces. */
#include "tests/support/gl_fail.h"

#include <math.h>
#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

static struct tiny_engine engine; /* of the bundled model */

/* The copy that bandwidth is measured with is kept small. */
static int reset(void **state)
{
    (void)state;
    gl_fail_reset();
    engine.device->plan.limits.max_buffer_bytes = 16 << 20;
    return 0;
}

static struct dgl_bench_result bench(struct dgl_session *s, const struct dgl_bench_params *p)
{
    struct dgl_bench_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_bench(s, p, &r), DGL_OK);
    return r;
}

/* ---- rates ----------------------------------------------------------------------------------- */

static void test_counts_are_as_asked(void **state)
{
    (void)state;
    struct dgl_bench_result r =
        bench(engine.session,
              dgl_bench_params(.prompt_tokens = 40, .decode_tokens = 6, .repetitions = 3));
    assert_int_equal(r.prompt_tokens, 40);
    assert_int_equal(r.decode_tokens, 6);
    assert_int_equal(r.depth, 0);
    assert_int_equal(r.repetitions, 3);
    assert_int_equal(r.prefill.tokens, 40);
    assert_int_equal(r.decode.tokens, 6);
    /* Software reads every token back. */
    uint64_t readbacks = dgl_device_get_info(engine.device)->software ? 6 : 1;
    assert_int_equal(r.decode.readbacks, readbacks);
    assert_int_equal(r.decode.submits, readbacks * tiny_readback_submits(&engine));
    assert_int_equal(r.decode.buffers_created, 0);
    assert_int_equal(r.decode.programs_linked, 0);
    assert_int_equal(r.prefill.buffers_created, 0);
    assert_int_equal(r.profile.num_entries, 0);
    assert_int_equal(r.profile.num_steps, 0);
    dgl_bench_result_finish(&r);
}

static void test_rates(void **state)
{
    (void)state;
    struct dgl_bench_result r =
        bench(engine.session,
              dgl_bench_params(.prompt_tokens = 40, .decode_tokens = 6, .repetitions = 3));
    int above = 0, below = 0;
    for (int i = 0; i < 3; i++) {
        assert_true(r.prefill_tps[i] > 0 && isfinite(r.prefill_tps[i]));
        assert_true(r.decode_tps[i] > 0 && isfinite(r.decode_tps[i]));
        above += r.decode_tps[i] >= r.decode_tps_median;
        below += r.decode_tps[i] <= r.decode_tps_median;
    }
    assert_true(above >= 2 && below >= 2); /* a median */
    assert_true(r.prefill_tps_median > r.decode_tps_median);
    assert_true(r.copy_gbps > 0);
    assert_true(r.cpu_us_per_token > 0);
    /* All weights except the embedding table. A token reads one row of it, and reads the whole
     * table again as the head. */
    double weights = (double)dgl_model_get_info(engine.model)->weight_bytes;
    assert_near(r.decode_gbps, weights * r.decode_tps_median * 1e-9, r.decode_gbps * 0.02);
    dgl_bench_result_finish(&r);
}

static double spread_of(const struct dgl_bench_result *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->num_latencies; i++)
        sum += r->decode_latency_ms[i];
    return sum;
}

static void test_times_of_tokens(void **state)
{
    (void)state;
    struct dgl_bench_result r =
        bench(engine.session, dgl_bench_params(.prompt_tokens = 40, .decode_tokens = 21,
                                               .repetitions = 3, .warmup = 2));
    assert_int_equal(r.warmup, 2);
    assert_int_equal(r.num_latencies, 3 * 21);
    assert_true(r.decode_ms_p50 <= r.decode_ms_p90 && r.decode_ms_p90 <= r.decode_ms_p99);
    assert_true(r.decode_ms_p50 > 0);
    /* Their sum is the time of all repetitions. */
    double ms = 0;
    for (int i = 0; i < 3; i++)
        ms += 21e3 / r.decode_tps[i];
    assert_near(spread_of(&r), ms, 0.1 * ms);
    assert_near(r.decode_ms_median, 21e3 / r.decode_tps_median, 1e-6 * r.decode_ms_median);
    assert_true(r.ttft_ms_warm >= r.prefill_ms_median);
    assert_true(r.ttft_ms_cold > 0);
    assert_int_equal(r.num_tokens, 22);
    assert_true(strlen(r.text) > 0);
    dgl_bench_result_finish(&r);
    assert_null(r.decode_latency_ms);
    assert_null(r.tokens);
}

/* A measurement generates the same tokens as dgl_generate(). */
static void test_tokens_are_those_of_generation(void **state)
{
    (void)state;
    struct dgl_bench_result r =
        bench(engine.session, dgl_bench_params(.prompt_tokens = 8, .decode_tokens = 9, .depth = 30,
                                               .repetitions = 1, .warmup = DGL_BENCH_NO_WARMUP));
    int32_t ids[30];
    for (uint32_t i = 0; i < 30; i++)
        ids[i] = (int32_t)(i * 2654435761u % 4096);
    struct dgl_generate_result g =
        tiny_generate(engine.session, dgl_generate_params(.ids = ids, .num_ids = 30,
                                                          .max_tokens = 10, .ignore_eos = true));
    assert_int_equal(g.num_tokens, r.num_tokens);
    assert_memory_equal(g.tokens, r.tokens, g.num_tokens * sizeof(*g.tokens));
    assert_int_equal(r.warmup, 0);
    dgl_generate_result_finish(&g);
    dgl_bench_result_finish(&r);
}

/* Buffers of the model and the session: at most the estimate, and little less. This includes a
 * cache that moves while it grows, and a cache that reserves more than the run needs. */
struct memory_row {
    const char *name;
    int32_t context, depth, prompt, tokens;
    bool profile;
};

static const struct memory_row memories[] = {
    {"a short run", 512, 0, 40, 6, false},
    {"a profiled run", 512, 0, 40, 6, true},
    {"a cache for more than is used", 8192, 0, 40, 6, false},
    {"a cache that moves once", 4096, 2100, 8, 4, false},
    {"a cache that moves twice", 8192, 4100, 8, 4, false},
    {"a cache that is full to its page", 8192, 2000, 40, 47, false},
};

static void memory_case(void **state)
{
    const struct memory_row *row = *state;
    struct tiny_engine e = {0};
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = "synthetic:story-llama:q4_k",
                                                      .context = row->context});
    e.device->plan.limits.max_buffer_bytes = 64 << 20;
    struct dgl_bench_result r =
        bench(e.session,
              dgl_bench_params(.prompt_tokens = row->prompt, .decode_tokens = row->tokens,
                               .depth = row->depth, .repetitions = 1, .profile = row->profile));
    assert_true(r.estimate_bytes > dgl_model_get_info(e.model)->weight_bytes);
    if (r.peak_bytes > r.estimate_bytes || (double)r.peak_bytes < 0.93 * (double)r.estimate_bytes)
        fail_msg("%llu bytes at most, %llu estimated", (unsigned long long)r.peak_bytes,
                 (unsigned long long)r.estimate_bytes);
    dgl_bench_result_finish(&r);
    tiny_engine_close(&e);
}

static void test_copy_is_left_out(void **state)
{
    (void)state;
    struct dgl_bench_result r =
        bench(engine.session, dgl_bench_params(.prompt_tokens = 4, .decode_tokens = 2,
                                               .repetitions = 1, .skip_copy = true));
    assert_near(r.copy_gbps, 0, 0);
    dgl_bench_result_finish(&r);
}

static void test_median_of_two(void **state)
{
    (void)state;
    struct dgl_bench_result r = bench(
        engine.session, dgl_bench_params(.prompt_tokens = 8, .decode_tokens = 2, .repetitions = 2));
    assert_near(r.decode_tps_median, (r.decode_tps[0] + r.decode_tps[1]) / 2, 1e-6);
    dgl_bench_result_finish(&r);
}

static void test_depth_is_evaluated_first(void **state)
{
    (void)state;
    struct dgl_bench_result r =
        bench(engine.session, dgl_bench_params(.prompt_tokens = 16, .decode_tokens = 4,
                                               .depth = 100, .repetitions = 1));
    assert_int_equal(r.depth, 100);
    assert_int_equal(r.prefill.tokens, 16);
    assert_int_equal(r.decode.tokens, 4);
    dgl_bench_result_finish(&r);
}

static void test_session_is_empty_afterwards(void **state)
{
    (void)state;
    struct dgl_bench_result r = bench(
        engine.session, dgl_bench_params(.prompt_tokens = 8, .decode_tokens = 2, .repetitions = 1));
    dgl_bench_result_finish(&r);
    assert_int_equal(dgl_session_len(engine.session), 0);
    struct dgl_generate_result g = tiny_generate(
        engine.session, dgl_generate_params(.prompt = "Once upon a time", .max_tokens = 4));
    assert_int_equal(g.num_reused, 0);
    assert_true(g.text_len > 0);
    dgl_generate_result_finish(&g);
}

/* ---- profile --------------------------------------------------------------------------------- */

static const struct dgl_profile_entry *entry(const struct dgl_profile *p, const char *op,
                                             enum dgl_phase phase)
{
    for (size_t i = 0; i < p->num_entries; i++)
        if (strcmp(p->entries[i].op, op) == 0 && p->entries[i].phase == phase)
            return &p->entries[i];
    fail_msg("the profile has no %s", op);
    return NULL;
}

static size_t timed_steps(const struct dgl_profile *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->num_steps; i++)
        count += p->steps[i].timed;
    return count;
}

/* Times are known or reported as unknown, and add up. */
static void check_profile(const struct dgl_profile *p, bool timer, size_t steps)
{
    uint64_t sum = 0;
    assert_true(p->num_entries > 10);
    assert_int_equal(p->num_steps, steps);
    assert_int_equal(timed_steps(p), timer ? (steps + 1) / 2 : 0);
    for (size_t i = 0; i < p->num_entries; i++) {
        assert_non_null(p->entries[i].kernel);
        assert_true(p->entries[i].calls > 0);
        assert_true(p->entries[i].timed ? timer : p->entries[i].gpu_ns == 0);
        sum += p->entries[i].gpu_ns;
    }
    assert_int_equal(sum > 0, timer);
    assert_true(timer || p->timer_ns == 0);
    assert_true(p->copy_gbps > 0);
    for (size_t i = 0; i < steps; i++)
        assert_true(p->steps[i].record_ns > 0 && p->steps[i].readback_ns > 0);
}

static void test_profile_of_bench(void **state)
{
    (void)state;
    static const char *const layer[] = {"qkv", "o", "gate_up", "down"};
    struct dgl_bench_result r =
        bench(engine.session, dgl_bench_params(.prompt_tokens = 16, .decode_tokens = 4,
                                               .repetitions = 1, .profile = true));
    const struct dgl_profile *p = &r.profile;
    const bool timer = dgl_device_get_limits(engine.device)->timer;
    check_profile(p, timer, 4);
    const uint64_t steps = timer ? 2 : 4; /* that count */
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(entry(p, layer[i], DGL_PHASE_PREFILL)->calls, 8);
        assert_int_equal(entry(p, layer[i], DGL_PHASE_DECODE)->calls, 8 * steps);
    }
    assert_int_equal(entry(p, "rope_kv", DGL_PHASE_PREFILL)->calls, 8);
    assert_int_equal(entry(p, "sample_pick", DGL_PHASE_PREFILL)->calls, 1);
    assert_int_equal(entry(p, "attn_prefill", DGL_PHASE_PREFILL)->calls, 8);
    assert_int_equal(entry(p, "attn_decode", DGL_PHASE_DECODE)->calls, 8 * steps);
    assert_int_equal(entry(p, "head", DGL_PHASE_DECODE)->calls, steps);
    assert_int_equal(entry(p, "sample_max", DGL_PHASE_DECODE)->calls, steps);
    assert_int_equal(entry(p, "sample_pick", DGL_PHASE_DECODE)->calls, steps);
    /* Every weight once per token, and the keys and values of the tokens so far: 2 and 4 of them,
     * or 2 to 5. */
    uint64_t bytes = 0, kv = plan_kv_layer_bytes(&engine.model->shard->engine->plan, 1) * 8;
    for (size_t i = 0; i < p->num_entries; i++)
        if (p->entries[i].phase == DGL_PHASE_DECODE)
            bytes += p->entries[i].bytes;
    assert_int_equal(entry(p, "attn_decode", DGL_PHASE_DECODE)->bytes, kv * (timer ? 6 : 14));
    assert_near((double)bytes, (double)(dgl_model_get_info(engine.model)->weight_bytes * steps),
                (double)bytes * 0.02);
    dgl_bench_result_finish(&r);
    assert_int_equal(r.profile.num_entries, 0);
    assert_null(r.profile.entries);
}

/* Steps of several sequences: each operation once for all of them, the keys of each. */
static void test_profile_of_sequences(void **state)
{
    (void)state;
    const struct dgl_bench_params params = {.prompt_tokens = 4,
                                            .decode_tokens = 4,
                                            .depth = 6,
                                            .batch = 3,
                                            .repetitions = 1,
                                            .profile = true};
    struct dgl_bench_result r = bench(engine.session, &params);
    const struct dgl_profile *p = &r.profile;
    const bool timer = dgl_device_get_limits(engine.device)->timer;
    check_profile(p, timer, 4);
    const uint64_t steps = timer ? 2 : 4; /* that count */
    assert_int_equal(entry(p, "gate_up", DGL_PHASE_PREFILL)->calls, 8);
    assert_int_equal(entry(p, "gate_up", DGL_PHASE_DECODE)->calls, 8 * steps);
    assert_int_equal(entry(p, "head", DGL_PHASE_DECODE)->calls, steps);
    assert_int_equal(entry(p, "report", DGL_PHASE_DECODE)->calls, steps);
    /* 6 tokens, and those sampled since. Their number before all sequences decode follows from the
     * order in which prompts are evaluated. */
    const uint64_t kv = plan_kv_layer_bytes(&engine.model->shard->engine->plan, 1) * 8;
    const uint64_t keys = entry(p, "attn_decode", DGL_PHASE_DECODE)->bytes / kv;
    assert_int_equal(entry(p, "attn_decode", DGL_PHASE_DECODE)->bytes % kv, 0);
    assert_in_range(keys, steps * 3 * 7, steps * 3 * 16);
    assert_int_equal(keys % 3, 0);
    dgl_bench_result_finish(&r);
}

/* A profile changes no token, and its time line is the time of decoding. */
static void test_profile_of_generate(void **state)
{
    (void)state;
    enum { TOKENS = 12 };
    struct dgl_generate_params params = {
        .prompt = "Once upon a time", .max_tokens = TOKENS, .ignore_eos = true};
    struct dgl_generate_result plain = tiny_generate(engine.session, &params);
    dgl_session_trim(engine.session, 0);
    params.profile = true;
    struct dgl_generate_result r = tiny_generate(engine.session, &params);
    const struct dgl_profile *p = &r.profile;
    tiny_same_tokens(&plain, &r);
    assert_int_equal(plain.profile.num_entries, 0);
    check_profile(p, dgl_device_get_limits(engine.device)->timer, TOKENS - 1);
    assert_int_equal(entry(p, "qkv", DGL_PHASE_PREFILL)->calls, 8);
    assert_int_equal(entry(p, "sample_pick", DGL_PHASE_PREFILL)->calls, 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < p->num_steps; i++)
        sum += p->steps[i].host_ns + p->steps[i].record_ns + p->steps[i].gpu_ns +
               p->steps[i].readback_ns;
    assert_near((double)sum, (double)r.decode_ns, 0.05 * (double)r.decode_ns);
    dgl_generate_result_finish(&plain);
    dgl_generate_result_finish(&r);
    assert_null(r.profile.steps);
}

static void test_no_timer_under_limits_min(void **state)
{
    (void)state;
    struct tiny_engine e;
    tiny_engine_open(&e, &(struct tiny_engine_params){.limits = "min"});
    e.device->plan.limits.max_buffer_bytes = engine.device->plan.limits.max_buffer_bytes;
    struct dgl_bench_result r =
        bench(e.session, dgl_bench_params(.prompt_tokens = 8, .decode_tokens = 2, .repetitions = 1,
                                          .profile = true));
    check_profile(&r.profile, false, 2);
    dgl_bench_result_finish(&r);
    tiny_engine_close(&e);
}

/* ---- trace ----------------------------------------------------------------------------------- */

struct seen {
    uint64_t count[DGL_EVENT_OP + 1];
    uint64_t readback_bytes;
    uint64_t last_ns; /* end of the latest event of the host, of the GPU */
    uint64_t last_op_ns;
};

static void see(void *priv, const struct dgl_event *e)
{
    struct seen *seen = priv;
    uint64_t *last = e->kind == DGL_EVENT_OP ? &seen->last_op_ns : &seen->last_ns;
    assert_in_range(e->kind, 0, DGL_EVENT_OP);
    assert_true(e->name[0] != '\0');
    assert_int_equal(e->kernel[0] != '\0', e->kind == DGL_EVENT_OP);
    assert_true(e->start_ns > 0);
    if (e->kind == DGL_EVENT_OP)
        assert_true(e->start_ns >= *last); /* the GPU does one after the other */
    assert_true(e->start_ns + e->duration_ns >= *last);
    *last = e->start_ns + e->duration_ns;
    seen->count[e->kind]++;
    if (e->kind == DGL_EVENT_READBACK)
        seen->readback_bytes += e->bytes;
}

/* Every counted event is traced, once. */
static void test_trace_tells_what_is_counted(void **state)
{
    (void)state;
    struct seen seen = {0}, none = {0};
    struct dgl_counters before, after;
    struct dgl_generate_params params = {
        .prompt = "Once upon a time", .max_tokens = 6, .ignore_eos = true};
    dgl_session_trim(engine.session, 0);
    dgl_device_set_trace(engine.device, see, &seen);
    dgl_device_get_counters(engine.device, &before);
    struct dgl_generate_result r = tiny_generate(engine.session, &params);
    dgl_device_get_counters(engine.device, &after);
    dgl_generate_result_finish(&r);
    assert_int_equal(seen.count[DGL_EVENT_SUBMIT], after.submits - before.submits);
    assert_int_equal(seen.count[DGL_EVENT_READBACK], after.readbacks - before.readbacks);
    assert_int_equal(seen.readback_bytes, after.readback_bytes - before.readback_bytes);
    assert_int_equal(seen.count[DGL_EVENT_OP], 0);       /* not a profiled call */
    assert_in_range(seen.count[DGL_EVENT_RECORD], 3, 8); /* body, head, sampling, batches */
    params.profile = true;
    dgl_session_trim(engine.session, 0);
    seen = none;
    before = after;
    r = tiny_generate(engine.session, &params);
    dgl_device_get_counters(engine.device, &after);
    dgl_device_set_trace(engine.device, NULL, NULL);
    uint64_t calls = 0;
    for (size_t i = 0; i < r.profile.num_entries; i++)
        calls += r.profile.entries[i].calls;
    dgl_generate_result_finish(&r);
    assert_int_equal(seen.count[DGL_EVENT_SUBMIT], after.submits - before.submits);
    assert_int_equal(seen.count[DGL_EVENT_COMPILE], after.programs_linked - before.programs_linked);
    if (dgl_device_get_limits(engine.device)->timer)
        assert_int_equal(seen.count[DGL_EVENT_OP], calls);
    seen = none;
    params.profile = false;
    r = tiny_generate(engine.session, &params);
    dgl_generate_result_finish(&r);
    assert_memory_equal(&seen, &none, sizeof(seen)); /* no longer */
}

/* ---- sequences together ---------------------------------------------------------------------- */

/* Steps in which all sequences decode, and their results. A second call needs no more memory. */
static void test_sequences_together(void **state)
{
    (void)state;
    uint64_t held = 0;
    for (int call = 0; call < 2; call++) {
        struct dgl_bench_result r = bench(
            engine.session, dgl_bench_params(.prompt_tokens = 4, .decode_tokens = 6, .depth = 5,
                                             .batch = 3, .repetitions = 1, .skip_copy = true));
        assert_int_equal(r.batch, 3);
        assert_true(r.decode_tps[0] > 0 && isfinite(r.decode_tps[0]));
        assert_near(r.decode_ms_median * 1e-3 * r.decode_tps[0], 3 * 6, 1e-6);
        assert_in_range(r.num_latencies, 1, 3 * 6);
        assert_true(r.decode_ms_p50 > 0);
        assert_in_range(r.num_tokens, 2, 512); /* of the first sequence */
        assert_true(r.decode.dispatches > 0);
        assert_true(r.prefill_tps[0] > 0);
        dgl_bench_result_finish(&r);
        if (call > 0)
            assert_int_equal(gl_device_memory(engine.device->gl).bytes, held);
        held = gl_device_memory(engine.device->gl).bytes;
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    struct dgl_bench_params p;
    const char *word;
};

static const struct refusal refusals[] = {
    {"negative prompt", {.prompt_tokens = -1}, "positive"},
    {"negative decode", {.decode_tokens = -1}, "positive"},
    {"negative depth", {.prompt_tokens = 4, .decode_tokens = 4, .depth = -1}, "positive"},
    {"negative warm-up", {.warmup = -2}, "positive"},
    {"65 runs to warm up", {.warmup = 65}, "64"},
    {"65 repetitions", {.prompt_tokens = 4, .decode_tokens = 4, .repetitions = 65}, "64"},
    {"more than the context", {.prompt_tokens = 600, .decode_tokens = 4}, "512"},
    {"depth beyond the context", {.prompt_tokens = 4, .decode_tokens = 4, .depth = 510}, "510"},
    {"negative batch", {.prompt_tokens = 4, .decode_tokens = 4, .batch = -1}, "-1"},
    {"65 sequences", {.prompt_tokens = 4, .decode_tokens = 4, .batch = 65}, "64"},
    {"a profile of sequences that share no pass",
     {.prompt_tokens = 4, .decode_tokens = 4, .batch = 2, .batch_invariant = true, .profile = true},
     "none is shared"},
    {"sequences that end before the last begins",
     {.prompt_tokens = 4,
      .decode_tokens = 1,
      .batch = 16,
      .depth = 510,
      .repetitions = 1,
      .skip_copy = true},
     "raise -c"},
    {"the largest numbers",
     {.prompt_tokens = INT32_MAX, .decode_tokens = INT32_MAX, .depth = INT32_MAX},
     "2147483647"},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct dgl_bench_result r = {.size = sizeof(r)};
    test_log_clear(&engine.log);
    assert_int_equal(dgl_bench(engine.session, &row->p, &r), DGL_ERR_INVALID_ARG);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, row->word);
    dgl_bench_result_finish(&r);
}

/* ---- progress -------------------------------------------------------------------------------- */

static bool cancel_second(void *priv, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    assert_true(done <= total);
    return ++*(int *)priv < 2;
}

/* The speed is measured, and its buffers are freed. If the measurement fails, no result is
 * reported. */
static void test_speed_of_the_device(void **state)
{
    (void)state;
    struct dgl_device_speed speed = {.size = sizeof(speed)};
    const uint64_t held = gl_device_memory(engine.device->gl).bytes;
    assert_int_equal(dgl_device_measure(engine.device, &speed), DGL_OK);
    assert_true(speed.dispatch_us > 0 && isfinite(speed.dispatch_us));
    assert_true(speed.read_gbps > 0 && isfinite(speed.read_gbps));
    assert_true(speed.copy_gbps > 0 && isfinite(speed.copy_gbps));
    assert_int_equal(gl_device_memory(engine.device->gl).bytes, held);
    gl_fail.buffers = 5; /* the copy's second */
    assert_int_equal(dgl_device_measure(engine.device, &speed), DGL_ERR_NO_MEMORY);
    assert_near(speed.dispatch_us, 0, 0);
    assert_near(speed.read_gbps, 0, 0);
    assert_near(speed.copy_gbps, 0, 0);
    assert_int_equal(gl_device_memory(engine.device->gl).bytes, held);
}

static void test_progress_cancels(void **state)
{
    (void)state;
    struct dgl_bench_result r = {.size = sizeof(r)};
    int calls = 0;
    assert_int_equal(
        dgl_bench(engine.session,
                  dgl_bench_params(.prompt_tokens = 4, .decode_tokens = 2,
                                   .progress_cb = cancel_second, .progress_priv = &calls),
                  &r),
        DGL_ERR_CANCELLED);
    assert_int_equal(calls, 2);
    dgl_bench_result_finish(&r);
    calls = 0;
    assert_int_equal(dgl_bench(engine.session,
                               dgl_bench_params(.prompt_tokens = 4, .decode_tokens = 2, .batch = 2,
                                                .skip_copy = true, .progress_cb = cancel_second,
                                                .progress_priv = &calls),
                               &r),
                     DGL_ERR_CANCELLED);
    assert_int_equal(calls, 2);
    dgl_bench_result_finish(&r);
}

/* Sequences that decode together from the first step: passes over fewer sequences are not compiled
 * (a batch of requests would compile them), and compilation is not in the figures. */
static void test_batch_bodies(void **state)
{
    enum { SEQUENCES = 4 };
    (void)state;
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    struct dgl_batch *batch = NULL;
    size_t left = 1;
    const int32_t ids[] = {5, 6};
    assert_int_equal(
        dgl_kernels_create(
            NULL,
            dgl_kernels_params(.hints = "{\"variants\":{\"matmul/columns=2\":\"matmul_prefill\"}}"),
            &kernels),
        DGL_OK);
    tiny_engine_open(&e, &(struct tiny_engine_params){.context = 128, .kernels = kernels});
    const struct engine *made = e.model->shard->engine;
    for (int warmup = DGL_BENCH_NO_WARMUP; warmup < 2; warmup += 2) {
        struct dgl_bench_result r = bench(
            e.session, dgl_bench_params(.prompt_tokens = 2, .decode_tokens = 8, .batch = SEQUENCES,
                                        .repetitions = 1, .warmup = warmup, .skip_copy = true));
        assert_int_equal(r.decode.programs_linked, 0);
        assert_int_equal(r.decode.buffers_created, 0);
        assert_in_range(r.decode.tokens, SEQUENCES * 8, SEQUENCES * 16);
        assert_string_equal(r.executor, "dispatch");
        if (e.device->info.software)
            assert_contains(r.executor_reason, "renders in software");
        dgl_bench_result_finish(&r);
    }
    const struct pass_shape body = plan_batch_shape(&made->plan, SEQUENCES);
    assert_int_not_equal(body.rows_log2, 1);
    assert_true(exec_is_compiled(&made->programs, &made->plan, shapes_of(body)));
    assert_false(exec_is_compiled(&made->programs, &made->plan, shapes_of(PASS_BATCH(1))));
    assert_int_equal(dgl_batch_create(e.model, dgl_batch_params(.sequences = SEQUENCES), &batch),
                     DGL_OK);
    for (int i = 0; i < SEQUENCES; i++)
        assert_int_equal(dgl_batch_submit(batch,
                                          dgl_request_params(.ids = ids, .num_ids = 2,
                                                             .max_tokens = 12, .ignore_eos = true),
                                          NULL),
                         DGL_OK);
    while (left > 0)
        assert_int_equal(dgl_batch_step(batch, &left), DGL_OK);
    assert_true(exec_is_compiled(&made->programs, &made->plan, shapes_of(PASS_BATCH(1))));
    dgl_batch_destroy(&batch);
    tiny_engine_close(&e);
    dgl_kernels_destroy(&kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_batch_bodies, reset),
        cmocka_unit_test_setup(test_counts_are_as_asked, reset),
        cmocka_unit_test_setup(test_rates, reset),
        cmocka_unit_test_setup(test_times_of_tokens, reset),
        cmocka_unit_test_setup(test_tokens_are_those_of_generation, reset),
        cmocka_unit_test_setup(test_copy_is_left_out, reset),
        cmocka_unit_test_setup(test_median_of_two, reset),
        cmocka_unit_test_setup(test_depth_is_evaluated_first, reset),
        cmocka_unit_test_setup(test_session_is_empty_afterwards, reset),
        cmocka_unit_test_setup(test_profile_of_bench, reset),
        cmocka_unit_test_setup(test_profile_of_sequences, reset),
        cmocka_unit_test_setup(test_profile_of_generate, reset),
        cmocka_unit_test_setup(test_no_timer_under_limits_min, reset),
        cmocka_unit_test_setup(test_trace_tells_what_is_counted, reset),
        cmocka_unit_test_setup(test_speed_of_the_device, reset),
        cmocka_unit_test_setup(test_progress_cancels, reset),
        cmocka_unit_test_setup(test_sequences_together, reset),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = 512});
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("refusal", test_refusal, refusals);
    failures += test_run_table("memory", memory_case, memories);
    tiny_engine_close(&engine);
    return failures;
}
