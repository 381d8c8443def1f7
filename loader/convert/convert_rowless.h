/* Leaves tokens without a row in the embedding out of the tokenizer of a converted model. */
#ifndef DGL_LOADER_CONVERT_ROWLESS_H
#define DGL_LOADER_CONVERT_ROWLESS_H

#include "loader/model/model_file.h"

/* Rewrites the tokenizer files of `model` that name ids at or above vocab_size, if there are such
 * ids, and lists these tokens in a notice. Other files stay byte for byte. A kind of tokenizer that
 * is not implemented is an error if it is `required`, else a warning. */
enum dgl_status convert_drop_rowless(const struct dgl_log *log, struct dgl_model_file *model,
                                     bool required);

#endif
