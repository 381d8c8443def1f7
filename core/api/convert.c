/* The public functions of the converter. */
#include "loader/convert/convert.h"

static const struct dgl_convert_params defaults;

enum dgl_status dgl_convert(const struct dgl_log *log, const struct dgl_convert_params *params,
                            struct dgl_convert_result *out)
{
    return convert_model(log, params ? params : &defaults, out);
}

enum dgl_status dgl_convert_check(const struct dgl_log *log,
                                  const struct dgl_convert_params *params)
{
    return convert_check(log, params ? params : &defaults);
}
