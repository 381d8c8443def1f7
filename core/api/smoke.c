/* dgl_verify_smoke(). */
#include "core/measure/measure.h"

enum dgl_status dgl_verify_smoke(struct dgl_session *session, const struct dgl_smoke_params *params,
                                 struct dgl_smoke_result *out)
{
    static const struct dgl_smoke_params defaults;
    struct gl_saved saved = {0};
    *out = (struct dgl_smoke_result){.prompt = ""};
    enum dgl_status status = session_enter(session, &saved);
    if (status == DGL_OK)
        status = session_leave(session, &saved, "the smoke test",
                               session_smoke(session, params ? params : &defaults, out));
    return status;
}
