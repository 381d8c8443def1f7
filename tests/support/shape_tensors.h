/* The tensors that a config describes, by the names and shapes that the loader demands; that these
 * are the published ones is shown by the families' fixtures. */
#ifndef DGL_TESTS_SHAPE_TENSORS_H
#define DGL_TESTS_SHAPE_TENSORS_H

#include "loader/desc/model_desc.h"

struct shape_tensor {
    char name[96];
    uint32_t rank;
    uint64_t shape[3], count; /* count: values */
};

struct shape_tensors {
    struct shape_tensor *items; /* free() */
    size_t count, cap;
};

/* The description in a config.json, without tensors. */
enum dgl_status shape_desc_read(const struct dgl_log *log, const char *path,
                                struct model_desc *out);
/* Every tensor that the description wants, of alternatives the one that Hugging Face's models have
 * separate. Free out->items, on failure too. */
enum dgl_status shape_tensors_list(const struct dgl_log *log, const struct model_desc *desc,
                                   struct shape_tensors *out);

#endif
