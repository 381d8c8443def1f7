/* What a conversion makes of every tensor: recipes by name, and the parts of a conversion for
 * convert*.c. */
#ifndef DGL_LOADER_CONVERT_PLAN_H
#define DGL_LOADER_CONVERT_PLAN_H

#include "core/base/file.h"
#include "loader/model_file.h"
#include "loader/rdrr_writer.h"

/* A recipe of `--quantize`. */
struct convert_recipe {
    const char *name;
    bool as_stored;        /* keep every type; the rest is unused */
    enum dgl_dtype matrix; /* linear layers and experts */
    enum dgl_dtype table;  /* embedding and head */
};
/* NULL for an unknown name; no name (NULL) is "stored". */
const struct convert_recipe *convert_recipe_find(const char *name);
/* The type a tensor gets. Norms, biases, routers and whatever has no known role become f32: they
 * are small, and rounding them costs more than it saves. Types without a decoder stay as they
 * are. */
enum dgl_dtype convert_target(const struct convert_recipe *recipe,
                              const struct tensor_info *tensor);

/* One tensor of the pack in the making. */
struct convert_item {
    const struct tensor_info *from;
    size_t index; /* in the source */
    enum dgl_dtype type;
    uint64_t rows, cols;          /* cols = the last dimension */
    uint64_t from_row, row_bytes; /* bytes per row, before and after */
    uint64_t offset, size;        /* in the pack's stream */
};

struct convert_plan {
    const struct convert_recipe *recipe;
    struct convert_item *items;
    size_t count;
    uint64_t bytes_in;
};
/* Every tensor that the model uses, in the order of the source. */
enum dgl_status convert_plan_init(const struct dgl_log *log, const struct dgl_model_file *model,
                                  const struct convert_recipe *recipe, struct convert_plan *out);
void convert_plan_finish(struct convert_plan *plan);
/* The type of most values in linear layers; of all tensors when there is no such layer. */
enum dgl_dtype convert_plan_headline(const struct convert_plan *plan);

/* ---- convert_tensor.c ---- */

struct convert_progress {
    dgl_progress_cb cb; /* NULL = none */
    void *priv;
    uint64_t done, total;
};
/* Reads, converts and writes one tensor in bounded memory. Sets item->offset and item->size. */
enum dgl_status convert_tensor(const struct dgl_log *log, const struct dgl_model_file *model,
                               struct convert_item *item, int32_t threads,
                               struct rdrr_writer *writer, struct convert_progress *progress);

/* ---- convert_manifest.c ---- */

struct convert_copy {
    const char *name; /* of rdrr_copied_files */
    uint64_t size;
    char sha256[65];
};
struct convert_manifest {
    const struct dgl_model_file *model;
    const struct convert_plan *plan;
    const struct rdrr_writer *writer;
    const struct convert_copy *copies;
    size_t num_copies;
    uint64_t shard_bytes;
    enum dgl_hash_kind hash;
};
/* The text of manifest.json, deterministic: no dates, no paths. */
enum dgl_status convert_manifest_write(const struct dgl_log *log, const struct convert_manifest *in,
                                       struct dgl_buf *out);

/* ---- convert_folder.c: the output appears complete or not at all ---- */

struct convert_folder {
    char *path, *temp; /* temp is beside path until published */
    bool force;
};
/* Refuses an existing path without force, and with it whatever is neither a pack nor an empty
 * folder. */
enum dgl_status convert_folder_begin(const struct dgl_log *log, const char *path, bool force,
                                     struct convert_folder *out);
/* Puts the folder in place, then removes what was there before. */
enum dgl_status convert_folder_publish(const struct dgl_log *log, struct convert_folder *folder);
/* Removes what was not published. */
void convert_folder_finish(struct convert_folder *folder);

#endif
