/* Progress bar: one line about long work, as text for a terminal of a given width. Does not use the
 * clock or the terminal. */
#ifndef DGL_TOOLS_BAR_H
#define DGL_TOOLS_BAR_H

#include "core/base/str.h"

#define BAR_FIRST_NS 500000000u /* shorter work shows no bar */
#define BAR_NEXT_NS  100000000u /* least time between two drawings */

/* `{0}` means that there is no work. */
struct bar {
    char what[32];     /* unit of the numbers; "" if there is no work */
    uint64_t start_ns; /* start of the work */
    uint64_t first;    /* `done` at the start */
    uint64_t done, total;
    uint64_t drawn_ns; /* time of the last drawing */
    uint32_t draws;    /* drawings so far */
};

/* Records a report of progress in units of `what`. Another unit, or less done than before, begins
 * new work. Returns true if the bar should be drawn now. Finished work has no bar. */
bool bar_update(struct bar *bar, const char *what, uint64_t done, uint64_t total, uint64_t now_ns);

/* Call it before bar_update(). If that call begins new work, the work is part of longer work, which
 * began at `start_ns`. */
void bar_expect(struct bar *bar, const char *what, uint64_t done, uint64_t total,
                uint64_t start_ns);

struct bar_look {
    size_t columns; /* width of the terminal; the last column stays free */
    bool colour;
    const char *work; /* name of work that is counted in bytes; if NULL, the unit is the name */
};
/* Appends the line: work, progress, cells, rate, time left. It has no control characters other than
 * colours. If it does not fit, the cells shrink first, and then parts are left out from the end.
 * Returns the number of columns. */
size_t bar_draw(const struct bar *bar, const struct bar_look *look, uint64_t now_ns,
                struct dgl_buf *out);

#endif
