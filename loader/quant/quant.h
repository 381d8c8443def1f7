/* Block formats on the host: exact decoders, and encoders with a search. Bit formats are ggml's
 * (docs/formats.md). */
#ifndef DGL_LOADER_QUANT_H
#define DGL_LOADER_QUANT_H

#include "loader/quant/dtype.h"

/* IEEE half and bfloat16: round to nearest even, NaN becomes quiet. */
uint16_t dgl_f32_to_f16(float value);
float dgl_f16_to_f32(uint16_t bits);
uint16_t dgl_f32_to_bf16(float value);
float dgl_bf16_to_f32(uint16_t bits);

/* Decodes one row of `cols` values exactly. `src` has dgl_dtype_row_bytes() bytes. Returns false if
 * the type has no decoder. */
bool dgl_row_decode(enum dgl_dtype type, const void *src, uint64_t cols, float *dst);
/* Encodes one row. The padding of the last block is zeros and does not influence the scales.
 * Returns false if the type has no encoder. */
bool dgl_row_encode(enum dgl_dtype type, const float *src, uint64_t cols, void *dst);

/* Encodes like dgl_row_encode(), but without searching for the best codes: several times faster,
 * less exact. */
bool dgl_row_encode_fast(enum dgl_dtype type, const float *src, uint64_t cols, void *dst);

bool dgl_row_decodable(enum dgl_dtype type);
bool dgl_row_encodable(enum dgl_dtype type);
/* Returns the largest magnitude, of either sign, that the encoder of `type` represents, or
 * infinity. */
double dgl_row_limit(enum dgl_dtype type);

#endif
