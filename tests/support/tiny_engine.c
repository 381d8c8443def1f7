/* Opening a small random model, and the calls that tests of the engine repeat. */
#include "tests/support/tiny_engine.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/seq/session.h"

void tiny_engine_open(struct tiny_engine *e, const struct tiny_engine_params *p)
{
    *e = (struct tiny_engine){0};
    test_log_init(&e->log, DGL_LOG_WARN);
    if (p->path) {
        e->path = strdup(p->path);
    } else {
        struct tiny_llama sizes = p->sizes ? *p->sizes : tiny_llama_default();
        e->dir = test_tmpdir();
        tiny_llama_write(e->dir, &sizes);
        e->path = strdup(e->dir);
    }
    assert_non_null(e->path);
    enum dgl_status status = dgl_device_create(
        &e->log.log, dgl_device_params(.select = "any", .limits = p->limits), &e->device);
    if (status == DGL_OK && p->bindings)
        e->device->plan.limits.max_ssbo_bindings = p->bindings;
    if (status == DGL_OK && p->binding_bytes)
        e->device->plan.limits.max_ssbo_bytes = p->binding_bytes;
    if (status == DGL_OK && p->dispatch_bytes)
        e->device->plan.dispatch_bytes = p->dispatch_bytes;
    if (status == DGL_OK)
        e->device->plan.kv_by_window = p->kv_by_window;
    if (status == DGL_OK)
        status = dgl_model_load(e->device,
                                dgl_model_params(.path = e->path, .kv_type = p->kv_type,
                                                 .context = p->context, .kernels = p->kernels),
                                &e->model);
    if (status == DGL_OK)
        status = dgl_session_create(e->model, dgl_session_params(.chunk = p->chunk), &e->session);
    if (status != DGL_OK)
        fail_msg("%s: %s: %s", e->path, dgl_status_str(status), e->log.text);
}

void tiny_engine_close(struct tiny_engine *e)
{
    dgl_session_destroy(&e->session);
    dgl_model_destroy(&e->model);
    dgl_device_destroy(&e->device);
    if (e->dir)
        test_tmpdir_remove(e->dir);
    free(e->path);
    *e = (struct tiny_engine){0};
}

void tiny_scramble_pages(struct dgl_model *model)
{
    for (uint32_t g = 1; g < model->shard->kv.num_groups; g++) {
        struct kv_store *store = &model->shard->kv.store[g];
        for (uint32_t i = 0; i < store->num_free / 2; i++) {
            const uint16_t page = store->free[i];
            store->free[i] = store->free[store->num_free - 1 - i];
            store->free[store->num_free - 1 - i] = page;
        }
    }
}

struct dgl_session *tiny_session(struct tiny_engine *e, int32_t chunk)
{
    struct dgl_session *s = NULL;
    if (dgl_session_create(e->model, dgl_session_params(.chunk = chunk), &s) != DGL_OK)
        fail_msg("no session: %s", e->log.text);
    return s;
}

void tiny_ids(int32_t *ids, size_t count, int32_t vocab, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++)
        ids[i] = 4 + (int32_t)(test_rand(&state) % (uint64_t)(vocab - 4));
}

size_t tiny_sync(struct dgl_session *s, const int32_t *ids, size_t count)
{
    size_t reused = SIZE_MAX;
    assert_int_equal(dgl_session_sync(s, ids, count, &reused), DGL_OK);
    assert_int_equal(dgl_session_len(s), count);
    return reused;
}

float *tiny_logits(struct dgl_session *s)
{
    struct dgl_device *dev = s->model->shard->dev;
    uint64_t bytes = (uint64_t)s->model->info.vocab * sizeof(float);
    struct gl_saved saved = {0};
    float *logits = malloc(bytes);
    assert_non_null(logits);
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    enum dgl_status status =
        gl_buffer_read(dev->gl, s->state.memory.state[BUF_LOGITS].buffer,
                       s->state.memory.state[BUF_LOGITS].offset, logits, bytes);
    device_leave(dev, &saved);
    assert_int_equal(status, DGL_OK);
    return logits;
}

struct dgl_generate_result tiny_generate(struct dgl_session *s,
                                         const struct dgl_generate_params *params)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_generate(s, params, &r), DGL_OK);
    return r;
}

void tiny_greedy(struct dgl_session *s, const int32_t *ids, size_t count, int32_t *out, size_t want)
{
    struct dgl_generate_result r =
        tiny_generate(s, dgl_generate_params(.ids = ids, .num_ids = count, .ignore_eos = true,
                                             .max_tokens = (int32_t)want));
    assert_int_equal(r.num_tokens, want);
    memcpy(out, r.tokens, want * sizeof(*out));
    dgl_generate_result_finish(&r);
}

uint64_t tiny_readback_submits(const struct tiny_engine *e)
{
    return dgl_device_get_limits(e->device)->buffer_storage ? 2 : 3;
}

void tiny_same_tokens(const struct dgl_generate_result *a, const struct dgl_generate_result *b)
{
    for (size_t i = 0; i < a->num_tokens && i < b->num_tokens; i++)
        if (a->tokens[i] != b->tokens[i])
            fail_msg("token %zu: %d and %d", i, a->tokens[i], b->tokens[i]);
    assert_int_equal(a->num_tokens, b->num_tokens);
}

double tiny_nmse(const float *a, const float *b, size_t count)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < count; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        power += (double)b[i] * b[i];
    }
    if (!isfinite(error) || !isfinite(power) || power == 0)
        return INFINITY;
    return error / power;
}
