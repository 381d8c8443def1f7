/*
 * shown.h: printable text of files and users inside messages. Names, keys and values may be
 * megabytes, escape sequences, characters that turn the direction of the line. A message has their
 * beginning, spelled so that a terminal acts on none of it.
 */
#ifndef DGL_BASE_SHOWN_H
#define DGL_BASE_SHOWN_H

#include "core/base/str.h"

#define DGL_SHOWN_BYTES 80

/* A text for one message: at most DGL_SHOWN_BYTES bytes, then "..." where there was more. */
struct dgl_shown {
    char text[DGL_SHOWN_BYTES + sizeof("...")];
};
struct dgl_shown dgl_shown(struct dgl_str text);
/* For the argument list of a message: the text lives as long as the expression around it. */
#define DGL_SHOWN(cstr)    (dgl_shown(dgl_str_of(cstr)).text)
#define DGL_SHOWN_STR(str) (dgl_shown(str).text)

/* Appends all of `text`, spelled likewise: control characters and bytes that are not UTF-8 as \x1b,
 * characters that steer or hide text as \u{202e}; a tab stays one. */
void dgl_buf_visible(struct dgl_buf *out, struct dgl_str text);

#endif
