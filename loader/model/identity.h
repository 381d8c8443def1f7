/*
 * identity.h: identities by which a session file or another saved file finds out whether it belongs
 * to a model or tokenizer, independent of paths and names. Two models with the same identity
 * compute the same results, as far as that is known without reading all weights.
 */
#ifndef DGL_LOADER_IDENTITY_H
#define DGL_LOADER_IDENTITY_H

#include "loader/model/model_file.h"

/* SHA-256 of the numbers of the description, of the manifest of a pack (which contains the hashes
 * of its shards), and of name, type, shape and MODEL_SAMPLE_BYTES bytes from the middle of each
 * tensor. Synthetic models have no bytes. One read per tensor: milliseconds. */
#define MODEL_SAMPLE_BYTES 256
enum dgl_status model_identity(const struct dgl_log *log, const struct dgl_model_file *file,
                               char out[65]);
/* SHA-256 of the texts of all ids in order. tok NULL: the identity of no tokenizer. Takes
 * milliseconds for large vocabularies. */
enum dgl_status tokenizer_identity(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                   char out[65]);

#endif
