/* Models that exist only as a shape: for measuring speed without a checkpoint. Their description is
 * complete; their matrices have no bytes on the host (core fills them on the device), their norms
 * and biases are ones. */
#ifndef DGL_LOADER_SYNTHETIC_MODEL_H
#define DGL_LOADER_SYNTHETIC_MODEL_H

#include "loader/model/model_file.h"

/* "synthetic:SHAPE[:quant]", "synthetic:FILE[:quant]": FILE is a config.json, whose name holds a
 * '/' or ends in ".json". */
bool synthetic_is_path(const char *path);
/* Fills name, config, tensors, desc and quantization of `f`. FILE is read from f->source. An
 * unknown shape or quant is DGL_ERR_INVALID_ARG and lists the known ones, before any file is
 * opened; other errors are those of reading and checking FILE. */
enum dgl_status synthetic_model_init(const struct dgl_log *log, const char *path,
                                     struct dgl_model_file *f);

#endif
