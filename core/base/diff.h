/* Unified diff of two texts by lines. */
#ifndef DGL_BASE_DIFF_H
#define DGL_BASE_DIFF_H

#include "core/base/str.h"

/* Appends the output of `diff -u` for the two texts, or an empty text if they are equal. The diff
 * is minimal (E. W. Myers, "An O(ND) Difference Algorithm", 1986). To limit time and memory, if
 * more than 2,000 lines differ, all lines between the equal start and the equal end are listed. */
void dgl_diff_unified(struct dgl_buf *out, const char *old_name, struct dgl_str old_text,
                      const char *new_name, struct dgl_str new_text);

#endif
