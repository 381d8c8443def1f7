/* The order in which edits are tried: all together, then halves of what was refused, down to single
 * ones; and once more singly, while that brings anything. Of n with k wrong ones these are at most
 * 2 k log2(n) + 1 trials, and k more for each time that something was taken late. */
#ifndef DGL_TOOLS_WATCH_HALVES_H
#define DGL_TOOLS_WATCH_HALVES_H

#include <stdbool.h>
#include <stddef.h>

struct watch_halves {
    size_t count;
    size_t first, end; /* of the trial */
    size_t size;       /* a power of two: first is a multiple, end is at most so much more */
    bool singly;
    bool progress; /* some were taken since all were looked at */
};

void watch_halves_begin(struct watch_halves *h, size_t count);
/* After the trial. refused[i] is what has become of each that was tried alone, or in a trial that
 * was taken; false: all are done. */
bool watch_halves_next(struct watch_halves *h, bool taken, const bool *refused);

#endif
