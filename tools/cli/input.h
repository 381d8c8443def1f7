/* Prompts, id lists and JSON lines as users give them. */
#ifndef DGL_TOOLS_INPUT_H
#define DGL_TOOLS_INPUT_H

#include "core/base/str.h"

struct id_list {
    int32_t *ids; /* free() */
    size_t count, cap;
};

/* "1,2,3"; EXIT_OK, or another exit code after an error line. */
int ids_parse(const char *text, struct id_list *out);
/* Whether each part is a number; false after an error line, which `origin` begins. */
bool ids_are_numbers(const char *origin, const char *text);
/* Whether standard input is a pipe or a file: neither a terminal nor /dev/null. */
bool input_is_piped(void);
/* Whether standard input has something, or its end, within half a second. */
bool input_comes_soon(void);
/* A file's bytes, or standard input for "-". False, with nothing to free, after an error line, or
 * quietly after a signal. */
bool input_slurp(const char *path, struct dgl_buf *out);
/* Expands \n \r \t \' \" \\ \xHH in place and returns the new length; other escapes stay,
 * as in llama.cpp. */
size_t input_unescape(char *text, size_t len);
/* False after an error line "WHAT is not UTF-8: ...". */
bool input_is_utf8(const char *what, struct dgl_str text);
/* The next line of standard input without its newline; false at the end, after a signal, and when
 * memory is out (line->failed). */
bool input_line(struct dgl_buf *line);

#endif
