/* Progress bar: one line about work that takes long, as text for a terminal of a given width. Knows
 * neither clock nor terminal. */
#ifndef DGL_TOOLS_BAR_H
#define DGL_TOOLS_BAR_H

#include "core/base/str.h"

#define BAR_FIRST_NS 500000000u /* work that is shorter shows none */
#define BAR_NEXT_NS  100000000u /* between two drawings */

/* `{0}` is no work. */
struct bar {
    char what[32];     /* unit of the numbers; "" = no work */
    uint64_t start_ns; /* of this work */
    uint64_t first;    /* done at its start */
    uint64_t done, total;
    uint64_t drawn_ns; /* the last time */
    uint32_t draws;    /* so far */
};

/* Takes a report of progress in units of `what`; another unit, or less done than before, begins new
 * work. True: it is time to draw. Work that is done is none. */
bool bar_update(struct bar *bar, const char *what, uint64_t done, uint64_t total, uint64_t now_ns);

/* Before bar_update(): work that is new began at `start_ns` already, as a part of what takes
 * long. */
void bar_expect(struct bar *bar, const char *what, uint64_t done, uint64_t total,
                uint64_t start_ns);

struct bar_look {
    size_t columns; /* of the terminal; the last one stays free */
    bool colour;
    const char *work; /* names what goes through bytes; NULL = by its unit */
};
/* Appends the line without control characters other than colours: work, how far, cells, rate, time
 * left; what does not fit is left out from the end, cells shrink first. Returns the columns that it
 * takes. */
size_t bar_draw(const struct bar *bar, const struct bar_look *look, uint64_t now_ns,
                struct dgl_buf *out);

#endif
