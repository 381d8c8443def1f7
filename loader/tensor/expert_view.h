/*
 * expert_view.h: GPT-OSS's experts as matrices. Hugging Face stores them either as MXFP4 in two
 * tensors of bytes (`X_blocks` [E, rows, cols/32, 16], `X_scales` [E, rows, cols/32], nibbles in
 * the order of the values) or as floats the other way round (`X` [E, cols, rows]). The view shows
 * each as one tensor `X.weight` [E, rows, cols], of type mxfp4 (dtype.h) or as stored, and
 * everything else as it is.
 */
#ifndef DGL_LOADER_EXPERT_VIEW_H
#define DGL_LOADER_EXPERT_VIEW_H

#include "loader/tensor/tensor_source.h"

/* Replaces *src by a view that owns it. *src is unchanged if no tensor needs the view. A pair that
 * does not match is DGL_ERR_FORMAT. On failure *src is unchanged or NULL. */
enum dgl_status expert_view_wrap(const struct dgl_log *log, struct tensor_source **src);

#endif
