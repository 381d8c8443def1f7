/* The tensors that a config describes, with the names and shapes that the loader requires. The
 * fixtures of the families prove that these equal the published ones. */
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
/* Lists every tensor that the description requires; of alternatives, the one that Hugging Face's
 * models store separately. Free out->items, also after a failure. */
enum dgl_status shape_tensors_list(const struct dgl_log *log, const struct model_desc *desc,
                                   struct shape_tensors *out);

#endif
