/*
 * identity.h: by what files that belong to a model and to a tokenizer know them again, wherever
 * their files lie and whatever they are called. Two models of one identity compute the same, as far
 * as can be told without reading all of their weights.
 */
#ifndef DGL_LOADER_IDENTITY_H
#define DGL_LOADER_IDENTITY_H

#include "loader/model/model_file.h"

/* SHA-256 of the description's numbers, of a pack's manifest (which has the hashes of its shards),
 * and of each tensor's name, type, shape and MODEL_SAMPLE_BYTES bytes from its middle. Of synthetic
 * models no bytes. One read per tensor: milliseconds. */
#define MODEL_SAMPLE_BYTES 256
enum dgl_status model_identity(const struct dgl_log *log, const struct dgl_model_file *file,
                               char out[65]);
/* SHA-256 of the spellings of all ids, in their order: what the ids of a text mean. tok NULL: of
 * none. Milliseconds for large vocabularies. */
enum dgl_status tokenizer_identity(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                   char out[65]);

#endif
