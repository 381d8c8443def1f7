/* What the tuner found out, as lines and as JSON: for `tune` and for `bench`. */
#ifndef DGL_TOOLS_TUNE_H
#define DGL_TOOLS_TUNE_H

#include "core/base/json.h"
#include "core/dopplergl.h"

/* A line per operation; with `candidates` each of those that were tried. */
void tune_put(struct dgl_buf *out, const struct dgl_tune_result *r, bool candidates);
/* List of operations. */
void tune_json(struct dgl_json_writer *w, const struct dgl_tune_result *r);

#endif
