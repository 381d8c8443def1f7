/* The plan as people see it: one line per operation with the kernel and the reason for it. */
#include "core/base/str.h"
#include "core/seq/model.h"

#include <stdio.h>
#include <string.h>

/* The constants that tell operations of one kind apart, and the weight format. */
static void describe_shape(const struct op *op, char *out, size_t size)
{
    static const char *const shown[] = {"H",        "N",      "K",     "HEADS", "KV_HEADS",
                                        "HEAD_DIM", "SPLITS", "VOCAB", "E",     "TOP_K"};
    size_t len = 0;
    out[0] = '\0';
    for (size_t s = 0; s < sizeof(shown) / sizeof(shown[0]); s++)
        for (uint32_t i = 0; i < op->request.num_consts; i++)
            if (strcmp(op->request.consts[i].name, shown[s]) == 0 && len < size)
                len += (size_t)snprintf(out + len, size - len, "%s%s=%lld", len ? " " : "",
                                        shown[s], (long long)op->request.consts[i].value);
    for (uint32_t i = 0; i < op->request.num_attrs; i++) {
        const char *key = op->request.attrs[i].key;
        if ((strcmp(key, "weight") == 0 || strcmp(key, "kv") == 0) && len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len ? " " : "",
                                    op->request.attrs[i].word);
    }
}

void dgl_model_plan_iterate(const struct dgl_model *model,
                            bool (*cb)(void *priv, const struct dgl_plan_step *step), void *priv)
{
    static const enum dgl_phase phase_of[SEG_COUNT] = {
        [SEG_PREFILL] = DGL_PHASE_PREFILL,    [SEG_DECODE] = DGL_PHASE_DECODE,
        [SEG_HEAD] = DGL_PHASE_DECODE,        [SEG_SCORE] = DGL_PHASE_PREFILL,
        [SEG_PENALTY] = DGL_PHASE_SAMPLE,     [SEG_SAMPLE_GREEDY] = DGL_PHASE_SAMPLE,
        [SEG_SAMPLE_TOPK] = DGL_PHASE_SAMPLE, [SEG_SAMPLE_FULL] = DGL_PHASE_SAMPLE,
        [SEG_IDLE] = DGL_PHASE_SAMPLE,
    };
    for (int seg = 0; seg < SEG_COUNT; seg++) {
        const struct plan *plan = &model->plan.seg[seg];
        for (size_t i = 0; i < plan->ops.count; i++) {
            const struct op *op = &plan->ops.ops[i];
            struct dgl_kernel_info info = kernel_info(plan->entry[i]->choice.kernel);
            char shape[160];
            describe_shape(op, shape, sizeof(shape));
            struct dgl_plan_step step = {.phase = phase_of[seg],
                                         .layer = op->layer,
                                         .op = op->label,
                                         .shape = shape,
                                         .kernel = &info,
                                         .reason = plan->entry[i]->choice.reason};
            if (!cb(priv, &step))
                return;
        }
    }
}
