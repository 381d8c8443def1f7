/* Required forms of answers. */
#ifndef DGL_TOOLS_SERVE_SHAPE_H
#define DGL_TOOLS_SERVE_SHAPE_H

#include "tools/serve/serve_request.h"

/* Fills r->shape from the fields of a request. Returns false and fills *error if they are refused.
 */
bool serve_shape_read(struct serve_request *r, const struct dgl_json *root,
                      struct serve_error *error);

#endif
