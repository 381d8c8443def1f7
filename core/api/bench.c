/* Measuring a model on a device: tokens per second, bytes per second against a plain copy, host
 * time per token, and GPU time per kernel. */
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/seq/session.h"

#include <stdlib.h>
#include <string.h>

#define MAX_REPETITIONS 64
/* Large enough that launch costs vanish, small enough for any device. */
#define COPY_BYTES  (512ull << 20)
#define COPY_ROUNDS 8

struct bench {
    struct dgl_session *s;
    struct dgl_bench_params p;
    struct dgl_bench_result *r;
    double cpu_ns; /* host time of recording decode steps */
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

/* ---- device copy ----------------------------------------------------------------------------- */

/* Buffers and program of the copy. */
struct copy {
    struct programs programs;
    struct gl_buffer *from, *to, *params;
    struct gl_dispatch dispatch;
    uint64_t bytes;
};

static enum dgl_status copy_init(struct copy *c, struct dgl_device *dev, struct kernel_set *set)
{
    const struct dgl_limits *lim = dgl_device_get_limits(dev);
    const struct kernel_request request = {.op = "copy"};
    struct program_entry *entry = NULL;
    uint32_t words[KERNEL_MAX_PARAMS] = {0};
    programs_init(&c->programs, dev, set);
    c->bytes = lim->max_ssbo_bytes < COPY_BYTES ? lim->max_ssbo_bytes : COPY_BYTES;
    c->bytes = c->bytes < lim->max_buffer_bytes ? c->bytes : lim->max_buffer_bytes;
    words[0] = (uint32_t)(c->bytes / 16);
    enum dgl_status st = gl_buffer_create(
        dev->gl, &(struct gl_buffer_params){.size = c->bytes, .label = "copy from"}, &c->from);
    if (st == DGL_OK)
        st = gl_buffer_create(
            dev->gl, &(struct gl_buffer_params){.size = c->bytes, .label = "copy to"}, &c->to);
    if (st == DGL_OK)
        st = gl_buffer_create(
            dev->gl, &(struct gl_buffer_params){.size = sizeof(words), .label = "copy params"},
            &c->params);
    if (st == DGL_OK)
        st = gl_buffer_write(dev->gl, c->params, 0, words, sizeof(words));
    if (st == DGL_OK)
        st = programs_find(&c->programs, &request, &entry);
    if (st == DGL_OK)
        st = programs_compile(&c->programs, &entry, 1);
    if (st != DGL_OK)
        return st;
    c->dispatch = (struct gl_dispatch){.program = entry->program,
                                       .storage = {{c->from, 0, c->bytes}, {c->to, 0, c->bytes}},
                                       .num_storage = 2,
                                       .reads = 1,
                                       .writes = 2,
                                       .uniform = {{c->params, 0, sizeof(words)}},
                                       .num_uniform = 1};
    if (!kernel_groups_band(&entry->choice, 1, words[0], lim->max_groups[0], c->dispatch.groups))
        return dgl_fail(dev->log, DGL_ERR_KERNEL, "%s: GROUPS gives no usable count",
                        entry->choice.kernel->name);
    gl_hazards_derive(&c->dispatch, 1, true);
    return DGL_OK;
}

static void copy_finish(struct copy *c, struct dgl_device *dev)
{
    gl_buffer_destroy(dev->gl, &c->from);
    gl_buffer_destroy(dev->gl, &c->to);
    gl_buffer_destroy(dev->gl, &c->params);
    programs_finish(&c->programs);
}

/* Read plus written bytes per second of a plain copy: what this device's memory gives to compute
 * kernels. */
static enum dgl_status measure_copy(struct bench *b)
{
    struct dgl_device *dev = b->s->model->dev;
    struct copy c = {0};
    uint64_t start = 0;
    enum dgl_status st = copy_init(&c, dev, b->s->model->kernels);
    for (int i = -1; i < COPY_ROUNDS && st == DGL_OK; i++) {
        if (i == 0)
            start = dgl_now_ns(); /* round -1 warms up */
        st = gl_submit(dev->gl, &c.dispatch, 1, NULL);
        if (st == DGL_OK && i < 0)
            st = gl_finish(dev->gl);
    }
    if (st == DGL_OK)
        st = gl_finish(dev->gl);
    if (st == DGL_OK)
        b->r->copy_gbps = 2.0 * (double)c.bytes * COPY_ROUNDS / (double)(dgl_now_ns() - start + 1);
    copy_finish(&c, dev);
    return st;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Ids that spread over the vocabulary; what they say does not matter. */
static void fill_ids(struct dgl_session *s, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++)
        s->ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)s->model->info.vocab);
}

