/* The public functions of the converter. */
#include "loader/convert/convert.h"

#include "core/base/sized.h"

enum dgl_status dgl_convert(const struct dgl_log *log, const struct dgl_convert_params *params,
                            struct dgl_convert_result *out)
{
    struct dgl_convert_params p;
    struct dgl_convert_result result;
    if (!DGL_OPEN(log, dgl_convert_result, out, &result) ||
        !DGL_TAKE(log, dgl_convert_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status = convert_model(log, &p, &result);
    DGL_CLOSE(out, &result);
    return status;
}

enum dgl_status dgl_convert_check(const struct dgl_log *log,
                                  const struct dgl_convert_params *params)
{
    struct dgl_convert_params p;
    if (!DGL_TAKE(log, dgl_convert_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    return convert_check(log, &p);
}
