/* The ROPE buffers of docs/operations.md. */
#ifndef DGL_CORE_ROPE_TABLE_H
#define DGL_CORE_ROPE_TABLE_H

#include "core/memory/engine.h"
#include "loader/desc/model_desc.h"

uint64_t rope_table_bytes(const struct rope_desc *rope, int32_t context);
/* cos and sin for every position below `context` in a session that holds `tokens`, computed in
 * double, to `range` of rope_table_bytes(). */
enum dgl_status rope_table_write(struct dgl_device *dev, const struct rope_desc *rope,
                                 int32_t context, int32_t tokens, struct gl_range range);

#endif
