/*
 * printable.h: makes text of files and users safe to print in messages. Names, keys and values may
 * be megabytes long, or contain escape sequences or characters that change the text direction. A
 * message contains only the start of such text, with these characters escaped.
 */
#ifndef DGL_BASE_PRINTABLE_H
#define DGL_BASE_PRINTABLE_H

#include "core/base/str.h"

#define DGL_PRINTABLE_BYTES 80

/* Text for one message: at most DGL_PRINTABLE_BYTES bytes, and "..." if the text was longer. */
struct dgl_printable {
    char text[DGL_PRINTABLE_BYTES + sizeof("...")];
};
struct dgl_printable dgl_printable(struct dgl_str text);
/* For the argument list of a message. The text is valid until the end of the full expression. */
#define DGL_PRINTABLE(cstr)    (dgl_printable(dgl_str_of(cstr)).text)
#define DGL_PRINTABLE_STR(str) (dgl_printable(str).text)

/* Appends all of `text`, escaped the same way: control characters and invalid UTF-8 as \x1b,
 * invisible and direction-changing characters as \u{202e}. Tabs are kept. */
void dgl_buf_visible(struct dgl_buf *out, struct dgl_str text);

#endif
