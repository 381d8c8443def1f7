/* The tuner's results as text and as JSON, for `tune` and for `bench`. */
#ifndef DGL_TOOLS_TUNE_REPORT_H
#define DGL_TOOLS_TUNE_REPORT_H

#include "core/base/json.h"
#include "core/dopplergl.h"

/* Appends a kernel with its tunables: "NAME WG_SIZE=128". */
void tune_put_name(struct dgl_buf *out, const char *kernel, const char *tunes);
/* Returns true if the default kernel computes wrongly. In that case its operation was not
 * measured. */
bool tune_default_is_wrong(const struct dgl_tune_op *op);
/* A line per operation; with `candidates` each of those that were tried. */
void tune_put(struct dgl_buf *out, const struct dgl_tune_result *r, bool candidates);
/* List of operations. */
void tune_json(struct dgl_json_writer *w, const struct dgl_tune_result *r);

#endif
