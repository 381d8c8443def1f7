/* Prints text of a model to standard output. Files and pipes receive the bytes unchanged. A
 * terminal receives no control characters, and wrapped lines if that is requested. */
#ifndef DGL_TOOLS_SCREEN_H
#define DGL_TOOLS_SCREEN_H

#include "core/base/str.h"

struct screen {
    bool terminal;     /* standard output is a terminal */
    bool plain;        /* control characters are written as text, "\x1b" */
    bool wraps;        /* lines wrap at the terminal's width; incomplete words are held back */
    bool at_newline;   /* the last byte was a newline, or there was no text */
    bool after_return; /* the last character was '\r'; a '\n' after it ends the same line */
    size_t column;     /* used cells of the line */
    struct dgl_buf blanks, word; /* held back, in this order */
    size_t blank_cells, word_cells;
    uint32_t last; /* last character of the word */
    bool wide;     /* the last character is two cells wide, so a line may end after it */
    bool failed;   /* out of memory */
};

/* Examines standard output. `wrap` requests wrapping. `raw` sends every byte also to a terminal. */
void screen_init(struct screen *s, bool wrap, bool raw);
/* Prints text in whole characters, at once except for a part that is held back. Returns false after
 * an error line. */
bool screen_write(struct screen *s, const char *text, size_t len);
/* Prints the text that was held back. Later text is a new text. */
bool screen_end(struct screen *s);
void screen_finish(struct screen *s);

/* Makes the locale's encoding UTF-8, for libedit and the width of characters. */
void screen_choose_encoding(void);

#endif
