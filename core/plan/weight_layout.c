/* The table of layouts and the lengths of their rows. */
#include "core/plan/weight_layout.h"

#include <string.h>

#include "core/base/checked.h"

static const struct weight_layout layouts[] = {
    {.dtype = DGL_F32, .name = "native"},          {.dtype = DGL_F16, .name = "native"},
    {.dtype = DGL_BF16, .name = "native"},         {.dtype = DGL_Q4_K, .name = "native"},
    {.dtype = DGL_Q5_K, .name = "native"},         {.dtype = DGL_AFFINE, .name = "native"},
    {DGL_Q8_0, "split", 32, 34, 2, 32, 0, 2},      {DGL_Q4_0, "split", 32, 18, 2, 16, 0, 2},
    {DGL_MXFP4, "split", 32, 17, 1, 16, 0, 1},     {DGL_Q6_K, "split", 256, 210, 0, 208, 208, 2},
    {DGL_Q4_K, "split", 256, 144, 16, 128, 0, 16},
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
    uint64_t bytes, padded;
    if (layout->values == 0) {
        if (!dgl_dtype_row_bytes(layout->dtype, cols, &bytes))
            return false;
        *words = dgl_div_up_u64(bytes, 4);
        return true;
    }
    if (!dgl_align_u64(cols, WEIGHT_SPLIT_COLS, &padded) ||
        !dgl_mul_u64(padded / layout->values, layout->bytes, &bytes) ||
        !dgl_align_u64(bytes, WEIGHT_SPLIT_BYTES, &bytes))
        return false;
    *words = bytes / 4;
    return true;
}
