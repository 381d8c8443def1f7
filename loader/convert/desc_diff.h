/* Compares two model descriptions: do both models compute the same results? Used to compare a
 * source with the file that was made from it. */
#ifndef DGL_LOADER_DESC_DIFF_H
#define DGL_LOADER_DESC_DIFF_H

#include "loader/desc/model_desc.h"

/* First differing field, with its name in config.json and both values as text. */
struct desc_diff {
    bool found;
    char field[64], left[192], right[192];
};
/* Numbers are equal if they are equal as f32. Rotations are equal if all their steps are, whatever
 * their names. Family names, stop ids and tensor indices are not compared. */
enum dgl_status desc_diff_find(const struct dgl_log *log, const struct model_desc *left,
                               const struct model_desc *right, struct desc_diff *out);

#endif
