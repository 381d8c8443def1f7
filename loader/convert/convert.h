/* Converts a model of any format that model_file.h opens to an RDRR version 1 pack. */
#ifndef DGL_LOADER_CONVERT_H
#define DGL_LOADER_CONVERT_H

#include "core/base/status.h"

enum dgl_status convert_model(const struct dgl_log *log, const struct dgl_convert_params *params,
                              struct dgl_convert_result *out);
/* Checks the parameters without opening the model; convert_model() calls it first. */
enum dgl_status convert_check(const struct dgl_log *log, const struct dgl_convert_params *params);

#endif
