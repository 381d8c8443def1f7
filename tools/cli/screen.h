/* Text of a model on standard output: byte for byte into files and pipes; on a terminal without
 * control characters and, where that is wanted, wrapped between words. */
#ifndef DGL_TOOLS_SCREEN_H
#define DGL_TOOLS_SCREEN_H

#include "core/base/str.h"

struct screen {
    bool terminal;     /* standard output is one */
    bool plain;        /* a terminal: control characters are spelled, "\x1b" */
    bool wraps;        /* at the terminal's width; words are held back until they are complete */
    bool at_newline;   /* the last byte that was given is a newline, or there was none */
    bool after_return; /* a '\r' waits for what follows: with '\n' it is a line end */
    size_t column;     /* cells taken in the line */
    struct dgl_buf blanks, word; /* held back, in this order */
    size_t blank_cells, word_cells;
    uint32_t last; /* character of the word */
    bool wide;     /* it takes two cells: a line may end behind it */
    bool failed;   /* out of memory */
};

/* Standard output as it is; `raw`: every byte, to a terminal too. */
void screen_init(struct screen *s, bool wrap, bool raw);
/* Text in whole characters, printed at once but for what is held back. False after an error
 * line. */
bool screen_write(struct screen *s, const char *text, size_t len);
/* Prints what was held back; the next text begins a new one. */
bool screen_end(struct screen *s);
void screen_finish(struct screen *s);

/* Makes the locale's encoding UTF-8, for libedit and the width of characters. */
void screen_choose_encoding(void);

#endif
