/* Where the time of a call went, as JSON and as a table. */
#ifndef DGL_TOOLS_PROFILE_H
#define DGL_TOOLS_PROFILE_H

#include "core/base/json.h"

/* "profile", "timeline" and "timer_us"; null unless `asked`. */
void profile_json(struct dgl_json_writer *w, const struct dgl_profile *p, bool asked);
/* Prints nothing for an empty profile. `sequences`: number in each decode step. */
void profile_table(struct dgl_buf *out, const struct dgl_profile *p, int32_t sequences);
void profile_markdown(struct dgl_buf *out, const struct dgl_profile *p, int32_t sequences);

#endif
