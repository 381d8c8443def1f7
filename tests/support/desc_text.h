/* Model descriptions in tests: made from the text of a config, and as text for comparing. */
#ifndef DGL_TESTS_DESC_TEXT_H
#define DGL_TESTS_DESC_TEXT_H

#include "core/base/str.h"
#include "loader/desc/model_desc.h"

/* Makes a description without tensors. `name` is the config's name in messages. `generation` is the
 * text of a generation_config.json, or NULL. */
enum dgl_status desc_from_config(const struct dgl_log *log, const char *name, const char *config,
                                 const char *generation, struct model_desc *out);

/* Writes one line per topic ("..." repeats): sizes, scales, rope (and local), moe, windows, ropes
 * of layers, tensors of each kind of layer. Topics that a plain Llama lacks have a line only if the
 * model has them. */
void desc_text(const struct model_desc *desc, struct dgl_buf *out);

#endif
