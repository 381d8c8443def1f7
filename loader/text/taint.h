/* taint.h: text with a mark per byte, and taint of text that is cut or rewritten. */
#ifndef DGL_LOADER_TAINT_H
#define DGL_LOADER_TAINT_H

#include "core/base/str.h"

/* One mark per byte: not 0 = data, which no special token may touch. NULL = nothing is data. */
struct tainted_text {
    struct dgl_str text;
    const uint8_t *taint;
};

/* The part [start, end). */
struct tainted_text tainted_part(struct tainted_text whole, size_t start, size_t end);
/* Appends the part [start, end), and its taint when there are any. */
void tainted_copy(struct tainted_text from, size_t start, size_t end, struct dgl_buf *text,
                  struct dgl_buf *taint);
/* Appends `count` taint, for bytes that were made of the bytes [start, end): data when any of these
 * is. Appends nothing when the text has no taint. */
void tainted_merge(struct tainted_text from, size_t start, size_t end, size_t count,
                   struct dgl_buf *taint);

#endif