static enum dgl_status eval_depth(struct bench *b)
{
    dgl_session_trim(b->s, 0);
    if (b->p.depth == 0)
        return DGL_OK;
    fill_ids(b->s, 0, b->p.depth);
    return session_eval(b->s, b->p.depth);
}

static enum dgl_status run_prefill(struct bench *b, double *tps)
{
    struct dgl_session *s = b->s;
    struct dgl_counters before;
    enum dgl_status st = eval_depth(b);
    if (st == DGL_OK)
        st = gl_finish(s->model->dev->gl);
    fill_ids(s, b->p.depth, b->p.depth + b->p.prompt_tokens);
    dgl_device_get_counters(s->model->dev, &before);
    uint64_t start = dgl_now_ns();
    if (st == DGL_OK)
        st = session_eval(s, b->p.depth + b->p.prompt_tokens);
    if (st == DGL_OK)
        st = gl_finish(s->model->dev->gl);
    *tps = b->p.prompt_tokens / ((double)(dgl_now_ns() - start) * 1e-9);
    b->r->prefill = counters_since(s->model->dev, &before);
    return st;
}

/* Greedy decoding by the same run as dgl_generate(), without looking at the ids. */
static enum dgl_status run_decode(struct bench *b, double *tps)
{
    struct dgl_session *s = b->s;
    struct gl_device *gl = s->model->dev->gl;
    struct dgl_step step = {.context = (uint32_t)s->context, .tokens = 1, .ignore_eos = 1};
    struct dgl_counters before;
    struct run *run = &s->decode[SAMPLE_GREEDY][false][false];
    enum dgl_status st = session_bind_decode(s, SAMPLE_GREEDY, false, false);
    step.pos = (uint32_t)s->len - 1;
    if (st == DGL_OK)
        st = session_write_step(s, &step);
    if (st == DGL_OK)
        st = gl_finish(gl);
    dgl_device_get_counters(s->model->dev, &before);
    uint64_t start = dgl_now_ns();
    for (int32_t i = 0; i < b->p.decode_tokens && st == DGL_OK; i++) {
        struct gl_ticket ticket;
        int32_t id;
        if (atomic_load_explicit(&s->cancel, memory_order_relaxed))
            return dgl_fail(s->model->dev->log, DGL_ERR_CANCELLED, "bench was cancelled");
        uint64_t recorded = dgl_now_ns();
        st = gl_submit(gl, run->list, run->count, NULL);
        b->cpu_ns += (double)(dgl_now_ns() - recorded);
        b->cpu_steps++;
        /* One readback per interval, as generation does: every token on software, every eighth on
         * hardware. */
        if (st == DGL_OK &&
            (s->model->dev->info.software || i % 8 == 7 || i + 1 == b->p.decode_tokens)) {
            st = gl_readback_begin(gl, s->slots.slot[SLOT_IDS].buffer, (uint64_t)step.pos * 4, 4,
                                   &ticket);
            if (st == DGL_OK)
                st = gl_readback_end(gl, ticket, &id);
        }
        s->model->dev->tokens++;
    }
    if (st == DGL_OK)
        st = gl_finish(gl);
    *tps = b->p.decode_tokens / ((double)(dgl_now_ns() - start) * 1e-9);
    b->r->decode = counters_since(s->model->dev, &before);
    dgl_session_trim(s, 0);
    return st;
}

