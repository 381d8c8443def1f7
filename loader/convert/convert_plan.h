/* Plan of a conversion: recipes by name, one item per tensor, and the functions of convert*.c. */
#ifndef DGL_LOADER_CONVERT_PLAN_H
#define DGL_LOADER_CONVERT_PLAN_H

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/model/model_file.h"
#include "loader/rdrr/rdrr_layout.h"
#include "loader/rdrr/rdrr_writer.h"

/* Element types by role. CONVERT_KEEP: as stored. */
#define CONVERT_KEEP DGL_DTYPE_COUNT
struct convert_recipe {
    const char *name;       /* of `--quantize` */
    enum dgl_dtype matrix;  /* linear layers */
    enum dgl_dtype precise; /* of them, those that quantising hurts most: v and down in the layers
                               that llama.cpp's mixes choose */
    enum dgl_dtype experts;
    enum dgl_dtype embed, head;
    enum dgl_dtype other; /* norms, biases, routers, whatever has no known role: f32, because they
                             are small and rounding them costs more than it saves */
    bool fast;            /* encoders do not search */
};
/* Makes the recipe of params->quantize (NULL: everything as stored) with the overrides of single
 * roles. An unknown name is refused. `fast` is refused if no role gets a block format, because
 * there is no search to skip. */
enum dgl_status convert_recipe_init(const struct dgl_log *log,
                                    const struct dgl_convert_params *params,
                                    struct convert_recipe *out);

/* One tensor of the output. */
struct convert_item {
    const struct tensor_info *from;
    size_t index; /* in the source */
    enum dgl_dtype type;
    uint64_t rows, cols;          /* cols = the last dimension */
    uint64_t from_row, row_bytes; /* bytes per row, before and after */
    uint64_t offset, size;        /* in the pack's stream */
    /* Set by convert_plan_arrange(); zero before. */
    const char *name; /* in the pack; NULL = as in the source */
    bool fused;       /* rows [part_rows, rows) are those of tensor `second` of the source */
    size_t second;
    uint64_t part_rows;
    enum rdrr_layout layout; /* of the stored matrix; rows and cols are logical */
};

struct convert_plan {
    const struct convert_recipe *recipe;
    struct convert_item *items;
    size_t count;
    uint64_t bytes_in;
    enum rdrr_layout block_layout; /* of matrices in Q4_K */
    bool text_only;                /* names and config of the text model */
    struct dgl_arena names;
};
/* Plans every tensor that the model uses, in the order of the source. */
enum dgl_status convert_plan_init(const struct dgl_log *log, const struct dgl_model_file *model,
                                  const struct convert_recipe *recipe, struct convert_plan *out);
/* Computes the sizes of an item from its type. Sizes that overflow are refused. */
enum dgl_status convert_item_size(const struct dgl_log *log, struct convert_item *item);
/* Refuses an override of a role without tensors. */
enum dgl_status convert_plan_check(const struct dgl_log *log, const struct convert_plan *plan,
                                   const struct dgl_convert_params *params);
/* Refuses `fast` if the plan encodes no blocks. Types and layouts must be final. */
enum dgl_status convert_plan_check_fast(const struct dgl_log *log, const struct convert_plan *plan,
                                        const struct dgl_convert_params *params);
/* Warns if padding makes a type of less than eight bits larger than Q8_0. `path` is the model's. */
void convert_plan_warn_padded(const struct dgl_log *log, const struct convert_plan *plan,
                              const char *path);
void convert_plan_finish(struct convert_plan *plan);
/* ---- convert_arrange.c ---- */

/* Applies the options: fuses gate and up, chooses layouts, renames. An option without any effect is
 * refused. */
enum dgl_status convert_plan_arrange(const struct dgl_log *log, const struct dgl_model_file *model,
                                     const struct dgl_convert_params *params,
                                     struct convert_plan *plan);
/* The name in the pack. */
const char *convert_item_name(const struct convert_item *item);

/* Headline type of the pack, by dtype_tally_headline(). */
enum dgl_dtype convert_plan_headline(const struct convert_plan *plan);

/* ---- convert_tensor.c ---- */

struct convert_progress {
    dgl_progress_cb cb; /* NULL = none */
    void *priv;
    uint64_t done, total;
};
/* Destination of converted tensors: a pack or a GGUF file. */
struct convert_sink {
    enum dgl_status (*begin)(void *priv, uint64_t *offset); /* of the tensor that follows */
    enum dgl_status (*write)(void *priv, const void *bytes, size_t len);
    void *priv;
};
struct convert_work {
    const struct dgl_log *log;
    const struct dgl_model_file *model;
    int32_t threads;
    bool fast; /* encoders do not search */
    struct convert_sink sink;
};
/* Reads, converts and writes one tensor in bounded memory. Sets item->offset and item->size. */
enum dgl_status convert_tensor(const struct convert_work *work, struct convert_item *item,
                               struct convert_progress *progress);

/* Steps of convert_tensor() that convert_layout.c also uses. Reads rows [row, row + rows) as stored
 * in the source. */
enum dgl_status convert_rows_read(const struct convert_work *work, const struct convert_item *item,
                                  uint64_t row, uint64_t rows, void *dst);
/* Converts rows of the source on several threads; `first_row` is for messages. */
struct convert_rows {
    const struct convert_item *item;
    const uint8_t *src;
    uint8_t *dst;
    uint64_t first_row, rows;
};
enum dgl_status convert_rows(const struct convert_work *work, const struct convert_rows *rows);

/* Adds to the finished bytes of the source. Returns DGL_ERR_CANCELLED if the caller cancels. */
enum dgl_status convert_advance(struct convert_progress *progress, uint64_t bytes);

/* ---- convert_layout.c ---- */

/* Returns true if the item is not stored row by row. */
bool convert_is_relaid(const struct convert_item *item);
/* Writes an item of another layout. The matrix is read once per band. */
enum dgl_status convert_relaid(const struct convert_work *work, const struct convert_item *item,
                               struct convert_progress *progress);

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
/* Writes the text of manifest.json. It is deterministic: no dates, no paths. */
enum dgl_status convert_manifest_write(const struct dgl_log *log, const struct convert_manifest *in,
                                       struct dgl_buf *out);

/* ---- convert_folder.c: the output appears complete or not at all ---- */

struct convert_folder {
    char *path, *temp; /* temp is next to path until it is published */
    bool force, locked;
    int lock; /* descriptor of temp if `locked` */
};
/* Refuses an existing path. With `force`, refuses only paths that are neither a pack nor an empty
 * folder. */
enum dgl_status convert_folder_begin(const struct dgl_log *log, const char *path, bool force,
                                     struct convert_folder *out);
/* Moves the folder to its path, then removes the replaced folder. */
enum dgl_status convert_folder_publish(const struct dgl_log *log, struct convert_folder *folder);
/* Removes an unpublished folder. */
void convert_folder_finish(struct convert_folder *folder);

#endif
