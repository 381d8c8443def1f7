/* A loaded model: description, weights on the device, and the plan for the kernels in use. */
#ifndef DGL_CORE_MODEL_H
#define DGL_CORE_MODEL_H

#include "core/plan/plan.h"
#include "loader/model/model_file.h"
#include "loader/tokenizer/tokenizer.h"

struct dgl_model {
    struct dgl_device *dev;
    struct dgl_model_file *file;
    struct dgl_tokenizer *tok; /* NULL = none */
    struct dgl_model_info info;
    struct kernel_set *kernels; /* the caller's layers plus the manifest's hints */
    struct weight_layouts layouts;
    enum dgl_dtype q4_k_as; /* see weights_params */
    struct model_weights weights;
    struct oplist_params ops; /* what operation lists are made from */
    struct model_plan plan;
    uint32_t plan_serial; /* raised when the plan is replaced: sessions bind again */
    int32_t chunk;        /* prefill tokens per pass unless a session says otherwise */
};

/* Bytes of one layer's KV cache for `context` tokens. */
uint64_t model_kv_layer_bytes(const struct dgl_model *model, int32_t context);
/* Bytes of everything else that a session with that chunk allocates. */
uint64_t model_scratch_bytes(const struct dgl_model *model, int32_t chunk);
/* DGL_ERR_NO_MEMORY, naming what is needed and what there is, when another session with that chunk
 * does not fit. */
enum dgl_status model_check_session_fits(const struct dgl_model *model, int32_t chunk);

#endif
