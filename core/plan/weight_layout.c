/* The table of layouts and the lengths of their rows. */
#include "core/plan/weight_layout.h"

#include <string.h>

#include "core/base/checked.h"

/* One row per format and layout. */
static const struct weight_layout layouts[] = {
    {DGL_F32, "native", {{0}}},
    {DGL_F16, "native", {{0}}},
    {DGL_BF16, "native", {{0}}},
    {DGL_Q4_K, "native", {{0}}},
    {DGL_Q5_K, "native", {{0}}},
    {DGL_Q4_0, "split", {{2, 16}, {0, 2}}},
    {DGL_Q4_1, "split", {{4, 16}, {0, 4}}},
    {DGL_Q5_0, "split", {{6, 16}, {2, 4}, {0, 2}}},
    {DGL_Q5_1, "split", {{8, 16}, {0, 8}}},
    {DGL_Q8_0, "split", {{2, 32}, {0, 2}}},
    {DGL_MXFP4, "split", {{1, 16}, {0, 1}}},
    {DGL_IQ4_NL, "split", {{2, 16}, {0, 2}}},
    {DGL_IQ4_XS, "split", {{8, 128}, {0, 8}}},
    {DGL_Q2_K, "split", {{16, 64}, {0, 16}, {80, 4}}},
    {DGL_Q3_K, "split", {{0, 112}}},
    {DGL_Q4_K, "split", {{16, 128}, {0, 16}}},
    {DGL_Q6_K, "split", {{0, 208}, {208, 2}}},
    {DGL_IQ1_S, "split", {{2, 48}, {0, 2}}},
    {DGL_IQ1_M, "split", {{0, 48}, {48, 8}}},
    {DGL_IQ2_XXS, "split", {{2, 64}, {0, 2}}},
    {DGL_IQ2_XS, "split", {{2, 72}, {0, 2}}},
    {DGL_IQ2_S, "split", {{2, 80}, {0, 2}}},
    {DGL_IQ3_XXS, "split", {{2, 96}, {0, 2}}},
    {DGL_IQ3_S, "split", {{2, 64}, {66, 44}, {0, 2}}},
    {DGL_TQ1_0, "split", {{0, 52}, {52, 2}}},
    {DGL_TQ2_0, "split", {{0, 64}, {64, 2}}},
    {DGL_Q1_0, "split", {{2, 16}, {0, 2}}},
    {DGL_Q2_0, "split", {{2, 16}, {0, 2}}},
};

const struct weight_layout *weight_layout_find(enum dgl_dtype dtype, const char *name)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (layouts[i].dtype == dtype && strcmp(layouts[i].name, name) == 0)
            return &layouts[i];
    return NULL;
}

bool weight_layout_stride(const struct weight_layout *layout, uint64_t cols, uint64_t *words)
{
    const uint64_t unit = layout->planes[0].bytes ? WEIGHT_SPLIT_BYTES : 4;
    const struct dgl_dtype_traits *t = dgl_dtype_get(layout->dtype);
    uint64_t bytes = t->block_bytes;
    if (layout->planes[0].bytes) {
        bytes = 0;
        for (int i = 0; i < WEIGHT_MAX_PLANES; i++)
            bytes += layout->planes[i].bytes;
    }
    if (!dgl_mul_u64(dgl_div_up_u64(cols, t->block), bytes, &bytes) ||
        !dgl_align_u64(bytes, unit, &bytes))
        return false;
    *words = bytes / 4;
    return true;
}
