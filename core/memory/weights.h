/*
 * weights.h: a model's weights on the device. Matrices are streamed in row bands: no band is larger
 * than one SSBO binding may be, rows are packed as the kernels' LAYOUT wants them, and matrices
 * that one dispatch reads (q, k and v; gate and up) become one. Vectors become f32, ready to
 * multiply with or to add.
 */
#ifndef DGL_CORE_WEIGHTS_H
#define DGL_CORE_WEIGHTS_H

#include "core/memory/engine.h"
#include "loader/model/model_file.h"

/* Rows [row0, row0 + rows) of a weight, in one format, at one place. */
struct weight_band {
    enum dgl_dtype dtype;
    struct gl_range range;
    uint32_t row0, rows;
    uint32_t row_words; /* length of a packed row in 32-bit words */
    uint32_t chunk;     /* index of range.buffer in model_weights.buffers */
};

/* One matrix as operations see it: [rows, cols]. */
struct weight {
    uint64_t rows, cols;
    struct weight_band *bands;
    uint32_t num_bands;
    /* Vectors that one binding holds, f32: the gain [cols, padded to a multiple of 4] of the norm
     * in front of the matrix if there is one, then the matrix's bias [rows] if it has one. */
    struct gl_range vectors;
    bool has_gain, has_bias;
    /* Behind a band's rows lies an f32 bias for each, all of it padded to a multiple of 16 bytes.
     */
    bool bias_behind;
};

struct layer_weights {
    struct weight qkv;     /* [(heads + 2 kv_heads) * head_dim, hidden]: q rows, k rows, v rows */
    struct weight o;       /* [hidden, heads * head_dim] */
    struct weight gate_up; /* [2 * intermediate, hidden]: gate 0, up 0, gate 1, up 1 ... */
    struct weight down;    /* [hidden, intermediate] */
    /* Instead of the last two in a layer of experts; all experts one below the other. */
    struct weight router;         /* [experts, hidden] */
    struct weight expert_gate_up; /* [experts * 2 * intermediate, hidden], each as gate_up */
    struct weight expert_down;    /* [experts * hidden, intermediate] */
    struct gl_range qk_norm;      /* gains of q, then of k */
    struct gl_range sinks;        /* [heads] */
    struct gl_range attn_post_norm, ffn_post_norm; /* gains [hidden], residual_scale included */
};

struct model_weights {
    struct weight embed, head;   /* head.bands == embed.bands when tied; head.vectors: final norm */
    struct layer_weights *layer; /* [num_layers] */
    uint32_t num_layers;
    struct gl_buffer **buffers;
    uint32_t num_buffers;
    uint64_t bytes; /* on the device */
};

/* Packing that the chosen kernels expect, by dtype; "" = a format without a kernel, whose weights
 * are held as the wider type with the same values (dgl_dtype_wider()) if that one has kernels, else
 * expanded to f16. */
struct weight_layouts {
    char name[DGL_DTYPE_COUNT][32];
};

struct weights_params {
    struct dgl_device *dev;
    const struct model_desc *desc;
    const struct tensor_source *tensors;
    const struct weight_layouts *layouts;
    enum dgl_dtype
        q4_k_as; /* DGL_Q4_K, or the format that Q4_K is expanded to at load (a kernel hint) */
    /* Not NULL: matrices are made on the device by this function instead of being read (synthetic
     * models). */
    enum dgl_status (*fill)(void *ctx, const struct weight *weight, const struct weight_band *band);
    void *fill_ctx;
    dgl_progress_cb progress_cb;
    void *progress_priv;
};

/* The format that weights stored as `stored` have on the device. */
enum dgl_dtype weights_device_dtype(const struct weight_layouts *layouts, enum dgl_dtype q4_k_as,
                                    enum dgl_dtype stored);

/* Device bytes that weights_create() will allocate; host arithmetic only. */
enum dgl_status weights_estimate(const struct weights_params *params, uint64_t *bytes);
/* On failure nothing is left on the device. */
enum dgl_status weights_create(const struct weights_params *params, struct model_weights *out);
void weights_finish(struct dgl_device *dev, struct model_weights *weights);

#endif
