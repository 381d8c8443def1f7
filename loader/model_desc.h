/*
 * model_desc.h: what a model is, in explicit fields. Filled from config.json and from which tensors
 * are present; nothing downstream looks at names or families. Shapes of every tensor are checked
 * against it before any upload.
 */
#ifndef DGL_LOADER_MODEL_DESC_H
#define DGL_LOADER_MODEL_DESC_H

#include "core/base/json.h"
#include "loader/tensor_source.h"

#define MODEL_MAX_STOP_IDS 32
#define TENSOR_NONE        (-1L)

enum model_act { MODEL_ACT_SILU };
enum rope_kind { ROPE_DEFAULT };

/* Rotary embedding: pairs (i, i + dims/2), angle = pos * inv_freq[i], cos and sin multiplied by
 * `scale`. */
struct rope_desc {
    enum rope_kind kind;
    double theta;
    int32_t dims; /* rotated values per head, even */
    double scale;
};

/* Tensor indices in the source; TENSOR_NONE = absent. Shapes [rows, cols]. */
struct layer_desc {
    long attn_norm; /* [hidden] */
    long q, k, v;   /* [heads*head_dim, hidden], [kv_heads*head_dim, hidden] x2 */
    long q_bias, k_bias, v_bias, o_bias;
    long o;              /* [hidden, heads*head_dim] */
    long ffn_norm;       /* [hidden] */
    long gate, up, down; /* [intermediate, hidden] x2, [hidden, intermediate] */
};

struct model_desc {
    char family[32]; /* "llama" */
    int32_t layers, hidden, intermediate, vocab, heads, kv_heads, head_dim, context_max;
    double norm_eps;
    double attn_scale; /* multiplies q.k: 1/sqrt(head_dim) unless the config says otherwise */
    enum model_act act;
    struct rope_desc rope;
    bool tied_head;               /* the embedding table is the head */
    long embed, head, final_norm; /* [vocab, hidden] x2 (head = embed when tied), [hidden] */
    struct layer_desc *layer;     /* [layers] */
    int32_t bos_id;               /* -1 = none */
    struct dgl_stop_id
        stop_ids[MODEL_MAX_STOP_IDS]; /* union of config and generation_config, ascending */
    size_t num_stop_ids;
    uint64_t parameters, weight_bytes; /* of the tensors that are used; a tied head counts once */
};

/* Reads a Hugging Face config (both dialects; one alias table; two aliases that disagree are an
 * error; unknown model type, activation, rope type, layer type or quantisation scheme is
 * DGL_ERR_UNSUPPORTED naming field and value). Binds every tensor of `src` exactly once or
 * reports it: derived buffers and a tied duplicate go to `skipped`. */
struct model_desc_input {
    struct dgl_json_reader config; /* root must be an object */
    const struct dgl_json *config_root;
    const struct dgl_json_doc *generation_config; /* NULL = none */
    const struct tensor_source *tensors;
    bool config_only; /* no tensors yet: check the config alone, leave indices to model_bind() */
};
struct model_skipped {
    char **lines; /* "model.layers.0.self_attn.rotary_emb.inv_freq: derived buffer" */
    size_t count;
};
enum dgl_status model_desc_init(const struct dgl_log *log, const struct model_desc_input *in,
                                struct model_desc *out, struct model_skipped *skipped);
void model_desc_finish(struct model_desc *desc);
void model_skipped_finish(struct model_skipped *skipped);

#endif
