/* Taint of text that is cut, copied or rewritten. */
#include "loader/text/taint.h"

#include <string.h>

struct tainted_text tainted_part(struct tainted_text whole, size_t start, size_t end)
{
    return (struct tainted_text){{whole.text.p + start, end - start},
                                 whole.taint ? whole.taint + start : NULL};
}

void tainted_copy(struct tainted_text from, size_t start, size_t end, struct dgl_buf *text,
                  struct dgl_buf *taint)
{
    if (start == end)
        return;
    dgl_buf_append(text, from.text.p + start, end - start);
    if (from.taint)
        dgl_buf_append(taint, from.taint + start, end - start);
}

void tainted_merge(struct tainted_text from, size_t start, size_t end, size_t count,
                   struct dgl_buf *taint)
{
    uint8_t mark = 0;
    for (size_t i = start; from.taint && i < end; i++)
        mark |= from.taint[i];
    if (!from.taint)
        return;
    char marks[256];
    memset(marks, mark, sizeof(marks));
    for (size_t part; count > 0; count -= part) {
        part = count < sizeof(marks) ? count : sizeof(marks);
        dgl_buf_append(taint, marks, part);
    }
}
