/* taint.h: text with a taint per byte, and taint of text that is cut or rewritten. */
#ifndef DGL_LOADER_TAINT_H
#define DGL_LOADER_TAINT_H

#include "core/base/str.h"

/* One taint per byte. Special tokens match only bytes with taint 0. NULL means 0 for all bytes. */
struct tainted_text {
    struct dgl_str text;
    const uint8_t *taint;
};

/* Returns the part [start, end). */
struct tainted_text tainted_part(struct tainted_text whole, size_t start, size_t end);
/* Appends the part [start, end), and its taint if there is any. */
void tainted_copy(struct tainted_text from, size_t start, size_t end, struct dgl_buf *text,
                  struct dgl_buf *taint);
/* Appends the same taint for each of `count` bytes that were made from the bytes [start, end): the
 * OR of their taints, so it is 0 only if all of them are 0. Appends nothing if the text has no
 * taint. */
void tainted_merge(struct tainted_text from, size_t start, size_t end, size_t count,
                   struct dgl_buf *taint);

#endif
