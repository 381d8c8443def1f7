/*
 * model_desc.h: explicit description of a model. It comes from config.json and from the tensors
 * that are present; code after the loader never looks at names or families. The shapes of all
 * tensors are checked against it before any upload.
 */
#ifndef DGL_LOADER_MODEL_DESC_H
#define DGL_LOADER_MODEL_DESC_H

#include "loader/desc/fields.h"
#include "loader/tensor/tensor_source.h"

#define MODEL_MAX_STOP_IDS 32
#define TENSOR_NONE        (-1L)

enum model_act {
    MODEL_ACT_SILU,        /* x / (1 + exp(-x)) */
    MODEL_ACT_GELU_TANH,   /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    MODEL_ACT_SWIGLU_CLAMP /* GPT-OSS: g = min(g, limit), u = clamp(u, -limit, limit),
                              g / (1 + exp(-alpha g)) * (u + 1) */
};

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_DYNAMIC, ROPE_YARN, ROPE_LLAMA3, ROPE_LONGROPE };

/* Rotary embedding: pairs (i, i + dims/2), angle = pos * inv_freq[i], cos and sin multiplied by the
 * attention factor. rope_freq.h computes both from these fields, as Hugging Face's
 * modeling_rope_utils does. `kind` decides which fields are used. */
struct rope_desc {
    enum rope_kind kind;
    double theta;
    int32_t dims;             /* rotated values per head, even */
    double scale;             /* attention factor, including those of longrope and yarn */
    double factor;            /* linear, dynamic, yarn, llama3, longrope */
    int32_t original_context; /* yarn, llama3, longrope; dynamic: longer sequences raise the base */
    double low_freq, high_freq;         /* llama3 */
    double beta_fast, beta_slow;        /* yarn */
    bool truncate;                      /* yarn: round the ends of the ramp to whole dimensions */
    double *short_factor, *long_factor; /* longrope: [dims/2] each, owned by the description */
};

enum { ROPE_GLOBAL, ROPE_LOCAL, ROPE_SETS, ROPE_NONE = -1 };

/* The expert matrices of one layer: one tensor [experts, rows, cols], or one tensor [rows, cols]
 * per expert. */
struct expert_tensors {
    long stacked; /* TENSOR_NONE if each expert has its own tensor */
    long *each;   /* [experts], owned by the description; NULL if stacked or without experts */
};

/* Tensor indices in the source; TENSOR_NONE = absent. Shapes [rows, cols]. The engine computes only
 * the parts whose tensors are present. */
struct layer_desc {
    bool sparse;    /* the MLP is a mixture of experts, according to the config */
    int32_t window; /* number of keys that a query sees, including its own; 0 = all before it */
    int32_t rope;   /* index into model_desc.rope; ROPE_NONE = no rotation */
    long attn_norm; /* [hidden]; absent: attention reads the residual stream directly */
    long q, k, v;   /* [heads*head_dim, hidden], [kv_heads*head_dim, hidden] x2 */
    long qkv;       /* instead of these: q rows, k rows, v rows */
    long q_bias, k_bias, v_bias, o_bias;
    long q_norm, k_norm; /* RMS norm before the rotation: [head_dim] per head, or
                            [heads*head_dim], [kv_heads*head_dim] over all heads at once */
    long sinks;          /* [heads]: an additional logit in each head's softmax, without a value */
    long o;              /* [hidden, heads*head_dim] */
    long attn_post_norm; /* [hidden], for attention's output before it is added to the stream */
    long ffn_norm;       /* [hidden]; absent: as attn_norm */
    long gate, up, down; /* [intermediate, hidden] x2, [hidden, intermediate] */
    long gate_up;        /* instead of gate and up: gate rows, then up rows */
    long gate_bias, up_bias, down_bias;
    long ffn_post_norm; /* [hidden] */
    /* Mixture of experts instead of gate, up, down; present if `router` is. */
    long router, router_bias;                                  /* [experts, hidden], [experts] */
    struct expert_tensors expert_gate, expert_up, expert_down; /* as gate, up, down */
    struct expert_tensors expert_gate_up; /* instead of two: rows gate 0, up 0, gate 1, ... */
    /* [experts, 2*intermediate], interleaved like the matrix; [experts, hidden] */
    long expert_gate_up_bias, expert_down_bias;
};

/* How the logits of a router become weights. */
enum moe_scoring {
    MOE_TOPK_SOFTMAX,     /* select, then softmax over the selected (Mixtral, GPT-OSS) */
    MOE_SOFTMAX_TOPK,     /* softmax over all, then select (Qwen3-MoE, norm_topk_prob false) */
    MOE_SOFTMAX_TOPK_NORM /* the same, then divided by the sum of the selected */
};

