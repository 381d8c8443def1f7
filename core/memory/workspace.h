/* The workspace: scratch of one pass (residual stream, activations, the sampler's candidates). A
 * model has one workspace, which its sessions use in turn. Its contents do not outlive a pass. */
#ifndef DGL_CORE_WORKSPACE_H
#define DGL_CORE_WORKSPACE_H

#include "core/memory/device.h"
#include "core/plan/plan.h"

struct workspace {
    struct gl_range range[BUF_COUNT]; /* those from BUF_STATE_COUNT on */
    /* tokens per pass that fit, or 0 if the workspace is not allocated */
    int32_t rows;
    int32_t score_rows; /* rows of ALL_LOGITS; 0 until it is allocated */
    uint32_t users;     /* sessions */
    uint32_t serial;    /* raised if a buffer is replaced: bindings must be renewed */
    uint64_t bytes;
};

/* Adds a user with passes of up to `rows` tokens, and enlarges buffers that are too small. On
 * failure the other users keep their buffers. */
enum dgl_status workspace_acquire(struct workspace *ws, struct dgl_device *dev,
                                  const struct plan *plan, int32_t rows);
/* Like workspace_acquire(), for a batch of that many sequences. */
enum dgl_status workspace_acquire_batch(struct workspace *ws, struct dgl_device *dev,
                                        const struct plan *plan, int32_t sequences);
/* Removes a user. With the last user, the buffers go back to the pool. */
void workspace_release(struct workspace *ws, struct dgl_device *dev);
/* Allocates ALL_LOGITS, for as many rows of a pass as fit into a buffer of moderate size. */
enum dgl_status workspace_need_scores(struct workspace *ws, struct dgl_device *dev,
                                      const struct plan *plan);

#endif
