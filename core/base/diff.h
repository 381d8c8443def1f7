/* Unified diff of two texts, by lines. */
#ifndef DGL_BASE_DIFF_H
#define DGL_BASE_DIFF_H

#include "core/base/str.h"

/* Appends what `diff -u` prints of the two texts with these names; nothing when they are equal. The
 * fewest lines that tell the difference (E. W. Myers, "An O(ND) Difference Algorithm", 1986);
 * beyond 2,000 of them, all lines between the equal ends, so that time and memory stay small. */
void dgl_diff_unified(struct dgl_buf *out, const char *old_name, struct dgl_str old_text,
                      const char *new_name, struct dgl_str new_text);

#endif
