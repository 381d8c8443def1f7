/* Scratch buffers by the plan's sizes, from the pool. */
#include "core/memory/workspace.h"

#include "core/memory/pool.h"

/* Device memory for logits of several rows. It determines the rows per pass. */
#define ALL_LOGITS_BYTES (64ull << 20)

static void drop(struct workspace *ws, struct dgl_device *dev, int buffer)
{
    struct gl_range *range = &ws->range[buffer];
    ws->bytes -= range->size;
    dev->held_bytes -= range->size;
    pool_release(dev->pool, &range->buffer);
    *range = (struct gl_range){0};
}

/* Replaces buffer `buffer` by a new one of `size` bytes. The old buffer is released only after the
 * new one is allocated. */
static enum dgl_status add(struct workspace *ws, struct dgl_device *dev, int buffer, uint64_t size)
{
    static const char *const label[BUF_COUNT] = {
        [BUF_X] = "x",
        [BUF_X2] = "x2",
        [BUF_NORMED] = "normed",
        [BUF_QKV] = "qkv",
        [BUF_ATT] = "attention",
        [BUF_MERGED] = "merged",
        [BUF_ACT] = "act",
        [BUF_ALL_LOGITS] = "all logits",
        [BUF_CAND] = "candidates",
        [BUF_COUNTS] = "counts",
        [BUF_ROUTER] = "router logits",
        [BUF_ROUTE] = "chosen experts",
        [BUF_EXPERT_ROWS] = "rows by expert",
        [BUF_EXPERTS] = "expert results",
        [BUF_SUMS] = "sums",
    };
    struct gl_range range = {.size = size};
    enum dgl_status status = pool_acquire(
        dev->pool, &(struct gl_buffer_params){.size = size, .label = label[buffer]}, &range.buffer);
    if (status == DGL_OK) {
        drop(ws, dev, buffer);
        ws->range[buffer] = range;
        ws->bytes += size;
        dev->held_bytes += size;
    }
    return status;
}

/* Adds a user that needs these sizes. */
static enum dgl_status acquire(struct workspace *ws, struct dgl_device *dev, int32_t rows,
                               const uint64_t bytes[BUF_COUNT])
{
    enum dgl_status status = DGL_OK;
    bool changed = false;
    for (int i = BUF_STATE_COUNT; i < BUF_COUNT && status == DGL_OK; i++) {
        if (bytes[i] <= ws->range[i].size)
            continue;
        status = add(ws, dev, i, bytes[i]);
        changed |= status == DGL_OK;
    }
    ws->serial += changed;
    ws->users++;
    if (status == DGL_OK)
        ws->rows = rows > ws->rows ? rows : ws->rows;
    else
        workspace_release(ws, dev);
    return status;
}

enum dgl_status workspace_acquire(struct workspace *ws, struct dgl_device *dev,
                                  const struct plan *plan, int32_t rows)
{
    uint64_t bytes[BUF_COUNT];
    plan_buffer_bytes(plan, 1, rows > ws->rows ? rows : ws->rows, bytes);
    return acquire(ws, dev, rows, bytes);
}

enum dgl_status workspace_acquire_batch(struct workspace *ws, struct dgl_device *dev,
                                        const struct plan *plan, int32_t sequences)
{
    uint64_t bytes[BUF_COUNT];
    plan_batch_bytes(plan, 1, sequences, bytes);
    return acquire(ws, dev, sequences, bytes);
}

void workspace_release(struct workspace *ws, struct dgl_device *dev)
{
    if (--ws->users > 0)
        return;
    for (int i = BUF_STATE_COUNT; i < BUF_COUNT; i++)
        drop(ws, dev, i);
    *ws = (struct workspace){.serial = ws->serial + 1};
}

enum dgl_status workspace_need_scores(struct workspace *ws, struct dgl_device *dev,
                                      const struct plan *plan)
{
    if (ws->range[BUF_ALL_LOGITS].buffer)
        return DGL_OK;
    uint64_t binding = plan_device_binding_bytes(plan->device);
    uint64_t most = ALL_LOGITS_BYTES < binding ? ALL_LOGITS_BYTES : binding;
    uint64_t row = (uint64_t)plan->desc->vocab * 4, rows = most / row;
    rows = rows < 1 ? 1 : rows;
    rows = rows < (uint64_t)ws->rows ? rows : (uint64_t)ws->rows;
    enum dgl_status status = add(ws, dev, BUF_ALL_LOGITS, row * rows);
    if (status == DGL_OK)
        ws->score_rows = (int32_t)rows;
    return status;
}
