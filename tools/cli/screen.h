/* Text of a model on standard output: byte for byte into files and pipes; on a terminal without
 * control characters and, where that is wanted, wrapped between words. */
#ifndef DGL_TOOLS_SCREEN_H
#define DGL_TOOLS_SCREEN_H

#include "core/base/str.h"

struct screen {
    bool terminal;     /* standard output is one */
    bool plain;        /* a terminal: control characters are spelled, "\x1b" */
    bool wraps;        /* at the terminal's width; words are held back until they are complete */
    bool at_newline;   /* the last byte was a newline, or there was no text */
    bool after_return; /* a '\r' was read: a '\n' after it makes one line end */
    size_t column;     /* cells taken in the line */
    struct dgl_buf blanks, word; /* held back, in this order */
    size_t blank_cells, word_cells;
    uint32_t last; /* character of the word */
    bool wide;     /* it is two cells wide: a line may end after it */
    bool failed;   /* out of memory */
};

/* Standard output as it is; `raw`: every byte, to a terminal too. */
void screen_init(struct screen *s, bool wrap, bool raw);
/* Prints text in whole characters, at once except for a part that is held back. Returns false after
 * an error line. */
bool screen_write(struct screen *s, const char *text, size_t len);
/* Prints the text that was held back. The next text begins a new one. */
bool screen_end(struct screen *s);
void screen_finish(struct screen *s);

/* Makes the locale's encoding UTF-8, for libedit and the width of characters. */
void screen_choose_encoding(void);

#endif
