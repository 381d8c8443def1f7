/* The ROPE buffer of docs/operations.md. */
#ifndef DGL_CORE_ROPE_TABLE_H
#define DGL_CORE_ROPE_TABLE_H

#include "core/engine.h"
#include "loader/model_desc.h"

/* cos and sin for every position below `context`, computed in double. */
enum dgl_status rope_table_create(struct dgl_device *dev, const struct rope_desc *rope,
                                  int32_t context, struct gl_buffer **out);

#endif
