/* Progress bar: one line about work that takes long, as text for a terminal of a given width. Knows
 * neither clock nor terminal. */
#ifndef DGL_TOOLS_BAR_H
#define DGL_TOOLS_BAR_H

#include "core/base/str.h"

#define BAR_FIRST_NS 500000000u /* shorter work shows no bar */
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

/* Records a report of progress in units of `what`. Another unit, or less done than before, begins
 * new work. Returns true if the bar should be drawn now. Finished work has no bar. */
bool bar_update(struct bar *bar, const char *what, uint64_t done, uint64_t total, uint64_t now_ns);

/* Call it before bar_update(). Tells that new work began earlier, at `start_ns`, as a part of
 * longer work. */
void bar_expect(struct bar *bar, const char *what, uint64_t done, uint64_t total,
                uint64_t start_ns);

struct bar_look {
    size_t columns; /* of the terminal; the last one stays free */
    bool colour;
    const char *work; /* name of work that is counted in bytes; NULL = named by its unit */
};
/* Appends the line: work, progress, cells, rate, time left. It has no control characters other than
 * colours. If it does not fit, the cells shrink first, and then parts are left out from the end.
 * Returns the number of columns. */
size_t bar_draw(const struct bar *bar, const struct bar_look *look, uint64_t now_ns,
                struct dgl_buf *out);

#endif