static enum dgl_status one_repetition(struct bench *b, double *prefill, double *decode)
{
    enum dgl_status st = run_prefill(b, prefill);
    /* Decode starts at the depth alone, as llama-bench's tg does; at depth 0 from one token. */
    if (st == DGL_OK)
        st = eval_depth(b);
    if (st == DGL_OK && b->p.depth == 0) {
        fill_ids(b->s, 0, 1);
        st = session_eval(b->s, 1);
    }
    return st == DGL_OK ? run_decode(b, decode) : st;
}

/* ---- profile --------------------------------------------------------------------------------- */

static struct dgl_profile_entry *profile_entry(struct dgl_bench_result *r, size_t *cap,
                                               const struct dgl_profile_entry *key)
{
    for (size_t i = 0; i < r->num_profile; i++) {
        struct dgl_profile_entry *e = &r->profile[i];
        if (e->phase == key->phase && strcmp(e->op, key->op) == 0 &&
            strcmp(e->kernel, key->kernel) == 0)
            return e;
    }
    if (!dgl_grow((void **)&r->profile, cap, r->num_profile + 1, sizeof(*r->profile)))
        return NULL;
    r->profile[r->num_profile] = *key;
    return &r->profile[r->num_profile++];
}

/* Replays a run once with a timer around every dispatch and adds the times up per operation and
 * kernel. */
static enum dgl_status profile_run(struct bench *b, const struct run *run, enum dgl_phase phase,
                                   size_t *cap)
{
    struct dgl_device *dev = b->s->model->dev;
    uint64_t *ns = dgl_new_array(uint64_t, run->count);
    if (!ns)
        return dgl_fail_memory(dev->log, "timer results", run->count * sizeof(*ns));
    enum dgl_status st = gl_submit(dev->gl, run->list, run->count, ns);
    for (size_t i = 0; i < run->count && st == DGL_OK; i++) {
        struct dgl_profile_entry *e =
            profile_entry(b->r, cap,
                          &(struct dgl_profile_entry){.op = run->op[i]->label,
                                                      .kernel = run->entry[i]->choice.kernel->name,
                                                      .phase = phase,
                                                      .timed = true});
        if (!e) {
            st = dgl_fail_memory(dev->log, "profile", run->count);
            break;
        }
        e->calls++;
        e->bytes += run->op[i]->bytes;
        e->timed = e->timed && ns[i] != UINT64_MAX;
        e->gpu_ns = e->timed ? e->gpu_ns + ns[i] : 0;
    }
    free(ns);
    return st;
}

static enum dgl_status profile(struct bench *b)
{
    struct dgl_session *s = b->s;
    size_t cap = 0;
    double ignored;
    int32_t rows = b->p.prompt_tokens < s->chunk ? b->p.prompt_tokens : s->chunk;
    struct dgl_step step = {.tokens = (uint32_t)rows, .context = (uint32_t)s->context};
    enum dgl_status st = DGL_OK;
    if (s->prefill.list) {
        st = run_set_tokens(s->model->dev, &s->prefill, rows);
        if (st == DGL_OK)
            st = session_write_step(s, &step);
        if (st == DGL_OK)
            st = profile_run(b, &s->prefill, DGL_PHASE_PREFILL, &cap);
    }
    int32_t decode_tokens = b->p.decode_tokens;
    b->p.decode_tokens = 1;
    dgl_session_trim(s, 0);
    if (st == DGL_OK)
        st = one_repetition(b, &ignored, &ignored);
    if (st == DGL_OK)
        st = profile_run(b, &s->decode[SAMPLE_GREEDY][false][false], DGL_PHASE_DECODE, &cap);
    b->p.decode_tokens = decode_tokens;
    dgl_session_trim(s, 0);
    return st;
}

/* ---- the call -------------------------------------------------------------------------------- */

