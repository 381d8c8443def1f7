/*
 * ref_model.h: the logits that a model should give, in plain C and doubles, straight from its
 * description and its stored tensors. Independent of kernels, plans and layouts; decoders of stored
 * formats and rotary frequencies are the loader's, which have tests of their own. Models of full
 * size too: one layer's rows are in memory at a time, and every processor takes a part of them.
 */
#ifndef DGL_TESTS_REF_MODEL_H
#define DGL_TESTS_REF_MODEL_H

#include "loader/desc/model_desc.h"

struct ref_model_params {
    const struct model_desc *desc; /* dense: experts are DGL_ERR_UNSUPPORTED */
    const struct tensor_source *tensors;
    const int32_t *ids; /* [count], each below desc->vocab */
    size_t count;
    int32_t threads; /* 0 = one per processor */
};

/* Evaluates the sequence from its beginning; logits [count, vocab]. */
enum dgl_status ref_model_logits(const struct dgl_log *log, const struct ref_model_params *p,
                                 double *logits);

#endif
