/* Finds the known word that a misspelled word was probably meant to be. */
#ifndef DGL_BASE_NEAREST_H
#define DGL_BASE_NEAREST_H

#include "core/base/str.h"

/* Start a search with `{.word = ...}` and try every candidate. `best` is then the nearest candidate
 * (borrowed), or NULL if no candidate is near enough. */
struct dgl_nearest {
    struct dgl_str word;
    const char *best;
    size_t edits; /* edits between `word` and `best` */
};
/* Counts typing errors: an extra, missing, wrong, or transposed character. Differences in case are
 * free, and so are abbreviations of at least three characters. */
void dgl_nearest_try(struct dgl_nearest *search, const char *candidate);

#endif
