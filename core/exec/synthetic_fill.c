/* One dispatch of the `synth` operation per band. */
#include "core/exec/synthetic_fill.h"

enum dgl_status synthetic_filler_init(struct synthetic_filler *f, struct dgl_device *dev,
                                      struct kernel_set *set)
{
    *f = (struct synthetic_filler){0};
    return exec_single_init(&f->single, dev, set);
}

void synthetic_filler_finish(struct synthetic_filler *f)
{
    exec_single_finish(&f->single);
}

enum dgl_status synthetic_fill(void *ctx, const struct weight *weight,
                               const struct weight_band *band, struct gl_range range)
{
    struct synthetic_filler *f = ctx;
    struct op op = {.label = "synth", .request.op = "synth"};
    struct gl_dispatch dispatch;
    op_attr(&op, "weight", dgl_dtype_get(band->dtype)->name);
    op_attr(&op, "layout", band->layout->name);
    op_const(&op, "K", (int64_t)weight->cols);
    op_const(&op, "W_STRIDE", band->row_words);
    op_uint(&op, "rows", band->rows);
    op_uint(&op, "seed", f->seed++);
    op_bind_band(&op, "W", weight, 0);
    enum dgl_status status = exec_single_record(&f->single, &op, &range, &dispatch);
    if (status == DGL_OK)
        status = gl_submit(f->single.dev->gl, &dispatch, 1, NULL);
    return status;
}
