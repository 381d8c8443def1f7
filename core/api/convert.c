/* The public functions of the converter. */
#include "loader/convert/convert.h"

enum dgl_status dgl_convert(const struct dgl_log *log, const struct dgl_convert_params *params,
                            struct dgl_convert_result *out)
{
    return convert_model(log, params, out);
}

enum dgl_status dgl_convert_check(const struct dgl_log *log,
                                  const struct dgl_convert_params *params)
{
    return convert_check(log, params);
}
