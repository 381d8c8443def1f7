/* The profile of a call, as JSON and as a table. */
#ifndef DGL_TOOLS_PROFILE_H
#define DGL_TOOLS_PROFILE_H

#include "core/base/json.h"

/* Writes "profile", "timeline" and "timer_us". They are null if `asked` is false. */
void profile_json(struct dgl_json_writer *w, const struct dgl_profile *p, bool asked);
/* Print nothing for an empty profile. `sequences` is the number of sequences per decode step. */
void profile_table(struct dgl_buf *out, const struct dgl_profile *p, int32_t sequences);
void profile_markdown(struct dgl_buf *out, const struct dgl_profile *p, int32_t sequences);

#endif
