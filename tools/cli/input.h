/* Prompts, id lists and JSON lines as users give them. */
#ifndef DGL_TOOLS_INPUT_H
#define DGL_TOOLS_INPUT_H

#include "core/base/str.h"

struct id_list {
    int32_t *ids; /* free() */
    size_t count, cap;
};

/* Parses "1,2,3". Returns EXIT_OK, or another exit code after an error line. */
int ids_parse(const char *text, struct id_list *out);
/* Returns false after an error line, which begins with `origin`, if a part is not a number. */
bool ids_are_numbers(const char *origin, const char *text);
/* Returns false if standard input is a character device, such as a terminal or /dev/null. */
bool input_is_piped(void);
/* Returns true if standard input has data, or ends, within half a second. */
bool input_comes_soon(void);
/* Reads a file, or standard input for "-". Returns false after an error line, or without one after
 * a signal. In that case there is nothing to free. */
bool input_slurp(const char *path, struct dgl_buf *out);
/* Expands \n \r \t \' \" \\ \xHH in place and returns the new length; other escapes stay,
 * as in llama.cpp. */
size_t input_unescape(char *text, size_t len);
/* Returns false after an error line "WHAT is not UTF-8: ...". */
bool input_is_utf8(const char *what, struct dgl_str text);
/* Reads the next line of standard input without its newline. Returns false at the end, after a
 * signal, or if memory is exhausted (line->failed). */
bool input_line(struct dgl_buf *line);

#endif
