/* Cases of rope_kv, attn_prefill, attn_decode and attn_token from one table of shapes. */
#ifndef DGL_TESTS_ATTN_CASE_H
#define DGL_TESTS_ATTN_CASE_H

#include "tests/support/kernel_walk.h"

/* tokens = 0: decode. */
struct attn_shape {
    uint32_t heads, kv_heads, head_dim, rope_dims, tokens, pos, splits;
    uint32_t pad;  /* columns between rows, prefill */
    uint32_t loud; /* query scale; 0 counts as 1 */
    bool louder;   /* rope_scale 1.25 instead of 1 */
    uint32_t window, softcap;
    bool sinks; /* prefill, and decode with the whole result */
    enum attn_norm { ATTN_NORM_NONE, ATTN_NORM_HEAD, ATTN_NORM_ALL } norm; /* as sinks in decode */
};

struct attn_row {
    const char *name;
    struct attn_shape shape;
    bool kv_f16, limits_min;
};

struct kernel_case attn_case(const struct attn_row *row, const char *op);

/* Runs the row on every kernel of the walk's operation. Skips without a bench. */
void attn_judge(const struct attn_row *row, struct kernel_bench *bench, struct kernel_walk *walk);

#endif
