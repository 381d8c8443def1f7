/* Converts GGUF metadata to the fields of a Hugging Face config. */
#ifndef DGL_LOADER_GGUF_CONFIG_H
#define DGL_LOADER_GGUF_CONFIG_H

#include "loader/desc/fields.h"
#include "loader/gguf/gguf_arch.h"
#include "loader/gguf/gguf_file.h"

/* Facts of a GGUF model that the tensor view and the config need. */
struct gguf_model {
    const struct gguf_file *file;    /* the first part's header */
    const struct tensor_source *raw; /* under the names of the file */
    const struct gguf_arch *arch;
    int32_t layers, heads, kv_heads, head_dim, experts;
};
/* Finds the architecture and reads the sizes above. Returns DGL_ERR_UNSUPPORTED for an unknown
 * architecture, and for a key that would change the result but is not read. */
enum dgl_status gguf_model_init(const struct dgl_log *log, const struct gguf_file *file,
                                const struct tensor_source *raw, struct gguf_model *out);
struct gguf_config_ids {
    const struct dgl_stop_id *stop_ids;
    size_t num_stop_ids;
    int32_t bos_id; /* -1 = none */
};
/* Sets the fields of config.json; `stop_ids` are eos_token_id. */
enum dgl_status gguf_config_read(const struct dgl_log *log, const struct gguf_model *model,
                                 const struct gguf_config_ids *ids, struct fields *out);

#endif
