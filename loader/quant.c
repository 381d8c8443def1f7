/* Rows of any element type to floats and back: picks the codec. */
#include "loader/quant.h"

#include <string.h>

#include "loader/quant_block.h"

bool dgl_row_decode(enum dgl_dtype type, const void *src, uint64_t cols, float *dst)
{
    const uint8_t *bytes = src;
    switch (type) {
    case DGL_F32:
        memcpy(dst, src, (size_t)cols * sizeof(*dst));
        return true;
    case DGL_F16:
        for (uint64_t i = 0; i < cols; i++)
            dst[i] = dgl_f16_to_f32(load_u16(bytes + 2 * i));
        return true;
    case DGL_BF16:
        for (uint64_t i = 0; i < cols; i++)
            dst[i] = dgl_bf16_to_f32(load_u16(bytes + 2 * i));
        return true;
    case DGL_Q8_0:
        q8_0_row_decode(src, cols, dst);
        return true;
    case DGL_Q4_K:
        q4_k_row_decode(src, cols, dst);
        return true;
    case DGL_U8:
    case DGL_I64:
    case DGL_DTYPE_COUNT:
        break;
    }
    return false;
}

bool dgl_row_encode(enum dgl_dtype type, const float *src, uint64_t cols, void *dst)
{
    uint8_t *bytes = dst;
    switch (type) {
    case DGL_F32:
        memcpy(dst, src, (size_t)cols * sizeof(*src));
        return true;
    case DGL_F16:
        for (uint64_t i = 0; i < cols; i++)
            store_u16(bytes + 2 * i, dgl_f32_to_f16(src[i]));
        return true;
    case DGL_BF16:
        for (uint64_t i = 0; i < cols; i++)
            store_u16(bytes + 2 * i, dgl_f32_to_bf16(src[i]));
        return true;
    case DGL_Q8_0:
        q8_0_row_encode(src, cols, dst);
        return true;
    case DGL_Q4_K:
        q4_k_row_encode(src, cols, dst);
        return true;
    case DGL_U8:
    case DGL_I64:
    case DGL_DTYPE_COUNT:
        break;
    }
    return false;
}
