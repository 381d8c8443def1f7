/* dgl_verify_smoke(). */
#include "core/measure/measure.h"

#include "core/base/sized.h"

enum dgl_status dgl_verify_smoke(struct dgl_session *session, const struct dgl_smoke_params *params,
                                 struct dgl_smoke_result *out)
{
    struct dgl_smoke_params p;
    struct dgl_smoke_result result;
    struct gl_saved saved = {0};
    if (!DGL_OPEN(session ? session->model->log : NULL, dgl_smoke_result, out, &result) ||
        !session || !DGL_TAKE(session->model->log, dgl_smoke_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    result.prompt = "";
    enum dgl_status status = session_enter(session, &saved);
    if (status == DGL_OK)
        status =
            session_leave(session, &saved, "the smoke test", session_smoke(session, &p, &result));
    DGL_CLOSE(out, &result);
    return status;
}
