/* taint.h: text with a taint per byte, and taint of text that is cut or rewritten. */
#ifndef DGL_LOADER_TAINT_H
#define DGL_LOADER_TAINT_H

#include "core/base/str.h"

/* Who wrote a byte: the model's files (TAINT_NONE); the model itself (TAINT_MODEL and all even
 * values above it); a user, a tool or another party (all odd values). */
enum { TAINT_NONE = 0, TAINT_DATA = 1, TAINT_MODEL = 2 };

/* One taint per byte. NULL means TAINT_NONE for all bytes. Special tokens match only bytes with
 * TAINT_NONE. Tokens that the template uses as markup do not match bytes with an odd taint. */
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
 * OR of their taints, so it is 0 only if all of them are 0, and odd if one of them is. Appends
 * nothing if the text has no taint. */
void tainted_merge(struct tainted_text from, size_t start, size_t end, size_t count,
                   struct dgl_buf *taint);

#endif
