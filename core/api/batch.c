/* Public functions of batches: check, enter, forward, leave. */
#include "core/seq/batch.h"

#include "core/base/mem.h"
#include "core/base/sized.h"

enum dgl_status dgl_batch_create(struct dgl_model *model, const struct dgl_batch_params *params,
                                 struct dgl_batch **out)
{
    struct dgl_batch_params p;
    const struct dgl_log *log = model ? model->log : NULL;
    if (!out)
        return dgl_fail_no_out(log, "dgl_batch_create");
    *out = NULL;
    if (!model || !DGL_TAKE(log, dgl_batch_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    struct dgl_batch *b = dgl_new(struct dgl_batch);
    if (!b)
        return dgl_fail_memory(log, "batch", sizeof(*b));
    b->model = model;
    enum dgl_status status = batch_init(b, &p);
    if (status == DGL_OK)
        *out = b;
    else
        dgl_batch_destroy(&b);
    return status;
}

void dgl_batch_destroy(struct dgl_batch **batch)
{
    struct dgl_batch *b = batch ? *batch : NULL;
    struct gl_saved saved = {0};
    if (!b)
        return;
    *batch = NULL;
    struct dgl_device *dev = b->model->shard->dev;
    bool entered = gl_enter_to_destroy(dev->gl, &saved);
    batch_destroy(b);
    if (entered)
        gl_leave(dev->gl, &saved);
}

enum dgl_status dgl_batch_submit(struct dgl_batch *batch, const struct dgl_request_params *params,
                                 uint64_t *id)
{
    struct dgl_request_params p;
    if (id)
        *id = 0;
    if (!batch || !DGL_TAKE(batch->model->log, dgl_request_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    const enum dgl_status status = model_check_head(batch->model);
    return status == DGL_OK ? batch_submit(batch, &p, id) : status;
}

void dgl_batch_cancel(struct dgl_batch *batch, uint64_t id)
{
    if (!batch)
        return;
    batch_cancel(batch, id);
}

enum dgl_status dgl_batch_step(struct dgl_batch *batch, size_t *left)
{
    struct dgl_model *m = batch ? batch->model : NULL;
    struct gl_saved saved = {0};
    enum dgl_status status;
    if (left)
        *left = 0;
    if (!batch)
        return DGL_ERR_INVALID_ARG;
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
        *left = batch_pending(batch);
    return status;
}

enum dgl_status dgl_batch_wait(struct dgl_batch *batch, uint64_t timeout_ns, size_t *left)
{
    size_t pending = 0;
    if (left)
        *left = 0;
    if (!batch)
        return DGL_ERR_INVALID_ARG;
    if (batch->stepping)
        return dgl_fail(batch->model->log, DGL_ERR_INVALID_ARG,
                        "dgl_batch_wait() was called from a callback of a request: let the step in "
                        "progress end first");
    batch_wait(batch, timeout_ns, &pending);
    if (left)
        *left = pending;
    return DGL_OK;
}

void dgl_batch_wake(struct dgl_batch *batch)
{
    if (batch)
        batch_wake(batch);
}

enum dgl_status dgl_batch_get_info(const struct dgl_batch *batch, struct dgl_batch_info *out)
{
    struct dgl_batch_info info;
    if (!DGL_OPEN(batch ? batch->model->log : NULL, dgl_batch_info, out, &info) || !batch)
        return DGL_ERR_INVALID_ARG;
    batch_get_info((struct dgl_batch *)batch, &info);
    DGL_CLOSE(out, &info);
    return DGL_OK;
}
