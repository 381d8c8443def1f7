/* Whether two descriptions are of models that compute the same: what a file was made of, and what
 * it is read as. */
#ifndef DGL_LOADER_DESC_DIFF_H
#define DGL_LOADER_DESC_DIFF_H

#include "loader/desc/model_desc.h"

/* The first field that differs, as config.json calls it, and its two values as text. */
struct desc_diff {
    bool found;
    char field[64], left[192], right[192];
};
/* Numbers are the same up to what an f32 keeps; rotations are the same when all their steps are,
 * whatever they are called. Names of families, stop ids and tensors' indices are not compared. */
enum dgl_status desc_diff_find(const struct dgl_log *log, const struct model_desc *left,
                               const struct model_desc *right, struct desc_diff *out);

#endif
