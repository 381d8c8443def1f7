/* Models that exist only as a shape: the description of a config, and its tensors with types but
 * without bytes. */
#ifndef DGL_TESTS_SHAPE_MODEL_H
#define DGL_TESTS_SHAPE_MODEL_H

#include "loader/desc/model_desc.h"

/* Tensors whose name ends so are stored in that type. */
struct shape_type {
    const char *ending; /* NULL: end of a table */
    enum dgl_dtype dtype;
};

struct shape_model {
    struct model_desc desc;
    struct model_skipped skipped;
    struct tensor_source *tensors;
};

struct shape_model_params {
    const char *config;             /* path of a config.json */
    const struct shape_type *types; /* the first that fits; the others are bf16. NULL = all */
    bool q4_k_m;                    /* types of the Q4_K_M file that llama-quantize writes */
    const char *quantize;           /* as `convert --quantize` would make them; NULL = as stored */
    const char *embed;              /* type of the embedding; NULL = selected by `quantize` */
};
/* Fails the running test when there is no such model. */
void shape_model_open(struct shape_model *m, const struct shape_model_params *params);
void shape_model_close(struct shape_model *m);

#endif
