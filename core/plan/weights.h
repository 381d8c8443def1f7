/*
 * weights.h: the placement of a model's weights on the device, planned before any allocation.
 * Matrices are cut into row bands. A band has one type, is not larger than one storage binding, and
 * its rows are packed in the layout of its kernels. Matrices that one dispatch reads (q, k and v;
 * gate and up) are merged. Vectors become f32, ready to multiply with or to add.
 */
#ifndef DGL_CORE_WEIGHTS_H
#define DGL_CORE_WEIGHTS_H

#include "core/plan/plan_device.h"
#include "core/plan/weight_layout.h"
#include "loader/desc/model_desc.h"

/* Bytes [offset, offset + size) of a buffer for weights. */
struct weight_place {
    uint32_t buffer;
    uint64_t offset, size;
};

/* Rows [row0, row0 + rows) of a weight. */
struct weight_band {
    enum dgl_dtype dtype;
    const struct weight_layout *layout;
    struct weight_place place;
    uint32_t row0, rows;
    uint32_t row_words; /* length of a packed row in 32-bit words */
};

/* One matrix as operations see it: [rows, cols]. */
struct weight {
    uint32_t id; /* index in model_weights.matrices */
    uint64_t rows, cols;
    struct weight_band *bands;
    uint32_t num_bands;
    /* A vector: the weight [cols, padded to a multiple of 4] of the norm before the matrix, if it
     * has one, then the bias [rows], if it has one. */
    uint32_t vector;
    bool has_norm, has_bias;
    bool of_experts; /* expert weights: a dispatch reads a few experts, not a whole band */
    bool row_pairs;  /* rows 2i and 2i + 1 are one feature: one type, even bands */
    /* Tensor with a bias for each row, or TENSOR_NONE. A band's rows are followed by its biases in
     * f32, padded to a multiple of 16 bytes in total. */
    long band_bias;
    size_t first_slice, num_slices; /* of model_weights.slices: the rows, each once */
};

/* Rows [from, from + count) of a tensor become rows to, to + step, to + 2 step ... of a weight. */
struct weight_slice {
    long tensor;
    uint64_t from, count, to;
    uint32_t step; /* 1, or 2 if two slices alternate */
};

/* f32 values of one binding. Values outside of all slices are 0. */
struct weight_vector {
    uint64_t count;
    struct weight_place place;
    size_t first_slice, num_slices; /* of model_weights.vector_slices */
};

/* A tensor's values v at floats at, at + step ... of a vector, as scale * (v + add). */
struct weight_vector_slice {
    long tensor;
    uint64_t count, at;
    uint32_t step;
    double add, scale;
};

#define VECTOR_NONE 0 /* model_weights.vectors[0] is empty */

struct layer_weights {
    struct weight qkv;     /* [(heads + 2 kv_heads) * head_dim, hidden]: q rows, k rows, v rows */
    struct weight o;       /* [hidden, heads * head_dim] */
    struct weight gate_up; /* [2 * intermediate, hidden]: gate 0, up 0, gate 1, up 1 ... */
    struct weight down;    /* [hidden, intermediate] */
    /* A layer of experts has these matrices instead of gate_up and down. All experts are
     * stacked. */
    struct weight router;         /* [experts, hidden] */
    struct weight expert_gate_up; /* [experts * 2 * intermediate, hidden], each as gate_up */
    struct weight expert_down;    /* [experts * hidden, intermediate] */
    /* Vectors */
    uint32_t qk_norm;                       /* norm weights of q, then of k */
    uint32_t sinks;                         /* [heads] */
    uint32_t attn_post_norm, ffn_post_norm; /* norm weights [hidden], residual_scale included */
};

struct model_weights {
    struct weight embed, head;   /* tied: head has embed's id and bands, but its own vector */
    struct layer_weights *layer; /* [num_layers] */
    uint32_t num_layers;
    struct weight **matrices; /* every weight except a tied head, in the order of use */
    size_t num_matrices, cap_matrices;
    struct weight_slice *slices;
    size_t num_slices, cap_slices;
    struct weight_vector *vectors;
    size_t num_vectors, cap_vectors;
    struct weight_vector_slice *vector_slices;
    size_t num_vector_slices, cap_vector_slices;
    uint64_t *buffer_bytes; /* [num_buffers], how full each is */
    size_t num_buffers, cap_buffers;
    uint64_t bytes;    /* of all buffers */
    bool failed;       /* out of memory while listing */
    bool expands_q4_k; /* a hint expands q4_k tensors to another type */
};

/* Lists every matrix and vector that the description names. `out` must not move afterwards. On
 * failure it is empty. */
enum dgl_status weights_list(const struct dgl_log *log, const struct model_desc *desc,
                             const struct tensor_source *tensors, struct model_weights *out);
void weights_finish(struct model_weights *weights);

/* Returns f16 or f32 if q4_k matrices are expanded, else DGL_Q4_K. */
enum dgl_dtype weights_q4_k_dtype(const struct kernel_set *set);

/* Parameters of weights_place() and of plan_init(), which takes its own reference to the set. */
struct plan_params {
    const struct plan_device *device;
    struct kernel_set *set;
    const struct model_desc *desc;
    const struct tensor_source *tensors;
    enum dgl_kv_type kv_type;
};
/* Lists the weights, chooses type and layout of each by the kernels of its decode operations, then
 * cuts bands and places everything. Returns DGL_ERR_UNSUPPORTED if no kernel reads a weight. The
 * caller calls weights_finish(), also on failure. `out` must not move afterwards. */
enum dgl_status weights_place(struct model_weights *out, const struct plan_params *params);
/* `buffer` is a buffer of `to`, another placement of the same model. Returns the buffer of `from`
 * with the same contents (same bands and vectors, same offsets), or SIZE_MAX if there is none. */
size_t weights_same_buffer(const struct model_weights *from, const struct model_weights *to,
                           size_t buffer);

#endif
