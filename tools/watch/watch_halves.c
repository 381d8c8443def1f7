/* A walk over a binary tree whose nodes follow from where they begin. */
#include "tools/watch/watch_halves.h"

void watch_halves_begin(struct watch_halves *h, size_t count)
{
    *h = (struct watch_halves){.count = count, .end = count, .size = 1};
    while (h->size < count)
        h->size *= 2;
}

bool watch_halves_next(struct watch_halves *h, bool taken, const bool *refused)
{
    if (!taken && h->end - h->first > 1) {
        while (h->first + h->size / 2 >= h->end)
            h->size /= 2;
        h->size /= 2;
        h->end = h->first + h->size;
        return true;
    }
    h->progress = h->progress || (taken && h->end - h->first < h->count);
    size_t next = h->end;
    for (int round = 0; round < 2; round++) {
        while (h->singly && next < h->count && !refused[next])
            next++;
        if (next < h->count) {
            /* The other half of the largest whose first half ends here. */
            h->size = h->singly ? 1 : next & -next;
            h->first = next;
            h->end = next + h->size < h->count ? next + h->size : h->count;
            return true;
        }
        if (!h->progress)
            break;
        /* What was taken may be what the others were lacking. */
        h->progress = false;
        h->singly = true;
        next = 0;
    }
    return false;
}
