/*
 * config_family.h: what a config.json leaves unsaid, per model_type. Hugging Face's configuration
 * classes fill absent fields with their own defaults, which differ by family; this is the table of
 * them. Everything here can be overruled by a field of the file.
 */
#ifndef DGL_LOADER_CONFIG_FAMILY_H
#define DGL_LOADER_CONFIG_FAMILY_H

#include "loader/desc/config_alias.h"
#include "loader/desc/model_desc.h"

/* One bit per row of the table: which families read a field (config_check.c). FAMILY_OUTER is the
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

/* Which layers have the sliding window, unless layer_types says so. */
enum window_rule {
    WINDOW_NEVER,
    WINDOW_EVERY,
    WINDOW_FROM,    /* from layer max_window_layers on */
    WINDOW_PATTERN, /* all but every sliding_window_pattern-th */
    WINDOW_NO_ROPE  /* those whose positions do not count */
};

enum { KV_AS_HEADS = -1 }; /* as many key-value heads as heads */

enum { FAMILY_CLASSES = 2 };

struct config_family {
    const char *model_type;
    const char *classes[FAMILY_CLASSES]; /* names in `architectures` that mean this model */
    uint32_t bit;                        /* enum family_bit */
    uint32_t parts;                      /* enum model_part, before any field adds to it */

    /* Sizes; 0 = the file must say. */
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
    bool window_switch;     /* only when use_sliding_window is true */
    int32_t window;         /* sliding_window; 0 = null */
    int32_t window_pattern; /* sliding_window_pattern */

    int32_t experts, top_k, moe_intermediate; /* 0 experts = a dense family */
    enum moe_scoring scoring;
};

/* NULL when the table lacks it. */
const struct config_family *config_family_find(const char *model_type);

/* Finds the family of a config and enters the text_config of a checkpoint that also sees: *inner
 * is then that object, else the same as *c. An unknown model_type is DGL_ERR_UNSUPPORTED and
 * lists the known ones. */
enum dgl_status config_family_read(const struct config *c, struct config *inner,
                                   const struct config_family **out);

#endif
