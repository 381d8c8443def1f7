/* Edit distance with transpositions (optimal string alignment) over short words. */
#include "core/base/nearest.h"

#define MAX_WORD 64

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(struct dgl_str a, struct dgl_str b)
{
    size_t row[3][MAX_WORD + 1]; /* rows i - 2, i - 1 and i, indexed by the length of b */
    size_t *older = row[0], *old = row[1], *now = row[2];
    for (size_t k = 0; k <= b.len; k++)
        old[k] = k;
    for (size_t i = 1; i <= a.len; i++) {
        now[0] = i;
        for (size_t k = 1; k <= b.len; k++) {
            char x = lower(a.p[i - 1]), y = lower(b.p[k - 1]);
            now[k] = least(old[k - 1] + (x != y), least(old[k], now[k - 1]) + 1);
            if (i > 1 && k > 1 && x == lower(b.p[k - 2]) && lower(a.p[i - 2]) == y)
                now[k] = least(now[k], older[k - 2] + 1);
        }
        size_t *free_row = older;
        older = old;
        old = now;
        now = free_row;
    }
    return old[b.len];
}

void dgl_nearest_try(struct dgl_nearest *search, const char *candidate)
{
    struct dgl_str word = search->word, known = dgl_str_of(candidate);
    if (word.len == 0 || word.len > MAX_WORD || known.len > MAX_WORD)
        return;
    bool abbreviated = word.len >= 3 && word.len < known.len &&
                       distance(word, (struct dgl_str){known.p, word.len}) == 0;
    size_t edits = abbreviated ? 1 : distance(word, known);
    /* Accept one error per three characters. In a word of two, one error would match almost any
     * word. */
    if (edits <= word.len / 3 && (!search->best || edits < search->edits)) {
        search->best = candidate;
        search->edits = edits;
    }
}
