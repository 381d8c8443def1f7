/* Block formats on the host: exact decoders, and encoders that search. Bit formats are ggml's
 * (docs/formats.md). */
#ifndef DGL_LOADER_QUANT_H
#define DGL_LOADER_QUANT_H

#include "loader/dtype.h"

/* IEEE half and bfloat16, round to nearest even, NaN kept quiet. */
uint16_t dgl_f32_to_f16(float value);
float dgl_f16_to_f32(uint16_t bits);
uint16_t dgl_f32_to_bf16(float value);
float dgl_bf16_to_f32(uint16_t bits);

/* One row of `cols` values: `src` holds dgl_dtype_row_bytes() bytes. Exact. False: type has no
 * decoder. */
bool dgl_row_decode(enum dgl_dtype type, const void *src, uint64_t cols, float *dst);
/* The padding of the last block is encoded as zeros and never influences the scales' quality. */
bool dgl_row_encode(enum dgl_dtype type, const float *src, uint64_t cols, void *dst);

#endif
