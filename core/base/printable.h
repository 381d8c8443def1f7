/*
 * printable.h: printable text of files and users inside messages. Names, keys and values may be
 * megabytes, escape sequences, characters that turn the direction of the line. A message has their
 * beginning, spelled so that a terminal acts on none of it.
 */
#ifndef DGL_BASE_PRINTABLE_H
#define DGL_BASE_PRINTABLE_H

#include "core/base/str.h"

#define DGL_PRINTABLE_BYTES 80

/* A text for one message: at most DGL_PRINTABLE_BYTES bytes, then "..." where there was more. */
struct dgl_printable {
    char text[DGL_PRINTABLE_BYTES + sizeof("...")];
};
struct dgl_printable dgl_printable(struct dgl_str text);
/* For the argument list of a message: the text lives as long as the expression around it. */
#define DGL_PRINTABLE(cstr)    (dgl_printable(dgl_str_of(cstr)).text)
#define DGL_PRINTABLE_STR(str) (dgl_printable(str).text)

/* Appends all of `text`, spelled likewise: control characters and bytes that are not UTF-8 as \x1b,
 * characters that steer or hide text as \u{202e}; a tab stays one. */
void dgl_buf_visible(struct dgl_buf *out, struct dgl_str text);

#endif
