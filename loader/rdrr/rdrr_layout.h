/*
 * rdrr_layout.h: the ways in which packs lay out a matrix [rows, cols], and a view that shows all
 * of them as the engine wants them: row by row, rows padded to whole blocks.
 */
#ifndef DGL_LOADER_RDRR_LAYOUT_H
#define DGL_LOADER_RDRR_LAYOUT_H

#include "core/base/str.h"
#include "loader/tensor/tensor_source.h"

enum rdrr_layout {
    RDRR_ROW,    /* every row padded to whole blocks */
    RDRR_COLUMN, /* the transposed matrix, its rows padded: a block is some rows of one column */
    RDRR_FLAT,   /* values in a row, cut every block: blocks cross rows */
    RDRR_LAYOUTS
};

/* "row", "column", "flat": in manifests and options. */
const char *rdrr_layout_name(enum rdrr_layout layout);
/* Accepts these names and other spellings of packs: row_wise, col, column_wise, packed. */
bool rdrr_layout_parse(struct dgl_str text, enum rdrr_layout *out);
/* Computes the bytes of a tensor of this logical shape. Returns false on overflow, or if the layout
 * does not support the rank: columns are for matrices. */
bool rdrr_layout_bytes(enum rdrr_layout layout, enum dgl_dtype type, uint32_t rank,
                       const uint64_t *shape, uint64_t *out);

/* Element type of a tensor as shown. Blocks that cross rows become f16. */
enum dgl_dtype rdrr_shown_type(enum rdrr_layout layout, enum dgl_dtype type);
/* Replaces *src by a view that owns it; unchanged if every layout is RDRR_ROW. The tensors of *src
 * have logical shapes and stored bytes. `layouts` has one entry per tensor. On failure *src is
 * unchanged or NULL. */
enum dgl_status rdrr_layout_wrap(const struct dgl_log *log, const enum rdrr_layout *layouts,
                                 struct tensor_source **src);

#endif
