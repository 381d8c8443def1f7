/* The table of element types. */
#include "loader/quant/dtype.h"

#include <string.h>
#include <strings.h>

#include "core/base/checked.h"

static const struct dgl_dtype_traits dtype_traits[DGL_DTYPE_COUNT] = {
    [DGL_F32] = {"f32", "F32", "F32", 1, 4},
    [DGL_F16] = {"f16", "F16", "F16", 1, 2},
    [DGL_BF16] = {"bf16", "BF16", "BF16", 1, 2},
    [DGL_U8] = {"u8", "U8", "U8", 1, 1},
    [DGL_I64] = {"i64", "I64", "I64", 1, 8},
    [DGL_Q8_0] = {"q8_0", "Q8_0", NULL, 32, 34},
    [DGL_Q4_K] = {"q4_k", "Q4_K_M", NULL, 256, 144},
    [DGL_Q4_0] = {"q4_0", "Q4_0", NULL, 32, 18},
    [DGL_Q4_1] = {"q4_1", "Q4_1", NULL, 32, 20},
    [DGL_Q5_0] = {"q5_0", "Q5_0", NULL, 32, 22},
    [DGL_Q5_1] = {"q5_1", "Q5_1", NULL, 32, 24},
    [DGL_Q2_K] = {"q2_k", "Q2_K", NULL, 256, 84},
    [DGL_Q3_K] = {"q3_k", "Q3_K", NULL, 256, 110},
    [DGL_Q5_K] = {"q5_k", "Q5_K", NULL, 256, 176},
    [DGL_Q6_K] = {"q6_k", "Q6_K", NULL, 256, 210},
    [DGL_MXFP4] = {"mxfp4", "MXFP4", NULL, 32, 17},
    [DGL_IQ4_NL] = {"iq4_nl", "IQ4_NL", NULL, 32, 18},
    [DGL_IQ4_XS] = {"iq4_xs", "IQ4_XS", NULL, 256, 136},
    [DGL_IQ1_S] = {"iq1_s", "IQ1_S", NULL, 256, 50},
    [DGL_IQ1_M] = {"iq1_m", "IQ1_M", NULL, 256, 56},
    [DGL_IQ2_XXS] = {"iq2_xxs", "IQ2_XXS", NULL, 256, 66},
    [DGL_IQ2_XS] = {"iq2_xs", "IQ2_XS", NULL, 256, 74},
    [DGL_IQ2_S] = {"iq2_s", "IQ2_S", NULL, 256, 82},
    [DGL_IQ3_XXS] = {"iq3_xxs", "IQ3_XXS", NULL, 256, 98},
    [DGL_IQ3_S] = {"iq3_s", "IQ3_S", NULL, 256, 110},
    [DGL_TQ1_0] = {"tq1_0", "TQ1_0", NULL, 256, 54},
    [DGL_TQ2_0] = {"tq2_0", "TQ2_0", NULL, 256, 66},
    [DGL_Q1_0] = {"q1_0", "Q1_0", NULL, 128, 18},
    [DGL_Q2_0] = {"q2_0", "Q2_0", NULL, 64, 18},
};

const struct dgl_dtype_traits *dgl_dtype_get(enum dgl_dtype type)
{
    return &dtype_traits[type];
}

static bool spelling_eq(const char *spelling, const char *text, size_t len)
{
    return spelling && strlen(spelling) == len && strncasecmp(spelling, text, len) == 0;
}

bool dgl_dtype_parse(const char *text, size_t len, enum dgl_dtype *out)
{
    for (int i = 0; i < DGL_DTYPE_COUNT; i++) {
        const struct dgl_dtype_traits *t = &dtype_traits[i];
        if (!t->rdrr)
            continue;
        if (spelling_eq(t->name, text, len) || spelling_eq(t->rdrr, text, len) ||
            spelling_eq(t->safetensors, text, len)) {
            *out = (enum dgl_dtype)i;
            return true;
        }
    }
    return false;
}

bool dgl_dtype_row_bytes(enum dgl_dtype type, uint64_t cols, uint64_t *out)
{
    const struct dgl_dtype_traits *t = &dtype_traits[type];
    return dgl_mul_u64(dgl_div_up_u64(cols, t->block), t->block_bytes, out);
}

bool dgl_dtype_tensor_bytes(enum dgl_dtype type, uint32_t rank, const uint64_t *shape,
                            uint64_t *out)
{
    uint64_t bytes;
    if (!dgl_dtype_row_bytes(type, rank > 0 ? shape[rank - 1] : 1, &bytes))
        return false;
    for (uint32_t i = 0; i + 1 < rank; i++) {
        if (!dgl_mul_u64(bytes, shape[i], &bytes))
            return false;
    }
    *out = bytes;
    return true;
}
