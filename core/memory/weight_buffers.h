/* A model's weights on the device: the buffers of a placed weight list, their upload from the
 * model's files, and the change to another placement of the same weights. */
#ifndef DGL_CORE_WEIGHT_BUFFERS_H
#define DGL_CORE_WEIGHT_BUFFERS_H

#include "core/memory/device.h"
#include "core/plan/weights.h"

struct weight_buffers {
    const struct model_weights *weights; /* borrowed */
    struct gl_buffer **buffers;          /* [weights->num_buffers] */
    bool empty;                          /* by weight_buffers_init_empty(): no memory is counted */
};

/* Allocates the buffers. Their contents are undefined. On failure *out is empty. */
enum dgl_status weight_buffers_init(struct weight_buffers *out, struct dgl_device *dev,
                                    const struct model_weights *weights);
/* Creates buffers of 4 bytes in place of the weights, for generating kernel sources: these depend
 * on which buffers differ, not on their sizes. No kernel may run on them. On failure *out is
 * empty. */
enum dgl_status weight_buffers_init_empty(struct weight_buffers *out, struct dgl_device *dev,
                                          const struct model_weights *weights);
/* Accepts a struct that is all zero. */
void weight_buffers_finish(struct weight_buffers *wb, struct dgl_device *dev);

struct gl_range weight_buffers_band(const struct weight_buffers *wb, uint32_t matrix,
                                    uint32_t band);
struct gl_range weight_buffers_vector(const struct weight_buffers *wb, uint32_t vector);

struct weight_upload_params {
    const struct tensor_source *tensors;
    /* If not NULL, computes a band's rows on the device instead of reading them (synthetic
     * models). */
    enum dgl_status (*fill)(void *ctx, const struct weight *weight, const struct weight_band *band,
                            struct gl_range range);
    void *fill_ctx;
    dgl_progress_cb progress_cb;
    void *progress_priv;
    const bool *only; /* [weights->num_buffers]: buffers to fill, or NULL to fill all */
};
/* Fills every band and vector, a few rows at a time through host memory, on several threads. The
 * callback of the progress is called on this thread. Slow. */
enum dgl_status weight_buffers_upload(const struct weight_buffers *wb, struct dgl_device *dev,
                                      const struct weight_upload_params *params);

/* Switches to another placement of the same weights (weights_list() of the same model). Buffers
 * with the same contents in both stay (weights_same_buffer()). The others are freed before new ones
 * are created and filled from the files, so that no weight is on the device twice. Ignores
 * `params->only`. On failure the old placement is restored and its buffers are filled again; if
 * that fails too, *wb is empty. Slow. */
enum dgl_status weight_buffers_replace(struct weight_buffers *wb, struct dgl_device *dev,
                                       const struct model_weights *weights,
                                       const struct weight_upload_params *params);

#endif
