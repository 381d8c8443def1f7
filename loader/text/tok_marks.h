/* tok_marks.h: text with a mark per byte, and marks of text that is cut or rewritten. */
#ifndef DGL_LOADER_TOK_MARKS_H
#define DGL_LOADER_TOK_MARKS_H

#include "core/base/str.h"

/* One mark per byte: not 0 = data, which no special token may touch. NULL = nothing is data. */
struct tok_marked {
    struct dgl_str text;
    const uint8_t *marks;
};

/* The part [start, end). */
struct tok_marked tok_marked_part(struct tok_marked whole, size_t start, size_t end);
/* Appends the part [start, end), and its marks when there are any. */
void tok_marked_copy(struct tok_marked from, size_t start, size_t end, struct dgl_buf *text,
                     struct dgl_buf *marks);
/* Appends `count` marks, for bytes that were made of the bytes [start, end): data when any of these
 * is. Appends nothing when the text has no marks. */
void tok_marked_merge(struct tok_marked from, size_t start, size_t end, size_t count,
                      struct dgl_buf *marks);

#endif
