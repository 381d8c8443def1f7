/* Nearest spelling: the known word that a misspelt one was probably meant to be. */
#ifndef DGL_BASE_NEAREST_H
#define DGL_BASE_NEAREST_H

#include "core/base/str.h"

/* `{.word = ...}` begins a search; every candidate is tried; `best` is then borrowed from the
 * nearest one, NULL when none is near enough to name. */
struct dgl_nearest {
    struct dgl_str word;
    const char *best;
    size_t edits; /* of `best` */
};
/* Counts typing errors: a character too many, missing, wrong, or exchanged with its neighbour. Case
 * counts as right, and so does an abbreviation of three characters and more. */
void dgl_nearest_try(struct dgl_nearest *search, const char *candidate);

#endif
