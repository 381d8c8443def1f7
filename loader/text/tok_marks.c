/* Marks of text that is cut, copied or rewritten. */
#include "loader/text/tok_marks.h"

struct tok_marked tok_marked_part(struct tok_marked whole, size_t start, size_t end)
{
    return (struct tok_marked){{whole.text.p + start, end - start},
                               whole.marks ? whole.marks + start : NULL};
}

void tok_marked_copy(struct tok_marked from, size_t start, size_t end, struct dgl_buf *text,
                     struct dgl_buf *marks)
{
    if (start == end)
        return;
    dgl_buf_append(text, from.text.p + start, end - start);
    if (from.marks)
        dgl_buf_append(marks, from.marks + start, end - start);
}

void tok_marked_merge(struct tok_marked from, size_t start, size_t end, size_t count,
                      struct dgl_buf *marks)
{
    uint8_t mark = 0;
    for (size_t i = start; from.marks && i < end; i++)
        mark |= from.marks[i];
    for (size_t i = 0; from.marks && i < count; i++)
        dgl_buf_putc(marks, (char)mark);
}