static enum dgl_status check_params(struct bench *b)
{
    const struct dgl_log *log = b->s->model->dev->log;
    struct dgl_bench_params *p = &b->p;
    p->prompt_tokens = p->prompt_tokens ? p->prompt_tokens : 512;
    p->decode_tokens = p->decode_tokens ? p->decode_tokens : 128;
    p->repetitions = p->repetitions ? p->repetitions : 3;
    int64_t most = p->prompt_tokens > p->decode_tokens ? p->prompt_tokens : p->decode_tokens;
    if (p->prompt_tokens < 0 || p->decode_tokens < 0 || p->depth < 0 || p->repetitions < 0 ||
        p->repetitions > MAX_REPETITIONS)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: counts must be positive and repetitions at most %d",
                        MAX_REPETITIONS);
    if (p->depth + most + 1 > b->s->context)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "bench: depth %d and %lld tokens do not fit the context of %d: raise -c",
                        p->depth, (long long)most, b->s->context);
    return DGL_OK;
}

static uint64_t bytes_per_token(const struct bench *b)
{
    const struct dgl_session *s = b->s;
    const struct run *run = &s->decode[SAMPLE_GREEDY][false][false];
    uint64_t bytes = 0;
    for (size_t i = 0; i < run->count; i++)
        bytes += run->op[i]->bytes;
    uint64_t held = (uint64_t)b->p.depth + (uint64_t)b->p.decode_tokens / 2;
    return bytes + held * model_kv_layer_bytes(s->model, 1) * (uint64_t)s->model->info.layers;
}

static enum dgl_status bench_entered(struct bench *b)
{
    struct dgl_bench_result *r = b->r;
    double ignored;
    uint64_t total = (uint64_t)b->p.repetitions + 2;
    enum dgl_status st = measure_copy(b);
    if (st == DGL_OK)
        st = one_repetition(b, &ignored, &ignored); /* compiles and warms up */
    b->cpu_ns = 0;
    b->cpu_steps = 0;
    for (int32_t i = 0; i < b->p.repetitions && st == DGL_OK; i++) {
        if (!tell(b, (uint64_t)i + 1, total))
            return dgl_fail(b->s->model->dev->log, DGL_ERR_CANCELLED, "bench was cancelled");
        st = one_repetition(b, &r->prefill_tps[i], &r->decode_tps[i]);
    }
    if (st != DGL_OK)
        return st;
    r->prefill_tps_median = median(r->prefill_tps, b->p.repetitions);
    r->decode_tps_median = median(r->decode_tps, b->p.repetitions);
    r->decode_gbps = (double)bytes_per_token(b) * r->decode_tps_median * 1e-9;
    r->cpu_us_per_token = b->cpu_ns * 1e-3 / (double)b->cpu_steps;
    if (b->p.profile) {
        /* The counters shown are those of the last repetition. */
        struct dgl_counters prefill = r->prefill, decode = r->decode;
        st = profile(b);
        r->prefill = prefill;
        r->decode = decode;
    }
    tell(b, total, total);
    return st;
}

enum dgl_status dgl_bench(struct dgl_session *session, const struct dgl_bench_params *params,
                          struct dgl_bench_result *out)
{
    struct gl_saved saved = {0};
    *out = (struct dgl_bench_result){0};
    enum dgl_status st = session_enter(session, &saved);
    if (st != DGL_OK)
        return st;
    struct bench b = {.s = session, .r = out};
    if (params)
        b.p = *params;
    st = check_params(&b);
    if (st == DGL_OK) {
        out->prompt_tokens = b.p.prompt_tokens;
        out->decode_tokens = b.p.decode_tokens;
        out->depth = b.p.depth;
        out->repetitions = b.p.repetitions;
        st = bench_entered(&b);
    }
    if (st != DGL_OK)
        dgl_bench_result_finish(out);
    device_leave(session->model->dev, &saved);
    return st;
}

void dgl_bench_result_finish(struct dgl_bench_result *result)
{
    free(result->profile);
    result->profile = NULL;
    result->num_profile = 0;
}
