/* Public functions of batches: check, enter, forward, leave. */
#include "core/seq/batch.h"

#include "core/base/mem.h"

enum dgl_status dgl_batch_create(struct dgl_model *model, const struct dgl_batch_params *params,
                                 struct dgl_batch **out)
{
    static const struct dgl_batch_params defaults;
    const struct dgl_log *log = model->log;
    if (!out)
        return dgl_fail_no_out(log, "dgl_batch_create");
    *out = NULL;
    struct dgl_batch *b = dgl_new(struct dgl_batch);
    if (!b)
        return dgl_fail_memory(log, "batch", sizeof(*b));
    b->model = model;
    enum dgl_status status = batch_init(b, params ? params : &defaults);
    if (status == DGL_OK)
        *out = b;
    else
        dgl_batch_destroy(&b);
    return status;
}

void dgl_batch_destroy(struct dgl_batch **batch)
{
    struct dgl_batch *b = *batch;
    struct gl_saved saved = {0};
    *batch = NULL;
    if (!b)
        return;
    struct dgl_device *dev = b->model->shard->dev;
    bool entered = gl_enter_to_destroy(dev->gl, &saved);
    batch_destroy(b);
    if (entered)
        gl_leave(dev->gl, &saved);
}

enum dgl_status dgl_batch_submit(struct dgl_batch *batch, const struct dgl_request_params *params,
                                 uint64_t *id)
{
    static const struct dgl_request_params defaults;
    const enum dgl_status status = model_check_head(batch->model);
    return status == DGL_OK ? batch_submit(batch, params ? params : &defaults, id) : status;
}

void dgl_batch_cancel(struct dgl_batch *batch, uint64_t id)
{
    batch_cancel(batch, id);
}

enum dgl_status dgl_batch_step(struct dgl_batch *batch, size_t *left)
{
    struct dgl_model *m = batch->model;
    struct gl_saved saved = {0};
    enum dgl_status status;
    if (batch->stepping) {
        status = dgl_fail(m->log, DGL_ERR_INVALID_ARG,
                          "dgl_batch_step() was called from a callback of a request: let the step "
                          "in progress end first");
    } else {
        status = model_enter(m, &saved);
        if (status == DGL_OK) {
            status = batch_step(batch);
            gl_device_set_stop(m->shard->dev->gl, NULL);
            device_leave(m->shard->dev, &saved);
        }
    }
    if (left)
        *left = batch->info.running + batch->info.waiting;
    return status;
}

void dgl_batch_get_info(const struct dgl_batch *batch, struct dgl_batch_info *out)
{
    *out = batch->info;
    out->pages_used = kv_cache_pool_used(&batch->model->shard->kv);
    out->cache_bytes = batch->model->shard->kv.bytes;
}
