/* Checkpoints that have a published model's shape and nothing else of it: every tensor that a
 * config.json describes, bf16, random but always the same. */
#ifndef DGL_TESTS_SHAPE_CHECKPOINT_H
#define DGL_TESTS_SHAPE_CHECKPOINT_H

#include "core/base/status.h"

/* Writes DIR/config.json, a copy of the file `config`, and DIR/model.safetensors. Matrices keep the
 * size of what they multiply, embeddings have a deviation of 0.02, norms lie around 1. Dense models
 * only. *parameters counts what was written. */
enum dgl_status shape_checkpoint_write(const struct dgl_log *log, const char *config,
                                       const char *dir, uint64_t *parameters);

#endif
