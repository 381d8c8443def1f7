/* Tensors of an open model, independent of their storage: safetensors files, RDRR shards, GGUF
 * files. */
#ifndef DGL_LOADER_TENSOR_SOURCE_H
#define DGL_LOADER_TENSOR_SOURCE_H

#include "core/base/printable.h"
#include "core/base/status.h"
#include "loader/quant/dtype.h"

struct tensor_info {
    const char *name; /* as in the file; owned by the source */
    enum dgl_dtype dtype;
    /* as in rdrr_format.h; derived from the name if the file has no role */
    const char *role;
    uint32_t rank;
    uint64_t shape[4]; /* row-major, [out, in] */
    uint64_t bytes;    /* stored; matrices of block formats have each row padded to whole blocks */
};

/* Returns the role by name (a static string). Biases and unknown names are "other". */
const char *tensor_role_from_name(const char *name);
/* Splits a name such as "model.layers.12.rest" after `prefix` into the layer (12) and "rest".
 * Returns false for another form, or for leading zeros. */
bool tensor_layer_split(const char *name, const char *prefix, int32_t *layer, const char **rest);
/* Values per type, of all tensors and of linear layers (matmul, expert). `{0}` is empty. */
struct dtype_tally {
    double all[DGL_DTYPE_COUNT], linear[DGL_DTYPE_COUNT];
};
void dtype_tally_add(struct dtype_tally *tally, const char *role, enum dgl_dtype type,
                     double values);
/* Returns the type of most values in linear layers, or in all tensors if there are no linear
 * layers. */
enum dgl_dtype dtype_tally_headline(const struct dtype_tally *tally);
/* "[320, 64]" for messages. */
#define TENSOR_SHAPE_TEXT 96
const char *tensor_shape_str(uint32_t rank, const uint64_t *shape, char text[TENSOR_SHAPE_TEXT]);

struct tensor_source;
/* Name of the model in messages: a folder or a manifest. */
const char *tensor_source_label(const struct tensor_source *src);
/* Name of a tensor in messages: its name in the file, if that differs. `name` may also be a tensor
 * that is missing. */
struct dgl_printable tensor_source_printable(const struct tensor_source *src, const char *name);
/* Appends the whole name in the file, or "" if such files never have the tensor. Returns false if
 * the file uses `name` itself. */
bool tensor_source_file_name(const struct tensor_source *src, const char *name,
                             struct dgl_buf *out);
size_t tensor_source_count(const struct tensor_source *src);
const struct tensor_info *tensor_source_at(const struct tensor_source *src, size_t index);
/* Index by exact name, or -1. Hashed. */
long tensor_source_find(const struct tensor_source *src, const char *name);
/* Bytes [offset, offset + size) of a tensor's stored form, across files, shards and spans.
 * Thread-safe. */
enum dgl_status tensor_source_read(const struct dgl_log *log, const struct tensor_source *src,
                                   size_t index, uint64_t offset, void *dst, size_t size);
void tensor_source_destroy(struct tensor_source **src);

/* Functions that an implementation provides (safetensors.c, rdrr_reader.c). */
struct tensor_source_ops {
    enum dgl_status (*read)(void *impl, const struct dgl_log *log, size_t index, uint64_t offset,
                            void *dst, size_t size);
    void (*destroy)(void *impl);
    /* Implements tensor_source_file_name(). NULL: names are those of the file. */
    bool (*file_name)(const void *impl, const char *name, struct dgl_buf *out);
};
/* Consumes `impl`, also on failure, and copies `tensors` with their names. Duplicate names are
 * DGL_ERR_FORMAT. Messages use `label` for the model. */
enum dgl_status tensor_source_create(const struct dgl_log *log, const char *label,
                                     const struct tensor_source_ops *ops, void *impl,
                                     const struct tensor_info *tensors, size_t count,
                                     struct tensor_source **out);

#endif
