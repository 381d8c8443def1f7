/* Prompts, id lists and JSON lines as users give them. */
#ifndef DGL_TOOLS_INPUT_H
#define DGL_TOOLS_INPUT_H

#include "core/base/str.h"

struct id_list {
    int32_t *ids; /* free() */
    size_t count, cap;
};

/* "1,2,3"; false after an error line. */
bool ids_parse(const char *text, struct id_list *out);
/* A file's bytes, or standard input for "-"; false after an error line. */
bool input_slurp(const char *path, struct dgl_buf *out);
/* Expands backslash escapes in place; false after an error line. */
bool input_unescape(struct dgl_buf *text);
/* The next line of standard input without its newline; false at the end. */
bool input_line(struct dgl_buf *line);

#endif
