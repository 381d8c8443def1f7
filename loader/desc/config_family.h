/*
 * config_family.h: defaults of config.json by model_type. Hugging Face's configuration classes fill
 * missing fields with their own defaults, which differ by family. This is the table of these
 * defaults. A field of the file overrides any of them.
 */
#ifndef DGL_LOADER_CONFIG_FAMILY_H
#define DGL_LOADER_CONFIG_FAMILY_H

#include "loader/desc/config_alias.h"
#include "loader/desc/model_desc.h"

/* One bit per row of the table: families that read a field (config_check.c). FAMILY_OUTER is the
 * object around a text_config. */
enum family_bit {
    FAMILY_LLAMA = 1 << 0,
    FAMILY_MISTRAL = 1 << 1,
    FAMILY_QWEN2 = 1 << 2,
    FAMILY_QWEN3 = 1 << 3,
    FAMILY_GEMMA2 = 1 << 4,
    FAMILY_GEMMA3 = 1 << 5,
    FAMILY_PHI3 = 1 << 6,
    FAMILY_MIXTRAL = 1 << 7,
    FAMILY_QWEN3_MOE = 1 << 8,
    FAMILY_GPT_OSS = 1 << 9,
    FAMILY_OLMO2 = 1 << 10,
    FAMILY_SMOLLM3 = 1 << 11,
    FAMILY_GRANITE = 1 << 12,
    FAMILY_OUTER = 1 << 13,
};

/* Layers that have the sliding window, unless layer_types lists them. */
enum window_rule {
    WINDOW_NEVER,
    WINDOW_EVERY,
    WINDOW_FROM,    /* from layer max_window_layers on */
    WINDOW_PATTERN, /* all except every sliding_window_pattern-th */
    WINDOW_NO_ROPE  /* layers without rotation */
};

enum { KV_AS_HEADS = -1 }; /* as many key-value heads as heads */

enum { FAMILY_CLASSES = 3 };

struct config_family {
    const char *model_type;
    const char *classes[FAMILY_CLASSES]; /* names of this model in `architectures` */
    uint32_t bit;                        /* enum family_bit */
    uint32_t parts;                      /* enum model_part, before any field adds to it */

    /* Sizes; 0 = the file must have the field. */
    int32_t hidden, layers, intermediate, vocab, context, heads;
    int32_t kv_heads; /* or KV_AS_HEADS */
    int32_t head_dim; /* 0 = hidden / heads */

    double norm_eps;
    bool norm_plus_one, tied_head;
    enum model_act act;
    bool attn_bias;      /* attention_bias */
    double theta;        /* rope_theta */
    double local_theta;  /* rope_local_base_freq; 0 = one rotation for all layers */
    double query_scalar; /* query_pre_attn_scalar; 0 = head_dim */
    double attn_softcap, logit_softcap;
    bool embed_sqrt; /* embeddings are multiplied by sqrt(hidden) */

    enum window_rule window_rule;
    bool window_switch;     /* the window requires use_sliding_window */
    int32_t window;         /* sliding_window; 0 = null */
    int32_t window_pattern; /* sliding_window_pattern */

    int32_t experts, top_k, moe_intermediate; /* 0 experts = a dense family */
    enum moe_scoring scoring;
};

/* Returns NULL if the table lacks it. */
const struct config_family *config_family_find(const char *model_type);

/* Finds the family of a config. For a multimodal checkpoint, *inner is its text_config, else a copy
 * of *c. An unknown model_type is DGL_ERR_UNSUPPORTED, and the message lists the known ones. */
enum dgl_status config_family_read(const struct config *c, struct config *inner,
                                   const struct config_family **out);

#endif
