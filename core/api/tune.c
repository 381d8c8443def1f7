/* Public functions of the tuner: check, enter, forward, leave. */
#include "core/measure/measure.h"

#include <stdlib.h>

#include "core/base/sized.h"
#include "core/exec/tune_store.h"

enum dgl_status dgl_tune(struct dgl_session *session, const struct dgl_tune_params *params,
                         struct dgl_tune_result *out)
{
    struct dgl_tune_params p;
    struct dgl_tune_result result;
    struct gl_saved saved = {0};
    if (!DGL_OPEN(session ? session->model->log : NULL, dgl_tune_result, out, &result) ||
        !session || !DGL_TAKE(session->model->log, dgl_tune_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status = session_enter(session, &saved);
    if (status == DGL_OK)
        status = session_leave(session, &saved, "tuning", session_tune(session, &p, &result));
    DGL_CLOSE(out, &result);
    return status;
}

void dgl_tune_result_finish(struct dgl_tune_result *result)
{
    if (!result)
        return;
    for (size_t i = 0; i < result->num_ops; i++) {
        free(result->ops[i].request);
        free(result->ops[i].candidates);
    }
    free(result->ops);
    free(result->left);
    dgl_sized_clear(result, sizeof(*result));
}

enum dgl_status dgl_tuned_iterate(struct dgl_device *dev,
                                  bool (*cb)(void *priv, const struct dgl_tuned *tuned), void *priv)
{
    if (!dev || !cb)
        return DGL_ERR_INVALID_ARG;
    struct gl_saved saved = {0};
    struct tune_store store;
    enum dgl_status status = device_enter(dev, &saved);
    if (status != DGL_OK)
        return status;
    tune_store_load(&store, dev);
    device_leave(dev, &saved);
    bool more = true;
    for (size_t i = 0; i < store.count && more; i++)
        more = cb(priv, &store.items[i]);
    tune_store_finish(&store);
    return DGL_OK;
}

enum dgl_status dgl_tuned_reset(struct dgl_device *dev)
{
    if (!dev)
        return DGL_ERR_INVALID_ARG;
    struct gl_saved saved = {0};
    enum dgl_status status = device_enter(dev, &saved);
    if (status != DGL_OK)
        return status;
    if (!tune_store_reset(dev))
        status = dgl_fail(dev->log, DGL_ERR_IO, "the tuner's results in %s cannot be removed",
                          gl_program_cache_dir(dev->gl));
    device_leave(dev, &saved);
    return status;
}
