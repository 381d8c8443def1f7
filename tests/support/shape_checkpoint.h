/* Checkpoints with only the shape of a published model: every tensor that a config.json describes,
 * bf16, with random but reproducible values. */
#ifndef DGL_TESTS_SHAPE_CHECKPOINT_H
#define DGL_TESTS_SHAPE_CHECKPOINT_H

#include "core/base/status.h"

/* Writes DIR/config.json, a copy of the file `config`, and DIR/model.safetensors. Matrices preserve
 * the magnitude of their input, embeddings have a deviation of 0.02, norms are near 1. Dense models
 * only. *parameters is the number of values written. */
enum dgl_status shape_checkpoint_write(const struct dgl_log *log, const char *config,
                                       const char *dir, uint64_t *parameters);

#endif
