/* The weights of a Hugging Face folder as a tensor_source: model.safetensors, or the files that its
 * index names. */
#ifndef DGL_LOADER_HF_MODEL_H
#define DGL_LOADER_HF_MODEL_H

#include "loader/source/blob_source.h"
#include "loader/tensor/tensor_source.h"

#define HF_INDEX     "model.safetensors.index.json"
#define HF_SINGLE    "model.safetensors"
#define HF_MAX_FILES 4096
#define HF_MAX_INDEX (100u << 20)

/* If model.safetensors is there, an index beside it is not read, as in transformers; a notice says
 * so. Otherwise the index must list exactly the tensors of the files. A folder that has weights in
 * other formats only is DGL_ERR_UNSUPPORTED; the message has the remedy. */
enum dgl_status hf_tensors_open(const struct dgl_log *log, const struct dgl_source *source,
                                const char *dir, struct tensor_source **out);

/* Refuses a folder whose tokenizer exists only in a format that is not read (sentencepiece,
 * tekken). */
enum dgl_status hf_tokenizer_check(const struct dgl_log *log, const struct dgl_source *source,
                                   const char *dir);

#endif
