/* Element types of tensors in files and on the device: one table of traits. */
#ifndef DGL_LOADER_DTYPE_H
#define DGL_LOADER_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The block formats have ggml's bytes. MXFP4: the exponent byte, then byte j with value j low and
 * value j + 16 high. Checkpoints store their tensors in another order. */
enum dgl_dtype {
    DGL_F32,
    DGL_F16,
    DGL_BF16,
    DGL_U8,
    DGL_I64,
    DGL_Q8_0,
    DGL_Q4_K,
    DGL_Q4_0,
    DGL_Q4_1,
    DGL_Q5_0,
    DGL_Q5_1,
    DGL_Q2_K,
    DGL_Q3_K,
    DGL_Q5_K,
    DGL_Q6_K,
    DGL_MXFP4,
    DGL_IQ4_NL,
    DGL_IQ4_XS,
    DGL_IQ1_S,
    DGL_IQ1_M,
    DGL_IQ2_XXS,
    DGL_IQ2_XS,
    DGL_IQ2_S,
    DGL_IQ3_XXS,
    DGL_IQ3_S,
    DGL_TQ1_0,
    DGL_TQ2_0,
    DGL_Q1_0,
    DGL_Q2_0,
    DGL_DTYPE_COUNT
};

struct dgl_dtype_traits {
    const char *name;        /* lower case: kernels' `weight` attribute, messages */
    const char *rdrr;        /* "F32", "Q4_K_M": in manifests; NULL = not in files */
    const char *safetensors; /* "F32"; NULL = not in that format */
    uint32_t block;          /* values per block (1, 32, 256) */
    uint32_t block_bytes;    /* bytes per block */
};
const struct dgl_dtype_traits *dgl_dtype_get(enum dgl_dtype type);
/* Parses any of the three spellings of a file type, ignoring case. Returns false if it is
 * unknown. */
bool dgl_dtype_parse(const char *text, size_t len, enum dgl_dtype *out);
/* Computes the bytes of one row of `cols` values, padded to whole blocks. Returns false on
 * overflow. */
bool dgl_dtype_row_bytes(enum dgl_dtype type, uint64_t cols, uint64_t *out);
/* Computes the bytes of a tensor. Rows (the last dimension) are padded to whole blocks; rank 0 is
 * one value. Returns false on overflow. */
bool dgl_dtype_tensor_bytes(enum dgl_dtype type, uint32_t rank, const uint64_t *shape,
                            uint64_t *out);

#endif