struct moe_desc {
    int32_t experts, top_k; /* 0 = a dense model */
    int32_t intermediate;   /* per expert */
    enum moe_scoring scoring;
};

/* Tensors that the config promises: model_bind() requires these and refuses others. The engine
 * checks presence instead. */
enum model_part {
    PART_PRE_NORM = 1 << 0,  /* norms before attention and before the MLP */
    PART_POST_NORM = 1 << 1, /* norms after them */
    PART_QKV_BIAS = 1 << 2,
    PART_O_BIAS = 1 << 3,
    PART_MLP_BIAS = 1 << 4,
    PART_HEAD_NORM = 1 << 5, /* q_norm and k_norm, per head */
    PART_WIDE_NORM = 1 << 6, /* the same, over all heads together */
    PART_SINKS = 1 << 7,
    PART_EXPERTS_MIXTRAL = 1 << 8,  /* block_sparse_moe.experts.N.w1, w3, w2 */
    PART_EXPERTS_QWEN = 1 << 9,     /* mlp.experts.N.gate_proj, up_proj, down_proj */
    PART_EXPERTS_GPT_OSS = 1 << 10, /* mlp.experts.gate_up_proj and down_proj, with biases */
    PART_OTHER_MODES = 1 << 11      /* the language part of a multimodal checkpoint */
};

struct model_desc {
    char family[32]; /* "llama"; for multimodal checkpoints that of the language part */
    uint32_t parts;  /* enum model_part */
    int32_t layers, hidden, intermediate, vocab, heads, kv_heads, head_dim, context_max;
    double norm_eps;
    bool norm_plus_one;    /* every norm multiplies by 1 + its weight (Gemma) */
    double attn_scale;     /* multiplies q.k; 1/sqrt(head_dim) by default */
    double attn_softcap;   /* s -> cap * tanh(s / cap) on scaled scores; 0 = no cap */
    double logit_softcap;  /* the same on logits; 0 = no cap */
    double embed_scale;    /* multiplies embeddings */
    double residual_scale; /* multiplies the outputs of attention and MLP */
    double logit_scale;    /* multiplies logits, before the softcap */
    enum model_act act;
    double act_alpha, act_limit;      /* MODEL_ACT_SWIGLU_CLAMP */
    struct rope_desc rope[ROPE_SETS]; /* ROPE_LOCAL: only used if a layer selects it */
    struct moe_desc moe;
    bool tied_head; /* the embedding table is the head */
    bool no_head;   /* the checkpoint of a base model has no head: only hidden states are usable.
                     `head` is then `embed`, so that the engine needs no other case. */
    long embed, head, final_norm; /* [vocab, hidden] x2 (head = embed when tied), [hidden] */
    struct layer_desc *layer;     /* [layers] */
    int32_t bos_id;               /* -1 if missing */
    struct dgl_stop_id
        stop_ids[MODEL_MAX_STOP_IDS]; /* union of config and generation_config, ascending */
    size_t num_stop_ids;
    uint64_t parameters, weight_bytes; /* of all used tensors; a tied head counts once */
};

/* Reads the fields of a Hugging Face config, in both dialects. Two aliases that disagree are an
 * error. An unknown model type, activation, rope type, layer type or quantisation scheme is
 * DGL_ERR_UNSUPPORTED; the message has field and value. Binds every tensor of `src` exactly once or
 * reports it: derived buffers and a tied duplicate are added to `skipped`. */
struct model_desc_input {
    const struct fields *config;            /* a base must be an object */
    const struct fields *generation_config; /* may be NULL */
    const struct tensor_source *tensors;
    bool config_only; /* check the config alone; model_bind() sets the indices later */
};
/* Tensors and parts that are not used. For packs, those that the conversion omitted come first. */
struct model_skipped {
    char **lines; /* "model.layers.0.self_attn.rotary_emb.inv_freq: derived buffer", or a group:
                     "vision_tower.*: not part of the text model (tensors: 437)" */
    size_t count;
    bool *of_tensor; /* [tensors of the source]: it is not used; NULL before binding */
};
enum dgl_status model_desc_init(const struct dgl_log *log, const struct model_desc_input *in,
                                struct model_desc *out, struct model_skipped *skipped);
void model_desc_finish(struct model_desc *desc);
/* Adds a line. Consumes the text of `line`, also on failure. */
enum dgl_status model_skipped_add(const struct dgl_log *log, struct model_skipped *skipped,
                                  struct dgl_buf *line);
void model_skipped_finish(struct model_skipped *skipped);

#endif
